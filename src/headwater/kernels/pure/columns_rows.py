"""The header of a row, and the body of one that changes data (xrow.c, xrow_decode and xrow_decode_dml)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import RowError
from headwater.kernels.pure import msgpack as mp

INSERT, REPLACE, UPDATE, DELETE, UPSERT, NOP = 2, 3, 4, 5, 9, 12
_DML = frozenset((INSERT, REPLACE, UPDATE, DELETE, UPSERT, 17, 18))
"""INSERT_ARROW and DELETE_RANGE too."""
_PICKED = frozenset((INSERT, REPLACE, UPDATE, DELETE, UPSERT))
COMMIT = 1
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_TYPE, _REPLICA_ID, _LSN, _TIMESTAMP, _GROUP_ID, _TSN, _FLAGS = 0, 2, 3, 4, 7, 8, 9
_NUMBERS = frozenset((0, 1, 2, 3, 5, 7, 8, 9, 10, 11))
_SPACE, _INDEX, _BASE, _KEY, _TUPLE, _OPS, _OLD, _NEW = 0x10, 0x11, 0x15, 0x20, 0x21, 0x28, 0x2C, 0x2D
_DOUBLE = struct.Struct(">d")


class Head(NamedTuple):
    type: int
    replica_id: int
    group_id: int
    flags: int
    lsn: int
    tsn: int
    timestamp: float

    @property
    def is_dml(self) -> bool:
        return self.type in _DML

    @property
    def is_last(self) -> bool:
        return bool(self.flags & COMMIT)


class Body(NamedTuple):
    """Offsets of what a change has, -1 for what it has not."""

    key: int
    tuple: int
    ops: int
    old: int
    new: int
    space_id: int
    index_id: int
    index_base: int


class Found(NamedTuple):
    """A row among others."""

    at: int
    """Where it begins, or the packet around it."""
    begin: int
    body: int
    """-1 without one."""
    end: int
    head: Head


def signed(value: int) -> int:
    """The low 64 bits of a number as int64."""
    value &= _U64
    return value - (1 << 64) if value >> 63 else value


def read_head(data: bytes, at: int) -> Head | None:
    """The checked map at `at` as a header; None if a key that counts has another type."""
    if mp.TYPE_OF[data[at]] != mp.MAP:
        return None
    count, at = mp.container(data, at)
    numbers: dict[int, int] = {}
    timestamp = 0.0
    for _ in range(count):
        if mp.TYPE_OF[data[at]] != mp.UINT:
            return None
        key = mp.integer(data, at)
        at += mp.SIZE_OF[data[at]]
        kind = mp.TYPE_OF[data[at]]
        if key == _TIMESTAMP:
            if kind != mp.DOUBLE:
                return None
            timestamp = _DOUBLE.unpack_from(data, at + 1)[0]
        elif key in _NUMBERS:
            if kind != mp.UINT:
                return None
            numbers[key] = mp.integer(data, at)
        at = mp.mp_next(data, at)
    lsn, flags = numbers.get(_LSN, 0), numbers.get(_FLAGS, 0) & 0xFF
    if _TSN not in numbers:
        flags |= COMMIT
    type, replica_id, group_id = (numbers.get(key, 0) & _U32 for key in (_TYPE, _REPLICA_ID, _GROUP_ID))
    return Head(type, replica_id, group_id, flags, signed(lsn), signed(lsn - numbers.get(_TSN, 0)), timestamp)


def read_body(data: bytes, at: int, row_type: int) -> Body | None:
    """The checked map at `at` as the body of a change; None if a key that counts has another type."""
    if mp.TYPE_OF[data[at]] != mp.MAP:
        return None
    count, at = mp.container(data, at)
    found = dict.fromkeys((_KEY, _TUPLE, _OPS, _OLD, _NEW), -1)
    numbers = {_SPACE: -1, _INDEX: 0, _BASE: -1}
    for _ in range(count):
        if mp.TYPE_OF[data[at]] != mp.UINT:
            return None
        key = mp.integer(data, at)
        at += mp.SIZE_OF[data[at]]
        kind = mp.TYPE_OF[data[at]]
        if key in numbers:
            if kind != mp.UINT:
                return None
            numbers[key] = mp.integer(data, at) & _U32
        elif key in found:
            if kind != mp.ARRAY:
                return None
            found[key] = at
        at = mp.mp_next(data, at)
    if row_type == UPDATE:
        # Its operations have the key that a tuple has elsewhere.
        found[_OPS], found[_TUPLE] = found[_TUPLE], -1
    places = (found[name] for name in (_KEY, _TUPLE, _OPS, _OLD, _NEW))
    return Body(*places, *(numbers[name] for name in (_SPACE, _INDEX, _BASE)))


def check_range(data: bytes, offset: int, end: int) -> None:
    if not isinstance(data, bytes):
        raise TypeError(f"expected bytes, got {type(data).__name__}")
    if not 0 <= offset <= end <= len(data):
        raise MsgPackError(f"truncated input: {offset}..{end} does not lie in {len(data)} bytes")


def next_row(data: bytes, at: int, end: int, framed: bool) -> Found | None:
    """The row at `at`, None for a packet that is not whole. RowError."""
    begin, stop = at, end
    if framed:
        if mp.TYPE_OF[data[at]] != mp.UINT:
            raise RowError("a packet does not begin with its length", at)
        begin = at + mp.SIZE_OF[data[at]]
        if begin > end:
            return None
        stop = begin + mp.integer(data, at)
        if stop > end:
            return None
    found = _row(data, at, begin, stop)
    if found is None or (framed and found.end != stop):
        raise RowError("can't parse row", at, end=stop if framed else 0)
    return found


def _row(data: bytes, at: int, begin: int, stop: int) -> Found | None:
    try:
        body = mp.mp_next(data, begin) if begin < stop else stop + 1
        head = read_head(data, begin) if body <= stop else None
        if head is None:
            return None
        if body == stop or head.type == NOP:
            return Found(at, begin, -1, body, head)
        end = mp.mp_next(data, body)
    except MsgPackError:
        return None
    return Found(at, begin, body, end, head) if end <= stop else None


def each_row(data: bytes, offset: int, end: int, framed: bool) -> Iterator[Found]:
    """All that are whole."""
    while offset < end:
        found = next_row(data, offset, end, framed)
        if found is None:
            return
        yield found
        offset = found.end


def pick(rows: bytes, offset: int, space_ids: Sequence[int], framed: bool = False) -> list[tuple[int, int]]:
    """Where the rows of some spaces lie."""
    check_range(rows, offset, len(rows))
    wanted = frozenset(space_ids)
    return [
        (found.begin, found.end)
        for found in each_row(rows, offset, len(rows), framed)
        if found.body >= 0 and found.head.type in _PICKED and _space_of(rows, found) in wanted
    ]


def _space_of(data: bytes, found: Found) -> int:
    """Almost every body begins with its space, so that the rest need not be looked at."""
    at = found.body
    if 0x81 <= data[at] <= 0x8F and data[at + 1] == _SPACE and mp.TYPE_OF[data[at + 2]] == mp.UINT:
        return mp.integer(data, at + 2) & _U32
    body = read_body(data, at, found.head.type)
    if body is None:
        raise RowError("can't parse row", found.at, found.head.lsn, end=found.end)
    return body.space_id


def unframe(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    """The rows of whole packets."""
    check_range(data, offset, end)
    out: list[bytes] = []
    for found in each_row(data, offset, end, framed=True):
        out.append(data[found.begin : found.end])
        if found.body < 0 and found.head.type != NOP:
            out.append(b"\x80")
        offset = found.end
    return b"".join(out), offset
