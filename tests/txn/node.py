"""A node's ordinary path without a journal and without connections: requests in, tuples and rows out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.box.execute import Answer, Statements
from headwater.box.readonly import ReadOnly
from headwater.box.stat import Stats
from headwater.kernels import Memtx
from headwater.options import Options
from headwater.store.bootstrap import bootstrap_rows
from headwater.store.bootstrap_tables import V3_8_0
from headwater.store.context import Source
from headwater.store.schema import Schema
from headwater.store.users import User
from headwater.txn import InteractiveTxn, Transaction, Txns
from headwater.typing import IteratorType
from headwater.wire.body import is_map
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request
from headwater.wire.xrow import Row, decode_row

NOW = 1_700_000_000.5
SPACE, INDEX, SEQUENCE, SPACE_SEQUENCE, TRUNCATE, USER, PRIV = 280, 288, 284, 340, 330, 304, 312


class HandTimer:
    def __init__(self, delay: float, call: Callable[..., object]) -> None:
        self.delay, self.call = delay, call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandTasks:
    """Timers that ring when the test says so. Nothing else is asked of it here."""

    def __init__(self) -> None:
        self.timers: list[HandTimer] = []

    def later(self, delay: float, call: Callable[..., object], *args: object) -> HandTimer:
        timer = HandTimer(delay, call)
        self.timers.append(timer)
        return timer


class Node:
    def __init__(self, tasks: Any = None) -> None:
        self.memtx = Memtx()
        self.schema = Schema(self.memtx)
        self.options = Options()
        self.read_only = ReadOnly()
        self.tasks: Any = tasks or HandTasks()
        self.txns = Txns(self.memtx, lambda: self.schema.spaces.values(), lambda: NOW)
        self.stats = Stats()
        self.statements = Statements(self.schema, self.txns, self.options, self.read_only, self.stats, self.tasks)
        self.memtx.undo_enabled = False
        self.schema.begin_snapshot()
        for space_id, data in bootstrap_rows(V3_8_0):
            body = b"\x82\x10" + pack(space_id) + b"\x21" + data
            self.statements.recover([Row(Type.INSERT, body=body)], Source.SNAPSHOT)
        self.schema.end_snapshot()
        self.schema.end_recovery()
        self.memtx.undo_enabled = True
        self.memtx.replica_id = 1
        self.user = self.schema.users.admin

    # ---- requests --------------------------------------------------------------------------------------

    def answer(self, type: Type, txn: Transaction | None = None, user: User | None = None, **parts: Any) -> Answer:
        request = Request(Row(type))
        for name, value in parts.items():
            packed = name in ("key", "tuple", "ops", "after_tuple", "begin_key", "end_key")
            setattr(request, name, pack(list(value)) if packed else value)
        return self.statements.answer(request, user or self.user, txn)

    def ask(self, type: Type, txn: Transaction | None = None, **parts: Any) -> list[Any]:
        return [unpack(found) for found in self.answer(type, txn, **parts).tuples]

    def insert(self, space: int | str, *fields: Any, txn: Transaction | None = None) -> Any:
        return self.ask(Type.INSERT, txn, tuple=fields, **_space(space))[0]

    def replace(self, space: int | str, *fields: Any, txn: Transaction | None = None) -> Any:
        return self.ask(Type.REPLACE, txn, tuple=fields, **_space(space))[0]

    def update(self, space: int | str, key: list[Any], ops: list[Any], **more: Any) -> list[Any]:
        return self.ask(Type.UPDATE, key=key, tuple=ops, **_space(space), **more)

    def delete(self, space: int | str, key: list[Any], **more: Any) -> list[Any]:
        return self.ask(Type.DELETE, key=key, **_space(space), **more)

    def upsert(self, space: int | str, fields: list[Any], ops: list[Any], **more: Any) -> list[Any]:
        return self.ask(Type.UPSERT, tuple=fields, ops=ops, **_space(space), **more)

    def select(self, space: int | str, key: list[Any] | None = None, **more: Any) -> list[Any]:
        more = {"iterator": IteratorType.EQ if key else IteratorType.ALL, "limit": 1000} | more
        return self.ask(Type.SELECT, key=key or [], **_space(space), **more)

    def begin(self, isolation: int = 0, timeout: float = 0.0) -> InteractiveTxn:
        txn = self.statements.begin(interactive=True, isolation=isolation, timeout=timeout)
        assert isinstance(txn, InteractiveTxn)
        return txn

    # ---- the journal -----------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Rows made since the last look, as they would be written; they are written now."""
        data, _, count = self.memtx.take_rows()
        self.memtx.confirm_to(self.memtx.undo_end)
        rows, at = [], 0
        while at < len(data):
            row, at = decode_row(data, at)
            rows.append(row)
        assert len(rows) == count
        return rows

    # ---- a schema to work with -------------------------------------------------------------------------

    def make_space(self, id: int, name: str, format: list[Any] | None = None, **options: Any) -> None:
        self.insert(SPACE, id, 1, name, "memtx", 0, options, format or [])

    def make_index(self, space: int, id: int, name: str, parts: list[Any], type: str = "tree", **options: Any) -> None:
        self.insert(INDEX, space, id, name, type, {"unique": True, **options}, parts)

    def make_user(self, id: int, name: str, **grants: int) -> User:
        """`grants`: privileges on spaces by name, and on the universe as `universe`."""
        self.insert(USER, id, 1, name, "user", {}, [], 0)
        self.replace(PRIV, 1, id, "universe", 0, 24 | grants.pop("universe", 0))
        self.insert(PRIV, 1, id, "role", 2, 4)
        for space, bits in grants.items():
            self.insert(PRIV, 1, id, "space", self.schema.space(space).id, bits)
        return self.schema.users.find(id)


def _space(space: int | str) -> dict[str, Any]:
    return {"space_name": space} if isinstance(space, str) else {"space_id": space}


def body_of(row: Row) -> dict[int, Any]:
    assert not row.body or is_map(row.body)
    return unpack(row.body) if row.body else {}
