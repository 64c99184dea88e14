"""Rows of the files that a real 3.9 wrote, found beside the project; just enough of the format to read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from headwater.kernels import mp_next
from headwater.wire.msgpack import unpack

FILES = Path(__file__).parents[3] / "shared" / "golden" / "tarantool-3.9" / "files"

needs_files = pytest.mark.skipif(not FILES.is_dir(), reason=f"no golden data at {FILES}")

ZROW, EOF = b"\xd5\xba\x0b\xba", b"\xd5\x10\xad\xed"
TYPE, LSN, SPACE, KEY, TUPLE = 0x00, 0x03, 0x10, 0x20, 0x21
INSERT, REPLACE, DELETE, UPSERT = 2, 3, 5, 9


def rows(name: str) -> Iterator[tuple[int, dict[int, Any], bytes]]:
    """Type, body as values (empty where there is none), and the bytes of the tuple."""
    data = (FILES / name).read_bytes()
    at = data.index(b"\n\n") + 2
    while data[at : at + 4] not in (EOF, b""):
        size = unpack(data[at + 4 : mp_next(data, at + 4)])
        block = data[at + 19 : at + 19 + size]
        if data[at : at + 4] == ZROW:
            block = zstandard.ZstdDecompressor().decompressobj().decompress(block)
        yield from _block(block)
        at += 19 + size


def _block(block: bytes) -> Iterator[tuple[int, dict[int, Any], bytes]]:
    at = 0
    while at < len(block):
        header_end = mp_next(block, at)
        header = unpack(block[at:header_end])
        at = header_end
        body: dict[int, Any] = {}
        tuple_bytes = b""
        if at < len(block) and header[TYPE] != 12:
            end = mp_next(block, at)
            body = unpack(block[at:end])
            tuple_bytes = _value(block, at, TUPLE)
            at = end
        yield header[TYPE], body, tuple_bytes


def _value(block: bytes, at: int, wanted: int) -> bytes:
    """The bytes under a key of the map at `at`, which has fewer than 16 keys."""
    offset = at + 1
    for _ in range(block[at] & 0x0F):
        middle = mp_next(block, offset)
        end = mp_next(block, middle)
        if block[offset] == wanted:
            return block[middle:end]
        offset = end
    return b""
