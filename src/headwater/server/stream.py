"""Streams: requests of one connection that run one after another, maybe in a transaction
(iproto.cc, iproto_msg_start_processing_in_stream and iproto_msg_finish_processing_in_stream).

A stream is not a fiber: it runs on as long as nothing has to be waited for, and goes on where a journal write or a
procedure calls back. One that has neither requests nor a transaction is forgotten.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headwater.errors import BoxError, Er, er
from headwater.server.requests import Later, Outcome
from headwater.txn import InteractiveTxn
from headwater.wire.constants import Type
from headwater.wire.request import Request

if TYPE_CHECKING:
    from headwater.server.session import Session

_ENDS = (Type.COMMIT, Type.ROLLBACK)
_READS = (Type.SELECT, Type.PING)


class Stream:
    __slots__ = ("_current", "_is_running", "_queue", "_reply", "_session", "_size", "id", "txn")

    def __init__(self, session: Session, id: int) -> None:
        self.id = id
        self.txn: InteractiveTxn | None = None
        self._session = session
        self._queue: deque[tuple[Request, int]] = deque()
        self._current: Request | None = None
        """The request that waits."""
        self._reply = b""
        """And what will be answered."""
        self._size = 0
        """Bytes of the request that runs."""
        self._is_running = False

    def push(self, request: Request, size: int) -> None:
        """One more request, of so many bytes."""
        self._queue.append((request, size))
        self._session.stream_took(size)
        self._run()

    def end_of_connection(self) -> None:
        """Requests that came are still done; then the transaction is undone (iproto_connection_close)."""
        if self._current is None and not self._is_running:
            self._finish()

    # ---- one after another ---------------------------------------------------------------------------

    def _run(self) -> None:
        """Serve until one waits. What it waits for may be there at once, and calls back from inside."""
        if self._is_running:
            return
        self._is_running = True
        while self._queue and self._current is None:
            self._current, self._size = self._queue.popleft()
            outcome = self._serve(self._current)
            if isinstance(outcome, Outcome):
                self._answer(outcome)
            else:
                self._session.call_later(self._current, outcome, self._returned)
        self._is_running = False
        if self._current is None:
            self._finish()

    def _answer(self, outcome: Outcome) -> None:
        if outcome.waits or (self.txn is not None and self.txn.must_settle):
            self._reply = outcome.reply
            self._session.settle(self._settled)
        else:
            self._done(outcome.reply)

    def _returned(self, outcome: Outcome) -> None:
        """A procedure is done."""
        self._answer(outcome)
        self._run()

    def _settled(self, error: BoxError | None) -> None:
        reply, self._reply = self._reply, b""
        if self.txn is not None:
            self.txn.must_settle = False
        if error is None:
            self._done(reply)
        else:
            self._lost(error)
        self._run()

    def _lost(self, error: BoxError) -> None:
        """What the answer rested on is gone: a write or a commit failed, a plain read looks again."""
        request, txn = self._current, self.txn
        assert request is not None
        if txn is None and request.type in _READS:
            self._answer_again(request)
            return
        if txn is not None and request.type == Type.BEGIN:
            # It waited for what is undone now: there is nothing left that it must not see.
            self._done(self._session.requests.ok(request.sync))
            return
        if txn is not None and not txn.is_alive:
            error = er(txn.abort_code)
        self._done(self._session.requests.error(request.sync, error))

    def _answer_again(self, request: Request) -> None:
        outcome = self._session.requests.serve(self._session, request)
        assert isinstance(outcome, Outcome), "a read is no call"
        self._answer(outcome)

    def _done(self, reply: bytes) -> None:
        size, self._size = self._size, 0
        self._current = None
        self._session.stream_did(size)
        self._session.put(reply)

    def _finish(self) -> None:
        if self.txn is not None and self._session.is_closed:
            txn, self.txn = self.txn, None
            self._session.statements.rollback(txn)
        if self.txn is None:
            self._session.forget_stream(self.id)

    # ---- transactions --------------------------------------------------------------------------------

    def _serve(self, request: Request) -> Outcome | Later:
        requests = self._session.requests
        if request.error is not None or request.type not in (Type.BEGIN, *_ENDS):
            return requests.serve(self._session, request, self.txn)
        try:
            requests.check(request)
            waits = self._begin(request) if request.type == Type.BEGIN else self._end(request)
        except BoxError as error:
            return requests.refused(request, error)
        except Exception as error:
            return requests.failed(request, error)
        return Outcome(requests.ok(request.sync), waits)

    def _begin(self, request: Request) -> bool:
        """box_txn_begin"""
        if self.txn is not None:
            raise er(Er.ACTIVE_TRANSACTION)
        txn = self._session.statements.begin(interactive=True, isolation=request.isolation, timeout=request.timeout)
        assert isinstance(txn, InteractiveTxn)
        txn.is_sync = request.is_sync
        self.txn = txn
        return txn.must_settle

    def _end(self, request: Request) -> bool:
        """Without a transaction both do nothing (txn.c, box_txn_commit)."""
        txn, self.txn = self.txn, None
        if txn is None:
            return False
        if request.type == Type.ROLLBACK:
            self._session.statements.rollback(txn)
            return False
        txn.is_sync = txn.is_sync or request.is_sync
        self._session.statements.commit(txn)
        return True
