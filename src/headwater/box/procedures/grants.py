"""Privileges as people write them, and `grant`, `revoke`, `info` of users and roles (schema.lua of 3.x)."""

from __future__ import annotations

import re
from typing import Any

from headwater.box.procedures.arguments import illegal, lua_text, lua_type
from headwater.box.procedures.context import Context
from headwater.errors import BoxError, Er, er
from headwater.store import system
from headwater.store.privileges import ALL, Priv

NAMES = {
    "read": Priv.READ,
    "write": Priv.WRITE,
    "execute": Priv.EXECUTE,
    "session": Priv.SESSION,
    "usage": Priv.USAGE,
    "create": Priv.CREATE,
    "drop": Priv.DROP,
    "alter": Priv.ALTER,
    "trigger": Priv.TRIGGER,
    "insert": Priv.INSERT,
    "update": Priv.UPDATE,
    "delete": Priv.DELETE,
    "grant": Priv.GRANT,
    "metagrant": Priv.METAGRANT,
}
"""Words that grant takes (privilege_parse). 3.x does not take `reference`, though it shows it."""

_SHOWN = ("read", "write", "execute", "session", "usage", "create", "drop", "alter", "reference", "trigger", "insert",
          "update", "delete", "grant", "metagrant")  # fmt: skip
"""In the order of privilege_name; the bit of the n-th is 1 << n."""

_WORD = re.compile("(" + "|".join(sorted(NAMES, key=len, reverse=True)) + ")[^a-z]*")

_DATA = Priv.READ | Priv.WRITE | Priv.USAGE | Priv.CREATE | Priv.DROP | Priv.ALTER
_ALLOWED: dict[str, int] = {
    "universe": ALL,
    "lua_call": Priv.EXECUTE | Priv.USAGE,
    "lua_eval": Priv.EXECUTE | Priv.USAGE,
    "sql": Priv.EXECUTE | Priv.USAGE,
    "space": _DATA | Priv.REFERENCE | Priv.TRIGGER | Priv.INSERT | Priv.UPDATE | Priv.DELETE,
    "sequence": _DATA,
    "function": Priv.EXECUTE | Priv.USAGE | Priv.CREATE | Priv.DROP,
    "role": Priv.EXECUTE | Priv.USAGE | Priv.CREATE | Priv.DROP,
    "user": Priv.CREATE | Priv.ALTER | Priv.DROP,
}
"""What can be granted on what (priv_object_combo)."""

_SINGLETONS = ("universe", "lua_eval", "sql")


def parse_privileges(words: Any) -> int:
    """`read,write` or a number; 0 if that is nothing."""
    if lua_type(words) == "number":
        return int(words)
    if not isinstance(words, str):
        return 0
    rest = re.sub("^[^a-z]*", "", words.lower())
    bits = 0
    while found := _WORD.match(rest):
        bits |= NAMES[found[1]]
        rest = rest[found.end() :]
    return 0 if rest else bits


def privilege_names(bits: int) -> str:
    return ",".join(name for number, name in enumerate(_SHOWN) if bits & (1 << number))


def checked_privileges(privilege: Any, object_type: Any) -> int:
    """privilege_check"""
    allowed = _ALLOWED.get(object_type) if isinstance(object_type, str) else None
    if allowed is None:
        raise er(Er.UNKNOWN_SCHEMA_OBJECT, lua_text(object_type))
    bits = parse_privileges(privilege)
    if bits == 0 or bits & ~allowed:
        raise er(Er.UNSUPPORTED_PRIV, object_type, lua_text(privilege))
    return bits


def resolve_object(ctx: Context, object_type: str, name: Any) -> int | str:
    """The id of what a privilege is about; '' stands for all of a kind (object_resolve)."""
    if name is not None and lua_type(name) not in ("string", "number"):
        raise illegal("wrong object name type")
    if object_type in _SINGLETONS:
        return 0
    if object_type == "lua_call" or name == "":
        return name if name is not None else ""
    finders = {
        "space": _space_id,
        "function": _function_id,
        "sequence": _sequence_id,
        "role": _role_id,
        "user": _user_id,
    }
    return finders[object_type](ctx, name)


def _space_id(ctx: Context, name: Any) -> int:
    space = ctx.lookup_space(name) if name is not None else None
    if space is None:
        raise er(Er.NO_SUCH_SPACE, lua_text(name))
    return space.id


def _function_id(ctx: Context, name: Any) -> int:
    return int(_row(ctx, system.VFUNC, name, Er.NO_SUCH_FUNCTION)[0])


def _sequence_id(ctx: Context, name: Any) -> int:
    return int(_row(ctx, system.VSEQUENCE, name, Er.NO_SUCH_SEQUENCE)[0])


def _role_id(ctx: Context, name: Any) -> int:
    return int(_row(ctx, system.VUSER, name, Er.NO_SUCH_ROLE, "role")[0])


def _user_id(ctx: Context, name: Any) -> int:
    return int(_row(ctx, system.VUSER, name, Er.NO_SUCH_USER, "user")[0])


def _row(ctx: Context, space: int, name: Any, missing: Er, kind: str | None = None) -> list[Any]:
    row = None
    if name is not None:
        row = ctx.get(space, [name], index=2 if isinstance(name, str) else 0)
    if row is None or (kind is not None and row[3] != kind):
        raise er(missing, lua_text(name))
    return row


class Grant:
    """The arguments of grant and revoke, which have a short form for roles."""

    def __init__(self, ctx: Context, privilege: Any, object_type: Any, object_name: Any, options: Any) -> None:
        if object_name is None:
            if object_type is None:
                object_type, object_name, privilege = "role", privilege, "execute"
            else:
                object_name = ""
        self.privilege = privilege
        self.bits = checked_privileges(privilege, object_type)
        self.object_type = str(object_type)
        self.object_name = object_name
        self.object_id = resolve_object(ctx, self.object_type, object_name)
        self.options = options if isinstance(options, dict) else {}

    @property
    def is_role(self) -> bool:
        return self.object_type == "role" and self.object_name != "" and self.privilege == "execute"

    def row(self, ctx: Context, grantee: int) -> list[Any] | None:
        return ctx.get(system.VPRIV, [grantee, self.object_type, self.object_id])


def grant(
    ctx: Context,
    grantee: int,
    name: Any,
    privilege: Any = None,
    object_type: Any = None,
    object_name: Any = None,
    options: Any = None,
) -> None:
    """Add privileges to what the grantee has on the object."""
    asked = Grant(ctx, privilege, object_type, object_name, options)
    grantor = _grantor(ctx, asked.options)
    row = asked.row(ctx, grantee)
    old = int(row[4]) if row is not None else 0
    if not asked.bits & ~old:
        if asked.options.get("if_not_exists"):
            return
        raise _granted(name, asked)
    ctx.replace(system.PRIV, [grantor, grantee, asked.object_type, asked.object_id, old | asked.bits])


def _grantor(ctx: Context, options: dict[str, Any]) -> int:
    if options.get("grantor") is None:
        return ctx.effective.id
    given = options["grantor"]
    row = ctx.get(system.VUSER, [given], index=2 if isinstance(given, str) else 0)
    if row is None:
        raise er(Er.NO_SUCH_USER, lua_text(given))
    return int(row[0])


def _granted(name: Any, asked: Grant) -> BoxError:
    """grant_error"""
    if asked.is_role:
        return er(Er.ROLE_GRANTED, lua_text(name), lua_text(asked.object_name))
    what = asked.object_type
    if what not in _SINGLETONS:
        what = f"{what} '{lua_text(asked.object_name)}'"
    about = (asked.object_type, lua_text(asked.object_name))
    return er(Er.PRIV_GRANTED, lua_text(name), lua_text(asked.privilege), what, *about)


def revoke(
    ctx: Context,
    grantee: int,
    name: Any,
    privilege: Any = None,
    object_type: Any = None,
    object_name: Any = None,
    options: Any = None,
) -> None:
    """Take privileges away. More than was granted may be named."""
    asked = Grant(ctx, privilege, object_type, object_name, options)
    row = asked.row(ctx, grantee)
    old = int(row[4]) if row is not None else 0
    if row is None or not old & asked.bits:
        if asked.options.get("if_exists"):
            return
        raise _not_granted(name, asked)
    new = old & ~asked.bits
    if new:
        ctx.replace(system.PRIV, [row[0], grantee, asked.object_type, asked.object_id, new])
    else:
        ctx.delete(system.PRIV, [grantee, asked.object_type, asked.object_id])


def _not_granted(name: Any, asked: Grant) -> BoxError:
    """revoke_error"""
    if asked.is_role:
        return er(Er.ROLE_NOT_GRANTED, lua_text(name), lua_text(asked.object_name))
    what = (asked.object_type, lua_text(asked.object_name))
    return er(Er.PRIV_NOT_GRANTED, lua_text(name), lua_text(asked.privilege), *what)


def info(ctx: Context, grantee: int) -> list[list[str]]:
    """What a user or role was granted: [privileges, kind of object, name of the object]."""
    return [
        [privilege_names(row[4]), row[2], _object_name(ctx, row[2], row[3])]
        for row in ctx.select(system.VPRIV, [grantee])
    ]


_VIEWS = {
    "space": system.VSPACE,
    "sequence": system.VSEQUENCE,
    "function": system.VFUNC,
    "role": system.VUSER,
    "user": system.VUSER,
}


def _object_name(ctx: Context, object_type: str, object_id: Any) -> str:
    if object_type in _SINGLETONS or object_id == "":
        return ""
    if object_type == "lua_call":
        return str(object_id)
    row = ctx.get(_VIEWS[object_type], [object_id])
    return str(row[2]) if row is not None else ""


def revoke_all(ctx: Context, object_type: str, object_id: int) -> None:
    """All privileges on an object that goes (revoke_object_privs)."""
    for row in ctx.select(system.VPRIV, [object_type, object_id], index=2):
        ctx.delete(system.PRIV, [row[1], object_type, object_id])
