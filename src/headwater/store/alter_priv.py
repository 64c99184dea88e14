"""The trigger of `_priv`: privileges granted and revoked (alter.cc on_replace_dd_priv, priv_def_check)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import BoxError, Er, er
from headwater.store.context import Context
from headwater.store.privileges import ALL, Access, ObjectType, Priv, PrivDef, read_priv
from headwater.store.rowview import Row
from headwater.store.space import Space
from headwater.store.users import ADMIN, PUBLIC, User

if TYPE_CHECKING:
    from headwater.store.schema import Schema

_META = Priv.GRANT | Priv.METAGRANT
_NOBODY = 2147483647
"""Owner of what has none (BOX_ID_NIL)."""


def replaced(schema: Schema, _priv: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    priv = read_priv(Row(new if new is not None else old or b""))
    _check(schema, priv, ctx, revoke=new is None)
    before = schema.users.granted(priv.grantee, priv.key)
    _grant(schema, priv, priv.access if new is not None else 0)
    schema.undo(lambda: _grant(schema, priv, before))


def _grant(schema: Schema, priv: PrivDef, access: int) -> None:
    schema.feed_users(schema.users.grant(priv, access))


def _check(schema: Schema, priv: PrivDef, ctx: Context, *, revoke: bool) -> None:
    """Both users are there, the object is there, and the one who grants may grant it."""
    grantor = schema.users.find(priv.grantor)
    grantee = schema.users.find(priv.grantee)
    name, owner, access = _find_object(schema, priv, grantor, grantee)
    needed = (Priv.GRANT if priv.access & ~_META else 0) | (Priv.METAGRANT if priv.access & _META else 0)
    schema.access.check_ddl(ctx.user, name, owner, access, priv.key.type, needed)
    if ctx.source.is_checked and ctx.user.id == grantee.id and ctx.user.id not in (ADMIN, owner):
        raise er(Er.GRANT, "only object owner or admin can grant oneself")
    if not priv.access:
        raise er(Er.GRANT, "the grant tuple has no privileges")
    if grantee.id == ADMIN and priv.key.type is ObjectType.UNIVERSE and (priv.access != ALL or revoke):
        raise er(Er.GRANT, "can't revoke universe from the admin user")


def _find_object(schema: Schema, priv: PrivDef, grantor: User, grantee: User) -> tuple[str, int, Access | None]:
    """Name, owner and access of what is granted; nothing for a whole kind and for what is no object."""
    key = priv.key
    if key.entity or isinstance(key.object, str):
        return "", _NOBODY, None
    if key.type is ObjectType.SPACE:
        space = schema.space(key.object)
        if space.definition.is_fully_temporary:
            raise er(Er.UNSUPPORTED, "temporary space", "privileges")
        return space.name, space.owner, space.access
    if key.type is ObjectType.FUNCTION:
        function = schema.functions.get(key.object)
        if function is None:
            raise er(Er.NO_SUCH_FUNCTION, str(key.object))
        return function.name, function.owner, function.access
    if key.type is ObjectType.SEQUENCE:
        sequence = schema.sequence(key.object)
        return sequence.name, sequence.owner, sequence.access
    if key.type is ObjectType.ROLE:
        return _find_role(schema, priv, grantor, grantee)
    if key.type is ObjectType.USER:
        user = schema.users.by_id(key.object)
        if user is None or user.is_role:
            raise _nobody(Er.NO_SUCH_USER, user, key.object)
        return user.name, user.definition.owner, user.access
    return "", _NOBODY, None


def _find_role(schema: Schema, priv: PrivDef, grantor: User, grantee: User) -> tuple[str, int, Access | None]:
    """Everyone may grant the role public."""
    role = schema.users.by_id(int(priv.key.object))
    if role is None or not role.is_role:
        raise _nobody(Er.NO_SUCH_ROLE, role, int(priv.key.object))
    schema.users.check_role_loop(grantee, role)
    everyones = role.id == PUBLIC and priv.access == Priv.EXECUTE
    return role.name, grantor.id if everyones else role.definition.owner, role.access


def _nobody(code: Er, found: User | None, user_id: int) -> BoxError:
    return er(code, found.name if found is not None else str(user_id))
