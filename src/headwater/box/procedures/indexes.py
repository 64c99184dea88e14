"""`create_index` and the methods of indexes that change their definition (schema.lua of 3.x)."""

from __future__ import annotations

from functools import partial
from typing import Any

from headwater.box.procedures import sequences
from headwater.box.procedures.arguments import check_options, illegal, lua_text, number_param, text_param
from headwater.box.procedures.context import Context
from headwater.box.procedures.describe import describe_index
from headwater.box.procedures.formats import (
    normalize_parts,
    part_field,
    part_type,
    plain_types,
    resolve_field,
    simplified,
)
from headwater.box.procedures.lookup import find_collation
from headwater.box.procedures.spaces import detach_sequence
from headwater.errors import Er, er
from headwater.store import system
from headwater.store.space import Space
from headwater.typing import IndexId, IteratorType

_INDEX_OPTIONS = {
    "unique": "boolean",
    "dimension": "number",
    "distance": "string",
    "run_count_per_level": "number",
    "run_size_ratio": "number",
    "range_size": "number",
    "page_size": "number",
    "bloom_fpr": "number",
    "func": "number, string",
    "hint": "boolean",
    "covers": "table",
    "layout": "string",
    "aggregates": "table",
}
"""Those that are stored in the map of `_index` (index_options)."""
_ALTER = _INDEX_OPTIONS | {
    "id": "number",
    "name": "string",
    "type": "string",
    "parts": "table",
    "sequence": "boolean, number, string, table",
}
_CREATE = _ALTER | {"if_not_exists": "boolean"}

_DEFAULT_PARTS: dict[str, tuple[int, str]] = {"rtree": (2, "array"), "bitset": (2, "unsigned")}


def create(ctx: Context, space_id: Any = None, name: Any = None, options: Any = None) -> Any:
    """box.schema.index.create. Gives the index, and 'not created' if it was there."""
    number = number_param(space_id, "space_id")
    name = text_param(name, "name")
    given = check_options(options, _CREATE)
    space = ctx.lookup_space(number)
    if space is None:
        raise er(Er.NO_SUCH_SPACE, f"#{number}")
    if ctx.get(system.VINDEX, [number, name], index=2) is not None:
        if given.get("if_not_exists"):
            return describe_index(ctx, space, space.index_by_name(name)), "not created"
        raise er(Er.INDEX_EXISTS, name)
    format = _format(ctx, number)
    type = given.get("type", "tree")
    _with_default_parts(given, type, format)
    index_id = int(given["id"]) if given.get("id") is not None else _next_id(ctx, number)
    parts = _parts(ctx, format, given["parts"])
    stored = {key: given[key] for key in _INDEX_OPTIONS if key in given}
    with ctx.atomic():
        plan = SequencePlan.prepare(ctx, space, format, parts, given, index_id, name)
        ctx.insert(system.INDEX, [number, index_id, name, type, stored, parts])
        plan.commit(ctx)
    return describe_index(ctx, space, space.indexes[IndexId(index_id)])


def _with_default_parts(given: dict[str, Any], type: str, format: list[dict[str, Any]]) -> None:
    """Field 1 unsigned and unique, unless the format says otherwise."""
    field, field_type = _DEFAULT_PARTS.get(type, (1, "unsigned"))
    if given.get("parts") is None:
        if len(format) >= field and format[field - 1]["type"] != "any":
            field_type = format[field - 1]["type"]
        given["parts"] = [[field, field_type]]
    given.setdefault("unique", type not in _DEFAULT_PARTS)


def _next_id(ctx: Context, space_id: int) -> int:
    """The greatest id of an index of the space plus one."""
    found = ctx.select(system.VINDEX, [space_id], iterator=IteratorType.LE, limit=1)
    return found[0][1] + 1 if found and found[0][0] == space_id else 0


def _parts(ctx: Context, format: list[dict[str, Any]], given: Any) -> list[Any]:
    parts = normalize_parts(format, given, partial(find_collation, ctx))
    plain_types(parts)
    return simplified(parts)


def _format(ctx: Context, space_id: int) -> list[dict[str, Any]]:
    row = ctx.get(system.VSPACE, [space_id])
    if row is None:
        raise er(Er.NO_SUCH_SPACE, f"#{space_id}")
    return list(row[6])


def drop(ctx: Context, space_id: Any = None, index_id: Any = None) -> None:
    """box.schema.index.drop"""
    space_id, index_id = number_param(space_id, "space_id"), number_param(index_id, "index_id")
    with ctx.atomic():
        if index_id == 0:
            detach_sequence(ctx, space_id)
        ctx.delete(system.INDEX, [space_id, index_id])


def rename(ctx: Context, space_id: Any = None, index_id: Any = None, name: Any = None) -> None:
    """box.schema.index.rename"""
    key = [number_param(space_id, "space_id"), number_param(index_id, "index_id")]
    ctx.update(system.INDEX, key, [["=", 3, text_param(name, "name")]])


def alter(ctx: Context, space_id: Any = None, index_id: Any = None, options: Any = None) -> None:
    """box.schema.index.alter"""
    space = ctx.lookup_space(number_param(space_id, "space_id"))
    if space is None:
        raise er(Er.NO_SUCH_SPACE, f"#{lua_text(space_id)}")
    index = space.index(number_param(index_id, "index_id"))
    if options is None:
        return
    given = check_options(options, _ALTER)
    if "id" in given:
        _renumber(ctx, space, index.id, given)
        return
    row = ctx.get(system.INDEX, [space.id, index.id])
    assert row is not None
    name, type = given.get("name", row[2]), given.get("type", row[3])
    stored = {**row[4], **{key: given[key] for key in _INDEX_OPTIONS if key in given}}
    format = _format(ctx, space.id)
    parts = _parts(ctx, format, given["parts"]) if "parts" in given else row[5]
    with ctx.atomic():
        plan = SequencePlan.prepare(ctx, space, format, parts, given, index.id, name)
        ctx.replace(system.INDEX, [space.id, index.id, name, type, stored, parts])
        plan.commit(ctx)


def _renumber(ctx: Context, space: Space, index_id: int, given: dict[str, Any]) -> None:
    others = [key for key in given if key not in ("id", "name", "type")]
    if others:
        raise illegal("Don't know how to update both id and " + " ".join(others))
    fields = {"id": 2, "name": 3, "type": 4}
    ctx.update(system.INDEX, [space.id, index_id], [["=", fields[key], given[key]] for key in fields if key in given])


class SequencePlan:
    """What the option `sequence` of an index asks for, checked before the index changes and done after
    (space_sequence_alter_prepare, space_sequence_alter_commit)."""

    def __init__(self, space_id: int, old: list[Any] | None, new: list[Any] | None, *, drop_old: bool) -> None:
        self._space_id = space_id
        self._old = old
        """The row of `_space_sequence` to take away, if any."""
        self._new = new
        """The row to put there, if any."""
        self._drop_old = drop_old
        """The old sequence was made for the space and nobody else has it."""

    @classmethod
    def prepare(
        cls,
        ctx: Context,
        space: Space,
        format: list[dict[str, Any]],
        parts: list[Any],
        given: dict[str, Any],
        index_id: int,
        index_name: str,
    ) -> SequencePlan:
        asked = given.get("sequence")
        nothing = cls(space.id, None, None, drop_old=False)
        if index_id != 0:
            if asked:
                words = "sequence cannot be used with a secondary key"
                raise er(Er.MODIFY_INDEX, index_name, space.name, words)
            return nothing
        old = ctx.get(system.SPACE_SEQUENCE, [space.id])
        if asked is None:
            if old is not None:
                _check_part(space, index_name, parts, old[3], old[4] if len(old) > 4 else "")
            return nothing
        new = None if asked is False else _wanted(ctx, space, format, parts, asked, old, index_name)
        drop_old = old is not None and old[2] and (new is None or new[1] != old[1])
        return cls(space.id, old, new, drop_old=bool(drop_old))

    def commit(self, ctx: Context) -> None:
        if self._old is not None:
            ctx.delete(system.SPACE_SEQUENCE, [self._space_id])
        if self._new is not None:
            ctx.insert(system.SPACE_SEQUENCE, self._new)
        if self._drop_old and self._old is not None:
            sequences.drop_sequence(ctx, self._old[1])


def _wanted(
    ctx: Context,
    space: Space,
    format: list[dict[str, Any]],
    parts: list[Any],
    asked: Any,
    old: list[Any] | None,
    index_name: str,
) -> list[Any]:
    """The row of `_space_sequence` that `sequence = true | name | id | {id = …, field = …}` means."""
    table = asked if isinstance(asked, dict) else {} if asked is True else {"id": asked}
    sequence = _attachable(ctx, space, table["id"]) if table.get("id") is not None else None
    generated = False
    if sequence is None and old is not None and old[2]:
        sequence, generated = old[1], True
    field: int | None = None
    path = ""
    if table.get("field") is not None:
        field, found = resolve_field(format, table["field"], "sequence field")
        path = found or ""
    elif old is not None:
        field, path = old[3], old[4] if len(old) > 4 else ""
    field, path = _check_part(space, index_name, parts, field, path)
    if sequence is None:
        created = sequences.create(ctx, f"{space.name}_seq")
        sequence, generated = created["id"], True
    return [space.id, sequence, generated, field, path]


def _attachable(ctx: Context, space: Space, name_or_id: Any) -> int:
    row = sequences.find(ctx, name_or_id)
    if row is None:
        raise er(Er.NO_SUCH_SEQUENCE, lua_text(name_or_id))
    attached = ctx.select(system.SPACE_SEQUENCE, [row[0]], index=1, limit=1)
    if attached and attached[0][2]:
        raise er(Er.ALTER_SPACE, space.name, "can not attach generated sequence")
    return int(row[0])


def _check_part(space: Space, index_name: str, parts: list[Any], field: int | None, path: str) -> tuple[int, str]:
    """The sequence's field is an integer part of the index (space_sequence_check)."""
    part = parts[0]
    if field is not None:
        same = (
            p for p in parts if part_field(p) == field and (p.get("path") or "" if isinstance(p, dict) else "") == path
        )
        part = next(same, None)
        if part is None:
            raise er(Er.MODIFY_INDEX, index_name, space.name, "sequence field must be a part of the index")
    if part_type(part) not in ("integer", "unsigned"):
        raise er(Er.MODIFY_INDEX, index_name, space.name, "sequence cannot be used with a non-integer key")
    return part_field(part), (part.get("path") or "") if isinstance(part, dict) else ""
