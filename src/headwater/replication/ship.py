"""The journal as it goes out: the newest batches from memory, older rows from the files, one after the other without a
gap (relay.cc and recovery.cc: recover_remaining_wals; seed 001).

A position in the journal is the signature of its vclock, component 0 included: every row moves it up. What a subscriber
has is another thing, its own vclock; it is asked row by row.

A batch that is written is framed for the wire once, by the first who wants it, and kept in a ring of bounded size as
long as anybody is subscribed. Who is further back reads files, in a worker of its own (`cursor`). Batches and blocks
hold whole transactions, so that between two pieces there is always room for a heartbeat.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import BoxError
from headwater.journal.batch import Batch, Place
from headwater.kernels import Frames, frame_rows
from headwater.typing import VCLOCK_MAX
from headwater.vclock import VClock
from headwater.wire.constants import SYNCHRO_TYPES
from headwater.wire.synchro import RaftMessage

if TYPE_CHECKING:
    from headwater.replication.host import Host
    from headwater.replication.relay import Relay

RING_MAX = 16 << 20
"""Bytes of the newest batches that are kept in memory for those who are near."""
_PIECE_COST = 600
"""What a batch takes beside its rows, so that many small ones are bounded, too."""


class Portion:
    """Some rows on their way out: a batch of the ring, or a stretch of a file. Shared by all who send it."""

    __slots__ = ("_kinds", "frames")

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._kinds: frozenset[int] | None = None

    @property
    def kinds(self) -> frozenset[int]:
        """Types of the rows that not every peer may see as they are."""
        if self._kinds is None:
            types = () if self.frames.plain else [row[2] for row in self.frames.rows()]
            self._kinds = frozenset(types) & SYNCHRO_TYPES
        return self._kinds


class Piece:
    """One written batch."""

    __slots__ = ("_portion", "_rows", "after", "before", "begin", "end", "place", "size")

    def __init__(self, before: Sequence[int], rows: bytes, after: Sequence[int], place: Place | None) -> None:
        self.before = before
        """The journal's vclock before it, by replica id."""
        self.after = after
        """And behind it."""
        self.begin, self.end = sum(before), sum(after)
        """The same as positions."""
        self.place = place
        """In the files, behind it."""
        self.size = len(rows) + _PIECE_COST
        self._rows: bytes | None = rows
        self._portion: Portion | None = None

    @property
    def portion(self) -> Portion:
        """Made when the first one asks; the rows as the file has them are let go then."""
        if self._portion is None:
            assert self._rows is not None
            self._portion, self._rows = Portion(frame_rows(self._rows)), None
        return self._portion


class Ring:
    """The newest batches, at most so many bytes of them. Each has a number; they follow each other without a gap."""

    def __init__(self, limit: int = RING_MAX) -> None:
        self.limit = limit
        self.size = 0
        self.first = 0
        """Number of the oldest one that is here."""
        self._pieces: deque[Piece] = deque()

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, piece: Piece) -> None:
        """The newest stays, however large it is."""
        self._pieces.append(piece)
        self.size += piece.size
        while self.size > self.limit and len(self._pieces) > 1:
            self.size -= self._pieces.popleft().size
            self.first += 1

    def clear(self) -> None:
        self.first += len(self._pieces)
        self._pieces.clear()
        self.size = 0

    def get(self, number: int) -> Piece | None:
        """None: it has gone, or has not come yet."""
        place = number - self.first
        return self._pieces[place] if 0 <= place < len(self._pieces) else None

    def find(self, position: int) -> int | None:
        """Number of the batch that holds the row behind a position."""
        place = bisect.bisect_right(self._pieces, position, key=lambda piece: piece.end)
        if place == len(self._pieces) or self._pieces[place].begin > position:
            return None
        return self.first + place

    def find_vclock(self, have: Sequence[int]) -> int | None:
        """Number of the newest batch with nothing before it that is not in `have`."""
        place = bisect.bisect_left(self._pieces, True, key=lambda piece: not covers(have, piece.before)) - 1
        return None if place < 0 else self.first + place


def covers(have: Sequence[int], lsns: Sequence[int]) -> bool:
    """Has it every row that the other has, rows of component 0 apart?"""
    return all(mine >= theirs for mine, theirs in zip(have[1:], lsns[1:], strict=True))


def lsns_of(vclock: VClock) -> list[int]:
    return [vclock.get(replica_id) for replica_id in range(VCLOCK_MAX)]


@dataclass(frozen=True, slots=True)
class End:
    """Behind everything that was written at some moment."""

    position: int
    place: Place | None
    """None: the last file is closed."""


class Ship:
    """What of one node's journal is on its way out, and to whom."""

    def __init__(self, host: Host) -> None:
        self.relays: list[Relay] = []
        """Those that feed a subscriber now."""
        self.on_ack: list[Callable[[Relay], object]] = []
        """Called after each acknowledgement of a subscriber: who counts quorums, and who learns of a higher term."""
        self.ring = Ring()
        self.lsns: Sequence[int] = [0] * VCLOCK_MAX
        """The journal's vclock, by replica id: everything up to here is written."""
        self._host = host
        self._watchers: dict[int, Callable[[], object]] = {}
        self._last_id = 0

    def start(self) -> None:
        """The journal is open, maybe anew."""
        journal = self._host.journal
        if self._written not in journal.on_written:
            journal.on_written.append(self._written)
        self.ring.clear()
        self.lsns = lsns_of(journal.vclock)

    def stop(self, error: BoxError | None = None) -> None:
        """End all relays: the node goes, or its data is another one's from now on."""
        for relay in list(self.relays):
            relay.stop(error)

    @property
    def position(self) -> int:
        """Behind everything that is written."""
        return sum(self.lsns)

    @property
    def end(self) -> End:
        return End(self.position, self._host.journal.place)

    def watch(self, news: Callable[[], object]) -> Callable[[], None]:
        """Call `news` after each written batch, and keep batches in the ring, until the returned call."""
        self._last_id += 1
        id = self._last_id
        self._watchers[id] = news

        def forget() -> None:
            self._watchers.pop(id, None)
            if not self._watchers:
                self.ring.clear()

        return forget

    def _written(self, batch: Batch) -> None:
        before, self.lsns = self.lsns, batch.lsns
        if self._watchers:
            self.ring.add(Piece(before, batch.rows, batch.lsns, batch.place))
            for news in list(self._watchers.values()):
                news()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Look again after each written batch."""
        news = self._host.world.tasks.event()
        forget = self.watch(news.set)
        try:
            while not is_so():
                news.clear()
                await news.wait()
        finally:
            forget()

    def push_raft(self, message: RaftMessage) -> None:
        """State of the election changed: tell it to all peers that understand it (relay_push_raft)."""
        for relay in list(self.relays):
            relay.push_raft(message)
