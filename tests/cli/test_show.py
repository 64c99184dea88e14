"""How answers look."""

from __future__ import annotations

import io
from decimal import Decimal
from uuid import UUID

import pytest
from rich.console import Console

from headwater.cli.shell.runner import Answer, Rows, Text, Values
from headwater.cli.shell.show import json_lines, outline, show


def shown(answer: Answer) -> str:
    out = io.StringIO()
    show(Console(file=out, width=60), answer)
    return out.getvalue()


def test_tuples_are_a_table_with_the_names_of_the_format() -> None:
    text = shown(Rows(["id", "name"], [[1, "[bold]x[/]"], [2, None, [3, {"a": 1}]]]))
    head, _, first, second = text.rstrip("\n").split("\n")
    assert head.split() == ["id", "┃", "name", "┃", "[3]"]
    assert first.split()[:3] == ["1", "│", "[bold]x[/]"]
    assert second.split("│")[1].strip() == "nil"
    assert second.split("│")[2].strip() == '[3, {"a": 1}]'


def test_more_than_the_limit_is_said() -> None:
    assert "limit=" in shown(Rows(["id"], [[1], [2]], more=True))


@pytest.mark.parametrize("answer", [Rows([], []), Values([])])
def test_an_empty_answer_is_said(answer: Answer) -> None:
    assert shown(answer).strip() in ("no tuples", "nothing returned")


def test_long_values_are_outlined() -> None:
    value = {"uuid": "x" * 40, "vclock": {"1": 5}, "list": [{"id": 1, "uuid": "y" * 60}], "empty": {}}
    assert list(outline(value)) == [
        f'uuid: "{"x" * 40}"',
        'vclock: {"1": 5}',
        "list:",
        "  -",
        "    id: 1",
        f'    uuid: "{"y" * 60}"',
        "empty: {}",
    ]


def test_programs_get_lines_of_json() -> None:
    rows = Rows(["id"], [[1, b"\x00", Decimal("1.5"), UUID(int=1)], [{2: "é"}]])
    assert list(json_lines(rows)) == ['[1, "AA==", "1.5", "00000000-0000-0000-0000-000000000001"]', '[{"2": "é"}]']
    assert list(json_lines(Values([1, None]))) == ["1", "null"]
    assert list(json_lines(Text("hi"))) == ["hi"]
