"""Every type of field and key: what is taken, what is refused, and the order of it all."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

from tests.interop.script.calls import Call, call
from tests.interop.script.schema import (
    BINARIES,
    BOOLEANS,
    DECIMALS,
    DOUBLES,
    KINDS,
    NUMBERS,
    PLACES,
    STRINGS,
    TYPES,
    UUIDS,
)

SCALARS: list[Any] = [
    5,
    1,
    -3,
    0,
    1.5,
    -1.25,
    2**63,
    -(2**63),
    "b",
    "a",
    "",
    "aa",
    b"\x01",
    b"",
    b"\xff\x00",
    True,
    False,
    1e300,
    Decimal("1.1"),
    Decimal("-3.5"),
]


def _kinds() -> Iterator[Call]:
    for n, value in enumerate(SCALARS):
        yield call(f"kinds {value!r}", "insert", space=KINDS, tuple=[value, n])
    yield call("kinds nil", "insert", space=KINDS, tuple=[None])
    yield call("kinds array", "insert", space=KINDS, tuple=[[1]])
    yield call("kinds map", "insert", space=KINDS, tuple=[{"a": 1}])
    yield call("kinds equal number", "insert", space=KINDS, tuple=[5.0])
    yield call("kinds equal decimal", "insert", space=KINDS, tuple=[Decimal("5.00")])
    yield call("kinds uuid", "insert", space=KINDS, tuple=[UUID(int=7), "uuid"])
    yield call("kinds EQ uuid", "select", space=KINDS, key=[UUID(int=7)], iterator="EQ")
    yield call("kinds last", "select", space=KINDS, iterator="LE", limit=1)
    yield call("kinds delete uuid", "delete", space=KINDS, key=[UUID(int=7)])
    yield call("kinds in order", "select", space=KINDS)
    yield call("kinds backwards", "select", space=KINDS, iterator="LE")
    for value in (0, "a", b"", True, 1.2, Decimal("1.1")):
        for iterator in ("GE", "LT", "EQ"):
            yield call(f"kinds {iterator} {value!r}", "select", space=KINDS, key=[value], iterator=iterator)


FULL: list[Any] = [
    1,
    7,
    -7,
    2.5,
    1.25,
    "s",
    True,
    b"\x00\x01",
    Decimal("12.340"),
    UUID("c8f0fa1f-da29-438c-a040-393f1126ad39"),
    "scalar",
    [1, [2]],
    {"k": {"l": 1}},
    None,
]


def _types() -> Iterator[Call]:
    yield call("types full", "insert", space=TYPES, tuple=FULL)
    yield call("types nils", "insert", space=TYPES, tuple=[2] + [None] * 13)
    wrong: list[tuple[int, str, Any]] = [
        (1, "unsigned", -1),
        (1, "unsigned", 1.0),
        (1, "unsigned", "1"),
        (2, "integer", 1.5),
        (2, "integer", "1"),
        (3, "number", "1"),
        (3, "number", True),
        (4, "double", "1"),
        (5, "string", 1),
        (5, "string", b"bytes"),
        (6, "boolean", 1),
        (7, "varbinary", "text"),
        (7, "varbinary", 1),
        (8, "decimal", 1),
        (8, "decimal", "1"),
        (8, "decimal", 1.5),
        (9, "uuid", "c8f0fa1f"),
        (9, "uuid", 1),
        (10, "scalar", [1]),
        (10, "scalar", {"a": 1}),
        (11, "array", 1),
        (11, "array", {"a": 1}),
        (12, "map", [1]),
        (12, "map", "m"),
    ]
    for position, type_, value in wrong:
        row: list[Any] = [3] + [None] * 13
        row[position] = value
        yield call(f"types {type_} refuses {value!r}", "insert", space=TYPES, tuple=row)
    right: list[tuple[int, Any]] = [
        (1, 2**64 - 1),
        (2, -(2**63)),
        (2, 2**64 - 1),
        (3, -1),
        (3, Decimal("1.5")),
        (4, -0.0),
        (5, ""),
        (5, "\x00"),
        (5, "é" * 300),
        (7, b""),
        (8, Decimal("-0")),
        (8, Decimal("1E+20")),
        (8, Decimal("99999999999999999999999999999999999999")),
        (10, b"x"),
        (10, Decimal("3")),
        (11, []),
        (12, {}),
        (12, {1: 2, "a": None}),
        (13, [1, {"a": []}]),
    ]
    for n, (position, value) in enumerate(right):
        row = [100 + n] + [None] * 13
        row[position] = value
        yield call(f"types takes {position} {value!r}", "insert", space=TYPES, tuple=row)
    for name, position, value in (("double takes integer", 4, 1), ("scalar takes uuid", 10, UUID(int=5))):
        row = [3] + [None] * 13
        row[position] = value
        yield call(f"types {name}", "insert", space=TYPES, tuple=row)
        yield call(f"types {name}, deleted", "delete", space=TYPES, key=[3])
    yield call("types all", "select", space=TYPES)


def _numbers() -> Iterator[Call]:
    values = [
        3,
        1,
        2.5,
        -1,
        -1.5,
        2**53,
        2**53 + 1,
        float(2**53) + 2,
        2**64 - 1,
        -(2**63),
        1e19,
        -1e19,
        0.1,
        Decimal("0.1000000001"),
        Decimal("18446744073709551616"),
        Decimal("-9223372036854775809"),
        1e-300,
        Decimal("0.00000000000000000000000000000001"),
    ]
    for value in values:
        yield call(f"numbers {value!r}", "insert", space=NUMBERS, tuple=[value])
    for value in (3.0, Decimal("2.5"), 2.0**53, 0):
        yield call(f"numbers again {value!r}", "insert", space=NUMBERS, tuple=[value])
    yield call("numbers in order", "select", space=NUMBERS)
    for value in (0, 1.0, Decimal("3.000"), 1e300, -1e300, 2**63):
        for iterator in ("GE", "LE", "EQ"):
            yield call(f"numbers {iterator} {value!r}", "select", space=NUMBERS, key=[value], iterator=iterator)


def _other_keys() -> Iterator[Call]:
    for text in ("1.5", "1.50", "-2", "1E+10", "0", "-0.001", "0.0010"):
        yield call(f"decimals {text}", "insert", space=DECIMALS, tuple=[Decimal(text), text])
    yield call("decimals in order", "select", space=DECIMALS)
    yield call("decimals by equal", "select", space=DECIMALS, key=[Decimal("1.500")], iterator="EQ")
    yield call("decimals by integer", "select", space=DECIMALS, key=[1], iterator="EQ")
    for n in (9, 1, 2**127, 5, 2**64):
        yield call(f"uuids {n}", "insert", space=UUIDS, tuple=[UUID(int=n)])
    yield call("uuids in order", "select", space=UUIDS, index=1, iterator="GE")
    yield call("uuids get", "select", space=UUIDS, key=[UUID(int=5)], iterator="EQ")
    yield call("uuids by string", "select", space=UUIDS, key=["c8f0fa1f-da29-438c-a040-393f1126ad39"], iterator="EQ")
    for value in (True, False):
        yield call(f"booleans {value}", "insert", space=BOOLEANS, tuple=[value])
    yield call("booleans in order", "select", space=BOOLEANS)
    yield call("booleans by number", "select", space=BOOLEANS, key=[0], iterator="EQ")
    for data in (b"b", b"a", b"", b"a\x00", b"\xff"):
        yield call(f"binaries {data!r}", "insert", space=BINARIES, tuple=[data])
    yield call("binaries in order", "select", space=BINARIES)
    yield call("binaries by string", "select", space=BINARIES, key=["a"], iterator="EQ")
    for number in (1.5, -1.5, 0.0, 1e308):
        yield call(f"doubles {number}", "insert", space=DOUBLES, tuple=[number])
    yield call("doubles in order", "select", space=DOUBLES)
    yield call("doubles by integer", "select", space=DOUBLES, key=[0], iterator="EQ")
    yield call("doubles insert integer", "insert", space=DOUBLES, tuple=[3])
    yield call("doubles insert integer, deleted", "delete", space=DOUBLES, key=[3.0])
    for row in ([1, "a", 3], [-1, "b", 3], [5, "c", 1]):
        yield call(f"places {row}", "insert", space=PLACES, tuple=row)
    yield call("places in order", "select", space=PLACES)
    yield call("places part", "select", space=PLACES, key=[3], iterator="REQ")
    yield call("places short", "insert", space=PLACES, tuple=[1, "a"])


def _strings() -> Iterator[Call]:
    for word in ("b", "B", "a", "A", "Ä", "ä", "ab", "aB", "é", "e", "z", "Z", "я", "Я", "1", "_", " ", "ß", "ss"):
        yield call(f"strings {word!r}", "insert", space=STRINGS, tuple=[word])
    yield call("strings bytes order", "select", space=STRINGS)
    yield call("strings ci order", "select", space=STRINGS, index=1)
    yield call("strings unicode order", "select", space=STRINGS, index=2)
    for word in ("A", "ab", "É", "SS"):
        yield call(f"strings ci {word!r}", "select", space=STRINGS, index=1, key=[word], iterator="EQ")
        yield call(f"strings unicode {word!r}", "select", space=STRINGS, index=2, key=[word], iterator="EQ")


PARTS = (_kinds, _types, _numbers, _other_keys, _strings)
