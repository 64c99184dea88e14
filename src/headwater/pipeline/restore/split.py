"""Parting the rows of a log, or of a stretch of a snapshot, into buckets; runs in a task.

The rows of every bucket go one after another into a file in the staging directory. Where the definition of a space
changes on the way, a mark goes into its buckets between the rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from headwater.kernels.split import RowError, Splitter
from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.restore.cut import Dropped
from headwater.pipeline.restore.keyspec import KeySpec
from headwater.pipeline.restore.staging import check_token
from headwater.pipeline.restore.survey import REMEDY, opened
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row

MARK = 120
"""Type of the rows that stand for a new definition; no row of Tarantool has it."""
FLUSH_BYTES = 32 << 20
ALL_ROWS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Setup:
    """A space is parted so from here on; without `key` its rows are left out."""

    space_id: int
    key: KeySpec | None = None
    bounds: tuple[bytes, ...] = ()
    first: int = 0
    number_field: int = -1


@dataclass(frozen=True, slots=True)
class Stop:
    """Behind row `row` of the part."""

    row: int
    setups: tuple[Setup, ...] = ()
    marks: tuple[tuple[int, int, int, int], ...] = ()
    """(first bucket, last bucket, space, number of its definition)."""
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class SplitTask:
    number: int
    """Its place in the order of rows."""
    path: str
    size: int
    begin: int
    end: int
    buckets: int
    """Rows in the bucket behind the last one are only looked at."""
    staging: str
    token: str
    setups: tuple[Setup, ...]
    stops: tuple[Stop, ...] = ()
    epoch: int = 0
    low: Sequence[int] | None = None
    """LSNs behind which rows count; None: all rows do."""
    high: Sequence[int] = ()
    dropped: tuple[Dropped, ...] = ()
    rows_max: int = ALL_ROWS
    """So many rows of the part are read, not more."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a bucket in a file."""

    bucket: int
    path: str
    offset: int
    size: int
    rows: int


@dataclass(slots=True)
class Parted:
    number: int
    pieces: list[Piece] = field(default_factory=list)
    numbers: list[tuple[int, Mapping[int, tuple[int, int]]]] = field(default_factory=list)
    """(epoch, space → least and greatest number in its watched field)."""


def split(task: SplitTask) -> Parted:
    """SourceDamaged for a file that cannot be read."""
    check_token(task.staging, task.token)
    return _Split(task).run()


def mark_row(space_id: int, number: int) -> bytes:
    return encode_row(Row(MARK, body=pack({0x10: space_id, 0x21: [number]})))


class _Split:
    """One part."""

    def __init__(self, task: SplitTask) -> None:
        self._task = task
        self._splitter = Splitter(task.buckets + 1)
        if task.low is not None:
            self._splitter.set_range(list(task.low), list(task.high))
        if task.dropped:
            self._splitter.set_dropped(task.dropped)
        self._parted = Parted(task.number)
        self._epoch = task.epoch
        self._path = os.path.join(task.staging, f"rows-{task.number:06}-{uuid4().hex}")
        self._written = 0
        self._read = 0

    def run(self) -> Parted:
        task = self._task
        for setup in task.setups:
            self._set_up(setup)
        stops = list(task.stops)
        with opened(task.path, task.size) as blocks, open(self._path, "wb", buffering=0) as out:
            blocks.seek(task.begin)
            for rows in blocks.read(task.end):
                try:
                    self._take(rows, stops)
                except RowError as error:
                    where = blocks.locate(error.offset)
                    raise SourceDamaged(task.path, where, error.lsn or None, error.reason, REMEDY) from None
                if self._splitter.size >= FLUSH_BYTES:
                    self._flush(out.fileno())
                if self._read >= task.rows_max:
                    break
            self._flush(out.fileno())
        self._count()
        return self._parted

    def _take(self, rows: bytes, stops: list[Stop]) -> None:
        at = 0
        while at < len(rows) and self._read < self._task.rows_max:
            upto = min(stops[0].row + 1 if stops else ALL_ROWS, self._task.rows_max)
            at, read = self._splitter.split(rows, at, upto - self._read)
            self._read += read
            while stops and self._read == stops[0].row + 1:
                self._stop(stops.pop(0))

    def _stop(self, stop: Stop) -> None:
        self._count()
        for first, last, space_id, number in stop.marks:
            for bucket in range(first, last + 1):
                self._splitter.put(bucket, mark_row(space_id, number))
        for setup in stop.setups:
            self._set_up(setup)
        if stop.epoch is not None:
            self._epoch = stop.epoch

    def _set_up(self, setup: Setup) -> None:
        if setup.key is None:
            self._splitter.drop_space(setup.space_id)
            return
        parts = setup.key.split_parts()
        self._splitter.set_space(setup.space_id, parts, setup.bounds, setup.first, setup.number_field)

    def _count(self) -> None:
        found = self._splitter.numbers()
        if found:
            self._parted.numbers.append((self._epoch, found))

    def _flush(self, file: int) -> None:
        for bucket, rows, count in self._splitter.take():
            if bucket == self._task.buckets:
                continue
            view = memoryview(rows)
            while view:
                view = view[os.write(file, view) :]
            self._parted.pieces.append(Piece(bucket, self._path, self._written, len(rows), count))
            self._written += len(rows)
