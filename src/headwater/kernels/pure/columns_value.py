"""A column that grows, and what becomes of a value in it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from headwater.kernels.columnplan import Kind, Utf8
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.columns_text import (
    DATETIME_EXT,
    DECIMAL_EXT,
    INTERVAL_EXT,
    UUID_EXT,
    decimal_text,
    is_utf8,
    unpack_datetime,
    unpack_decimal,
    unpack_interval,
    uuid_text,
)
from headwater.kernels.pure.columns_variant import Texts, Variants, real

_WIDTHS: Mapping[int, int] = {
    Kind.BOOL: 1, Kind.INT8: 1, Kind.INT16: 2, Kind.INT32: 4, Kind.INT64: 8, Kind.FLOAT: 4, Kind.DOUBLE: 8,
    Kind.DECIMAL: 16, Kind.TIMESTAMP: 8, Kind.DATETIME_PART: 8, Kind.INTERVAL_PART: 8,
}  # fmt: skip
"""Bytes of a value; the others have offsets."""
_INTEGERS = frozenset((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64))
_REALS = frozenset((Kind.FLOAT, Kind.DOUBLE))
_MOMENT_MAX = 9_223_372_036_852
_INF = float("inf")


class Column:
    """Values so far. A value is appended whole or not at all."""

    def __init__(self, source: int, kind: int, a: int, b: int) -> None:
        self.source = source
        self.kind = kind
        self.a = a
        self.b = b
        self.width = _WIDTHS.get(kind, 0)
        self.valid = bytearray()
        """One byte a row."""
        self.data = bytearray()
        self.ends = [0]
        self.metadata = bytearray()
        self.metadata_ends = [0]

    def add(self, value: bytes) -> None:
        self.valid.append(1)
        self.data += value
        if not self.width:
            self.ends.append(len(self.data))

    def add_variant(self, value: bytes, metadata: bytes) -> None:
        self.add(value)
        self.metadata += metadata
        self.metadata_ends.append(len(self.metadata))

    def add_null(self) -> None:
        self.valid.append(0)
        self.data += bytes(self.width)
        if not self.width:
            self.ends.append(len(self.data))
        if self.kind == Kind.VARIANT:
            self.metadata_ends.append(len(self.metadata))

    def cut(self, rows: int) -> None:
        """Back to so many values."""
        del self.valid[rows:], self.ends[rows + 1 :], self.metadata_ends[rows + 1 :]
        del self.data[rows * self.width if self.width else self.ends[-1] :]
        del self.metadata[self.metadata_ends[-1] :]

    @property
    def size(self) -> int:
        """Bytes of any length."""
        return 0 if self.width else len(self.data) + len(self.metadata)

    def take(self) -> tuple[int, bytes | None, list[bytes]]:
        nulls = self.valid.count(0)
        if self.width:
            buffers = [_bits(self.data) if self.kind == Kind.BOOL else bytes(self.data)]
        else:
            buffers = [_offsets(self.ends), bytes(self.data)]
            if self.kind == Kind.VARIANT:
                buffers += [_offsets(self.metadata_ends), bytes(self.metadata)]
        taken = nulls, _bits(self.valid) if nulls else None, buffers
        self.cut(0)
        return taken


def _bits(values: bytearray) -> bytes:
    """One bit for each byte, the first one lowest."""
    out = bytearray((len(values) + 7) // 8)
    for at, value in enumerate(values):
        out[at >> 3] |= (value != 0) << (at & 7)
    return bytes(out)


def _offsets(ends: list[int]) -> bytes:
    return struct.pack(f"<{len(ends)}i", *ends)


def put_value(column: Column, data: bytes, at: int, variants: Variants, texts: Texts, utf8: int) -> bool:
    """The checked value at `at`; False if it has no place in this column."""
    kind = mp.TYPE_OF[data[at]]
    if kind == mp.NIL and (column.kind != Kind.VARIANT or column.a):
        column.add_null()
    elif column.kind == Kind.VARIANT:
        column.add_variant(*variants.write(data, at))
    else:
        packed = _packed(column, data, at, kind, texts, utf8)
        if packed is None:
            return False
        column.add(packed)
    return True


def put_packed(column: Column, data: bytes, at: int, variants: Variants) -> None:
    """The checked value at `at` into a column of variants, or as it stands."""
    if column.kind == Kind.VARIANT:
        column.add_variant(*variants.write(data, at))
    else:
        column.add(data[at : mp.mp_next(data, at)])


def _packed(column: Column, data: bytes, at: int, kind: int, texts: Texts, utf8: int) -> bytes | None:
    if kind in (mp.UINT, mp.INT):
        return _integer(column, mp.integer(data, at))
    if kind == mp.STR:
        return _string(column, mp.blob(data, at), utf8)
    if kind in (mp.FLOAT, mp.DOUBLE):
        return _real(column, real(data, at)) if column.kind in _REALS else None
    if kind == mp.BOOL:
        return bytes((data[at] == 0xC3,)) if column.kind == Kind.BOOL else None
    if kind == mp.BIN:
        return mp.blob(data, at) if column.kind == Kind.BINARY else None
    if kind == mp.EXT:
        return _extension(column, *mp.extension(data, at), texts)
    return None


def _integer(column: Column, value: int) -> bytes | None:
    if column.kind in _INTEGERS:
        bits = 8 * column.width - 1
        return value.to_bytes(column.width, "little", signed=True) if -(1 << bits) <= value < 1 << bits else None
    if column.kind in _REALS:
        return _real(column, float(value))
    if column.kind == Kind.DECIMAL:
        return _decimal128(column, value < 0, str(abs(value)), 0)
    return None


def _real(column: Column, value: float) -> bytes:
    if column.kind == Kind.DOUBLE:
        return struct.pack("<d", value)
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", _INF if value > 0 else -_INF)


def _string(column: Column, raw: bytes, utf8: int) -> bytes | None:
    if column.kind == Kind.BINARY:
        return raw
    if column.kind != Kind.STRING:
        return None
    if is_utf8(raw):
        return raw
    return raw.decode(errors="replace").encode() if utf8 == Utf8.REPLACE else None


def _decimal128(column: Column, minus: bool, digits: str, scale: int) -> bytes | None:
    """digits * 10^-scale with the digits behind the point that the column has; None if it does not fit exactly."""
    if digits == "0":
        scale = column.b
    while scale > column.b and len(digits) > 1 and digits.endswith("0"):
        digits, scale = digits[:-1], scale - 1
    zeros = column.b - scale
    if zeros < 0 or zeros > 38 or (digits != "0" and len(digits) + zeros > column.a):
        return None
    value = int(digits + "0" * zeros)
    return (-value if minus else value).to_bytes(16, "little", signed=True)


def _extension(column: Column, kind: int, contents: bytes, texts: Texts) -> bytes | None:
    found = _EXTENSIONS.get((kind, column.kind))
    if found is not None:
        return found(column, contents)
    if column.kind == Kind.EXT_TEXT and (kind - 256 if kind > 127 else kind) == column.a:
        return texts(column.a, contents).encode(errors="replace")
    return None


def _moment(column: Column, contents: bytes) -> bytes | None:
    """A datetime in microseconds; None where 64 bits do not hold it."""
    seconds, nsec, *_ = unpack_datetime(contents)
    if not -_MOMENT_MAX <= seconds <= _MOMENT_MAX:
        return None
    return struct.pack("<q", seconds * 1_000_000 + nsec // 1000)


_EXTENSIONS: Mapping[tuple[int, int], Callable[[Column, bytes], bytes | None]] = {
    (DECIMAL_EXT, Kind.DECIMAL): lambda column, contents: _decimal128(column, *unpack_decimal(contents)),
    (DECIMAL_EXT, Kind.DECIMAL_TEXT): lambda _, contents: decimal_text(contents).encode(),
    (DECIMAL_EXT, Kind.DOUBLE): lambda _, contents: struct.pack("<d", float(decimal_text(contents))),
    (UUID_EXT, Kind.UUID): lambda _, contents: uuid_text(contents).encode(),
    (UUID_EXT, Kind.UUID_BYTES): lambda _, contents: contents,
    (DATETIME_EXT, Kind.TIMESTAMP): _moment,
    (DATETIME_EXT, Kind.DATETIME_PART): lambda column, contents: struct.pack("<q", unpack_datetime(contents)[column.a]),
    (INTERVAL_EXT, Kind.INTERVAL_PART): lambda column, contents: struct.pack("<q", unpack_interval(contents)[column.a]),
}
"""(type of the extension, kind of the column)"""
