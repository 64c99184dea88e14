"""What a task of the sink does where the server has no transactions over streams, or where they are not wanted.

Requests on their own, two chunks of them under way, and nothing but REPLACE and DELETE, which may be done once more.
What was sent lately is kept: who takes the writes next is asked for its vclock, and gets all that it may lack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headwater.client import ConnectionFailed
from headwater.client.pipe import Load, Pipe
from headwater.errors import BoxError
from headwater.pipeline.chunks import Chunk
from headwater.pipeline.errors import DataLost, PipelineError
from headwater.pipeline.leader import TRIES, Seeker, is_passing
from headwater.pipeline.sinkoptions import IDEMPOTENT
from headwater.pipeline.sinkwrite import KEPT_BYTES, Entry, Task, Writer
from headwater.wire.ballot import decode_ballot
from headwater.wire.constants import Type, type_name
from headwater.wire.xrow import Row

__all__ = ["Plain", "covers"]

_UNDER_WAY = 2


class Plain(Writer):
    """One partition."""

    def __init__(self, task: Task, seeker: Seeker, pipe: Pipe) -> None:
        super().__init__(task, seeker, pipe)
        self._todo: deque[Entry] = deque()
        """To be sent over this connection."""
        self._under_way: deque[tuple[Entry, Load, int]] = deque()
        """With the sync of the question for the vclock that went before them."""
        self._settled: deque[Entry] = deque()
        """Acknowledged, and it is not known yet which vclock has them."""
        self._tries = 0
        self.vclock: Mapping[int, int] = {}
        """At the end: whoever is behind it has all rows."""

    def add(self, chunk: Chunk) -> None:
        """Begin to write it."""
        self._refuse_others(chunk)
        self._todo.append(self._enter(chunk))
        self._run(drain=False)
        self._trim()

    def end(self) -> None:
        """All that was added is in, or an error says why not."""
        self._run(drain=True)

    def _enter(self, chunk: Chunk) -> Entry:
        """No digest is asked for."""
        self.rows = chunk.end
        entry = Entry(chunk, self._digest, "")
        self._entries.append(entry)
        return entry

    def _refuse_others(self, chunk: Chunk) -> None:
        odd = chunk.types() - IDEMPOTENT
        if odd:
            words = ", ".join(sorted((type_name(kind) or "?").lower() for kind in odd))
            raise PipelineError(
                f"Rows of partition {self.task.partition} ask for {words}. Without transactions over streams, which "
                f"{self._pipe.uri} ({self._pipe.version}) has not got or is not asked for, only replace and delete are "
                "taken: a task that runs twice would do the others twice. Tarantool has them from 2.10 on, with "
                "memtx_use_mvcc_engine for spaces in memory."
            )

    def _run(self, *, drain: bool) -> None:
        while True:
            try:
                while self._todo:
                    if len(self._under_way) == _UNDER_WAY:
                        self._settle_one()
                    self._send(self._todo[0])
                    self._todo.popleft()
                if drain:
                    self._drain()
                return
            except (BoxError, ConnectionFailed) as error:
                self._tries += 1
                if not is_passing(error) or self._tries > TRIES:
                    raise self._failed(error) from None
                self._again(error)

    # ---- when somebody else takes the writes

    def _again(self, error: BaseException) -> None:
        while True:
            try:
                self._reconnect(error)
                self._todo = deque(self._missing(self._pipe.ballot().vclock))
                break
            except (BoxError, ConnectionFailed) as again:
                if not is_passing(again):
                    raise self._failed(again) from None
                error = again
        self._under_way.clear()
        self._settled.clear()

    def _missing(self, has: Mapping[int, int]) -> list[Entry]:
        """Entries that one with this vclock may not have."""
        entries = list(self._entries)
        for number in range(len(entries), 0, -1):
            vclock = entries[number - 1].vclock
            if vclock is not None and covers(has, vclock):
                return entries[number:]
        if self._dropped:
            raise DataLost(
                f"{self._pipe.uri}, which takes the writes now, has not got all rows of partition "
                f"{self.task.partition} that were acknowledged by the one before it. Run the same write again: "
                "replace and delete may be repeated. Synchronous spaces (is_sync) prevent it."
            )
        return entries

    # ---- chunks

    def _send(self, entry: Entry) -> None:
        pipe, chunk = self._pipe, entry.chunk
        vote, packet = pipe.wanted(Type.VOTE)
        first = pipe.number(chunk.rows)
        packets = [packet, *chunk.requests(self.task.plan.requests, first)]
        self._under_way.append((entry, pipe.post(packets, first, chunk.rows, (vote,)), vote))

    def _settle_one(self) -> None:
        entry, load, vote = self._under_way[0]
        self._pipe.settle(load)
        self._under_way.popleft()
        self._check_rows(entry, load)
        answer = load.answers[vote]
        if isinstance(answer, Row) and len(self._settled) > 1:
            # The question went out when all of them but the last were acknowledged.
            vclock = decode_ballot(answer).vclock
            while len(self._settled) > 1:
                self._settled.popleft().vclock = vclock
        self._settled.append(entry)
        self._tries = 0

    def _check_rows(self, entry: Entry, load: Load) -> None:
        for error in load.errors.values():
            if is_passing(error):
                raise error
        if load.errors:
            number = min(load.errors)
            raise self._refused(
                entry, number, load.errors[number], "Rows around it may be in; the write may be repeated."
            )

    def _drain(self) -> None:
        while self._under_way:
            self._settle_one()
        self.vclock = dict(self._pipe.ballot().vclock)
        while self._settled:
            self._settled.popleft().vclock = self.vclock

    def _trim(self) -> None:
        size = sum(entry.chunk.size for entry in self._entries)
        while size > KEPT_BYTES and self._entries[0].vclock is not None:
            size -= self._entries.popleft().chunk.size
            self._dropped = True


def covers(has: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    """Is the first vclock at the second or behind it?"""
    return all(has.get(id, 0) >= lsn for id, lsn in wanted.items() if id)
