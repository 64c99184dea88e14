"""Small steps through MessagePack that `headwater.kernels.mp_next` has already found well formed.

Every function takes bytes and an offset and gives the value and the offset after it. They trust the check: use them
on nothing else. Kinds are those of msgpuck's mp_typeof.
"""

from __future__ import annotations

import struct

from headwater.errors import MsgPackError
from headwater.wire.constants import MpType


def _kinds() -> bytes:
    """Kind by first byte (msgpuck.h, mp_type_hint); 0xc1 counts as an extension, as there."""
    table = bytearray(256)
    ranges = (
        (0x00, 0x7F, MpType.UINT),
        (0x80, 0x8F, MpType.MAP),
        (0x90, 0x9F, MpType.ARRAY),
        (0xA0, 0xBF, MpType.STR),
        (0xC0, 0xC0, MpType.NIL),
        (0xC1, 0xC1, MpType.EXT),
        (0xC2, 0xC3, MpType.BOOL),
        (0xC4, 0xC6, MpType.BIN),
        (0xC7, 0xC9, MpType.EXT),
        (0xCA, 0xCA, MpType.FLOAT),
        (0xCB, 0xCB, MpType.DOUBLE),
        (0xCC, 0xCF, MpType.UINT),
        (0xD0, 0xD3, MpType.INT),
        (0xD4, 0xD8, MpType.EXT),
        (0xD9, 0xDB, MpType.STR),
        (0xDC, 0xDD, MpType.ARRAY),
        (0xDE, 0xDF, MpType.MAP),
        (0xE0, 0xFF, MpType.INT),
    )
    for first, last, kind in ranges:
        for code in range(first, last + 1):
            table[code] = kind
    return bytes(table)


KIND = _kinds()
"""KIND[first byte] is the MpType of a value."""

_DOUBLE = struct.Struct(">d")
_UINT_SIZES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_LENGTH_SIZES = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
_FIXEXT_SIZES = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def read_uint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer."""
    code = data[at]
    if code <= 0x7F:
        return code, at + 1
    end = at + 1 + _UINT_SIZES[code]
    return int.from_bytes(data[at + 1 : end], "big"), end


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """The count of an array or a map, or the length of a string or binary; the offset is that of the contents."""
    code = data[at]
    if code < 0xA0:
        return code & 0x0F, at + 1
    if code < 0xC0:
        return code & 0x1F, at + 1
    end = at + 1 + _LENGTH_SIZES[code]
    return int.from_bytes(data[at + 1 : end], "big"), end


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """The contents of a string or binary."""
    length, start = read_length(data, at)
    return data[start : start + length], start + length


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """A string. Bytes that are not UTF-8 survive the way back (surrogateescape)."""
    contents, end = read_bytes(data, at)
    return contents.decode("utf-8", "surrogateescape"), end


def read_double(data: bytes, at: int) -> tuple[float, int]:
    value: float = _DOUBLE.unpack_from(data, at + 1)[0]
    return value, at + 9


def read_ext(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Type (signed), payload and end of an extension."""
    code = data[at]
    if code in _FIXEXT_SIZES:
        length, start = _FIXEXT_SIZES[code], at + 1
    elif code in (0xC7, 0xC8, 0xC9):
        length, start = read_length(data, at)
    else:
        raise MsgPackError("illegal code")
    kind = data[start]
    return kind - 256 if kind > 127 else kind, data[start + 1 : start + 1 + length], start + 1 + length
