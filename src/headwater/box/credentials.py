"""What the configuration wants to be in the dictionary: users and roles of `credentials`, and the open door of `dev`.

Made by ordinary rows when the node is first writable, once: what is there already is left as it is, and nothing is
taken away (config/applier/credentials.lua of 3.x). A privilege on a space, function or sequence that is not there yet
is granted as soon as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.box.call import Calls
from headwater.box.host import Host
from headwater.box.procedures import users
from headwater.box.procedures.context import Context
from headwater.errors import BoxError, Er
from headwater.store import system
from headwater.store.events import Event, SchemaChanged
from headwater.store.privileges import ObjectType, Priv, PrivDef, PrivKey
from headwater.store.schema import Schema
from headwater.store.users import ADMIN, GUEST, SUPER, User
from headwater.wire.auth import METHOD, stored_password

log = logging.getLogger("headwater.credentials")

_NOT_THERE = (Er.NO_SUCH_SPACE, Er.NO_SUCH_FUNCTION, Er.NO_SUCH_SEQUENCE)
_SUPER = PrivKey(ObjectType.ROLE, int(SUPER))


@dataclass(frozen=True, slots=True)
class NodeSession:
    """The node itself as a caller of procedures."""

    user: User
    id: int = 0
    type: str = "background"
    peer: None = None


def context_of_node(host: Host) -> Context:
    """With the rights of admin."""
    admin = host.schema.users.admin
    return Context(host, Calls(host), NodeSession(admin), admin)


# ---- dev ----------------------------------------------------------------------------------------------


def open_guest(schema: Schema) -> None:
    """From now on guest counts as super in this process, whatever the rows say."""
    granted = schema.users.grant(PrivDef(int(ADMIN), int(GUEST), _SUPER, 0), Priv.EXECUTE)
    schema.feed_users(granted)


def grant_guest(host: Host) -> None:
    """Write the same as an ordinary row, so that replicas have it; once."""
    open_guest(host.schema)
    context = context_of_node(host)
    if context.get(system.PRIV, [int(GUEST), "role", int(SUPER)]) is None:
        log.info("dev: guest has the role super")
        context.replace(system.PRIV, [int(ADMIN), int(GUEST), "role", int(SUPER), int(Priv.EXECUTE)])


def warn_of_open_guest(host: Host) -> None:
    """What `dev` granted stays in the directory, and without `dev` it may be served to others."""
    users = host.schema.users
    held = users.by_id(SUPER)
    if held is None or not users.has_role(held, users.guest):
        return
    if strangers := [str(uri) for uri in host.options.addresses if not uri.is_loopback]:
        told = "guest has the role super: whoever reaches %s may do everything; revoke it unless that is meant"
        log.warning(told, ", ".join(strangers))


# ---- credentials --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wish:
    """One grant that the configuration asks for."""

    grantee: str
    is_role: bool
    privileges: str
    object_type: str
    object_name: str | None


def create_credentials(host: Host, credentials: Mapping[str, Any]) -> None:
    """Roles, then users, then what they may do. BoxError for what can never be."""
    if not credentials:
        return
    context = context_of_node(host)
    roles, people = credentials.get("roles") or {}, credentials.get("users") or {}
    for name in roles:
        users.create_role(context, name, {"if_not_exists": True})
    for name, given in people.items():
        users.create_user(context, name, {"if_not_exists": True})
        _set_password(context, name, (given or {}).get("password"))
    wishes = [*_wishes(roles, is_role=True), *_wishes(people, is_role=False)]
    pending = [wish for wish in wishes if not _fulfil(context, wish)]
    if pending:
        _Later(host, pending)


def _set_password(context: Context, name: str, password: str | None) -> None:
    """Only a password that is another one is written."""
    if password is None:
        return
    row = context.get(system.USER, [name], index=2)
    assert row is not None
    if row[4].get(METHOD) != stored_password(str(password)):
        users.passwd(context, name, str(password))


def _wishes(those: Mapping[str, Any], *, is_role: bool) -> Iterator[Wish]:
    for name, given in those.items():
        for role in (given or {}).get("roles") or ():
            yield Wish(name, is_role, "execute", "role", role)
        for privilege in (given or {}).get("privileges") or ():
            words = ",".join(privilege["permissions"])
            for object_type, object_name in _objects(privilege):
                yield Wish(name, is_role, words, object_type, object_name)


_KINDS = {"spaces": "space", "functions": "function", "sequences": "sequence", "lua_call": "lua_call"}


def _objects(privilege: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """`all` stands for every function where functions are called by name."""
    for whole in ("universe", "lua_eval"):
        if privilege.get(whole):
            yield whole, None
    if privilege.get("sql"):
        yield "sql", None
    for key, kind in _KINDS.items():
        for name in privilege.get(key) or ():
            yield kind, "" if name == "all" and kind == "lua_call" else str(name)


def _fulfil(context: Context, wish: Wish) -> bool:
    """False if the object is not there yet."""
    procedure = users.grant_role if wish.is_role else users.grant_user
    try:
        procedure(context, wish.grantee, wish.privileges, wish.object_type, wish.object_name, {"if_not_exists": True})
    except BoxError as error:
        if error.code not in _NOT_THERE:
            raise
        return False
    return True


class _Later:
    """Grants that wait for their objects."""

    def __init__(self, host: Host, wishes: list[Wish]) -> None:
        self._host = host
        self._wishes = wishes
        self._is_due = False
        for wish in wishes:
            log.info("%s '%s' is not there yet: '%s' gets it later", wish.object_type, wish.object_name, wish.grantee)
        host.schema.listeners.append(self._changed)

    def _changed(self, event: Event) -> None:
        """In the middle of a statement: look when it is over."""
        if isinstance(event, SchemaChanged) and self._wishes and not self._is_due:
            self._is_due = True
            self._host.world.tasks.soon(self._retry)

    def _retry(self) -> None:
        self._is_due = False
        context = context_of_node(self._host)
        try:
            self._wishes = [wish for wish in self._wishes if not _fulfil(context, wish)]
        except BoxError as error:
            log.warning("granting what the configuration asks for failed: %s", error.message)
