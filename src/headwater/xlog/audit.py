"""Is a data directory sound? Every checksum, every row, the order of LSNs, whole transactions, and the chain of files.

`audit_file` judges one file by itself, `audit` the files of an instance together. Problems are what loses or garbles
data; notes are what a look at the directory should mention, such as a log that a killed writer did not finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from headwater.errors import BoxError
from headwater.typing import VCLOCK_MAX
from headwater.vclock import Order, VClock
from headwater.wire import synchro
from headwater.wire.constants import SYNCHRO_TYPES, Type
from headwater.wire.request import of_row
from headwater.wire.xrow import Row
from headwater.world import Disk
from headwater.xlog.directory import LogFile, after, gaps
from headwater.xlog.format import INPROGRESS, SNAP, XLOG, Meta, parse_name
from headwater.xlog.reader import Block, DamageKind, Reader, Source, rows

_SNAP_TYPES = frozenset((Type.INSERT, Type.RAFT, Type.RAFT_PROMOTE))
_PROBLEMS_MAX = 20
"""Problems listed for one file; the rest is counted."""


@dataclass(slots=True)
class FileReport:
    """What one file holds."""

    path: str
    size: int = 0
    meta: Meta | None = None
    blocks: int = 0
    rows: int = 0
    end: VClock = field(default_factory=VClock)
    """`vclock` of the head, followed by every row."""
    is_closed: bool = False
    """Has it its end marker?"""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unlisted: int = 0
    """Problems beyond the first ones."""

    def problem(self, text: str) -> None:
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(text)
        else:
            self.unlisted += 1


@dataclass(slots=True)
class Report:
    files: list[FileReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Those that no single file has: gaps, files of several instances."""
    notes: list[str] = field(default_factory=list)

    @property
    def problem_count(self) -> int:
        return len(self.problems) + sum(len(file.problems) + file.unlisted for file in self.files)


# ---- one file -------------------------------------------------------------------------------------


def audit_file(file: Source) -> FileReport:
    """Read all of it, past any damage."""
    report = FileReport(file.path, file.size())
    try:
        reader = Reader(file, force=True)
    except BoxError as error:
        report.problem(error.message)
        return report
    report.meta = reader.meta
    report.end = reader.meta.vclock.copy() if reader.meta.vclock is not None else VClock()
    _check_head(report, reader.meta)
    _Rows(report, is_snapshot=reader.meta.filetype == SNAP).read(reader)
    report.is_closed = reader.eof
    for damage in reader.skipped:
        report.problem(str(damage))
    _check_end(report, reader)
    return report


def _check_head(report: FileReport, meta: Meta) -> None:
    name = report.path.rsplit("/", 1)[-1]
    if meta.vclock is None:
        report.problem("the head has no VClock")
    elif (signature := parse_name(name, meta.filetype)) is not None and signature != meta.signature:
        report.problem(f"the name says signature {signature}, the head {meta.signature}")
    elif signature is None:
        report.problem(f"a file of type {meta.filetype} should not be named {name}")


def _check_end(report: FileReport, reader: Reader) -> None:
    damage = reader.damage
    if reader.meta.filetype == SNAP:
        if not reader.eof:
            report.problem(str(damage) if damage is not None else "no end marker: the snapshot is not complete")
    elif damage is None:
        if not reader.eof:
            report.notes.append("was not closed: no end marker")
    elif damage.kind is DamageKind.TORN:
        report.notes.append(f"ends in mid-write, which a start will cut off: {damage}")
    else:
        report.problem(str(damage))


class _Rows:
    """Walks the rows of a file and holds each against the one before it."""

    def __init__(self, report: FileReport, *, is_snapshot: bool) -> None:
        self.report = report
        self.is_snapshot = is_snapshot
        self.open_tsn: int | None = None
        """TSN of the transaction that a row began and none has ended yet."""
        self.next_lsn: int | None = 0
        """What the next row of a snapshot must have; not known behind damage."""

    def read(self, reader: Reader) -> None:
        skipped = 0
        for block in reader:
            if len(reader.skipped) > skipped:
                skipped = len(reader.skipped)
                self.next_lsn = None
            self.report.blocks += 1
            try:
                for row in rows(block, reader.path):
                    self._row(row, block)
            except BoxError as error:
                self.report.problem(error.message)
                self.next_lsn = None
            if self.open_tsn is not None:
                self.report.problem(f"the block at offset {block.offset} ends inside transaction {self.open_tsn}")
                self.open_tsn = None

    def _row(self, row: Row, block: Block) -> None:
        words = self._judge(row)
        if words:
            self.report.problem(f"row {row.replica_id}:{row.lsn} in the block at offset {block.offset}: {words}")
        self.report.rows += 1

    def _judge(self, row: Row) -> str:
        """What is wrong with a row, or nothing."""
        words = self._judge_snapshot_row(row) if self.is_snapshot else self._judge_log_row(row)
        try:
            _check_body(row)
        except BoxError as error:
            return f"{words}; {error.message}" if words else error.message
        return words

    def _judge_snapshot_row(self, row: Row) -> str:
        wanted, self.next_lsn = self.next_lsn, row.lsn + 1
        if row.type not in _SNAP_TYPES:
            return f"type {row.type} has no place in a snapshot"
        if wanted is not None and row.lsn != wanted:
            return f"it stands where row {wanted} should"
        return ""

    def _judge_log_row(self, row: Row) -> str:
        previous = self.report.end.get(row.replica_id)
        if row.replica_id >= VCLOCK_MAX:
            return f"there is no replica id {row.replica_id}"
        if row.lsn <= previous:
            return f"its LSN is not above {previous}"
        self.report.end.follow(row.replica_id, row.lsn)
        return self._judge_transaction(row)

    def _judge_transaction(self, row: Row) -> str:
        """Rows of two transactions may not interleave."""
        before = self.open_tsn
        self.open_tsn = None if row.is_commit else row.tsn
        if before is not None and before != row.tsn:
            return f"it belongs to transaction {row.tsn} while {before} has not ended"
        return ""


def _check_body(row: Row) -> None:
    """BoxError if the body is not what the type asks for."""
    if row.type in SYNCHRO_TYPES:
        synchro.decode_synchro(row)
    elif row.type == Type.RAFT:
        synchro.decode_raft(row)
    else:
        of_row(row)


# ---- a directory ----------------------------------------------------------------------------------


def audit(disk: Disk, directories: Sequence[str]) -> Report:
    """All `.snap` and `.xlog` files of an instance; its logs and snapshots may lie in different directories."""
    report = Report()
    found: list[tuple[int, str]] = []
    for directory in directories:
        for name in disk.listdir(directory):
            path = f"{directory}/{name}"
            signatures = (parse_name(name, filetype) for filetype in (SNAP, XLOG))
            found.extend((signature, path) for signature in signatures if signature is not None)
            if name.endswith(INPROGRESS):
                report.notes.append(f"{path}: never finished; a start removes it")
    for _, path in sorted(found):
        report.files.append(_audit_path(disk, path))
    _check_instances(report)
    _check_chain(report)
    return report


def _audit_path(disk: Disk, path: str) -> FileReport:
    file = disk.open(path)
    try:
        return audit_file(file)
    finally:
        file.close()


def _check_instances(report: Report) -> None:
    uuids: dict[UUID, str] = {}
    for file in report.files:
        if file.meta is not None:
            uuids.setdefault(file.meta.instance_uuid, file.path)
    if len(uuids) > 1:
        told = ", ".join(f"{uuid} wrote {path}" for uuid, path in uuids.items())
        report.problems.append(f"files of several instances: {told}")


def _check_chain(report: Report) -> None:
    """Does every log begin where the one before it ends, and is there all that the newest snapshot needs?"""
    logs = _files(report, XLOG)
    snaps = _files(report, SNAP)
    for one, two in pairwise(logs):
        _check_neighbours(report, one, two)
    chain = [LogFile(file.path, meta.signature, meta) for file, meta in logs]
    for gap in gaps(chain):
        report.problems.append(f"{gap.path}: {gap.error().message}")
    if snaps:
        _, newest = snaps[-1]
        start = newest.vclock or VClock()
        for gap in gaps(after(chain, start)[:1], start):
            report.problems.append(f"{gap.path}: {gap.error().message}, since the newest snapshot")
    elif logs:
        report.notes.append("no snapshot: these logs alone cannot start an instance")


def _check_neighbours(report: Report, one: tuple[FileReport, Meta], two: tuple[FileReport, Meta]) -> None:
    file, begin = one[0], two[1].vclock or VClock()
    order = file.end.compare(begin)
    if order is Order.EQUAL:
        return
    what = "rows are missing" if order is Order.LESS else "they overlap"
    report.problems.append(f"{file.path}: ends at {file.end}, but the log after it begins at {begin}: {what}")


def _files(report: Report, filetype: str) -> list[tuple[FileReport, Meta]]:
    """Those whose head could be read, in order."""
    return [(file, file.meta) for file in report.files if file.meta is not None and file.meta.filetype == filetype]
