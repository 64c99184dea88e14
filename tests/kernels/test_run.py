"""The compiled path for plain requests: replies to the byte, and a stop before everything that is not plain."""

from __future__ import annotations

import struct
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import (
    DELETE,
    INSERT,
    PING,
    REPLACE,
    SELECT,
    UPDATE,
    UPSERT,
    Raw,
    delete,
    insert,
    pack,
    packet,
    preamble,
    replace,
    reply,
    select,
)  # fmt: skip
from tests.kernels.stores import SPACE, add_space, memtx, primary

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It

TM = b"\x04\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"


def run(node: Any, data: bytes, token: int = 0, read_only: bool = False) -> tuple[int, bytes, int, bool]:
    out = node.run(data, 0, len(data), token, read_only)
    assert isinstance(out, tuple)
    return out


def rows(node: Any, space: int = SPACE, index: int = 0) -> list[bytes]:
    return list(node.space(space).index(index).select(It.ALL, b"\x90"))


def packed(*values: Any) -> list[bytes]:
    return [pack(value) for value in values]


def confirmed(k: ModuleType, *values: Any) -> Any:
    """A node that holds these tuples, all written."""
    node = memtx(k)
    for value in values:
        node.space(SPACE).insert(pack(value))
    node.confirm_to(node.undo_end)
    return node


def stops(node: Any, data: bytes, token: int = 0, read_only: bool = False) -> bool:
    """Does a run leave this request and the store alone, before and behind requests that it serves?"""
    good = packet({0: PING, 1: 5})
    before = rows(node), node.vclock, node.undo_end, node.rows_pending
    alone = run(node, data, token, read_only)
    behind = run(node, good + data + good, token, read_only)
    unchanged = before == (rows(node), node.vclock, node.undo_end, node.rows_pending)
    return unchanged and alone == (0, b"", 0, False) and behind[0] == len(good) and behind[2] == 1


# ---- what it does --------------------------------------------------------------------------------------


def test_ping(k: ModuleType) -> None:
    node = memtx(k)
    data = packet({0: PING, 1: 7})
    expected = b"\xce\x00\x00\x00\x1c\x83\x00\xce" + bytes(4) + b"\x01\xcf" + struct.pack(">Q", 7)
    expected += b"\x05\xcf" + struct.pack(">Q", 80) + b"\x80"
    assert run(node, data) == (len(data), expected, 1, False)
    with_body = packet({0: PING, 1: 7}, {})
    assert run(node, with_body) == (len(with_body), expected, 1, False)


def test_replace_is_stored_answered_and_journaled(k: ModuleType) -> None:
    node = memtx(k)
    data = replace(SPACE, [1, "a"], sync=2**40)
    assert run(node, data) == (len(data), reply(2**40, 80, packed([1, "a"])), 1, True)
    assert rows(node) == packed([1, "a"])
    assert node.undo_end == 1
    row = b"\x84\x00\x03\x02\x01\x03\x01" + TM + b"\x82\x10\xcd\x02\x00\x21\x92\x01\xa1a"
    assert node.take_rows() == (row, [len(row)], 1)
    assert node.vclock[1] == 1


def test_insert_and_delete_are_journaled_as_themselves(k: ModuleType) -> None:
    node = memtx(k)
    data = insert(SPACE, [1, "a"]) + delete(SPACE, [1], sync=2)
    assert run(node, data) == (len(data), reply(1, 80, packed([1, "a"])) + reply(2, 80, packed([1, "a"])), 2, True)
    assert rows(node) == []
    body = b"\x82\x10\xcd\x02\x00"
    first = b"\x84\x00\x02\x02\x01\x03\x01" + TM + body + b"\x21\x92\x01\xa1a"
    second = b"\x84\x00\x05\x02\x01\x03\x02" + TM + body + b"\x20\x91\x01"
    assert node.take_rows() == (first + second, [len(first), len(first + second)], 2)


def test_a_tuple_keeps_its_bytes_on_every_way(k: ModuleType) -> None:
    node = memtx(k)
    row = Raw(b"\xdc\x00\x03\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xd9\x01a\xc7\x01\x64x")
    data = packet({0: REPLACE, 1: 1}, {0x10: SPACE, 0x21: row})
    assert run(node, data)[1] == reply(1, 80, [row])
    assert rows(node) == [row]
    assert node.take_rows()[0].endswith(b"\x21" + row)


def test_a_delete_that_finds_nothing_is_journaled_too(k: ModuleType) -> None:
    """txn.c, txn_commit_stmt: the row is made of the request, found or not."""
    node = memtx(k)
    data = delete(SPACE, [9])
    assert run(node, data) == (len(data), reply(1, 80, []), 1, True)
    assert node.take_rows()[0] == b"\x84\x00\x05\x02\x01\x03\x01" + TM + b"\x82\x10\xcd\x02\x00\x20\x91\x09"
    assert node.undo_end == 0


def test_a_delete_by_a_secondary_key_is_journaled_by_the_primary_one(k: ModuleType) -> None:
    """space.c, space_execute_dml."""
    node = memtx(k)
    node.space(SPACE).add_index(1, primary(k, 1, T.STRING), True)
    node.space(SPACE).insert(pack([7, "seven"]))
    data = delete(SPACE, ["seven"], index=1) + delete(SPACE, ["gone"], index=1, sync=2)
    assert run(node, data) == (len(data), reply(1, 80, packed([7, "seven"])) + reply(2, 80, []), 2, True)
    found = b"\x84\x00\x05\x02\x01\x03\x01" + TM + b"\x82\x10\xcd\x02\x00\x20\x91\x07"
    missed = b"\x84\x00\x05\x02\x01\x03\x02" + TM + b"\x83\x10\xcd\x02\x00\x11\x01\x20\x91\xa4gone"
    assert node.take_rows()[0] == found + missed


def test_select_walks_as_the_index_does(k: ModuleType) -> None:
    node = confirmed(k, *([number, "x"] for number in range(10)))
    index = node.space(SPACE).index(0)
    for iterator in (It.EQ, It.REQ, It.ALL, It.LT, It.LE, It.GE, It.GT, It.NP, It.PP):
        for key in ([], [5]):
            data = select(SPACE, key, iterator, limit=3, offset=1)
            expected = reply(1, 80, index.select(iterator, pack(key), 1, 3))
            assert run(node, data) == (len(data), expected, 1, False), (iterator, key)


def test_select_needs_no_iterator_offset_or_index(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"], [2, "b"])
    data = packet({0: SELECT, 1: 1}, {0x10: SPACE, 0x12: 2**32 - 1, 0x20: [2]})
    assert run(node, data) == (len(data), reply(1, 80, packed([2, "b"])), 1, False)


def test_select_by_a_secondary_index(k: ModuleType) -> None:
    node = confirmed(k, [1, "b"], [2, "a"])
    node.space(SPACE).add_index(1, k.KeyDef([k.KeyPart(1, T.STRING)], [k.KeyPart(0, T.UNSIGNED)]), False)
    data = select(SPACE, [], It.GE, index=1)
    assert run(node, data) == (len(data), reply(1, 80, packed([2, "a"], [1, "b"])), 1, False)


def test_a_run_serves_what_it_has_read_and_later_the_rest(k: ModuleType) -> None:
    node = memtx(k)
    data = b"".join(replace(SPACE, [number, "a"], sync=number) for number in range(10))
    cut = len(data) - 3
    offset, replies, served, dirty = node.run(data, 0, cut, 0, False)
    assert (served, dirty) == (9, True)
    assert data[offset:] == replace(SPACE, [9, "a"], sync=9)
    assert replies == b"".join(reply(number, 80, packed([number, "a"])) for number in range(9))
    rest = b"junk" + data[offset:]
    assert node.run(rest, 4, len(rest), 0, False) == (len(rest), reply(9, 80, packed([9, "a"])), 1, True)


def test_an_empty_range_is_served_at_once(k: ModuleType) -> None:
    node = memtx(k)
    assert node.run(b"", 0, 0, 0, False) == (0, b"", 0, False)
    assert node.run(b"abc", 3, 3, 0, False) == (3, b"", 0, False)


def test_dirty_says_that_a_reply_waits_for_the_journal(k: ModuleType) -> None:
    node = memtx(k)
    add_space(k, node, 600).insert(pack([1, "quiet"]))
    node.confirm_to(node.undo_end)
    quiet, own = select(600, [1]), select(SPACE, [1])
    assert run(node, quiet)[3] is False
    assert run(node, replace(SPACE, [1, "a"]))[3] is True
    assert run(node, own)[3] is True
    assert run(node, quiet)[3] is False
    assert run(node, quiet + own)[3] is True
    assert run(node, packet({0: PING, 1: 1}))[3] is False
    node.confirm_to(node.undo_end)
    assert run(node, own)[3] is False
    run(node, delete(SPACE, [1]))
    assert run(node, own)[3] is True
    node.rollback_to(node.undo_end - 1)
    assert run(node, own) == (len(own), reply(1, 80, packed([1, "a"])), 1, False)
    node.push_undo(lambda: None)
    assert run(node, quiet)[3] is True
    node.confirm_to(node.undo_end)
    assert run(node, quiet)[3] is False


def test_a_temporary_space_has_no_rows_and_no_lsn(k: ModuleType) -> None:
    node = memtx(k)
    add_space(k, node, 600, temporary=True)
    data = replace(600, [1, "a"]) + delete(600, [1])
    assert run(node, data)[2] == 2
    assert node.take_rows() == (b"", [], 0)
    assert node.vclock == [0] * 32


def test_a_local_space_counts_in_component_zero(k: ModuleType) -> None:
    node = memtx(k)
    add_space(k, node, 600, local=True)
    run(node, replace(600, [1, "a"]))
    row = b"\x84\x00\x03\x07\x01\x03\x01" + TM + b"\x82\x10\xcd\x02\x58\x21\x92\x01\xa1a"
    assert node.take_rows()[0] == row
    assert node.vclock[:2] == [1, 0]


def test_no_rows_are_made_for_wal_mode_none(k: ModuleType) -> None:
    node = memtx(k)
    node.rows_enabled = False
    assert run(node, replace(SPACE, [1, "a"]))[2] == 1
    assert node.rows_pending == 0
    assert node.vclock[1] == 1


def test_the_schema_version_of_the_node_is_accepted(k: ModuleType) -> None:
    node = memtx(k)
    for version in (0, 80):
        data = packet({0: PING, 1: 1, 5: version})
        assert run(node, data)[2] == 1
    assert stops(node, packet({0: PING, 1: 1, 5: 79}))


def test_lengths_and_numbers_may_have_any_form(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"])
    inside = b"\x82\x01\xcd\x00\x09\x00\xcc\x01" + b"\x84\x1f\xc2\x20\xdc\x00\x01\xcf" + bytes(7) + b"\x01"
    inside += b"\x12\x05\x10\xcf\x00\x00\x00\x00\x00\x00\x02\x00"
    size = bytes([len(inside)])
    for head in (size, b"\xcc" + size, b"\xcd\x00" + size, b"\xcf" + bytes(7) + size):
        data = head + inside
        assert run(node, data) == (len(data), reply(9, 80, packed([1, "a"])), 1, False)


def test_a_stream_of_zero_is_none(k: ModuleType) -> None:
    assert run(memtx(k), packet({0: PING, 1: 1, 0x0A: 0}))[2] == 1


def test_sync_may_be_absent(k: ModuleType) -> None:
    node = memtx(k)
    data = packet({0: PING})
    assert run(node, data)[1] == preamble(0, 80, 1) + b"\x80"


def test_replies_of_one_call_are_bounded(k: ModuleType) -> None:
    node = confirmed(k, *([number, "x" * 1_000_000] for number in range(3)))
    one = select(SPACE, [], It.ALL)
    offset, replies, served, _ = run(node, one * 20)
    assert served == 6
    assert offset == 6 * len(one)
    assert 1 << 24 < len(replies) < (1 << 24) + 3_100_000


# ---- what it leaves alone ------------------------------------------------------------------------------

Body = dict[int, Any]
GOOD_SELECT: Body = {0x10: SPACE, 0x11: 0, 0x12: 10, 0x13: 0, 0x14: 0, 0x20: [1]}
ODD_SELECTS: dict[str, Body] = {
    "an unknown space": {**GOOD_SELECT, 0x10: 999},
    "an unknown index": {**GOOD_SELECT, 0x11: 7},
    "no key": {key: value for key, value in GOOD_SELECT.items() if key != 0x20},
    "no limit": {key: value for key, value in GOOD_SELECT.items() if key != 0x12},
    "no space": {key: value for key, value in GOOD_SELECT.items() if key != 0x10},
    "a space by name": {**{key: value for key, value in GOOD_SELECT.items() if key != 0x10}, 0x5E: "test"},
    "a space by name and id": {**GOOD_SELECT, 0x5E: "test"},
    "an index by name": {**GOOD_SELECT, 0x5F: "pk"},
    "a position": {**GOOD_SELECT, 0x2E: "abc"},
    "a tuple to start after": {**GOOD_SELECT, 0x2F: [1]},
    "a wish for a position": {**GOOD_SELECT, 0x1F: True},
    "an unknown key": {**GOOD_SELECT, 0x7F: 1},
    "a key of another type": {**GOOD_SELECT, 0x20: ["a"]},
    "a negative key": {**GOOD_SELECT, 0x20: [-1]},
    "a nil key": {**GOOD_SELECT, 0x20: [None]},
    "too many parts": {**GOOD_SELECT, 0x20: [1, 2]},
    "a key that is no array": {**GOOD_SELECT, 0x20: 1},
    "a limit that is negative": {**GOOD_SELECT, 0x12: -1},
    "a limit above 32 bits": {**GOOD_SELECT, 0x12: 2**32},
    "an offset above 32 bits": {**GOOD_SELECT, 0x13: 2**32},
    "a space id that is a string": {**GOOD_SELECT, 0x10: "512"},
    "a space id above 32 bits": {**GOOD_SELECT, 0x10: 2**32 + SPACE},
    "an iterator of bitset indexes": {**GOOD_SELECT, 0x14: 7},
    "a spatial iterator": {**GOOD_SELECT, 0x14: 11},
    "an unknown iterator": {**GOOD_SELECT, 0x14: 14},
    "a huge iterator": {**GOOD_SELECT, 0x14: 2**31},
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_SELECTS)
def test_it_stops_before_a_select_with(k: ModuleType, name: str) -> None:
    assert stops(confirmed(k, [1, "a"]), packet({0: SELECT, 1: 1}, ODD_SELECTS[name]))


ODD_WRITES: dict[str, bytes] = {
    "a tuple of another format": insert(SPACE, ["a", "b"]),
    "a tuple that is too short": replace(SPACE, [1]),
    "a key that is there": insert(SPACE, [1, "b"]),
    "an unknown space": replace(999, [1, "a"]),
    "no tuple": packet({0: INSERT, 1: 1}, {0x10: SPACE}),
    "a tuple that is no array": packet({0: REPLACE, 1: 1}, {0x10: SPACE, 0x21: 5}),
    "an index": packet({0: REPLACE, 1: 1}, {0x10: SPACE, 0x11: 1, 0x21: [1, "a"]}),
    "a tuple's meta": packet({0: REPLACE, 1: 1}, {0x10: SPACE, 0x21: [1, "a"], 0x2A: {}}),
    "no body": packet({0: INSERT, 1: 1}),
    "a delete without a key": packet({0: DELETE, 1: 1}, {0x10: SPACE}),
    "a delete by half a key": delete(SPACE, []),
    "a delete by a wrong key": delete(SPACE, ["a"]),
    "a delete by a nil": delete(SPACE, [None]),
    "a delete by an unknown index": delete(SPACE, [1], index=5),
    "a delete by an index that is not unique": delete(SPACE, ["a"], index=1),
    "a replace that would lose another tuple": replace(SPACE, [3, "u"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_WRITES)
def test_it_stops_before_a_write_with(k: ModuleType, name: str) -> None:
    node = confirmed(k, [1, "a"], [2, "u"])
    space = node.space(SPACE)
    space.add_index(1, k.KeyDef([k.KeyPart(1, T.STRING)], [k.KeyPart(0, T.UNSIGNED)]), False)
    space.add_index(2, primary(k, 1, T.STRING), True)
    assert stops(node, ODD_WRITES[name])


@pytest.mark.parametrize("type", [0, UPDATE, UPSERT, 6, 7, 8, 10, 11, 12, 14, 15, 17, 65, 66, 73, 74, 1000])
def test_it_stops_before_requests_of_other_types(k: ModuleType, type: int) -> None:
    body = {0x10: SPACE, 0x20: [1], 0x21: [1, "a"], 0x28: []}
    assert stops(confirmed(k, [1, "a"]), packet({0: type, 1: 1}, body))


ODD_HEADERS: dict[str, dict[int, Any]] = {
    "a stream": {0: REPLACE, 1: 1, 0x0A: 1},
    "a replica id": {0: REPLACE, 1: 1, 0x02: 1},
    "an lsn": {0: REPLACE, 1: 1, 0x03: 1},
    "an unknown key": {0: REPLACE, 1: 1, 0x60: 1},
    "a sync that is negative": {0: REPLACE, 1: -1},
    "a sync that is a string": {0: REPLACE, 1: "a"},
    "a type that is a string": {0: "a", 1: 1},
    "no type": {1: 1},
    "a key that is a string": {},
}


@pytest.mark.parametrize("name", ODD_HEADERS)
def test_it_stops_before_a_header_with(k: ModuleType, name: str) -> None:
    header = pack({"a": 1}) if name == "a key that is a string" else None
    body = {0x10: SPACE, 0x21: [1, "b"]}
    data = packet(ODD_HEADERS[name], body)
    if header is not None:
        data = b"\xce\x00\x00\x00" + bytes([len(header)]) + header
    assert stops(confirmed(k, [1, "a"]), data)


MALFORMED: dict[str, bytes] = {
    "a length that is a string": b"\xa3abc",
    "a length of zero": b"\xce\x00\x00\x00\x00",
    "a header that is an array": b"\xce\x00\x00\x00\x01\x90",
    "a header that ends too early": b"\xce\x00\x00\x00\x03\x82\x00\x40",
    "a header that goes on behind the packet": b"\xce\x00\x00\x00\x02\x81\x00" + b"\x40",
    "a body that is an array": b"\xce\x00\x00\x00\x04\x81\x00\x40\x90",
    "a body that ends too early": b"\xce\x00\x00\x00\x05\x81\x00\x01\x81\x10",
    "junk behind the body": b"\xce\x00\x00\x00\x05\x81\x00\x40\x80\x80",
    "the code that is never used": b"\xce\x00\x00\x00\x05\x81\x00\x01\x81\xc1",
    "nesting without end": packet({0: REPLACE, 1: 1}, {0x10: SPACE, 0x21: Raw(b"\x91" * 2000 + b"\x01")}),
    "a decimal without digits": packet({0: REPLACE, 1: 1}, {0x10: SPACE, 0x21: [5, "a", Raw(b"\xd4\x01\x00")]}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_it_stops_before_a_packet_with(k: ModuleType, name: str) -> None:
    assert stops(confirmed(k, [1, "a"]), MALFORMED[name])


def test_it_stops_at_every_truncation(k: ModuleType) -> None:
    data = replace(SPACE, [1, "abc"])
    node = memtx(k)
    for size in range(len(data)):
        assert node.run(data, 0, size, 0, False) == (0, b"", 0, False)
        assert node.run(data[:size], 0, size, 0, False) == (0, b"", 0, False)
    assert rows(node) == []


def test_it_stops_before_a_space_that_is_not_fast(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"])
    node.space(SPACE).fast = False
    assert stops(node, select(SPACE, [1]))
    assert stops(node, replace(SPACE, [1, "b"]))
    node.space(SPACE).fast = True
    assert run(node, select(SPACE, [1]))[2] == 1


def test_it_stops_before_a_space_without_a_primary_index(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).detach_index(0)
    for data in (select(SPACE, [1]), replace(SPACE, [1, "a"]), delete(SPACE, [1])):
        assert run(node, data) == (0, b"", 0, False)


def test_it_stops_before_a_removed_space(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"])
    space = node.remove_space(SPACE)
    assert run(node, select(SPACE, [1]))[2] == 0
    node.restore_space(space)
    assert run(node, select(SPACE, [1]))[2] == 1


@pytest.mark.parametrize(("bits", "reads", "writes"), [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1), (4, 0, 0)])
def test_it_serves_only_what_the_user_may(k: ModuleType, bits: int, reads: int, writes: int) -> None:
    node = confirmed(k, [1, "a"])
    node.space(SPACE).set_access(5, bits)
    assert run(node, select(SPACE, [1]), token=5)[2] == reads
    assert run(node, replace(SPACE, [1, "b"]), token=5)[2] == writes
    assert run(node, insert(SPACE, [2, "b"]), token=5)[2] == writes
    assert run(node, delete(SPACE, [1]), token=5)[2] == writes
    assert run(node, packet({0: PING, 1: 1}), token=5)[2] == 1
    assert run(node, select(SPACE, [1]), token=6)[2] == 0
    assert run(node, select(SPACE, [1]), token=31)[2] == 0


def test_a_read_only_node_serves_reads_alone(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"])
    assert run(node, select(SPACE, [1]), read_only=True)[2] == 1
    for data in (replace(SPACE, [1, "b"]), insert(SPACE, [2, "b"]), delete(SPACE, [1])):
        assert stops(node, data, read_only=True)


def test_local_and_temporary_spaces_are_written_on_a_read_only_node(k: ModuleType) -> None:
    """box.cc, box_process_rw."""
    node = memtx(k)
    add_space(k, node, 600, local=True)
    add_space(k, node, 601, temporary=True)
    for space in (600, 601):
        assert run(node, replace(space, [1, "b"]) + delete(space, [1]), read_only=True)[2] == 2


def test_a_hash_index_is_asked_by_whole_keys_or_for_all(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"], [2, "b"])
    node.space(SPACE).index(0).hash = True
    assert run(node, select(SPACE, [1], It.EQ))[1] == reply(1, 80, packed([1, "a"]))
    assert run(node, select(SPACE, [], It.ALL))[1] == reply(1, 80, packed([1, "a"], [2, "b"]))
    for key, iterator in (
        ([], It.EQ),
        ([1], It.GT),
        ([1], It.REQ),
        ([1], It.GE),
        ([1], It.NP),
        ([], It.GE),
        ([], It.LE),
    ):
        assert run(node, select(SPACE, key, iterator))[2] == 0, (key, iterator)


def test_prefixes_under_a_collation_are_left_to_the_ordinary_path(k: ModuleType) -> None:
    """index.cc, iterator_validate refuses NP and PP there; so does the ordinary path, with words."""
    node = k.Memtx()
    space = node.add_space(SPACE)
    space.add_index(0, k.KeyDef([k.KeyPart(0, T.STRING, False, False, bytes.lower)]), True)
    space.set_access(0, 3)
    space.fast = True
    space.insert(pack(["Ab"]))
    assert run(node, select(SPACE, ["aB"]))[2] == 1
    for iterator in (It.NP, It.PP):
        assert run(node, select(SPACE, ["a"], iterator))[2] == 0
        assert run(node, select(SPACE, [], iterator))[2] == 1


def test_nil_is_a_search_key_but_deletes_nothing(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"])
    part = k.KeyPart(2, T.UNSIGNED, True)
    node.space(SPACE).add_index(1, k.KeyDef([part], [k.KeyPart(0, T.UNSIGNED)]), True)
    assert run(node, select(SPACE, [None], index=1))[1] == reply(1, 80, packed([1, "a"]))
    assert stops(node, delete(SPACE, [None], index=1))


def test_numbers_find_each_other(k: ModuleType) -> None:
    node = k.Memtx()
    space = node.add_space(SPACE)
    space.add_index(0, primary(k, 0, T.NUMBER), True)
    space.set_access(0, 3)
    space.fast = True
    space.insert(pack([Decimal("1.5")]))
    assert run(node, select(SPACE, [1.5]))[1].endswith(pack([Decimal("1.5")]))


@given(data=st.binary(max_size=120))
def test_foreign_bytes_change_nothing_that_a_ping_does_not(k: ModuleType, data: bytes) -> None:
    node = confirmed(k, [1, "a"])
    framed = b"\xce" + struct.pack(">I", len(data)) + data
    for given_bytes in (data, framed):
        offset, _, served, _ = run(node, given_bytes)
        assert 0 <= offset <= len(given_bytes)
        assert (offset == 0) == (served == 0)


@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3),
    size=st.integers(1, 3),
)
def test_flipped_bytes_never_break_the_store(k: ModuleType, flips: list[tuple[int, int]], size: int) -> None:
    node = confirmed(k, [1, "a"], [2, "b"])
    data = bytearray(b"".join((replace(SPACE, [3, "c"]), select(SPACE, [1]), delete(SPACE, [2]))[:size]))
    for place, value in flips:
        data[place % len(data)] = value
    offset, _, served, _ = run(node, bytes(data))
    assert 0 <= offset <= len(data)
    assert served <= 20
    assert len(rows(node)) == len(node.space(SPACE))
    node.rollback_to(2)
    assert rows(node) == packed([1, "a"], [2, "b"])


def test_what_was_served_is_counted_by_type_until_somebody_asks(k: ModuleType) -> None:
    node = confirmed(k, [1, "a"])
    plain = (packet({0: PING}), select(SPACE, [1]), replace(SPACE, [2, "b"]), replace(SPACE, [3, "c"]))
    run(node, b"".join(plain) + insert(SPACE, [4, "d"]) + delete(SPACE, [4]) + insert(SPACE, [1, "twice"]))
    assert node.take_served() == (1, 1, 2, 1)
    assert node.take_served() == (0, 0, 0, 0)
