"""The ordinary path of a request: names, privileges, the statement, its transaction (box.cc, box_process1, box_select).

What the compiled path does not do comes here, one statement at a time: requests of sessions, statements of
procedures, rows of the files and of peers. The order of checks is 3.x's, so that the first error is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

from headwater.box.dml import Dml
from headwater.box.readonly import ReadOnly
from headwater.box.select import Selects
from headwater.box.stat import Stats
from headwater.errors import BoxError, Er, IllegalParams, er
from headwater.options import Options
from headwater.replication.conflict import Judge
from headwater.store import system
from headwater.store.context import Context, Source
from headwater.store.schema import Schema
from headwater.store.space import Space
from headwater.store.users import User
from headwater.txn import DirectTxn, InteractiveTxn, Isolation, Transaction, Txns, isolation_of
from headwater.typing import IteratorType
from headwater.wire.constants import DML_TYPES, Type, type_name
from headwater.wire.request import Request, of_row
from headwater.wire.xrow import Row
from headwater.world import Tasks

_ASKS_ITS_TRIGGER = (system.TRUNCATE, system.SPACE, system.INDEX)
"""Whether they may be written on a read-only node is known when the row says which space it is about."""

_ITERATOR_MAX = int(max(IteratorType))
_SELECT = int(Type.SELECT)
_FOREVER = 365 * 86400
"""Nobody waits for a timer that is longer (txn.c, TIMEOUT_INFINITY)."""


@dataclass(slots=True)
class Answer:
    """What a statement gives back."""

    tuples: list[bytes]
    position: bytes | None = None
    """Behind the last tuple, if the request asked for it."""
    space: Space | None = None
    """Whose tuples they are."""


class Statements:
    """Statements and transactions of one node."""

    def __init__(
        self, schema: Schema, txns: Txns, options: Options, read_only: ReadOnly, stats: Stats, tasks: Tasks
    ) -> None:
        self.schema = schema
        self.txns = txns
        self.read_only = read_only
        self._options = options
        self._stats = stats
        self._tasks = tasks
        self._dml = Dml(schema, txns, options)
        self._selects = Selects(schema)

    # ---- one statement -------------------------------------------------------------------------------

    def answer(self, request: Request, user: User, txn: Transaction | None = None) -> Answer:
        """A SELECT, or a change of data in `txn` or as a transaction of its own. Prepared, not yet written."""
        if request.type == _SELECT and not 0 <= request.iterator <= _ITERATOR_MAX:
            raise IllegalParams("Invalid iterator type")
        space = self._resolve(request)
        self._stats.requests.add(type_name(request.type) or "")
        if request.type == _SELECT:
            tuples, position = self._selects.select(space, request, user, txn)
            return Answer(tuples, position, space)
        result = self._change(space, request, user, txn)
        return Answer([] if result is None else [result], None, space)

    def execute(self, request: Request, user: User, txn: Transaction | None) -> list[bytes]:
        return self.answer(request, user, txn).tuples

    def select(self, request: Request, user: User, txn: Transaction | None) -> tuple[list[bytes], bytes | None]:
        found = self.answer(request, user, txn)
        return found.tuples, found.position

    def count(self, request: Request, user: User, txn: Transaction | None) -> int:
        return self._selects.count(self._resolve(request), request, user, txn)

    def _resolve(self, request: Request) -> Space:
        """The space of a request; names go before ids (iproto.cc, tx_resolve_space_and_index_name)."""
        space = self.schema.space(request.space_id if request.space_name is None else request.space_name)
        request.space_id = space.id
        if request.index_name is not None and request.type in (Type.SELECT, Type.UPDATE, Type.DELETE):
            request.index_id = space.index_by_name(request.index_name).id
        return space

    def _change(self, space: Space, request: Request, user: User, txn: Transaction | None) -> bytes | None:
        if self.read_only.active and not (space.id in _ASKS_ITS_TRIGGER or space.is_local or space.is_temporary):
            raise self.read_only.error()
        self.schema.check_write(user, space)
        ctx = Context(user, Source.CLIENT, txn is None or not txn.has_changes, self.read_only.check)
        return self._run(space, request, ctx, txn)

    def _run(self, space: Space, request: Request, ctx: Context, txn: Transaction | None) -> bytes | None:
        if txn is not None:
            return self._run_in(txn, space, request, ctx)
        direct = self.txns.direct()
        try:
            result = self._dml.run(direct, space, request, ctx)
        except BaseException:
            direct.rollback()
            raise
        direct.commit()
        return result

    def _run_in(self, txn: Transaction, space: Space, request: Request, ctx: Context) -> bytes | None:
        """An error takes back this statement alone."""
        mark = txn.mark()
        try:
            return self._dml.run(txn, space, request, ctx)
        except BaseException:
            txn.rollback_to(mark)
            raise

    # ---- transactions --------------------------------------------------------------------------------

    def begin(self, *, interactive: bool, isolation: int = 0, timeout: float = 0.0) -> Transaction:
        """`timeout` in seconds; 0 for the option's. It runs from the first wait on, as in txn.c txn_on_yield."""
        if not interactive:
            return self.txns.direct()
        if timeout < 0:
            raise IllegalParams("timeout must be a number greater than 0")
        txn = self.txns.begin(self._level(isolation))
        timeout = timeout or self._options.txn_timeout
        if timeout < _FOREVER:
            txn.timer = self._tasks.later(timeout, txn.expire)
        self._stats.requests.add("BEGIN")
        return txn

    def _level(self, isolation: int) -> Isolation:
        level = isolation_of(isolation)
        return Isolation(self._options.txn_isolation_level) if level is Isolation.DEFAULT else level

    def commit(self, txn: Transaction) -> None:
        """Prepared; the journal has it when it is settled."""
        self._stats.requests.add("COMMIT")
        if isinstance(txn, DirectTxn):
            txn.commit()
        elif isinstance(txn, InteractiveTxn):
            self.txns.commit(txn)

    def rollback(self, txn: Transaction) -> None:
        self._stats.requests.add("ROLLBACK")
        if isinstance(txn, DirectTxn):
            txn.rollback()
        elif isinstance(txn, InteractiveTxn):
            self.txns.rollback(txn)

    # ---- rows of files and of peers ------------------------------------------------------------------

    @property
    def writes_whole_tuples(self) -> bool:
        """`Dml.writes_whole_tuples`"""
        return self._dml.writes_whole_tuples

    @writes_whole_tuples.setter
    def writes_whole_tuples(self, value: bool) -> None:
        self._dml.writes_whole_tuples = value

    def apply(self, rows: Sequence[Row], judge: Judge | None = None) -> None:
        """A whole transaction of a peer: all of it is prepared, in the peer's numbering, or nothing (BoxError). `judge`
        sees each row before it is applied, and may let a NOP take the place of one that is refused. `First`: something
        is to be done before, and the transaction tried again."""
        direct = self.txns.direct()
        if judge is not None:
            judge.begin()
        try:
            for row in rows:
                self._apply_judged(direct, row, judge)
            if judge is not None:
                judge.seal(direct)
        except BaseException:
            direct.rollback()
            raise
        direct.commit()

    def repair(self, space: Space, keys: Sequence[bytes]) -> None:
        """Delete what is under these primary keys, by rows of our own, whether the node is writable or not."""
        ctx = Context(self.schema.users.admin, Source.CLIENT, False)
        direct = self.txns.direct()
        try:
            for key in keys:
                self._dml.run(direct, space, Request(Row(Type.DELETE), space_id=space.id, key=key), ctx)
        except BaseException:
            direct.rollback()
            raise
        direct.commit()

    def recover(self, rows: Sequence[Row], source: Source) -> None:
        """A transaction of a snapshot or of the journal that the compiled path left. It writes no row; a transaction
        that cannot be applied leaves nothing behind. Its undo stays until the caller confirms it."""
        memtx = self.schema.memtx
        undo, memtx.undo_enabled = memtx.undo_enabled, True
        direct = self.txns.direct()
        try:
            for row in rows:
                self._apply_row(direct, row, source)
        except BaseException:
            direct.rollback()
            raise
        finally:
            memtx.undo_enabled = undo

    def _apply_judged(self, txn: DirectTxn, row: Row, judge: Judge | None) -> None:
        mark = txn.mark()
        try:
            self._apply_row(txn, row, Source.PEER, judge)
        except BoxError as error:
            txn.rollback_to(mark)
            if judge is None or not judge.skips(row, self._space_of(row), error):
                raise
            txn.add_row(self._dml.nop_row(row))

    def _space_of(self, row: Row) -> Space | None:
        """None if it is not known here, or the row does not say it."""
        try:
            return self.schema.find_space(of_row(row).space_id)
        except BoxError:
            return None

    def _apply_row(self, txn: DirectTxn, row: Row, source: Source, judge: Judge | None = None) -> None:
        request = of_row(row if judge is None else copy(row))
        if request.type not in DML_TYPES or request.type == _SELECT:
            raise er(Er.UNKNOWN_REQUEST_TYPE, request.type)
        if request.type == Type.NOP and not request.space_id:
            txn.add_row(self._dml.nop_row(row))
            return
        space = self.schema.space(request.space_id)
        ctx = Context(self.schema.users.admin, source, not txn.has_changes)
        before = None
        if judge is not None and judge.sees_all and judge.covers(space):
            before = partial(judge.sees, row)
        self._dml.run(txn, space, request, ctx, before)
