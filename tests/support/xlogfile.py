"""A reader of .snap and .xlog files of its own, for judging (xlog.c; the layout is in docs/formats)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard
from tests.support.iproto import pack, unpack_all

PLAIN, ZSTD, EOF = b"\xd5\xba\x0b\xab", b"\xd5\xba\x0b\xba", b"\xd5\x10\xad\xed"
FIXHEADER = 19


@dataclass(frozen=True, slots=True)
class Block:
    """One block: where it lies and the rows `(header, body)` in it."""

    start: int
    end: int
    rows: list[tuple[dict[int, Any], dict[int, Any]]]


@dataclass(frozen=True, slots=True)
class File:
    kind: str
    version: str
    meta: dict[str, str]
    body: int
    """Offset of the first block."""
    blocks: list[Block]
    closed: bool
    """Ends with the EOF marker."""

    def rows(self) -> Iterator[tuple[dict[int, Any], dict[int, Any]]]:
        for block in self.blocks:
            yield from block.rows


def read(path: Path) -> File:
    """A whole, correct file; a torn end is left out."""
    data = path.read_bytes()
    body = data.index(b"\n\n") + 2
    lines = data[:body].decode().splitlines()
    meta = dict(line.split(": ", 1) for line in lines[2:] if line)
    blocks, closed, at = [], False, body
    while at < len(data):
        if data[at : at + 4] == EOF:
            closed = True
            break
        block = _block(data, at)
        if block is None:
            break
        blocks.append(block)
        at = block.end
    return File(lines[0], lines[1], meta, body, blocks, closed)


def _uint(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 0x80:
        return first, at + 1
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def _block(data: bytes, at: int) -> Block | None:
    magic = data[at : at + 4]
    assert magic in (PLAIN, ZSTD), f"no block at {at}: {magic.hex()}"
    length, _ = _uint(data, at + 4)
    end = at + FIXHEADER + length
    if end > len(data):
        return None
    stored = data[at + FIXHEADER : end]
    if magic == ZSTD:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(stored)) as reader:
            stored = reader.read()
    values = unpack_all(stored)
    return Block(at, end, list(zip(values[::2], values[1::2], strict=True)))


def crc32c(data: bytes) -> int:
    """Castagnoli, reflected, beginning with 0 and without a final xor."""
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc


def plain_block(rows: bytes) -> bytes:
    """Rows as one block without compression."""
    head = PLAIN + b"\xce" + len(rows).to_bytes(4, "big") + b"\x00\xce" + crc32c(rows).to_bytes(4, "big")
    padding = FIXHEADER - len(head) - 1
    return head + bytes([0xA0 | padding]) + bytes(padding) + rows


def smaller(path: Path, keep: Callable[[int, list[Any]], bool]) -> bytes:
    """A snapshot with only those rows `(space, tuple)` that are kept, not compressed."""
    file = read(path)
    rows = [(header, body) for header, body in file.rows() if 0x21 not in body or keep(body[0x10], body[0x21])]
    packed = b"".join(pack(header) + pack(body) for header, body in rows)
    return path.read_bytes()[: file.body] + plain_block(packed) + EOF


def vclock(text: str) -> dict[int, int]:
    """Of the text form `{0: 1, 1: 21}`."""
    inside = text.strip("{} ")
    return {int(k): int(v) for k, v in (part.split(":") for part in inside.split(","))} if inside else {}


__all__ = ["EOF", "FIXHEADER", "PLAIN", "ZSTD", "Block", "File", "plain_block", "read", "smaller", "vclock"]
