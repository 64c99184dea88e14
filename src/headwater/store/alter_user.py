"""The trigger of `_user` (alter.cc on_replace_dd_user, user_def_new_from_tuple, auth_chap_sha1.c)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store import system
from headwater.store.context import Context
from headwater.store.identifier import check_identifier, is_too_long, shown, too_long
from headwater.store.privileges import ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.space import Space
from headwater.store.users import GUEST, SUPER, SYSTEM_USER_MAX, User, UserDef
from headwater.typing import UserId

if TYPE_CHECKING:
    from headwater.store.schema import Schema

METHOD = "chap-sha1"
EMPTY_PASSWORD = base64.b64decode("vhvewKp0tNyweZQ+cFKAlsyphfg=")
"""sha1(sha1(''))."""
_SCRAMBLE_BASE64_SIZE = 28
_AUTH, _LAST_MODIFIED = 4, 6


def read_user(row: Row) -> UserDef:
    name = row.string(2)
    if is_too_long(name):
        raise too_long(Er.CREATE_USER, name, "user")
    user_id, owner = row.u32(0), row.u32(1)
    kind = {"user": ObjectType.USER, "role": ObjectType.ROLE}.get(row.string(3))
    if kind is None:
        raise er(Er.CREATE_USER, shown(name), "unknown user type")
    check_identifier(name)
    auth = _read_auth(row, user_id, name, kind) if len(row) > _AUTH else None
    modified = row.u64(_LAST_MODIFIED) if len(row) > _LAST_MODIFIED else 0
    return UserDef(UserId(user_id), UserId(owner), name, kind, auth, modified)


def _read_auth(row: Row, user_id: int, name: str, kind: ObjectType) -> bytes | None:
    """The hash of a user's password, checked so that nobody stores a plain password there by mistake."""
    value = row.value(_AUTH)
    if kind is ObjectType.ROLE and value not in ([], {}):
        raise er(Er.CREATE_ROLE, name, "authentication data can not be set for a role")
    if value is None or isinstance(value, list):
        return None
    if not isinstance(value, dict):
        what = "invalid password format, use box.schema.user.passwd() to reset password"
        raise er(Er.CREATE_USER, name, what)
    if METHOD not in value:
        return None
    hashed = _read_hash(value[METHOD])
    if user_id == GUEST and hashed != EMPTY_PASSWORD:
        raise er(Er.GUEST_USER_PASSWORD)
    return hashed


def _read_hash(text: object) -> bytes:
    if not isinstance(text, str):
        raise er(Er.INVALID_AUTH_DATA, METHOD, "scramble must be string")
    data = text.encode("utf-8", "surrogateescape")
    if len(data) != _SCRAMBLE_BASE64_SIZE:
        raise er(Er.INVALID_AUTH_DATA, METHOD, "invalid scramble size")
    try:
        hashed = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise er(Er.INVALID_AUTH_DATA, METHOD, "scramble is not base64") from None
    if len(hashed) != 20:
        raise er(Er.INVALID_AUTH_DATA, METHOD, "invalid scramble size")
    return hashed


def replaced(schema: Schema, _user: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    row = Row(old if old is not None else new or b"")
    user = schema.users.by_id(row.u32(0))
    if new is None:
        assert user is not None, "a row of _user without a user"
        _drop(schema, user, ctx)
    elif user is None:
        _create(schema, read_user(Row(new)), ctx)
    else:
        _alter(schema, user, read_user(Row(new)), ctx)


def _create(schema: Schema, definition: UserDef, ctx: Context) -> None:
    schema.access.check_ddl(ctx.user, definition.name, definition.owner, None, definition.type, Priv.CREATE)
    user = schema.users.put(definition)
    schema.feed_token(user.token)

    def rollback() -> None:
        token = schema.users.remove(user)
        schema.feed_token(token)

    schema.undo(rollback)


def _drop(schema: Schema, user: User, ctx: Context) -> None:
    """Only one who owns nothing, granted nothing and was granted nothing."""
    kind = user.definition.type
    schema.access.check_ddl(ctx.user, user.name, user.definition.owner, user.access, kind, Priv.DROP)
    if user.id <= SYSTEM_USER_MAX or user.id == SUPER:
        raise er(Er.DROP_USER, user.name, "the user or the role is a system")
    if _has_data(schema, user):
        raise er(Er.DROP_USER, user.name, "the user has objects")
    token = schema.users.remove(user)
    schema.feed_token(token)

    def rollback() -> None:
        schema.users.restore(user, token)
        schema.feed_token(token)

    schema.undo(rollback)


def _has_data(schema: Schema, user: User) -> bool:
    """user_has_data: rows that he owns, grants by him and to him, and those who have him as a role."""
    owned = ((system.SPACE, 1), (system.FUNC, 1), (system.SEQUENCE, 1), (system.PRIV, 1), (system.PRIV, 0))
    return any(schema.has_rows(space_id, index_id, user.id) for space_id, index_id in owned) or bool(user.users)


def _alter(schema: Schema, user: User, definition: UserDef, ctx: Context) -> None:
    kind = user.definition.type
    schema.access.check_ddl(ctx.user, definition.name, definition.id, user.access, kind, Priv.ALTER)
    before = user.definition
    schema.users.put(definition)
    schema.undo(lambda: _put_back(schema, before))


def _put_back(schema: Schema, definition: UserDef) -> None:
    schema.users.put(definition)
