"""One log file on its way to subscribers, seen from the worker that reads it (recovery.cc, recover_xlog).

The file may still be written, closed or removed meanwhile. What is read is framed for the wire at once, by the kernel
that frames the batches in memory, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import BoxError, MsgPackError, XlogError
from headwater.kernels import Frames, frame_rows
from headwater.vclock import VClock
from headwater.world import Disk, File
from headwater.xlog import Reader

STRETCH = 1 << 20
"""Bytes of rows that are read, framed and sent in one step."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some blocks that follow each other: whole transactions."""

    frames: Frames
    lsns: list[int]
    """The journal's vclock behind them, by replica id."""
    end: int
    """Offset in the file behind them."""


def follow(frames: Frames, lsns: Sequence[int]) -> list[int]:
    """The vclock behind some rows, given the one before them."""
    after = list(lsns)
    for replica_id, lsn in frames.last:
        after[replica_id] = max(after[replica_id], lsn)
    return after


class LogWalk:
    """Reads one file from some place on. Every method runs in the worker; errors are results, because a step may run
    long before anybody asks for it."""

    def __init__(self, disk: Disk, path: str, offset: int = 0) -> None:
        """`offset`: where a block begins; 0 for the first one."""
        self.path = path
        self.vclock: VClock | None = None
        """In the head of the file, once it is open."""
        self.previous: VClock | None = None
        """And that of the file before it."""
        self.is_over = False
        """Its end marker was seen."""
        self._disk = disk
        self._offset = offset
        self._file: File | None = None
        self._reader: Reader | None = None

    def open(self) -> BoxError | OSError | None:
        """Its head is known after this."""
        try:
            self._open()
        except (BoxError, OSError) as error:
            return error
        return None

    def read(self, lsns: Sequence[int], end: int | None) -> Stretch | BoxError | OSError | None:
        """The next blocks, up to the offset `end` if there is one; None if there are no more now. `lsns`: the
        journal's vclock before them."""
        try:
            reader = self._reader or self._open()
            reader.end = end
            rows = self._gather(reader)
            self.is_over = reader.eof
            if not rows:
                return None
            frames = frame_rows(rows)
            return Stretch(frames, follow(frames, lsns), reader.position)
        except MsgPackError as error:
            return XlogError(f"can't parse row: {error}", path=self.path)
        except (BoxError, OSError) as error:
            return error

    def close(self) -> None:
        file, self._file, self._reader = self._file, None, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _open(self) -> Reader:
        self.close()
        self._file = self._disk.open(self.path)
        reader = Reader(self._file, follow=True)
        self.vclock, self.previous = reader.meta.vclock or VClock(), reader.meta.prev_vclock
        if self._offset:
            reader.position = self._offset
        self._reader = reader
        return reader

    @staticmethod
    def _gather(reader: Reader) -> bytes:
        rows: list[bytes] = []
        size = 0
        while size < STRETCH:
            small, _ = reader.plain_blocks(STRETCH - size)
            if not small:
                block = reader.next()
                if block is None:
                    break
                small = [block.rows]
            rows += small
            size += sum(map(len, small))
        return rows[0] if len(rows) == 1 else b"".join(rows)
