"""The tasks' half of the batch source over files: the transactions that begin in one part of a file.

Such a transaction is read to its end, even behind the part; who reads the part behind it leaves that out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.kernels.columns import RowError
from headwater.pipeline.blocks import Blocks, ends_open, positions
from headwater.pipeline.decode import Decoder, View
from headwater.pipeline.errors import PipelineError, SourceDamaged
from headwater.pipeline.fileplan import FilePart
from headwater.pipeline.files import FileSettings
from headwater.pipeline.storage import Source
from headwater.vclock import VClock

_REMEDY_TAIL = (
    "It is not the newest log, and the one behind it begins later than this one ends. Restore it from another member "
    "or a backup, or read what is good with mode=PERMISSIVE."
)
_log = logging.getLogger(__name__)


class PartReader:
    """Reads the transactions that begin in one part of a file."""

    def __init__(self, files: FileSettings, view: View, part: FilePart, types: Sequence[int] | None) -> None:
        """`types`: only rows of these types."""
        self._files = files
        self._part = part
        self._source: Source = self._files.storage.open(part.path, part.size)
        self._decoder = Decoder(
            view,
            part.dictionary.copy(),
            range=self._files.range,
            types=types,
            is_snapshot=part.is_snapshot,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            self._blocks = Blocks(self._source, force=self._files.permissive, limit=self._files.max_block)
            yield from self._read()
        finally:
            self._source.close()

    def _read(self) -> Iterator[pa.RecordBatch]:
        part, blocks, decoder = self._part.part, self._blocks, self._decoder
        if part.before is not None and self._is_open_before(part.before, part.begin):
            decoder.skip_transaction()
        blocks.seek(part.begin)
        for rows in blocks.read(part.end):
            yield from self._feed(rows)
        while decoder.open and not blocks.passed_damage:
            more = blocks.next(self._part.size)
            if more is None or blocks.passed_damage:
                # Damage ends a transaction: what comes behind it is the next part's.
                break
            yield from self._feed(more, to_commit=True)
        yield from decoder.flush()
        if blocks.end >= self._part.size:
            self._check_tail()

    def _is_open_before(self, before: int, begin: int) -> bool:
        """Does a transaction go on over the border? A damaged block there ends it: the part before says so too."""
        blocks = self._blocks
        blocks.seek(before)
        rows: bytes | None = blocks.next(begin)
        return rows is not None and blocks.end == begin and ends_open(rows)

    def _feed(self, rows: bytes, *, to_commit: bool = False) -> Iterator[pa.RecordBatch]:
        self._decoder.locate = self._place
        return self._decoder.feed(rows, to_commit=to_commit)

    def _place(self, offset: int) -> str:
        return f"{self._part.path}, block at offset {self._blocks.locate(offset)}"

    # ---- the end of the file

    def _check_tail(self) -> None:
        """Does it end where it should? A log that a writer left without end marker has lost nothing if the next one
        begins where it ends; a snapshot without it is not whole."""
        blocks, part = self._blocks, self._part
        if blocks.closed and blocks.tail is None:
            return
        if part.is_snapshot:
            reason = str(blocks.tail.reason) if blocks.tail is not None else "no end marker: the snapshot is not whole"
            self._complain(reason, "Its writer never finished it: take an older one, or the files of another member.")
        elif blocks.tail is not None and not part.may_be_torn and not self._lost_nothing():
            self._complain(f"{blocks.tail.kind.value}: {blocks.tail.reason}", _REMEDY_TAIL)

    def _complain(self, reason: str, remedy: str) -> None:
        tail = self._blocks.tail
        offset = tail.offset if tail is not None else self._part.size
        error = SourceDamaged(self._part.path, offset, self._blocks.last_lsn(), reason, remedy)
        if not self._files.permissive:
            raise error
        _log.warning("%s", error)

    def _lost_nothing(self) -> bool:
        if self._part.next_vclock is None:
            return False
        return end_vclock(self._source, self._files.max_block) == self._part.next_vclock


def end_vclock(source: Source, limit: int) -> VClock:
    """Of the last good row of a log."""
    blocks = Blocks(source, force=True, limit=limit)
    vclock = blocks.meta.vclock.copy() if blocks.meta.vclock is not None else VClock()
    for rows in blocks.read(source.size()):
        try:
            for replica_id, lsn in positions(rows):
                vclock.reset(replica_id, max(lsn, vclock.get(replica_id)))
        except (RowError, PipelineError):
            break
    return vclock
