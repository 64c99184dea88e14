"""Rows of a batch on their way to Spark's tasks: inside the partition, or in a file that the tasks read.

Small batches travel with the plan, which needs no disk that everybody sees. Large ones would be held three times over,
so they go through a file in the spool directory. Rows of a snapshot's spool are in a file already.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from headwater.pipeline.errors import PipelineError
from headwater.pipeline.history import History, rows_between
from headwater.pipeline.pieces import Piece

INLINE_BYTES = 4 << 20
"""A batch of more goes through a file."""
PART_BYTES = 1 << 20
"""A task has no less, if there are several."""
PART_BYTES_MAX = 32 << 20
"""Nor more than this, roughly."""


@dataclass(frozen=True)
class StreamPart(InputPartition):
    """What one task reads. `value` of the base class is not used."""

    replicaset: str
    schema: str
    """The dictionary before its first row, or that of the whole snapshot."""
    data: bytes = b""
    path: str = ""
    offset: int = 0
    size: int = 0
    low: Mapping[int, int] | None = None
    """Rows behind it; component 0 for numbers of a snapshot's rows."""
    high: Mapping[int, int] | None = None
    is_snapshot: bool = False
    first: int = -1
    """Number of the first row, where rows do not say their own; else -1."""
    is_truncate: bool = False
    """One row, which says that those before it are void."""
    known: tuple[str, ...] = ()
    """Of typed rows: the fields that the server told of when the query started."""

    def read(self) -> bytes:
        if not self.path:
            return self.data
        try:
            with Path(self.path).open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except FileNotFoundError:
            raise PipelineError(
                f"There is no file {self.path} where this task runs. Driver and executors need a directory that all of "
                "them see: name it in the option 'spoolDir', or set ship=inline."
            ) from None
        if len(data) != self.size:
            raise PipelineError(f"The file {self.path} has been cut short: somebody else writes to that directory.")
        return data


@dataclass(slots=True)
class _Entry:
    """One piece, in memory or in a file."""

    piece: Piece
    path: Path | None
    offset: int


@dataclass(slots=True)
class Load:
    """What one replica set has in a batch."""

    replicaset: str
    schema: str
    pieces: Iterable[Piece]
    low: Mapping[int, int] | None = None
    high: Mapping[int, int] | None = None
    is_snapshot: bool = False
    is_numbered: bool = True
    """Do rows say their numbers?"""
    entries: list[_Entry] = field(default_factory=list)


class Shipper:
    """Makes partitions, and files for them, which live until their batch is committed."""

    def __init__(self, directory: Path, history: History, mode: str, parts: int) -> None:
        self._directory = directory
        self._history = history
        self._mode = mode
        self._parts = parts
        self._numbers = itertools.count(1)
        self._files: list[Path] = []
        for path in directory.glob("batch-*"):
            path.unlink(missing_ok=True)

    def ship(self, loads: Iterable[Load]) -> list[StreamPart]:
        """Pieces are taken one by one, so that memory is free again before the last one has come."""
        done: list[Load] = []
        for load in loads:
            self._gather(load)
            done.append(load)
        total = sum(entry.piece.size for load in done for entry in load.entries)
        size = min(max(total // self._parts + 1, PART_BYTES), PART_BYTES_MAX)
        return [part for load in done for part in self._parts_of(load, size)]

    def forget(self, files: Iterable[Path]) -> None:
        for path in files:
            path.unlink(missing_ok=True)

    def taken_files(self) -> list[Path]:
        """Those that were made since it was asked last."""
        files, self._files = self._files, []
        return files

    # ---- gathering

    def _gather(self, load: Load) -> None:
        held = 0
        writer: _Writer | None = None
        try:
            for piece in load.pieces:
                if piece.path is not None:
                    load.entries.append(_Entry(piece, piece.path, piece.offset))
                    continue
                held += piece.size
                if writer is None and self._needs_file(held):
                    writer = self._open()
                    for entry in load.entries:
                        writer.move(entry)
                entry = _Entry(piece, None, 0)
                load.entries.append(entry)
                if writer is not None:
                    writer.move(entry)
        finally:
            if writer is not None:
                writer.close()

    def _needs_file(self, size: int) -> bool:
        return self._mode == "spool" or (self._mode == "auto" and size > INLINE_BYTES)

    def _open(self) -> _Writer:
        path = self._directory / f"batch-{os.getpid()}-{next(self._numbers)}"
        self._files.append(path)
        return _Writer(path)

    # ---- parts

    def _parts_of(self, load: Load, size: int) -> Iterator[StreamPart]:
        schema = load.schema
        for group in _groups(load.entries, size):
            yield self._part(load, schema, group)
            changes = () if load.is_snapshot else [row for entry in group for row in entry.piece.changes]
            if changes:
                schema = self._history.after(schema, rows_between(changes, load.low or {}, load.high or {}))

    def _part(self, load: Load, schema: str, group: list[_Entry]) -> StreamPart:
        first = group[0]
        is_inline = first.path is None
        return StreamPart(
            load.replicaset,
            schema,
            b"".join(entry.piece.data for entry in group) if is_inline else b"",
            "" if is_inline else str(first.path),
            first.offset,
            sum(entry.piece.size for entry in group),
            load.low,
            load.high,
            load.is_snapshot,
            -1 if load.is_numbered else first.piece.first,
        )


def _groups(entries: list[_Entry], size: int) -> Iterator[list[_Entry]]:
    """Neighbours together, up to a size."""
    group: list[_Entry] = []
    held = 0
    for entry in entries:
        is_next = not group or (group[-1].path == entry.path and _is_behind(group[-1], entry))
        if group and (not is_next or held + entry.piece.size > size):
            yield group
            group, held = [], 0
        group.append(entry)
        held += entry.piece.size
    if group:
        yield group


def _is_behind(before: _Entry, entry: _Entry) -> bool:
    return entry.path is None or before.offset + before.piece.size == entry.offset


class _Writer:
    """A file of pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise self._cannot(error) from None

    def move(self, entry: _Entry) -> None:
        """From memory to here."""
        piece = entry.piece
        left = memoryview(piece.data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise self._cannot(error) from None
        entry.path, entry.offset = self._path, self._offset
        entry.piece = Piece(piece.rows, piece.size, b"", piece.changes, piece.start, piece.end, piece.first, piece.next)
        self._offset += piece.size

    def close(self) -> None:
        self._file.close()

    def _cannot(self, error: OSError) -> PipelineError:
        return PipelineError(
            f"The batch cannot be written to {self._path}: {error.strerror}. The option 'spoolDir' names another "
            "directory; maxBytesPerTrigger makes batches smaller."
        )
