"""The driver's side of a stream, as long as the query lives: feeders, offsets, batches.

Spark asks one thing after the other: how far a batch goes, what is in it; and says when an earlier one is done for
good. After a restart it asks for the last batch again, by the offsets in its checkpoint, of an object that has seen
nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

from headwater.pipeline.errors import OptionError
from headwater.pipeline.feeder import Feeder, Limits
from headwater.pipeline.history import History
from headwater.pipeline.lease import Lease
from headwater.pipeline.members import Members
from headwater.pipeline.offsets import Offset, Phase, Position, VClockMap, covers, shared, stream_position
from headwater.pipeline.pieces import Limit, Piece
from headwater.pipeline.probe import Probe, meet_all
from headwater.pipeline.ship import Load, Shipper, StreamPart
from headwater.pipeline.startpoint import StartPoint
from headwater.pipeline.streamoptions import From, StreamOptions


class Stream:
    """Made when it is first asked; nothing of it is ever pickled."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._history = History(options.space)
        self._news = threading.Condition()
        self._feeders: dict[UUID, Feeder] = {}
        self._members: dict[UUID, Members] = {}
        self._lease: Lease | None = None
        self._shipper: Shipper | None = None
        self._known: tuple[str, ...] = ()
        self._plans: list[_Plan] = []
        """The last one, and those before it that are not committed yet."""
        self._targets: dict[UUID, VClockMap] | None = None
        """Of a query that ends when it has what there is now."""
        self._probe = Probe()
        self._turn = 0

    # ---- what Spark asks ------------------------------------------------------------------------------

    def initial(self) -> Offset:
        """Where a new query begins."""
        uuid = self._options.replica_uuid or uuid4()
        members = meet_all(self._options.sets, uuid, 0.0)
        return Offset.of(StartPoint(each, self._history, self._options.start).find() for each in members.values())

    def prepare(self) -> None:
        """The query ends when it has what there is now."""
        members = meet_all(self._options.sets, uuid4(), self._options.reconnect_timeout)
        self._targets = {replicaset: shared(each.latest()) for replicaset, each in members.items()}

    def latest(self, start: Offset, rows: int, size: int) -> Offset:
        """The end of a batch that begins at `start`, as soon as there is anything; `start` if nothing came in time."""
        start = self._own(start)
        self._begin(start)
        missing = [replicaset for replicaset in self._members if replicaset not in start.positions]
        if missing:
            return self._widen(start, missing)
        deadline = time.monotonic() + self._options.poll_timeout
        with self._news:
            while True:
                end = self._reach(start, rows, size)
                if end is not None:
                    return end
                for feeder in self._feeders.values():
                    feeder.check()
                left = deadline - time.monotonic()
                if self._targets is None and left <= 0:
                    return start
                if self._targets is not None and self._is_done(start):
                    return start
                self._news.wait(left if self._targets is None else self._options.poll_timeout)

    def plan(self, start: Offset, end: Offset) -> list[StreamPart]:
        """The rows between two offsets, parted."""
        for plan in self._plans:
            if plan.is_of(start, end):
                return plan.parts
        own_start, own_end = self._own(start), self._own(end)
        self._begin(Offset.of(_origin(own_start.get(end.replicaset), end) for end in own_end), own_end)
        assert self._shipper is not None
        ranges = [
            (own_start.positions[replicaset], position)
            for replicaset, position in own_end.positions.items()
            if replicaset in own_start.positions and own_start.positions[replicaset] != position
        ]
        voids = [
            StreamPart(str(high.replicaset), high.schema, is_truncate=True)
            for low, high in ranges
            if high.attempt > low.attempt
        ]
        loads = (load for low, high in ranges if (load := self._load(low, high)) is not None)
        parts = voids + [replace(part, known=self._known) for part in self._shipper.ship(loads)]
        self._plans.append(_Plan(start, end, parts, self._shipper.taken_files()))
        return parts

    def commit(self, end: Offset) -> None:
        """Spark has everything up to here for good."""
        with self._news:
            for position in end:
                feeder = self._feeders.get(position.replicaset)
                if feeder is not None:
                    feeder.commit(position)
        at = next((at for at, plan in enumerate(self._plans) if plan.end == end.to_json()), -1)
        if self._shipper is not None:
            for plan in self._plans[: at + 1]:
                self._shipper.forget(plan.files)
        del self._plans[: at + 1]

    def report(self) -> Offset | None:
        """Where the servers are."""
        if not self._feeders:
            return None
        return Offset.of(
            self._probe.position(self._members[replicaset], feeder.seen) for replicaset, feeder in self._feeders.items()
        )

    def stop(self) -> None:
        for feeder in self._feeders.values():
            feeder.stop()
        self._feeders = {}
        self._probe.close()
        if self._shipper is not None:
            self._shipper.forget(path for plan in self._plans for path in plan.files)
        self._plans = []
        if self._lease is not None:
            self._lease.release()

    # ---- beginning ------------------------------------------------------------------------------------

    def _own(self, offset: Offset) -> Offset:
        uuid = self._options.replica_uuid
        return offset if uuid is None else Offset.of(replace(position, uuid=uuid) for position in offset)

    def _begin(self, offset: Offset, end: Offset | None = None) -> None:
        """Feeders for all sets of an offset, if there are none yet."""
        if self._feeders:
            return
        options = self._options
        uuid = next(iter(offset)).uuid if offset.positions else options.replica_uuid or uuid4()
        lease = Lease(options.spool_dir, uuid)
        lease.acquire(options.lease_timeout)
        self._lease = lease
        self._members = meet_all(options.sets, uuid, options.reconnect_timeout)
        if options.space is not None:
            self._known = self._probe.fields(next(iter(self._members.values())), options.space)
        for position in offset:
            if position.replicaset not in self._members:
                raise OptionError(
                    f"The checkpoint of this query follows the replica set {position.replicaset}, and none of the "
                    f"hosts {options.sets} belongs to it. Name its members in the option 'hosts', or begin with "
                    "another checkpointLocation."
                )
        self._shipper = Shipper(lease.directory, self._history, options.ship, options.min_partitions)
        for position in offset:
            self._feed(position, None if end is None else end.get(position.replicaset))

    def _feed(self, position: Position, end: Position | None = None) -> Feeder:
        options = self._options
        assert self._lease is not None
        limits = Limits(
            options.max_buffer,
            options.max_rows,
            options.max_bytes,
            options.reconnect_timeout,
            options.lease_timeout,
            options.fail_on_data_loss,
            options.start.kind is From.SNAPSHOT,
        )
        directory = self._lease.directory / str(position.replicaset)
        feeder = Feeder(self._members[position.replicaset], self._history, limits, directory, self._news)
        if end is not None and end.phase is Phase.SNAPSHOT:
            feeder.cut_at = end.row
        self._feeders[position.replicaset] = feeder
        with self._news:
            feeder.start(position)
        return feeder

    def _widen(self, start: Offset, replicasets: list[UUID]) -> Offset:
        """Sets that the checkpoint does not know yet: their first position, and no rows."""
        for replicaset in replicasets:
            position = StartPoint(self._members[replicaset], self._history, self._options.start).find()
            self._feed(position)
            start = start.put(position)
        return start

    # ---- how far --------------------------------------------------------------------------------------

    def _reach(self, start: Offset, rows: int, size: int) -> Offset | None:
        """In turn, lest one set takes all that a batch may have. With the lock held."""
        limit = Limit(rows, size)
        end = start
        order = list(self._feeders.items())
        self._turn = (self._turn + 1) % len(order)
        for replicaset, feeder in order[self._turn :] + order[: self._turn]:
            target = None if self._targets is None else self._targets.get(replicaset, {})
            position = start.positions[replicaset]
            reached = feeder.pieces.reach(position, limit, target)
            if reached != position:
                end = end.put(reached)
        return None if end is start else end

    def _is_done(self, start: Offset) -> bool:
        return all(self._is_at(feeder, start.positions[replicaset]) for replicaset, feeder in self._feeders.items())

    def _is_at(self, feeder: Feeder, position: Position) -> bool:
        """Has it what there was when the query started? What waits for a quorum may wait for ever."""
        target = (self._targets or {}).get(position.replicaset, {})
        if position.phase is not Phase.STREAM or feeder.pieces.run_after(position):
            return False
        return covers(position.vclock, target) or (feeder.pending > 0 and covers(feeder.seen, target))

    # ---- what is in it --------------------------------------------------------------------------------

    def _load(self, low: Position, high: Position) -> Load | None:
        feeder = self._feeders[high.replicaset]
        name = str(high.replicaset)
        if high.phase is Phase.STREAM:
            begin, end = shared(low.vclock), shared(high.vclock)
            if begin == end:
                return None
            if not covers(begin, feeder.pieces.dropped_to):
                feeder.stop()
                feeder = self._feed(low)
            return Load(name, low.schema, self._changes(feeder, begin, high), begin, end)
        run = feeder.pieces.run
        if run is None or not run.is_of(high):
            return None  # The snapshot is lost: another one follows, and says that this one is void.
        first = low.row if run.is_of(low) else 0
        rows = self._rows(feeder, first, high)
        return Load(name, high.schema, rows, is_snapshot=True, is_numbered=run.is_numbered)

    def _changes(self, feeder: Feeder, begin: VClockMap, high: Position) -> Iterator[Piece]:
        """Of the stream, as they come; memory is free again behind each."""
        kept: list[Piece] = []
        while True:
            with self._news:
                is_whole = feeder.pieces.has(high.vclock)
                found = [
                    piece
                    for piece in feeder.pieces.between(begin, high.vclock)
                    if not any(piece is each for each in kept)
                ]
                if not found and not is_whole:
                    if feeder.pieces.run_after(high):
                        return
                    feeder.check()
                    self._news.wait(self._options.poll_timeout)
            yield from found
            with self._news:
                feeder.pieces.drop(found, high.vclock)
                self._news.notify_all()
            if is_whole:
                return
            kept += [piece for piece in found if not covers(high.vclock, piece.end)]

    def _rows(self, feeder: Feeder, first: int, high: Position) -> Iterator[Piece]:
        """Of the snapshot."""
        at = first
        while at < high.row:
            with self._news:
                run = feeder.pieces.run
                if run is None or not run.is_of(high):
                    return
                found = feeder.pieces.rows(at, high.row)
                if not found:
                    feeder.check()
                    self._news.wait(self._options.poll_timeout)
                    continue
            yield from found
            at = found[-1].next
            with self._news:
                feeder.pieces.drop_rows(at)
                self._news.notify_all()


class _Plan:
    """A batch that was planned."""

    def __init__(self, start: Offset, end: Offset, parts: list[StreamPart], files: list[Path]) -> None:
        self.start, self.end = start.to_json(), end.to_json()
        self.parts = parts
        self.files = files

    def is_of(self, start: Offset, end: Offset) -> bool:
        return (self.start, self.end) == (start.to_json(), end.to_json())


def _origin(low: Position | None, high: Position) -> Position:
    """From where on a feeder must read that is asked for rows up to `high`."""
    if low is None:
        return high
    if high.phase is Phase.STREAM:
        return stream_position(low.replicaset, low.vclock, low.uuid, attempt=low.attempt, schema=low.schema)
    is_same = low.phase is Phase.SNAPSHOT and low.is_begun and (low.attempt, low.vclock) == (high.attempt, high.vclock)
    return replace(high, row=low.row if is_same else 0)
