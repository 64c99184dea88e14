"""Replica ids of a peer's packets exchanged for others (rfc 004)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.heads import Head, read_head
from headwater.typing import VCLOCK_MAX

_OK = 0
_IDS_INSIDE = frozenset((0x1E, 0x1F, 0x20, 0x28, 0x29))
"""RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK name replicas in their bodies."""
_ERROR = 0x8000
_SPACE, _VCLOCK_SYNC = 0x10, 0x5A
_SYSTEM_ID_MAX = 511


def renumber_frames(data: bytes, offset: int, end: int, ids: Sequence[int]) -> tuple[bytes, int]:
    """The contract is in `_native.pyi`."""
    if len(ids) != VCLOCK_MAX:
        raise ValueError(f"{VCLOCK_MAX} ids are needed, not {len(ids)}")
    if any(not (number == -1 or 0 < number < VCLOCK_MAX) for number in ids[1:]):
        raise ValueError("an id is -1 or 1..31")
    end = min(end, len(data))
    out = bytearray()
    while offset < end:
        try:
            after = mp.frame_end(data, offset, end)
            if not after:
                break
            head = read_head(data, offset + mp.SIZE_OF[data[offset]], after)
        except MsgPackError:
            break
        if not _is_plain(data, head, after) or (head.replica_at and ids[head.replica_id] < 0):
            break
        begin = len(out)
        out += data[offset:after]
        if head.replica_at:
            out[begin + head.replica_at - offset] = ids[head.replica_id]
        offset = after
    return bytes(out), offset


def _is_plain(data: bytes, head: Head, end: int) -> bool:
    """Is its origin the only replica that the packet speaks of?"""
    if head.type in _IDS_INSIDE or head.type & _ERROR:
        return False
    if head.replica_at and (head.replica_at < 0 or data[head.replica_at] != head.replica_id or not head.replica_id):
        return False
    at = head.body
    if at == end:
        return True
    if data[at] & 0xF0 != 0x80:
        return False
    count, at = data[at] & 0x0F, at + 1
    if head.type == _OK:
        return count == 0 or (count == 1 and at < end and data[at] == _VCLOCK_SYNC)
    if not count or at + 1 >= end or data[at] != _SPACE or mp.TYPE_OF[data[at + 1]] != mp.UINT:
        return False
    return at + 1 + mp.SIZE_OF[data[at + 1]] <= end and mp.integer(data, at + 1) > _SYSTEM_ID_MAX
