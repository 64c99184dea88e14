"""The queue of synchronous transactions, as the files and the owner's stream tell it (seed 002; txn_limbo.c).

A transaction that waits for its quorum may still be taken back by a ROLLBACK or a PROMOTE further on. Until then its
undo is kept, and that of everything behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.wire.constants import Type
from headwater.wire.synchro import Synchro


@dataclass(slots=True)
class Entry:
    """A transaction that waits."""

    lsn: int
    is_sync: bool
    """It needs a quorum itself; otherwise it only waits for those before it."""
    undo_begin: int
    """Position in the undo queue before its first change."""
    since: float = 0.0
    """Monotonic time at which it came."""
    size: int = 0
    """Bytes of its rows."""


@dataclass(slots=True)
class SyncQueue:
    owner: int = 0
    """Replica id of whose transactions wait here; 0: nobody may write synchronously."""
    term: int = 0
    """Term of the last PROMOTE or DEMOTE."""
    confirmed: dict[int, int] = field(default_factory=dict)
    """By owner: the last LSN that is confirmed."""
    entries: deque[Entry] = field(default_factory=deque)
    confirm_lag: float = 0.0
    """How long the last confirmed one has waited."""

    @property
    def held(self) -> int | None:
        """Undo from this position on must be kept; None: nothing waits."""
        return self.entries[0].undo_begin if self.entries else None

    def lost(self, undo_end: int) -> None:
        """The journal failed: what began behind this position in the undo queue was never written."""
        while self.entries and self.entries[-1].undo_begin >= undo_end:
            self.entries.pop()

    def clear(self) -> None:
        """As of a node that has nothing."""
        self.owner = self.term = 0
        self.confirmed = {}
        self.entries.clear()
        self.confirm_lag = 0.0

    def restore(self, request: Synchro) -> None:
        """The PROMOTE row of a snapshot: the state itself (box.cc, apply_initial_join_row)."""
        self.owner, self.term = request.queue_owner_id, request.term
        if request.confirmed_vclock is not None:
            self.confirmed = dict(request.confirmed_vclock)
        elif request.queue_owner_id:
            self.confirmed[request.queue_owner_id] = request.lsn

    def append(self, entry: Entry, replica_id: int) -> None:
        """Before PROMOTE existed the first writer owned the queue (2.6.0)."""
        if not self.owner:
            self.owner = replica_id
        self.entries.append(entry)

    def process(self, request: Synchro, now: float = 0.0) -> int | None:
        """A row about the queue. The undo position to roll back to, if it takes something back."""
        if request.type == Type.RAFT_CONFIRM:
            self._confirm(request.queue_owner_id, request.lsn, now)
            return None
        if request.type == Type.RAFT_ROLLBACK:
            return self._rollback(request.lsn)
        self._confirm(request.queue_owner_id, request.lsn, now)
        undo = self._rollback(request.lsn + 1)
        self.term = request.term
        self.owner = request.origin_id if request.type == Type.RAFT_PROMOTE else 0
        return undo

    def _confirm(self, owner: int, lsn: int, now: float) -> None:
        """Everything up to `lsn` is final, and what only waited behind it."""
        if owner:
            self.confirmed[owner] = max(lsn, self.confirmed.get(owner, 0))
        while self.entries and (not self.entries[0].is_sync or self.entries[0].lsn <= lsn):
            entry = self.entries.popleft()
            if entry.is_sync and entry.since:
                self.confirm_lag = now - entry.since

    def _rollback(self, lsn: int) -> int | None:
        """From the first synchronous one with this LSN or a later one, everything goes, newest first."""
        for place, entry in enumerate(self.entries):
            if entry.is_sync and entry.lsn >= lsn:
                for _ in range(len(self.entries) - place):
                    self.entries.pop()
                return entry.undo_begin
        return None

    def checkpoint(self) -> Synchro:
        """The row that a snapshot keeps it in."""
        confirmed: Mapping[int, int] = self.confirmed
        lsn = confirmed.get(self.owner, 0)
        return Synchro(Type.RAFT_PROMOTE, self.owner, lsn, self.term, confirmed)
