"""Spaces made and emptied over the wire, by rows of the system spaces as Tarantool's own Lua makes them
(src/box/lua/schema.lua: box.schema.space.create, space:create_index, space:truncate)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headwater.client import statements
from headwater.client.pipe import Pipe, tuples_of
from headwater.errors import BoxError, Er
from headwater.kernels import mp_array_fields
from headwater.pipeline.dictionary import Dictionary, FieldFacts, SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.store import system
from headwater.typing import IteratorType
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack

__all__ = ["create", "find", "truncate"]

_TRIES = 20
_PAGE = 1000


def find(pipe: Pipe, name: str) -> SpaceFacts | None:
    """As the server shows it to the one who is logged in."""
    return Dictionary.fetch(pipe).find(name)


def create(
    pipe: Pipe, name: str, fields: Sequence[FieldFacts], key_fields: Sequence[int], engine: str = "memtx"
) -> SpaceFacts:
    """A space with a primary key; who finds that somebody else has just made it takes that one. BoxError."""
    owner = _own_id(pipe)
    format = [{"name": field.name, "type": field.type, "is_nullable": field.nullable} for field in fields]
    for _ in range(_TRIES):
        space_id = _free_id(pipe)
        row = [space_id, owner, name, engine, 0, {}, format]
        try:
            pipe.call(Type.INSERT, statements.insert(system.SPACE, pack(row)))
            break
        except BoxError as error:
            if error.code not in (Er.TUPLE_FOUND, Er.SPACE_EXISTS):
                raise
        found = find(pipe, name)
        if found is not None:
            return _with_key(pipe, found)
    else:
        raise PipelineError(f"No number is free for the space '{name}' at {pipe.uri}; others make spaces all the time.")
    parts = [[field, fields[field].type] for field in key_fields]
    try:
        index = [space_id, 0, "primary", "tree", {"unique": True}, parts]
        pipe.call(Type.INSERT, statements.insert(system.INDEX, pack(index)))
    except BoxError:
        pipe.call(Type.DELETE, statements.delete(system.SPACE, pack([space_id])))
        raise
    made = find(pipe, name)
    if made is None:
        raise PipelineError(f"The space '{name}' was made at {pipe.uri}, but its user does not see it: grant access.")
    return made


def _with_key(pipe: Pipe, found: SpaceFacts) -> SpaceFacts:
    """Whoever makes a space makes its key in a second request."""
    for _ in range(_TRIES):
        if found.key_fields:
            return found
        pipe.ballot()  # time passes
        found = find(pipe, found.name) or found
    return found


def _own_id(pipe: Pipe) -> int:
    """Of the user who is logged in."""
    name = pipe.uri.login or "guest"
    rows = pipe.tuples(statements.select(system.VUSER, 2, key=pack([name])))
    return int(unpack(rows[0])[0]) if rows else 0


def _free_id(pipe: Pipe) -> int:
    """Servers that count in `_schema` go on counting there; the others take the number behind the greatest one."""
    ops = [pack(["+", 1, 1])]
    answer = pipe.ask(Type.UPDATE, statements.update(system.SCHEMA, pack(["max_id"]), ops))
    counted = tuples_of(answer)
    if counted:
        return int(unpack(counted[0])[1])
    below = pack([system.TEMPORARY_ID_MIN])
    last = pipe.tuples(statements.select(system.VSPACE, iterator=IteratorType.LT, key=below, limit=1))
    return max(int(unpack(last[0])[0]) if last else 0, system.SYSTEM_ID_MAX) + 1


def truncate(pipe: Pipe, space: SpaceFacts) -> None:
    """All tuples at once where the user may do that; else one by one."""
    row, ops = pack([space.id, 1]), [pack(["+", 1, 1])]
    try:
        pipe.call(Type.UPSERT, statements.upsert(system.TRUNCATE, row, ops))
    except BoxError as error:
        if error.code != Er.ACCESS_DENIED:
            raise
        _empty(pipe, space)


def _empty(pipe: Pipe, space: SpaceFacts) -> None:
    everything = statements.select(space.id, iterator=IteratorType.ALL, limit=_PAGE)
    while rows := pipe.tuples(everything):
        first = pipe.number(len(rows))
        packets = [_delete(space, row, first + number) for number, row in enumerate(rows)]
        load = pipe.settle(pipe.post(packets, first, len(rows)))
        for error in load.errors.values():
            raise error


def _delete(space: SpaceFacts, row: bytes, sync: int) -> bytes:
    from headwater.wire import request

    borders = list(pairwise(mp_array_fields(row)))
    parts = [row[slice(*borders[field])] for field in space.key_fields]
    key = bytes((0x90 | len(parts),)) + b"".join(parts)
    return request.encode(Type.DELETE, sync, statements.delete(space.id, key))
