"""`box.schema.func.*`: rows of `_func`, which give a procedure an owner, privileges of its own, or another user's
rights (schema.lua of 3.x). The code of a function is Python and named in the option `procedures`; a function with a
body of Lua, C or SQL can be stored, and is refused when it is called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headwater.box.procedures import grants
from headwater.box.procedures.arguments import check_options, lua_text
from headwater.box.procedures.context import Context
from headwater.box.procedures.lookup import find_row
from headwater.errors import Er, er
from headwater.store import system
from headwater.typing import IteratorType

FUNCTION_MAX = 32000
"""BOX_FUNCTION_MAX (schema_def.h)."""

_OPTIONS = {
    "setuid": "boolean",
    "if_not_exists": "boolean",
    "language": "string",
    "body": "string",
    "is_deterministic": "boolean",
    "is_sandboxed": "boolean",
    "is_multikey": "boolean",
    "aggregate": "string",
    "takes_raw_args": "boolean",
    "comment": "string",
    "param_list": "table",
    "returns": "string",
    "exports": "table",
    "opts": "table",
    "trigger": "string, table",
}


def create(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.func.create"""
    given = check_options(options, _OPTIONS)
    if find(ctx, name) is not None:
        if not given.get("if_not_exists"):
            raise er(Er.FUNCTION_EXISTS, lua_text(name))
        return
    fields = len(ctx.find_space(system.FUNC).definition.format)
    row = [free_id(ctx, lua_text(name)), ctx.effective.id, name, *_rest(ctx, given)]
    ctx.insert(system.FUNC, row[:fields])


def _rest(ctx: Context, given: dict[str, Any]) -> list[Any]:
    """The fields from `setuid` on. `trigger` came with schema 3.1.0."""
    more = dict(given.get("opts") or {})
    for flag in ("is_multikey", "takes_raw_args"):
        if given.get(flag):
            more[flag] = True
    trigger = given.get("trigger", [])
    now = datetime.fromtimestamp(ctx.host.world.clock.time(), UTC).strftime("%Y-%m-%d %H:%M:%S")
    return [
        1 if given.get("setuid") else 0,
        given.get("language", "lua").upper(),
        given.get("body", ""),
        "function",
        given.get("param_list", []),
        given.get("returns", "any"),
        given.get("aggregate", "none"),
        "none",
        given.get("is_deterministic", False),
        given.get("is_sandboxed", False),
        True,
        given.get("exports", ["LUA"]),
        more,
        given.get("comment", ""),
        now,
        now,
        [trigger] if isinstance(trigger, str) else trigger,
    ]


def drop(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.func.drop"""
    given = check_options(options, {"if_exists": "boolean"})
    row = find(ctx, name)
    if row is None:
        if not given.get("if_exists"):
            raise er(Er.NO_SUCH_FUNCTION, lua_text(name))
        return
    with ctx.atomic():
        grants.revoke_all(ctx, "function", row[0])
        ctx.delete(system.FUNC, [row[0]])


def exists(ctx: Context, name: Any = None) -> bool:
    return find(ctx, name) is not None


def call(ctx: Context, name: Any = None, *args: Any) -> Any:
    """box.schema.func.call"""
    return ctx.call(lua_text(name), *args)


def find(ctx: Context, name_or_id: Any) -> list[Any] | None:
    """The row of a function that the caller may see."""
    return find_row(ctx, system.VFUNC, name_or_id)


def free_id(ctx: Context, name: str) -> int:
    """One above the greatest, with the caller's rights (box.cc, box_generate_func_id)."""
    last = ctx.select(system.FUNC, iterator=IteratorType.LE, limit=1)
    number = int(last[0][0]) + 1 if last else 1
    if number <= FUNCTION_MAX:
        return number
    taken = {int(row[0]) for row in ctx.select(system.FUNC)}
    free = next((number for number in range(1, FUNCTION_MAX + 1) if number not in taken), None)
    if free is None:
        raise er(Er.CREATE_FUNCTION, name, "Max function count is reached")
    return free
