"""What a master sends goes straight into the store, and on to the journal as its origin wrote it."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Raw, pack, pack_map
from tests.kernels.stores import SPACE, add_space, memtx, primary
from tests.kernels.test_apply import contents, drop, packed, put, row
from tests.kernels.test_frames import CONFIRM, NOP, PROMOTE, RAFT, framed, local

from headwater.typing import FieldType as T
from headwater.wire.xrow import decode_row

ORIGIN = 2


def stream(*rows: bytes) -> bytes:
    return framed(*rows)


def apply(node: Any, data: bytes) -> tuple[int, int, float]:
    out = node.apply_frames(data, 0, len(data))
    assert isinstance(out, tuple)
    return out


def put2(type: int, lsn: int, value: list[Any], **more: Any) -> bytes:
    """A row of replica 2; the node itself is 1."""
    return put(type, lsn, value, **{"replica_id": ORIGIN, **more})


def three(first: int, last: bytes | None = None) -> list[bytes]:
    """A transaction of three rows, or with another last one."""
    rows = [put2(REPLACE, first + at, [at + 1, "tx"], tsn=at) for at in range(2)]
    return [*rows, put2(REPLACE, first + 2, [3, "tx"], tsn=2, flags=1) if last is None else last]


# ---- what is applied ------------------------------------------------------------------------------


def test_rows_of_a_master_are_applied_and_journaled_as_they_were(k: ModuleType) -> None:
    node = memtx(k)
    node.timestamp = 99.0
    rows = [
        put2(INSERT, 5, [1, "a"], tm=1.25),
        put2(REPLACE, 6, [1, "b"], tm=1.5),
        put2(INSERT, 9, [2, "c"], tm=1.75),
        row(DELETE, 10, {0x10: SPACE, 0x20: [2]}, replica_id=ORIGIN, tm=2.0),
        row(NOP, 12, replica_id=ORIGIN, tm=2.25),
        put2(INSERT, 1, [3, "d"], replica_id=31, tm=2.5),
    ]
    data = stream(*rows)
    assert apply(node, data) == (len(data), 6, 2.5)
    assert contents(node) == packed([1, "b"], [3, "d"])
    assert node.vclock == [0, 0, 12] + [0] * 28 + [1]
    assert node.undo_end == 5
    ends = [len(b"".join(rows[: at + 1])) for at in range(6)]
    assert node.take_rows() == (b"".join(rows), ends, 6)


def test_what_the_wire_adds_is_not_journaled(k: ModuleType) -> None:
    node = memtx(k)
    head = {0: INSERT, 1: 300, 2: ORIGIN, 3: 5, 4: 1.5}
    data = stream(pack_map(head) + pack_map({0x10: SPACE, 0x21: [1, "a"]}))
    assert apply(node, data) == (len(data), 1, 1.5)
    assert node.take_rows()[0] == put2(INSERT, 5, [1, "a"])


def test_keys_in_another_order_are_journaled_in_tarantools(k: ModuleType) -> None:
    node = memtx(k)
    head = {4: 1.5, 9: 1, 8: 1, 3: 6, 2: ORIGIN, 0: INSERT}
    rows = [put2(INSERT, 5, [1, "a"], tsn=0), pack_map(head) + pack_map({0x10: SPACE, 0x21: [2, "a"]})]
    assert apply(node, stream(*rows)) == (len(stream(*rows)), 2, 1.5)
    assert node.take_rows()[0] == rows[0] + put2(INSERT, 6, [2, "a"], tsn=1, flags=1)


def test_a_body_keeps_its_bytes(k: ModuleType) -> None:
    node = memtx(k)
    body = b"\x82\x21\x92\x01\xa1a\x10\xce\x00\x00\x02\x00"
    one = pack_map({0: INSERT, 2: ORIGIN, 3: 5, 4: 1.5}) + body
    assert apply(node, stream(one))[1] == 1
    assert node.take_rows()[0] == one


def test_a_row_without_a_time_stays_without(k: ModuleType) -> None:
    node = memtx(k)
    one = pack_map({0: INSERT, 2: ORIGIN, 3: 5}) + pack_map({0x10: SPACE, 0x21: [1, "a"]})
    assert apply(node, stream(one)) == (len(stream(one)), 1, 0.0)
    assert node.take_rows()[0] == one


def test_any_length_before_a_packet_is_read(k: ModuleType) -> None:
    node = memtx(k)
    rows = [put2(INSERT, lsn, [lsn, "a" * lsn]) for lsn in (1, 130)]
    data = bytes([len(rows[0])]) + rows[0] + b"\xcf" + struct.pack(">Q", len(rows[1])) + rows[1]
    assert apply(node, data) == (len(data), 2, 1.5)


def test_a_transaction_is_applied_whole(k: ModuleType) -> None:
    node = memtx(k)
    rows = [put2(INSERT, 4, [9, "a"]), *three(5), put2(INSERT, 8, [10, "a"])]
    data = stream(*rows)
    assert apply(node, data) == (len(data), 5, 1.5)
    assert contents(node) == packed([1, "tx"], [2, "tx"], [3, "tx"], [9, "a"], [10, "a"])
    taken, ends, count = node.take_rows()
    assert (taken, count) == (b"".join(rows), 5)
    assert ends == [len(rows[0]), len(b"".join(rows[:4])), len(b"".join(rows))]


def test_lsns_of_a_transaction_may_have_gaps(k: ModuleType) -> None:
    node = memtx(k)
    rows = [put2(INSERT, 5, [1, "a"], tsn=0), put2(INSERT, 9, [2, "a"], tsn=4, flags=1)]
    assert apply(node, stream(*rows))[1] == 2
    assert node.vclock[ORIGIN] == 9
    assert node.take_rows()[0] == b"".join(rows)


def test_changes_are_pending_until_they_are_confirmed(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).insert(pack([1, "before"]))
    node.confirm_to(node.undo_end)
    mark = node.undo_end
    apply(node, stream(*three(5)))
    assert (node.undo_end, node.space(SPACE).unconfirmed) == (mark + 3, 3)
    node.rollback_to(mark)
    assert contents(node) == packed([1, "before"])
    assert node.vclock[ORIGIN] == 7, "LSNs are the journal's to set back"
    node.set_lsn(ORIGIN, 4)
    apply(node, stream(*three(5)))
    node.confirm_to(node.undo_end)
    assert node.space(SPACE).unconfirmed == 0
    assert len(contents(node)) == 3


def test_undo_is_kept_even_where_it_is_switched_off(k: ModuleType) -> None:
    node = memtx(k)
    node.undo_enabled = False
    apply(node, stream(put2(INSERT, 5, [1, "a"])))
    assert node.undo_end == 1
    assert node.undo_enabled is False
    node.rollback_to(0)
    assert contents(node) == []


def test_without_a_journal_only_the_vclock_tells(k: ModuleType) -> None:
    node = memtx(k)
    node.rows_enabled = False
    apply(node, stream(*three(5)))
    assert node.take_rows() == (b"", [], 0)
    assert node.vclock[ORIGIN] == 7


def test_all_indexes_follow(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).add_index(1, primary(k, 1, T.STRING), True)
    rows = [put2(INSERT, 1, [1, "a"]), row(DELETE, 2, {0x10: SPACE, 0x11: 1, 0x20: ["a"]}, replica_id=ORIGIN)]
    rows += [put2(INSERT, 3, [2, "a"])]
    assert apply(node, stream(*rows))[1] == 3
    assert node.space(SPACE).index(1).get(pack(["a"])) == pack([2, "a"])
    assert node.take_rows()[0] == b"".join(rows)


def test_own_rows_may_come_back(k: ModuleType) -> None:
    """Lost from our journal, but a peer has them (relay.cc, local_vclock_at_subscribe)."""
    node = memtx(k)
    assert apply(node, stream(put(INSERT, 5, [1, "a"], replica_id=1)))[1] == 1
    assert node.vclock[1] == 5
    assert node.next_lsn(1) == 6


# ---- what was seen --------------------------------------------------------------------------------


def test_what_was_seen_is_passed_over(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(ORIGIN, 7)
    data = stream(put2(INSERT, 4, [9, "a"]), *three(5), put2(INSERT, 8, [10, "a"], tm=2.5))
    assert apply(node, data) == (len(data), 5, 2.5)
    assert contents(node) == packed([10, "a"])
    assert node.take_rows()[0] == put2(INSERT, 8, [10, "a"], tm=2.5)
    assert apply(node, data) == (len(data), 5, 2.5)
    assert node.rows_pending == 0


def test_the_part_of_a_transaction_that_was_seen_is_passed_over(k: ModuleType) -> None:
    """applier.cc, applier_apply_tx: a node before 2.1 gave a transaction row by row. The rest gets a TSN of its own, or
    a follower of ours would refuse it (set_next_tx_row)."""
    node = memtx(k)
    node.set_lsn(ORIGIN, 5)
    rows = three(5)
    assert apply(node, stream(*rows))[1] == 3
    assert contents(node) == packed([2, "tx"], [3, "tx"])
    rest = put2(REPLACE, 6, [2, "tx"], tsn=0) + put2(REPLACE, 7, [3, "tx"], tsn=1, flags=1)
    assert node.take_rows() == (rest, [len(rest)], 2)
    node.set_lsn(ORIGIN, 6)
    apply(node, stream(*rows))
    assert node.take_rows()[0] == put2(REPLACE, 7, [3, "tx"])


def test_seen_rows_of_any_kind_of_change_are_passed_over(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(ORIGIN, 20)
    rows = [
        row(UPDATE, 5, {0x10: 280, 0x20: [1], 0x21: []}, replica_id=ORIGIN),
        row(UPSERT, 6, {0x10: SPACE, 0x21: [1], 0x28: []}, replica_id=ORIGIN),
        put2(REPLACE, 7, [1, "a"], space=999, flags=6),
        put2(REPLACE, 8, [1, "a"], tsn=0),
        row(UPDATE, 9, {0x10: 280, 0x20: [1], 0x21: []}, replica_id=ORIGIN, tsn=1, flags=7),
    ]
    assert apply(node, stream(*rows)) == (len(stream(*rows)), 5, 1.5)
    assert contents(node) == []


def test_rows_of_consensus_are_not_passed_over_even_when_seen(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(ORIGIN, 20)
    assert apply(node, stream(row(PROMOTE, 5, {2: 1, 3: 1, 0x53: 2}, replica_id=ORIGIN))) == (0, 0, 0.0)


# ---- where it stops -------------------------------------------------------------------------------

ODD: dict[str, bytes] = {
    "an update": row(UPDATE, 5, {0x10: SPACE, 0x20: [1], 0x21: []}, replica_id=ORIGIN),
    "an upsert": row(UPSERT, 5, {0x10: SPACE, 0x21: [1, "a"], 0x28: []}, replica_id=ORIGIN),
    "an unknown type": row(99, 5, {}, replica_id=ORIGIN),
    "a confirm": row(CONFIRM, 5, {2: 2, 3: 1}, replica_id=ORIGIN),
    "a promote": row(PROMOTE, 5, {2: 2, 3: 1, 0x53: 2}, replica_id=ORIGIN),
    "a raft message": row(RAFT, 0, {0: 1}, replica_id=0, group=1),
    "a heartbeat": row(0, 0, {0x5A: 1}, replica_id=ORIGIN),
    "an error": pack_map({0: 0x8003}) + pack_map({0x31: "no"}),
    "a change without an lsn": put2(INSERT, 0, [1, "a"]),
    "a change without an origin": put(INSERT, 5, [1, "a"], replica_id=0),
    "an id outside the vclock": put2(INSERT, 5, [1, "a"], replica_id=32),
    "an lsn of 2^63": put2(INSERT, 2**63, [1, "a"]),
    "a local row": local(5),
    "a row of group 1": put2(INSERT, 5, [1, "a"], group=1),
    "an unknown space": put2(INSERT, 5, [1, "a"], space=999),
    "a local space": put2(INSERT, 5, [1, "a"], space=600),
    "a temporary space": put2(INSERT, 5, [1, "a"], space=601),
    "a space that is not fast": put2(INSERT, 5, [1, "a"], space=602),
    "a key that is there": put2(INSERT, 5, [9, "other"]),
    "a tuple of another format": put2(INSERT, 5, ["a", 1]),
    "a key of another type": drop(5, ["a"], replica_id=ORIGIN),
    "half a key": drop(5, [], replica_id=ORIGIN),
    "an index that is not there": row(DELETE, 5, {0x10: SPACE, 0x11: 4, 0x20: [1]}, replica_id=ORIGIN),
    "no tuple": row(INSERT, 5, {0x10: SPACE}, replica_id=ORIGIN),
    "no space": row(INSERT, 5, {0x21: [1, "a"]}, replica_id=ORIGIN),
    "no body": row(INSERT, 5, replica_id=ORIGIN),
    "a nop with a body": row(NOP, 5, {0x10: SPACE}, replica_id=ORIGIN),
    "junk behind the body": put2(INSERT, 5, [1, "a"]) + b"\x00",
    "an unknown key in the header": pack_map({0: INSERT, 2: ORIGIN, 3: 5, 0x70: 1})
    + pack_map({0x10: SPACE, 0x21: [1, "a"]}),
    "an unknown key in the body": row(INSERT, 5, {0x10: SPACE, 0x21: [1, "a"], 0x2A: {}}, replica_id=ORIGIN),
    "a stream": pack_map({0: INSERT, 2: ORIGIN, 3: 5, 0x0A: 1}) + pack_map({0x10: SPACE, 0x21: [1, "a"]}),
    "a time that is a whole number": pack_map({0: INSERT, 2: ORIGIN, 3: 5, 4: 1})
    + pack_map({0x10: SPACE, 0x21: [1, "a"]}),
    "a header that is an array": b"\x90\x80",
    "a body that is an array": pack_map({0: INSERT, 2: ORIGIN, 3: 5}) + b"\x90",
    "a tuple that is cut": put2(INSERT, 5, [1, "abc"])[:-1],
    "a tuple with a broken decimal": put2(INSERT, 5, [1, "a", Raw(b"\xd4\x01\x00")]),
    "the flags of a synchronous transaction": put2(INSERT, 5, [1, "a"], flags=6),
    "the flag of one that waits for it": put2(INSERT, 5, [1, "a"], flags=2),
    "nothing in it": b"",
}


def odd_node(k: ModuleType) -> Any:
    node = memtx(k)
    add_space(k, node, 600, local=True)
    add_space(k, node, 601, temporary=True)
    add_space(k, node, 602).fast = False
    return node


@pytest.mark.parametrize("name", ODD)
def test_it_stops_before_a_packet_with(k: ModuleType, name: str) -> None:
    node = odd_node(k)
    good = put2(INSERT, 4, [9, "good"])
    data = stream(good, ODD[name], put2(INSERT, 50, [50, "behind"]))
    assert apply(node, data) == (len(stream(good)), 1, 1.5)
    assert contents(node) == packed([9, "good"])
    assert (node.vclock[ORIGIN], node.undo_end) == (4, 1)
    assert node.take_rows() == (good, [len(good)], 1)


LAST: dict[str, list[bytes]] = {
    "whose last row is absent": three(5)[:2],
    "whose last row is an update": three(
        5, row(UPDATE, 7, {0x10: SPACE, 0x20: [1], 0x21: []}, replica_id=ORIGIN, tsn=2, flags=1)
    ),
    "that is synchronous": three(5, put2(REPLACE, 7, [3, "a"], tsn=2, flags=7)),
    "whose last row has its key taken": three(5, put2(INSERT, 7, [9, "a"], tsn=2, flags=1)),
    "whose last row takes the key of its first": three(5, put2(INSERT, 7, [1, "a"], tsn=2, flags=1)),
    "whose last row has another format": three(5, put2(REPLACE, 7, ["a", 1], tsn=2, flags=1)),
    "of two origins": three(5, put2(REPLACE, 7, [3, "a"], replica_id=3, tsn=2, flags=1)),
    "with another one inside": three(5, put2(REPLACE, 7, [3, "a"], tsn=1, flags=1)),
    "with a row alone inside": [*three(5)[:2], put2(REPLACE, 7, [3, "a"]), *three(5)[2:]],
    "with a heartbeat inside": [*three(5)[:2], row(0, 0, {0x5A: 1}, replica_id=ORIGIN), *three(5)[2:]],
    "whose lsn goes back": three(5, put2(REPLACE, 6, [3, "a"], tsn=1, flags=1)),
    "that begins in its middle": three(5)[1:],
    "with a local row at its end": three(5, local(7, tsn=2, flags=1)),
}


@pytest.mark.parametrize("name", LAST)
def test_nothing_is_left_of_a_transaction(k: ModuleType, name: str) -> None:
    node = odd_node(k)
    before = [put2(INSERT, 3, [9, "good"]), put2(INSERT, 4, [1, "old"])]
    data = stream(*before, *LAST[name], put2(INSERT, 50, [50, "behind"]))
    assert apply(node, data) == (len(stream(*before)), 2, 1.5)
    assert contents(node) == packed([1, "old"], [9, "good"])
    assert (node.vclock[ORIGIN], node.undo_end, node.space(SPACE).unconfirmed) == (4, 2, 2)
    taken, ends, count = node.take_rows()
    assert (taken, ends, count) == (b"".join(before), [len(before[0]), len(b"".join(before))], 2)


@pytest.mark.parametrize("whole", [False, True])
def test_it_stops_where_the_bytes_do(k: ModuleType, whole: bool) -> None:
    rows = [put2(INSERT, 4, [9, "good"]), *(three(5) if whole else [put2(INSERT, 5, [1, "a"])])]
    data = stream(*rows)
    first = len(stream(rows[0]))
    for cut in range(first, len(data)):
        node = memtx(k)
        assert node.apply_frames(data + b"junk", 0, cut) == (first, 1, 1.5)
        assert node.apply_frames(data, first, len(data))[0] == len(data)


def test_a_range_is_not_left(k: ModuleType) -> None:
    node = memtx(k)
    one = stream(put2(INSERT, 1, [1, "a"]))
    assert node.apply_frames(b"junk" + one + b"junk", 4, 4 + len(one)) == (4 + len(one), 1, 1.5)
    assert node.apply_frames(one, 3, 3) == (3, 0, 0.0)


def test_a_lookup_through_many_pages_finds_the_same(k: ModuleType) -> None:
    """More rows than are taken apart together, in one transaction and alone, with a failure far behind."""
    node = memtx(k)
    alone = [put2(INSERT, lsn, [lsn * 7919 % 3001, "a"]) for lsn in range(1, 1001)]
    big = [put2(REPLACE, 2000 + at, [at, "b"], tsn=at, **({"flags": 1} if at == 999 else {})) for at in range(1000)]
    broken = [put2(REPLACE, 4000 + at, [at, "c"], tsn=at) for at in range(500)]
    broken += [put2(INSERT, 4500, [1, "c"], tsn=500, flags=1)]
    data = stream(*alone, *big, *broken)
    assert apply(node, data) == (len(stream(*alone, *big)), 2000, 1.5)
    assert [pack([at, "b"]) for at in range(1000)] == contents(node)[:1000]
    assert node.take_rows()[0] == b"".join(alone + big)
    assert node.vclock[ORIGIN] == 2999
    node.rollback_to(0)
    assert contents(node) == []


def test_the_journals_of_two_nodes_are_alike(k: ModuleType) -> None:
    """Rows that one node writes, framed, applied by another, framed again, applied by a third."""
    first, second, third = memtx(k), memtx(k), memtx(k)
    second.replica_id, third.replica_id = 2, 3
    body = b"\x82\x10\xcd\x02\x00\x21"
    for number in range(0, 300, 3):
        first.timestamp = number / 8
        tsn = first.vclock[1] + 1
        for at in range(3):
            first.add_row(REPLACE, 0, body + pack([number + at, "a"]), tsn, int(at == 2))
        first.add_row(INSERT, 0, body + pack([1000 + number, "b"]))
    rows, ends, count = first.take_rows()
    for node in (second, third):
        data = k.frame_rows(rows).pick([0] * 32, 0, 0, 0, 0)[0]
        assert node.apply_frames(data, 0, len(data))[:2] == (len(data), count)
        assert node.take_rows() == (rows, ends, count)
    assert third.vclock == first.vclock


# ---- the first stage of a join --------------------------------------------------------------------


def test_a_snapshot_goes_over_the_wire(k: ModuleType) -> None:
    node, other = memtx(k), memtx(k)
    for number in range(1000):
        node.space(SPACE).insert(pack([number * 7919 % 1000, "x" * (number % 50)]))
    view = node.open_view([SPACE])
    data, rows = b"", 0
    while (part := view.fill_frames(1000, 7, 2.5))[1]:
        assert len(part[0]) < 1100
        data, rows = data + part[0], rows + part[1]
    assert rows == 1000
    head = decode_row(data, 5)[0]
    assert (head.type, head.sync, head.lsn, head.replica_id, head.timestamp) == (INSERT, 7, 0, 0, 2.5)
    assert other.load_frames(data, 0, len(data)) == (len(data), 1000)
    assert contents(other) == contents(node)
    assert other.undo_end == 0
    assert other.take_rows() == (b"", [], 0)
    assert other.vclock == [0] * 32


def test_packets_of_a_view_are_tarantools(k: ModuleType) -> None:
    """protocol.md §2.7: type, sync, time; no LSN, no replica id; body 82 10 ce<u32> 21."""
    node = memtx(k)
    add_space(k, node, 600, local=True)
    node.space(SPACE).insert(pack([1, "a"]))
    node.space(600).insert(pack([2, "b"]))
    view = node.open_view([SPACE, 600])
    body = b"\x82\x10\xce\x00\x00\x02\x00\x21" + pack([1, "a"])
    assert view.fill_frames(1, 5, 1.5) == (framed(pack_map({0: INSERT, 1: 5, 4: 1.5}) + body), 1)
    body = b"\x82\x10\xce\x00\x00\x02\x58\x21" + pack([2, "b"])
    assert view.fill_frames(1, 0, 0.0) == (framed(pack_map({0: INSERT, 7: 1}) + body), 1)
    assert view.fill_frames(1, 5, 1.5) == (b"", 0)


def test_rows_and_packets_of_a_view_go_on_from_one_another(k: ModuleType) -> None:
    node = memtx(k)
    for number in range(3):
        node.space(SPACE).insert(pack([number, "a"]))
    view = node.open_view([SPACE])
    assert view.fill(1, 0, 0.0)[1] == 1
    assert decode_row(view.fill_frames(1, 0, 0.0)[0], 5)[0].body.endswith(pack([1, "a"]))
    assert view.fill(1, 0, 0.0)[0].endswith(pack([2, "a"]))


def test_a_packet_with_an_lsn_is_loaded_too(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(ORIGIN, 10)
    data = stream(put2(INSERT, 5, [1, "a"]), put(INSERT, 0, [2, "a"], replica_id=0))
    assert node.load_frames(data, 0, len(data)) == (len(data), 2)
    assert len(contents(node)) == 2
    assert node.vclock[ORIGIN] == 10


LOAD_ODD = (
    "an update", "a raft message", "a heartbeat", "an error", "a row of group 1", "an unknown space",
    "a space that is not fast", "a key that is there", "a tuple of another format", "no tuple", "no space", "no body",
    "junk behind the body", "an unknown key in the header", "a body that is an array", "a tuple that is cut",
    "a tuple with a broken decimal", "nothing in it",
)  # fmt: skip


@pytest.mark.parametrize("name", LOAD_ODD)
def test_loading_stops_before_a_packet_with(k: ModuleType, name: str) -> None:
    node = odd_node(k)
    good = put(INSERT, 0, [9, "good"], replica_id=0)
    data = stream(good, ODD[name], put(INSERT, 0, [50, "behind"], replica_id=0))
    assert node.load_frames(data, 0, len(data)) == (len(stream(good)), 1)
    assert contents(node) == packed([9, "good"])


@pytest.mark.parametrize("type", [REPLACE, DELETE, NOP])
def test_only_inserts_are_loaded(k: ModuleType, type: int) -> None:
    node = memtx(k)
    body = {0x10: SPACE, 0x20: [1]} if type == DELETE else {0x10: SPACE, 0x21: [1, "a"]}
    data = stream(row(type, 0, None if type == NOP else body, replica_id=0))
    assert node.load_frames(data, 0, len(data)) == (0, 0)


def test_loading_does_not_touch_a_space_with_pending_changes(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).insert(pack([1, "a"]))
    data = stream(put(INSERT, 0, [2, "a"], replica_id=0))
    assert node.load_frames(data, 0, len(data)) == (0, 0)
    node.confirm_to(node.undo_end)
    assert node.load_frames(data, 0, len(data)) == (len(data), 1)
    assert node.undo_enabled is True


# ---- foreign bytes --------------------------------------------------------------------------------


def state(node: Any) -> Any:
    return contents(node), node.vclock, node.undo_end, node.take_rows()


@given(
    data=st.binary(max_size=80),
    flips=st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=3),
    load=st.booleans(),
)
def test_foreign_bytes_are_applied_alike(
    both: tuple[ModuleType, ModuleType], data: bytes, flips: list[tuple[int, int]], load: bool
) -> None:
    rows = [put2(INSERT, 4, [9, "a"]), *three(5), drop(8, [2], replica_id=ORIGIN), row(NOP, 9, replica_id=3)]
    stream_ = bytearray(stream(*rows, put2(INSERT, 10, [20, Raw(b"\xa1b")])) + data)
    for place, value in flips:
        stream_[place % len(stream_)] = value
    answers = []
    for k in both:
        node = memtx(k)
        name = "load_frames" if load else "apply_frames"
        got = [getattr(node, name)(one, 0, len(one)) for one in (bytes(stream_), data)]
        assert all(0 <= one[0] <= len(stream_) for one in got)
        answers.append((str(got), state(node)))
        node.rollback_to(0)
        assert load or contents(node) == []
    assert answers[0] == answers[1]
