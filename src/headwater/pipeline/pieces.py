"""What a feeder has read and Spark has not yet: rows of a snapshot, then of the stream, in the order they came in.

A machine; the feeder holds its lock. Rows are bytes in memory, or lie in the file of a spool.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from headwater.client import Segment
from headwater.pipeline.history import History, changes_in, rows_between
from headwater.pipeline.offsets import Phase, Position, VClockMap, Via, covers, joined, shared, stream_position

OVERHEAD = 1024
"""Bytes that a piece takes besides its rows, roughly."""
SMALL_BYTES = 64 << 10


class Limit:
    """What a batch may still take; 0 is no limit. Something is always taken, lest nothing ever goes on."""

    def __init__(self, rows: int = 0, size: int = 0) -> None:
        self._rows: float = rows or math.inf
        self._size: float = size or math.inf
        self._is_fresh = True

    def admits(self, rows: int, size: int) -> bool:
        """Takes it, if so."""
        if not self._is_fresh and (rows > self._rows or size > self._size):
            return False
        self._is_fresh = False
        self._rows -= rows
        self._size -= size
        return True


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows one after another."""

    rows: int
    size: int
    """Bytes of them."""
    data: bytes
    """Packets; empty if they are in a file."""
    changes: tuple[bytes, ...] = ()
    """Its rows of `_space` and `_index`."""
    start: VClockMap = field(default_factory=dict)
    """Of the stream: where it begins; and where it ends."""
    end: VClockMap = field(default_factory=dict)
    first: int = 0
    """Of a snapshot: number of its first row; and of the row behind it."""
    next: int = 0
    path: Path | None = None
    """Where the rows are, and from which byte on."""
    offset: int = 0
    timestamp: float = 0.0
    """Of its last row."""

    @property
    def memory(self) -> int:
        return len(self.data) + OVERHEAD if self.data else 0

    def with_next(self, piece: Piece) -> Piece:
        """Both as one, of the stream."""
        return Piece(
            self.rows + piece.rows,
            self.size + piece.size,
            self.data + piece.data,
            self.changes + piece.changes,
            self.start,
            piece.end,
            timestamp=piece.timestamp or self.timestamp,
        )

    def is_beyond(self, vclock: VClockMap) -> bool:
        """Are all of its rows behind this position?"""
        return all(
            self.start.get(number, 0) >= vclock.get(number, 0)
            for number, lsn in self.end.items()
            if lsn > self.start.get(number, 0)
        )


def stream_piece(segment: Segment) -> Piece:
    return Piece(
        segment.rows,
        len(segment.data),
        segment.data,
        changes_in(segment.data) if segment.data else (),
        segment.start,
        segment.end,
        timestamp=segment.timestamp,
    )


@dataclass(slots=True)
class Run:
    """One attempt to get a whole snapshot."""

    attempt: int
    vclock: VClockMap
    """Component 0 too."""
    via: Via
    server: UUID | None = None
    next: int = 0
    """Number of the row that comes next."""
    schema: str = ""
    """Known once the rows of the system spaces have come, which are the first."""
    is_published: bool = False
    """Was any row of it handed out?"""
    is_whole: bool = False
    pieces: deque[Piece] = field(default_factory=deque)

    @property
    def is_numbered(self) -> bool:
        """Do its rows say their numbers?"""
        return self.via is Via.CURSOR

    def is_of(self, position: Position) -> bool:
        return (
            position.phase is Phase.SNAPSHOT
            and position.is_begun
            and (position.attempt, position.vclock) == (self.attempt, self.vclock)
        )

    def is_behind(self, position: Position) -> bool:
        """Has everything of it been handed out up to here? Then the stream comes."""
        if position.phase is Phase.STREAM:
            return position.attempt == self.attempt
        return self.is_whole and self.is_of(position) and position.row >= self.next


class Pieces:
    """The backlog of one replica set."""

    def __init__(self, history: History, rows_max: int = 1000) -> None:
        """`rows_max`: small pieces are made one as long as they have no more."""
        self.run: Run | None = None
        """The snapshot, as long as it is needed."""
        self.memory = 0
        """Bytes held."""
        self.read_to: VClockMap = {}
        """Where the stream ends that was read."""
        self.dropped_to: VClockMap = {}
        """Rows up to here are not held any more."""
        self._stream: deque[Piece] = deque()
        self._rows_max = rows_max
        self._reached: VClockMap = {}
        """Pieces up to here were handed out, and stay as they are."""
        self._history = history

    # ---- what was read

    def begin_stream(self, vclock: VClockMap) -> None:
        self._forget(self._stream)
        self.read_to = self.dropped_to = shared(vclock)

    def begin_run(self, run: Run) -> None:
        """What there was is of no use any more."""
        if self.run is not None:
            self._forget(self.run.pieces)
        self.begin_stream(run.vclock)
        self.run = run

    def add(self, piece: Piece) -> None:
        """Of the stream. Changes that trickle in while nobody takes them do not become a piece each."""
        self.read_to = piece.end
        self.memory += piece.memory
        last = self._stream[-1] if self._stream else None
        if last is not None and self._is_small(last, piece) and not covers(self._reached, last.end):
            self._stream.pop()
            self.memory -= last.memory + piece.memory
            piece = last.with_next(piece)
            self.memory += piece.memory
        self._stream.append(piece)

    def _is_small(self, last: Piece, piece: Piece) -> bool:
        return last.size + piece.size <= SMALL_BYTES and last.rows + piece.rows <= self._rows_max

    def add_rows(self, piece: Piece) -> None:
        """Of the snapshot."""
        assert self.run is not None
        self.run.pieces.append(piece)
        self.run.next = piece.next
        self.memory += piece.memory

    @property
    def newest(self) -> float:
        """Time of the last row that was read."""
        return next((piece.timestamp for piece in reversed(self._stream) if piece.timestamp), 0.0)

    # ---- how far a batch goes

    def reach(self, start: Position, limit: Limit, target: VClockMap | None) -> Position:
        """The end of a batch that begins at `start`; `start` itself when there is nothing. `target`: no further than it
        takes to have all of that."""
        if self.run is not None and not self.run.is_behind(start):
            return self._reach_row(start, self.run, limit)
        return self._reach_vclock(start, limit, target)

    def _reach_row(self, start: Position, run: Run, limit: Limit) -> Position:
        if not run.schema:
            return start
        row = start.row if run.is_of(start) else 0
        end = None
        for piece in run.pieces:
            if piece.next <= row:
                continue
            if not limit.admits(piece.rows, piece.size):
                break
            end = piece.next
        if end is None:
            return start
        run.is_published = True
        return Position(
            start.replicaset,
            Phase.SNAPSHOT,
            run.vclock,
            start.uuid,
            row=end,
            via=run.via,
            server=run.server,
            attempt=run.attempt,
            schema=run.schema,
        )

    def _reach_vclock(self, start: Position, limit: Limit, target: VClockMap | None) -> Position:
        vclock = begin = shared(start.vclock)
        changes: list[bytes] = []
        for piece in self._stream:
            if covers(vclock, piece.end):
                continue
            if target is not None and covers(vclock, target):
                break
            if not limit.admits(piece.rows, piece.size):
                break
            vclock = joined(vclock, piece.end)
            changes += rows_between(piece.changes, begin, vclock)
        if vclock == begin and start.phase is Phase.STREAM:
            return start
        self._reached = joined(self._reached, vclock)
        schema = self._history.after(start.schema, changes) if changes else start.schema
        return stream_position(start.replicaset, vclock, start.uuid, attempt=start.attempt, schema=schema)

    # ---- the rows of a batch

    def rows(self, start: int, end: int) -> list[Piece]:
        """Of the snapshot, as far as they are there: start <= number < end."""
        assert self.run is not None
        return [piece for piece in self.run.pieces if start <= piece.first and piece.next <= end]

    def between(self, begin: VClockMap, end: VClockMap) -> list[Piece]:
        """Of the stream, as far as they are there: those with a row in this range."""
        found = [piece for piece in self._stream if not covers(begin, piece.end) and not piece.is_beyond(end)]
        if found:
            self._reached = joined(self._reached, found[-1].end)
        return found

    def has(self, vclock: VClockMap) -> bool:
        """Has the stream been read so far?"""
        return covers(self.read_to, vclock)

    def run_after(self, position: Position) -> bool:
        """Does a snapshot follow that makes this position void?"""
        return self.run is not None and self.run.attempt > position.attempt

    # ---- what is needed no more

    def drop(self, pieces: Iterable[Piece], vclock: VClockMap) -> None:
        """Of the stream: those of these first ones that have nothing behind this position."""
        for piece in pieces:
            if not self._stream or self._stream[0] is not piece or not covers(vclock, piece.end):
                return
            self._stream.popleft()
            self.memory -= piece.memory
            self.dropped_to = piece.end

    def drop_rows(self, end: int) -> None:
        pieces = self.run.pieces if self.run is not None else deque()
        while pieces and pieces[0].next <= end:
            self.memory -= pieces.popleft().memory

    def end_run(self) -> None:
        """The snapshot is behind us."""
        if self.run is not None:
            self._forget(self.run.pieces)
            self.run = None

    def _forget(self, pieces: deque[Piece]) -> None:
        self.memory -= sum(piece.memory for piece in pieces)
        pieces.clear()

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._stream)
