"""Headers of rows, in files and in packets: what a transaction is made of, without a look at bodies."""

from __future__ import annotations

import struct
from typing import NamedTuple

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.rows import COMMIT, header
from headwater.typing import VCLOCK_MAX

TYPE, SYNC, REPLICA_ID, LSN, TIMESTAMP, GROUP_ID, TSN, FLAGS = 0x00, 0x01, 0x02, 0x03, 0x04, 0x07, 0x08, 0x09
NOP = 12
GROUP_LOCAL = 1
_U32 = (1 << 32) - 1
_U63 = (1 << 63) - 1
_U64 = (1 << 64) - 1
_DOUBLE = struct.Struct(">d")


class Head(NamedTuple):
    """One row's header."""

    type: int
    replica_id: int
    group_id: int
    lsn: int
    timestamp: float
    tsn: int
    """Equal to the LSN for a transaction of one row."""
    flags: int
    """COMMIT is set for a transaction of one row too."""
    is_part: bool
    """One of several rows of a transaction."""
    odd: bool
    """Has keys that the plain kinds of rows do not have."""
    body: int
    """Offset after the header."""
    replica_at: int
    """Offset of the replica id; 0 without one, -1 if there are several."""

    @property
    def is_last(self) -> bool:
        """Does its transaction end here?"""
        return bool(self.flags & COMMIT)

    def encode(self, flags: int, sync: int) -> bytes:
        """The header anew, with these flags (xrow.c, xrow_header_encode)."""
        return header(self.type, self.replica_id, self.group_id, self.lsn, self.timestamp, self.tsn, flags & 0xFF, sync)


def bad_header(offset: int) -> MsgPackError:
    return MsgPackError(f"no header of a row at offset {offset}")


def read_head(data: bytes, offset: int, end: int) -> Head:
    """The header at `offset`; MsgPackError if there is none before `end` (xrow.c, xrow_decode)."""
    body = mp.mp_next(data, offset)
    if body > end or mp.TYPE_OF[data[offset]] != mp.MAP:
        raise bad_header(offset)
    count, at = mp.container(data, offset)
    numbers: dict[int, int] = {}
    timestamp, odd, replica_at = 0.0, False, 0
    for _ in range(count):
        if mp.TYPE_OF[data[at]] != mp.UINT:
            raise bad_header(offset)
        key = mp.integer(data, at)
        at += mp.SIZE_OF[data[at]]
        kind = mp.TYPE_OF[data[at]]
        if key == TIMESTAMP:
            if kind != mp.DOUBLE:
                raise bad_header(offset)
            timestamp = _DOUBLE.unpack_from(data, at + 1)[0]
        elif key in (TYPE, SYNC, REPLICA_ID, LSN, GROUP_ID, TSN, FLAGS):
            if kind != mp.UINT:
                raise bad_header(offset)
            if key == REPLICA_ID:
                replica_at = -1 if key in numbers else at
            numbers[key] = mp.integer(data, at)
        else:
            odd = True
        at = mp.mp_next(data, at)
    return _head(numbers, timestamp, odd, offset, body)._replace(replica_at=replica_at)


def _head(numbers: dict[int, int], timestamp: float, odd: bool, offset: int, body: int) -> Head:
    type, replica_id, group_id = (numbers.get(key, 0) for key in (TYPE, REPLICA_ID, GROUP_ID))
    lsn, flags = numbers.get(LSN, 0), numbers.get(FLAGS, 0) & 0xFF
    if replica_id >= VCLOCK_MAX or lsn > _U63 or type > _U32 or group_id > _U32:
        raise bad_header(offset)
    is_part = TSN in numbers
    tsn = (lsn - numbers[TSN]) & _U64 if is_part else lsn
    if not is_part:
        flags |= COMMIT
    return Head(type, replica_id, group_id, lsn, timestamp, tsn, flags, is_part, odd, body, 0)
