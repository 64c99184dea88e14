"""Values of the prompt."""

from __future__ import annotations

import contextlib
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.shell.literals import Assignment, ParseError, Reader
from headwater.cli.shell.show import json_text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("1 -2 3.5 1e3 .5", [1, -2, 3.5, 1000.0, 0.5]),
        ("1, 2", [1, 2]),
        ("18446744073709551615", [2**64 - 1]),
        ("true false nil null", [True, False, None, None]),
        ('"a b" \'c\' d', ["a b", "c", "d"]),
        (r'"\n\t\"A\x41\\" ""', ['\n\t"AA\\', ""]),
        ("[1, [2, x], {}]", [[1, [2, "x"], {}]]),
        ("{a: 1, 'b c': [2], 3: nil}", [{"a": 1, "b c": [2], 3: None}]),
        ("{a = 1}", [{"a": 1}]),
        ("user-name 10.0.0.1 a.b", ["user-name", "10.0.0.1", "a.b"]),
        ('uuid("5ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d")', [UUID("5ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d")]),
        ('decimal("1.50") bytes("00ff")', [Decimal("1.50"), b"\x00\xff"]),
        ('datetime("2026-01-31T12:00:00")', [datetime(2026, 1, 31, 12)]),
        ("uuid", ["uuid"]),
        ("a=1 b+=2 c='x y' d -= [1]", [Assignment("a", "=", 1), Assignment("b", "+=", 2), Assignment("c", "=", "x y"),
                                       Assignment("d", "-=", [1])]),
    ],
)  # fmt: skip
def test_values(text: str, values: list[object]) -> None:
    assert Reader(text).arguments() == values


@pytest.mark.parametrize(
    "text", ["[1", "{a: 1", "{a 1}", "{[1]: 2}", "]", ":", '"open', 'uuid("x")', "uuid(1, 2)", "a=", "[1 2]", "= 1"]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        Reader(text).arguments()


@given(st.text(max_size=50))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        Reader(text).arguments()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_what_is_shown_as_json_can_be_typed_again(value: object) -> None:
    assert Reader(json_text(value)).arguments() == [value]
