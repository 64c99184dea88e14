"""Recovery: rows of snapshots and journals go straight into the indexes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Raw, pack, pack_map
from tests.kernels.stores import SPACE, add_space, memtx, primary

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It


def row(
    type: int, lsn: int, body: dict[int, Any] | None = None, replica_id: int = 1, tm: float = 1.5, **more: int
) -> bytes:
    """A row of a file; `tsn` and `flags` by name."""
    head: dict[int, Any] = {0x00: type, 0x02: replica_id, 0x03: lsn, 0x04: tm}
    head |= {{"tsn": 0x08, "flags": 0x09, "group": 0x07}[name]: value for name, value in more.items()}
    if not replica_id:
        del head[0x02]
    if not lsn:
        del head[0x03]
    return pack_map(head) + (b"" if body is None else pack_map(body))


def put(type: int, lsn: int, value: list[Any], space: int = SPACE, **more: Any) -> bytes:
    return row(type, lsn, {0x10: space, 0x21: value}, **more)


def drop(lsn: int, key: list[Any], **more: Any) -> bytes:
    return row(DELETE, lsn, {0x10: SPACE, 0x20: key}, **more)


def contents(node: Any, space: int = SPACE) -> list[bytes]:
    return list(node.space(space).index(0).select(It.ALL, b"\x90"))


def packed(*values: Any) -> list[bytes]:
    return [pack(value) for value in values]


def apply(node: Any, data: bytes, snapshot: bool = False) -> tuple[int, int]:
    out = node.apply(data, 0, len(data), snapshot)
    assert isinstance(out, tuple)
    return out


def test_journal_rows_are_applied_and_move_the_vclock(k: ModuleType) -> None:
    node = memtx(k)
    data = put(INSERT, 5, [1, "a"]) + put(REPLACE, 6, [1, "b"]) + put(INSERT, 7, [2, "c"], replica_id=2) + drop(8, [9])
    assert apply(node, data) == (len(data), 4)
    assert contents(node) == packed([1, "b"], [2, "c"])
    assert node.vclock[:3] == [0, 8, 7]
    assert node.undo_end == 0
    assert node.take_rows() == (b"", [], 0)
    assert node.undo_enabled is True


def test_rows_that_the_vclock_has_are_skipped(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(1, 6)
    data = (
        put(INSERT, 5, [1, "a"])
        + put(INSERT, 6, [2, "a"])
        + put(INSERT, 7, [3, "a"])
        + put(INSERT, 1, [4, "a"], replica_id=2)
    )
    assert apply(node, data) == (len(data), 4)
    assert contents(node) == packed([3, "a"], [4, "a"])
    assert node.vclock[:3] == [0, 7, 1]


def test_local_rows_belong_to_component_zero(k: ModuleType) -> None:
    node = memtx(k)
    add_space(k, node, 600, local=True)
    data = put(REPLACE, 3, [1, "a"], space=600, replica_id=0, group=1)
    assert apply(node, data) == (len(data), 1)
    assert node.vclock[0] == 3


def test_snapshot_rows_ignore_the_vclock_and_leave_it(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(0, 100)
    data = b"".join(put(INSERT, number, [number, "a"], replica_id=0) for number in range(3))
    assert apply(node, data, snapshot=True) == (len(data), 3)
    assert contents(node) == packed([0, "a"], [1, "a"], [2, "a"])
    assert node.vclock[0] == 100


def test_it_reads_what_a_view_wrote(k: ModuleType) -> None:
    node = memtx(k)
    for number in range(1000):
        node.space(SPACE).insert(pack([number * 7919 % 1000, "x" * (number % 50)]))
    data, count = node.open_view([SPACE]).fill(1 << 30, 0, 1.5)
    other = memtx(k)
    assert apply(other, data, snapshot=True) == (len(data), count) == (len(data), 1000)
    assert contents(other) == contents(node)


def test_it_reads_what_add_row_wrote(k: ModuleType) -> None:
    node, other = memtx(k), memtx(k)
    body = b"\x82\x10\xcd\x02\x00\x21"
    for number in range(300):
        flags = 1 if number % 3 == 2 else 0
        node.add_row(REPLACE, 0, body + pack([number, "a"]), number - number % 3 + 1, flags)
    data, ends, count = node.take_rows()
    assert (len(ends), count) == (100, 300)
    assert apply(other, data) == (len(data), 300)
    assert other.vclock == node.vclock
    assert len(other.space(SPACE)) == 300


def test_a_delete_may_name_a_secondary_index(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).add_index(1, primary(k, 1, T.STRING), True)
    data = put(INSERT, 1, [1, "a"]) + row(DELETE, 2, {0x10: SPACE, 0x11: 1, 0x20: ["a"]})
    assert apply(node, data) == (len(data), 2)
    assert contents(node) == []


def test_an_insert_of_a_key_that_is_there_says_where(k: ModuleType) -> None:
    node = memtx(k)
    before = put(INSERT, 1, [1, "a"]) + put(INSERT, 2, [2, "a"])
    data = before + put(INSERT, 3, [1, "b"]) + put(INSERT, 4, [3, "a"])
    with pytest.raises(k.DuplicateKey) as caught:
        apply(node, data)
    error = caught.value
    assert (error.index_id, error.old, error.new) == (0, pack([1, "a"]), pack([1, "b"]))
    assert (error.offset, error.rows) == (len(before), 2)
    assert contents(node) == packed([1, "a"], [2, "a"])
    assert node.vclock[1] == 2
    assert node.undo_enabled is True


ODD: dict[str, bytes] = {
    "an update": row(UPDATE, 5, {0x10: SPACE, 0x20: [1], 0x21: []}),
    "an upsert": row(UPSERT, 5, {0x10: SPACE, 0x21: [1, "a"], 0x28: []}),
    "a nop": row(12, 5),
    "a raft row": row(30, 0, {0: 1}, replica_id=0),
    "an unknown type": row(99, 5, {}),
    "an unknown space": put(INSERT, 5, [1, "a"], space=999),
    "a tuple of another format": put(INSERT, 5, ["a", 1]),
    "a key of another type": drop(5, ["a"]),
    "half a key": drop(5, []),
    "no tuple": row(INSERT, 5, {0x10: SPACE}),
    "no space": row(INSERT, 5, {0x21: [1, "a"]}),
    "a header that is an array": b"\x90\x80",
    "a header that is cut": b"\x82\x00\x02",
    "a body that is an array": pack_map({0: INSERT, 3: 5}) + b"\x90",
    "a tuple that is cut": put(INSERT, 5, [1, "abc"])[:-1],
    "a tuple with a broken decimal": put(INSERT, 5, [1, "a", Raw(b"\xd4\x01\x00")]),
    "an id outside the vclock": put(INSERT, 5, [1, "a"], replica_id=32),
    "an lsn that is a string": pack_map({0: INSERT, 3: "a"}) + pack_map({0x10: SPACE, 0x21: [1, "a"]}),
    "flags of a synchronous transaction": put(INSERT, 5, [1, "a"], flags=6),
    "flags of one that waits for it": put(INSERT, 5, [1, "a"], flags=2),
}


@pytest.mark.parametrize("name", ODD)
def test_it_stops_before_a_row_with(k: ModuleType, name: str) -> None:
    node = memtx(k)
    good = put(INSERT, 4, [9, "good"])
    data = good + ODD[name]
    assert apply(node, data) == (len(good), 1)
    assert contents(node) == packed([9, "good"])
    assert node.vclock[1] == 4


def test_it_stops_before_a_space_that_is_not_fast(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).fast = False
    assert apply(node, put(INSERT, 1, [1, "a"])) == (0, 0)
    assert apply(node, put(INSERT, 1, [1, "a"]), snapshot=True) == (0, 0)


def test_a_transaction_is_applied_whole(k: ModuleType) -> None:
    node = memtx(k)
    data = put(INSERT, 1, [1, "a"], tsn=0) + put(INSERT, 2, [2, "a"], tsn=1) + put(INSERT, 3, [3, "a"], tsn=2, flags=1)
    assert apply(node, data) == (len(data), 3)
    assert len(contents(node)) == 3


@pytest.mark.parametrize("last", ["absent", "cut", "an update", "synchronous"])
def test_a_transaction_that_is_not_plain_is_left_whole(k: ModuleType, last: str) -> None:
    node = memtx(k)
    before = put(INSERT, 1, [9, "before"])
    start = put(INSERT, 2, [1, "a"], tsn=0) + put(INSERT, 3, [2, "a"], tsn=1)
    end = {
        "absent": b"",
        "cut": put(INSERT, 4, [3, "a"], tsn=2, flags=1)[:-1],
        "an update": row(UPDATE, 4, {0x10: SPACE, 0x20: [1], 0x21: []}, tsn=2, flags=1),
        "synchronous": put(INSERT, 4, [3, "a"], tsn=2, flags=7),
    }[last]
    assert apply(node, before + start + end) == (len(before), 1)
    assert contents(node) == packed([9, "before"])
    assert node.vclock[1] == 1


def test_an_empty_range_is_done(k: ModuleType) -> None:
    node = memtx(k)
    assert node.apply(b"abc", 3, 3, False) == (3, 0)


def test_a_range_is_not_left(k: ModuleType) -> None:
    node = memtx(k)
    one, two = put(INSERT, 1, [1, "a"]), put(INSERT, 2, [2, "a"])
    data = b"junk" + one + two
    assert node.apply(data, 4, 4 + len(one), False) == (4 + len(one), 1)
    assert node.apply(data, 4 + len(one), len(data) - 1, False) == (4 + len(one), 0)
    assert contents(node) == packed([1, "a"])


@given(data=st.binary(max_size=100), snapshot=st.booleans())
def test_foreign_bytes_are_not_applied(k: ModuleType, data: bytes, snapshot: bool) -> None:
    node = memtx(k)
    offset, taken = apply(node, data, snapshot)
    assert 0 <= offset <= len(data)
    assert (offset == 0) == (taken == 0)


@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3),
    snapshot=st.booleans(),
)
def test_flipped_bytes_never_break_the_store(k: ModuleType, flips: list[tuple[int, int]], snapshot: bool) -> None:
    node = memtx(k)
    data = bytearray(b"".join(put(REPLACE, number, [number, "a"]) for number in range(1, 6)))
    for place, value in flips:
        data[place % len(data)] = value
    try:
        offset, taken = apply(node, bytes(data), snapshot)
    except k.DuplicateKey as error:
        offset, taken = error.offset, error.rows
    assert 0 <= offset <= len(data)
    assert taken <= 10
    assert len(contents(node)) == len(node.space(SPACE)) <= taken
