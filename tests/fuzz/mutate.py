"""Inputs made of good ones: bits and bytes changed, pieces cut, doubled, moved and put in from elsewhere."""

from __future__ import annotations

import random
from collections.abc import Sequence

INTERESTING = (
    b"\xc1",
    b"\xc0",
    b"\x80",
    b"\x90",
    b"\x91",
    b"\xa0",
    b"\x7f",
    b"\xff",
    b"\xca\0\0\0\0",
    b"\xcb" + b"\0" * 8,
    b"\xcc\xff",
    b"\xcf" + b"\xff" * 8,
    b"\xcf\x80" + b"\0" * 7,
    b"\xd3\x80" + b"\0" * 7,
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xdc\xff\xff",
    b"\xd5\x01\x00\x1c",
    b"\xd4\x03\x80",
    b"\xd7\x04" + b"\xff" * 8,
    b"\xc7\x02\x06\x01\x01",
    b"\xd8\x02" + b"\0" * 16,
    b"\xd5\xba\x0b\xab",
    b"\xd5\xba\x0b\xba",
    b"\xd5\x10\xad\xed",
    b"\x28\xb5\x2f\xfd",
    b"\x91" * 1200,
    b"\x81\x00" * 600,
    b"\xdd\x00\x00\xff\xff" * 300,
)


def mutate(dice: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One input."""
    if not seeds or dice.random() < 0.05:
        return dice.randbytes(dice.randrange(200))
    data = bytearray(dice.choice(seeds))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        _change(dice, data, seeds)
    return bytes(data)


def _change(dice: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    at = dice.randrange(len(data) + 1)
    size = min(dice.choice((1, 1, 2, 4, 8, 32)), len(data) - at)
    kind = dice.randrange(9)
    if kind == 0 and data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif kind == 1:
        data[at : at + 1] = dice.randbytes(1)
    elif kind == 2:
        data[at : at + size] = dice.choice(INTERESTING)
    elif kind == 3:
        data[at:at] = dice.choice(INTERESTING)
    elif kind == 4:
        del data[at : at + size]
    elif kind == 5:
        data[at:at] = data[at : at + size]
    elif kind == 6:
        del data[at:]
    elif kind == 7:
        other = dice.choice(seeds)
        begin = dice.randrange(len(other) + 1)
        data[at : at + size] = other[begin : begin + dice.randrange(40)]
    elif data:
        where = dice.randrange(len(data))
        data[where] = (data[where] + dice.choice((-1, 1))) & 0xFF
