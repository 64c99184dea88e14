"""A snapshot that can be had only once, copied to a directory of ours while it comes.

A server that shows its data to a replica does so as they are at one moment, and not a second time. What Spark is told
of must be there again after a crash: so rows are in the file, and it is on the disk, before an offset names them.

    head.json    the snapshot's vclock and the server, written first
    rows         packets, as they came
    index        a line for each piece: number of its first row, rows, offset, bytes; the last says that it is whole
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.client import Part
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.history import changes_in
from headwater.pipeline.offsets import VClockMap
from headwater.pipeline.pieces import Piece

PIECE_BYTES = 1 << 20
SYNC_BYTES = 16 << 20
SYNC_SECONDS = 0.3
_WHOLE = "whole"


class SpoolWriter:
    """Takes parts of a snapshot and gives pieces that are safe on the disk."""

    def __init__(self, directory: Path, vclock: VClockMap, told: Mapping[str, str], rows_max: int) -> None:
        """What is in the directory goes. `rows_max`: of a piece."""
        self._rows_max = rows_max
        self._first = 0
        self._parts: list[bytes] = []
        self._rows = self._size = self._offset = 0
        self._unsynced: list[Piece] = []
        self._synced_at = time.monotonic()
        self._directory = directory
        self._data = self._index = -1
        try:
            remove(directory)
            directory.mkdir(mode=0o700, parents=True)
            head = {"vclock": {str(number): lsn for number, lsn in vclock.items()}, **told}
            self._write_head(json.dumps(head, sort_keys=True).encode())
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._data = os.open(directory / "rows", flags, 0o600)
            self._index = os.open(directory / "index", flags, 0o600)
        except OSError as error:
            raise _cannot(directory, error) from None

    def _write_head(self, text: bytes) -> None:
        path = self._directory / "head.json"
        path.write_bytes(text)
        for name in (path, self._directory, self._directory.parent):
            _sync(name)

    def add(self, part: Part) -> list[Piece]:
        """Those pieces that are safe now."""
        if self._rows and self._rows + part.rows > self._rows_max:
            self._end_piece()
        self._parts.append(part.data)
        self._rows += part.rows
        self._size += len(part.data)
        if self._size >= PIECE_BYTES or self._rows >= self._rows_max:
            self._end_piece()
        size = sum(piece.size for piece in self._unsynced)
        if size >= SYNC_BYTES or (size and time.monotonic() - self._synced_at >= SYNC_SECONDS):
            return self._sync()
        return []

    def flush(self) -> list[Piece]:
        """All that was taken."""
        self._end_piece()
        return self._sync()

    def end(self) -> list[Piece]:
        """The last of them: the snapshot is whole."""
        pieces = self.flush()
        self._write(self._index, [json.dumps({_WHOLE: self._first}).encode() + b"\n"])
        os.fsync(self._index)
        self.close()
        return pieces

    def close(self) -> None:
        for fd in (self._data, self._index):
            if fd >= 0:
                os.close(fd)
        self._data = self._index = -1

    def _end_piece(self) -> None:
        if not self._rows:
            return
        data = b"".join(self._parts)
        changes = changes_in(data)
        self._write(self._data, [data])
        last = self._first + self._rows
        path = self._directory / "rows"
        piece = Piece(
            self._rows, self._size, b"", changes, first=self._first, next=last, path=path, offset=self._offset
        )
        line = {"first": self._first, "rows": self._rows, "offset": self._offset, "size": self._size}
        self._write(self._index, [json.dumps(line).encode() + b"\n"])
        self._offset += self._size
        self._first = last
        self._parts, self._rows, self._size = [], 0, 0
        self._unsynced.append(piece)

    def _sync(self) -> list[Piece]:
        try:
            os.fsync(self._data)
            os.fsync(self._index)
        except OSError as error:
            raise _cannot(self._directory, error) from None
        self._synced_at = time.monotonic()
        pieces, self._unsynced = self._unsynced, []
        return pieces

    def _write(self, fd: int, parts: list[bytes]) -> None:
        for part in parts:
            left = memoryview(part)
            try:
                while left:
                    left = left[os.write(fd, left) :]
            except OSError as error:
                raise _cannot(self._directory, error) from None


def read_spool(directory: Path, vclock: VClockMap) -> list[Piece] | None:
    """The pieces of a snapshot that was copied to its end; None if there is none of this vclock, or not all of it."""
    try:
        head: dict[str, Any] = json.loads((directory / "head.json").read_bytes())
        lines = [json.loads(line) for line in (directory / "index").read_bytes().splitlines()]
        size = (directory / "rows").stat().st_size
    except (OSError, ValueError):
        return None
    if {int(number): lsn for number, lsn in head.get("vclock", {}).items()} != dict(vclock):
        return None
    if not lines or _WHOLE not in lines[-1] or sum(line["size"] for line in lines[:-1]) != size:
        return None
    path = directory / "rows"
    return [
        Piece(
            line["rows"],
            line["size"],
            b"",
            first=line["first"],
            next=line["first"] + line["rows"],
            path=path,
            offset=line["offset"],
        )
        for line in lines[:-1]
    ]


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _cannot(directory: Path, error: OSError) -> PipelineError:
    return PipelineError(
        f"The snapshot cannot be copied to {directory}: {error.strerror}. It needs as much room as the server's data; "
        "the option 'spoolDir' names another directory."
    )
