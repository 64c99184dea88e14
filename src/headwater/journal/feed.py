"""One file as stretches of rows, read ahead by the worker, and the judgement of where it ends."""

from __future__ import annotations

import bisect
import logging
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass

from headwater.errors import BoxError, XlogError
from headwater.journal.damage import Tail, judge_tail
from headwater.world import Disk, File, Worker
from headwater.xlog import Reader

log = logging.getLogger("headwater.journal")

_STRETCH = 1 << 19
"""Bytes of rows that are applied in one turn of the loop: few turns, and what the worker unpacked is still in the
cache."""
_AHEAD = 3
"""Stretches that the worker reads ahead: neither side then waits for the other to be given a processor."""


@dataclass(slots=True)
class Stretch:
    """Rows of some blocks that follow each other."""

    path: str
    rows: bytes
    starts: list[int]
    """Offsets into `rows` at which the blocks begin."""
    offsets: list[int]
    """Offsets of these blocks in the file."""
    stored: int
    """Bytes of the file that these blocks take."""
    count: int = 0
    """Rows applied; counted by who applies them."""

    def offset_of(self, at: int) -> int:
        """Where in the file the block begins that holds the byte `at` of `rows`."""
        return self.offsets[bisect.bisect_right(self.starts, at) - 1]


class Feed:
    """A file being read. `next()` until None; then the rest tells how it ended."""

    def __init__(self, disk: Disk, path: str, *, force: bool, is_log: bool = True, ordered: bool = False) -> None:
        """`is_log`: it may end without an end marker, and how it ends is for the caller to judge; otherwise it is an
        error. `ordered`: see judge_tail."""
        self.path = path
        self.size = 0
        self.eof = False
        """Has it an end marker?"""
        self.good_size = 0
        """Where its good blocks end."""
        self.is_empty = True
        """Has it no block?"""
        self.bad: XlogError | None = None
        """What is wrong after `good_size`, if it is not the end of the file."""
        self.tail = Tail.CUT
        """May what is wrong be cut off?"""
        self._disk = disk
        self._force = force
        self._is_log = is_log
        self._ordered = ordered
        self._file: File | None = None
        self._reader: Reader | None = None
        self._ahead: deque[Awaitable[Stretch | BoxError | OSError | None]] = deque()
        self._is_over = False
        """The worker has come to the end, or to an error."""

    async def next(self, worker: Worker) -> Stretch | None:
        while len(self._ahead) < _AHEAD:
            self._ahead.append(worker.run(self._read))
        stretch = await self._ahead.popleft()
        if stretch is not None and not isinstance(stretch, Stretch):
            raise stretch
        return stretch

    def _read(self) -> Stretch | BoxError | OSError | None:
        """In the worker. An error is a result like another: it may come long before anybody asks for it."""
        if self._is_over:
            return None
        try:
            reader = self._reader or self._open()
            try:
                stretch = self._gather(reader)
            except XlogError as error:
                self._judge(reader, error.offset or reader.position, error, good_follows=True)
                stretch = None
            else:
                if stretch is not None:
                    return stretch
                self._end(reader)
        except (BoxError, OSError) as error:
            self._end_reading()
            return error
        self._end_reading()
        return None

    def _open(self) -> Reader:
        self._file = self._disk.open(self.path)
        self._reader = Reader(self._file, force=self._force)
        self.size = self._file.size()
        self.good_size = self._reader.position
        return self._reader

    def _gather(self, reader: Reader) -> Stretch | None:
        rows: list[bytes] = []
        starts: list[int] = []
        offsets: list[int] = []
        size = 0
        begin = reader.position
        while size < _STRETCH:
            small, places = reader.plain_blocks(_STRETCH - size)
            if not small:
                try:
                    block = reader.next()
                except XlogError:
                    if not rows:
                        raise
                    break  # the good blocks before it first; asked again, the reader says the same
                if block is None:
                    break
                small, places = [block.rows], [block.offset]
            rows += small
            offsets += places
            for piece in small:
                starts.append(size)
                size += len(piece)
        if not rows:
            return None
        self.is_empty = False
        self.good_size = reader.position
        return Stretch(self.path, b"".join(rows), starts, offsets, reader.position - begin)

    def _end(self, reader: Reader) -> None:
        """No more blocks: is the end as it may be?"""
        for damage in reader.skipped:
            log.error("%s: skipped, because force_recovery is set", damage)
        self.eof = reader.eof
        self.good_size = reader.position
        if not self._is_log and not self._force:
            reader.require_eof()
        if reader.damage is not None:
            self._judge(reader, reader.damage.offset, reader.damage.error(), good_follows=False)

    def _judge(self, reader: Reader, at: int, error: XlogError, *, good_follows: bool) -> None:
        """The first bad block begins at `at`."""
        if not self._is_log:
            raise error
        self.good_size = at
        self.bad = error
        self.tail = judge_tail(reader.file, at, good_follows=good_follows, ordered=self._ordered)

    def _end_reading(self) -> None:
        self._is_over = True
        if self._file is not None:
            self._file.close()
