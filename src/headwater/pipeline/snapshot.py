"""A snapshot on its way: from the server's disk, to be gone on with after a break, or copied to a spool.

The rows of the system's spaces come first (memtx_engine.c, in the order of ids). What they say of spaces must be known
before a row of any other is read, and nothing is published before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from headwater.client import AnonymousReplica, Cursor, Part, Picture
from headwater.errors import BoxError, Er
from headwater.kernels import frame_end
from headwater.pipeline import trouble
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.history import History, changes_in, unpack_schema
from headwater.pipeline.offsets import Position, VClockMap, Via
from headwater.pipeline.pieces import Piece, Run
from headwater.pipeline.spool import SpoolWriter, read_spool, remove
from headwater.store import system
from headwater.wire.mpread import read_uint
from headwater.wire.request import of_row
from headwater.wire.xrow import decode_row

log = logging.getLogger("headwater.pipeline")


class SnapshotLost(PipelineError):
    """The server has it no more."""


class Runs:
    """Attempts to get a whole snapshot, and a directory for the copy of each: tasks may still read an old one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._attempt = 0
        """The last that was begun."""

    def resumed(self, position: Position) -> Run:
        """The one that a position is in, if it is still to be had; another one if not."""
        self._attempt = position.attempt
        if not position.is_begun:
            return Run(position.attempt, {}, Via.NONE)
        run = Run(position.attempt, position.vclock, position.via, position.server, position.row, position.schema, True)
        if position.via is Via.CURSOR:
            return run
        found = read_spool(self.directory(run), position.vclock)
        if found is None:
            log.warning(trouble.spool_lost(self.directory(run)))
            return self.after(run)
        run.pieces.extend(piece for piece in found if piece.next > position.row)
        run.next, run.is_whole = found[-1].next if found else 0, True
        return run

    def passed(self, position: Position) -> None:
        """One of the stream: no copy is needed any more."""
        self._attempt = position.attempt
        remove(self._directory)

    def after(self, run: Run | None) -> Run:
        """The next one: what was handed out of the last is announced to be void, if anything was."""
        self._attempt += run is None or run.is_published
        return Run(self._attempt, {}, Via.NONE)

    def directory(self, run: Run) -> Path:
        return self._directory / str(run.attempt)

    def clean(self, attempt: int) -> None:
        """Copies before this one."""
        for path in self._directory.glob("*"):
            if path.name.isdigit() and int(path.name) < attempt:
                remove(path)

    def clear(self) -> None:
        remove(self._directory)


class Fetch:
    """One FETCH_SNAPSHOT: the whole, or the rest of a run."""

    def __init__(
        self,
        replica: AnonymousReplica,
        run: Run,
        history: History,
        directory: Path,
        rows_max: int,
        patience: float,
        cut_at: int = 0,
    ) -> None:
        """`patience`: seconds of silence that are borne. `cut_at`: a piece ends before the row of this number.
        SnapshotLost, BoxError or ConnectionFailed."""
        self.via = Via.CURSOR if replica.has_cursor else Via.SPOOL
        self.server = replica.server_uuid if replica.has_cursor else None
        self.schema = run.schema
        self._history = history
        self._dictionary = unpack_schema("")
        self._rows_max = rows_max
        self._next = run.next
        self._cut_at = cut_at
        self._patience = patience
        self._held: list[Piece] = []
        """Published when the schema is known."""
        self._picture = self._ask(replica, run)
        self.vclock: VClockMap = self._picture.vclock
        self._writer: SpoolWriter | None = None
        if self.via is Via.SPOOL:
            told = {"server": str(replica.server_uuid), "address": str(replica.uri)}
            self._writer = SpoolWriter(directory, self.vclock, told, rows_max)

    def _ask(self, replica: AnonymousReplica, run: Run) -> Picture:
        cursor = Cursor(run.vclock, run.next) if run.via is Via.CURSOR else None
        try:
            return replica.fetch_snapshot(cursor, from_disk=replica.has_cursor)
        except BoxError as error:
            if error.code == Er.MISSING_SNAPSHOT and cursor is not None:
                raise SnapshotLost(f"{replica.uri} has removed the snapshot that was being read") from None
            raise

    def pieces(self) -> Iterator[list[Piece]]:
        """Those that may be published, `schema` is known then; none at times, so that he who waits can do other
        things."""
        try:
            for part in self._picture.parts(self._rows_max, self._patience):
                made = self._take(part)
                if not self.schema and part.rows:
                    made = self._learn(made, part)
                yield made
            rest = self._writer.end() if self._writer is not None else []
            if not self.schema:
                rest = self._learned(rest)
            if rest:
                yield rest
        finally:
            if self._writer is not None:
                self._writer.close()

    def _take(self, part: Part) -> list[Piece]:
        if self._writer is not None:
            return self._writer.add(part) if part.rows else self._idle()
        return self._cut(part) if part.rows else []

    def _idle(self) -> list[Piece]:
        """What has come need not wait for more."""
        assert self._writer is not None
        made = self._writer.flush()
        if self.schema:
            return made
        self._held += made
        return []

    def _cut(self, part: Part) -> list[Piece]:
        """A batch that is planned again ends where it ended, whatever the pieces were then."""
        if not self._next < self._cut_at < part.number:
            return [self._piece(part.data, part.rows, part.number)]
        at = rows = 0
        while (found := decode_row(part.data, read_uint(part.data, at)[1], _end(part.data, at)))[0].lsn < self._cut_at:
            at, rows = found[1], rows + 1
        return [
            self._piece(part.data[:at], rows, self._cut_at),
            self._piece(part.data[at:], part.rows - rows, part.number),
        ]

    def _piece(self, data: bytes, rows: int, number: int) -> Piece:
        changes = () if self.schema else changes_in(data)
        first, self._next = self._next, number
        return Piece(rows, len(data), data, changes, first=first, next=number)

    def _learn(self, made: list[Piece], part: Part) -> list[Piece]:
        """Is all known about spaces after this part?"""
        if self._space_of_last(part) > system.INDEX:
            if self._writer is not None:
                made = made + self._writer.flush()
            return self._learned(made)
        self._held += made
        return []

    def _learned(self, made: list[Piece]) -> list[Piece]:
        pieces, self._held = self._held + made, []
        for piece in pieces:
            for row in piece.changes:
                self._dictionary.apply_bytes(row)
        self.schema = self._history.pack(self._dictionary)
        return pieces

    @staticmethod
    def _space_of_last(part: Part) -> int:
        row = decode_row(part.data, read_uint(part.data, part.last)[1], exact=True)[0]
        return of_row(row).space_id


def _end(data: bytes, at: int) -> int:
    return frame_end(data, at, len(data))
