"""MessagePack written piece by piece, always in the shortest form (msgpuck.h, mp_encode_*)."""

from __future__ import annotations

import struct

from headwater.errors import MsgPackError

_U8, _U16, _U32, _U64 = (struct.Struct(f">B{code}") for code in "BHIQ")
_I8, _I16, _I32, _I64 = (struct.Struct(f">B{code}") for code in "bhiq")


def pack_int(value: int) -> bytes:
    """An integer in the shortest form (mp_encode_uint, mp_encode_int)."""
    if value >= 0:
        return pack_uint(value)
    if value >= -0x20:
        return bytes((value & 0xFF,))
    if value >= -0x80:
        return _I8.pack(0xD0, value)
    if value >= -0x8000:
        return _I16.pack(0xD1, value)
    if value >= -0x8000_0000:
        return _I32.pack(0xD2, value)
    if value >= -0x8000_0000_0000_0000:
        return _I64.pack(0xD3, value)
    raise MsgPackError(f"integer {value} is below -2^63")


def pack_uint(value: int) -> bytes:
    """An unsigned integer in the shortest form."""
    if value <= 0x7F:
        if value < 0:
            raise MsgPackError(f"integer {value} is negative")
        return bytes((value,))
    if value <= 0xFF:
        return _U8.pack(0xCC, value)
    if value <= 0xFFFF:
        return _U16.pack(0xCD, value)
    if value <= 0xFFFF_FFFF:
        return _U32.pack(0xCE, value)
    if value <= 0xFFFF_FFFF_FFFF_FFFF:
        return _U64.pack(0xCF, value)
    raise MsgPackError(f"integer {value} is above 2^64-1")


_DOUBLE = struct.Struct(">Bd")
_FIXEXT = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def pack_double(value: float) -> bytes:
    return _DOUBLE.pack(0xCB, value)


def pack_bool(value: bool) -> bytes:
    return b"\xc3" if value else b"\xc2"


def pack_text(value: str) -> bytes:
    """A string; what surrogateescape kept of bytes that are not UTF-8 becomes those bytes again."""
    try:
        return pack_str(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise MsgPackError(f"a string holds a lone surrogate at {error.start}") from None


def _head(count: int, fix: int, fix_max: int, wide: int) -> bytes:
    """Head of an array (fix 0x90, wide 0xdc) or map (0x80, 0xde)."""
    if count <= fix_max:
        return bytes((fix | count,))
    if count <= 0xFFFF:
        return struct.pack(">BH", wide, count)
    return struct.pack(">BI", wide + 1, count)


def pack_array_head(count: int) -> bytes:
    return _head(count, 0x90, 15, 0xDC)


def pack_map_head(count: int) -> bytes:
    return _head(count, 0x80, 15, 0xDE)


def pack_str(data: bytes) -> bytes:
    """A string from its UTF-8."""
    length = len(data)
    if length <= 31:
        return bytes((0xA0 | length,)) + data
    return _long_head(0xD9, length) + data


def pack_bin(data: bytes) -> bytes:
    return _long_head(0xC4, len(data)) + data


def pack_ext(kind: int, data: bytes) -> bytes:
    """An extension in its shortest form (mp_encode_extl)."""
    if not -128 <= kind <= 127:
        raise MsgPackError(f"extension type {kind} is not between -128 and 127")
    length = len(data)
    head = bytes((_FIXEXT[length],)) if length in _FIXEXT else _long_head(0xC7, length)
    return head + bytes((kind & 0xFF,)) + data


def _long_head(first: int, length: int) -> bytes:
    """Head with a length of 1, 2 or 4 bytes: codes first, first + 1, first + 2."""
    if length <= 0xFF:
        return bytes((first, length))
    if length <= 0xFFFF:
        return struct.pack(">BH", first + 1, length)
    if length <= 0xFFFF_FFFF:
        return struct.pack(">BI", first + 2, length)
    raise MsgPackError(f"{length} bytes are more than MessagePack can hold")
