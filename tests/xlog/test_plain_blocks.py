"""The short way over many small blocks says the same as the long one."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from headwater.errors import XlogError
from headwater.vclock import VClock
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, XLOG, BlockEncoder, Meta, Reader, format_meta
from headwater.xlog.reader import BytesFile

Blocks = list[tuple[int, bytes]]


def log(sizes: list[int], *, closed: bool = True) -> bytes:
    encoder = BlockEncoder()
    dice = random.Random(len(sizes))
    out = [format_meta(Meta(XLOG, UUID(int=1), VClock()))]
    for place, size in enumerate(sizes):
        row = Row(3, 1, 0, place + 1, 1.5, place + 1, 1, pack({0x10: 512, 0x21: [place, dice.randbytes(size)]}))
        out.append(encoder.encode_one(encode_row(row)))
    return b"".join(out) + (MAGIC_EOF if closed else b"")


def long_way(data: bytes) -> tuple[Blocks, str]:
    found: Blocks = []
    reader = Reader(BytesFile(data))
    try:
        found.extend((block.offset, block.rows) for block in reader)
    except XlogError as error:
        return found, error.message
    return found, f"{reader.eof} {reader.damage} {reader.position} {reader.last_lsn()}"


def short_way(data: bytes, limit: int) -> tuple[Blocks, str, int]:
    found: Blocks = []
    runs = 0
    reader = Reader(BytesFile(data))
    try:
        while True:
            rows, offsets = reader.plain_blocks(limit)
            runs += len(rows)
            found += zip(offsets, rows, strict=True)
            block = reader.next()
            if block is None:
                break
            found.append((block.offset, block.rows))
    except XlogError as error:
        return found, error.message, runs
    return found, f"{reader.eof} {reader.damage} {reader.position} {reader.last_lsn()}", runs


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("limit", [1, 500, 1 << 20])
def test_all_sizes_of_blocks(closed: bool, limit: int) -> None:
    data = log([0, 1, 50, 80, 90, 120, 200, 230, 256, 400, 1900, 5000, 10, 20], closed=closed)
    found, end, runs = short_way(data, limit)
    assert (found, end) == long_way(data)
    assert runs >= 4


def test_damage_anywhere_is_seen_the_same() -> None:
    data = log([5, 100, 300, 7], closed=False)
    head = data.index(b"\n\n") + 2
    for at in range(head, len(data)):
        for bit in (0, 4, 7):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            found, end, _ = short_way(bytes(damaged), 1 << 20)
            assert (found, end) == long_way(bytes(damaged)), (at, bit)


def test_cut_anywhere_is_seen_the_same() -> None:
    data = log([5, 100, 300, 7])
    for size in range(data.index(b"\n\n") + 2, len(data)):
        found, end, _ = short_way(data[:size], 1 << 20)
        assert (found, end) == long_way(data[:size]), size
