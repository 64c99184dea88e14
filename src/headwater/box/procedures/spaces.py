"""`box.schema.space.*` and the methods of spaces that change their definition (schema.lua of 3.x)."""

from __future__ import annotations

from functools import partial
from typing import Any

from headwater.box.procedures.arguments import (
    check_options,
    check_param,
    illegal,
    is_empty,
    items,
    number_param,
    text_param,
    without_nil,
)
from headwater.box.procedures.context import Context
from headwater.box.procedures.describe import describe_space
from headwater.box.procedures.formats import normalize_format
from headwater.box.procedures.grants import revoke_all
from headwater.box.procedures.lookup import find_collation, user_or_role_id
from headwater.box.procedures.sequences import drop_sequence
from headwater.errors import Er, er
from headwater.store import system
from headwater.store.space import Space
from headwater.typing import IteratorType
from headwater.wire.constants import Type

_TYPES = ("normal", "data-temporary", "temporary")
_SPACE_ID_MAX = 0x7FFFFFFF
"""BOX_SPACE_MAX (schema_def.h)."""

_CREATE = {
    "if_not_exists": "boolean",
    "engine": "string",
    "id": "number",
    "field_count": "number",
    "user": "string, number",
    "format": "table",
    "type": "string",
    "is_local": "boolean",
    "temporary": "boolean",
    "is_sync": "boolean",
    "defer_deletes": "boolean",
    "constraint": "string, table",
    "foreign_key": "table",
}
_ALTER = {
    name: types for name, types in _CREATE.items() if name not in ("if_not_exists", "engine", "id", "is_local")
} | {"name": "string"}


def create(ctx: Context, name: Any = None, options: Any = None) -> tuple[Any, str]:
    """box.schema.space.create. Gives the space and 'created', or 'not created' if it was there."""
    name = text_param(name, "name")
    given = check_options(options, _CREATE)
    _check_type(given.get("type"))
    if "type" in given and "temporary" in given:
        raise illegal("only one of 'type' or 'temporary' may be specified")
    _check_constraints(name, given)
    there = ctx.lookup_space(name)
    if there is not None:
        if given.get("if_not_exists"):
            return describe_space(ctx, there), "not created"
        raise er(Er.SPACE_EXISTS, name)
    space_id = int(given["id"]) if given.get("id") else free_space_id(ctx, temporary=given.get("type") == "temporary")
    owner = _owner(ctx, given, ctx.effective.id)
    format = normalize_format(given.get("format") or [], partial(find_collation, ctx))
    stored = without_nil(
        [
            ("group_id", 1 if given.get("is_local") else None),
            ("temporary", given.get("temporary")),
            ("type", given.get("type")),
            ("is_sync", given.get("is_sync")),
            ("defer_deletes", True if given.get("defer_deletes") else None),
        ]
    )
    row = [space_id, owner, name, given.get("engine", "memtx"), given.get("field_count", 0), stored, format]
    ctx.insert(system.SPACE, row)
    return describe_space(ctx, ctx.find_space(space_id)), "created"


def drop(ctx: Context, space_id: Any = None, name: Any = None, options: Any = None) -> None:
    """box.schema.space.drop: everything that belongs to the space, then the space."""
    space_id = number_param(space_id, "space_id")
    given = check_options(options, {"if_exists": "boolean"})
    with ctx.atomic():
        detach_sequence(ctx, space_id)
        for trigger in _of_space(ctx, system.TRIGGER, space_id, index=1):
            ctx.delete(system.TRIGGER, trigger[:1])
        for function in _of_space(ctx, system.FUNC_INDEX, space_id):
            ctx.delete(system.FUNC_INDEX, function[:2])
        for index in reversed(ctx.select(system.VINDEX, [space_id])):
            ctx.delete(system.INDEX, index[:2])
        revoke_all(ctx, "space", space_id)
        if ctx.get(system.TRUNCATE, [space_id]) is not None:
            ctx.delete(system.TRUNCATE, [space_id])
        if ctx.delete(system.SPACE, [space_id]) is None and not given.get("if_exists"):
            raise er(Er.NO_SUCH_SPACE, f"#{space_id}" if name is None else name)


def rename(ctx: Context, space_id: Any = None, name: Any = None) -> None:
    number = number_param(space_id, "space_id")
    check_param(name, "space_name", "string")
    ctx.update(system.SPACE, [number], [["=", 3, name]])


def alter(ctx: Context, space_id: Any = None, options: Any = None) -> None:
    """box.schema.space.alter"""
    space = ctx.lookup_space(number_param(space_id, "space_id"))
    if space is None:
        raise er(Er.NO_SUCH_SPACE, f"#{space_id}")
    given = check_options(options, _ALTER)
    row = ctx.get(system.SPACE, [space.id])
    assert row is not None
    _check_type(given.get("type"))
    _check_constraints(row[2], given)
    flags = {**row[5], **{key: given[key] for key in ("type", "temporary", "is_sync", "defer_deletes") if key in given}}
    row[1] = _owner(ctx, given, row[1])
    row[2] = given.get("name", row[2])
    row[4] = given.get("field_count", row[4])
    row[5] = flags
    if "format" in given:
        row[6] = normalize_format(given["format"], partial(find_collation, ctx))
    ctx.replace(system.SPACE, row)


def format_of(ctx: Context, space_id: Any = None, format: Any = None) -> Any:
    """box.schema.space.format: the format, or a new one."""
    number = number_param(space_id, "id")
    row = ctx.get(system.VSPACE, [number])
    if row is None:
        raise er(Er.NO_SUCH_SPACE, f"#{number}")
    if format is None:
        return row[6]
    check_param(format, "format", "table")
    ctx.update(system.SPACE, [number], [["=", 7, normalize_format(format, partial(find_collation, ctx))]])
    return None


def truncate(ctx: Context, space: Space) -> None:
    """Count `_truncate` up, which empties the space (box.cc, space_truncate). Everybody may write there; the trigger
    of `_truncate` asks for write access to the space."""
    ctx.change(Type.UPSERT, system.TRUNCATE, tuple=[space.id, 1], ops=[["+", 1, 1]])


def detach_sequence(ctx: Context, space_id: int) -> None:
    """Before the primary index goes: a generated sequence goes with it."""
    if ctx.get(system.SPACE_SEQUENCE, [space_id]) is None:
        return
    row = ctx.delete(system.SPACE_SEQUENCE, [space_id])
    if row is not None and row[2]:
        drop_sequence(ctx, row[1])


def free_space_id(ctx: Context, *, temporary: bool) -> int:
    """One above the greatest in use, with the rights of admin (box.cc, box_generate_space_id)."""
    begin = system.TEMPORARY_ID_MIN if temporary else system.SYSTEM_ID_MAX + 1
    end = _SPACE_ID_MAX + 1 if temporary else system.TEMPORARY_ID_MIN
    with ctx.as_admin():
        last = ctx.select(system.SPACE, [end], iterator=IteratorType.LT, limit=1)
    space_id = max(begin, last[0][0] + 1 if last else begin)
    if space_id < end:
        return space_id
    for candidate in range(begin, end):
        if ctx.lookup_space(candidate) is None:
            return candidate
    raise er(Er.CREATE_SPACE, "", "Space id limit is reached")


def _check_type(type: str | None) -> None:
    if type is not None and type not in _TYPES:
        raise illegal("unknown space type, must be one of: '" + "', '".join(_TYPES) + "'.")


def _check_constraints(name: str, given: dict[str, Any]) -> None:
    """They are not there, so they are refused instead of forgotten; an empty one is none."""
    for key, what in (("constraint", "constraints"), ("foreign_key", "foreign keys")):
        if key in given and not is_empty(given[key]):
            raise er(Er.UNSUPPORTED, "Headwater", f"{what} (space '{name}')")
    for field in items(given.get("format") or []):
        if isinstance(field, dict):
            for key in ("constraint", "foreign_key"):
                if not is_empty(field.get(key, {})):
                    raise er(Er.UNSUPPORTED, "Headwater", f"{key} of a field (space '{name}')")


def _owner(ctx: Context, given: dict[str, Any], default: int) -> int:
    if "user" not in given:
        return default
    owner = user_or_role_id(ctx, given["user"])
    if owner is None:
        raise er(Er.NO_SUCH_USER, str(given["user"]))
    return owner


def _of_space(ctx: Context, space: int, space_id: int, index: int = 0) -> list[list[Any]]:
    """Rows of a system space about this space; none where the schema is older than that system space."""
    return ctx.select(space, [space_id], index=index) if ctx.lookup_space(space) is not None else []
