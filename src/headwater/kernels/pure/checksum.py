"""CRC-32C as xlog.c uses it: reflected polynomial 0x82F63B78, start value 0, no final xor."""

from __future__ import annotations

import sys
from array import array
from functools import cache


@cache
def _table() -> array[int]:
    """Remainders of all two-byte messages: two bytes a step is what plain Python does best."""
    small = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        small.append(crc)
    out = array("L", [0]) * 65536
    for word in range(65536):
        crc = small[word & 0xFF] ^ (word >> 8)
        out[word] = small[crc & 0xFF] ^ (crc >> 8)
    return out


def crc32c(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Continue `crc` over `data`."""
    table = _table()
    raw = bytes(data)
    odd = len(raw) & 1
    words = array("H", raw[: len(raw) - odd])
    if sys.byteorder == "big":
        words.byteswap()
    for word in words:
        crc = table[(crc ^ word) & 0xFFFF] ^ (crc >> 16)
    if odd:
        # The last byte of an odd length, bit by bit.
        low = (crc ^ raw[-1]) & 0xFF
        for _ in range(8):
            low = (low >> 1) ^ (0x82F63B78 if low & 1 else 0)
        crc = low ^ (crc >> 8)
    return crc
