"""Walking an index: every iterator over whole, partial and empty keys (memtx_tree.cc), against a sorted list."""

from __future__ import annotations

from functools import cmp_to_key
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.numbers import rank, scalars
from tests.kernels.packing import pack
from tests.kernels.stores import primary

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It

TREE = (It.EQ, It.REQ, It.ALL, It.LT, It.LE, It.GE, It.GT, It.NP, It.PP)
REVERSE = (It.REQ, It.LT, It.LE, It.PP)


@pytest.fixture
def node(k: ModuleType) -> Any:
    return k.Memtx()


def pairs(k: ModuleType, node: Any, rows: list[list[Any]]) -> Any:
    """Index of (field 0 unsigned, field 1 string) over `rows`."""
    space = node.add_space(512)
    index = space.add_index(0, k.KeyDef([k.KeyPart(0, T.UNSIGNED), k.KeyPart(1, T.STRING)]), True)
    for row in rows:
        space.insert(pack(row))
    return index


ROWS = [[a, b] for a in (1, 2, 3) for b in ("a", "b", "c")]

CASES: list[tuple[It, list[Any], list[list[Any]]]] = [
    (It.EQ, [2, "b"], [[2, "b"]]),
    (It.EQ, [2, "x"], []),
    (It.EQ, [2], [[2, "a"], [2, "b"], [2, "c"]]),
    (It.REQ, [2], [[2, "c"], [2, "b"], [2, "a"]]),
    (It.REQ, [2, "b"], [[2, "b"]]),
    (It.REQ, [9], []),
    (It.GE, [3], [[3, "a"], [3, "b"], [3, "c"]]),
    (It.GE, [2, "c"], [[2, "c"], *ROWS[6:]]),
    (It.GE, [2, "bb"], [[2, "c"], *ROWS[6:]]),
    (It.ALL, [3], [[3, "a"], [3, "b"], [3, "c"]]),
    (It.GT, [2], ROWS[6:]),
    (It.GT, [3, "b"], [[3, "c"]]),
    (It.GT, [3], []),
    (It.LE, [1, "b"], [[1, "b"], [1, "a"]]),
    (It.LE, [1], [[1, "c"], [1, "b"], [1, "a"]]),
    (It.LE, [0], []),
    (It.LT, [2], [[1, "c"], [1, "b"], [1, "a"]]),
    (It.LT, [1, "b"], [[1, "a"]]),
    (It.LT, [1], []),
    (It.NP, [2], ROWS[6:]),
    (It.NP, [1, "b"], [[1, "c"], *ROWS[3:]]),
    (It.NP, [1, ""], []),
    (It.PP, [2], [[1, "c"], [1, "b"], [1, "a"]]),
    (It.PP, [1, "b"], [[1, "a"]]),
    *[(iterator, [], ROWS[::-1] if iterator in REVERSE else ROWS) for iterator in TREE],
]


@pytest.mark.parametrize(("iterator", "key", "expected"), CASES)
def test_each_iterator_walks_what_it_should(
    k: ModuleType, node: Any, iterator: It, key: list[Any], expected: list[list[Any]]
) -> None:
    index = pairs(k, node, ROWS)
    assert index.select(iterator, pack(key)) == [pack(row) for row in expected]
    assert index.count(iterator, pack(key)) == len(expected)


def test_offset_and_limit_cut_from_the_side_where_the_walk_begins(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, ROWS)
    assert index.select(It.GE, pack([2]), 1, 2) == [pack([2, "b"]), pack([2, "c"])]
    assert index.select(It.LE, pack([2]), 1, 2) == [pack([2, "b"]), pack([2, "a"])]
    assert index.select(It.REQ, pack([2]), 2) == [pack([2, "a"])]
    assert index.select(It.EQ, pack([2]), 0, 0) == []
    assert index.select(It.EQ, pack([2]), 3) == []
    assert index.select(It.ALL, b"\x90", 2**32 - 1) == []
    assert index.select(It.ALL, b"\x90", 7, 2**32 - 1) == [pack([3, "b"]), pack([3, "c"])]


def test_after_starts_behind_a_tuple_that_may_be_gone(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, ROWS)
    assert index.select(It.ALL, b"\x90", after=pack([3, "a"])) == [pack([3, "b"]), pack([3, "c"])]
    assert index.select(It.ALL, b"\x90", after=pack([3, "aa"])) == [pack([3, "b"]), pack([3, "c"])]
    assert index.select(It.LE, b"\x90", after=pack([1, "b"])) == [pack([1, "a"])]
    assert index.select(It.LE, b"\x90", after=pack([1, "bb"])) == [pack([1, "b"]), pack([1, "a"])]
    assert index.select(It.EQ, pack([2]), after=pack([2, "b"])) == [pack([2, "c"])]
    assert index.select(It.REQ, pack([2]), after=pack([2, "b"])) == [pack([2, "a"])]
    assert index.select(It.EQ, pack([2]), after=pack([2, "c"])) == []
    assert index.select(It.GE, pack([2]), 1, 1, after=pack([2, "b"])) == [pack([3, "a"])]
    assert index.select(It.GE, b"\x90", after=pack([3, "c"])) == []


def test_next_prefix_hops_from_directory_to_directory(k: ModuleType, node: Any) -> None:
    space = node.add_space(512)
    index = space.add_index(0, primary(k, 0, T.STRING), True)
    for name in ("", "a/1", "a/2", "b/1", "c", "\x7f", "ÿ"):
        space.insert(pack([name]))
    assert index.select(It.NP, pack(["a/"]), 0, 1) == [pack(["b/1"])]
    assert index.select(It.NP, pack(["c"])) == [pack(["\x7f"]), pack(["ÿ"])]
    assert index.select(It.PP, pack(["b/"]), 0, 1) == [pack(["a/2"])]
    assert index.select(It.NP, pack([""])) == []
    assert index.select(It.PP, pack(["a/1"])) == [pack([""])]


def test_next_prefix_of_a_string_of_greatest_bytes_has_nothing_behind(k: ModuleType, node: Any) -> None:
    space = node.add_space(512)
    index = space.add_index(0, primary(k, 0, T.STRING), True)
    rows = [b"\x91\xa2a\xff", b"\x91\xa3a\xff\xff", b"\x91\xa1b", b"\x91\xa2\xff\xff"]
    for row in rows:
        space.insert(row)
    assert index.select(It.NP, b"\x91\xa1a") == rows[2:]
    # The carry leaves a zero byte: the walk starts at "b\0" (index.cc, prepare_start_prefix_iterator).
    assert index.select(It.NP, b"\x91\xa2a\xff") == rows[3:]
    assert index.select(It.NP, b"\x91\xa1\xff") == []


def test_next_prefix_knows_only_strings(k: ModuleType, node: Any) -> None:
    space = node.add_space(512)
    index = space.add_index(0, primary(k, 0, T.SCALAR), True)
    for value in (1, 2, "a", "ab", b"a", b"ab"):
        space.insert(pack([value]))
    assert index.select(It.NP, pack([1])) == [pack([v]) for v in (2, "a", "ab", b"a", b"ab")]
    assert index.select(It.NP, pack(["a"])) == [pack([v]) for v in (b"a", b"ab")]
    assert index.select(It.NP, pack([b"a"])) == [pack([b"ab"])]
    assert index.select(It.PP, pack(["a"])) == [pack([v]) for v in (2, 1)]


def test_get_finds_by_a_full_key_in_any_form(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, ROWS)
    assert index.get(pack([2, "b"])) == pack([2, "b"])
    assert index.get(b"\xdc\x00\x02\xcd\x00\x02\xd9\x01b") == pack([2, "b"])
    assert index.get(pack([2, "x"])) is None
    with pytest.raises(k.KeyViolation):
        index.get(pack([2]))


def test_keys_that_do_not_fit_are_refused(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, ROWS)
    for key in (["a"], [1, 2], [1, "a", 3], [None], [1.5]):
        with pytest.raises(k.KeyViolation):
            index.select(It.EQ, pack(key))
        with pytest.raises(k.KeyViolation):
            index.count(It.GE, pack(key))


def test_iterators_of_other_indexes_are_refused(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, ROWS)
    for iterator in (7, 8, 9, 10, 11, 14, 255):
        with pytest.raises(ValueError):
            index.select(iterator, b"\x90")


def test_an_empty_index_answers_with_nothing(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, [])
    assert len(index) == 0
    assert index.get(pack([1, "a"])) is None
    assert index.random(5) is None
    for iterator in TREE:
        assert index.select(iterator, b"\x90") == []
        assert index.select(iterator, pack([1])) == []
        assert index.count(iterator, pack([1])) == 0


def test_random_gives_one_of_the_tuples_for_every_seed(k: ModuleType, node: Any) -> None:
    index = pairs(k, node, ROWS)
    seen = {index.random(seed) for seed in range(200)}
    assert seen <= {pack(row) for row in ROWS}
    assert len(seen) > 3
    assert index.random(2**32 - 1) in {pack(row) for row in ROWS}


def test_bsize_grows_with_the_index(k: ModuleType, node: Any) -> None:
    space = node.add_space(512)
    index = space.add_index(0, primary(k), True)
    for number in range(1000):
        space.insert(pack([number]))
    assert len(index) == 1000
    assert index.bsize >= 16 * 1000


def test_ten_thousand_keys_in_any_order_keep_their_order(k: ModuleType) -> None:
    count = 10_000
    orders = {
        "up": range(count),
        "down": range(count - 1, -1, -1),
        "mixed": [number * 7919 % count for number in range(count)],
    }
    for name, order in orders.items():
        node = k.Memtx()
        space = node.add_space(512)
        index = space.add_index(0, primary(k), True)
        for number in order:
            space.insert(pack([number]))
        assert index.select(It.ALL, b"\x90") == [pack([number]) for number in range(count)], name
        for number in range(0, count, 3):
            assert space.delete(0, pack([number])) == pack([number])
        left = [number for number in range(count) if number % 3]
        assert index.select(It.ALL, b"\x90") == [pack([number]) for number in left], name
        assert index.count(It.LT, pack([5000])) == sum(number < 5000 for number in left)


# ---- against a sorted list -----------------------------------------------------------------------------

small = st.one_of(st.none(), st.integers(0, 4), st.sampled_from(["", "a", "ab", "b"]))
words = st.one_of(small, scalars)
rows_of_words = st.lists(st.tuples(st.integers(0, 60), words, words), max_size=30, unique_by=lambda row: row[0])


def model_select(
    rows: list[tuple[Any, ...]], iterator: It, key: list[Any], offset: int, limit: int
) -> list[tuple[Any, ...]]:
    """Rows are [id, a, b], sorted by a, b, id."""
    ordered = sorted(rows, key=lambda row: (rank(row[1]), rank(row[2]), row[0]))
    wanted = tuple(rank(part) for part in key)

    def place(row: tuple[Any, ...]) -> int:
        own = tuple(rank(part) for part in row[1 : 1 + len(key)])
        return (own > wanted) - (own < wanted)

    def behind_prefix(row: tuple[Any, ...]) -> bool:
        last = key[-1]
        if not isinstance(last, str):
            return place(row) > 0
        if not last:
            return False
        own = tuple(rank(part) for part in row[1 : len(key)])
        if own != wanted[:-1]:
            return own > wanted[:-1]
        value = row[len(key)]
        is_inside = isinstance(value, str) and value.encode().startswith(last.encode())
        return place(row) > 0 and not is_inside

    chosen = {
        It.EQ: lambda row: place(row) == 0, It.REQ: lambda row: place(row) == 0,
        It.ALL: lambda row: place(row) >= 0, It.GE: lambda row: place(row) >= 0, It.GT: lambda row: place(row) > 0,
        It.LE: lambda row: place(row) <= 0, It.LT: lambda row: place(row) < 0, It.PP: lambda row: place(row) < 0,
        It.NP: behind_prefix,
    }  # fmt: skip
    out = [row for row in ordered if not key or chosen[iterator](row)]
    if iterator in REVERSE:
        out.reverse()
    return out[offset : offset + limit]


@given(
    rows=rows_of_words,
    iterator=st.sampled_from(TREE),
    key=st.lists(words, max_size=2),
    offset=st.integers(0, 5),
    limit=st.one_of(st.integers(0, 5), st.just(2**32 - 1)),
)
def test_select_equals_a_sorted_list(
    k: ModuleType, rows: list[tuple[Any, ...]], iterator: It, key: list[Any], offset: int, limit: int
) -> None:
    node = k.Memtx()
    space = node.add_space(512)
    space.add_index(0, primary(k), True)
    parts = [k.KeyPart(1, T.SCALAR, True), k.KeyPart(2, T.SCALAR, True)]
    index = space.add_index(1, k.KeyDef(parts, [k.KeyPart(0, T.UNSIGNED)]), False)
    for row in rows:
        space.insert(pack(row))
    expected = model_select(rows, iterator, key, offset, limit)
    assert index.select(iterator, pack(key), offset, limit) == [pack(row) for row in expected]
    assert index.count(iterator, pack(key)) == len(model_select(rows, iterator, key, 0, 2**32))


@given(rows=rows_of_words, gone=st.tuples(st.integers(0, 60), words, words), iterator=st.sampled_from((It.ALL, It.LE)))
def test_after_equals_a_sorted_list(
    k: ModuleType, rows: list[tuple[Any, ...]], gone: tuple[Any, ...], iterator: It
) -> None:
    node = k.Memtx()
    space = node.add_space(512)
    space.add_index(0, primary(k), True)
    parts = [k.KeyPart(1, T.SCALAR, True), k.KeyPart(2, T.SCALAR, True)]
    key_def = k.KeyDef(parts, [k.KeyPart(0, T.UNSIGNED)])
    index = space.add_index(1, key_def, False)
    for row in rows:
        space.insert(pack(row))
    ordered = sorted((pack(row) for row in rows), key=cmp_to_key(key_def.compare))
    side = 1 if iterator == It.ALL else -1
    expected = [row for row in ordered[::side] if key_def.compare(row, pack(gone)) == side]
    assert index.select(iterator, b"\x90", after=pack(gone)) == expected
