"""Reading and writing: the methods of `box.space.NAME` and `box.space.NAME.index.NAME` for clients, and
`Context.space` for procedures in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headwater.box.procedures.arguments import illegal, keyed, lua_text, lua_type
from headwater.box.procedures.context import NO_LIMIT, Context, Key
from headwater.box.procedures.reads import ReadOptions, iterator_of
from headwater.errors import Er, Packed, er
from headwater.store.definitions import IndexDef
from headwater.store.space import Space
from headwater.typing import IteratorType
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request
from headwater.wire.xrow import Row

_CHUNK = 1000


# ---- methods of spaces and indexes, as clients call them ----------------------------------------------


def select(ctx: Context, space: Space, index: IndexDef, key: Any = None, options: Any = None) -> Any:
    """index:select(key, {iterator, offset, limit, after, fetch_pos})"""
    parts = keyed(key)
    asked = ReadOptions.of(options, all_keys=not parts)
    request = Request(
        Row(Type.SELECT),
        space_id=space.id,
        index_id=index.id,
        key=pack(list(parts)),
        iterator=asked.iterator,
        offset=asked.offset,
        limit=asked.limit,
        after_position=asked.after_position,
        after_tuple=asked.after_tuple,
        fetch_position=asked.fetch_position,
    )
    found, position = ctx.host.statements.select(request, ctx.effective, ctx.txn)
    tuples = [Packed(tuple) for tuple in found]
    return (tuples, position) if asked.fetch_position else tuples


def get(ctx: Context, space: Space, index: IndexDef, key: Any = None) -> Packed | None:
    """index:get(key): by a full key of a unique index (box_index_get)."""
    if not index.unique:
        raise er(Er.MORE_THAN_ONE_TUPLE)
    parts = keyed(key)
    if len(parts) != len(index.parts):
        raise er(Er.EXACT_MATCH, len(index.parts), len(parts))
    found = ctx.select_raw(space.id, parts, index.id, iterator=IteratorType.EQ, limit=1)
    return Packed(found[0]) if found else None


def minimum(ctx: Context, space: Space, index: IndexDef, key: Any = None) -> Packed | None:
    """index:min(key): the first tuple whose key begins so (generic_index_min)."""
    _check_ordered(space, index, "min()")
    return _first(ctx, space, index, key, IteratorType.EQ, IteratorType.GE)


def maximum(ctx: Context, space: Space, index: IndexDef, key: Any = None) -> Packed | None:
    """index:max(key): the last one (generic_index_max)."""
    _check_ordered(space, index, "max()")
    return _first(ctx, space, index, key, IteratorType.REQ, IteratorType.LE)


def _check_ordered(space: Space, index: IndexDef, what: str) -> None:
    if index.type != "tree":
        raise er(Er.UNSUPPORTED_INDEX_FEATURE, index.name, index.type.upper(), space.name, space.engine, what)


def _first(
    ctx: Context, space: Space, index: IndexDef, key: Any, with_key: IteratorType, without: IteratorType
) -> Packed | None:
    parts = keyed(key)
    found = ctx.select_raw(space.id, parts, index.id, iterator=with_key if parts else without, limit=1)
    return Packed(found[0]) if found else None


def count(ctx: Context, space: Space, index: IndexDef, key: Any = None, options: Any = None) -> int:
    """index:count(key, {iterator})"""
    parts = keyed(key)
    request = Request(
        Row(Type.SELECT),
        space_id=space.id,
        index_id=index.id,
        iterator=iterator_of(options, all_keys=not parts),
        key=pack(list(parts)),
        limit=NO_LIMIT,
    )
    return ctx.host.statements.count(request, ctx.effective, ctx.txn)


def length(ctx: Context, space: Space, index: IndexDef) -> int:
    """index:len()"""
    return count(ctx, space, index)


def index_bytes(ctx: Context, space: Space, index: IndexDef) -> int:
    """index:bsize()"""
    found = space.kernel.index(index.id) if space.kernel is not None else None
    return found.bsize if found is not None else 0


def space_bytes(ctx: Context, space: Space) -> int:
    """space:bsize()"""
    return space.kernel.bsize if space.kernel is not None else 0


def random(ctx: Context, space: Space, index: IndexDef, seed: Any = None) -> Packed | None:
    """index:random(seed)"""
    if seed is None:
        seed = ctx.host.world.chance.random.getrandbits(32)
    if lua_type(seed) != "number":
        raise illegal("index:random(seed): seed should be a number")
    ctx.select_raw(space.id, (), index.id, limit=0)
    found = space.reader(index.id, ctx.effective).random(int(seed) & 0xFFFFFFFF)
    return None if found is None else Packed(found)


def update(ctx: Context, space: Space, index: IndexDef, key: Any = None, ops: Any = None) -> Packed | None:
    """index:update(key, operations); fields count from 1."""
    _check_ops(ops, "update")
    return ctx.change(Type.UPDATE, space.id, index_id=index.id, key=list(keyed(key)), tuple=ops, index_base=1)


def delete(ctx: Context, space: Space, index: IndexDef, key: Any = None) -> Packed | None:
    """index:delete(key)"""
    return ctx.change(Type.DELETE, space.id, index_id=index.id, key=list(keyed(key)))


def insert(ctx: Context, space: Space, tuple: Any = None) -> Packed | None:
    """space:insert(tuple)"""
    return ctx.change(Type.INSERT, space.id, tuple=_tuple(tuple))


def replace(ctx: Context, space: Space, tuple: Any = None) -> Packed | None:
    """space:replace(tuple), also called put."""
    return ctx.change(Type.REPLACE, space.id, tuple=_tuple(tuple))


def upsert(ctx: Context, space: Space, tuple: Any = None, ops: Any = None, extra: Any = None) -> None:
    """space:upsert(tuple, operations)"""
    if extra is not None:
        words = f"Error: extra argument in upsert call: {lua_text(extra)}. Usage :upsert(tuple, operations)"
        raise illegal(words)
    _check_ops(ops, "upsert")
    ctx.change(Type.UPSERT, space.id, tuple=_tuple(tuple), ops=ops, index_base=1)


def auto_increment(ctx: Context, space: Space, tuple: Any = None) -> Packed | None:
    """space:auto_increment(tuple): insert with the greatest key plus one."""
    last = ctx.select(space.id, iterator=IteratorType.LE, limit=1)
    return insert(ctx, space, [last[0][0] + 1 if last else 1, *_tuple(tuple)])


def _tuple(tuple: Any) -> list[Any]:
    if not isinstance(tuple, list):
        raise er(Er.TUPLE_NOT_ARRAY)
    return tuple


def _check_ops(ops: Any, method: str) -> None:
    if not isinstance(ops, list):
        raise illegal("Usage: index:update(key, ops)" if method == "update" else "Usage: space:upsert(tuple_key, ops)")


# ---- for procedures in Python -------------------------------------------------------------------------


class IndexAccess:
    """One index of a space. Tuples are lists; a key is a value, or a list of the values of its parts."""

    def __init__(self, ctx: Context, space: Space, index: IndexDef) -> None:
        self._ctx = ctx
        self._space = space
        self._index = index

    @property
    def name(self) -> str:
        return self._index.name

    def get(self, key: Key) -> list[Any] | None:
        """The tuple with this full key of a unique index."""
        return _unpacked(get(self._ctx, self._space, self._index, key))

    def select(
        self,
        key: Key = None,
        iterator: str | int | None = None,
        *,
        limit: int = NO_LIMIT,
        offset: int = 0,
        after: list[Any] | None = None,
    ) -> list[list[Any]]:
        """Tuples in the order of the index. Iterators as in Tarantool: 'EQ', 'GE', 'LT', …"""
        options = {"iterator": iterator, "limit": limit, "offset": offset, "after": after}
        return [unpack(found) for found in select(self._ctx, self._space, self._index, key, options)]

    def pairs(self, key: Key = None, iterator: str | int | None = None) -> Iterator[list[Any]]:
        """The same one by one. What is changed meanwhile is seen or not, as the place of the walk has it."""
        last: list[Any] | None = None
        while True:
            found = self.select(key, iterator, limit=_CHUNK, after=last)
            yield from found
            if len(found) < _CHUNK:
                return
            last = found[-1]

    def count(self, key: Key = None, iterator: str | int | None = None) -> int:
        return count(self._ctx, self._space, self._index, key, iterator)

    def min(self, key: Key = None) -> list[Any] | None:
        return _unpacked(minimum(self._ctx, self._space, self._index, key))

    def max(self, key: Key = None) -> list[Any] | None:
        return _unpacked(maximum(self._ctx, self._space, self._index, key))

    def update(self, key: Key, operations: Sequence[Sequence[Any]]) -> list[Any] | None:
        """Operations as the connectors take them: ('=', field, value); a field is a name or a number from 0."""
        request = {"index_id": self._index.id, "key": list(keyed(key)), "tuple": [list(op) for op in operations]}
        return _unpacked(self._ctx.change(Type.UPDATE, self._space.id, **request))

    def delete(self, key: Key) -> list[Any] | None:
        return _unpacked(delete(self._ctx, self._space, self._index, key))


class SpaceAccess:
    """One space. What concerns its primary index is asked of it directly."""

    def __init__(self, ctx: Context, space: Space) -> None:
        self._ctx = ctx
        self._space = space

    @property
    def id(self) -> int:
        return self._space.id

    @property
    def name(self) -> str:
        return self._space.name

    @property
    def fields(self) -> Sequence[str]:
        """Names of the fields in their order."""
        return self._space.names

    def index(self, name: str | int = 0) -> IndexAccess:
        """BoxError NO_SUCH_INDEX_NAME or NO_SUCH_INDEX_ID."""
        found = self._space.index_by_name(name) if isinstance(name, str) else self._space.index(name)
        return IndexAccess(self._ctx, self._space, found)

    def insert(self, tuple: Sequence[Any]) -> list[Any]:
        """BoxError TUPLE_FOUND if the key is taken."""
        return self._written(insert(self._ctx, self._space, list(tuple)))

    def replace(self, tuple: Sequence[Any]) -> list[Any]:
        return self._written(replace(self._ctx, self._space, list(tuple)))

    def upsert(self, tuple: Sequence[Any], operations: Sequence[Sequence[Any]]) -> None:
        """Insert the tuple, or do the operations on the one that has its key."""
        ops = [list(op) for op in operations]
        self._ctx.change(Type.UPSERT, self._space.id, tuple=list(tuple), ops=ops)

    def get(self, key: Key) -> list[Any] | None:
        return self.index().get(key)

    def select(self, key: Key = None, iterator: str | int | None = None, **more: Any) -> list[list[Any]]:
        return self.index().select(key, iterator, **more)

    def pairs(self, key: Key = None, iterator: str | int | None = None) -> Iterator[list[Any]]:
        return self.index().pairs(key, iterator)

    def count(self, key: Key = None, iterator: str | int | None = None) -> int:
        return self.index().count(key, iterator)

    def update(self, key: Key, operations: Sequence[Sequence[Any]]) -> list[Any] | None:
        return self.index().update(key, operations)

    def delete(self, key: Key) -> list[Any] | None:
        return self.index().delete(key)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[list[Any]]:
        return self.pairs()

    @staticmethod
    def _written(found: Packed | None) -> list[Any]:
        assert found is not None, "an insert gives its tuple"
        return list(unpack(found))


def _unpacked(found: Packed | None) -> list[Any] | None:
    return None if found is None else list(unpack(found))
