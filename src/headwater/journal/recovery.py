"""From a directory to a node: the newest snapshot that is whole, then every row of the logs after it
(box.cc, local_recovery; recovery.cc; memtx_engine.cc, memtx_engine_recover_snapshot).

Recovery only reads. What it finds torn at the end of the last log it reports, and the journal cuts it before it
writes. The worker reads, checks and unpacks the next stretch while the loop applies this one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from headwater.errors import BoxError, Er, MsgPackError, SystemError_, XlogError, XlogGapError, er
from headwater.journal.batch import prepared_vclock
from headwater.journal.damage import Tail
from headwater.journal.feed import Feed, Stretch
from headwater.journal.files import Found, find_logs, find_snapshots
from headwater.journal.settings import Settings, WalMode
from headwater.journal.writer import LogEntry, LogWriter, OpenEnd
from headwater.kernels import DuplicateKey, Memtx, frame_rows
from headwater.typing import VCLOCK_MAX
from headwater.vclock import Order, VClock
from headwater.wire.constants import Type
from headwater.wire.xrow import Row, decode_row
from headwater.world import Disk, Worker, World
from headwater.xlog import LogFile, after, gaps, inprogress

log = logging.getLogger("headwater.journal")

ApplyRow = Callable[[Row, bool], None]
"""A row that `Memtx.apply` leaves, and whether it ends its transaction. NOP ends one whose last row is known."""


@dataclass(slots=True)
class Progress:
    """How far recovery has come."""

    path: str = ""
    rows: int = 0
    bytes_done: int = 0
    bytes_total: int = 0


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What the heads of the files tell, before a row is read."""

    instance_uuid: UUID
    vclock: VClock
    """The rows go at least so far."""


@dataclass(slots=True)
class Recovered:
    """What was found."""

    instance_uuid: UUID
    vclock: VClock
    checkpoints: list[LogFile]
    """Snapshots on the disk that can be recovered from, as far as was looked; oldest first."""
    logs: list[LogFile]
    open_end: OpenEnd | None = None
    """The last log has no end marker."""
    append_to: OpenEnd | None = None
    """The last log has no row yet and begins at `vclock`: the journal goes on in it."""
    tail_size: int = 0
    """Bytes of log after the snapshot."""
    rows: int = 0
    discarded: list[str] = field(default_factory=list)
    """Files that are of no use, to be moved out of the way: a snapshot that is damaged, a log without a head."""
    begins_anew: bool = False
    """What is written now does not go on where the last of `logs` ends: it is of a life before a rebootstrap, or its
    end was lost and the snapshot has it."""
    lost: list[str] = field(default_factory=list)
    """Logs behind rows that a power cut took. They must be gone before anything is written; oldest first."""

    @property
    def oldest(self) -> VClock:
        """Rows after this are in logs that lead on to what is written now. A log that does not name the one before it
        begins anew (`begins_anew`)."""
        if self.begins_anew or not self.logs:
            return self.checkpoints[-1].vclock if self.checkpoints else self.vclock
        begin = self.logs[-1]
        for file, before in zip(reversed(self.logs), reversed(self.logs[:-1]), strict=False):
            if file.meta.prev_vclock is None:
                break
            begin = before
        return begin.vclock


class Recovery:
    """One recovery of one directory."""

    def __init__(
        self,
        world: World,
        memtx: Memtx,
        settings: Settings,
        *,
        apply_row: ApplyRow,
        instance_uuid: UUID | None = None,
        snapshot_done: Callable[[], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """`instance_uuid`: what the files must be of, if it is known. `snapshot_done`: called when every row of the
        snapshot is applied. BoxError from `apply_row` ends the recovery, or with `force_recovery` loses that row."""
        self.progress = Progress()
        self._world = world
        self._memtx = memtx
        self._settings = settings
        self._apply_row = apply_row
        self._instance_uuid = instance_uuid
        self._snapshot_done = snapshot_done
        self._tell = progress or (lambda progress: None)
        self._worker: Worker | None = None
        self._snapshots = Found([])
        self._logs = Found([])
        self._force = settings.force_recovery
        self._in_transaction = False
        """The rows so far end in the middle of a transaction, of which `apply_row` has got some."""
        self._last_row = 0
        """LSN of the row looked at last, for messages."""

    async def look(self) -> Whereabouts | None:
        """Whose files these are, and how far they go at least. None if there is nothing to recover: no snapshot, no
        log."""
        self._worker = self._worker or self._world.worker("recovery")
        try:
            return await self._look(self._worker)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise self._unreadable(error) from None
            raise

    async def _look(self, worker: Worker) -> Whereabouts | None:
        disk, settings = self._world.disk, self._settings
        snapshots = await worker.run(lambda: find_snapshots(disk, settings.memtx_dir, self._force))
        newest = snapshots.newest
        if newest is None:
            if await worker.run(lambda: find_logs(disk, settings.wal_dir, None, self._force).files):
                raise er(Er.MISSING_SNAPSHOT)
            self._close()
            return None
        uuid = self._check_uuid(newest)
        self._snapshots = snapshots
        self._logs = await worker.run(lambda: find_logs(disk, settings.wal_dir, uuid, self._force))
        needed = after(self._logs.files, newest.vclock)
        last = needed[-1].vclock if needed and needed[-1].signature > newest.signature else newest.vclock
        return Whereabouts(uuid, last)

    async def run(self) -> Recovered | None:
        """None if there is nothing to recover."""
        undo, self._memtx.undo_enabled = self._memtx.undo_enabled, False
        rows, self._memtx.rows_enabled = self._memtx.rows_enabled, False
        try:
            if self._snapshots.newest is None and await self.look() is None:
                return None
            assert self._worker is not None
            return await self._run(self._worker)
        except OSError as error:
            raise self._unreadable(error) from None
        finally:
            self._memtx.undo_enabled = undo
            self._memtx.rows_enabled = rows
            self._close()

    def _unreadable(self, error: OSError) -> SystemError_:
        return SystemError_.of(f"recovery: cannot read '{error.filename or self.progress.path}'", error)

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    async def _run(self, worker: Worker) -> Recovered:
        found, logs = self._snapshots, self._logs
        assert found.newest is not None
        uuid = found.newest.meta.instance_uuid
        needed = list(after(logs.files, found.newest.vclock))
        self._check_chain(found.newest, needed)
        self._count_bytes(self._world.disk, [found.newest, *needed])
        log.info("recovery start: instance uuid %s", uuid)
        await self._snapshot(worker, found.newest)
        recovered = Recovered(uuid, found.newest.vclock, found.files, logs.files)
        recovered.discarded = found.discarded + logs.discarded
        for number, file in enumerate(needed):
            if not await self._log(worker, file, needed[number + 1 :], recovered):
                break
        self._finish(recovered)
        return recovered

    def _check_uuid(self, snapshot: LogFile) -> UUID:
        """The newest snapshot says who we are (box.cc, local_recovery)."""
        found = snapshot.meta.instance_uuid
        if self._instance_uuid is not None and found != self._instance_uuid:
            raise er(Er.INSTANCE_UUID_MISMATCH, str(self._instance_uuid), str(found))
        return found

    def _check_chain(self, snapshot: LogFile, logs: list[LogFile]) -> None:
        """Does each log follow the one before it, and the first one the snapshot (recovery_open_log)?"""
        for gap in gaps(logs, snapshot.vclock):
            if not self._force:
                raise gap.error()
            log.warning("%s: ignoring a gap in LSN", gap.error().message)

    def _count_bytes(self, disk: Disk, files: list[LogFile]) -> None:
        for found in files:
            file = disk.open(found.path)
            self.progress.bytes_total += file.size()
            file.close()

    # ---- files

    async def _snapshot(self, worker: Worker, snapshot: LogFile) -> None:
        log.info("recovering from '%s'", snapshot.path)
        feed = Feed(self._world.disk, snapshot.path, force=self._force, is_log=False)
        while (stretch := await feed.next(worker)) is not None:
            self._apply(stretch, is_snapshot=True)
            await self._breathe(stretch)
        if not feed.eof:
            # Only with force_recovery: find_snapshots lets no other through.
            log.error("snapshot '%s' has no EOF marker", snapshot.path)
        if self.progress.rows == 0:
            raise er(Er.MISSING_SYSTEM_SPACES)
        for replica_id in range(VCLOCK_MAX):
            self._memtx.set_lsn(replica_id, snapshot.vclock.get(replica_id))
        if self._snapshot_done is not None:
            self._snapshot_done()

    async def _log(self, worker: Worker, file: LogFile, following: list[LogFile], recovered: Recovered) -> bool:
        """Apply one log. False if those behind it must not be."""
        log.info("recover from '%s'", file.path)
        self._promote(file)
        ordered = self._settings.wal_mode is WalMode.FSYNC
        feed = Feed(self._world.disk, file.path, force=self._force, ordered=ordered)
        begins_before = file.signature < recovered.vclock.signature
        reached = file.vclock.as_dict() if begins_before else None
        while (stretch := await feed.next(worker)) is not None:
            if reached is not None:
                _follow(reached, stretch.rows)
            self._apply(stretch, is_snapshot=False)
            await self._breathe(stretch)
        recovered.tail_size += feed.size
        if following and self._leads_to(feed, following[0]):
            return True
        if reached is not None and not VClock(reached).covers(recovered.vclock):
            # Rows between its end and the snapshot came with a join, or their blocks were lost.
            recovered.begins_anew = True
        self._check_end(feed)
        if following:
            self._set_aside(feed, following, recovered)
        self._note_end(file, feed, recovered)
        return False

    def _check_end(self, feed: Feed) -> None:
        """Nothing comes behind this log: what is wrong with its end is cut off, or refused."""
        if feed.bad is None:
            return
        if feed.tail is Tail.REFUSE and not self._force:
            raise feed.bad
        log.warning(
            "%s: the last %d bytes are cut off; the writer was stopped, or the power cut, before they were on the disk",
            feed.bad.message,
            feed.size - feed.good_size,
        )

    def _note_end(self, file: LogFile, feed: Feed, recovered: Recovered) -> None:
        end = OpenEnd(file.path, feed.good_size)
        if feed.is_empty and file.vclock == prepared_vclock(self._memtx):
            recovered.append_to = end
        elif feed.eof:
            log.info("done '%s'", file.path)
        else:
            log.warning("file '%s' wasn't correctly closed", file.path)
            recovered.open_end = end

    def _promote(self, file: LogFile) -> None:
        """A log may begin after the last row of the one before it: that one ended with rows that were never written
        (recovery_open_log)."""
        for replica_id, lsn in file.vclock.items():
            if lsn > self._memtx.vclock[replica_id]:
                self._memtx.set_lsn(replica_id, lsn)

    def _leads_to(self, feed: Feed, following: LogFile) -> bool:
        """Does the next log go on where this one has ended? False if a power cut took what lay between them, and the
        next one is to be set aside; XlogError if something else did."""
        reached = prepared_vclock(self._memtx)
        order = reached.compare(following.vclock)
        if order is Order.EQUAL or (feed.eof and order is Order.LESS):
            if feed.bad is not None:
                log.warning("%s: no row is missing", feed.bad.message)
            return True
        lost_by_power = order is Order.LESS and feed.tail is Tail.CUT and self._settings.wal_mode is not WalMode.FSYNC
        if lost_by_power and not self._force:
            return False
        error = self._misfit(feed, order, reached, following)
        if not self._force:
            raise error
        log.warning("%s: ignored, because force_recovery is set", error.message)
        return True

    def _misfit(self, feed: Feed, order: Order, reached: VClock, following: LogFile) -> XlogError:
        if order is not Order.LESS:
            words = f"rows up to {reached} lie behind the beginning of '{following.path}' at {following.vclock}"
            return XlogError(words, path=feed.path)
        if feed.bad is not None and feed.tail is Tail.REFUSE:
            return feed.bad
        gap = XlogGapError.between(reached.signature, str(reached), following.vclock.signature, str(following.vclock))
        gap.cause = feed.bad
        return gap

    def _set_aside(self, feed: Feed, following: list[LogFile], recovered: Recovered) -> None:
        log.error(
            "'%s' ends at vclock %s, but '%s' begins at %s: the power was cut before the rows between them were on the "
            "disk (wal_mode is not fsync). This node goes on from the former; %d later logs are renamed to .lost",
            feed.path,
            prepared_vclock(self._memtx),
            following[0].path,
            following[0].vclock,
            len(following),
        )
        recovered.lost = [file.path for file in following]
        recovered.logs = [file for file in recovered.logs if file.path not in recovered.lost]

    def _finish(self, recovered: Recovered) -> None:
        if self._in_transaction:
            error = XlogError("found a not finished transaction in the log", path=self.progress.path)
            if not self._force:
                raise error
            log.error("%s", error.message)
        recovered.vclock = prepared_vclock(self._memtx)
        recovered.rows = self.progress.rows
        log.info("recovered %d rows, vclock %s", recovered.rows, recovered.vclock)

    async def _breathe(self, stretch: Stretch) -> None:
        """Let the loop turn, and tell how far we are."""
        before = self.progress.rows // 1_000_000
        self.progress.path = stretch.path
        self.progress.bytes_done += stretch.stored
        self.progress.rows += stretch.count
        if self.progress.rows // 1_000_000 > before:
            log.info("%.1fM rows processed", self.progress.rows / 1e6)
        self._tell(self.progress)
        await self._world.tasks.sleep(0)

    # ---- rows

    def _apply(self, stretch: Stretch, *, is_snapshot: bool) -> None:
        data, end = stretch.rows, len(stretch.rows)
        memtx = self._memtx
        at = 0
        while at < end:
            if not self._in_transaction:
                try:
                    at, count = memtx.apply(data, at, end, is_snapshot)
                except DuplicateKey as error:
                    at = self._duplicate(stretch, error)
                    continue
                stretch.count += count
                if at >= end:
                    return
            at = self._apply_one(stretch, at, is_snapshot=is_snapshot)

    def _apply_one(self, stretch: Stretch, at: int, *, is_snapshot: bool) -> int:
        """The row at `at` goes to `apply_row`, unless it is known."""
        row, after_row = self._decode(stretch, at)
        stretch.count += 1
        self._last_row = row.lsn
        if not is_snapshot and row.lsn <= self._memtx.vclock[row.replica_id]:
            if self._in_transaction and row.is_commit:
                self._in_transaction = False
                nop = Row(Type.NOP, row.replica_id, row.group_id, row.lsn, row.timestamp, row.tsn, row.flags)
                self._apply_row(nop, True)
            return after_row
        if not is_snapshot:
            self._memtx.set_lsn(row.replica_id, row.lsn)
        self._in_transaction = not is_snapshot and not row.is_commit
        try:
            self._apply_row(row, is_snapshot or row.is_commit)
        except BoxError as error:
            self._failed(stretch.path, stretch.offset_of(at), row, error)
        return after_row

    def _decode(self, stretch: Stretch, at: int) -> tuple[Row, int]:
        try:
            row, after_row = decode_row(stretch.rows, at)
            if not 0 <= row.replica_id < VCLOCK_MAX:
                raise er(Er.PROTOCOL, f"replica id {row.replica_id} is out of range")
        except BoxError as error:
            words = f"can't parse row: {error.message}"
            raise XlogError(words, path=stretch.path, offset=stretch.offset_of(at), lsn=self._last_row) from None
        return row, after_row

    def _duplicate(self, stretch: Stretch, error: DuplicateKey) -> int:
        """A row that inserts what is there. Returns the offset after it, with force_recovery."""
        row, after_row = self._decode(stretch, error.offset)
        stretch.count += error.rows + 1
        duplicate = BoxError(Er.TUPLE_FOUND, f"Duplicate key exists in unique index {error.index_id}")
        self._failed(stretch.path, stretch.offset_of(error.offset), row, duplicate)
        if row.lsn > self._memtx.vclock[row.replica_id]:
            self._memtx.set_lsn(row.replica_id, row.lsn)
        return after_row

    def _failed(self, path: str, offset: int, row: Row, error: BoxError) -> None:
        """A good row that the node refuses."""
        where = XlogError(f"row {{{row.replica_id}: {row.lsn}}} was refused: {error.message}", path=path, offset=offset)
        where.cause = error
        if not self._force:
            raise where from error
        log.error("%s; skipped, because force_recovery is set", where.message)


def _follow(reached: dict[int, int], rows: bytes) -> None:
    """Where rows lead to, those that the snapshot has, too. What is wrong with them is told when they are applied."""
    with contextlib.suppress(MsgPackError):
        for replica_id, lsn in frame_rows(rows).last:
            reached[replica_id] = max(reached.get(replica_id, 0), lsn)


def open_writer(disk: Disk, settings: Settings, recovered: Recovered) -> LogWriter | None:
    """The writer that goes on where recovery ended, with what is of no use out of its way. None for wal_mode none.
    A disk that takes no write now does not stop the node: writes fail until it does. Only where logs have to be set
    aside and cannot be, it is SystemError_."""
    _tidy(disk, settings, recovered)
    try:
        _set_aside(disk, settings.wal_dir, recovered.lost)
    except OSError as error:
        raise SystemError_.of(f"cannot rename '{error.filename}'", error) from None
    if settings.wal_mode is WalMode.NONE:
        return None
    writer = LogWriter(
        disk,
        settings.wal_dir,
        recovered.instance_uuid,
        vclock=recovered.vclock,
        files=[LogEntry(file.path, file.vclock) for file in recovered.logs],
        open_end=recovered.open_end,
        append_to=recovered.append_to,
        begins_anew=recovered.begins_anew,
        sync=settings.wal_mode is WalMode.FSYNC,
        max_size=settings.wal_max_size,
    )
    if recovered.checkpoints:
        writer.covers_checkpoint(recovered.checkpoints[-1].vclock)
    return writer


def _tidy(disk: Disk, settings: Settings, recovered: Recovered) -> None:
    for directory in dict.fromkeys((settings.wal_dir, settings.memtx_dir)):
        for path in inprogress(disk, directory):
            _try(lambda path=path: disk.unlink(path), f"removed {path}")  # type: ignore[misc]
    for path in recovered.discarded:
        _try(lambda path=path: disk.rename(path, path + ".corrupted"), f"renaming corrupted {path}")  # type: ignore[misc]


def _set_aside(disk: Disk, directory: str, lost: list[str]) -> None:
    """The last one first, each for certain before the next: what is left over follows on the one before it."""
    for path in reversed(lost):
        disk.rename(path, path + ".lost")
        disk.sync_dir(directory)


def _try(call: Callable[[], None], words: str) -> None:
    try:
        call()
        log.warning("%s", words)
    except OSError as error:
        log.error("%s: failed: %s", words, error)
