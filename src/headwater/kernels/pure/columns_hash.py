"""XXH64, as Spark's `xxhash64` uses it (catalyst, XXH64.java; the algorithm is xxHash's doc/xxhash_spec.md)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.kernels.packplan import check_bits
from headwater.kernels.pure.columns_mpwrite import NIL
from headwater.kernels.pure.columns_tuples import Tuples, fields_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SEED = 42
_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int = _SEED) -> int:
    size = len(data)
    at = size - size % 32
    acc = _stripes(data, at, seed) if at else (seed + _P5) & _MASK
    acc = (acc + size) & _MASK
    for (word,) in struct.iter_unpack("<Q", data[at : size - (size - at) % 8]):
        acc = (_turn(acc ^ _round(0, word), 27) * _P1 + _P4) & _MASK
    at = size - (size - at) % 8
    if size - at >= 4:
        acc ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK
        acc = (_turn(acc, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        acc = _turn(acc ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    acc = (acc ^ acc >> 33) * _P2 & _MASK
    acc = (acc ^ acc >> 29) * _P3 & _MASK
    return acc ^ acc >> 32


def _stripes(data: bytes, end: int, seed: int) -> int:
    """Four lanes over whole stripes of 32 bytes."""
    a, b, c, d = (start & _MASK for start in (seed + _P1 + _P2, seed + _P2, seed, seed - _P1))
    for one, two, three, four in struct.iter_unpack("<4Q", data[:end]):
        a, b, c, d = _round(a, one), _round(b, two), _round(c, three), _round(d, four)
    acc = (_turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)) & _MASK
    for lane in (a, b, c, d):
        acc = ((acc ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return acc


def _turn(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _round(acc: int, word: int) -> int:
    return _turn((acc + word * _P2) & _MASK, 31) * _P1 & _MASK


def _hash_of(data: bytes, offsets: Sequence[int], fields: Sequence[int]) -> int:
    return xxh64(b"".join(NIL if value is None else value for value in fields_of(data, offsets, fields)))


def hash_tuples(offsets: Buffer, data: Buffer, first: int, count: int, fields: Sequence[int] | None = None) -> bytes:
    """A uint64 a tuple."""
    tuples = Tuples(offsets, data, first, count)
    if fields is None:
        hashes = [xxh64(raw) for _, raw in tuples]
    else:
        hashes = [_hash_of(raw, ends, fields) for _, raw, ends in tuples.arrays()]
    return struct.pack(f"<{count}Q", *hashes)


def sum_tuples(
    offsets: Buffer, data: Buffer, first: int, count: int, fields: Sequence[int], bits: int
) -> tuple[bytes, bytes]:
    """How many tuples, and the sum of their hashes, by the hash of some fields."""
    tuples = Tuples(offsets, data, first, count)
    size = 1 << check_bits(bits)
    counts, sums = [0] * size, [0] * size
    for _, raw, ends in tuples.arrays():
        place = _hash_of(raw, ends, fields) >> (64 - bits)
        counts[place] += 1
        sums[place] = (sums[place] + xxh64(raw)) & _MASK
    return struct.pack(f"<{size}Q", *counts), struct.pack(f"<{size}Q", *sums)
