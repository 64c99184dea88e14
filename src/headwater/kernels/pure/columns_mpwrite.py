"""MessagePack out of plain values, as `_columns` writes it (msgpuck.h)."""

from __future__ import annotations

import struct

from headwater.kernels.pure.columns_text import DATETIME_EXT, DECIMAL_EXT
from headwater.kernels.pure.msgpack import uint

NIL, FALSE, TRUE = b"\xc0", b"\xc2", b"\xc3"
_FIXED = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}


def integer(value: int) -> bytes:
    """The shortest form."""
    if value >= 0:
        return uint(value)
    if value >= -32:
        return bytes((value + 256,))
    for code, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8)):
        if value >= -(1 << (8 * size - 1)):
            return bytes((code,)) + value.to_bytes(size, "big", signed=True)
    raise OverflowError(value)


def array_head(count: int) -> bytes:
    return _head(count, 0x90, 0xDC)


def map_head(count: int) -> bytes:
    return _head(count, 0x80, 0xDE)


def _head(count: int, fix: int, wide: int) -> bytes:
    if count < 16:
        return bytes((fix | count,))
    if count <= 0xFFFF:
        return bytes((wide,)) + count.to_bytes(2, "big")
    return bytes((wide + 1,)) + count.to_bytes(4, "big")


def text(raw: bytes) -> bytes:
    if len(raw) < 32:
        return bytes((0xA0 | len(raw),)) + raw
    return _sized(raw, 0xD9)


def binary(raw: bytes) -> bytes:
    return _sized(raw, 0xC4)


def _sized(raw: bytes, code: int) -> bytes:
    for more, size in enumerate((1, 2, 4)):
        if len(raw) < 1 << (8 * size):
            return bytes((code + more,)) + len(raw).to_bytes(size, "big") + raw
    raise OverflowError(len(raw))


def ext(kind: int, body: bytes) -> bytes:
    head = _FIXED.get(len(body)) or bytes((0xC7, len(body)))
    return head + bytes((kind,)) + body


def double(value: float) -> bytes:
    return b"\xcb" + struct.pack(">d", value)


def decimal(digits: str, minus: bool, scale: int) -> bytes:
    """decimal.c, decimal_pack: the scale, then the digits two a byte, and the sign in the last half byte."""
    packed = digits + ("d" if minus else "c")
    return ext(DECIMAL_EXT, integer(scale) + bytes.fromhex(packed if len(packed) % 2 == 0 else "0" + packed))


def datetime(seconds: int, nsec: int = 0, east: int = 0, zone: int = 0) -> bytes:
    """mp_datetime.c, datetime_pack: 8 bytes, or 16 where there is more than seconds."""
    tail = struct.pack("<ihh", nsec, east, zone) if nsec or east or zone else b""
    return ext(DATETIME_EXT, struct.pack("<q", seconds) + tail)
