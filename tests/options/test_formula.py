"""Quorums as formulas."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.options.formula import FormulaError, evaluate


@pytest.mark.parametrize(
    ("formula", "n", "value"),
    [
        ("N / 2 + 1", 3, 2),
        ("N/2+1", 4, 3),
        ("N", 31, 31),
        ("math.max(N - 1, 1)", 1, 1),
        ("(N + 1) % 3 + 2 ^ 2", 4, 6),
        ("-N + 10.9", 5, 5),
        ("math.ceil(math.sqrt(N))", 5, 3),
    ],
)
def test_value(formula: str, n: int, value: int) -> None:
    assert evaluate(formula, N=n) == value


def test_two_names() -> None:
    assert evaluate("N - Q + 1", N=5, Q=3) == 3


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "N +",
        "M + 1",
        "Q",
        "N / 0",
        "True",
        "'text'",
        "__import__('os').system('id')",
        "math.random()",
        "N.__class__",
        "9 ^ 9 ^ 9 ^ 9",
        "(-1) ^ 0.5",
        "(" * 300 + "N" + ")" * 300,
        "N + " * 1000 + "N",
        "N if N else 1",
        "math.max()",
        "math.floor(N, x=1)",
        "1e308 * 1e308",
    ],
)
def test_what_is_no_formula_is_refused(formula: str) -> None:
    with pytest.raises(FormulaError):
        evaluate(formula, N=3)


@given(st.text(max_size=60))
def test_any_text_gives_a_number_or_a_refusal(formula: str) -> None:
    with contextlib.suppress(FormulaError):
        assert isinstance(evaluate(formula, N=3), int)
