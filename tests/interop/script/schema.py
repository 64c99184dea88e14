"""The spaces of the script, as rows of the system spaces."""

from __future__ import annotations

from typing import Any

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
