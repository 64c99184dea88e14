"""The order of values, tuples and keys (tuple_compare.cc).

Every value becomes two plain Python objects, (class, value), that compare as Tarantool compares; a key is the flat
tuple of those of its parts. So a partial key is a prefix, and Python's own comparison is the whole algorithm.

Numbers compare exactly by value, but a double that is not whole stands for the shortest decimal that reads back as
it: so double 0.1 equals decimal 0.1, as in Tarantool. There a double that meets a decimal is cut to 15 digits, which
is no order (two unequal doubles equal one decimal), so here we differ on purpose.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.extensions import DATETIME, DECIMAL, INTERVAL, UUID
from headwater.kernels.pure.fields import FieldCheck, whole_array
from headwater.kernels.pure.violations import KeyViolation
from headwater.typing import FieldType

NIL, BOOL, NAN, NUMBER, STRING, BINARY, UUID_, DATETIME_, INCOMPARABLE = range(9)
"""enum mp_class; NaN is smaller than every number, so it has a class of its own."""

ABOVE = (99,)
"""Appended to a prefix it is greater than every key with that prefix."""

Flat = tuple[Any, ...]
SortKey = Callable[[bytes], bytes] | None


def flat_value(data: bytes, offset: int, sort_key: SortKey = None) -> tuple[int, Any]:
    """(class, value) of the value at `offset`."""
    code = data[offset]
    if code < 0x80:
        return NUMBER, code
    kind = mp.TYPE_OF[code]
    if kind == mp.UINT or kind == mp.INT:
        return NUMBER, mp.integer(data, offset)
    if kind == mp.STR:
        text = mp.blob(data, offset)
        return STRING, sort_key(text) if sort_key else text
    if kind == mp.DOUBLE or kind == mp.FLOAT:
        return _flat_float(data, offset, kind == mp.DOUBLE)
    if kind == mp.NIL:
        return NIL, 0
    if kind == mp.BOOL:
        return BOOL, code & 1
    if kind == mp.BIN:
        return BINARY, mp.blob(data, offset)
    if kind == mp.EXT:
        return _flat_extension(data, offset)
    return INCOMPARABLE, kind


def _flat_float(data: bytes, offset: int, double: bool) -> tuple[int, Any]:
    value: float
    (value,) = struct.unpack_from(">d" if double else ">f", data, offset + 1)
    if value == value:
        return NUMBER, value if value.is_integer() or abs(value) == math.inf else Decimal(repr(value))
    # A quiet NaN is greater than a signaling one; turning a float into a double makes it quiet.
    return NAN, data[offset + 2] >> 3 & 1 if double else 1


def _flat_extension(data: bytes, offset: int) -> tuple[int, Any]:
    kind, body = mp.extension(data, offset)
    if kind == DECIMAL:
        return NUMBER, decimal_value(body)
    if kind == UUID:
        return UUID_, body
    if kind == DATETIME:
        nsec = int.from_bytes(body[8:12], "little", signed=True)
        return DATETIME_, (int.from_bytes(body[:8], "little", signed=True), nsec)
    return INCOMPARABLE, mp.EXT if kind == INTERVAL else mp.NEVER


def decimal_value(body: bytes) -> Decimal:
    """The number of a decimal extension's contents."""
    size = mp.SIZE_OF[body[0]]
    digits = body[size:].hex()
    sign = "-" if digits[-1] in "bd" else ""
    return Decimal(f"{sign}{digits[:-1]}E{-mp.integer(body, 0)}")


def mp_compare(a: bytes, b: bytes) -> int:
    """-1, 0, 1: two scalar values in the order of `scalar`."""
    for data in (a, b):
        if mp.mp_next(data) != len(data):
            raise MsgPackError("junk after the value to compare")
    left, right = flat_value(a, 0), flat_value(b, 0)
    if INCOMPARABLE in (left[0], right[0]):
        raise MsgPackError("arrays, maps, intervals and unknown extensions have no order")
    return order(left, right)


def order(a: Flat, b: Flat) -> int:
    return -1 if a < b else int(a != b)


class KeyPart:
    """One part of an index key."""

    def __init__(
        self,
        field: int,
        type: int,
        nullable: bool = False,
        exclude_null: bool = False,
        sort_key: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.field = field
        self.type = int(FieldType(type))
        self.nullable = nullable
        self.exclude_null = exclude_null
        self.sort_key = sort_key


class KeyDef:
    """How tuples are ordered by one index: its own parts, then the parts of the primary key."""

    def __init__(self, parts: Sequence[KeyPart], tail: Sequence[KeyPart] = ()) -> None:
        self.parts = tuple(parts)
        self.part_count = len(self.parts)
        self.own_size = 2 * self.part_count
        self.nullable = any(part.nullable for part in self.parts)
        self._all = [(part.field, part.sort_key) for part in (*parts, *tail)]
        self._excluding = [part.field for part in self.parts if part.exclude_null]
        self._exact_checks = [FieldCheck(part.type, nullable=False) for part in self.parts]
        self._search_checks = [FieldCheck(part.type, part.nullable) for part in self.parts]

    def extract(self, tuple: bytes) -> bytes:
        """The key of a tuple as a MessagePack array of `part_count` values; a missing field is nil."""
        offsets = whole_array(tuple)
        out = [mp.array_header(self.part_count)]
        for part in self.parts:
            there = part.field < len(offsets) - 1
            out.append(tuple[offsets[part.field] : offsets[part.field + 1]] if there else b"\xc0")
        return b"".join(out)

    def compare(self, a: bytes, b: bytes) -> int:
        """Order of two tuples by parts and tail."""
        return order(self.flat(a, whole_array(a)), self.flat(b, whole_array(b)))

    def compare_with_key(self, tuple: bytes, key: bytes) -> int:
        """Order of a tuple against a (maybe partial) key array."""
        prefix = self.flat_key(key)
        return order(self.flat(tuple, whole_array(tuple))[: len(prefix)], prefix)

    def check_key(self, key: bytes, exact: bool) -> None:
        """KeyViolation when the key does not fit."""
        offsets = whole_array(key)
        count = len(offsets) - 1
        if count > self.part_count or (exact and count < self.part_count):
            raise KeyViolation("count", 0, self.part_count, count)
        checks = self._exact_checks if exact else self._search_checks
        for number, (check, offset) in enumerate(zip(checks, offsets[:-1], strict=False)):
            fault = check.fault(key, offset)
            if fault:
                raise KeyViolation(fault, number, check.type, count)

    def flat(self, data: bytes, offsets: list[int]) -> Flat:
        """The comparison key of a tuple, all parts and the tail."""
        count = len(offsets) - 1
        out: list[Any] = []
        for field, sort_key in self._all:
            out += flat_value(data, offsets[field], sort_key) if field < count else (NIL, 0)
        return tuple(out)

    def flat_key(self, key: bytes) -> Flat:
        """The comparison key of a key array that a client gave."""
        offsets = whole_array(key)
        if len(offsets) - 1 > self.part_count:
            raise KeyViolation("count", 0, self.part_count, len(offsets) - 1)
        out: list[Any] = []
        for offset, part in zip(offsets[:-1], self.parts, strict=False):
            out += flat_value(key, offset, part.sort_key)
        return tuple(out)

    def excludes(self, data: bytes, offsets: list[int]) -> bool:
        """Does a part with exclude_null keep this tuple out of the index?"""
        count = len(offsets) - 1
        return any(field >= count or data[offsets[field]] == 0xC0 for field in self._excluding)

    def has_nil(self, flat: Flat) -> bool:
        """Is one of the own parts nil? Then uniqueness does not bind."""
        return self.nullable and NIL in flat[: self.own_size : 2]
