"""What a procedure is given as its first argument: the caller, the data, transactions, other procedures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headwater.box.host import Host, Session
from headwater.errors import BoxError, Er, Packed, er
from headwater.options.checks import isolation_name
from headwater.store.users import User
from headwater.txn import InteractiveTxn, Isolation, Transaction
from headwater.typing import IteratorType
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request
from headwater.wire.xrow import Row

if TYPE_CHECKING:
    from headwater.box.call import Calls
    from headwater.box.procedures.data import SpaceAccess
    from headwater.store.space import Space

NO_LIMIT = 0xFFFFFFFF

Key = Any
"""One value, or a list of the parts of a key; None and [] stand for every key."""


class Context:
    """One call. It ends with the procedure; a transaction left open is rolled back and an error."""

    def __init__(self, host: Host, calls: Calls, session: Session, user: User, txn: Transaction | None = None) -> None:
        self.host = host
        self.session = session
        self.effective = user
        """With whose privileges statements run: the caller's, or for a setuid function its owner's."""
        self.txn = txn
        """The open transaction: of the stream that the call came by, or begun here."""
        self._joined = txn is not None
        self._calls = calls

    # ---- for procedures -------------------------------------------------------------------------------

    @property
    def user(self) -> str:
        """The name of the user who calls."""
        return self.effective.name

    def space(self, name: str | int) -> SpaceAccess:
        """The space with this name or id. BoxError NO_SUCH_SPACE."""
        from headwater.box.procedures.data import SpaceAccess

        return SpaceAccess(self, self.find_space(name))

    def call(self, name: str, *args: Any) -> Any:
        """Call another procedure, built-in or not, in this transaction and as this user. What it returns; for an
        asynchronous one an awaitable of that."""
        return self._calls.run(self, name, args)

    def atomic(self) -> Atomic:
        """`with ctx.atomic():` everything inside becomes visible together, or nothing does. Nothing may be awaited
        inside. In an open transaction it is a part of that."""
        return Atomic(self)

    def transaction(self, isolation: str | int = 0, timeout: float = 0.0) -> Interactive:
        """`async with ctx.transaction():` the same for procedures that wait inside. Others may commit meanwhile; what
        was read is checked at the end, and BoxError TRANSACTION_CONFLICT says that it changed."""
        return Interactive(self, isolation, timeout)

    def begin(self) -> None:
        """What `atomic` does, by hand: then `commit` or `rollback`, without awaiting in between."""
        if self.txn is not None:
            raise er(Er.ACTIVE_TRANSACTION)
        self.txn = self.host.statements.begin(interactive=False)

    def commit(self) -> None:
        if self.txn is None:
            return
        txn = self._own()
        self.txn = None
        self.host.statements.commit(txn)

    def rollback(self) -> None:
        if self.txn is None:
            return
        txn = self._own()
        self.txn = None
        self.host.statements.rollback(txn)

    async def settled(self) -> None:
        """Wait until what has been written so far is in the journal. The reply of a call always waits for that."""
        await self.host.settled()

    # ---- for the built-ins -----------------------------------------------------------------------------

    @contextmanager
    def as_user(self, user: User) -> Iterator[None]:
        """box.session.su with a function: other privileges for a while."""
        before, self.effective = self.effective, user
        try:
            yield
        finally:
            self.effective = before

    @contextmanager
    def as_admin(self) -> Iterator[None]:
        with self.as_user(self.host.schema.access.users.admin):
            yield

    def find_space(self, name: str | int) -> Space:
        space = self.lookup_space(name)
        if space is None:
            raise er(Er.NO_SUCH_SPACE, name if isinstance(name, str) else f"#{name}")
        return space

    def lookup_space(self, name: str | int) -> Space | None:
        """What `box.space[name]` is, privileges aside."""
        return self.host.schema.find_space(name)

    def execute(self, request: Request) -> list[bytes]:
        return self.host.statements.execute(request, self.effective, self.txn)

    def select_raw(
        self,
        space: int,
        key: Sequence[Any] = (),
        index: int = 0,
        iterator: int | None = None,
        offset: int = 0,
        limit: int = NO_LIMIT,
        **more: Any,
    ) -> list[bytes]:
        if iterator is None:
            iterator = IteratorType.EQ if key else IteratorType.ALL
        request = Request(
            Row(Type.SELECT),
            space_id=space,
            index_id=index,
            iterator=iterator,
            offset=offset,
            limit=limit,
            key=pack(list(key)),
            **more,
        )
        return self.execute(request)

    def select(self, space: int, key: Sequence[Any] = (), index: int = 0, **more: Any) -> list[list[Any]]:
        return [unpack(found) for found in self.select_raw(space, key, index, **more)]

    def get(self, space: int, key: Sequence[Any], index: int = 0) -> list[Any] | None:
        found = self.select(space, key, index, iterator=IteratorType.EQ, limit=1)
        return found[0] if found else None

    def change(self, type: Type, space: int, **parts: Any) -> Packed | None:
        """INSERT, REPLACE, UPDATE, DELETE, UPSERT. Parts that are not bytes are packed."""
        request = Request(Row(type), space_id=space)
        for name, value in parts.items():
            is_value = name in ("key", "tuple", "ops") and not isinstance(value, bytes)
            setattr(request, name, pack(value) if is_value else value)
        result = self.execute(request)
        return Packed(result[0]) if result else None

    def insert(self, space: int, tuple: Sequence[Any]) -> list[Any]:
        found = self.change(Type.INSERT, space, tuple=list(tuple))
        assert found is not None
        return unpack(found)  # type: ignore[no-any-return]

    def replace(self, space: int, tuple: Sequence[Any]) -> None:
        self.change(Type.REPLACE, space, tuple=list(tuple))

    def update(self, space: int, key: Sequence[Any], ops: Sequence[Any]) -> None:
        """Field numbers in operations count from 1, as in Lua."""
        self.change(Type.UPDATE, space, key=list(key), tuple=list(ops), index_base=1)

    def delete(self, space: int, key: Sequence[Any]) -> list[Any] | None:
        found = self.change(Type.DELETE, space, key=list(key))
        return None if found is None else unpack(found)

    def auto_increment(self, space: int, rest: Sequence[Any]) -> list[Any]:
        """Insert with the greatest id plus one (schema.lua, space_mt.auto_increment)."""
        last = self.select(space, iterator=IteratorType.LE, limit=1)
        return self.insert(space, [last[0][0] + 1 if last else 1, *rest])

    # ---- the end ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The procedure returned: no transaction of its own may be open (call.c, ER_FUNCTION_TX_ACTIVE)."""
        if self.txn is not None and not self._joined:
            self.rollback()
            raise er(Er.FUNCTION_TX_ACTIVE)

    def abandon(self) -> None:
        """The procedure failed."""
        if self.txn is not None and not self._joined:
            self.rollback()

    def interrupt(self) -> BoxError | None:
        """The procedure waits for something. A transaction that nobody may interrupt ends by that (txn.c,
        ER_TRANSACTION_YIELD)."""
        if self.txn is None or self.txn.interactive:
            return None
        self.rollback()
        return er(Er.TRANSACTION_YIELD)

    def _own(self) -> Transaction:
        if self._joined:
            raise er(Er.UNSUPPORTED, "a procedure", "ending the transaction of the stream that called it")
        assert self.txn is not None
        return self.txn


class Atomic:
    """See `Context.atomic`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._own = False

    def __enter__(self) -> None:
        self._own = self._context.txn is None
        if self._own:
            self._context.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own and self._context.txn is not None:
            if error is None:
                self._context.commit()
            else:
                self._context.rollback()


class Interactive:
    """See `Context.transaction`."""

    def __init__(self, context: Context, isolation: str | int, timeout: float) -> None:
        self._context = context
        self._isolation = isolation_level(isolation)
        self._timeout = timeout

    async def __aenter__(self) -> None:
        context = self._context
        if context.txn is not None:
            raise er(Er.ACTIVE_TRANSACTION)
        txn = context.host.statements.begin(interactive=True, isolation=self._isolation, timeout=self._timeout)
        context.txn = txn
        if isinstance(txn, InteractiveTxn) and txn.must_settle:
            await context.host.settled()
            txn.must_settle = False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context.txn is not None:
            if error is None:
                self._context.commit()
            else:
                self._context.rollback()


def isolation_level(value: str | int) -> Isolation:
    """A level by number, `best-effort` or `BEST_EFFORT` (lua/utils.lua, normalize_txn_isolation_level)."""
    name = isolation_name(value)
    if name is None:
        raise er(Er.ILLEGAL_PARAMS, "txn_isolation must be one of box.txn_isolation_level (keys or values)")
    return Isolation[name.upper().replace("-", "_")]
