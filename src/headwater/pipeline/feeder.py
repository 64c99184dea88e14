"""Follows one replica set, in a thread of its own: the snapshot, then the changes, as far as memory allows.

The thread owns the connection. It reads into `Pieces`, acknowledges what Spark has committed, four times a second
whatever else happens, and goes to another member when one is lost. Who plans batches asks under the common lock and is
woken by every piece of news. What will not pass by itself is kept as an error, and whoever asks next gets it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from headwater.client import AnonymousReplica, ConnectionFailed, Cutter
from headwater.errors import BoxError, HeadwaterError
from headwater.pipeline import trouble
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.history import History, unpack_schema
from headwater.pipeline.members import AllGone, Members, Met, Unreachable
from headwater.pipeline.offsets import Phase, Position, VClockMap, Via, joined, shared
from headwater.pipeline.pieces import Pieces, Run, stream_piece
from headwater.pipeline.snapshot import Fetch, Runs, SnapshotLost

log = logging.getLogger("headwater.pipeline")

ACK_SECONDS = 0.25
"""A server drops a replica that says nothing for four times its replication_timeout, which is a second by default."""
SILENCE_SECONDS = 30.0
"""A server that says nothing for so long is taken for lost; it speaks every replication_timeout."""
LAG_SECONDS = 5.0
"""A member that lags and sends no row for so long is compared with the others anew."""
RETRY_SECONDS = 0.5
SAY_SECONDS = 30.0
"""The same complaint is logged again after so long."""
IDLE_BYTES = 4096
"""So little at once: for the moment there is no more."""
SEGMENT_ROWS, SEGMENT_BYTES = 10_000, 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a feeder keeps to."""

    buffer: int
    """Bytes in memory."""
    rows: int = 0
    """Of a batch; 0: any number. Nothing is cut finer than a transaction."""
    bytes: int = 0
    reconnect: float = 60.0
    lease: float = 10.0
    fail_on_data_loss: bool = True
    resnapshot: bool = True
    """When rows are lost and that is allowed: begin anew with a snapshot, rather than go on behind the gap."""

    @property
    def segment_rows(self) -> int:
        return min(SEGMENT_ROWS, self.rows or SEGMENT_ROWS)

    @property
    def segment_bytes(self) -> int:
        return min(SEGMENT_BYTES, self.bytes or SEGMENT_BYTES)


class Feeder:
    """Of one replica set, from one position on."""

    def __init__(
        self, members: Members, history: History, limits: Limits, directory: Path, news: threading.Condition
    ) -> None:
        """`directory`: for a spool, this set's own. `news`: the lock, common to all feeders of a query."""
        self.members = members
        self.pieces = Pieces(history, min(1000, limits.segment_rows // 4 or 1))
        self.error: HeadwaterError | None = None
        self.seen: VClockMap = {}
        """As far as the server has sent, decided or not."""
        self.cut_at = 0
        """A piece of the snapshot ends at the row of this number."""
        self.pending = 0
        """Rows that wait for a quorum."""
        self._history = history
        self._limits = limits
        self._news = news
        self._committed: VClockMap = {}
        self._runs = Runs(directory)
        self._sync_spaces: set[int] = set()
        self._stopped = False
        self._met: Met | None = None
        self._acked_at = 0.0
        self._term = 0
        self._since = 0.0
        """Since when nobody could be followed."""
        self._warned = False
        self._said, self._said_at = "", 0.0
        """What was complained of last."""
        self._parent = os.getppid()
        self._thread: threading.Thread | None = None

    # ---- life -----------------------------------------------------------------------------------------

    def start(self, position: Position) -> None:
        """From here on; with the lock held."""
        if position.phase is Phase.STREAM:
            self._runs.passed(position)
            self.pieces.begin_stream(position.vclock)
        else:
            self.pieces.begin_run(self._runs.resumed(position))
        self.seen = self.pieces.read_to
        self._committed = shared(position.vclock)
        self._learn_sync(position.schema)
        self._since = time.monotonic()
        self._thread = threading.Thread(target=self._live, name=f"feeder of {self.members}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Without the lock. What is not read is forgotten."""
        self._stopped = True
        met = self._met
        if met is not None:
            met.replica.close()
        with self._news:
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(5.0)

    def commit(self, position: Position) -> None:
        """Spark has everything up to here for good; with the lock held."""
        self._committed = joined(self._committed, shared(position.vclock))
        run = self.pieces.run
        if run is None or run.attempt != position.attempt:
            return
        if position.phase is Phase.STREAM:
            self.pieces.end_run()
            self._runs.clear()
        else:
            self._runs.clean(position.attempt)

    def check(self) -> None:
        """Raises what ended the thread; with the lock held."""
        if self.error is not None:
            raise self.error

    # ---- the thread -----------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            while not self._stopped:
                try:
                    self._attend()
                except Unreachable as error:
                    self._bear(str(error), error.patience(self._limits.reconnect))
                    self._pause(RETRY_SECONDS)
                except (ConnectionFailed, TimeoutError) as error:
                    self._bear(str(error) or "no answer in time", self._limits.reconnect)
                    self._pause(RETRY_SECONDS)
                except BoxError as error:
                    self._judge(error)
                except AllGone as error:
                    self._lose(error)
        except HeadwaterError as error:
            self._end(error)
        except BaseException as error:
            self._end(PipelineError(f"The reader of {self.members} broke: {error!r}"))
            raise
        finally:
            self._leave()

    def _attend(self) -> None:
        """One connection: what is missing of the snapshot, then the stream."""
        run = self.pieces.run
        wants_rows = run is not None and not run.is_whole
        met = self._met = self._choose(run if wants_rows else None)
        try:
            if not self._warned:
                self._warned = True
                trouble.warn_of(met)
            if run is not None and wants_rows:
                self._fetch(met, run)
            self._follow(met)
        finally:
            self._leave()

    def _choose(self, run: Run | None) -> Met:
        if run is None:
            return self.members.best(self.pieces.read_to)
        if run.via is not Via.CURSOR:
            return self.members.any()
        try:
            return self.members.best(shared(run.vclock), run.server)
        except AllGone as error:
            self._restart(run, str(error))
            raise Unreachable(str(error)) from None
        except Unreachable:
            if self._away > self._limits.reconnect:
                self._restart(run, f"the instance {run.server}, which has the snapshot, is away")
            raise

    def _leave(self) -> None:
        if self._met is not None:
            self._met.replica.close()

    @property
    def _away(self) -> float:
        return time.monotonic() - self._since

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._news:
            while not self._stopped and (left := deadline - time.monotonic()) > 0:
                self._news.wait(left)
        self._watch_parent()

    def _watch_parent(self) -> None:
        """A driver that was killed takes this process along when it next asks something, which may be never."""
        if os.getppid() != self._parent:
            raise PipelineError("The driver of this stream is gone.")

    def _end(self, error: HeadwaterError) -> None:
        with self._news:
            if not self._stopped:
                self.error = error
            self._news.notify_all()

    # ---- the snapshot ---------------------------------------------------------------------------------

    def _fetch(self, met: Met, run: Run) -> None:
        patience = self.members.hosts.request_timeout
        met.replica.set_timeout(patience)
        try:
            directory, rows = self._runs.directory(run), self._limits.segment_rows
            fetch = Fetch(met.replica, run, self._history, directory, rows, patience, self.cut_at)
        except SnapshotLost as error:
            self._restart(run, str(error))
            raise Unreachable(str(error)) from None
        with self._news:
            if run.via is Via.NONE:
                run.vclock, run.via, run.server = fetch.vclock, fetch.via, fetch.server
                self.pieces.begin_stream(run.vclock)
                self._committed = shared(run.vclock)
        met.replica.set_timeout(ACK_SECONDS)
        try:
            self._take_rows(fetch, run)
        except (ConnectionFailed, TimeoutError, BoxError) as error:
            if run.via is Via.SPOOL:
                self._restart(run, f"{met.host}: {error}")
            raise
        if self._stopped:
            return
        with self._news:
            run.is_whole = True
            self._learn_sync(run.schema)
            self._news.notify_all()

    def _take_rows(self, fetch: Fetch, run: Run) -> None:
        for pieces in fetch.pieces():
            with self._news:
                run.schema = fetch.schema
                for piece in pieces:
                    self.pieces.add_rows(piece)
                self._news.notify_all()
                while not self._stopped and self.pieces.memory > self._limits.buffer:
                    self._news.wait(ACK_SECONDS)
            self._since = time.monotonic() if pieces else self._since
            self._watch_parent()
            if self._stopped:
                return

    def _restart(self, run: Run, why: str) -> None:
        """It cannot be gone on with."""
        log.warning("The snapshot of %s begins anew: %s", self.members, why)
        self._since = time.monotonic()
        with self._news:
            self.pieces.begin_run(self._runs.after(run))
            self._news.notify_all()

    # ---- the stream -----------------------------------------------------------------------------------

    def _learn_sync(self, schema: str) -> None:
        self._sync_spaces = {facts.id for facts in unpack_schema(schema).spaces if facts.is_sync} if schema else set()

    def _follow(self, met: Met) -> None:
        replica, vclock = met.replica, self.pieces.read_to
        cutter = Cutter(
            vclock,
            rows_max=self._limits.segment_rows,
            bytes_max=self._limits.segment_bytes,
            sync_spaces=self._sync_spaces if replica.must_be_told_sync else None,
        )
        assert self.members.replicaset is not None
        reply = replica.subscribe(self.members.replicaset, vclock)
        trouble.warn_of_lost_rows(met, reply.vclock, vclock)
        self.members.has_taken(met.host)
        replica.set_timeout(ACK_SECONDS)
        heard = self._since = rows_at = time.monotonic()
        while not self._stopped:
            self._acknowledge(replica, cutter)
            if not self._waits_for_room(cutter):
                heard = time.monotonic()
                continue
            data = receive(replica)
            heard = time.monotonic() if data else heard
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise ConnectionFailed(f"{met.host}: nothing came for {SILENCE_SECONDS:.0f} s")
            if self._take(cutter, data):
                rows_at = self._since
            elif met.lags and time.monotonic() - rows_at > LAG_SECONDS:
                raise Unreachable(f"{met.host} lags behind this stream")

    def _take(self, cutter: Cutter, data: bytes) -> bool:
        """Did any row come?"""
        pieces = [stream_piece(segment) for segment in cutter.take(data, idle=len(data) < IDLE_BYTES)]
        if data:
            self._since = time.monotonic()
        if cutter.sync_spaces is not None:
            self._sync_spaces = cutter.sync_spaces
        with self._news:
            self.seen, self.pending = dict(cutter.seen), cutter.pending
            for piece in pieces:
                self.pieces.add(piece)
            if pieces:
                self._news.notify_all()
        return bool(pieces)

    def _waits_for_room(self, cutter: Cutter) -> bool:
        """Is there room now, at once or soon? What a single transaction needs is taken in any case."""
        with self._news:
            return self._news.wait_for(
                lambda: (
                    self._stopped
                    or not self.pieces.memory
                    or self.pieces.memory + cutter.held_bytes < self._limits.buffer
                ),
                ACK_SECONDS,
            )

    def _acknowledge(self, replica: AnonymousReplica, cutter: Cutter) -> None:
        now = time.monotonic()
        if now - self._acked_at < ACK_SECONDS:
            return
        self._acked_at = now
        self._watch_parent()
        replica.acknowledge(self._committed, term=cutter.term, vclock_sync=cutter.vclock_sync)

    # ---- what goes wrong ------------------------------------------------------------------------------

    def _bear(self, words: str, patience: float) -> None:
        """For a while."""
        if self._stopped:
            return
        if self._away > patience:
            raise PipelineError(trouble.given_up(words, self._away))
        if words != self._said or time.monotonic() - self._said_at > SAY_SECONDS:
            self._said, self._said_at = words, time.monotonic()
            log.warning("%s; it is tried again", words)

    def _judge(self, error: BoxError) -> None:
        """An error that a server answered."""
        met = self._met
        if met is None:
            raise error
        kind = trouble.kind_of(error)
        if kind is trouble.Kind.TAKEN:
            trouble.check_taken(error, self.members.uuid, met, self._away, self._limits.lease)
        elif kind is trouble.Kind.GAP:
            self.members.has_lost(met.host)
            return
        elif kind is trouble.Kind.FATAL:
            raise PipelineError(trouble.ended(error, met, self.pieces.read_to)) from None
        else:
            self.members.has_refused(met.host)
            self._bear(trouble.refusal(error, met), trouble.patience(error, self._limits.reconnect))
        self._pause(RETRY_SECONDS)

    def _lose(self, error: AllGone) -> None:
        """Nobody who answers has the rows that come next."""
        have = self.pieces.read_to
        if error.unreachable and self._away <= self._limits.reconnect:
            self._bear(str(error), self._limits.reconnect)
            self._pause(RETRY_SECONDS)
            return
        if self._limits.fail_on_data_loss:
            raise trouble.data_lost(error, have, self._limits.resnapshot)
        log.error("Changes are lost: %s. failOnDataLoss is false: the query goes on.", error)
        self.members.forget_losses()
        with self._news:
            if self._limits.resnapshot:
                self.pieces.begin_run(self._runs.after(None))
            else:
                oldest = min((gap.oldest for gap in error.gaps), key=lambda oldest: sum(oldest.values()))
                self.pieces.begin_stream(joined(have, oldest))
            self._news.notify_all()


def receive(replica: AnonymousReplica) -> bytes:
    """What has come; nothing when nothing came in time."""
    try:
        return replica.receive()
    except TimeoutError:
        return b""
