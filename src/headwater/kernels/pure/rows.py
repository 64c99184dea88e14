"""Rows on their way to the journal: header bytes, LSNs, where transactions end."""

from __future__ import annotations

import struct

from headwater.kernels.pure.msgpack import uint

COMMIT = 1
"""IPROTO_FLAG_COMMIT"""


def header(
    type: int,
    replica_id: int,
    group_id: int,
    lsn: int,
    timestamp: float,
    tsn: int = 0,
    flags: int = 0,
    sync: int = 0,
) -> bytes:
    """xrow.c, xrow_header_encode: a map of what is not zero, in this order. The TSN is written as its distance from
    the LSN, and neither it nor the commit flag for a transaction of one row. `sync` is for the wire only."""
    out = [b"", b"\x00", uint(type)]
    if sync:
        out += b"\x01", uint(sync)
    if replica_id:
        out += b"\x02", uint(replica_id)
    if group_id:
        out += b"\x07", uint(group_id)
    if lsn:
        out += b"\x03", uint(lsn)
    if timestamp:
        out += b"\x04", b"\xcb" + struct.pack(">d", timestamp)
    commit = flags & COMMIT
    flags &= ~COMMIT
    if tsn and (tsn != lsn or not commit):
        out += b"\x08", uint((lsn - tsn) % (1 << 64))
        flags |= commit
    if flags:
        out += b"\x09", uint(flags)
    out[0] = bytes((0x80 | len(out) // 2,))
    return b"".join(out)


class Pending:
    """Encoded rows that nobody has taken yet."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._ends: list[int] = []
        self._count = 0

    def add(self, row: bytes, last: bool) -> None:
        """`last`: a transaction ends with this row."""
        self.data += row
        self._count += 1
        if last:
            self._ends.append(len(self.data))

    def mark(self) -> tuple[int, int, int]:
        """Where it ends, for `back`."""
        return len(self.data), len(self._ends), self._count

    def back(self, mark: tuple[int, int, int]) -> None:
        """Forget what was added after `mark`."""
        size, ends, self._count = mark
        del self.data[size:]
        del self._ends[ends:]

    def take(self, apart: int) -> tuple[bytes, list[int], int]:
        """(bytes, offsets after each transaction's last row that are `apart` bytes from each other, count of rows)"""
        ends: list[int] = []
        for end in self._ends:
            if end - (ends[-1] if ends else 0) >= apart or end == self._ends[-1]:
                ends.append(end)
        return bytes(self.data), ends, self._count
