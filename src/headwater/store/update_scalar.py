"""Values that update operations reckon with: numbers and strings (xrow_update_field.c).

A result has the type that Tarantool gives it: integers stay integers within -2^63 .. 2^64-1, a decimal on either side
makes a decimal, otherwise a float or double makes a float if that holds it exactly, else a double.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, Overflow
from enum import IntEnum

from headwater.typing import FieldType
from headwater.wire.constants import ExtType, MpType
from headwater.wire.mpread import KIND, read_bytes, read_double, read_ext, read_uint
from headwater.wire.mpwrite import pack_bin, pack_double, pack_ext, pack_int, pack_str
from headwater.wire.values import DECIMAL_MAX_DIGITS, pack_decimal, unpack_decimal

_FLOAT_MAX = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
_DOUBLE_DIGITS = 15
"""DBL_DIG: what decimal_from_double prints of a double."""
_DECIMAL_EXPONENT_MAX = 999_999


class ScalarKind(IntEnum):
    """enum xrow_update_scalar_type: arithmetic takes the lower kind of its two sides."""

    NONE = 0
    DECIMAL = 1
    DOUBLE = 2
    FLOAT = 3
    INT = 4
    STR = 5
    BIN = 6


@dataclass(frozen=True, slots=True)
class Scalar:
    kind: ScalarKind
    value: int | float | Decimal | bytes = 0

    @property
    def is_number(self) -> bool:
        return ScalarKind.DECIMAL <= self.kind <= ScalarKind.INT

    def pack(self, type: FieldType = FieldType.ANY) -> bytes:
        """MessagePack; `type` is that of the field, which says float or double where it has a say."""
        value = self.value
        if isinstance(value, bytes):
            return pack_str(value) if self.kind == ScalarKind.STR else pack_bin(value)
        if isinstance(value, Decimal):
            return pack_ext(ExtType.DECIMAL, pack_decimal(value))
        if isinstance(value, int):
            return pack_int(value)
        if self.kind == ScalarKind.DOUBLE:
            return _pack_float(value) if type == FieldType.FLOAT32 else pack_double(value)
        return pack_double(value) if type in (FieldType.DOUBLE, FieldType.FLOAT64) else _pack_float(value)


NOTHING = Scalar(ScalarKind.NONE)
"""A value that no operation but `=`, `!`, `#` can work on."""


class OverflowOf(Exception):  # noqa: N818
    """The result is out of range: of integers, or of decimals."""

    def __init__(self, kind: ScalarKind) -> None:
        super().__init__(kind)
        self.kind = kind


class NotADecimal(Exception):  # noqa: N818
    """Infinity or NaN beside a decimal."""


def _pack_float(value: float) -> bytes:
    try:
        return b"\xca" + struct.pack(">f", value)
    except OverflowError:
        return b"\xca" + struct.pack(">f", math.copysign(math.inf, value))


def read_scalar(data: bytes, at: int) -> Scalar:
    """The value at `at`; NOTHING if it is neither number nor string."""
    kind = KIND[data[at]]
    if kind == MpType.UINT:
        return Scalar(ScalarKind.INT, read_uint(data, at)[0])
    if kind == MpType.INT:
        return Scalar(ScalarKind.INT, read_signed(data, at))
    if kind == MpType.DOUBLE:
        return Scalar(ScalarKind.DOUBLE, read_double(data, at)[0])
    if kind == MpType.FLOAT:
        return Scalar(ScalarKind.FLOAT, struct.unpack_from(">f", data, at + 1)[0])
    if kind == MpType.STR:
        return Scalar(ScalarKind.STR, read_bytes(data, at)[0])
    if kind == MpType.BIN:
        return Scalar(ScalarKind.BIN, read_bytes(data, at)[0])
    if kind == MpType.EXT:
        type, body, _ = read_ext(data, at)
        if type == ExtType.DECIMAL:
            return Scalar(ScalarKind.DECIMAL, unpack_decimal(body))
    return NOTHING


def read_signed(data: bytes, at: int) -> int:
    """The MP_INT at `at`."""
    code = data[at]
    if code >= 0xE0:
        return code - 0x100
    return int.from_bytes(data[at + 1 : at + 1 + (1 << (code - 0xD0))], "big", signed=True)


def add(left: Scalar, right: Scalar, subtract: bool) -> Scalar:
    """`left + right` or `left - right` (xrow_update_op_do_arith); both are numbers."""
    lowest = min(left.kind, right.kind)
    if lowest == ScalarKind.DECIMAL:
        return _add_decimals(_to_decimal(left), _to_decimal(right), subtract)
    if lowest == ScalarKind.INT:
        a, b = left.value, right.value
        assert isinstance(a, int)
        assert isinstance(b, int)
        result = a - b if subtract else a + b
        if not -(1 << 63) <= result < 1 << 64:
            raise OverflowOf(ScalarKind.INT)
        return Scalar(ScalarKind.INT, result)
    x, y = float(left.value), float(right.value)
    return _of_double(x - y if subtract else x + y)


def _of_double(value: float) -> Scalar:
    """A float where that loses nothing."""
    if -_FLOAT_MAX <= value <= _FLOAT_MAX and struct.unpack(">f", struct.pack(">f", value))[0] == value:
        return Scalar(ScalarKind.FLOAT, value)
    return Scalar(ScalarKind.DOUBLE, value)


def _to_decimal(scalar: Scalar) -> Decimal:
    """decimal.c, decimal_from_double and kin."""
    value = scalar.value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotADecimal
        return Decimal(f"{value:.{_DOUBLE_DIGITS}g}")
    assert not isinstance(value, bytes)
    return Decimal(value)


def _add_decimals(a: Decimal, b: Decimal, subtract: bool) -> Scalar:
    limit = _DECIMAL_EXPONENT_MAX
    context = Context(DECIMAL_MAX_DIGITS, ROUND_HALF_UP, Emin=-limit, Emax=limit, traps=[Overflow, InvalidOperation])
    try:
        result = context.subtract(a, b) if subtract else context.add(a, b)
    except (Overflow, InvalidOperation):
        raise OverflowOf(ScalarKind.DECIMAL) from None
    return Scalar(ScalarKind.DECIMAL, result)


def splice(text: Scalar, offset: int, cut: int, paste: bytes) -> Scalar | None:
    """Cut `cut` bytes at `offset` and put `paste` there (xrow_update_op_do_splice). A negative offset counts from the
    end, -1 being behind the last byte; a negative cut leaves so many bytes at the end. None: out of bounds."""
    data = text.value
    assert isinstance(data, bytes)
    size = len(data)
    if offset < 0:
        if -offset > size + 1:
            return None
        offset += size + 1
    offset = min(offset, size)
    rest = size - offset
    if cut < 0:
        cut = 0 if -cut > rest else cut + rest
    cut = min(cut, rest)
    return Scalar(text.kind, data[:offset] + paste + data[offset + cut :])
