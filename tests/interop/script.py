"""The one script that every driver runs against both servers.

A call is data: an operation and its arguments. A driver (drivers.py) knows how its connector says it. A call that a
connector cannot say is skipped for that connector; the raw driver can say all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Call:
    """`name` identifies it in differences.py; `only` names the drivers that can say it, empty for all."""

    name: str
    operation: str
    arguments: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()


WORDS, PAIRS, HASH, KINDS, TYPES, NUMBERS = 600, 601, 602, 603, 604, 605
DECIMALS, UUIDS, BOOLEANS, BINARIES, DOUBLES, AUTO, PLACES, STRINGS = 606, 607, 608, 609, 610, 611, 612, 613

UNIQUE = {"unique": True}
LOOSE = {"unique": False}


def named(**fields: str) -> list[dict[str, object]]:
    """A format; a type that ends with `?` is nullable."""
    return [
        {"name": name, "type": type_.rstrip("?"), **({"is_nullable": True} if type_.endswith("?") else {})}
        for name, type_ in fields.items()
    ]


SCHEMA: list[tuple[int, list[Any]]] = [
    (280, [WORDS, 1, "words", "memtx", 0, {}, named(id="unsigned", name="string", n="integer?", rest="any?")]),
    (288, [WORDS, 0, "primary", "tree", UNIQUE, [[0, "unsigned"]]]),
    (288, [WORDS, 1, "by_name", "tree", LOOSE, [[1, "string"]]]),
    (288, [WORDS, 2, "by_n", "tree", LOOSE, [{"field": 2, "type": "integer", "is_nullable": True}]]),
    (280, [PAIRS, 1, "pairs", "memtx", 0, {}, []]),
    (288, [PAIRS, 0, "primary", "tree", UNIQUE, [[0, "unsigned"], [1, "string"]]]),
    (288, [PAIRS, 1, "third", "tree", UNIQUE, [[2, "number"]]]),
    (280, [HASH, 1, "hash", "memtx", 2, {}, []]),
    (288, [HASH, 0, "primary", "hash", UNIQUE, [[0, "string"]]]),
    (280, [KINDS, 1, "kinds", "memtx", 0, {}, []]),
    (288, [KINDS, 0, "primary", "tree", UNIQUE, [[0, "scalar"]]]),
    (
        280,
        [
            TYPES,
            1,
            "types",
            "memtx",
            0,
            {},
            named(
                id="unsigned",
                u="unsigned?",
                i="integer?",
                n="number?",
                d="double?",
                s="string?",
                b="boolean?",
                v="varbinary?",
                dec="decimal?",
                uu="uuid?",
                sc="scalar?",
                arr="array?",
                m="map?",
                any="any?",
            ),
        ],
    ),
    (288, [TYPES, 0, "primary", "tree", UNIQUE, [[0, "unsigned"]]]),
    (280, [NUMBERS, 1, "numbers", "memtx", 0, {}, []]),
    (288, [NUMBERS, 0, "primary", "tree", UNIQUE, [[0, "number"]]]),
    (280, [DECIMALS, 1, "decimals", "memtx", 0, {}, []]),
    (288, [DECIMALS, 0, "primary", "tree", UNIQUE, [[0, "decimal"]]]),
    (280, [UUIDS, 1, "uuids", "memtx", 0, {}, []]),
    (288, [UUIDS, 0, "primary", "hash", UNIQUE, [[0, "uuid"]]]),
    (288, [UUIDS, 1, "tree", "tree", UNIQUE, [[0, "uuid"]]]),
    (280, [BOOLEANS, 1, "booleans", "memtx", 0, {}, []]),
    (288, [BOOLEANS, 0, "primary", "tree", UNIQUE, [[0, "boolean"]]]),
    (280, [BINARIES, 1, "binaries", "memtx", 0, {}, []]),
    (288, [BINARIES, 0, "primary", "tree", UNIQUE, [[0, "varbinary"]]]),
    (280, [DOUBLES, 1, "doubles", "memtx", 0, {}, []]),
    (288, [DOUBLES, 0, "primary", "tree", UNIQUE, [[0, "double"]]]),
    (280, [AUTO, 1, "auto", "memtx", 0, {}, named(id="unsigned", v="any?")]),
    (288, [AUTO, 0, "primary", "tree", UNIQUE, [[0, "unsigned"]]]),
    (284, [1, 1, "auto_seq", 2, 1, 1000, 10, 0, False]),
    (340, [AUTO, 1, False, 0, ""]),
    (280, [PLACES, 1, "places", "memtx", 0, {}, []]),
    (288, [PLACES, 0, "primary", "tree", UNIQUE, [[2, "unsigned"], [0, "integer"]]]),
    (280, [STRINGS, 1, "strings", "memtx", 0, {}, []]),
    (288, [STRINGS, 0, "primary", "tree", UNIQUE, [[0, "string"]]]),
    (288, [STRINGS, 1, "ci", "tree", LOOSE, [{"field": 0, "type": "string", "collation": 2}]]),
    (288, [STRINGS, 2, "unicode", "tree", LOOSE, [{"field": 0, "type": "string", "collation": 1}]]),
]

ITERATORS = ("EQ", "REQ", "ALL", "LT", "LE", "GE", "GT")


def script() -> Iterator[Call]:
    """All calls in order. Names are unique."""
    yield from _ping()
    yield from _insert()
    yield from _select()
    yield from _pairs()
    yield from _hash()
    yield from _kinds()
    yield from _types()
    yield from _numbers()
    yield from _other_keys()
    yield from _strings()
    yield from _replace_delete()
    yield from _update()
    yield from _update_errors()
    yield from _upsert()
    yield from _sequence()
    yield from _errors()
    yield from _ddl()
    yield from _calls()
    yield from _users()


def _call(name: str, operation: str, /, *only: str, **arguments: Any) -> Call:
    return Call(name, operation, arguments, only)


def _ping() -> Iterator[Call]:
    yield _call("ping", "ping")


def _insert() -> Iterator[Call]:
    for n, word in enumerate(["one", "two", "three", "four", "five", "two", "", "ünïcode", "two"], 1):
        yield _call(f"insert words {n}", "insert", space=WORDS, tuple=[n, word, -n if n % 3 else None])
    yield _call(
        "insert words with rest", "insert", space=WORDS, tuple=[10, "ten", 100, {"a": [1, None, True]}, "more", 1.5]
    )
    yield _call("insert words short", "insert", space=WORDS, tuple=[11, "eleven"])
    yield _call("insert duplicate", "insert", space=WORDS, tuple=[1, "again", None])
    yield _call("insert wrong type of key", "insert", space=WORDS, tuple=["x", "y"])
    yield _call("insert wrong type of field", "insert", space=WORDS, tuple=[20, 20])
    yield _call("insert wrong type of nullable field", "insert", space=WORDS, tuple=[20, "a", "b"])
    yield _call("insert nil into not nullable", "insert", space=WORDS, tuple=[20, None])
    yield _call("insert missing field", "insert", space=WORDS, tuple=[20])
    yield _call("insert empty", "insert", space=WORDS, tuple=[])
    yield _call("insert negative key", "insert", space=WORDS, tuple=[-1, "minus"])
    yield _call("insert float key", "insert", space=WORDS, tuple=[1.5, "float"])
    yield _call("insert biggest key", "insert", space=WORDS, tuple=[2**64 - 1, "biggest", 2**63 - 1])
    yield _call("insert into no space", "insert", space=999, tuple=[1])


def _select() -> Iterator[Call]:
    for iterator in ITERATORS:
        yield _call(f"select words {iterator} all", "select", space=WORDS, iterator=iterator)
        for key in ([3], [8], [0], [12]):
            yield _call(f"select words {iterator} {key}", "select", space=WORDS, key=key, iterator=iterator)
        for name in ("two", "t", "", "zzz"):
            yield _call(
                f"select by_name {iterator} {name!r}", "select", space=WORDS, index=1, key=[name], iterator=iterator
            )
        for key in ([None], [-2], [-100], [100]):
            yield _call(f"select by_n {iterator} {key}", "select", space=WORDS, index=2, key=key, iterator=iterator)
    for offset, limit in ((0, 0), (0, 2), (2, 2), (9, 10), (100, 10), (3, 1)):
        yield _call(f"select words {offset} {limit}", "select", space=WORDS, offset=offset, limit=limit)
        yield _call(
            f"select words back {offset} {limit}", "select", space=WORDS, iterator="LE", offset=offset, limit=limit
        )
        yield _call(
            f"select two {offset} {limit}",
            "select",
            space=WORDS,
            index=1,
            key=["two"],
            iterator="EQ",
            offset=offset,
            limit=limit,
        )
    yield _call("select no space", "select", space=999, key=[1])
    yield _call("select no index", "select", space=WORDS, index=9, key=[1])
    yield _call("select wrong type", "select", space=WORDS, key=["x"], iterator="EQ")
    yield _call("select float for unsigned", "select", space=WORDS, key=[1.0], iterator="EQ")
    yield _call("select negative for unsigned", "select", space=WORDS, key=[-1], iterator="EQ")
    yield _call("select nil for unsigned", "select", space=WORDS, key=[None], iterator="EQ")
    yield _call("select too many parts", "select", space=WORDS, key=[1, 2], iterator="EQ")
    yield _call("select unknown iterator", "select", "raw", space=WORDS, key=[1], iterator=30)
    yield _call("select spatial iterator", "select", "raw", space=WORDS, key=[1], iterator=10)
    yield _call("select bits iterator", "select", "raw", space=WORDS, key=[1], iterator=7)


def _pairs() -> Iterator[Call]:
    n = 0
    for a in (1, 2, 3):
        for b in ("a", "b", "c"):
            n += 1
            yield _call(f"insert pairs {a}{b}", "insert", space=PAIRS, tuple=[a, b, n * 1.5, n])
    for iterator in ITERATORS:
        for key in ([], [2], [2, "b"], [2, "bb"], [0], [9]):
            yield _call(f"select pairs {iterator} {key}", "select", space=PAIRS, key=key, iterator=iterator)
        for key in ([], [6], [6.0], [4.5], [-1]):
            yield _call(f"select third {iterator} {key}", "select", space=PAIRS, index=1, key=key, iterator=iterator)
    yield _call("pairs duplicate in secondary", "insert", space=PAIRS, tuple=[9, "z", 3])
    yield _call("pairs replace collides in secondary", "replace", space=PAIRS, tuple=[1, "a", 3])
    yield _call("pairs replace same", "replace", space=PAIRS, tuple=[1, "a", 1.5, "same"])
    yield _call("pairs update collides in secondary", "update", space=PAIRS, key=[1, "a"], ops=[["=", 2, 3]])
    yield _call("pairs delete partial key", "delete", space=PAIRS, key=[1])
    yield _call("pairs delete by secondary", "delete", space=PAIRS, index=1, key=[13.5])
    yield _call("pairs update by secondary", "update", space=PAIRS, index=1, key=[12], ops=[["=", 3, "eight"]])
    yield _call("pairs update partial key", "update", space=PAIRS, key=[1], ops=[["=", 3, 0]])
    yield _call("pairs delete nothing", "delete", space=PAIRS, key=[7, "x"])
    yield _call("pairs update nothing", "update", space=PAIRS, key=[7, "x"], ops=[["=", 3, 0]])
    yield _call("pairs missing key part", "insert", space=PAIRS, tuple=[1])
    yield _call("pairs left", "select", space=PAIRS)


def _hash() -> Iterator[Call]:
    yield _call("insert hash", "insert", space=HASH, tuple=["k", 1])
    yield _call("hash duplicate", "insert", space=HASH, tuple=["k", 2])
    yield _call("hash field count", "insert", space=HASH, tuple=["x"])
    yield _call("hash field count more", "insert", space=HASH, tuple=["x", 1, 2])
    yield _call("hash all", "select", space=HASH)
    for iterator in ITERATORS:
        yield _call(f"hash {iterator} key", "select", space=HASH, key=["k"], iterator=iterator)
        yield _call(f"hash {iterator} no key", "select", space=HASH, key=[], iterator=iterator)
    yield _call("hash replace", "replace", space=HASH, tuple=["k", 3])
    yield _call("hash update", "update", space=HASH, key=["k"], ops=[["+", 1, 4]])
    yield _call("hash upsert", "upsert", space=HASH, tuple=["k", 0], ops=[["+", 1, 1]])
    yield _call("hash get", "select", space=HASH, key=["k"], iterator="EQ")
    yield _call("hash delete", "delete", space=HASH, key=["k"])
    yield _call("hash delete again", "delete", space=HASH, key=["k"])


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
    UUID("c8f0fa1f-da29-438c-a040-393f1126ad39"),
    UUID(int=0),
]


def _kinds() -> Iterator[Call]:
    for n, value in enumerate(SCALARS):
        yield _call(f"kinds {value!r}", "insert", space=KINDS, tuple=[value, n])
    yield _call("kinds nil", "insert", space=KINDS, tuple=[None])
    yield _call("kinds array", "insert", space=KINDS, tuple=[[1]])
    yield _call("kinds map", "insert", space=KINDS, tuple=[{"a": 1}])
    yield _call("kinds equal number", "insert", space=KINDS, tuple=[5.0])
    yield _call("kinds equal decimal", "insert", space=KINDS, tuple=[Decimal("5.00")])
    yield _call("kinds in order", "select", space=KINDS)
    yield _call("kinds backwards", "select", space=KINDS, iterator="LE")
    for value in (0, "a", b"", True, 1.2, Decimal("1.1"), UUID(int=0)):
        for iterator in ("GE", "LT", "EQ"):
            yield _call(f"kinds {iterator} {value!r}", "select", space=KINDS, key=[value], iterator=iterator)


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
    yield _call("types full", "insert", space=TYPES, tuple=FULL)
    yield _call("types nils", "insert", space=TYPES, tuple=[2] + [None] * 13)
    wrong: list[tuple[int, str, Any]] = [
        (1, "unsigned", -1),
        (1, "unsigned", 1.0),
        (1, "unsigned", "1"),
        (2, "integer", 1.5),
        (2, "integer", "1"),
        (3, "number", "1"),
        (3, "number", True),
        (4, "double", 1),
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
        yield _call(f"types {type_} refuses {value!r}", "insert", space=TYPES, tuple=row)
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
        (10, UUID(int=5)),
        (11, []),
        (12, {}),
        (12, {1: 2, "a": None}),
        (13, [1, {"a": []}]),
    ]
    for n, (position, value) in enumerate(right):
        row = [100 + n] + [None] * 13
        row[position] = value
        yield _call(f"types takes {position} {value!r}", "insert", space=TYPES, tuple=row)
    yield _call("types all", "select", space=TYPES)


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
        yield _call(f"numbers {value!r}", "insert", space=NUMBERS, tuple=[value])
    for value in (3.0, Decimal("2.5"), 2.0**53, 0):
        yield _call(f"numbers again {value!r}", "insert", space=NUMBERS, tuple=[value])
    yield _call("numbers in order", "select", space=NUMBERS)
    for value in (0, 1.0, Decimal("3.000"), 1e300, -1e300, 2**63):
        for iterator in ("GE", "LE", "EQ"):
            yield _call(f"numbers {iterator} {value!r}", "select", space=NUMBERS, key=[value], iterator=iterator)


def _other_keys() -> Iterator[Call]:
    for text in ("1.5", "1.50", "-2", "1E+10", "0", "-0.001", "0.0010"):
        yield _call(f"decimals {text}", "insert", space=DECIMALS, tuple=[Decimal(text), text])
    yield _call("decimals in order", "select", space=DECIMALS)
    yield _call("decimals by equal", "select", space=DECIMALS, key=[Decimal("1.500")], iterator="EQ")
    yield _call("decimals by integer", "select", space=DECIMALS, key=[1], iterator="EQ")
    for n in (9, 1, 2**127, 5, 2**64):
        yield _call(f"uuids {n}", "insert", space=UUIDS, tuple=[UUID(int=n)])
    yield _call("uuids in order", "select", space=UUIDS, index=1, iterator="GE")
    yield _call("uuids get", "select", space=UUIDS, key=[UUID(int=5)], iterator="EQ")
    yield _call("uuids by string", "select", space=UUIDS, key=["c8f0fa1f-da29-438c-a040-393f1126ad39"], iterator="EQ")
    for value in (True, False):
        yield _call(f"booleans {value}", "insert", space=BOOLEANS, tuple=[value])
    yield _call("booleans in order", "select", space=BOOLEANS)
    yield _call("booleans by number", "select", space=BOOLEANS, key=[0], iterator="EQ")
    for data in (b"b", b"a", b"", b"a\x00", b"\xff"):
        yield _call(f"binaries {data!r}", "insert", space=BINARIES, tuple=[data])
    yield _call("binaries in order", "select", space=BINARIES)
    yield _call("binaries by string", "select", space=BINARIES, key=["a"], iterator="EQ")
    for number in (1.5, -1.5, 0.0, 1e308):
        yield _call(f"doubles {number}", "insert", space=DOUBLES, tuple=[number])
    yield _call("doubles in order", "select", space=DOUBLES)
    yield _call("doubles by integer", "select", space=DOUBLES, key=[0], iterator="EQ")
    yield _call("doubles insert integer", "insert", space=DOUBLES, tuple=[3])
    for row in ([1, "a", 3], [-1, "b", 3], [5, "c", 1]):
        yield _call(f"places {row}", "insert", space=PLACES, tuple=row)
    yield _call("places in order", "select", space=PLACES)
    yield _call("places part", "select", space=PLACES, key=[3], iterator="REQ")
    yield _call("places short", "insert", space=PLACES, tuple=[1, "a"])


def _strings() -> Iterator[Call]:
    for word in ("b", "B", "a", "A", "Ä", "ä", "ab", "aB", "é", "e", "z", "Z", "я", "Я", "1", "_", " ", "ß", "ss"):
        yield _call(f"strings {word!r}", "insert", space=STRINGS, tuple=[word])
    yield _call("strings bytes order", "select", space=STRINGS)
    yield _call("strings ci order", "select", space=STRINGS, index=1)
    yield _call("strings unicode order", "select", space=STRINGS, index=2)
    for word in ("A", "ab", "É", "SS"):
        yield _call(f"strings ci {word!r}", "select", space=STRINGS, index=1, key=[word], iterator="EQ")
        yield _call(f"strings unicode {word!r}", "select", space=STRINGS, index=2, key=[word], iterator="EQ")


def _replace_delete() -> Iterator[Call]:
    yield _call("replace new", "replace", space=WORDS, tuple=[50, "fifty"])
    yield _call("replace old", "replace", space=WORDS, tuple=[50, "FIFTY", 5, "x"])
    yield _call("replace wrong", "replace", space=WORDS, tuple=[50, None])
    yield _call("delete", "delete", space=WORDS, key=[50])
    yield _call("delete again", "delete", space=WORDS, key=[50])
    yield _call("delete by non-unique", "delete", space=WORDS, index=1, key=["two"])
    yield _call("delete empty key", "delete", space=WORDS, key=[])
    yield _call("delete wrong type", "delete", space=WORDS, key=["a"])
    yield _call("delete too many parts", "delete", space=WORDS, key=[1, 2])
    yield _call("delete no index", "delete", space=WORDS, index=7, key=[1])
    yield _call("delete no space", "delete", space=999, key=[1])


def _update_row(name: str, ops: list[Any], *, key: int = 1, base: int = 0) -> Call:
    return Call(
        f"update {name}", "update", {"space": TYPES, "key": [key], "ops": ops, "base": base}, ("raw",) if base else ()
    )


def _update() -> Iterator[Call]:
    yield _update_row("assign", [["=", 1, 10]])
    yield _update_row("add", [["+", 1, 5]])
    yield _update_row("subtract", [["-", 1, 3]])
    yield _update_row("add negative", [["+", 2, -5]])
    yield _update_row("add float", [["+", 3, 0.25]])
    yield _update_row("add int to float", [["+", 3, 1]])
    yield _update_row("add decimal to float", [["+", 3, Decimal("0.5")]])
    yield _update_row("add decimal", [["+", 8, Decimal("0.001")]])
    yield _update_row("subtract int from decimal", [["-", 8, 1]])
    yield _update_row("and", [["=", 1, 0b1110], ["&", 1, 0b0111]], key=2)
    yield _update_row("and alone", [["&", 1, 12]])
    yield _update_row("or", [["|", 1, 3]])
    yield _update_row("xor", [["^", 1, 1]])
    yield _update_row("splice", [[":", 5, 0, 0, "hello "]])
    yield _update_row("splice cut", [[":", 5, 0, 2, "HE"]])
    yield _update_row("splice negative", [[":", 5, -1, 1, "END"]])
    yield _update_row("splice beyond", [[":", 5, 100, 1, "!"]])
    yield _update_row("splice negative length", [[":", 5, 0, -3, "_"]])
    yield _update_row("append", [["!", -1, "last"]])
    yield _update_row("append more", [["!", 15, "later"]])
    yield _update_row("insert in the middle", [["!", 14, {"mid": 1}]])
    yield _update_row("delete last", [["#", -1, 1]])
    yield _update_row("delete two", [["#", 14, 2]])
    yield _update_row("delete beyond", [["#", 13, 100]])
    yield _update_row("assign past the end", [["=", 13, "again"]])
    yield _update_row("negative field", [["=", -1, "minus one"]])
    yield _update_row("by name", [["=", "s", "named"], ["+", "u", 1]])
    yield _update_row("by path", [["=", "m.k", 5]])
    yield _update_row("by path index", [["=", "arr[1]", 5]])
    yield _update_row("by deep path", [["=", "[12][2][1]", "deep"]])
    yield _update_row("insert by path", [["!", "m.x", 1]])
    yield _update_row("delete by path", [["#", "m.x", 1]])
    yield _update_row("several", [["=", 1, 1], ["=", 2, 2], ["=", 5, "x"]])
    yield _update_row("base 1", [["=", 2, 42]], base=1)
    yield _update_row("base 1 add", [["+", 2, 1], ["-", 3, 1]], base=1)
    yield _update_row("no ops", [])
    yield _update_row("nothing there", [["=", 1, 1]], key=999)
    yield _update_row("nil over nullable", [["=", 1, None]])
    yield _update_row("assign then read", [["=", 1, 3]])
    yield _call("update left", "select", space=TYPES, key=[1], iterator="EQ")


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
        only = (
            ("raw",)
            if "ops" in name or name in ("not an array", "operation not a string", "no arguments", "field not a number")
            else ()
        )
        yield Call(f"update error {name}", "update", {"space": TYPES, "key": [1], "ops": ops, "base": 0}, only)
    yield _call("update error empty key", "update", space=TYPES, key=[], ops=[["=", 1, 1]])
    yield _call("update error wrong key", "update", space=TYPES, key=["x"], ops=[["=", 1, 1]])
    yield _call("update error by non-unique", "update", space=WORDS, index=1, key=["two"], ops=[["=", 2, 1]])
    yield _call("update error no index", "update", space=WORDS, index=9, key=["two"], ops=[["=", 2, 1]])
    yield _call("update errors changed nothing", "select", space=TYPES, key=[1], iterator="EQ")


def _upsert() -> Iterator[Call]:
    yield _call("upsert new", "upsert", space=WORDS, tuple=[70, "seventy", 1], ops=[["+", 2, 1]])
    yield _call("upsert old", "upsert", space=WORDS, tuple=[70, "ignored", 1], ops=[["+", 2, 5], ["=", 1, "SEVENTY"]])
    yield _call("upsert seen", "select", space=WORDS, key=[70], iterator="EQ")
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
        yield _call(f"upsert {name}", "upsert", space=WORDS, tuple=[70, "x"], ops=ops)
        yield _call(f"upsert {name} seen", "select", space=WORDS, key=[70], iterator="EQ")
    yield _call("upsert bad tuple", "upsert", space=WORDS, tuple=["x", "y"], ops=[["=", 1, "a"]])
    yield _call("upsert bad tuple format", "upsert", space=WORDS, tuple=[71, 71], ops=[["=", 1, "a"]])
    yield _call("upsert with unique secondary", "upsert", space=PAIRS, tuple=[1, "a", 0], ops=[["=", 3, 1]])


def _sequence() -> Iterator[Call]:
    yield _call("auto first", "insert", space=AUTO, tuple=[None, "first"])
    yield _call("auto second", "insert", space=AUTO, tuple=[None, "second"])
    yield _call("auto given", "insert", space=AUTO, tuple=[100, "given"])
    yield _call("auto after given", "insert", space=AUTO, tuple=[None, "after"])
    yield _call("auto replace", "replace", space=AUTO, tuple=[None])
    yield _call("auto to the end", "insert", space=AUTO, tuple=[999, "end"])
    yield _call("auto overflow", "insert", space=AUTO, tuple=[None, "over"])
    yield _call("auto all", "select", space=AUTO)
    yield _call("auto data", "select", space=285)
    yield _call("sequence in use", "delete", space=284, key=[1])


def _errors() -> Iterator[Call]:
    yield _call("no primary key part", "insert", space=PAIRS, tuple=[])
    yield _call("too long key", "select", space=PAIRS, key=[1, "a", 3], iterator="EQ")
    yield _call("wrong second part", "select", space=PAIRS, key=[1, 2], iterator="EQ")
    yield _call("scalar refuses array", "select", space=KINDS, key=[[1]], iterator="EQ")
    yield _call("select view", "select", space=281, key=[WORDS], iterator="EQ")
    yield _call("insert into view", "insert", space=281, tuple=[1])
    yield _call("delete from view", "delete", space=281, key=[WORDS])


def _ddl() -> Iterator[Call]:
    space = 700
    yield _call("ddl space", "insert", space=280, tuple=[space, 1, "made", "memtx", 0, {}, []])
    yield _call("ddl space twice", "insert", space=280, tuple=[space, 1, "made", "memtx", 0, {}, []])
    yield _call("ddl same name", "insert", space=280, tuple=[701, 1, "made", "memtx", 0, {}, []])
    yield _call("ddl no index yet", "insert", space=space, tuple=[1])
    yield _call("ddl select no index", "select", space=space)
    yield _call("ddl unknown engine", "insert", space=280, tuple=[702, 1, "x", "none", 0, {}, []])
    yield _call("ddl empty name", "insert", space=280, tuple=[702, 1, "", "memtx", 0, {}, []])
    yield _call(
        "ddl bad format", "insert", space=280, tuple=[702, 1, "x", "memtx", 0, {}, [{"name": "a", "type": "nope"}]]
    )
    yield _call(
        "ddl two equal names", "insert", space=280, tuple=[702, 1, "x", "memtx", 0, {}, named(a="any") + named(a="any")]
    )
    yield _call("ddl unknown option", "insert", space=280, tuple=[702, 1, "x", "memtx", 0, {"nope": 1}, []])
    yield _call("ddl unknown owner", "insert", space=280, tuple=[702, 99, "x", "memtx", 0, {}, []])
    yield _call("ddl short row", "insert", space=280, tuple=[702, 1, "x"])
    yield _call("ddl secondary first", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[1, "string"]]])
    yield _call("ddl non-unique primary", "insert", space=288, tuple=[space, 0, "p", "tree", LOOSE, [[0, "unsigned"]]])
    yield _call(
        "ddl unknown index type", "insert", space=288, tuple=[space, 0, "p", "btree", UNIQUE, [[0, "unsigned"]]]
    )
    yield _call("ddl unknown part type", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "nope"]]])
    yield _call("ddl no parts", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, []])
    yield _call(
        "ddl part twice", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "unsigned"], [0, "unsigned"]]]
    )
    yield _call(
        "ddl nullable primary",
        "insert",
        space=288,
        tuple=[space, 0, "p", "tree", UNIQUE, [{"field": 0, "type": "unsigned", "is_nullable": True}]],
    )
    yield _call("ddl array part", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "array"]]])
    yield _call("ddl non-unique hash", "insert", space=288, tuple=[space, 0, "p", "hash", LOOSE, [[0, "unsigned"]]])
    yield _call("ddl index of no space", "insert", space=288, tuple=[999, 0, "p", "tree", UNIQUE, [[0, "unsigned"]]])
    yield _call("ddl primary", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "unsigned"]]])
    for n in range(3):
        yield _call(f"ddl row {n}", "insert", space=space, tuple=[n, "same", n if n else "text"])
    yield _call(
        "ddl index over wrong type", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[2, "unsigned"]]]
    )
    yield _call(
        "ddl unique index over equal", "insert", space=288, tuple=[space, 1, "s", "tree", UNIQUE, [[1, "string"]]]
    )
    yield _call(
        "ddl index over missing field", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[5, "unsigned"]]]
    )
    yield _call("ddl secondary", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[1, "string"]]])
    yield _call("ddl same index name", "insert", space=288, tuple=[space, 2, "s", "tree", LOOSE, [[1, "string"]]])
    yield _call("ddl secondary used", "select", space=space, index=1, key=["same"], iterator="EQ")
    yield _call("ddl format that does not fit", "update", space=280, key=[space], ops=[["=", 6, named(a="string")]])
    yield _call(
        "ddl format that fits", "update", space=280, key=[space], ops=[["=", 6, named(a="unsigned", b="string")]]
    )
    yield _call("ddl format refuses", "insert", space=space, tuple=[9, 9])
    yield _call(
        "ddl index contradicts format", "insert", space=288, tuple=[space, 3, "t", "tree", LOOSE, [[1, "unsigned"]]]
    )
    yield _call("ddl rename", "update", space=280, key=[space], ops=[["=", 2, "renamed"]])
    yield _call("ddl field count that does not fit", "update", space=280, key=[space], ops=[["=", 4, 2]])
    yield _call("ddl change id", "update", space=280, key=[space], ops=[["=", 0, 709]])
    yield _call("ddl change engine", "update", space=280, key=[space], ops=[["=", 3, "vinyl"]])
    yield _call("ddl drop primary before secondary", "delete", space=288, key=[space, 0])
    yield _call("ddl drop space before index", "delete", space=280, key=[space])
    yield _call("ddl truncate", "replace", space=330, tuple=[space, 1])
    yield _call("ddl truncated", "select", space=space)
    yield _call("ddl drop secondary", "delete", space=288, key=[space, 1])
    yield _call("ddl drop primary", "delete", space=288, key=[space, 0])
    yield _call("ddl drop truncate", "delete", space=330, key=[space])
    yield _call("ddl drop space", "delete", space=280, key=[space])
    yield _call("ddl space is gone", "select", space=space)
    yield _call("ddl local space", "insert", space=280, tuple=[703, 1, "local", "memtx", 0, {"group_id": 1}, []])
    yield _call(
        "ddl temporary space", "insert", space=280, tuple=[704, 1, "temporary", "memtx", 0, {"temporary": True}, []]
    )
    for number in (703, 704):
        yield _call(
            f"ddl index of {number}", "insert", space=288, tuple=[number, 0, "p", "tree", UNIQUE, [[0, "unsigned"]]]
        )
        yield _call(f"ddl row of {number}", "insert", space=number, tuple=[1])
    yield _call("ddl truncate system space", "replace", space=330, tuple=[280, 1])
    yield _call("ddl drop system space", "delete", space=280, key=[280])


def _calls() -> Iterator[Call]:
    yield _call("call unknown", "call", function="no_such_function", arguments=[])
    yield _call("call16 unknown", "call16", function="no_such_function", arguments=[1])
    yield _call("call unknown path", "call", function="box.no_such.thing", arguments=[])
    yield _call("call len", "call", function="box.space.words:len", arguments=[])
    yield _call("call count", "call", function="box.space.words.index.by_name:count", arguments=[["two"]])
    yield _call("call select", "call", function="box.space.words:select", arguments=[[1]])
    yield _call("call get", "call", function="box.space.words:get", arguments=[2])
    yield _call("call get none", "call", function="box.space.words:get", arguments=[12345])
    yield _call("call insert", "call", function="box.space.words:insert", arguments=[[80, "eighty"]])
    yield _call("call insert duplicate", "call", function="box.space.words:insert", arguments=[[80, "eighty"]])
    yield _call("call replace", "call", function="box.space.words:replace", arguments=[[80, "EIGHTY"]])
    yield _call("call update", "call", function="box.space.words:update", arguments=[80, [["=", 2, "by call"]]])
    yield _call("call delete", "call", function="box.space.words:delete", arguments=[80])
    yield _call("call16 select", "call16", function="box.space.words:select", arguments=[[1]])
    yield _call("call16 len", "call16", function="box.space.words:len", arguments=[])


def _users() -> Iterator[Call]:
    yield _call(
        "user row", "insert", space=304, tuple=[40, 1, "ann", "user", {"chap-sha1": "FOZVZ6vbUTXQz9mnCzAywXmknuc="}]
    )
    yield _call("user gets role public", "insert", space=312, tuple=[1, 40, "role", 2, 4])
    yield _call("user password", "auth", user="ann", password="secret")
    yield _call("user wrong password", "auth", user="ann", password="wrong")
    yield _call("user unknown", "auth", user="nobody", password="x")
    yield _call(
        "user may not select",
        "as",
        user="ann",
        password="secret",
        operation="select",
        arguments={"space": WORDS, "key": [1]},
    )
    yield _call("user may read", "insert", space=312, tuple=[1, 40, "space", WORDS, 1])
    yield _call(
        "user needs usage",
        "as",
        user="ann",
        password="secret",
        operation="select",
        arguments={"space": WORDS, "key": [1], "iterator": "EQ"},
    )
    yield _call("user gets session and usage", "insert", space=312, tuple=[1, 40, "universe", 0, 24])
    yield _call(
        "user selects",
        "as",
        user="ann",
        password="secret",
        operation="select",
        arguments={"space": WORDS, "key": [1], "iterator": "EQ"},
    )
    yield _call(
        "user may not write",
        "as",
        user="ann",
        password="secret",
        operation="insert",
        arguments={"space": WORDS, "tuple": [90, "x"]},
    )
    yield _call(
        "user may not delete",
        "as",
        user="ann",
        password="secret",
        operation="delete",
        arguments={"space": WORDS, "key": [1]},
    )
    yield _call(
        "user may not upsert",
        "as",
        user="ann",
        password="secret",
        operation="upsert",
        arguments={"space": WORDS, "tuple": [1, "a"], "ops": []},
    )
    yield _call(
        "user may not ddl",
        "as",
        user="ann",
        password="secret",
        operation="insert",
        arguments={"space": 280, "tuple": [720, 40, "x", "memtx", 0, {}, []]},
    )
    yield _call(
        "user may not call",
        "as",
        user="ann",
        password="secret",
        operation="call",
        arguments={"function": "box.info", "arguments": []},
    )
    yield _call("user drop in use", "delete", space=304, key=[40])
    yield _call("user privileges", "select", space=312, key=[40], iterator="EQ")
    yield _call("user unknown grantee", "insert", space=312, tuple=[1, 77, "universe", 0, 24])
    yield _call("user unknown object", "insert", space=312, tuple=[1, 40, "space", 9999, 1])
    yield _call("user unknown object type", "insert", space=312, tuple=[1, 40, "planet", 1, 1])
    yield _call("user same name", "insert", space=304, tuple=[41, 1, "ann", "user", {}])
    yield _call("user bad type", "insert", space=304, tuple=[41, 1, "bob", "cat", {}])
    yield _call("user drop guest", "delete", space=304, key=[0])
