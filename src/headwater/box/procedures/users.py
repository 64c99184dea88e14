"""`box.schema.user.*` and `box.schema.role.*` (schema.lua of 3.x)."""

from __future__ import annotations

from typing import Any

from headwater.box.procedures import functions, grants, sequences, spaces
from headwater.box.procedures.arguments import check_options, illegal, lua_text, lua_type, text_param
from headwater.box.procedures.context import Context
from headwater.box.procedures.lookup import find_user
from headwater.errors import Er, er
from headwater.store import system
from headwater.store.users import SUPER, SYSTEM_USER_MAX
from headwater.wire.auth import METHOD, stored_password

_IF_NOT_EXISTS = {"if_not_exists": "boolean"}
_IF_EXISTS = {"if_exists": "boolean"}


# ---- finding ----------------------------------------------------------------------------------------


def _user(ctx: Context, name: Any) -> int:
    row = find_user(ctx, name, "user")
    if row is None:
        raise er(Er.NO_SUCH_USER, lua_text(name))
    return int(row[0])


def _role(ctx: Context, name: Any) -> int:
    row = find_user(ctx, name, "role")
    if row is None:
        raise er(Er.NO_SUCH_ROLE, lua_text(name))
    return int(row[0])


def user_exists(ctx: Context, name: Any = None, options: Any = None) -> bool:
    return find_user(ctx, name, "user") is not None


def role_exists(ctx: Context, name: Any = None, options: Any = None) -> bool:
    return find_user(ctx, name, "role") is not None


# ---- creating ---------------------------------------------------------------------------------------


def create_user(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.user.create: with the role public, and allowed to log in and to change himself."""
    given = check_options(options, _IF_NOT_EXISTS | {"password": "string"})
    if find_user(ctx, name) is not None:
        if not given.get("if_not_exists"):
            raise er(Er.USER_EXISTS, lua_text(name))
        return
    name = text_param(name, "name")
    auth = {METHOD: stored_password(given["password"])} if "password" in given else {}
    with ctx.atomic():
        user = _insert(ctx, name, "user", auth)
        grants.grant(ctx, user, user, "public")
        grants.grant(ctx, user, user, "alter", "user", user)
        with ctx.as_admin():
            grants.grant(ctx, user, user, "session,usage", "universe", None, {"if_not_exists": True})


def create_role(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.role.create"""
    given = check_options(options, _IF_NOT_EXISTS)
    if find_user(ctx, name) is not None:
        if not given.get("if_not_exists"):
            raise er(Er.ROLE_EXISTS, lua_text(name))
        return
    _insert(ctx, text_param(name, "name"), "role", {})


def _insert(ctx: Context, name: str, kind: str, auth: dict[str, str]) -> int:
    row = [ctx.effective.id, name, kind, auth, [], _now(ctx)]
    return int(ctx.auto_increment(system.USER, row[: _user_fields(ctx) - 1])[0])


def _user_fields(ctx: Context) -> int:
    """5 before schema 2.11.0, which added auth_history and last_modified."""
    return len(ctx.find_space(system.USER).definition.format)


def _now(ctx: Context) -> int:
    return int(ctx.host.world.clock.time())


# ---- passwords --------------------------------------------------------------------------------------


def password(ctx: Context, password: Any = None) -> str:
    """box.schema.user.password: what `_user` would hold."""
    return stored_password(text_param(password, "password"))


def passwd(ctx: Context, name: Any = None, new: Any = None) -> None:
    """box.schema.user.passwd([user,] password): without a user the caller's own, which everybody may change."""
    if name is None:
        raise illegal("Usage: box.schema.user.passwd([user,] password)")
    if new is None:
        with ctx.as_admin():
            _change_password(ctx, ctx.session.user.id, text_param(name, "password"))
    else:
        _change_password(ctx, _user(ctx, name), text_param(new, "password"))


def _change_password(ctx: Context, user: int, new: str) -> None:
    ops: list[list[Any]] = [["=", 5, {METHOD: stored_password(new)}]]
    if _user_fields(ctx) > 5:
        ops += [["=", 6, []], ["=", 7, _now(ctx)]]
    ctx.update(system.USER, [user], ops)


# ---- privileges -------------------------------------------------------------------------------------


def grant_user(ctx: Context, name: Any = None, *args: Any) -> None:
    grants.grant(ctx, _user(ctx, name), name, *args)


def revoke_user(ctx: Context, name: Any = None, *args: Any) -> None:
    grants.revoke(ctx, _user(ctx, name), name, *args)


def grant_role(ctx: Context, name: Any = None, *args: Any) -> None:
    role = _role(ctx, name)
    _check_not_system(*args)
    grants.grant(ctx, role, name, *args)


def revoke_role(ctx: Context, name: Any = None, *args: Any) -> None:
    role = _role(ctx, name)
    _check_not_system(*args)
    grants.revoke(ctx, role, name, *args)


def _check_not_system(privilege: Any = None, *_: Any) -> None:
    """role_check_grant_revoke_of_sys_priv"""
    text = lua_text(privilege).lower()
    if "session" in text or "usage" in text or (lua_type(privilege) == "number" and int(privilege) & 24):
        raise er(Er.GRANT, "system privilege can not be granted to role")


def enable(ctx: Context, name: Any = None) -> None:
    grant_user(ctx, name, "session,usage", "universe", None, {"if_not_exists": True})


def disable(ctx: Context, name: Any = None) -> None:
    revoke_user(ctx, name, "session,usage", "universe", None, {"if_exists": True})


def user_info(ctx: Context, name: Any = None) -> list[list[str]]:
    return grants.info(ctx, ctx.effective.id if name is None else _user(ctx, name))


def role_info(ctx: Context, name: Any = None) -> list[list[str]]:
    return grants.info(ctx, _role(ctx, name))


# ---- dropping ---------------------------------------------------------------------------------------


def drop_user(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.user.drop: with all that he owns."""
    given = check_options(options, _IF_EXISTS)
    row = find_user(ctx, name, "user")
    if row is None:
        if not given.get("if_exists"):
            raise er(Er.NO_SUCH_USER, lua_text(name))
        return
    if row[0] <= SYSTEM_USER_MAX:
        raise er(Er.DROP_USER, lua_text(name), "the user or the role is a system")
    if row[0] in (ctx.session.user.id, ctx.effective.id):
        raise er(Er.DROP_USER, lua_text(name), "the user is active in the current session")
    with ctx.atomic():
        _drop(ctx, row)


def drop_role(ctx: Context, name: Any = None, options: Any = None) -> None:
    """box.schema.role.drop: nobody has it afterwards."""
    given = check_options(options, _IF_EXISTS)
    row = find_user(ctx, name, "role")
    if row is None:
        if not given.get("if_exists"):
            raise er(Er.NO_SUCH_ROLE, lua_text(name))
        return
    if row[0] <= SYSTEM_USER_MAX or row[0] == SUPER:
        raise er(Er.DROP_USER, lua_text(name), "the user or the role is a system")
    with ctx.atomic():
        _drop(ctx, row)


def _drop(ctx: Context, row: list[Any]) -> None:
    """full_drop"""
    user = int(row[0])
    for space in ctx.select(system.VSPACE, [user], index=1):
        spaces.drop(ctx, space[0], space[2])
    for function in ctx.select(system.VFUNC, [user], index=1):
        functions.drop(ctx, function[0])
    for grant in ctx.select(system.VPRIV, ["role", user], index=2):
        ctx.delete(system.PRIV, grant[1:4])
    for sequence in ctx.select(system.VSEQUENCE, [user], index=1):
        sequences.drop(ctx, sequence[0])
    with ctx.as_admin():
        for grant in ctx.select(system.VPRIV, [user]):
            ctx.delete(system.PRIV, grant[1:4])
    ctx.delete(system.USER, [user])
