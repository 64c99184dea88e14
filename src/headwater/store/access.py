"""Who may do what: the checks made by requests and by the triggers of system spaces (space.c, session.c, func.c,
sequence.c, call.c, alter.cc access_check_ddl).

Usage of the universe is asked for every access and can be granted on the universe only; an owner needs no privilege
on what is his; admin has all of the universe, so that no check knows him by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headwater.errors import AccessDenied
from headwater.store.privileges import ALL, ENTITIES, USER_MAX, Access, ObjectType, Priv, PrivKey, priv_name
from headwater.store.users import ADMIN, NO_TOKEN, User, Users

_KERNEL_BITS = (Priv.READ, Priv.WRITE)
_USAGE = int(Priv.USAGE)
"""A plain number: flags are slow, and this is asked for every request."""


class Owned(Protocol):
    """An object with a name, an owner and privileges."""

    @property
    def name(self) -> str: ...
    @property
    def owner(self) -> int: ...
    @property
    def access(self) -> Access: ...


class AccessControl:
    """All privileges of a node, and the questions asked of them."""

    def __init__(self, find_object: Callable[[PrivKey], Access | None]) -> None:
        self._find_object = find_object
        self.universe = Access()
        self.lua_call = Access()
        """All global functions at once."""
        self.lua_eval = Access()
        self.sql = Access()
        self.entities = {kind: Access() for kind in ENTITIES}
        self._functions: dict[str, Access] = {}
        """Functions without a row in `_func`, by name (access_lua_call_registry)."""
        self.users = Users(self._find)
        self.universe.bits[ADMIN] = ALL

    def _find(self, key: PrivKey, make: bool) -> Access | None:
        """access_get."""
        if key.type is ObjectType.UNIVERSE:
            return self.universe
        if key.type is ObjectType.LUA_CALL:
            if key.entity:
                return self.lua_call
            name = str(key.object)
            return self._functions.setdefault(name, Access()) if make else self._functions.get(name)
        if key.type in (ObjectType.LUA_EVAL, ObjectType.SQL):
            return self.lua_eval if key.type is ObjectType.LUA_EVAL else self.sql
        if key.entity:
            return self.entities.get(key.type)
        if key.type in (ObjectType.USER, ObjectType.ROLE):
            user = self.users.by_id(int(key.object))
            return user.access if user is not None else None
        return self._find_object(key)

    # ---- what a user has ------------------------------------------------------------------------------

    @staticmethod
    def _bits(access: Access | None, user: User) -> int:
        """A dropped user has nothing, whoever got his token."""
        return access.bits[user.token] if access is not None and user.token != NO_TOKEN else 0

    def universal(self, user: User) -> int:
        """His privileges on the universe."""
        return self._bits(self.universe, user)

    def entity(self, type: ObjectType, user: User) -> int:
        """His privileges on all objects of a kind."""
        return self._bits(self.entities.get(type), user)

    def on(self, object: Owned, user: User) -> int:
        """His privileges on one object, those on its kind and on the universe not counted."""
        return self._bits(object.access, user)

    # ---- checks ---------------------------------------------------------------------------------------

    def _deny(self, user: User, bits: int, type: ObjectType, name: str) -> AccessDenied:
        """NO_SUCH_USER where he was dropped meanwhile."""
        known = self.users.find(user.id)
        if not self.universal(user) & Priv.USAGE:
            return AccessDenied(priv_name(Priv.USAGE), ObjectType.UNIVERSE.value, "", known.name)
        return AccessDenied(priv_name(bits), type.value, name, known.name)

    def check_universe(self, user: User, bits: int) -> None:
        """access_check_universe."""
        bits |= Priv.USAGE
        missing = bits & ~self.universal(user)
        if missing:
            known = self.users.find(user.id)
            raise AccessDenied(priv_name(missing), ObjectType.UNIVERSE.value, "", known.name)

    def check_session(self, user: User) -> None:
        """May he log in (access_check_session)?"""
        if not self.universal(user) & Priv.SESSION:
            raise AccessDenied(priv_name(Priv.SESSION), ObjectType.UNIVERSE.value, "", user.name)

    def _missing(self, user: User, bits: int, type: ObjectType, object: Owned) -> int:
        missing = (int(bits) | _USAGE) & ~self.universal(user) & ~self.entity(type, user)
        if missing & _USAGE:
            return missing
        return 0 if object.owner == user.id else missing & ~self.on(object, user)

    def check_space(self, user: User, space: Owned, bits: int) -> None:
        """access_check_space."""
        if self._missing(user, bits, ObjectType.SPACE, space):
            raise self._deny(user, bits | Priv.USAGE, ObjectType.SPACE, space.name)

    def space_bits(self, user: User, space: Owned) -> int:
        """What the compiled path may do for him: READ and WRITE, everything counted."""
        return sum(bit for bit in _KERNEL_BITS if not self._missing(user, bit, ObjectType.SPACE, space))

    def check_sequence(self, user: User, sequence: Owned) -> None:
        """access_check_sequence."""
        if self._missing(user, Priv.WRITE, ObjectType.SEQUENCE, sequence):
            raise self._deny(user, Priv.USAGE | Priv.WRITE, ObjectType.SEQUENCE, sequence.name)

    def check_function(self, user: User, function: Owned, *, persistent: bool) -> None:
        """A function of `_func` (func_access_check). `persistent`: its body is in `_func`, so that no privilege by
        name counts."""
        needed = Priv.EXECUTE | Priv.USAGE
        if self.universal(user) & needed == needed:
            return
        missing = needed & ~self.entity(ObjectType.FUNCTION, user) & ~self.universal(user)
        if not missing & Priv.USAGE and (function.owner == user.id or not missing & ~self.on(function, user)):
            return
        if not persistent:
            self.check_call(user, function.name)
            return
        known = self.users.find(user.id)
        raise AccessDenied(priv_name(Priv.EXECUTE), ObjectType.FUNCTION.value, function.name, known.name)

    def check_call(self, user: User, name: str, *, builtin: bool = False) -> None:
        """A function that is known by name only (access_check_lua_call). `builtin`: one of the server's own, which
        a privilege on all of lua_call does not reach."""
        missing = (Priv.EXECUTE | Priv.USAGE) & ~self.universal(user)
        if not missing:
            return
        missing &= ~self._bits(self.lua_call, user)
        if not missing and not builtin:
            return
        if not missing & Priv.USAGE and self._bits(self._functions.get(name), user) & Priv.EXECUTE:
            return
        known = self.users.find(user.id)
        raise AccessDenied(priv_name(Priv.EXECUTE), ObjectType.FUNCTION.value, name, known.name)

    def check_eval(self, user: User) -> None:
        """access_check_lua_eval."""
        if (Priv.EXECUTE | Priv.USAGE) & ~self.universal(user) & ~self._bits(self.lua_eval, user):
            known = self.users.find(user.id)
            raise AccessDenied(priv_name(Priv.EXECUTE), ObjectType.UNIVERSE.value, "", known.name)

    def check_ddl(self, user: User, name: str, owner: int, access: Access | None, type: ObjectType, bits: int) -> None:
        """May he create, alter, drop or grant (access_check_ddl)? To create, being the owner is not enough."""
        missing = (Priv.USAGE | bits) & ~self.universal(user)
        if not missing:
            return
        missing &= ~self.entity(type, user)
        is_owner = owner == user.id or user.id == ADMIN
        if not missing or (is_owner and not missing & (Priv.USAGE | Priv.CREATE)):
            return
        if not missing & Priv.USAGE:
            missing &= ~self._bits(access, user)
            if not missing:
                return
        known = self.users.find(user.id)
        if missing & Priv.USAGE:
            raise AccessDenied(priv_name(Priv.USAGE), ObjectType.UNIVERSE.value, "", known.name)
        raise AccessDenied(priv_name(missing), type.value, name, known.name)

    def all_space_bits(self, space: Owned) -> list[int]:
        """What every token may do with a space."""
        users = (self.users.by_token(token) for token in range(USER_MAX))
        return [self.space_bits(user, space) if user is not None else 0 for user in users]
