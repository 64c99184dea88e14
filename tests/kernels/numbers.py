"""Values for the tests of order, and an order of their own to compare with."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from tests.kernels.packing import Raw, float32, pack


def exact(value: Any) -> Fraction:
    """The number that a value stands for. A double that is not whole stands for its shortest decimal."""
    if isinstance(value, float) and not value.is_integer():
        return Fraction(repr(value))
    return Fraction(value)


def rank(value: Any) -> tuple[Any, ...]:
    """Comparable as Tarantool's `scalar` (tuple_compare.cc, mp_compare_scalar). Text and bytes bytewise."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    if isinstance(value, int | float | Decimal):
        if value in (math.inf, -math.inf):
            return (2, 3 if value > 0 else 1)
        return (2, 2, exact(value))
    if isinstance(value, str):
        return (3, value.encode())
    assert isinstance(value, bytes)
    return (4, value)


def widen(value: float) -> float:
    """The double of a float32."""
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


integers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-200, 200),
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**53) - 1, -(2**63), 0]),
)
doubles = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-300, 300).map(lambda n: n / 10),
    st.sampled_from(
        [0.1, -0.1, 0.5, 1e15 + 0.3, 2.0**53, 2.0**63, 2.0**64, -(2.0**63), 1e23, 5e-324, 1.7e308, math.inf]
    ),
)
decimals = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**20), max_value=10**20),
    st.builds(lambda n, e: Decimal(n).scaleb(e), st.integers(-(10**18), 10**18), st.integers(-40, 40)),
    st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-1)),
    st.sampled_from(
        [Decimal("0.1"), Decimal(2**53 + 1), Decimal(2**64), Decimal("-0"), Decimal("1E+400"), Decimal("5E-324")]
    ),
)
float32s = st.floats(width=32, allow_nan=False)
numbers = st.one_of(integers, doubles, decimals)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=6), st.binary(max_size=6))

packed_numbers = st.one_of(
    numbers.map(lambda value: (value, Raw(pack(value)))), float32s.map(lambda value: (widen(value), float32(value)))
)
"""(value, its bytes)"""
