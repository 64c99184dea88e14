"""Finding users, roles, functions and sequences as the caller may see them: through the system views (schema.lua)."""

from __future__ import annotations

from typing import Any

from headwater.box.procedures.arguments import lua_type
from headwater.box.procedures.context import Context
from headwater.store import system
from headwater.typing import IteratorType


def find_row(ctx: Context, view: int, name_or_id: Any) -> list[Any] | None:
    """By the name index (2), which all these views have, or by id."""
    match lua_type(name_or_id):
        case "string":
            return ctx.get(view, [name_or_id], index=2)
        case "number":
            return ctx.get(view, [int(name_or_id)])
    return None


def find_user(ctx: Context, name_or_id: Any, kind: str | None = None) -> list[Any] | None:
    """`kind` user or role; either if None."""
    row = find_row(ctx, system.VUSER, name_or_id)
    return row if row is not None and kind in (None, row[3]) else None


def user_or_role_id(ctx: Context, name_or_id: Any) -> int | None:
    row = find_user(ctx, name_or_id)
    return None if row is None else int(row[0])


def find_collation(ctx: Context, name: str) -> int | None:
    """Everybody may read `_vcollation`."""
    found = ctx.select(system.VCOLLATION, [name], index=1, iterator=IteratorType.EQ, limit=1)
    return int(found[0][0]) if found else None
