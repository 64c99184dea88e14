"""A store without a journal: a few spaces, transactions, and a hand that says what was written and what was lost."""

from __future__ import annotations

from typing import Any

from headwater.kernels import KeyDef, KeyPart, Memtx
from headwater.store.definitions import FieldDef, IndexDef, PartDef, SpaceDef
from headwater.store.space import Space
from headwater.txn import InteractiveTxn, Isolation, Txns
from headwater.txn.base import kernel_of
from headwater.typing import FieldType, IndexId, IteratorType, SpaceId, UserId
from headwater.wire import msgpack

PK = IndexId(0)
INSERT, REPLACE, DELETE = 2, 3, 5


class Store:
    """Space 512: fields id, unique name (nullable), rank (not unique)."""

    def __init__(self) -> None:
        self.memtx = Memtx()
        self.memtx.replica_id = 1
        self.spaces = {512: self._space(512), 513: self._space(513)}
        self.txns = Txns(self.memtx, lambda: list(self.spaces.values()), lambda: 0.0)

    def _space(self, id: int) -> Space:
        kernel = self.memtx.add_space(id)
        pk, rank = KeyPart(0, FieldType.UNSIGNED), KeyPart(2, FieldType.NUMBER)
        name = KeyPart(1, FieldType.STRING, nullable=True)
        kernel.add_index(0, KeyDef([pk]), True)
        kernel.add_index(1, KeyDef([name], [pk]), True)
        kernel.add_index(2, KeyDef([rank], [pk]), False)
        fields = [
            FieldDef("id", FieldType.UNSIGNED),
            FieldDef("name", FieldType.STRING, nullable=True, action="none"),
            FieldDef("rank", FieldType.NUMBER),
        ]
        space = Space(SpaceDef(SpaceId(id), UserId(1), f"s{id}", "memtx", 0, {}, fields), kernel)
        kernel.set_format(space.format.kernel())
        space.indexes = {
            IndexId(0): _index(id, 0, True, PartDef(0, FieldType.UNSIGNED)),
            IndexId(1): _index(id, 1, True, PartDef(1, FieldType.STRING, nullable=True)),
            IndexId(2): _index(id, 2, False, PartDef(2, FieldType.NUMBER)),
        }
        space.set_fast()
        return space

    @property
    def space(self) -> Space:
        return self.spaces[512]

    @property
    def other(self) -> Space:
        return self.spaces[513]

    # ---- the journal's part --------------------------------------------------------------------------

    def written(self) -> None:
        self.memtx.confirm_to(self.memtx.undo_end)

    def lost_from(self, position: int) -> None:
        self.memtx.rollback_to(position)

    # ---- requests ------------------------------------------------------------------------------------

    def begin(self, isolation: Isolation = Isolation.BEST_EFFORT) -> InteractiveTxn:
        return self.txns.begin(isolation)

    def put(self, *rows: tuple[Any, ...], space: Space | None = None) -> None:
        """Autocommit."""
        for row in rows:
            direct = self.txns.direct()
            direct.replace(self.space if space is None else space, pack(row), observe_old=False)
            direct.commit()

    def remove(self, id: int) -> None:
        direct = self.txns.direct()
        old = direct.get(self.space, PK, pack([id]))
        assert old is not None
        direct.delete(self.space, old)
        direct.commit()

    def rows(self, space: Space | None = None) -> list[list[Any]]:
        index = kernel_of(self.space if space is None else space).index(0)
        assert index is not None
        return [msgpack.unpack(row) for row in index.select(IteratorType.ALL, b"\x90")]


class Client:
    """What a transaction does, in values."""

    def __init__(self, store: Store, txn: InteractiveTxn) -> None:
        self.store = store
        self.txn = txn

    def select(
        self, key: list[Any], iterator: int = IteratorType.EQ, index: int = 0, limit: int = 0xFFFFFFFF, offset: int = 0
    ) -> list[list[Any]]:
        found = self.txn.select(self.store.space, IndexId(index), iterator, pack(key), offset, limit)
        return [msgpack.unpack(row) for row in found]

    def all(self) -> list[list[Any]]:
        return self.select([], IteratorType.ALL)

    def insert(self, *row: Any) -> None:
        self.txn.insert(self.store.space, pack(row))

    def replace(self, *row: Any) -> None:
        self.txn.replace(self.store.space, pack(row), observe_old=False)

    def update(self, id: int, *row: Any) -> None:
        old = self.txn.get(self.store.space, PK, pack([id]))
        if old is not None:
            self.txn.update(self.store.space, old, pack([id, *row]))

    def delete(self, id: int) -> None:
        old = self.txn.get(self.store.space, PK, pack([id]))
        if old is not None:
            self.txn.delete(self.store.space, old)

    def commit(self) -> bool:
        return self.store.txns.commit(self.txn)

    def rollback(self) -> None:
        self.store.txns.rollback(self.txn)


def client(store: Store, isolation: Isolation = Isolation.BEST_EFFORT) -> Client:
    return Client(store, store.begin(isolation))


def pack(value: Any) -> bytes:
    return msgpack.pack(list(value))


def _index(space_id: int, id: int, unique: bool, part: PartDef) -> IndexDef:
    return IndexDef(SpaceId(space_id), IndexId(id), f"i{id}", "tree", unique, [part])
