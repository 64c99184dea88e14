"""REPLACE, DELETE, UPDATE and UPSERT with every operation, sequences, and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tests.interop.script.calls import Call, call
from tests.interop.script.schema import AUTO, KINDS, PAIRS, TYPES, WORDS
from tests.interop.script.types import FULL


def _replace_delete() -> Iterator[Call]:
    yield call("replace new", "replace", space=WORDS, tuple=[50, "fifty"])
    yield call("replace old", "replace", space=WORDS, tuple=[50, "FIFTY", 5, "x"])
    yield call("replace wrong", "replace", space=WORDS, tuple=[50, None])
    yield call("delete", "delete", space=WORDS, key=[50])
    yield call("delete again", "delete", space=WORDS, key=[50])
    yield call("delete by non-unique", "delete", space=WORDS, index=1, key=["two"])
    yield call("delete empty key", "delete", space=WORDS, key=[])
    yield call("delete wrong type", "delete", space=WORDS, key=["a"])
    yield call("delete too many parts", "delete", space=WORDS, key=[1, 2])
    yield call("delete no index", "delete", space=WORDS, index=7, key=[1])
    yield call("delete no space", "delete", space=999, key=[1])


def _update_row(name: str, ops: list[Any], *, key: int = 1, base: int = 0) -> Iterator[Call]:
    yield call(f"row for {name}", "replace", space=TYPES, tuple=FULL)
    yield Call(
        f"update {name}", "update", {"space": TYPES, "key": [key], "ops": ops, "base": base}, ("raw",) if base else ()
    )


def _update() -> Iterator[Call]:
    yield from _update_row("assign", [["=", 1, 10]])
    yield from _update_row("add", [["+", 1, 5]])
    yield from _update_row("subtract", [["-", 1, 3]])
    yield from _update_row("add negative", [["+", 2, -5]])
    yield from _update_row("add float", [["+", 3, 0.25]])
    yield from _update_row("add int to float", [["+", 3, 1]])
    yield from _update_row("add decimal to float", [["+", 3, Decimal("0.5")]])
    yield from _update_row("add decimal", [["+", 8, Decimal("0.001")]])
    yield from _update_row("subtract int from decimal", [["-", 8, 1]])
    yield from _update_row("and", [["=", 1, 0b1110], ["&", 1, 0b0111]], key=2)
    yield from _update_row("and alone", [["&", 1, 12]])
    yield from _update_row("or", [["|", 1, 3]])
    yield from _update_row("xor", [["^", 1, 1]])
    yield from _update_row("splice", [[":", 5, 0, 0, "hello "]])
    yield from _update_row("splice cut", [[":", 5, 0, 2, "HE"]])
    yield from _update_row("splice negative", [[":", 5, -1, 1, "END"]])
    yield from _update_row("splice beyond", [[":", 5, 100, 1, "!"]])
    yield from _update_row("splice negative length", [[":", 5, 0, -3, "_"]])
    yield from _update_row("append", [["!", -1, "last"]])
    yield from _update_row("append more", [["!", 15, "later"]])
    yield from _update_row("insert in the middle", [["!", 14, {"mid": 1}]])
    yield from _update_row("delete last", [["#", -1, 1]])
    yield from _update_row("delete two", [["#", 12, 2]])
    yield from _update_row("delete beyond", [["#", 13, 100]])
    yield from _update_row("assign past the end", [["=", 13, "again"]])
    yield from _update_row("negative field", [["=", -1, "minus one"]])
    yield from _update_row("by name", [["=", "s", "named"], ["+", "u", 1]])
    yield from _update_row("by path", [["=", "m.k", 5]])
    yield from _update_row("by path index", [["=", "arr[1]", 5]])
    yield from _update_row("by deep path", [["=", "[12][2][1]", "deep"]])
    yield from _update_row("insert by path", [["!", "m.x", 1]])
    yield from _update_row("delete by path", [["#", "m.x", 1]])
    yield from _update_row("several", [["=", 1, 1], ["=", 2, 2], ["=", 5, "x"]])
    yield from _update_row("base 1", [["=", 2, 42]], base=1)
    yield from _update_row("base 1 add", [["+", 2, 1], ["-", 3, 1]], base=1)
    yield from _update_row("no ops", [])
    yield from _update_row("nothing there", [["=", 1, 1]], key=999)
    yield from _update_row("nil over nullable", [["=", 1, None]])
    yield from _update_row("assign then read", [["=", 1, 3]])
    yield call("update left", "select", space=TYPES, key=[1], iterator="EQ")


def _update_errors() -> Iterator[Call]:
    cases: dict[str, list[Any]] = {
        "of primary key": [["=", 0, 5]],
        "of primary key to the same": [["=", 0, 1]],
        "unknown operation": [["*", 1, 5]],
        "operation not a string": [[1, 1, 5]],
        "no arguments": [["+"]],
        "no argument": [["+", 1]],
        "too many arguments": [["+", 1, 1, 1]],
        "not an array": [5],
        "ops with empty op": [[]],
        "add a string": [["+", 1, "a"]],
        "add to a string": [["+", 5, 1]],
        "add to nil": [["+", 13, 1]],
        "and with negative": [["&", 1, -1]],
        "and of float": [["&", 3, 1]],
        "splice of number": [[":", 1, 0, 1, "x"]],
        "splice with number": [[":", 5, 0, 1, 5]],
        "splice too few": [[":", 5, 0, 1]],
        "splice far negative": [[":", 5, -100, 1, "x"]],
        "field far": [["=", 50, 1]],
        "field far negative": [["=", -50, 1]],
        "add to field far": [["+", 50, 1]],
        "delete zero": [["#", 13, 0]],
        "delete far": [["#", 50, 1]],
        "delete wrong": [["#", 13, "x"]],
        "insert far": [["!", 50, 1]],
        "twice the same": [["=", 5, "a"], ["=", 5, "b"]],
        "twice add": [["+", 1, 1], ["+", 1, 1]],
        "delete then assign": [["#", 13, 1], ["=", 13, 1]],
        "wrong type": [["=", 5, 5]],
        "unknown name": [["=", "nonsense", 5]],
        "field not a number": [["=", [], 5]],
        "field a float": [["=", 1.5, 5]],
        "unsigned overflow": [["+", 1, 2**64 - 1]],
        "unsigned underflow": [["-", 1, 100]],
        "integer overflow": [["-", 2, 2**63]],
        "path into scalar": [["=", "u.x", 5]],
        "path wrong syntax": [["=", "m[", 5]],
        "path missing": [["=", "m.none.none", 5]],
        "not nullable": [["=", 0, None]],
        "more than 4000 operations": [["=", 1, 1]] * 4001,
    }
    for name, ops in cases.items():
        yield call(f"row for the error {name}", "replace", space=TYPES, tuple=FULL)
        only = (
            ("raw",)
            if "ops" in name or name in ("not an array", "operation not a string", "no arguments", "field not a number")
            else ()
        )
        yield Call(f"update error {name}", "update", {"space": TYPES, "key": [1], "ops": ops, "base": 0}, only)
    yield call("update error empty key", "update", space=TYPES, key=[], ops=[["=", 1, 1]])
    yield call("update error wrong key", "update", space=TYPES, key=["x"], ops=[["=", 1, 1]])
    yield call("update error by non-unique", "update", space=WORDS, index=1, key=["two"], ops=[["=", 2, 1]])
    yield call("update error no index", "update", space=WORDS, index=9, key=["two"], ops=[["=", 2, 1]])
    yield call("update of the last error", "select", space=TYPES, key=[1], iterator="EQ")


def _upsert() -> Iterator[Call]:
    yield call("upsert new", "upsert", space=WORDS, tuple=[70, "seventy", 1], ops=[["+", 2, 1]])
    yield call("upsert old", "upsert", space=WORDS, tuple=[70, "ignored", 1], ops=[["+", 2, 5], ["=", 1, "SEVENTY"]])
    yield call("upsert seen", "select", space=WORDS, key=[70], iterator="EQ")
    cases: dict[str, list[Any]] = {
        "bad operation": [["*", 2, 1]],
        "of primary key": [["=", 0, 71]],
        "add to string": [["+", 1, 1]],
        "field far": [["=", 30, 1]],
        "two ops one bad": [["+", 2, 1], ["+", 1, 1]],
        "wrong type": [["=", 1, 5]],
        "by name": [["=", "name", "by name"]],
        "append": [["!", 3, "appended"]],
        "delete": [["#", 3, 1]],
    }
    for name, ops in cases.items():
        yield call(f"row for the upsert {name}", "replace", space=WORDS, tuple=[70, "seventy", 7])
        yield call(f"upsert {name}", "upsert", space=WORDS, tuple=[70, "x"], ops=ops)
        yield call(f"upsert {name} seen", "select", space=WORDS, key=[70], iterator="EQ")
    yield call("upsert bad tuple", "upsert", space=WORDS, tuple=["x", "y"], ops=[["=", 1, "a"]])
    yield call("upsert bad tuple format", "upsert", space=WORDS, tuple=[71, 71], ops=[["=", 1, "a"]])
    yield call("upsert with unique secondary", "upsert", space=PAIRS, tuple=[1, "a", 0], ops=[["=", 3, 1]])


def _sequence() -> Iterator[Call]:
    yield call("auto first", "insert", space=AUTO, tuple=[None, "first"])
    yield call("auto second", "insert", space=AUTO, tuple=[None, "second"])
    yield call("auto given", "insert", space=AUTO, tuple=[100, "given"])
    yield call("auto after given", "insert", space=AUTO, tuple=[None, "after"])
    yield call("auto replace", "replace", space=AUTO, tuple=[None])
    yield call("auto to the end", "insert", space=AUTO, tuple=[999, "end"])
    yield call("auto overflow", "insert", space=AUTO, tuple=[None, "over"])
    yield call("auto all", "select", space=AUTO)
    yield call("auto data", "select", space=285)
    yield call("sequence in use", "delete", space=284, key=[1])


def _errors() -> Iterator[Call]:
    yield call("no primary key part", "insert", space=PAIRS, tuple=[])
    yield call("too long key", "select", space=PAIRS, key=[1, "a", 3], iterator="EQ")
    yield call("wrong second part", "select", space=PAIRS, key=[1, 2], iterator="EQ")
    yield call("scalar refuses array", "select", space=KINDS, key=[[1]], iterator="EQ")
    yield call("select view", "select", space=281, key=[WORDS], iterator="EQ")
    yield call("insert into view", "insert", space=281, tuple=[1])
    yield call("delete from view", "delete", space=281, key=[WORDS])


PARTS = (_replace_delete, _update, _update_errors, _upsert, _sequence, _errors)
