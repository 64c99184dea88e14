"""What a task of the sink does with the rows of its partition, where the server has transactions over streams.

Chunks are added one after another; each is sent while the next one is encoded. A chunk and the row of progress are one
transaction. Inside of it the rows of progress are read first: if they are not what this task left there, somebody else
is at work, and nothing is committed. What is in is passed over, after its digest was compared. What was sent lately is
kept, because the one who takes writes may be replaced by one who has not got all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client import ConnectionFailed
from headwater.client.pipe import Load, Pipe
from headwater.errors import BoxError
from headwater.kernels import mp_array_fields
from headwater.pipeline.chunks import Chunk, Digest
from headwater.pipeline.errors import DataLost, PipelineError
from headwater.pipeline.leader import TRIES, Seeker, is_elsewhere, is_passing
from headwater.pipeline.sinkoptions import IDEMPOTENT
from headwater.pipeline.sinkplan import SinkPlan
from headwater.pipeline.sinkrows import WHOLE, ProgressRow, ProgressSpace, first_of
from headwater.wire.constants import Type, type_name
from headwater.wire.msgpack import unpack

__all__ = ["Superseded", "Task", "Transactional", "WriteRefused", "Writer"]

KEPT_BYTES = 64 << 20
"""Tuples that are kept after they were sent."""


class WriteRefused(PipelineError):
    """The server takes a row for wrong."""


class Superseded(PipelineError):
    """Another run of the same write has taken over, or this one was given up."""


class _Changed(Exception):
    """The row of progress is not the one that was left there."""


@dataclass(frozen=True, slots=True)
class Task:
    """Whose rows they are."""

    plan: SinkPlan
    app: str
    batch: int
    partition: int
    run: str
    """Empty for streams: there is only one run at a time."""
    may_repeat: bool
    """May its rows be written once more, unless they say themselves that they may not?"""

    @property
    def key(self) -> ProgressRow:
        return ProgressRow(self.app, self.partition, self.batch)

    @property
    def whole_key(self) -> ProgressRow:
        return ProgressRow(self.app, WHOLE, self.batch)


@dataclass(slots=True)
class Entry:
    """A chunk that was added."""

    chunk: Chunk
    before: Digest
    """Of the rows before it."""
    digest: str
    """With its rows."""
    vclock: Mapping[int, int] | None = None
    """Whoever is behind it has this chunk; it is known where there are no transactions."""


class Writer:
    """What is common to writing with transactions and without (`sinkplain`)."""

    def __init__(self, task: Task, seeker: Seeker, pipe: Pipe) -> None:
        self.task = task
        self.rows = 0
        """Added so far."""
        self.retries = 0
        self._seeker = seeker
        self._pipe = pipe
        self._digest = Digest()
        self._entries: deque[Entry] = deque()
        self._dropped = False
        """Were entries forgotten?"""

    @property
    def digest(self) -> str:
        """Of all rows added."""
        return self._digest.text()

    def close(self) -> None:
        self._pipe.close()

    def _enter(self, chunk: Chunk) -> Entry:
        before = self._digest.copy()
        self._digest.add(chunk)
        self.rows = chunk.end
        entry = Entry(chunk, before, self._digest.text())
        self._entries.append(entry)
        return entry

    def _reconnect(self, error: BaseException) -> None:
        """To whoever takes writes now."""
        self.retries += 1
        avoid = self._pipe.uri.address if is_elsewhere(error) else ""
        self._pipe.close()
        self._pipe = self._seeker.leader(avoid)

    def _failed(self, error: BaseException) -> PipelineError:
        """What is no row's fault."""
        return PipelineError(f"{self._pipe.uri}, partition {self.task.partition} of the write: {error}")

    def _refused(self, entry: Entry, number: int, error: BoxError, remains: str) -> WriteRefused:
        """Row `number` of the chunk was answered with an error."""
        chunk, plan = entry.chunk, self.task.plan
        kind = chunk.type(number)
        name = (type_name(plan.requests.type if kind is None else kind) or "?").lower()
        return WriteRefused(
            f"Row {chunk.first + number} of partition {self.task.partition} (key {self._key_text(chunk, number)}): "
            f"{self._pipe.uri} refuses its {name} into space '{plan.space.name}': {error}. {remains}"
        )

    def _key_text(self, chunk: Chunk, number: int) -> str:
        packed = chunk.tuple(number)
        borders = mp_array_fields(packed)
        return repr([unpack(packed[borders[at] : borders[at + 1]]) for at in self.task.plan.requests.key_fields])


class Transactional(Writer):
    """Chunk by chunk, each with the row of progress in one transaction."""

    def __init__(self, task: Task, seeker: Seeker, pipe: Pipe, progress: ProgressSpace) -> None:
        super().__init__(task, seeker, pipe)
        self._progress = progress
        self._stream = 0
        self._known: ProgressRow | None = None
        """The row of this partition as it was left."""
        self._at = 0
        """So many rows are in."""
        self._at_digest = Digest().text()
        """Of these, as the server tells."""
        self._at_end = False
        """Are they all, as the server tells?"""
        self._may_repeat = task.may_repeat
        self._pending: tuple[Entry, Load, tuple[int, ...]] | None = None
        self._read()

    # ---- rows

    def add(self, chunk: Chunk) -> None:
        """Begin to write it, unless it is in already."""
        self._finish()
        self._enter(chunk)
        self._may_repeat = self._may_repeat and chunk.types() <= IDEMPOTENT
        self._begin()
        self._trim()

    def end(self) -> None:
        """All that was added is in, or an error says why not."""
        self._finish()
        if self.rows != self._at or (self.rows and not self._at_end) or self._at_digest != self.digest:
            self._differs()
            self._finish()

    def _begin(self) -> None:
        if self._pending is None:
            entry = self._next()
            if entry is not None:
                self._pending = self._post(entry)

    def _finish(self) -> None:
        """Until every entry is in."""
        tries = 0
        while True:
            try:
                self._begin()
                if self._pending is None:
                    return
                self._commit(*self._pending)
                self._pending = None
                tries = 0
            except (BoxError, ConnectionFailed, _Changed) as error:
                self._pending = None
                tries += 1
                if not isinstance(error, _Changed) and not is_passing(error):
                    raise self._failed(error) from None
                if tries > TRIES:
                    raise PipelineError(
                        f"Partition {self.task.partition} does not get through after {TRIES} tries: {error}. Others "
                        f"write to the same tuples of '{self.task.plan.space.name}' all the time."
                    ) from None
                self._recover(error)

    def _next(self) -> Entry | None:
        """The first entry that is not in; the one in which the position lies is cut there."""
        for number, entry in enumerate(self._entries):
            chunk = entry.chunk
            if chunk.end <= self._at:
                if chunk.end == self._at and entry.digest != self._at_digest:
                    self._differs()
                    return self._next()
                continue
            if chunk.first < self._at:
                self._cut(number, entry)
                return self._next()
            if chunk.first > self._at:
                self._lost()
            if self._at_end:
                self._differs()
                return self._next()
            return entry
        return None

    def _cut(self, number: int, entry: Entry) -> None:
        head, tail = entry.chunk.split(self._at)
        middle = entry.before.copy()
        middle.add(head)
        self._entries[number] = Entry(head, entry.before, middle.text())
        self._entries.insert(number + 1, Entry(tail, middle, entry.digest))

    def _trim(self) -> None:
        """Forget what is in, oldest first. What was passed over is needed until its digest is known to be right, if it
        may be written once more."""
        size = sum(entry.chunk.size for entry in self._entries)
        while size > KEPT_BYTES and len(self._entries) > 1:
            oldest = self._entries[0]
            if oldest.chunk.end > self._at:
                return
            if self._at > self.rows and self._may_repeat:
                self._rewrite()
                return
            size -= oldest.chunk.size
            self._entries.popleft()
            self._dropped = True

    # ---- one transaction

    def _post(self, entry: Entry) -> tuple[Entry, Load, tuple[int, ...]]:
        pipe, chunk, task = self._pipe, entry.chunk, self.task
        self._stream += 1
        stream = self._stream
        begin = pipe.wanted(Type.BEGIN, stream_id=stream)
        whole = pipe.wanted(Type.SELECT, self._progress.select(task.whole_key), stream)
        mine = pipe.wanted(Type.SELECT, self._progress.select(task.key), stream)
        row = self._row(entry)
        written = pipe.wanted(Type.REPLACE, self._progress.replace(row), stream)
        first = pipe.number(chunk.rows)
        packets = [begin[1], whole[1], mine[1], *chunk.requests(task.plan.requests, first, stream), written[1]]
        syncs = (begin[0], whole[0], mine[0], written[0])
        return entry, pipe.post(packets, first, chunk.rows, syncs), syncs

    def _row(self, entry: Entry) -> ProgressRow:
        task, chunk = self.task, entry.chunk
        return ProgressRow(task.app, task.partition, task.batch, chunk.end, chunk.is_last, entry.digest)

    def _commit(self, entry: Entry, load: Load, syncs: tuple[int, ...]) -> None:
        self._pipe.settle(load)
        begin, whole, mine, written = syncs
        try:
            load.rows_of(begin)
            self._check_whole(first_of(load.rows_of(whole)))
            if first_of(load.rows_of(mine)) != self._known:
                raise _Changed("another attempt writes the same partition")
            self._check_rows(entry, load)
            load.rows_of(written)
        except BaseException as error:
            self._give_up(error)
            raise
        self._pipe.call(Type.COMMIT, b"", self._stream)
        self._known = self._row(entry)
        self._at, self._at_digest, self._at_end = entry.chunk.end, entry.digest, entry.chunk.is_last

    def _give_up(self, error: BaseException) -> None:
        """The transaction, as far as there is one."""
        if not isinstance(error, ConnectionFailed):
            try:
                self._pipe.call(Type.ROLLBACK, b"", self._stream)
            except (BoxError, ConnectionFailed):
                return

    def _check_rows(self, entry: Entry, load: Load) -> None:
        """Errors that pass, or that come from others of the same transaction, are not the row's fault."""
        if not load.errors:
            return
        for error in load.errors.values():
            if is_passing(error):
                raise error
        number = min(load.errors)
        raise self._refused(
            entry,
            number,
            load.errors[number],
            f"Nothing of its transaction of {entry.chunk.rows} rows was written; {self._at} rows before it in this "
            "partition were, as may be those of other partitions.",
        )

    def _check_whole(self, whole: ProgressRow | None) -> None:
        task = self.task
        if not task.run:
            if whole is not None and whole.is_done and whole.batch >= task.batch:
                raise Superseded(f"Batch {task.batch} of '{task.app}' is written already; this task came late.")
        elif whole is None or whole.run != task.run or whole.batch != task.batch or whole.is_done:
            raise Superseded(
                f"This task belongs to a run of the write '{task.app}' that was given up or has ended, or of which "
                f"{self._pipe.uri} was told nothing by the one that took the writes before; it writes no more."
            )

    # ---- when something came between

    def _recover(self, error: BaseException) -> None:
        while True:
            try:
                if is_elsewhere(error):
                    self._reconnect(error)
                else:
                    self.retries += 1
                self._read()
                return
            except (BoxError, ConnectionFailed) as again:
                if not is_passing(again):
                    raise self._failed(again) from None
                error = again

    def _read(self) -> None:
        """How far the server is, in this partition of this batch."""
        task = self.task
        self._known = self._progress.read(self._pipe, task.app, task.partition)
        row = self._known
        if row is not None and row.batch > task.batch:
            raise Superseded(
                f"Partition {task.partition} of '{task.app}' is at batch {row.batch} already, and this is batch "
                f"{task.batch}: an old checkpoint, or two queries under one txnAppId. Give the query a txnAppId of its "
                "own."
            )
        if row is None or row.batch < task.batch:
            self._rewrite()
        else:
            self._at, self._at_digest, self._at_end = row.rows, row.digest, row.is_done

    def _differs(self) -> None:
        """What is in is not what this task was given."""
        if self._may_repeat and not self._dropped:
            self._rewrite()
            return
        raise PipelineError(
            f"Partition {self.task.partition} of batch {self.task.batch} of '{self.task.app}' brings other rows than "
            f"when it was written the first time: {self._at} rows of then are in space '{self.task.plan.space.name}'. "
            "The plan before the sink gives its rows in another order, or in other partitions, each time: sort inside "
            "of partitions (sortWithinPartitions), keep the number of partitions, or use operations that may be "
            "repeated (replace, delete)."
        )

    def _rewrite(self) -> None:
        """All of it once more, from the first row on."""
        self._at, self._at_digest, self._at_end = 0, Digest().text(), False

    def _lost(self) -> None:
        raise DataLost(
            f"{self._pipe.uri} has {self._at} rows of partition {self.task.partition} of batch {self.task.batch}, "
            "although more were acknowledged by the one that took writes before: it was replaced before they had "
            "reached the others. Run the same write again: it goes on behind the rows that are there. Synchronous "
            "spaces (is_sync) prevent it."
        )
