"""The journal: order, group commit, and what happens when a write fails.

Whoever has changed something asks `settle(waiter)`. Once a turn everything prepared since goes to the writer as one
batch, while the next one gathers. A batch that comes back written is final: its undo is forgotten and its waiters are
told, in order. One that failed takes along everything prepared after it, because that has seen what it did: undone
newest first, LSNs back to the last written, waiters told in order (wal.c: tx_complete_batch, tx_complete_rollback).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from headwater.errors import BoxError, Er, SystemError_, XlogError, er
from headwater.journal.batch import Batch, Waiter, vclock_of
from headwater.journal.gc import Gc
from headwater.journal.settings import Settings, WalMode
from headwater.journal.writer import LogEntry, LogWriter, Written
from headwater.kernels import Memtx
from headwater.typing import VCLOCK_MAX
from headwater.vclock import VClock
from headwater.world import Event, Worker, World
from headwater.xlog.format import CUT_APART

log = logging.getLogger("headwater.journal")

_DEPTH = {WalMode.NONE: 1, WalMode.WRITE: 2, WalMode.FSYNC: 1}
"""Batches handed to the writer at once. Beside one that waits for the disk the next should gather all it can; beside
one that only waits for the page cache, the writer should not run dry."""


class Journal:
    """One node's journal, seen from the loop."""

    def __init__(self, world: World, memtx: Memtx, settings: Settings, gc: Gc) -> None:
        self.errors = 0
        """Batches that could not be written so far (event `box.wal_error`)."""
        self.tail_size = 0
        """Bytes of log since the last snapshot."""
        self.on_written: list[Callable[[Batch], object]] = []
        """Called for each written batch, before its waiters: relays."""
        self.on_rollback: list[Callable[[], object]] = []
        """Called after an undo, before the waiters: transactions that read what is gone, events, watchers."""
        self.on_threshold: Callable[[], object] | None = None
        """The log has grown beyond `checkpoint_wal_threshold`."""
        self.hold: Callable[[], int | None] = lambda: None
        """Undo from this position on is kept, although its rows are written: synchronous transactions that wait for
        their quorum. None: nothing waits."""
        self._world = world
        self._memtx = memtx
        self._settings = settings
        self._gc = gc
        self._lsns: Sequence[int] = memtx.vclock
        """Everything up to here is written, by replica id."""
        self._writer: LogWriter | None = None
        """None with wal_mode none: nothing is written, everything is final at once."""
        self._worker: Worker | None = None
        self._in_flight: deque[Batch] = deque()
        self._in_flight_bytes = 0
        self._waiters: list[Waiter] = []
        """Of the batch that gathers."""
        self._prepared_end = memtx.undo_end
        """Undo position after the newest batch."""
        self._written_end = memtx.undo_end
        """Undo position after the newest batch that is written."""
        self._flush_is_due = False
        self._room_waiters: list[Callable[[], object]] = []
        self._threshold_told = False
        self._closed = False

    @property
    def vclock(self) -> VClock:
        """Everything up to here is written."""
        return vclock_of(self._lsns)

    def open(self, writer: LogWriter | None, *, tail_size: int = 0) -> None:
        """Begin to write with what recovery has found; None for wal_mode none."""
        self._writer = writer
        self._memtx.rows_enabled = writer is not None
        self._memtx.undo_enabled = True
        self._lsns = self._memtx.vclock
        self._prepared_end = self._written_end = self._memtx.undo_end
        self.tail_size = tail_size
        self.place = None if writer is None else writer.first_place
        if writer is not None:
            self._worker = self._world.worker("wal")

    async def close(self) -> None:
        """Write what is pending, then close the file with an end marker."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.sync()
        except BoxError as error:
            log.error("journal: the last changes are not written: %s", error.message)
        if self._worker is not None and self._writer is not None:
            await self._worker.run(self._writer.close)
            self._worker.close()

    # ---- waiting for what is pending

    def settle(self, waiter: Waiter) -> None:
        """Call `waiter(None)` once everything prepared up to now is written, at once if it is; `waiter(error)` with
        ER_WAL_IO or ER_CASCADE_ROLLBACK if it was undone instead. The rows of a transaction must all be there."""
        if not self._in_flight and not self._waiters and not self._memtx.rows_pending:
            self._confirm_quietly()
            waiter(None)
            return
        self._waiters.append(waiter)
        self._flush_soon()

    async def sync(self) -> None:
        """Wait until everything prepared is written; raises what a waiter would be told."""
        settled: Event = self._world.tasks.event()
        answer: list[BoxError | None] = []

        def told(error: BoxError | None) -> None:
            answer.append(error)
            settled.set()

        self.settle(told)
        await settled.wait()
        if answer[0] is not None:
            raise answer[0]

    # ---- what waits for a quorum

    def release(self) -> None:
        """`hold` has moved."""
        held = self.hold()
        self._memtx.confirm_to(self._written_end if held is None else min(held, self._written_end))

    def take_back(self, position: int) -> None:
        """A quorum was not reached: undo everything from here on. It is all written; its rows and LSNs stay."""
        assert not self._in_flight, "what is undone must be written"
        assert not self._memtx.rows_pending, "what is undone must be written"
        self._memtx.rollback_to(position)
        self._prepared_end = self._written_end = self._memtx.undo_end

    # ---- back-pressure

    @property
    def queued(self) -> int:
        """Bytes of rows that are not written yet."""
        return self._in_flight_bytes + self._memtx.rows_pending

    @property
    def full(self) -> bool:
        """More is queued than `wal_queue_max_size`: sources should stop reading until `when_room` calls."""
        limit = self._settings.wal_queue_max_size
        return 0 < limit <= self.queued

    def when_room(self, call: Callable[[], object]) -> None:
        """Call once when not `full`, at once if so."""
        if self.full:
            self._room_waiters.append(call)
        else:
            call()

    # ---- writing

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._world.tasks.soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if len(self._in_flight) < _DEPTH[self._settings.wal_mode]:
            self._submit()

    def _submit(self) -> None:
        """Hand over what has gathered, as one batch."""
        memtx = self._memtx
        if not memtx.rows_pending:
            self._attach()
            return
        assert self._writer is not None, "rows are made while there is no journal"
        assert self._worker is not None
        rows, ends, count = memtx.take_rows(CUT_APART)
        waiters, self._waiters = self._waiters, []
        batch = Batch(
            rows,
            ends,
            count,
            memtx.vclock,
            self._prepared_end,
            memtx.undo_end,
            self._world.clock.monotonic(),
            waiters,
        )
        self._prepared_end = batch.undo_end
        self._in_flight.append(batch)
        self._in_flight_bytes += len(rows)
        self._worker.submit(
            partial(self._writer.write, rows, ends, batch.lsns),
            partial(self._completed, batch),
        )

    def _attach(self) -> None:
        """There are no rows to write: waiters, and changes that have none (temporary spaces), go with the last batch
        in flight, or are final if there is none."""
        waiters, self._waiters = self._waiters, []
        if self._in_flight:
            last = self._in_flight[-1]
            last.undo_end = self._prepared_end = self._memtx.undo_end
            last.waiters += waiters
        else:
            self._confirm_quietly()
            self._tell(waiters, None)

    def _confirm_quietly(self) -> None:
        self._prepared_end = self._written_end = self._memtx.undo_end
        self.release()
        if self._writer is None:
            self._lsns = self._memtx.vclock

    # ---- what comes back

    def _completed(self, batch: Batch, written: Written | None, error: BaseException | None) -> None:
        if batch.dead:
            return
        if error is not None or written is None:
            self._failed(batch, error)
        else:
            self._written(batch, written)
        if self._waiters or self._memtx.rows_pending:
            self._flush()
        self._tell_room()

    def _written(self, batch: Batch, written: Written) -> None:
        assert self._in_flight[0] is batch
        self._in_flight.popleft()
        self._in_flight_bytes -= len(batch.rows)
        self._lsns = batch.lsns
        self.tail_size += written.size
        self.place = batch.place = written.place
        self._written_end = batch.undo_end
        self.release()
        assert self._writer is not None
        if (removed := self._writer.take_removed()) is not None:
            self._rows_removed(removed)
        self._watch_time(batch)
        for call in self.on_written:
            call(batch)
        self._watch_threshold()
        self._tell(batch.waiters, None)

    def _failed(self, batch: Batch, error: BaseException | None) -> None:
        """Undo this batch and everything after it, newest first; then tell everybody, oldest first."""
        assert self._in_flight[0] is batch
        assert self._writer is not None
        assert self._worker is not None
        self.errors += 1
        log.error(
            "journal: cannot write %d rows after vclock %s: %s. They are undone, and whoever sent them is told",
            batch.count,
            self.vclock,
            error,
        )
        doomed = list(self._in_flight)
        self._in_flight.clear()
        self._in_flight_bytes = 0
        gathering, self._waiters = self._waiters, []
        self._undo(batch.undo_begin)
        for other in doomed:
            other.dead = True
        self._worker.submit(self._writer.resume, lambda result, error: None)
        for call in self.on_rollback:
            call()
        self._tell(batch.waiters, er(Er.WAL_IO))
        for other in doomed[1:]:
            self._tell(other.waiters, er(Er.CASCADE_ROLLBACK))
        self._tell(gathering, er(Er.CASCADE_ROLLBACK))

    def _undo(self, position: int) -> None:
        memtx = self._memtx
        memtx.take_rows()
        memtx.rollback_to(position)
        self._prepared_end = memtx.undo_end
        for replica_id in range(VCLOCK_MAX):
            memtx.set_lsn(replica_id, self._lsns[replica_id])

    def _tell(self, waiters: list[Waiter], error: BoxError | None) -> None:
        for waiter in waiters:
            try:
                waiter(error)
            except Exception as raised:
                log.error("journal: who waited for a write failed", exc_info=raised)

    def _tell_room(self) -> None:
        if self._room_waiters and not self.full:
            waiting, self._room_waiters = self._room_waiters, []
            for call in waiting:
                call()

    def _rows_removed(self, vclock: VClock) -> None:
        for consumer in self._gc.forced_to(vclock):
            log.critical("deactivated WAL consumer %s at %s", consumer.name, consumer.vclock)

    def _watch_time(self, batch: Batch) -> None:
        took = self._world.clock.monotonic() - batch.started
        if took > self._settings.too_long_threshold:
            log.warning("too long WAL write: %d rows at LSN %d: %.3f sec", batch.count, batch.vclock.signature, took)

    def _watch_threshold(self) -> None:
        if self.tail_size > self._settings.checkpoint_wal_threshold and not self._threshold_told:
            self._threshold_told = True
            if self.on_threshold is not None:
                log.info("WAL threshold exceeded, triggering checkpoint")
                self.on_threshold()

    # ---- snapshots and old files

    async def rotate(self) -> VClock:
        """Write everything prepared before the first await of this call, then close the file, so that the next row
        begins a new one. Returns the vclock at the seam. BoxError if something could not be written: what was
        prepared is undone then."""
        if self._writer is None or self._worker is None:
            self._confirm_quietly()
            return self.vclock
        self._submit()
        try:
            return await self._worker.run(self._writer.rotate)
        except OSError as error:
            raise SystemError_.of("cannot close the log file", error) from None

    def checkpointed(self, vclock: VClock, tail_size: int) -> None:
        """There is a snapshot now, begun when `tail_size` was that (wal_commit_checkpoint_f)."""
        self.tail_size -= tail_size
        self._threshold_told = False
        if self._writer is not None and self._worker is not None:
            self._worker.submit(partial(self._writer.covers_checkpoint, vclock), lambda result, error: None)

    async def collect(self, needed: VClock) -> list[str]:
        """Remove log files without rows after `needed`."""
        if self._writer is None or self._worker is None:
            return []
        return await self._worker.run(partial(self._writer.collect, needed))

    def files_between(self, begin: VClock, end: VClock) -> list[str]:
        """Paths of the log files that hold rows after `begin`, up to those that begin at `end`; oldest first."""
        if self._writer is None:
            return []
        files = self._writer.files
        return [
            file.path
            for place, file in enumerate(files)
            if file.vclock != end
            if not (place + 1 < len(files) and begin.covers(files[place + 1].vclock))
        ]

    def files(self) -> list[str]:
        """Paths of the log files in the directory, oldest first, the open one last."""
        return [entry.path for entry in self.entries]

    @property
    def entries(self) -> tuple[LogEntry, ...]:
        """The log files in the directory with the vclocks at which they begin, oldest first. The newest may have come
        a moment before the first of its rows is known to be written."""
        return () if self._writer is None else self._writer.files

    @property
    def is_written(self) -> bool:
        """Is there a log (wal_mode is not none)?"""
        return self._writer is not None


def as_box_error(error: BaseException, doing: str) -> BoxError:
    """What a client is told of an error of the disk."""
    if isinstance(error, BoxError):
        return error
    if isinstance(error, OSError):
        return SystemError_.of(doing, error)
    return XlogError(f"{doing}: {error}")
