"""An index of any type keeps its tuples in the order of mp_compare: whatever shortens comparisons obeys it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import cmp_to_key
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from tests.kernels.packing import datetime_ext, float32, float64_bits, pack

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It

BITS = (0x7FF8000000000000, 0x7FF0000000000001, 0x8000000000000000, 0xFFF0000000000000)
"""Quiet and signalling NaN, minus zero, minus infinity."""
EDGES = [0, 1, 2**7, 2**31, 2**32, 2**53, 2**63, 2**64]


def integer(rng: random.Random) -> int:
    value = rng.choice(EDGES) + rng.randrange(-3, 4) if rng.random() < 0.7 else rng.getrandbits(rng.randrange(1, 65))
    return max(-(2**63), min(2**64 - 1, -value if rng.random() < 0.4 else value))


def unsigned(rng: random.Random) -> int:
    value = integer(rng)
    return value if value >= 0 else -1 - value


def real(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.1:
        return float64_bits(
            rng.choice((0x7FF8000000000000, 0x7FF0000000000001, 0x8000000000000000, 0xFFF0000000000000))
        )
    if kind < 0.4:
        return float64_bits(struct.unpack(">Q", struct.pack(">d", float(integer(rng))))[0] + rng.randrange(2))
    if kind < 0.6:
        return float32(rng.choice((0.1, 1.5, 3.0e38, float("inf"), float(rng.randrange(100)))))
    return rng.choice((1, -1)) * rng.randrange(1000) / rng.choice((1, 3, 10, 1000, 1e-300, 1e300))


def decimal(rng: random.Random) -> Decimal:
    if rng.random() < 0.4:
        return Decimal(integer(rng)) + Decimal(rng.randrange(-2, 3)).scaleb(-rng.randrange(20))
    return Decimal(rng.randrange(-(10**6), 10**6)).scaleb(rng.choice((0, -1, -3, -20, 5, 300, 310, -330, 99000)))


def number(rng: random.Random) -> Any:
    return rng.choice((integer, real, decimal))(rng)


def text(rng: random.Random) -> str:
    return "".join(rng.choice("\0a\x7fb") for _ in range(rng.choice((0, 1, 2, 6, 7, 8, 9, 20))))


def blob(rng: random.Random) -> bytes:
    return bytes(rng.choice((0, 1, 255)) for _ in range(rng.choice((0, 1, 6, 7, 8, 9, 12))))


def uuid(rng: random.Random) -> UUID:
    return UUID(int=rng.choice((0, 1 << 64, (1 << 128) - 1 - (1 << 64), rng.getrandbits(128))) + rng.randrange(3))


def moment(rng: random.Random) -> Any:
    seconds = rng.choice((0, -1, 1, -185604722870400, 185480451417600, rng.randrange(2**40)))
    return datetime_ext(seconds, rng.choice((0, 1, 65535, 65536, 1_999_999_999)), rng.randrange(-60, 60))


def boolean(rng: random.Random) -> bool:
    return rng.random() < 0.5


def scalar(rng: random.Random) -> Any:
    return rng.choice((number, text, blob, uuid, moment, boolean))(rng)


MAKERS: dict[T, Callable[[random.Random], Any]] = {
    T.UNSIGNED: unsigned, T.INTEGER: integer, T.NUMBER: number, T.DECIMAL: decimal, T.STRING: text, T.VARBINARY: blob,
    T.UUID: uuid, T.DATETIME: moment, T.BOOLEAN: boolean, T.SCALAR: scalar,
}  # fmt: skip


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("type", MAKERS, ids=lambda kind: kind.name.lower())
def test_index_keeps_the_order_of_single_values(k: ModuleType, type: T, nullable: bool) -> None:
    rng = random.Random(int(type) * 2 + nullable)
    count = 700 if k.__name__.endswith("_native") else 120
    node = k.Memtx()
    space = node.add_space(512)
    space.set_format(k.TupleFormat([(T.UNSIGNED, False), (type, nullable)]))
    primary = k.KeyPart(0, T.UNSIGNED)
    space.add_index(0, k.KeyDef([primary]), True)
    index = space.add_index(1, k.KeyDef([k.KeyPart(1, type, nullable)], [primary]), False)
    values = []
    for key in range(count):
        value = pack(None if nullable and rng.random() < 0.1 else MAKERS[type](rng))
        values.append(value)
        space.insert(b"\x92" + pack(key) + value)
    order = sorted(range(count), key=cmp_to_key(lambda a, b: k.mp_compare(values[a], values[b]) or a - b))
    assert index.select(It.ALL, b"\x90") == [b"\x92" + pack(key) + values[key] for key in order]
    for value in rng.sample(values, 60):
        signs = [k.mp_compare(other, value) for other in values]
        assert index.count(It.EQ, b"\x91" + value) == signs.count(0)
        assert index.count(It.GT, b"\x91" + value) == signs.count(1)
        assert index.count(It.LT, b"\x91" + value) == signs.count(-1)
