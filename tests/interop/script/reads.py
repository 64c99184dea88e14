"""Plain inserts, and every way to select from tree and hash indexes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.interop.script.calls import Call, call
from tests.interop.script.schema import HASH, PAIRS, WORDS

ITERATORS = ("EQ", "REQ", "ALL", "LT", "LE", "GE", "GT")


def _ping() -> Iterator[Call]:
    yield call("ping", "ping")


def _insert() -> Iterator[Call]:
    for n, word in enumerate(["one", "two", "three", "four", "five", "two", "", "ünïcode", "two"], 1):
        yield call(f"insert words {n}", "insert", space=WORDS, tuple=[n, word, -n if n % 3 else None])
    yield call(
        "insert words with rest", "insert", space=WORDS, tuple=[10, "ten", 100, {"a": [1, None, True]}, "more", 1.5]
    )
    yield call("insert words short", "insert", space=WORDS, tuple=[11, "eleven"])
    yield call("insert duplicate", "insert", space=WORDS, tuple=[1, "again", None])
    yield call("insert wrong type of key", "insert", space=WORDS, tuple=["x", "y"])
    yield call("insert wrong type of field", "insert", space=WORDS, tuple=[20, 20])
    yield call("insert wrong type of nullable field", "insert", space=WORDS, tuple=[20, "a", "b"])
    yield call("insert nil into not nullable", "insert", space=WORDS, tuple=[20, None])
    yield call("insert missing field", "insert", space=WORDS, tuple=[20])
    yield call("insert empty", "insert", space=WORDS, tuple=[])
    yield call("insert negative key", "insert", space=WORDS, tuple=[-1, "minus"])
    yield call("insert float key", "insert", space=WORDS, tuple=[1.5, "float"])
    yield call("insert biggest key", "insert", space=WORDS, tuple=[2**64 - 1, "biggest", 2**63 - 1])
    yield call("insert into no space", "insert", space=999, tuple=[1])


def _select() -> Iterator[Call]:
    for iterator in ITERATORS:
        yield call(f"select words {iterator} all", "select", space=WORDS, iterator=iterator)
        for key in ([3], [8], [0], [12]):
            yield call(f"select words {iterator} {key}", "select", space=WORDS, key=key, iterator=iterator)
        for name in ("two", "t", "", "zzz"):
            yield call(
                f"select by_name {iterator} {name!r}", "select", space=WORDS, index=1, key=[name], iterator=iterator
            )
        for key in ([None], [-2], [-100], [100]):
            yield call(f"select by_n {iterator} {key}", "select", space=WORDS, index=2, key=key, iterator=iterator)
    for offset, limit in ((0, 0), (0, 2), (2, 2), (9, 10), (100, 10), (3, 1)):
        yield call(f"select words {offset} {limit}", "select", space=WORDS, offset=offset, limit=limit)
        yield call(
            f"select words back {offset} {limit}", "select", space=WORDS, iterator="LE", offset=offset, limit=limit
        )
        yield call(
            f"select two {offset} {limit}",
            "select",
            space=WORDS,
            index=1,
            key=["two"],
            iterator="EQ",
            offset=offset,
            limit=limit,
        )
    yield call("select no space", "select", space=999, key=[1])
    yield call("select no index", "select", space=WORDS, index=9, key=[1])
    yield call("select wrong type", "select", space=WORDS, key=["x"], iterator="EQ")
    yield call("select float for unsigned", "select", space=WORDS, key=[1.0], iterator="EQ")
    yield call("select negative for unsigned", "select", space=WORDS, key=[-1], iterator="EQ")
    yield call("select nil for unsigned", "select", space=WORDS, key=[None], iterator="EQ")
    yield call("select too many parts", "select", space=WORDS, key=[1, 2], iterator="EQ")
    yield call("select unknown iterator", "select", "raw", space=WORDS, key=[1], iterator=30)
    yield call("select spatial iterator", "select", "raw", space=WORDS, key=[1], iterator=10)
    yield call("select bits iterator", "select", "raw", space=WORDS, key=[1], iterator=7)


def _pairs() -> Iterator[Call]:
    n = 0
    for a in (1, 2, 3):
        for b in ("a", "b", "c"):
            n += 1
            yield call(f"insert pairs {a}{b}", "insert", space=PAIRS, tuple=[a, b, n * 1.5, n])
    for iterator in ITERATORS:
        for key in ([], [2], [2, "b"], [2, "bb"], [0], [9]):
            yield call(f"select pairs {iterator} {key}", "select", space=PAIRS, key=key, iterator=iterator)
        for key in ([], [6], [6.0], [4.5], [-1]):
            yield call(f"select third {iterator} {key}", "select", space=PAIRS, index=1, key=key, iterator=iterator)
    yield call("pairs duplicate in secondary", "insert", space=PAIRS, tuple=[9, "z", 3])
    yield call("pairs replace collides in secondary", "replace", space=PAIRS, tuple=[1, "a", 3])
    yield call("pairs replace same", "replace", space=PAIRS, tuple=[1, "a", 1.5, "same"])
    yield call("pairs update collides in secondary", "update", space=PAIRS, key=[1, "a"], ops=[["=", 2, 3]])
    yield call("pairs delete partial key", "delete", space=PAIRS, key=[1])
    yield call("pairs delete by secondary", "delete", space=PAIRS, index=1, key=[13.5])
    yield call("pairs update by secondary", "update", space=PAIRS, index=1, key=[12], ops=[["=", 3, "eight"]])
    yield call("pairs update partial key", "update", space=PAIRS, key=[1], ops=[["=", 3, 0]])
    yield call("pairs delete nothing", "delete", space=PAIRS, key=[7, "x"])
    yield call("pairs update nothing", "update", space=PAIRS, key=[7, "x"], ops=[["=", 3, 0]])
    yield call("pairs missing key part", "insert", space=PAIRS, tuple=[1])
    yield call("pairs left", "select", space=PAIRS)


def _hash() -> Iterator[Call]:
    yield call("insert hash", "insert", space=HASH, tuple=["k", 1])
    yield call("hash duplicate", "insert", space=HASH, tuple=["k", 2])
    yield call("hash field count", "insert", space=HASH, tuple=["x"])
    yield call("hash field count more", "insert", space=HASH, tuple=["x", 1, 2])
    yield call("hash all", "select", space=HASH)
    for iterator in ITERATORS:
        yield call(f"hash {iterator} key", "select", space=HASH, key=["k"], iterator=iterator)
        yield call(f"hash {iterator} no key", "select", space=HASH, key=[], iterator=iterator)
    for iterator in ("ALL", "EQ"):
        yield call(f"hash {iterator} key that is not there", "select", space=HASH, key=["z"], iterator=iterator)
    yield call("hash replace", "replace", space=HASH, tuple=["k", 3])
    yield call("hash update", "update", space=HASH, key=["k"], ops=[["+", 1, 4]])
    yield call("hash upsert", "upsert", space=HASH, tuple=["k", 0], ops=[["+", 1, 1]])
    yield call("hash get", "select", space=HASH, key=["k"], iterator="EQ")
    yield call("hash delete", "delete", space=HASH, key=["k"])
    yield call("hash delete again", "delete", space=HASH, key=["k"])


PARTS = (_ping, _insert, _select, _pairs, _hash)
