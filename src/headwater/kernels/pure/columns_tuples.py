"""Tuples in the buffers of an Arrow array of binary: into requests, into rows of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.errors import MsgPackError
from headwater.kernels.packplan import (
    DELETE,
    INSERT,
    UPDATE,
    UPSERT,
    Fault,
    PackError,
    check_requests,
    tuple_fault,
)
from headwater.kernels.pure import columns_mpwrite as write
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.rows import header

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SIZE_MAX = (1 << 31) - 1
_U32 = (1 << 32) - 1


def refused(fault: Fault, row: int) -> PackError:
    return PackError(tuple_fault(fault), row)


class Tuples:
    """`count` tuples from `first` on. No offset is believed."""

    def __init__(self, offsets: Buffer, data: Buffer, first: int, count: int) -> None:
        ends, self._data = memoryview(offsets).cast("B"), memoryview(data).cast("B")
        if not (0 <= first < _SIZE_MAX and 0 <= count < _SIZE_MAX) or (first + count + 1) * 4 > len(ends):
            raise ValueError(f"{count} tuples from {first} on do not lie in {len(ends) // 4} offsets")
        self._ends = ends
        self._first = first
        self._count = count

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """(number, bytes) of each."""
        for row in range(self._first, self._first + self._count):
            first, last = self._offset(row), self._offset(row + 1)
            if not 0 <= first <= last <= len(self._data):
                raise refused(Fault.OFFSETS, row)
            yield row, bytes(self._data[first:last])

    def _offset(self, at: int) -> int:
        return int.from_bytes(self._ends[4 * at : 4 * at + 4], "little", signed=True)

    def arrays(self) -> Iterator[tuple[int, bytes, list[int]]]:
        """(number, bytes, offsets of the fields) of each."""
        for row, data in self:
            try:
                fields = mp.mp_array_fields(data)
            except MsgPackError:
                raise refused(Fault.RAW, row) from None
            if fields[-1] != len(data):
                raise refused(Fault.RAW, row)
            yield row, data, fields


def fields_of(data: bytes, offsets: Sequence[int], wanted: Sequence[int]) -> list[bytes | None]:
    """These fields of a tuple, None for one that it has not."""
    return [data[offsets[at] : offsets[at + 1]] if at < len(offsets) - 1 else None for at in wanted]


class _Requests:
    """What becomes of each tuple."""

    def __init__(
        self, space_id: int, index_id: int, key_fields: Sequence[int], changes: Sequence[tuple[str, int]]
    ) -> None:
        self._space = b"\x10" + write.integer(space_id)
        self._index = b"\x11" + write.integer(index_id)
        self._key_fields = key_fields
        self._changes = changes

    def body(self, type: int, row: int, data: bytes, offsets: Sequence[int]) -> bytes:
        """xrow.c: a map of what the type asks for, in the order of its keys."""
        if type in (UPDATE, DELETE):
            head = self._space + self._index + self._key(row, data, offsets)
            return b"\x83" + head if type == DELETE else b"\x84" + head + self._operations(0x21, row, data, offsets)
        head = self._space + b"\x21" + data
        return b"\x83" + head + self._operations(0x28, row, data, offsets) if type == UPSERT else b"\x82" + head

    def _key(self, row: int, data: bytes, offsets: Sequence[int]) -> bytes:
        return (
            b"\x20"
            + write.array_head(len(self._key_fields))
            + b"".join(self._there(row, data, offsets, self._key_fields))
        )

    def _operations(self, key: int, row: int, data: bytes, offsets: Sequence[int]) -> bytes:
        values = self._there(row, data, offsets, [field for _, field in self._changes])
        return (
            bytes((key,))
            + write.array_head(len(self._changes))
            + b"".join(
                b"\x93\xa1" + operator.encode() + write.integer(field) + value
                for (operator, field), value in zip(self._changes, values, strict=True)
            )
        )

    @staticmethod
    def _there(row: int, data: bytes, offsets: Sequence[int], fields: Sequence[int]) -> list[bytes]:
        found = fields_of(data, offsets, fields)
        there = [value for value in found if value is not None]
        if len(there) < len(found):
            raise refused(Fault.FIELD, row)
        return there


def pack_requests(
    offsets: Buffer,
    data: Buffer,
    first: int,
    count: int,
    type: int,
    space_id: int,
    sync: int,
    stream_id: int = 0,
    index_id: int = 0,
    key_fields: Sequence[int] = (),
    changes: Sequence[tuple[str, int]] = (),
    types: Buffer | None = None,
) -> bytes:
    """Packets of requests, one a tuple."""
    tuples = Tuples(offsets, data, first, count)
    each = None if types is None else bytes(memoryview(types)[:count])
    if each is not None and len(each) != count:
        raise ValueError(f"{len(each)} types for {count} tuples")
    check_requests({type} if each is None else set(each), key_fields, changes)
    requests = _Requests(space_id, index_id, key_fields, changes)
    out = bytearray()
    for row, tuple, fields in tuples.arrays():
        kind = type if each is None else each[row - first]
        head = b"\x00" + write.integer(kind) + b"\x01" + write.integer(sync + row - first)
        head = b"\x83" + head + b"\x0a" + write.integer(stream_id) if stream_id else b"\x82" + head
        packet = head + requests.body(kind, row, tuple, fields)
        out += b"\xce" + len(packet).to_bytes(4, "big") + packet
        if len(out) > _SIZE_MAX:
            raise refused(Fault.SIZE, row)
    return bytes(out)


def pack_rows(
    offsets: Buffer,
    data: Buffer,
    first: int,
    count: int,
    space_id: int,
    group_id: int,
    lsn: int,
    timestamp: float,
    limit: int,
) -> tuple[bytes, int]:
    """INSERT rows of a snapshot."""
    tuples = Tuples(offsets, data, first, count)
    if space_id > _U32:
        raise ValueError(f"space {space_id}")
    out = bytearray()
    rows = 0
    for _, tuple, _ in tuples.arrays():
        out += header(INSERT, 0, group_id, lsn + rows, timestamp)
        out += b"\x82\x10\xce" + space_id.to_bytes(4, "big") + b"\x21" + tuple
        rows += 1
        if len(out) >= limit:
            break
    return bytes(out), rows
