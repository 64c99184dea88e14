"""Texts and numbers of the extensions, and what is UTF-8."""

from __future__ import annotations

import struct
from decimal import Decimal
from uuid import UUID

from headwater.kernels.pure import msgpack as mp

DECIMAL_EXT, UUID_EXT, DATETIME_EXT, INTERVAL_EXT = 1, 2, 4, 6
_DATETIME = struct.Struct("<qihh")


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def unpack_decimal(data: bytes) -> tuple[bool, str, int]:
    """(minus, digits, scale) of the contents of a checked decimal; one digit for zero."""
    scale = mp.integer(data, 0)
    text = data[mp.SIZE_OF[data[0]] :].hex()
    return text[-1] in "bd", text[:-1].lstrip("0") or "0", min(scale, (1 << 63) - 1)


def decimal_text(data: bytes) -> str:
    """As decNumberToString writes it, which is Python's own form."""
    minus, digits, scale = unpack_decimal(data)
    return str(Decimal((int(minus), tuple(map(int, digits)), -scale)))


def uuid_text(data: bytes) -> str:
    return str(UUID(bytes=data))


def unpack_datetime(data: bytes) -> tuple[int, int, int, int]:
    """(seconds, nanoseconds, minutes east, number of the zone)"""
    seconds, nsec, east, zone = _DATETIME.unpack(data.ljust(16, b"\0"))
    return seconds, nsec, east, zone


def unpack_interval(data: bytes) -> list[int]:
    """Year, month, week, day, hour, minute, second, nanosecond, adjust."""
    parts = [0] * 9
    at = 1
    for _ in range(data[0]):
        parts[data[at]] = mp.integer(data, at + 1)
        at += 1 + mp.SIZE_OF[data[at + 1]]
    return parts
