"""System views: a system space as far as a user may know of what is in it (sysview.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.kernels import KeyDef, MemtxIndex
from headwater.store import system
from headwater.store.definitions import IndexDef
from headwater.store.privileges import Access, ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.users import PUBLIC, User
from headwater.typing import IndexId, SpaceId

if TYPE_CHECKING:
    from headwater.store.schema import Schema

_WRDA = Priv.WRITE | Priv.DROP | Priv.ALTER | Priv.READ
_WRDAG = _WRDA | Priv.GRANT
_CHUNK = 64
_NO_LIMIT = 0xFFFFFFFF

Filter = Callable[["Schema", User, Row], bool]
"""May this user know of this row? Asked after what lets him see all rows."""


class SystemView:
    """A space of the engine `sysview`."""

    def __init__(self, schema: Schema, space_id: SpaceId) -> None:
        self._schema = schema
        self._id = space_id

    def reader(self, index_id: IndexId, user: User) -> ViewReader:
        source, rules = _VIEWS[self._id]
        space = self._schema.space(source)
        index = space.kernel.index(index_id) if space.kernel is not None else None
        if index is None:
            raise er(Er.NO_SUCH_INDEX_ID, index_id, space.name)
        if rules.sees_all(self._schema, user) or Priv.READ & self._schema.access.on(space, user):
            return ViewReader(index, None)
        return ViewReader(index, lambda data: rules.filter(self._schema, user, Row(data)))

    def check_index(self, index: IndexDef) -> None:
        """Only the views of 3.x are views."""
        if self._id not in _VIEWS:
            name = self._schema.space(self._id).name
            raise er(Er.MODIFY_INDEX, index.name, name, "unknown space for system view")


class ViewReader:
    """One index of a view, for one user."""

    __slots__ = ("_filter", "_index")

    def __init__(self, index: MemtxIndex, filter: Callable[[bytes], bool] | None) -> None:
        self._index = index
        self._filter = filter

    @property
    def id(self) -> int:
        return self._index.id

    @property
    def unique(self) -> bool:
        return self._index.unique

    @property
    def key_def(self) -> KeyDef:
        return self._index.key_def

    def __len__(self) -> int:
        return sum(1 for _ in self._walk(_ALL, _EMPTY_KEY, None))

    def get(self, key: bytes) -> bytes | None:
        found = self._index.get(key)
        return found if found is not None and (self._filter is None or self._filter(found)) else None

    def select(
        self, iterator: int, key: bytes, offset: int = 0, limit: int = _NO_LIMIT, after: bytes | None = None
    ) -> list[bytes]:
        if self._filter is None:
            return self._index.select(iterator, key, offset, limit, after)
        out: list[bytes] = []
        if limit == 0:
            self._index.select(iterator, key, 0, 0, after)
            return out
        for number, seen in enumerate(self._walk(iterator, key, after)):
            if number >= offset:
                out.append(seen)
            if len(out) >= limit:
                break
        return out

    def count(self, iterator: int, key: bytes) -> int:
        if self._filter is None:
            return self._index.count(iterator, key)
        return sum(1 for _ in self._walk(iterator, key, None))

    def random(self, seed: int) -> bytes | None:
        seen = list(self._walk(_ALL, _EMPTY_KEY, None))
        return seen[seed % len(seen)] if seen else None

    def _walk(self, iterator: int, key: bytes, after: bytes | None) -> Iterator[bytes]:
        while True:
            found = self._index.select(iterator, key, 0, _CHUNK, after)
            yield from (data for data in found if self._filter is None or self._filter(data))
            if len(found) < _CHUNK:
                return
            after = found[-1]


_ALL = 2
_EMPTY_KEY = b"\x90"


# ---- who sees what --------------------------------------------------------------------------------


class _Rules:
    """`universe`: privileges on the universe that show all rows; `entity`: on all objects of a kind."""

    def __init__(self, filter: Filter, universe: int, kind: ObjectType | None = None, entity: int = 0) -> None:
        self.filter = filter
        self._universe = universe
        self._kind = kind
        self._entity = entity

    def sees_all(self, schema: Schema, user: User) -> bool:
        access = schema.access
        if self._universe & access.universal(user):
            return True
        return self._kind is not None and bool(self._entity & access.entity(self._kind, user))


def _knows(schema: Schema, user: User, owner: int, access: Access, bits: int) -> bool:
    held = access.bits[user.token] if not user.is_dropped else 0
    return bool(bits & held) or owner == user.id


def _space(schema: Schema, user: User, row: Row) -> bool:
    """Rows that begin with the id of a space (vspace_filter)."""
    space = schema.spaces.get(SpaceId(row.u32(0)))
    return space is not None and _knows(schema, user, space.owner, space.access, _WRDA)


def _function(schema: Schema, user: User, row: Row) -> bool:
    function = schema.function(row.string(2))
    return function is not None and _knows(schema, user, function.owner, function.access, _WRDA | Priv.EXECUTE)


def _sequence(schema: Schema, user: User, row: Row) -> bool:
    sequence = schema.sequences.get(row.u32(0))
    return sequence is not None and _knows(schema, user, sequence.owner, sequence.access, _WRDA | Priv.EXECUTE)


def _user(schema: Schema, user: User, row: Row) -> bool:
    """Himself, those whom he made, public, and roles that he has (vuser_filter)."""
    if row.u32(0) in (user.id, PUBLIC) or row.u32(1) == user.id:
        return True
    other = schema.users.by_id(row.u32(0))
    if other is None:
        return False
    if _WRDA & schema.access.entity(other.definition.type, user):
        return True
    return other.is_role and schema.users.has_role(other, user)


def _priv(schema: Schema, user: User, row: Row) -> bool:
    return user.id in (row.u32(0), row.u32(1))


def _everything(schema: Schema, user: User, row: Row) -> bool:
    return True


_SPACES = _Rules(_space, _WRDAG, ObjectType.SPACE, _WRDA)
_FUNCTIONS = _Rules(_function, _WRDAG | Priv.EXECUTE, ObjectType.FUNCTION, _WRDA | Priv.EXECUTE)
_SEQUENCES = _Rules(_sequence, _WRDAG | Priv.EXECUTE, ObjectType.SEQUENCE, _WRDA | Priv.EXECUTE)
_VIEWS: Mapping[SpaceId, tuple[SpaceId, _Rules]] = {
    system.VSPACE: (system.SPACE, _SPACES),
    system.VINDEX: (system.INDEX, _SPACES),
    system.VSPACE_SEQUENCE: (system.SPACE_SEQUENCE, _SPACES),
    system.VUSER: (system.USER, _Rules(_user, _WRDAG)),
    system.VPRIV: (system.PRIV, _Rules(_priv, _WRDA)),
    system.VFUNC: (system.FUNC, _FUNCTIONS),
    system.VSEQUENCE: (system.SEQUENCE, _SEQUENCES),
    system.VCOLLATION: (system.COLLATION, _Rules(_everything, 0)),
}
