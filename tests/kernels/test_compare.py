"""The order of values: tuple_compare.cc, mp_compare_scalar."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.numbers import packed_numbers, rank, scalars
from tests.kernels.packing import ERROR, Raw, datetime_ext, ext, float32, float64_bits, pack

from headwater.errors import MsgPackError


def sign(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


ASCENDING: list[Any] = [
    None, False, True,
    float64_bits(0x7FF0000000000001), float64_bits(0x7FF8000000000000), float("-inf"), Decimal("-1E+400"),
    -1.7e308, Decimal(-(2**63) - 1), -(2**63), Decimal("-1.5"), -1, -0.5, Decimal("-0.1"), 0, 5e-324,
    Decimal("0.0999"), 0.1, float32(0.1), 0.2, Decimal("0.20000001"), 1, 1.5, 2**53, 2**53 + 1, float(2**53 + 2),
    Decimal(2**64 - 2), 2**64 - 1, float(2**64), Decimal(2**64 + 1), 1e23, Decimal("1E+23"), 1.7e308, Decimal("1E+400"),
    float("inf"),
    "", "A", "a", "a\0", "b", "ÿ", b"", b"\x00", b"a", b"\xff",
    UUID(int=0), UUID(int=1), UUID(int=2**127),
    datetime_ext(-1), datetime_ext(0), datetime_ext(0, 1), datetime_ext(1),
]  # fmt: skip


def test_classes_and_values_ascend(k: ModuleType) -> None:
    for low, high in pairwise(ASCENDING):
        assert k.mp_compare(pack(low), pack(high)) == -1, (low, high)
        assert k.mp_compare(pack(high), pack(low)) == 1, (low, high)
    for at, low in enumerate(ASCENDING):
        assert k.mp_compare(pack(low), pack(low)) == 0
        for high in ASCENDING[at + 1 :]:
            assert k.mp_compare(pack(low), pack(high)) == -1, (low, high)


EQUAL: list[tuple[Any, Any]] = [
    (1, 1.0), (1, Decimal("1.000")), (1, float32(1.0)), (1.5, Decimal("1.5")), (1.5, float32(1.5)),
    (0, -0.0), (0, Decimal("-0")), (0.1, Decimal("0.1")), (2**53, float(2**53)), (2**63, float(2**63)),
    (Decimal("1E+2"), 100), (Decimal("1E+2"), Decimal("100.0")), (-5, Raw(b"\xd3" + b"\xff" * 7 + b"\xfb")),
    (5, Raw(b"\xd0\x05")), (5, Raw(b"\xcf" + bytes(7) + b"\x05")), ("a", Raw(b"\xdb\x00\x00\x00\x01a")),
    (b"a", Raw(b"\xc6\x00\x00\x00\x01a")), (float32(float("nan")), float64_bits(0x7FF8000000000000)),
    (float64_bits(0xFFF8000000000001), float64_bits(0x7FF8000000000000)),
    (datetime_ext(5, 1, 60), datetime_ext(5, 1, -60, 7)), (datetime_ext(5), Raw(b"\xd8\x04\x05" + bytes(15))),
    (Raw(b"\xd5\x01\x00\x1f"), 1), (Raw(b"\xd5\x01\x00\x1b"), -1), (Raw(b"\xd5\x01\xff\x1c"), 10),
]  # fmt: skip


def test_forms_of_one_value_are_equal(k: ModuleType) -> None:
    for a, b in EQUAL:
        assert k.mp_compare(pack(a), pack(b)) == 0, (a, b)
        assert k.mp_compare(pack(b), pack(a)) == 0, (a, b)


def test_doubles_near_one_decimal_stay_apart(k: ModuleType) -> None:
    """Tarantool cuts a double to 15 digits beside a decimal, and both of these would equal 0.1."""
    near = float64_bits(0x3FB999999999999B)
    assert k.mp_compare(near, pack(0.1)) == 1
    assert k.mp_compare(near, pack(Decimal("0.1"))) == 1
    assert k.mp_compare(pack(Decimal("0.1")), pack(0.1)) == 0


def test_what_has_no_order_is_refused(k: ModuleType) -> None:
    for value in (ext(6, b"\x00"), pack([1]), pack({1: 2}), ext(100, b"a"), ext(3, ERROR)):
        for other in (pack(1), value):
            with pytest.raises(MsgPackError):
                k.mp_compare(value, other)
            with pytest.raises(MsgPackError):
                k.mp_compare(other, value)


def test_broken_values_are_refused(k: ModuleType) -> None:
    for value in (b"", b"\xc1", b"\xcd\x01", b"\xa5abc", ext(1, b"\x00")):
        with pytest.raises(MsgPackError):
            k.mp_compare(value, b"\x01")
        with pytest.raises(MsgPackError):
            k.mp_compare(b"\x01", value)


@given(a=packed_numbers, b=packed_numbers)
def test_numbers_of_all_kinds_compare_by_value(k: ModuleType, a: tuple[Any, Raw], b: tuple[Any, Raw]) -> None:
    assert k.mp_compare(a[1], b[1]) == sign(rank(a[0]), rank(b[0]))


@given(a=scalars, b=scalars)
def test_scalars_compare_by_class_and_value(k: ModuleType, a: Any, b: Any) -> None:
    assert k.mp_compare(pack(a), pack(b)) == sign(rank(a), rank(b))


@given(values=st.lists(packed_numbers, min_size=3, max_size=3))
def test_order_of_numbers_is_transitive(k: ModuleType, values: list[tuple[Any, Raw]]) -> None:
    a, b, c = (raw for _, raw in values)
    if k.mp_compare(a, b) <= 0 and k.mp_compare(b, c) <= 0:
        assert k.mp_compare(a, c) <= 0
