"""Answers as people read them, and as programs do."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.cli.shell.runner import Answer, Rows, Text, Values

_WIDE = 60
"""Characters that a map or list may have and still stand in one line."""


def json_lines(answer: Answer) -> Iterator[str]:
    """One line a tuple, one line a value."""
    match answer:
        case Rows():
            yield from (json_text(row) for row in answer.rows)
        case Values():
            yield from (json_text(value) for value in answer.values)
        case Text():
            yield answer.text


def json_text(value: Any) -> str:
    return json.dumps(_jsonable(value), ensure_ascii=False, default=_text)


def _jsonable(value: Any) -> Any:
    """Keys of maps as text; the rest is left to `_text`."""
    match value:
        case dict():
            return {key if isinstance(key, str) else json_text(key): _jsonable(item) for key, item in value.items()}
        case list() | tuple():
            return [_jsonable(item) for item in value]
    return value


def _text(value: object) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case UUID() | Decimal():
            return str(value)
        case datetime():
            return value.isoformat()
    return str(value)


def show(console: Any, answer: Answer) -> None:
    """On a terminal: tuples as a table, values as a tree."""
    match answer:
        case Text():
            console.print(answer.text, markup=False, highlight=False)
        case Rows():
            _show_rows(console, answer)
        case Values():
            for value in answer.values:
                console.print("\n".join(outline(value)), markup=False)
            if not answer.values:
                console.print("nothing returned", style="dim")


def _show_rows(console: Any, answer: Rows) -> None:
    if not answer.rows:
        console.print("no tuples", style="dim")
        return
    from rich.table import Table
    from rich.text import Text as Cell

    width = max(len(row) for row in answer.rows)
    table = Table(show_edge=False, pad_edge=False)
    for number in range(width):
        name = answer.names[number] if number < len(answer.names) else f"[{number + 1}]"
        table.add_column(Cell(name), overflow="fold")
    for row in answer.rows:
        table.add_row(*(Cell(cell_text(value)) for value in row))
    console.print(table)
    if answer.more:
        console.print(f"the first {len(answer.rows)}; limit=… shows more", style="dim")


def cell_text(value: Any) -> str:
    """A value in a cell: text without quotes, nil as nil."""
    match value:
        case None:
            return "nil"
        case str():
            return value
    return json_text(value)


def outline(value: Any, indent: int = 0) -> Iterator[str]:
    """Maps and lists over several lines where one is too long, in the manner of YAML."""
    space = "  " * indent
    flat = json_text(value)
    if not isinstance(value, dict | list) or not value or len(flat) + 2 * indent <= _WIDE:
        yield space + flat
        return
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in pairs:
        head = "- " if key is None else f"{cell_text(key)}: "
        lines = list(outline(item, indent + 1))
        if len(lines) == 1:
            yield space + head + lines[0].strip()
        else:
            yield (space + head).rstrip()
            yield from lines
