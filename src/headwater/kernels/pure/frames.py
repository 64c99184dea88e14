"""A batch of the journal as packets, and what one peer gets of it (relay.cc, relay_filter_row, relay_process_row)."""

from __future__ import annotations

import struct

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.heads import GROUP_LOCAL, NOP, Head, read_head
from headwater.typing import VCLOCK_MAX

_PEERS_DIFFER = frozenset((30, 31, 32, 40, 41))
"""RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK."""
_LENGTH = struct.Struct(">BI")
_PREFIX = _LENGTH.size


class Frames:
    """Rows as packets."""

    def __init__(self, data: bytes, heads: list[tuple[int, Head, int]]) -> None:
        self.data = data
        self.plain = not any(_depends_on_peer(head) for _, head, _ in heads)
        self.timestamp = heads[-1][1].timestamp if heads else 0.0
        self._rows = heads
        """(offset of a row, its header, offset after it)."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def last(self) -> list[tuple[int, int]]:
        """(replica id, greatest LSN of it), by growing id."""
        out: dict[int, int] = {}
        for _, head, _ in self._rows:
            out[head.replica_id] = max(head.lsn, out.get(head.replica_id, 0))
        return sorted(out.items())

    def rows(self) -> list[tuple[int, int, int, int, int, bool]]:
        return [(begin, end, head.type, head.replica_id, head.lsn, head.is_last) for begin, head, end in self._rows]

    def pick(self, have: list[int], skip: int, own: int, own_limit: int, sync: int) -> tuple[bytes, int]:
        """What one peer gets of it, and how many rows that is."""
        if len(have) != VCLOCK_MAX:
            raise ValueError(f"a position has {VCLOCK_MAX} LSNs, not {len(have)}")
        skip |= 1
        out: list[bytes] = []
        kept: tuple[int, Head, int] | None = None
        """The last row of this transaction that stays."""
        for begin, head, end in self._rows:
            if not head.is_part:
                kept = None
            is_new = head.lsn > have[head.replica_id]
            have[head.replica_id] = max(head.lsn, have[head.replica_id])
            left_out = skip >> head.replica_id & 1 or (own and head.replica_id == own and head.lsn > own_limit)
            if is_new and not left_out:
                # applier.cc, set_next_tx_row: the TSN is the LSN of the first row, also where a peer has the first one.
                tsn = head.lsn if kept is None else kept[1].tsn
                kept = begin, head if tsn == head.tsn else head._replace(tsn=tsn, odd=True), end
                out.append(self._packet(*kept, head.flags, sync))
            elif head.is_last and kept is not None:
                out[-1] = self._packet(*kept, head.flags, sync)
            if head.is_last:
                kept = None
        data = b"".join(out)
        return self.data if data == self.data else data, len(out)

    def _packet(self, begin: int, head: Head, end: int, flags: int, sync: int) -> bytes:
        if head.group_id == GROUP_LOCAL:
            # Tarantool before 1.10.5 numbered local rows like others: peers get the number, not the change.
            head, end = head._replace(type=NOP, group_id=0), head.body
        elif not sync and flags == head.flags and not head.odd:
            return self.data[begin - _PREFIX : end]
        row = head.encode(flags, sync) + self.data[head.body : end]
        return _LENGTH.pack(0xCE, len(row)) + row


def _depends_on_peer(head: Head) -> bool:
    return head.type in _PEERS_DIFFER or (head.group_id == GROUP_LOCAL and head.replica_id != 0)


def frame_rows(rows: bytes) -> Frames:
    """Rows as they stand in a file, each framed as a packet; MsgPackError if they are none."""
    out = bytearray()
    heads: list[tuple[int, Head, int]] = []
    at = 0
    while at < len(rows):
        head = read_head(rows, at, len(rows))
        end = head.body
        if head.type != NOP and end < len(rows):
            if mp.TYPE_OF[rows[end]] != mp.MAP:
                raise MsgPackError(f"no body of a row at offset {end}")
            end = mp.mp_next(rows, end)
        out += _LENGTH.pack(0xCE, end - at)
        begin = len(out)
        heads.append((begin, head._replace(body=begin + head.body - at), begin + end - at))
        out += rows[at:end]
        at = end
    return Frames(bytes(out), heads)
