"""`box.schema.sequence.*` and the methods of sequences (schema.lua, sequence.c of 3.x)."""

from __future__ import annotations

from typing import Any

from headwater.box.procedures.arguments import check_options, illegal, lua_text, lua_type, text_param
from headwater.box.procedures.context import Context
from headwater.box.procedures.grants import revoke_all
from headwater.box.procedures.lookup import find_row
from headwater.errors import Er, er
from headwater.store import system
from headwater.store.sequence import Sequence

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_OPTIONS = {
    "step": "number",
    "min": "number",
    "max": "number",
    "start": "number",
    "cache": "number",
    "cycle": "boolean",
}
_FIELDS = ("id", "uid", "name", "step", "min", "max", "start", "cache", "cycle")


def create(ctx: Context, name: Any = None, options: Any = None) -> Any:
    """box.schema.sequence.create"""
    given = check_options(options, _OPTIONS | {"if_not_exists": "boolean"})
    name = text_param(name, "name")
    row = find(ctx, name)
    if row is not None:
        if not given.get("if_not_exists"):
            raise er(Er.SEQUENCE_EXISTS, name)
        return describe(row), "not created"
    step = given.get("step", 1)
    low = given.get("min", 1 if step > 0 else INT64_MIN)
    high = given.get("max", INT64_MAX if step > 0 else -1)
    start = given.get("start", given.get("min", 1) if step > 0 else given.get("max", -1))
    rest = [name, step, low, high, start, given.get("cache", 0), given.get("cycle", False)]
    return describe(ctx.auto_increment(system.SEQUENCE, [ctx.effective.id, *rest]))


def alter(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.sequence.alter"""
    given = check_options(options, _OPTIONS | {"name": "string"})
    row = _found(ctx, name)
    if options is not None:
        ctx.replace(system.SEQUENCE, [given.get(field, value) for field, value in zip(_FIELDS, row, strict=False)])


def drop(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.sequence.drop"""
    given = check_options(options, {"if_exists": "boolean"})
    row = find(ctx, name)
    if row is None:
        if not given.get("if_exists"):
            raise er(Er.NO_SUCH_SEQUENCE, lua_text(name))
        return
    with ctx.atomic():
        drop_sequence(ctx, row[0])


def drop_sequence(ctx: Context, sequence_id: int) -> None:
    revoke_all(ctx, "sequence", sequence_id)
    ctx.delete(system.SEQUENCE_DATA, [sequence_id])
    ctx.delete(system.SEQUENCE, [sequence_id])


def find(ctx: Context, name_or_id: Any) -> list[Any] | None:
    """The row of a sequence that the caller may see (sequence_resolve)."""
    return find_row(ctx, system.VSEQUENCE, name_or_id)


def _found(ctx: Context, name_or_id: Any) -> list[Any]:
    row = find(ctx, name_or_id)
    if row is None:
        raise er(Er.NO_SUCH_SEQUENCE, lua_text(name_or_id))
    return row


def describe(row: list[Any]) -> dict[str, Any]:
    """What `box.sequence.NAME` shows."""
    return dict(zip(_FIELDS, row, strict=False))


# ---- values -----------------------------------------------------------------------------------------


def next_value(ctx: Context, sequence: Sequence) -> int:
    """box.sequence.NAME:next (box.cc, box_sequence_next)."""
    ctx.host.schema.access.check_sequence(ctx.effective, sequence)
    before = sequence.value
    value = sequence.next()
    try:
        _store(ctx, sequence, value)
    except BaseException:
        sequence.value = before
        raise
    return value


def set_value(ctx: Context, sequence: Sequence, value: Any = None) -> None:
    """box.sequence.NAME:set"""
    ctx.host.schema.access.check_sequence(ctx.effective, sequence)
    if lua_type(value) != "number":
        raise illegal(f"bad argument #2 to 'set' (number expected, got {lua_type(value)})")
    _store(ctx, sequence, int(value))


def current_value(ctx: Context, sequence: Sequence) -> int:
    """box.sequence.NAME:current"""
    ctx.host.schema.access.check_sequence(ctx.effective, sequence)
    return sequence.current()


def reset_value(ctx: Context, sequence: Sequence) -> None:
    """box.sequence.NAME:reset. A value that only memory knows is stored first, so that the deletion has something to
    delete wherever the rows are applied (box.cc, box_sequence_reset)."""
    ctx.host.schema.access.check_sequence(ctx.effective, sequence)
    with ctx.atomic(), ctx.as_admin():
        if sequence.value is not None:
            ctx.replace(system.SEQUENCE_DATA, [sequence.id, sequence.value])
        ctx.delete(system.SEQUENCE_DATA, [sequence.id])


def _store(ctx: Context, sequence: Sequence, value: int) -> None:
    """sequence_data_update: with the rights of admin; the trigger of `_sequence_data` sets the value."""
    with ctx.as_admin():
        ctx.replace(system.SEQUENCE_DATA, [sequence.id, value])
