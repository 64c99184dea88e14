"""Users and roles, and what each may do in effect (user.cc, user_def.c).

A user's effective privileges are his own and those of all roles that he has, directly or through other roles. They
are computed when a privilege changes and laid down where they are looked up: `Access.bits[token]` of every object.
We reload a user from the grants kept here, not from the rows of `_priv`: a rollback then finds the grants already
set back, whatever the rows still say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.errors import Er, er
from headwater.store.identifier import cut
from headwater.store.privileges import USER_MAX, Access, ObjectType, Priv, PrivDef, PrivKey
from headwater.typing import UserId

GUEST, ADMIN, PUBLIC, REPLICATION, SUPER = (UserId(number) for number in (0, 1, 2, 3, 31))
SYSTEM_USER_MAX = REPLICATION
NO_TOKEN = -1
"""auth_token of a user who was dropped while a session still has him."""


@dataclass(frozen=True, slots=True)
class UserDef:
    """A row of `_user`."""

    id: UserId
    owner: UserId
    name: str
    type: ObjectType
    """USER or ROLE."""
    auth: bytes | None = None
    """sha1(sha1(password)) of chap-sha1; None where no password was set: nobody can log in."""
    last_modified: int = 0
    """Seconds since the epoch, 0 if unknown."""


class User:
    """A user or a role, as long as the node knows him. Sessions keep a reference."""

    __slots__ = ("access", "definition", "effective", "roles", "token", "users")

    def __init__(self, definition: UserDef, token: int) -> None:
        self.definition = definition
        self.token = token
        """Place of his bits in every Access; NO_TOKEN once he is dropped."""
        self.users: set[UserId] = set()
        """To whom this role is granted."""
        self.roles: set[UserId] = set()
        """Which roles he has."""
        self.effective: dict[PrivKey, int] = {}
        """All his privileges, those of his roles included."""
        self.access = Access()
        """Privileges of others on him."""

    @property
    def id(self) -> UserId:
        return self.definition.id

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_role(self) -> bool:
        return self.definition.type is ObjectType.ROLE

    @property
    def is_dropped(self) -> bool:
        return self.token == NO_TOKEN


FindAccess = Callable[[PrivKey, bool], Access | None]
"""The Access that a privilege is laid down in; None if the object is not there. The flag asks to make one for a
function that is known by name only."""


class Users:
    """All users and roles of a node (user cache)."""

    def __init__(self, find_access: FindAccess) -> None:
        self._find_access = find_access
        self._by_id: dict[UserId, User] = {}
        self._by_name: dict[str, User] = {}
        self._tokens: list[User | None] = [None] * USER_MAX
        self._grants: dict[UserId, dict[PrivKey, int]] = {}
        for user_id, name in ((GUEST, "guest"), (ADMIN, "admin")):
            self.put(UserDef(user_id, ADMIN, name, ObjectType.USER))

    def __iter__(self) -> Iterator[User]:
        return iter(self._by_id.values())

    @property
    def guest(self) -> User:
        return self._by_id[GUEST]

    @property
    def admin(self) -> User:
        return self._by_id[ADMIN]

    def by_id(self, user_id: int) -> User | None:
        return self._by_id.get(UserId(user_id))

    def by_token(self, token: int) -> User | None:
        return self._tokens[token] if 0 <= token < USER_MAX else None

    def find(self, user_id: int) -> User:
        """NO_SUCH_USER if there is none (user_find)."""
        user = self.by_id(user_id)
        if user is None:
            raise er(Er.NO_SUCH_USER, str(user_id))
        return user

    def by_name(self, name: str) -> User:
        """A user, not a role; NO_SUCH_USER otherwise (user_find_by_name)."""
        user = self._by_name.get(name)
        if user is None or user.is_role:
            raise er(Er.NO_SUCH_USER, cut(name))
        return user

    def role_or_user(self, name: str) -> User | None:
        return self._by_name.get(name)

    # ---- the cache of rows ----------------------------------------------------------------------------

    def put(self, definition: UserDef) -> User:
        """A new user, or the new definition of one (user_cache_replace). USER_MAX when all tokens are taken."""
        user = self.by_id(definition.id)
        if user is None:
            user = User(definition, self._free_token())
            self._attach(user)
            return user
        del self._by_name[user.name]
        user.definition = definition
        self._by_name[user.name] = user
        return user

    def _free_token(self) -> int:
        for token, user in enumerate(self._tokens):
            if user is None:
                return token
        raise er(Er.USER_MAX, USER_MAX)

    def _attach(self, user: User) -> None:
        self._tokens[user.token] = user
        self._by_id[user.id] = user
        self._by_name[user.name] = user

    def remove(self, user: User) -> int:
        """Gives the token that he had, for `restore`."""
        token = user.token
        del self._by_id[user.id]
        del self._by_name[user.name]
        self._tokens[token] = None
        user.token = NO_TOKEN
        return token

    def restore(self, user: User, token: int) -> None:
        """Undo of `remove`."""
        user.token = token
        self._attach(user)

    # ---- roles and grants -----------------------------------------------------------------------------

    def check_role_loop(self, grantee: User, role: User) -> None:
        """Would the role come to have itself (role_check)?"""
        seen = {grantee.id}
        layer = [grantee]
        while layer:
            above = {user_id for user in layer for user_id in user.users} - seen
            seen |= above
            layer = [self._by_id[user_id] for user_id in above]
        if role.id in seen:
            raise er(Er.ROLE_LOOP, role.name, grantee.name)

    def has_role(self, role: User, user: User) -> bool:
        """Directly or through other roles (role_is_granted)."""
        seen: set[UserId] = set()
        layer = set(role.users)
        while layer:
            seen |= layer
            layer = {user_id for holder in layer for user_id in self._by_id[holder].users} - seen
        return user.id in seen

    def granted(self, grantee: int, key: PrivKey) -> int:
        """What was granted to him himself."""
        return self._grants.get(UserId(grantee), {}).get(key, 0)

    def grant(self, priv: PrivDef, access: int) -> list[User]:
        """Set what is granted on an object; 0 revokes. Gives those whose effective privileges were computed anew."""
        grantee = self.by_id(priv.grantee)
        if grantee is None:
            return []
        own = self._grants.setdefault(grantee.id, {})
        if access:
            own[priv.key] = access
        else:
            own.pop(priv.key, None)
        if priv.key.type is ObjectType.ROLE and not priv.key.entity:
            self._link_role(grantee, int(priv.key.object), bool(access & Priv.EXECUTE))
        return self._rebuild(grantee)

    def _link_role(self, grantee: User, role_id: int, has: bool) -> None:
        role = self.by_id(role_id)
        if role is None or not role.is_role:
            return
        if has:
            role.users.add(grantee.id)
            grantee.roles.add(role.id)
        else:
            role.users.discard(grantee.id)
            grantee.roles.discard(role.id)

    def _rebuild(self, grantee: User) -> list[User]:
        """Him and all who have him as a role, roles before those who have them (rebuild_effective_grants)."""
        dirty = {grantee.id: grantee}
        layer = [grantee]
        while layer:
            layer = [self._by_id[user_id] for user in layer for user_id in user.users if user_id not in dirty]
            dirty.update((user.id, user) for user in layer)
        done: list[User] = []
        while dirty:
            user = next(user for user in dirty.values() if not user.roles & dirty.keys())
            del dirty[user.id]
            self._reload(user)
            done.append(user)
        return done

    def _reload(self, user: User) -> None:
        """user_reload_privs."""
        for key in user.effective:
            self._lay_down(user, key, 0)
        effective: dict[PrivKey, int] = {}
        for key, access in self._grants.get(user.id, {}).items():
            bits = access & ~Priv.EXECUTE if key.type is ObjectType.ROLE else access
            if bits:
                effective[key.place] = effective.get(key.place, 0) | bits
        for role_id in user.roles:
            for key, bits in self._by_id[role_id].effective.items():
                effective[key] = effective.get(key, 0) | bits
        user.effective = effective
        for key, bits in effective.items():
            self._lay_down(user, key, bits)

    def _lay_down(self, user: User, key: PrivKey, bits: int) -> None:
        access = self._find_access(key, bool(bits))
        if access is not None and user.token != NO_TOKEN:
            access.bits[user.token] = bits

    def forget_grants(self, user: User) -> None:
        """Of a user who is dropped; he has none any more (ER_DROP_USER otherwise)."""
        self._grants.pop(user.id, None)
