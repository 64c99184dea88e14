"""The trigger of `_func` (alter.cc on_replace_dd_func)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store import system
from headwater.store.context import Context
from headwater.store.functions import Function, read_function
from headwater.store.privileges import ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.space import Space

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def replaced(schema: Schema, _func: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    row = Row(old if old is not None else new or b"")
    function = schema.functions.get(row.u32(0))
    if new is None:
        assert function is not None, "a row of _func without a function"
        _drop(schema, function, ctx)
    elif function is None:
        _create(schema, Row(new), ctx)
    else:
        _check_same(function, Row(new), ctx)


def _create(schema: Schema, row: Row, ctx: Context) -> None:
    definition = read_function(row, checked=ctx.source.is_checked)
    schema.access.check_ddl(ctx.user, definition.name, definition.owner, None, ObjectType.FUNCTION, Priv.CREATE)
    function = Function(definition)
    schema.put_function(function)
    schema.undo(lambda: schema.take_function(function))


def _drop(schema: Schema, function: Function, ctx: Context) -> None:
    schema.access.check_ddl(ctx.user, function.name, function.owner, function.access, ObjectType.FUNCTION, Priv.DROP)
    function_id = function.definition.id
    if schema.has_grants(ObjectType.FUNCTION, function_id):
        raise er(Er.DROP_FUNCTION, function_id, "function has grants")
    if schema.has_rows(system.FUNC_INDEX, 1, function_id):
        raise er(Er.DROP_FUNCTION, function_id, "function has references")
    schema.take_function(function)
    schema.undo(lambda: schema.put_function(function))


def _check_same(function: Function, row: Row, ctx: Context) -> None:
    """A function is not altered; a row that changes nothing of it passes, for the sake of upgrades."""
    if read_function(row, checked=ctx.source.is_checked) != function.definition:
        raise er(Er.UNSUPPORTED, "function", "alter")
