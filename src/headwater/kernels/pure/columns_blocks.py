"""Blocks of a file, as far as they can be told without unpacking (xlog.c, xlog_fixheader_decode)."""

from __future__ import annotations

from typing import NamedTuple

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.checksum import crc32c

_SIZE = 19
_PLAIN, _ZSTD = b"\xd5\xba\x0b\xab", b"\xd5\xba\x0b\xba"
_U32 = (1 << 32) - 1
_LENGTH_MAX = 2 * 1024 * 1024 * 1024


class _Block(NamedTuple):
    begin: int
    """Of its data."""
    end: int
    packed: bool
    crc: int


def plain_rows(data: bytes | memoryview, offset: int, end: int, limit: int) -> tuple[bytes, int]:
    """The rows of whole, good blocks that are not compressed."""
    view = _checked(data, offset, end)
    if limit < 1:
        raise ValueError(f"limit {limit} is not positive")
    out: list[bytes] = []
    size, at = 0, offset
    while (block := _block_at(view, at, end)) is not None and not block.packed:
        rows = bytes(view[block.begin : block.end])
        if crc32c(rows) != block.crc or (size and size + len(rows) > limit):
            break
        out.append(rows)
        size += len(rows)
        at = block.end
    return b"".join(out), at


def borders(data: bytes | memoryview, offset: int, end: int, step: int) -> tuple[list[tuple[int, int]], int]:
    """Where blocks begin, about every `step` bytes."""
    if step < 1:
        raise ValueError(f"step {step} is not positive")
    view = _checked(data, offset, end)
    found: list[tuple[int, int]] = []
    before = at = offset
    wanted = (offset // step + 1) * step
    while (block := _block_at(view, at, end)) is not None:
        if at >= wanted:
            found.append((before, at))
            wanted = (at // step + 1) * step
        before, at = at, block.end
    return found, at


def _checked(data: bytes | memoryview, offset: int, end: int) -> memoryview:
    view = memoryview(data).cast("B")
    if not 0 <= offset <= end <= len(view):
        raise ValueError(f"{offset}..{end} does not lie in {len(view)} bytes")
    return view


def _block_at(view: memoryview, at: int, end: int) -> _Block | None:
    """The whole block at `at`, None if there is none."""
    if end - at < _SIZE:
        return None
    head = bytes(view[at : at + _SIZE])
    if head[:4] not in (_PLAIN, _ZSTD):
        return None
    found = _numbers(head)
    if found is None or found[0] > _LENGTH_MAX or found[0] > end - at - _SIZE:
        return None
    begin = at + _SIZE
    return _Block(begin, begin + found[0], head[:4] == _ZSTD, found[1])


def _numbers(head: bytes) -> tuple[int, int] | None:
    """(length, checksum): the first and the third number; 32 bits of each are kept, as there."""
    at = 4
    numbers: list[int] = []
    for _ in range(3):
        if at >= _SIZE or mp.TYPE_OF[head[at]] != mp.UINT or at + mp.SIZE_OF[head[at]] > _SIZE:
            return None
        numbers.append(mp.integer(head, at) & _U32)
        at += mp.SIZE_OF[head[at]]
    try:
        if at != _SIZE and mp.mp_next(head, at) != _SIZE:
            return None
    except MsgPackError:
        return None
    return numbers[0], numbers[2]
