"""One snapshot file, seen from the worker that writes it (memtx_engine.cc: checkpoint_f, checkpoint_write_row).

It has its name only when it is whole and on the disk; until then, and after any error, there is at most an
`.inprogress` file, which the next start removes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.wire.xrow import Row, encode_row
from headwater.world import Disk, File
from headwater.xlog import INPROGRESS, MAGIC_EOF, BlockEncoder, Meta, format_meta
from headwater.xlog.format import CUT_APART

SYNC_INTERVAL = 1 << 24
"""SNAP_SYNC_INTERVAL: forced in pieces of this size, so that the last force does not hold up the whole disk."""

Fill = Callable[[int, int, float], tuple[bytes, int]]
"""`ReadView.fill`, or rows from elsewhere: (limit, first LSN, timestamp) to (rows, count); (b'', 0) at the end."""


@dataclass(frozen=True, slots=True)
class SystemRow:
    """A row that is no tuple: raft state (group 1), the state of the synchronous queue."""

    type: int
    group_id: int
    body: bytes


def fill_from(rows: Sequence[SystemRow]) -> Fill:
    """A source that gives these rows once."""
    left = list(rows)

    def fill(limit: int, lsn: int, timestamp: float) -> tuple[bytes, int]:
        encoded = b"".join(
            encode_row(Row(row.type, group_id=row.group_id, lsn=lsn + place, timestamp=timestamp, body=row.body))
            for place, row in enumerate(left)
        )
        count = len(left)
        left.clear()
        return encoded, count

    return fill


class SnapshotWriter:
    """Writes one snapshot, step by step. Every method runs in the worker."""

    def __init__(self, disk: Disk, path: str, meta: Meta, sources: Sequence[Fill], timestamp: float) -> None:
        self.path = path
        self.rows = 0
        """Rows written; also the LSN of the next one."""
        self.size = 0
        self._disk = disk
        self._meta = meta
        self._sources = list(sources)
        self._timestamp = timestamp
        self._encoder = BlockEncoder()
        self._file: File | None = None
        self._synced = 0

    @property
    def _unfinished(self) -> str:
        return self.path + INPROGRESS

    def step(self, budget: int) -> bool:
        """Write about so many bytes more. False when the last row is written."""
        file = self._file or self._begin()
        end = self.size + budget
        while self._sources and self.size < end:
            rows, count = self._sources[0](CUT_APART, self.rows, self._timestamp)
            if count:
                self._append(file, self._encoder.encode_one(rows))
                self.rows += count
            else:
                self._sources.pop(0)
        return bool(self._sources)

    def finish(self) -> None:
        """Make it whole, force it, give it its name, force that."""
        file = self._file or self._begin()
        file.append(MAGIC_EOF)
        file.sync()
        file.close()
        self._file = None
        self._disk.rename(self._unfinished, self.path)
        try:
            self._disk.sync_dir(os.path.dirname(self.path))
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.unlink(self.path)
            raise

    def abandon(self) -> None:
        """Leave nothing behind, if the disk lets us."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with contextlib.suppress(OSError):
            self._disk.unlink(self._unfinished)

    def _begin(self) -> File:
        self._file = self._disk.create(self._unfinished, exclusive=False)
        self._append(self._file, format_meta(self._meta))
        return self._file

    def _append(self, file: File, data: bytes) -> None:
        file.append(data)
        self.size += len(data)
        if self.size - self._synced >= SYNC_INTERVAL:
            file.sync()
            self._synced = self.size
