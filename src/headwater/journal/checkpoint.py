"""Snapshots: a picture of all spaces at one vclock, written by a worker while the node goes on
(memtx_engine.cc: memtx_engine_begin_checkpoint and its kin; gc.c: gc_checkpoint).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.journal.batch import prepared_vclock
from headwater.journal.gc import Gc
from headwater.journal.journal import Journal, as_box_error
from headwater.journal.schedule import Schedule
from headwater.journal.settings import Settings
from headwater.journal.snapshot import Fill, SnapshotWriter, SystemRow, fill_from
from headwater.kernels import Memtx, ReadView
from headwater.vclock import VClock
from headwater.world import Worker, World
from headwater.xlog import SNAP, Meta, file_name

log = logging.getLogger("headwater.journal")

SYSTEM_ID_MAX = 511
"""Spaces up to this id make up the schema (schema_def.h, BOX_SYSTEM_ID_MAX)."""
_STEP = 4 << 20
"""Bytes that the worker writes before it comes back: what an ending node waits for at most."""


class Checkpointer:
    """Makes snapshots, one at a time, and removes what they make superfluous."""

    def __init__(
        self,
        world: World,
        memtx: Memtx,
        journal: Journal,
        settings: Settings,
        gc: Gc,
        *,
        instance_uuid: UUID,
        space_ids: Callable[[], Sequence[int]],
        system_rows: Callable[[], Sequence[SystemRow]] = tuple,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`space_ids`: all spaces whose tuples are kept, that is not temporary, in ascending order.
        `before`: waits until nothing is in the store that may still be taken back.
        `system_rows`: raft and queue state, written between the system spaces and the others (2.11.4 and later)."""
        self.in_progress = False
        self._world = world
        self._memtx = memtx
        self._journal = journal
        self._settings = settings
        self._gc = gc
        self._instance_uuid = instance_uuid
        self._space_ids = space_ids
        self._system_rows = system_rows
        self._before = before
        self._worker: Worker | None = None

    async def make(self) -> VClock:
        """A snapshot of now; returns its vclock. If nothing was written since the last one, that one is it. BoxError
        otherwise, and then there is no trace of it on the disk."""
        if self.in_progress:
            raise er(Er.CHECKPOINT_IN_PROGRESS)
        self.in_progress = True
        try:
            vclock = await self._make()
            await self.collect()
        finally:
            self.in_progress = False
        return vclock

    async def _make(self) -> VClock:
        if self._before is not None:
            await self._before()
        # From here to the first await of rotate() nothing else runs: view, vclock and the seam of the log agree.
        views, sources = self._picture()
        vclock = prepared_vclock(self._memtx)
        try:
            await self._journal.rotate()
            tail_size = self._journal.tail_size
            last = self._gc.last_checkpoint
            if last is None or last.vclock != vclock:
                await self._write(vclock, sources)
        finally:
            for view in views:
                view.close()
        self._journal.checkpointed(vclock, tail_size)
        self._gc.add_checkpoint(vclock, self._world.clock.time())
        return vclock

    def _picture(self) -> tuple[list[ReadView], list[Fill]]:
        ids = self._space_ids()
        rows = self._system_rows()
        if not rows:
            view = self._memtx.open_view(ids)
            return [view], [view.fill]
        system = self._memtx.open_view([space_id for space_id in ids if space_id <= SYSTEM_ID_MAX])
        users = self._memtx.open_view([space_id for space_id in ids if space_id > SYSTEM_ID_MAX])
        return [system, users], [system.fill, fill_from(rows), users.fill]

    async def _write(self, vclock: VClock, sources: list[Fill]) -> None:
        path = f"{self._settings.memtx_dir}/{file_name(vclock.signature, SNAP)}"
        meta = Meta(SNAP, self._instance_uuid, vclock)
        writer = SnapshotWriter(self._world.disk, path, meta, sources, self._world.clock.time())
        worker = self._worker = self._worker or self._world.worker("snapshot")
        log.info("saving snapshot '%s'", path)
        finished = False
        try:
            await self._walk(writer, worker)
            await worker.run(writer.finish)
            finished = True
        except (OSError, BoxError) as error:
            failure = as_box_error(error, f"cannot write snapshot '{path}'")
            log.error("%s", failure.message)
            raise failure from None
        finally:
            if not finished:
                # In its queue, so that a step that still runs has ended before the views are closed.
                await worker.run(writer.abandon)
        log.info("snapshot done: %d rows, %d bytes, vclock %s", writer.rows, writer.size, vclock)

    async def _walk(self, writer: SnapshotWriter, worker: Worker) -> None:
        clock = self._world.clock
        began = clock.monotonic()
        while await worker.run(partial(writer.step, self._step())):
            limit = self._settings.snap_io_rate_limit
            ahead = writer.size / (limit * (1 << 20)) - (clock.monotonic() - began) if limit else 0.0
            if ahead > 0:
                await self._world.tasks.sleep(ahead)

    def _step(self) -> int:
        limit = self._settings.snap_io_rate_limit
        return _STEP if not limit else min(_STEP, max(1, int(limit * (1 << 20) / 10)))

    async def collect(self) -> None:
        """Remove snapshots beyond `checkpoint_count`, and the log that only they needed."""
        self._gc.checkpoint_count = self._settings.checkpoint_count
        garbage = self._gc.collect()
        if garbage is None:
            return
        if garbage.snapshots:
            worker = self._worker = self._worker or self._world.worker("snapshot")
            await worker.run(partial(self._unlink, garbage.snapshots))
        await self._journal.collect(garbage.rows)

    def _unlink(self, snapshots: Sequence[VClock]) -> None:
        for vclock in snapshots:
            path = f"{self._settings.memtx_dir}/{file_name(vclock.signature, SNAP)}"
            try:
                self._world.disk.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.error("error while removing %s: %s", path, error)
            else:
                log.info("removed %s", path)

    def backup_files(self, vclock: VClock) -> list[str]:
        """What to copy for a backup from this snapshot; pin it first (`Gc.pin`)."""
        return [f"{self._settings.memtx_dir}/{file_name(vclock.signature, SNAP)}"]


class CheckpointDaemon:
    """Makes snapshots by time and by the size of the log (gc.c, gc_checkpoint_fiber_f)."""

    def __init__(self, world: World, checkpointer: Checkpointer, gc: Gc) -> None:
        self._world = world
        self._checkpointer = checkpointer
        self._gc = gc
        self._schedule = Schedule(world.chance.random)
        self._changed = world.tasks.event()
        self._is_pending = False

    def configure(self, interval: float) -> None:
        """`checkpoint_interval` was set."""
        clock = self._world.clock
        last = self._gc.last_checkpoint
        since = max(0.0, clock.time() - last.timestamp) if last is not None else 0.0
        self._schedule.configure(clock.monotonic(), interval, since)
        self._changed.set()

    def made_by_hand(self) -> None:
        """A snapshot was asked for: count the interval anew, with a new offset (gc_checkpoint)."""
        self._schedule.configure(self._world.clock.monotonic(), self._schedule.interval, 0)
        self._changed.set()

    def trigger(self) -> None:
        """Make one soon (gc_trigger_checkpoint)."""
        if not self._checkpointer.in_progress and not self._is_pending:
            self._is_pending = True
            self._schedule.reset(self._world.clock.monotonic())
            self._changed.set()

    async def run(self) -> None:
        """The fiber."""
        while True:
            if not await self._due():
                continue
            self._is_pending = False
            if not self._checkpointer.in_progress:  # else somebody does it right now
                try:
                    await self._checkpointer.make()
                except BoxError as error:
                    log.error("snapshot failed: %s", error.message)

    async def _due(self) -> bool:
        """Wait for the next moment of the schedule, or for a change of it."""
        if self._is_pending:
            return True
        self._changed.clear()
        timeout = self._schedule.timeout(self._world.clock.monotonic())
        try:
            async with self._world.tasks.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return True
        return self._is_pending
