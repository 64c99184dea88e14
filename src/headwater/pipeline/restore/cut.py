"""Where a chain of logs is to be cut: after a whole transaction, and before the first one that was not confirmed.

A machine over what the parts of the logs say, in their order (seed 002; txn_limbo.c). A synchronous transaction counts
once its owner has written a CONFIRM or the next owner a PROMOTE that covers it; what was rolled back is left out though
its LSNs are used up. Where one still waits at the point, everything from it on is left out: so the vclock of what is
built says truly which rows are in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headwater.pipeline.restore.facts import Beyond, Episode, PartFacts, Waiting
from headwater.pipeline.restore.system import Place
from headwater.vclock import VClock
from headwater.wire.constants import SYNCHRO_TYPES, Type
from headwater.wire.synchro import RaftMessage, Synchro, decode_raft, decode_synchro
from headwater.wire.xrow import Row, decode_row

Dropped = tuple[int, int, int]
"""(replica id, first LSN, last LSN) of a transaction that was taken back."""


@dataclass(slots=True)
class QueueState:
    """What a snapshot tells of the election and of the queue of synchronous transactions."""

    term: int = 1
    """Of the election."""
    vote: int = 0
    owner: int = 0
    queue_term: int = 0
    confirmed: dict[int, int] = field(default_factory=dict)
    """By owner: the last LSN that is confirmed."""

    def take(self, row: Row, *, is_own: bool = True) -> None:
        """A row of a snapshot or a log. Votes are each member's own affair."""
        if row.type == Type.RAFT:
            self._raft(decode_raft(row), is_own=is_own)
        elif row.type in SYNCHRO_TYPES:
            self._synchro(decode_synchro(row), is_snapshot=not row.replica_id)

    def _raft(self, message: RaftMessage, *, is_own: bool) -> None:
        if message.term > self.term:
            self.term, self.vote = message.term, 0
        if is_own and message.term == self.term:
            self.vote = message.vote or self.vote

    def _synchro(self, said: Synchro, *, is_snapshot: bool) -> None:
        if said.type == Type.RAFT_ROLLBACK:
            return
        owner = said.queue_owner_id
        if owner:
            self.confirmed[owner] = max(said.lsn, self.confirmed.get(owner, 0))
        if said.type == Type.RAFT_CONFIRM:
            return
        for replica_id, lsn in (said.confirmed_vclock or {}).items():
            self.confirmed[replica_id] = max(lsn, self.confirmed.get(replica_id, 0))
        self.queue_term = max(said.term, self.queue_term)
        if is_snapshot:
            self.owner = owner
        else:
            self.owner = said.origin_id if said.type == Type.RAFT_PROMOTE else 0


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that waits at the point."""

    place: Place
    owner: int
    first: int
    lsn: int
    is_sync: bool


@dataclass(slots=True)
class Cut:
    """Up to where rows are in."""

    parts: int = 0
    """So many parts have some; the last of them may end at `beyond`."""
    reached: VClock = field(default_factory=VClock)
    beyond: Beyond | None = None
    """The first transaction that is not in, if there is one in the parts."""
    dropped: list[Dropped] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    """Transactions that must not be in, oldest first: to be cut before the first of them."""
    confirmed: dict[int, int] = field(default_factory=dict)
    """By owner: the greatest LSN that a CONFIRM has named, also behind the cut."""


def cut(start: VClock, parts: Sequence[PartFacts], own: Sequence[bool]) -> Cut:
    """`start`: of the snapshot. `own`: are the local rows of a part those of the instance of the snapshot?"""
    found = Cut(reached=start.copy())
    queue = _Queue(found)
    for number, facts in enumerate(parts):
        found.parts = number + 1
        for replica_id, lsn in facts.last.items():
            if (replica_id or own[number]) and lsn > found.reached.get(replica_id):
                found.reached.reset(replica_id, lsn)
        for episode in facts.episodes:
            queue.episode(number, episode)
        if facts.beyond is not None:
            found.beyond = facts.beyond
            break
    found.open = list(queue.waiting)
    return found


class _Queue:
    """What waits, part after part."""

    def __init__(self, found: Cut) -> None:
        self.waiting: list[Open] = []
        self._found = found

    def episode(self, part: int, episode: Episode) -> None:
        for owner, lsn in episode.confirmed.items():
            self._confirm(owner, lsn)
        self.waiting += [_open(part, each) for each in episode.waiting]
        self._settle()
        if episode.word:
            self._word(decode_synchro(decode_row(episode.word)[0]))

    def _word(self, said: Synchro) -> None:
        if said.type == Type.RAFT_ROLLBACK:
            self._rollback(said.queue_owner_id, said.lsn)
            return
        self._confirm(said.queue_owner_id, said.lsn)
        self._rollback(said.queue_owner_id, said.lsn + 1)

    def _confirm(self, owner: int, lsn: int) -> None:
        if owner and lsn:
            confirmed = self._found.confirmed
            confirmed[owner] = max(lsn, confirmed.get(owner, 0))
        self.waiting = [each for each in self.waiting if each.owner != owner or each.lsn > lsn]
        self._settle()

    def _settle(self) -> None:
        """What only waits for those before it, and has none, is decided."""
        while self.waiting and not self.waiting[0].is_sync:
            self.waiting.pop(0)

    def _rollback(self, owner: int, lsn: int) -> None:
        """From the first one that this takes back, everything goes (txn_limbo_read_rollback)."""
        for number, each in enumerate(self.waiting):
            if each.is_sync and each.owner == owner and each.lsn >= lsn:
                self._found.dropped += [(gone.owner, gone.first, gone.lsn) for gone in self.waiting[number:]]
                del self.waiting[number:]
                return


def _open(part: int, each: Waiting) -> Open:
    return Open(Place(part, each.row), each.owner, each.first, each.lsn, each.is_sync)


def is_dropped(row: Row, dropped: Sequence[Dropped]) -> bool:
    return any(owner == row.replica_id and first <= row.lsn <= last for owner, first, last in dropped)


def notable_rows(parts: Sequence[PartFacts], dropped: Sequence[Dropped]) -> Iterator[tuple[Place, Row]]:
    """Rows of system spaces, and of election and queue, that count; in order."""
    for number, facts in enumerate(parts):
        for at, packed in facts.notable:
            row = decode_row(packed)[0]
            if not is_dropped(row, dropped):
                yield Place(number, at), row
