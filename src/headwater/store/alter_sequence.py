"""The triggers of `_sequence`, `_sequence_data` and `_space_sequence` (alter.cc, the part on sequences)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store import system
from headwater.store.context import Context
from headwater.store.privileges import ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.sequence import Sequence, SequenceDef, check_key, read_sequence
from headwater.store.space import Space
from headwater.store.spacedef import unsupported

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def replaced(schema: Schema, _sequence: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    """`_sequence`."""
    if old is None and new is not None:
        _create(schema, read_sequence(Row(new), Er.CREATE_SEQUENCE), ctx)
        return
    sequence = schema.sequence(Row(old or b"").u32(0))
    if new is None:
        _drop(schema, sequence, ctx)
    else:
        _alter(schema, sequence, read_sequence(Row(new), Er.ALTER_SEQUENCE), ctx)


def _create(schema: Schema, definition: SequenceDef, ctx: Context) -> None:
    kind = ObjectType.SEQUENCE
    schema.access.check_ddl(ctx.user, definition.name, definition.owner, None, kind, Priv.CREATE)
    schema.sequences[definition.id] = Sequence(definition)
    schema.undo(lambda: _forget(schema, definition.id))


def _forget(schema: Schema, sequence_id: int) -> None:
    del schema.sequences[sequence_id]


def _drop(schema: Schema, sequence: Sequence, ctx: Context) -> None:
    _check_ddl(schema, sequence, ctx, Priv.DROP)
    if schema.has_rows(system.SEQUENCE_DATA, 0, sequence.id):
        raise er(Er.DROP_SEQUENCE, sequence.name, "the sequence has data")
    if schema.has_rows(system.SPACE_SEQUENCE, 1, sequence.id):
        raise er(Er.DROP_SEQUENCE, sequence.name, "the sequence is in use")
    if schema.has_grants(ObjectType.SEQUENCE, sequence.id):
        raise er(Er.DROP_SEQUENCE, sequence.name, "the sequence has grants")
    _forget(schema, sequence.id)

    def rollback() -> None:
        schema.sequences[sequence.id] = sequence

    schema.undo(rollback)


def _alter(schema: Schema, sequence: Sequence, definition: SequenceDef, ctx: Context) -> None:
    _check_ddl(schema, sequence, ctx, Priv.ALTER)
    before = sequence.definition
    sequence.definition = definition

    def rollback() -> None:
        sequence.definition = before

    schema.undo(rollback)


def _check_ddl(schema: Schema, sequence: Sequence, ctx: Context, bits: int) -> None:
    kind = ObjectType.SEQUENCE
    schema.access.check_ddl(ctx.user, sequence.name, sequence.owner, sequence.access, kind, bits)


# ---- values ---------------------------------------------------------------------------------------


def value_replaced(schema: Schema, _sequence_data: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    """`_sequence_data`. A number that was given is never taken back; only the value of a sequence that is dropped
    comes back when the drop is."""
    sequence = schema.sequence(Row(old if old is not None else new or b"").u32(0))
    if new is not None:
        sequence.set(Row(new).i64(1))
        return
    before = Row(old or b"").i64(1)
    sequence.reset()
    schema.undo(lambda: sequence.set(before))


# ---- sequences of spaces --------------------------------------------------------------------------


def space_replaced(schema: Schema, _space_sequence: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    """`_space_sequence`."""
    row = Row(new if new is not None else old or b"")
    space_id, sequence_id, is_generated = row.u32(0), row.u32(1), row.boolean(2)
    space = schema.space(space_id)
    if space.definition.is_fully_temporary:
        raise er(Er.SQL_EXECUTE, "sequences are not supported for temporary spaces")
    sequence = schema.sequence(sequence_id)
    if old is not None and new is not None:
        raise er(Er.UNSUPPORTED, 'space "_space_sequence"', "update")
    if is_generated or new is None:
        _check_ddl(schema, sequence, ctx, Priv.CREATE if new is not None else Priv.DROP)
    else:
        _check_ddl(schema, sequence, ctx, Priv.READ)
        _check_ddl(schema, sequence, ctx, Priv.WRITE)
    schema.access.check_ddl(ctx.user, space.name, space.owner, space.access, ObjectType.SPACE, Priv.ALTER)
    if new is not None:
        field = _field(space, row)
        if sequence.is_generated:
            raise er(Er.ALTER_SPACE, space.name, "can not attach generated sequence")
        _set(schema, space, sequence, field, is_generated)
        schema.undo(lambda: _clear(schema, space, sequence))
    else:
        field = space.sequence_field
        _clear(schema, space, sequence)
        schema.undo(lambda: _set(schema, space, sequence, field, is_generated))


def _field(space: Space, row: Row) -> int:
    """Which field the sequence fills; the first of the primary key where the row does not say (before 2.2.1)."""
    pk = space.index(0)
    field = pk.parts[0].field
    if len(row) > 3:
        field = row.u32(3)
        if row.string(4):
            raise unsupported("sequences on a JSON path")
    check_key(pk, field, space.name)
    return field


def _set(schema: Schema, space: Space, sequence: Sequence, field: int, is_generated: bool) -> None:
    sequence.is_generated = is_generated
    space.sequence, space.sequence_field = sequence, field
    space.set_fast(snapshot=schema.is_loading_snapshot)


def _clear(schema: Schema, space: Space, sequence: Sequence) -> None:
    sequence.is_generated = False
    space.sequence, space.sequence_field = None, 0
    space.set_fast(snapshot=schema.is_loading_snapshot)
