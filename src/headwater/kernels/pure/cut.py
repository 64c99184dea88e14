"""A master's stream, cut where transactions end, for who reads it without a store."""

from __future__ import annotations

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.heads import NOP, Head, read_head
from headwater.kernels.pure.rows import COMMIT

_CHANGES = frozenset((2, 3, 4, 5, 9, NOP))
"""INSERT, REPLACE, UPDATE, DELETE, UPSERT."""


def cut_frames(data: bytes, offset: int, end: int, rows_max: int) -> tuple[int, int, list[tuple[int, int]], float]:
    """Whole plain transactions among packets, and how far they lead."""
    if not 0 <= offset <= end <= len(data):
        raise MsgPackError(f"truncated input: {offset}..{end} does not lie in {len(data)} bytes")
    last: dict[int, int] = {}
    rows, timestamp, at = 0, 0.0, offset
    while at < end and rows < rows_max:
        found = _transaction(data, at, end)
        if found is None:
            break
        at, count, head = found
        rows += count
        last[head.replica_id] = head.lsn
        timestamp = head.timestamp
    return at, rows, sorted(last.items()), timestamp


def _transaction(data: bytes, at: int, end: int) -> tuple[int, int, Head] | None:
    """The offset after the transaction at `at`, its rows, and the head of the last; None if it is not whole, not in
    order, not plain, or waits for others."""
    heads: list[Head] = []
    while True:
        try:
            after = mp.frame_end(data, at, end)
            if not after:
                return None
            head = read_head(data, at + mp.SIZE_OF[data[at]], after)
        except MsgPackError:
            return None
        if not _follows(head, heads):
            return None
        heads.append(head)
        at = after
        if head.is_last:
            return at, len(heads), head


def _follows(head: Head, before: list[Head]) -> bool:
    if head.odd or head.group_id or head.type not in _CHANGES or head.flags & ~COMMIT or not head.replica_id:
        return False
    if not before:
        return head.lsn > 0 and head.tsn == head.lsn
    first, last = before[0], before[-1]
    return (head.replica_id, head.tsn) == (first.replica_id, first.tsn) and head.lsn > last.lsn
