"""Are the contents of an extension what its type promises? (msgpack.c, msgpack_check_ext_data)"""

from __future__ import annotations

import struct
from collections.abc import Callable

from headwater.errors import MsgPackError

DECIMAL, UUID, ERROR, DATETIME, COMPRESSION, INTERVAL, TUPLE, ARROW = range(1, 9)
"""mp_extension_types.h"""

DECIMAL_MAX_DIGITS = 76
"""decimal.h of 3.8; older ones hold 38."""

_DECIMAL_MAX_BYTES = 39
_DECIMAL_EXPONENT_MAX = 999_999
"""DEC_MAX_MATH of decNumber."""

_EPOCH_MIN = (-(2**31) - 719163) * 86400
_EPOCH_MAX = (2**31 - 1 - 719163) * 86400
"""datetime.h: days since 0001-01-01 are an int32, seconds since 1970."""

_MAX_NESTING = 16
"""msgpack.c, MSGPACK_MAX_NESTING: extensions inside extensions."""

Walk = Callable[[bytes, int, int], int]


def check_extension(data: bytes, kind: int, start: int, end: int, depth: int, walk: Walk) -> None:
    """MsgPackError if data[start:end] are not contents of extension `kind`. Unknown kinds are not looked into.

    `depth` extensions are around this one; `walk(data, offset, depth)` is mp_next for what is inside.
    """
    if depth + 1 >= _MAX_NESTING:
        raise MsgPackError("too much nesting")
    if kind == DECIMAL:
        _check_decimal(data[start:end])
    elif kind == UUID:
        if end - start != 16:
            raise _bad("uuid")
    elif kind == DATETIME:
        _check_datetime(data[start:end])
    elif kind == INTERVAL:
        _check_interval(data[start:end])
    elif kind == ERROR:
        _check_nested(data[start:end], "error", depth + 1, walk)
    elif kind == TUPLE:
        _check_nested(data[start:end], "tuple", depth + 1, walk)


def _bad(what: str) -> MsgPackError:
    return MsgPackError(f"cannot unpack {what}")


def _int_at(data: bytes, offset: int, what: str) -> tuple[int, int]:
    """(value, offset after it) of an integer that must be whole."""
    if offset >= len(data):
        raise _bad(what)
    code = data[offset]
    if code < 0x80:
        return code, offset + 1
    if code >= 0xE0:
        return code - 0x100, offset + 1
    if not 0xCC <= code <= 0xD3:
        raise _bad(what)
    after = offset + 1 + (1 << (code & 3))
    if after > len(data):
        raise _bad(what)
    return int.from_bytes(data[offset + 1 : after], "big", signed=code >= 0xD0), after


def _check_decimal(data: bytes) -> None:
    """decimal.c, decimal_unpack: scale, then packed digits with a sign in the last half byte."""
    scale, at = _int_at(data, 0, "decimal")
    text = data[at:].hex()
    if not 2 <= len(text) <= 2 * _DECIMAL_MAX_BYTES or not text[:-1].isdecimal() or text[-1].isdecimal():
        raise _bad("decimal")
    digits = len(text[:-1].lstrip("0")) or 1
    exponent = -scale + digits - 1
    # Below the least exponent a number has the fewer digits the smaller it is.
    least = -_DECIMAL_EXPONENT_MAX - DECIMAL_MAX_DIGITS + 1
    fits = exponent >= -_DECIMAL_EXPONENT_MAX or (least <= exponent and digits <= exponent - least + 1)
    if digits > DECIMAL_MAX_DIGITS or exponent > _DECIMAL_EXPONENT_MAX or not fits:
        raise _bad("decimal")


def _check_datetime(data: bytes) -> None:
    """mp_datetime.c, datetime_unpack; datetime.h, datetime_validate."""
    if len(data) not in (8, 16):
        raise _bad("datetime")
    (epoch,) = struct.unpack_from("<q", data)
    nsec, offset, zone = struct.unpack_from("<ihh", data, 8) if len(data) == 16 else (0, 0, 0)
    if not (_EPOCH_MIN <= epoch <= _EPOCH_MAX and 0 <= nsec < 2_000_000_000):
        raise _bad("datetime")
    if not (-720 <= offset <= 840 and 0 <= zone <= 1024):
        raise _bad("datetime")


def _check_interval(data: bytes) -> None:
    """mp_interval.c, interval_unpack: count, then pairs of field and value."""
    if not data:
        raise _bad("interval")
    at = 1
    for _ in range(data[0]):
        if at + 1 >= len(data):
            raise _bad("interval")
        field = data[at]
        value, at = _int_at(data, at + 1, "interval")
        bits = 31 if field in (0, 1, 2, 7) else 63
        if field > 8 or not -(1 << bits) <= value < 1 << bits or (field == 8 and not 0 <= value <= 2):
            raise _bad("interval")
    if at != len(data):
        raise _bad("interval")


def _check_nested(data: bytes, what: str, depth: int, walk: Walk) -> None:
    """An error is one map (mp_error.cc), a tuple is a format id and an array (mp_tuple.c)."""
    at = 0
    if what == "tuple":
        _, at = _int_at(data, 0, what)
        if data[0] >= 0xD0:
            raise _bad(what)
    first = data[at] if at < len(data) else 0xC1
    array = 0x90 <= first <= 0x9F or first in (0xDC, 0xDD)
    if not (array if what == "tuple" else _is_map(first)) or walk(data, at, depth) != len(data):
        raise _bad(what)
    if what == "error" and not _has_stack(data, depth, walk):
        raise _bad(what)


def _has_stack(data: bytes, depth: int, walk: Walk) -> bool:
    """Is key 0 of this map an array of at least one map? (mp_error.cc, error_unpack_unsafe)"""
    pairs, at = _container(data, 0)
    found = False
    for _ in range(pairs):
        value = walk(data, at, depth)
        if not _is_uint(data[at]):
            return False
        if _int_at(data, at, "error")[0] == 0:
            if found or not _is_stack(data, value, depth, walk):
                return False
            found = True
        at = walk(data, value, depth)
    return found


def _is_stack(data: bytes, at: int, depth: int, walk: Walk) -> bool:
    if not (0x90 <= data[at] <= 0x9F or data[at] in (0xDC, 0xDD)):
        return False
    count, at = _container(data, at)
    for _ in range(count):
        if not _is_error(data, at, depth, walk):
            return False
        at = walk(data, at, depth)
    return count > 0


def _is_error(data: bytes, at: int, depth: int, walk: Walk) -> bool:
    """One error: type, file and message are there and strings, numbers are unsigned (mp_decode_error_one)."""
    if not _is_map(data[at]):
        return False
    count, at = _container(data, at)
    seen = set()
    for _ in range(count):
        value = walk(data, at, depth)
        if not _is_uint(data[at]):
            return False
        key, _after = _int_at(data, at, "error")
        if key in (0, 1, 3) and not _is_text(data[value]):
            return False
        if key in (2, 4, 5) and not _is_uint(data[value]):
            return False
        if key == 6 and not _has_text_keys(data, value, depth, walk):
            return False
        seen.add(key)
        at = walk(data, value, depth)
    return {0, 1, 3} <= seen


def _has_text_keys(data: bytes, at: int, depth: int, walk: Walk) -> bool:
    if not _is_map(data[at]):
        return False
    count, at = _container(data, at)
    for _ in range(count):
        if not _is_text(data[at]):
            return False
        at = walk(data, walk(data, at, depth), depth)
    return True


def _is_map(code: int) -> bool:
    return 0x80 <= code <= 0x8F or code in (0xDE, 0xDF)


def _is_uint(code: int) -> bool:
    return code < 0x80 or 0xCC <= code <= 0xCF


def _is_text(code: int) -> bool:
    return 0xA0 <= code <= 0xBF or 0xD9 <= code <= 0xDB


def _container(data: bytes, at: int) -> tuple[int, int]:
    """(count, offset of the first element) of an array or map known to be whole."""
    code = data[at]
    if code < 0xA0:
        return code & 0x0F, at + 1
    width = 2 if code in (0xDC, 0xDE) else 4
    return int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width
