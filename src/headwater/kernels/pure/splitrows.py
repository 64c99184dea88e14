"""A row of a file as the kernels between logs and states read it (xrow.c, xrow_decode and xrow_decode_dml)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import RowError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.rows import COMMIT
from headwater.typing import VCLOCK_MAX

INSERT, REPLACE, UPDATE, DELETE, UPSERT, NOP, DELETE_RANGE = 2, 3, 4, 5, 9, 12, 18
RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK = 30, 31, 32, 40, 41
CHANGES = frozenset((INSERT, REPLACE, UPDATE, DELETE, UPSERT, 17, DELETE_RANGE))
WAIT_SYNC, WAIT_ACK = 2, 4
I64_MAX = (1 << 63) - 1

_TYPE, _REPLICA_ID, _LSN, _TIMESTAMP, _SCHEMA, _GROUP_ID, _TSN, _FLAGS = 0, 2, 3, 4, 5, 7, 8, 9
_NUMBERS_END = 0x0B
_VERSION = 6
SPACE, INDEX, KEY, TUPLE, OPS = 0x10, 0x11, 0x20, 0x21, 0x28
_ARRAYS = frozenset((KEY, TUPLE, OPS, 0x2C, 0x2D))
_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1


@dataclass(slots=True)
class Head:
    """One row: its header, and where it lies."""

    begin: int
    body: int | None
    """Offset of the body, None without one."""
    end: int
    type: int = 0
    replica_id: int = 0
    group_id: int = 0
    lsn: int = 0
    tsn: int = 0
    flags: int = 0
    timestamp: float = 0.0

    @property
    def is_change(self) -> bool:
        return self.type in CHANGES

    @property
    def is_last(self) -> bool:
        return bool(self.flags & COMMIT)


@dataclass(slots=True)
class Body:
    """A change: offsets of its arrays."""

    space_id: int = -1
    index_id: int = 0
    key: int | None = None
    tuple: int | None = None


def check_offset(rows: bytes, offset: int) -> None:
    if not 0 <= offset <= len(rows):
        raise MsgPackError(f"truncated input: {offset}..{len(rows)} does not lie in {len(rows)} bytes")


def read_head(rows: bytes, at: int) -> Head:
    """The row at `at`; RowError if there is none."""
    try:
        after = mp.mp_next(rows, at)
        head = _header(rows, at, after)
        if after < len(rows) and head.type != NOP:
            head.body, head.end = after, mp.mp_next(rows, after)
    except MsgPackError:
        raise RowError("can't parse row", at) from None
    if head.replica_id >= VCLOCK_MAX:
        raise RowError("can't parse row", at, head.lsn)
    return head


def _header(rows: bytes, begin: int, end: int) -> Head:
    head = Head(begin, None, end)
    if mp.TYPE_OF[rows[begin]] != mp.MAP:
        raise MsgPackError("no header")
    count, at = mp.container(rows, begin)
    numbers: dict[int, int] = {}
    for _ in range(count):
        if mp.TYPE_OF[rows[at]] != mp.UINT:
            raise MsgPackError("no header")
        key, at = mp.integer(rows, at), at + mp.SIZE_OF[rows[at]]
        kind = mp.TYPE_OF[rows[at]]
        if key == _TIMESTAMP:
            if kind != mp.DOUBLE:
                raise MsgPackError("no header")
            (head.timestamp,) = struct.unpack_from(">d", rows, at + 1)
        elif key <= _NUMBERS_END and key != _VERSION:
            if kind != mp.UINT:
                raise MsgPackError("no header")
            numbers[key] = mp.integer(rows, at)
        at = mp.mp_next(rows, at)
    head.type = numbers.get(_TYPE, 0) & _U32
    head.replica_id = numbers.get(_REPLICA_ID, 0) & _U32
    head.group_id = numbers.get(_GROUP_ID, 0) & _U32
    head.lsn = _signed(numbers.get(_LSN, 0))
    head.tsn = head.lsn - numbers.get(_TSN, 0)
    head.flags = numbers.get(_FLAGS, 0) & 0xFF | (0 if _TSN in numbers else COMMIT)
    return head


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def read_body(rows: bytes, head: Head) -> Body:
    """The body of a change; RowError if it is none."""
    assert head.body is not None
    if mp.TYPE_OF[rows[head.body]] != mp.MAP:
        raise RowError("can't parse row", head.begin, head.lsn)
    body = Body()
    count, at = mp.container(rows, head.body)
    for _ in range(count):
        if mp.TYPE_OF[rows[at]] != mp.UINT:
            raise RowError("can't parse row", head.begin, head.lsn)
        key, at = mp.integer(rows, at), at + mp.SIZE_OF[rows[at]]
        wanted = mp.ARRAY if key in _ARRAYS else mp.UINT if key in (SPACE, INDEX) else mp.TYPE_OF[rows[at]]
        if mp.TYPE_OF[rows[at]] != wanted:
            raise RowError("can't parse row", head.begin, head.lsn)
        if key == SPACE:
            body.space_id = mp.integer(rows, at) & _U32
        elif key == INDEX:
            body.index_id = mp.integer(rows, at) & _U32
        elif key == KEY:
            body.key = at
        elif key == TUPLE and head.type != UPDATE:
            body.tuple = at
        at = mp.mp_next(rows, at)
    return body


def space_of(rows: bytes, head: Head) -> int:
    """The space of a change, -1 without one. Almost every body begins with it: the rest need not be looked at."""
    body = head.body
    if body is None:
        return -1
    is_short = 0x80 < rows[body] <= 0x8F and rows[body + 1] == SPACE
    if is_short and mp.TYPE_OF[rows[body + 2]] == mp.UINT:
        return mp.integer(rows, body + 2) & _U32
    return read_body(rows, head).space_id


def read_confirm(rows: bytes, head: Head) -> tuple[int, int]:
    """(owner, LSN) of a CONFIRM."""
    fault = RowError("can't parse row", head.begin, head.lsn)
    if head.body is None or mp.TYPE_OF[rows[head.body]] != mp.MAP:
        raise fault
    owner = lsn = 0
    count, at = mp.container(rows, head.body)
    for _ in range(count):
        key = mp.integer(rows, at) if mp.TYPE_OF[rows[at]] == mp.UINT else 0
        at = mp.mp_next(rows, at)
        if key in (_REPLICA_ID, _LSN):
            if mp.TYPE_OF[rows[at]] != mp.UINT:
                raise fault
            value = mp.integer(rows, at)
            owner, lsn = (value, lsn) if key == _REPLICA_ID else (owner, value)
        at = mp.mp_next(rows, at)
    if owner >= VCLOCK_MAX or lsn > I64_MAX:
        raise fault
    return owner, lsn


def lsns(numbers: Sequence[int]) -> list[int]:
    if len(numbers) != VCLOCK_MAX:
        raise ValueError(f"{VCLOCK_MAX} numbers are needed, not {len(numbers)}")
    return list(numbers)
