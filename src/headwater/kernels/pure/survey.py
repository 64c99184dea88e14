"""What the rows of a log say, as far as a range reaches. The contract is `_split.pyi`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.kernels.columnplan import RowError
from headwater.kernels.pure.splitrows import (
    CONFIRM,
    DEMOTE,
    PROMOTE,
    RAFT,
    ROLLBACK,
    WAIT_ACK,
    WAIT_SYNC,
    Head,
    check_offset,
    lsns,
    read_confirm,
    read_head,
    space_of,
)
from headwater.typing import VCLOCK_MAX

_END, _BEYOND, _WORD = 0, 1, 2
_WORDS = (ROLLBACK, PROMOTE, DEMOTE)


class _Waiting(NamedTuple):
    owner: int
    first: int
    lsn: int
    row: int
    is_sync: bool


class Survey:
    """Any number of walks."""

    def __init__(
        self,
        low: Sequence[int],
        high: Sequence[int],
        until: float,
        system_max: int,
        sync_spaces: Sequence[int] = (),
        sample_step: int = 0,
        skips: bool = False,
    ) -> None:
        self.rows = self.kept = self.skipped = 0
        self._skips = skips
        self.begin = self.end = 0.0
        self._low, self._high, self._until = lsns(low), lsns(high), until
        self._system_max, self._sync_spaces = system_max, frozenset(sync_spaces)
        self._step = self._since = sample_step
        self._reached = [0] * VCLOCK_MAX
        self._named: dict[int, int] = {}
        self._spaces: dict[int, tuple[int, int]] = {}
        self._queue: list[_Waiting] = []
        self._notable: list[tuple[int, int, int]] = []
        self._samples: list[tuple[int, int]] = []

    def walk(self, rows: bytes, offset: int) -> tuple[int, int]:
        check_offset(rows, offset)
        self._notable, self._samples = [], []
        while offset < len(rows):
            heads = self._transaction(rows, offset)
            if self._is_beyond(heads):
                if not self._skips:
                    return offset, _BEYOND
                self.rows += len(heads)
                self.skipped += len(heads)
                offset = heads[-1].end
                continue
            first = self.rows
            has_word = False
            is_sync = False
            for head in heads:
                has_word |= self._take(rows, head)
                is_sync |= self._is_sync(rows, head)
            self._end_of(heads, first, is_sync)
            offset = heads[-1].end
            if has_word:
                return offset, _WORD
        return offset, _END

    def _transaction(self, rows: bytes, offset: int) -> list[Head]:
        """Its rows."""
        heads: list[Head] = []
        at = offset
        while not heads or not heads[-1].is_last:
            if at >= len(rows):
                raise RowError("a transaction is not finished", offset, heads[-1].lsn)
            heads.append(read_head(rows, at))
            at = heads[-1].end
        return heads

    def _is_beyond(self, heads: Sequence[Head]) -> bool:
        behind = any(head.replica_id and head.lsn > self._high[head.replica_id] for head in heads)
        return behind or heads[-1].timestamp > self._until

    def _in_range(self, head: Head) -> bool:
        return self._low[head.replica_id] < head.lsn <= self._high[head.replica_id]

    def _take(self, rows: bytes, head: Head) -> bool:
        """One row. Is it a word about the queue?"""
        number = self.rows
        self.rows += 1
        if head.lsn > self._high[head.replica_id]:
            return False
        self._reached[head.replica_id] = max(self._reached[head.replica_id], head.lsn)
        if not self._in_range(head):
            return False
        self.begin = head.timestamp if not self.kept else min(self.begin, head.timestamp)
        self.end = head.timestamp if not self.kept else max(self.end, head.timestamp)
        self.kept += 1
        if head.is_change:
            self._change(rows, head, number)
        elif head.type == CONFIRM:
            self._confirm(*read_confirm(rows, head))
        elif head.type in (RAFT, *_WORDS):
            self._notable.append((number, head.begin, head.end))
        return head.type in _WORDS

    def _change(self, rows: bytes, head: Head, number: int) -> None:
        space_id = space_of(rows, head)
        count, size = self._spaces.get(space_id, (0, 0))
        self._spaces[space_id] = count + 1, size + head.end - head.begin
        if space_id <= self._system_max:
            self._notable.append((number, head.begin, head.end))
        elif self._step:
            self._since += head.end - head.begin
            if self._since >= self._step:
                self._since = 0
                self._samples.append((head.begin, head.end))

    def _is_sync(self, rows: bytes, head: Head) -> bool:
        if not self._sync_spaces or not head.is_change or not self._in_range(head):
            return False
        return space_of(rows, head) in self._sync_spaces

    def _end_of(self, heads: Sequence[Head], first: int, is_sync: bool) -> None:
        numbered = [
            (first + place, head) for place, head in enumerate(heads) if head.replica_id and self._in_range(head)
        ]
        if not numbered:
            return
        flags = heads[-1].flags
        is_sync |= bool(flags & WAIT_ACK)
        if is_sync or flags & WAIT_SYNC or (self._sync_spaces and self._queue):
            (row, head), (_, last) = numbered[0], numbered[-1]
            self._queue.append(_Waiting(head.replica_id, head.lsn, last.lsn, row, is_sync))

    def _confirm(self, owner: int, lsn: int) -> None:
        self._named[owner] = max(lsn, self._named.get(owner, 0))
        while self._queue and self._queue[0].owner == owner and self._queue[0].lsn <= lsn:
            self._queue.pop(0)

    def take_notable(self) -> list[tuple[int, int, int]]:
        out, self._notable = self._notable, []
        return out

    def take_samples(self) -> list[tuple[int, int]]:
        out, self._samples = self._samples, []
        return out

    def last(self) -> list[tuple[int, int]]:
        return [(replica_id, lsn) for replica_id, lsn in enumerate(self._reached) if lsn]

    def spaces(self) -> dict[int, tuple[int, int]]:
        return dict(self._spaces)

    def waiting(self) -> list[tuple[int, int, int, int, bool]]:
        return [tuple(each) for each in self._queue]  # type: ignore[misc]

    def confirmed(self) -> list[tuple[int, int]]:
        return [(owner, lsn) for owner, lsn in sorted(self._named.items()) if lsn]

    def new_queue(self) -> None:
        self._queue, self._named = [], {}
