"""A node's store without a node: statements as the ordinary path makes them, journal and all its moods by hand."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.kernels import Memtx
from headwater.store import system
from headwater.store.bootstrap import bootstrap_rows
from headwater.store.bootstrap_tables import V3_8_0, Version
from headwater.store.context import Context, Journal, Source
from headwater.store.schema import Schema
from headwater.store.space import Space
from headwater.store.users import User
from headwater.typing import IteratorType
from headwater.wire.msgpack import pack, unpack

ALL_KEYS = b"\x90"


class Dictionary:
    """Memtx and Schema of a node that was started with the rows of `version`."""

    def __init__(self, version: Version = V3_8_0, rows: Iterable[tuple[int, bytes]] | None = None) -> None:
        self.memtx = Memtx()
        self.schema = Schema(self.memtx)
        self.user: User | None = None
        self.journals: list[Journal] = []
        self.is_first = True
        self.memtx.undo_enabled = False
        self.schema.begin_snapshot()
        for space_id, data in rows if rows is not None else bootstrap_rows(version):
            self.insert(space_id, *unpack(data), source=Source.SNAPSHOT)
        self.schema.end_snapshot()
        self.schema.end_recovery()
        self.memtx.undo_enabled = True

    # ---- statements -----------------------------------------------------------------------------------

    def context(self, source: Source = Source.CLIENT) -> Context:
        user = self.user if self.user is not None else self.schema.users.admin
        return Context(user, source, self.is_first)

    def insert(self, space_id: int, *fields: object, source: Source = Source.CLIENT) -> list[object]:
        return self._put("insert", space_id, pack(list(fields)), source)

    def replace(self, space_id: int, *fields: object, source: Source = Source.CLIENT) -> list[object]:
        return self._put("replace", space_id, pack(list(fields)), source)

    def _put(self, operation: str, space_id: int, data: bytes, source: Source) -> list[object]:
        space = self.schema.space(space_id)
        ctx = self.context(source)
        mark = self.memtx.undo_end
        try:
            data = self.schema.prepare(space, data, ctx)
            old = self._old(space, data) if operation == "replace" else None
            if space.before_replace:
                changed = self.schema.before_replace(space, old, data, ctx)
                if changed is None or changed == old:
                    return unpack(old or b"\x90")
                data = changed
            kernel = space.kernel
            assert kernel is not None
            if operation == "insert":
                kernel.insert(data)
            else:
                kernel.replace(data)
            self.journals.append(self.schema.replaced(space, old, data, ctx))
        except BaseException:
            if self.memtx.undo_enabled:
                self.memtx.rollback_to(mark)
            raise
        return unpack(data)

    def _old(self, space: Space, data: bytes) -> bytes | None:
        index = space.kernel.index(0) if space.kernel is not None else None
        return index.get(index.key_def.extract(data)) if index is not None else None

    def delete(self, space_id: int, *key: object, source: Source = Source.CLIENT) -> list[object] | None:
        space = self.schema.space(space_id)
        ctx = self.context(source)
        mark = self.memtx.undo_end
        assert space.kernel is not None
        old = space.kernel.delete(0, pack(list(key)))
        if old is None:
            return None
        try:
            self.journals.append(self.schema.replaced(space, old, None, ctx))
        except BaseException:
            self.memtx.rollback_to(mark)
            raise
        return unpack(old)

    # ---- the journal ----------------------------------------------------------------------------------

    def written(self) -> None:
        self.memtx.confirm_to(self.memtx.undo_end)

    def failed(self, mark: int) -> None:
        self.memtx.rollback_to(mark)

    @property
    def mark(self) -> int:
        return self.memtx.undo_end

    # ---- looking --------------------------------------------------------------------------------------

    def rows(
        self, space_id: int, index_id: int = 0, key: Iterable[object] = (), it: int = IteratorType.ALL
    ) -> list[object]:
        user = self.user if self.user is not None else self.schema.users.admin
        reader = self.schema.space(space_id).reader(index_id, user)
        return [unpack(data) for data in reader.select(it, pack(list(key)))]

    # ---- shortcuts ------------------------------------------------------------------------------------

    def create_space(
        self,
        space_id: int = 512,
        name: str = "t",
        format: list[object] | None = None,
        owner: int = 1,
        **options: object,
    ) -> Space:
        self.insert(system.SPACE, space_id, owner, name, "memtx", 0, options, format or [])
        return self.schema.space(space_id)

    def create_index(
        self,
        space_id: int,
        index_id: int,
        parts: list[object],
        name: str | None = None,
        type: str = "tree",
        **options: object,
    ) -> None:
        self.insert(system.INDEX, space_id, index_id, name or f"i{index_id}", type, {"unique": True} | options, parts)

    def create_user(self, user_id: int, name: str, owner: int = 1, type: str = "user") -> User:
        self.insert(system.USER, user_id, owner, name, type, {}, [], 0)
        return self.schema.users.find(user_id)

    def grant(self, grantee: int, type: str, object: object, access: int, grantor: int = 1) -> None:
        self.replace(system.PRIV, grantor, grantee, type, object, access)
