"""Rows parted by primary key. The contract is `_split.pyi`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from headwater.kernels.columnplan import RowError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.fields import FieldCheck
from headwater.kernels.pure.keys import Flat, KeyDef, KeyPart, flat_value
from headwater.kernels.pure.rows import COMMIT, header
from headwater.kernels.pure.splitrows import (
    DELETE,
    DELETE_RANGE,
    I64_MAX,
    INSERT,
    REPLACE,
    UPDATE,
    UPSERT,
    Body,
    Head,
    check_offset,
    lsns,
    read_body,
    read_head,
    space_of,
)
from headwater.kernels.pure.survey import Survey
from headwater.typing import VCLOCK_MAX

__all__ = ["Splitter", "Survey", "keys_of", "number", "tuples_of", "unframe"]

Part = tuple[int, int, bool, Callable[[bytes], bytes] | None]


class _Space:
    """How the rows of one space are parted."""

    def __init__(self, parts: Sequence[Part], bounds: Sequence[bytes], first: int, number_field: int) -> None:
        self._parts = list(parts)
        by_key = KeyDef([KeyPart(place, kind, nil, False, key) for place, (_, kind, nil, key) in enumerate(parts)])
        self._bounds: list[Flat] = []
        for bound in bounds:
            by_key.check_key(bound, exact=False)
            flat = by_key.flat_key(bound)
            if len(flat) != by_key.own_size:
                raise ValueError("a bound has a value for every part of the key")
            self._bounds.append(flat)
        self._checks = [FieldCheck(kind, nullable) for _, kind, nullable, _ in parts]
        self._number_field = number_field
        self.first = first
        self.numbers: tuple[int, int] | None = None

    @property
    def last(self) -> int:
        return self.first + len(self._bounds)

    def bucket(self, rows: bytes, at: int, *, is_key: bool) -> int:
        """Of the tuple or key at `at`."""
        if not self._bounds:
            return self.first
        offsets = mp.mp_array_fields(rows, at)
        flat: list[object] = []
        for place, (field, _, nullable, sort_key) in enumerate(self._parts):
            field = place if is_key else field
            if field >= len(offsets) - 1:
                if not nullable:
                    return self.first
                flat += flat_value(b"\xc0", 0)
                continue
            if self._checks[place].fault(rows, offsets[field]):
                return self.first
            flat += flat_value(rows, offsets[field], sort_key)
        return self.first + bisect_right(self._bounds, tuple(flat))

    def watch(self, rows: bytes, at: int) -> None:
        """The number that moves a sequence on."""
        if self._number_field < 0:
            return
        offsets = mp.mp_array_fields(rows, at)
        if self._number_field >= len(offsets) - 1:
            return
        begin = offsets[self._number_field]
        if mp.TYPE_OF[rows[begin]] not in (mp.UINT, mp.INT):
            return
        value = mp.integer(rows, begin)
        if value <= I64_MAX:
            least, greatest = self.numbers or (value, value)
            self.numbers = min(least, value), max(greatest, value)


class Splitter:
    """Any number of calls of `split`, then `take`."""

    def __init__(self, buckets: int) -> None:
        self.size = 0
        self._low, self._high = [-1] * VCLOCK_MAX, [I64_MAX] * VCLOCK_MAX
        self._dropped: list[tuple[int, int, int]] = []
        self._spaces: dict[int, _Space] = {}
        self._out: list[list[bytes]] = [[] for _ in range(buckets)]

    def set_range(self, low: Sequence[int], high: Sequence[int]) -> None:
        self._low, self._high = lsns(low), lsns(high)

    def set_dropped(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        for replica_id, _, _ in ranges:
            if not 0 < replica_id < VCLOCK_MAX:
                raise ValueError(f"there is no replica {replica_id} whose transactions could be taken back")
        self._dropped = sorted(ranges)

    def set_space(
        self, space_id: int, parts: Sequence[Part], bounds: Sequence[bytes], first: int, number_field: int = -1
    ) -> None:
        space = _Space(parts, bounds, first, number_field)
        if space.last >= len(self._out):
            raise ValueError(f"there are {len(self._out)} buckets")
        self._spaces[space_id] = space

    def drop_space(self, space_id: int) -> None:
        self._spaces.pop(space_id, None)

    def split(self, rows: bytes, offset: int, count: int) -> tuple[int, int]:
        check_offset(rows, offset)
        read = 0
        while offset < len(rows) and read < count:
            head = read_head(rows, offset)
            read += 1
            if head.is_change and self._low[head.replica_id] < head.lsn <= self._high[head.replica_id]:
                space = self._spaces.get(space_of(rows, head))
                if space is not None and not self._is_dropped(head):
                    self._place(rows, space, head, read_body(rows, head))
            offset = head.end
        return offset, read

    def _is_dropped(self, head: Head) -> bool:
        return any(owner == head.replica_id and first <= head.lsn <= last for owner, first, last in self._dropped)

    def _place(self, rows: bytes, space: _Space, head: Head, body: Body) -> None:
        if head.type in (INSERT, REPLACE, UPSERT):
            if body.tuple is None:
                raise RowError("a row without its tuple", head.begin, head.lsn)
            if head.type != UPSERT:
                space.watch(rows, body.tuple)
            self._add(space.bucket(rows, body.tuple, is_key=False), rows, head)
        elif head.type in (DELETE, UPDATE):
            if body.key is None:
                raise RowError("a row without its key", head.begin, head.lsn)
            if body.index_id == 0:
                self._add(space.bucket(rows, body.key, is_key=True), rows, head)
        elif head.type == DELETE_RANGE:
            for bucket in range(space.first, space.last + 1):
                self._add(bucket, rows, head)

    def _add(self, bucket: int, rows: bytes, head: Head) -> None:
        self.put(bucket, header(head.type, head.replica_id, 0, head.lsn, 0.0) + rows[head.body : head.end])

    def put(self, bucket: int, row: bytes) -> None:
        if not 0 <= bucket < len(self._out):
            raise ValueError(f"there are {len(self._out)} buckets")
        self._out[bucket].append(row)
        self.size += len(row)

    def take(self) -> list[tuple[int, bytes, int]]:
        out = [(bucket, b"".join(rows), len(rows)) for bucket, rows in enumerate(self._out) if rows]
        self._out = [[] for _ in self._out]
        self.size = 0
        return out

    def numbers(self) -> dict[int, tuple[int, int]]:
        out: dict[int, tuple[int, int]] = {}
        for space_id, space in self._spaces.items():
            if space.numbers is not None:
                out[space_id] = space.numbers
                space.numbers = None
        return out


def number(rows: bytes, offset: int, base: int, limit: int) -> tuple[bytes, int, int]:
    check_offset(rows, offset)
    out = bytearray()
    count = 0
    while offset < len(rows) and (not count or len(out) < limit):
        head = read_head(rows, offset)
        out += header(head.type, 0, head.group_id, base + count, head.timestamp)
        out += rows[head.body : head.end] if head.body is not None else b""
        count += 1
        offset = head.end
    return bytes(out), offset, count


def keys_of(rows: bytes, offset: int, spaces: Mapping[int, Sequence[int]]) -> list[tuple[int, bytes]]:
    check_offset(rows, offset)
    found: list[tuple[int, bytes]] = []
    while offset < len(rows):
        head = read_head(rows, offset)
        offset = head.end
        if not head.is_change or head.body is None:
            continue
        body = read_body(rows, head)
        fields = spaces.get(body.space_id)
        at = body.tuple if body.tuple is not None else body.key if body.index_id == 0 else None
        if fields is None or at is None:
            continue
        wanted = list(fields) if body.tuple is not None else list(range(len(fields)))
        offsets = mp.mp_array_fields(rows, at)
        if all(field < len(offsets) - 1 for field in wanted):
            parts = (rows[offsets[field] : offsets[field + 1]] for field in wanted)
            found.append((body.space_id, mp.array_header(len(wanted)) + b"".join(parts)))
    return found


def unframe(packets: bytes, offset: int, base: int) -> tuple[bytes, int, int]:
    check_offset(packets, offset)
    out = bytearray()
    count = 0
    while (place := _packet(packets, offset)) is not None:
        begin, after = place
        head = read_head(packets[:after], begin)
        if head.end != after:
            raise RowError("can't parse row", offset, head.lsn)
        body = packets[head.body : after] if head.body is not None else b""
        if base >= 0:
            out += header(head.type, 0, head.group_id, base + count, head.timestamp) + body
        else:
            flags = head.flags & COMMIT
            out += header(head.type, head.replica_id, head.group_id, head.lsn, head.timestamp, head.tsn, flags) + body
        count += 1
        offset = after
    return bytes(out), offset, count


def _packet(packets: bytes, offset: int) -> tuple[int, int] | None:
    """Where the header of the packet at `offset` begins and where it ends; None if it is not whole."""
    if offset >= len(packets):
        return None
    if mp.TYPE_OF[packets[offset]] != mp.UINT:
        raise RowError("a packet does not begin with its length", offset)
    begin = offset + mp.SIZE_OF[packets[offset]]
    if begin > len(packets):
        return None
    after = begin + mp.integer(packets, offset)
    return None if after > len(packets) else (begin, after)


def tuples_of(rows: bytes, offset: int) -> tuple[bytes, bytes]:
    check_offset(rows, offset)
    ends, data = [0], bytearray()
    while offset < len(rows):
        head = read_head(rows, offset)
        offset = head.end
        if head.type in (INSERT, REPLACE) and head.body is not None:
            body = read_body(rows, head)
            if body.tuple is None:
                raise RowError("a row without its tuple", head.begin, head.lsn)
            data += rows[body.tuple : mp.mp_next(rows, body.tuple)]
            ends.append(len(data))
    return b"".join(end.to_bytes(4, "little") for end in ends), bytes(data)
