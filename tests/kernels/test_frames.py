"""The journal as packets, and what one peer gets of it."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import DELETE, INSERT, REPLACE, Raw, pack_map
from tests.kernels.test_apply import put, row

from headwater.errors import MsgPackError
from headwater.wire.xrow import Row, decode_row, encode_packet, encode_row

NOP, RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK = 12, 30, 31, 32, 40, 41
BODY = {0x10: 512, 0x21: [1, "a"]}


def framed(*rows: bytes) -> bytes:
    return b"".join(b"\xce" + struct.pack(">I", len(one)) + one for one in rows)


def position(**lsns: int) -> list[int]:
    """`position(r1=5)`: LSN 5 of replica 1."""
    return [lsns.get(f"r{number}", 0) for number in range(32)]


def pick(frames: Any, have: list[int] | None = None, skip: int = 0, own: int = 0, limit: int = 0, sync: int = 0) -> Any:
    return frames.pick(position() if have is None else have, skip, own, limit, sync)


def decoded(data: bytes) -> list[Row]:
    out, at = [], 0
    while at < len(data):
        end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        out.append(decode_row(data, at + 5, end, exact=True)[0])
        at = end
    return out


def lsns(data: bytes) -> list[int]:
    return [one.lsn for one in decoded(data)]


def transaction(first: int, count: int, replica_id: int = 1, last: int = 1) -> list[bytes]:
    """Rows of one transaction, the last with the flags `last`."""
    return [
        put(
            REPLACE,
            first + at,
            [at, "a"],
            replica_id=replica_id,
            tsn=at,
            **({"flags": last} if at == count - 1 else {}),
        )
        for at in range(count)
    ]


def local(lsn: int, **more: int) -> bytes:
    return put(REPLACE, lsn, [1, "local"], replica_id=0, group=1, **more)


# ---- framing --------------------------------------------------------------------------------------


def test_rows_get_their_length_and_nothing_else(k: ModuleType) -> None:
    rows = [put(INSERT, 1, [1, "a"]), row(NOP, 2), row(DELETE, 3, {0x10: 512, 0x20: [1]}, tm=7.25), local(4)]
    frames = k.frame_rows(b"".join(rows))
    assert frames.data == framed(*rows)
    assert len(frames) == 4
    assert frames.timestamp == 1.5
    assert frames.plain is True


def test_no_rows_are_no_packets(k: ModuleType) -> None:
    frames = k.frame_rows(b"")
    assert (frames.data, len(frames), frames.plain, frames.timestamp) == (b"", 0, True, 0.0)
    assert frames.last == []
    assert frames.rows() == []
    assert pick(frames) == (b"", 0)


def test_it_tells_of_each_row_what_a_relay_asks(k: ModuleType) -> None:
    rows = [put(INSERT, 9, [1, "a"]), row(PROMOTE, 5, {2: 1, 3: 4, 0x53: 2}, replica_id=7), *transaction(10, 2)]
    frames = k.frame_rows(b"".join(rows))
    told = frames.rows()
    assert [one[2:] for one in told] == [
        (INSERT, 1, 9, True),
        (PROMOTE, 7, 5, True),
        (REPLACE, 1, 10, False),
        (REPLACE, 1, 11, True),
    ]
    assert [frames.data[begin:end] for begin, end, *_ in told] == rows
    assert [begin for begin, *_ in told] == [5, *(one[1] + 5 for one in told[:-1])]
    assert frames.last == [(1, 11), (7, 5)]


@pytest.mark.parametrize("type", [RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK])
def test_a_row_of_consensus_depends_on_the_peer(k: ModuleType, type: int) -> None:
    assert k.frame_rows(put(INSERT, 1, [1, "a"]) + row(type, 2, {2: 1, 3: 1})).plain is False


def test_an_old_local_row_depends_on_the_peer_and_a_new_one_does_not(k: ModuleType) -> None:
    assert k.frame_rows(put(INSERT, 1, [1, "a"], group=1)).plain is False
    assert k.frame_rows(local(1)).plain is True


def test_the_last_row_tells_the_time(k: ModuleType) -> None:
    assert k.frame_rows(put(INSERT, 1, [1, "a"], tm=1.5) + put(INSERT, 2, [1, "a"], tm=2.5)).timestamp == 2.5
    assert k.frame_rows(put(INSERT, 1, [1, "a"], tm=1.5) + pack_map({0: NOP, 2: 1, 3: 2})).timestamp == 0.0


def test_long_rows_and_all_forms_of_numbers_are_framed(k: ModuleType) -> None:
    rows = [put(INSERT, lsn, [lsn, "x" * 70_000], replica_id=31) for lsn in (127, 128, 256, 65536, 2**32, 2**63 - 1)]
    frames = k.frame_rows(b"".join(rows))
    assert frames.data == framed(*rows)
    assert frames.last == [(31, 2**63 - 1)]


WRONG: dict[str, bytes] = {
    "an array for a header": b"\x90\x80",
    "a header that is cut": b"\x82\x00\x02",
    "a body that is cut": put(INSERT, 1, [1, "abc"])[:-1],
    "a body that is an array": pack_map({0: INSERT, 3: 5}) + b"\x90",
    "a body of broken MessagePack": pack_map({0: INSERT, 3: 5}) + b"\x81\x21\xc1",
    "an id above 31": put(INSERT, 1, [1, "a"], replica_id=32),
    "an lsn of 2^63": put(INSERT, 2**63, [1, "a"]),
    "an lsn that is text": pack_map({0: INSERT, 3: "a"}) + pack_map(BODY),
    "a time that is a whole number": pack_map({0: INSERT, 3: 1, 4: 5}) + pack_map(BODY),
    "a key that is text": b"\x81\xa1a\x01" + pack_map(BODY),
    "a byte behind a nop": row(NOP, 1) + b"\x00",
    "a map too great for its bytes": b"\xdf\xff\xff\xff\xff\x00",
}


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses(k: ModuleType, name: str) -> None:
    with pytest.raises(MsgPackError):
        k.frame_rows(put(INSERT, 1, [1, "good"]) + WRONG[name])


# ---- what a peer gets -----------------------------------------------------------------------------


def test_a_peer_that_lacks_it_all_gets_the_very_bytes(k: ModuleType) -> None:
    frames = k.frame_rows(b"".join([*transaction(5, 3), put(INSERT, 9, [1, "a"], replica_id=2)]))
    have = position(r1=4)
    data, rows = pick(frames, have)
    assert data is frames.data
    assert rows == 4
    assert have == position(r1=7, r2=9)


def test_what_it_has_is_left_out(k: ModuleType) -> None:
    rows = [put(INSERT, lsn, [lsn, "a"]) for lsn in (5, 6, 7)] + [put(INSERT, 1, [8, "a"], replica_id=2)]
    frames = k.frame_rows(b"".join(rows))
    have = position(r1=6)
    assert pick(frames, have) == (framed(*rows[2:]), 2)
    assert have == position(r1=7, r2=1)
    assert pick(frames, have) == (b"", 0)
    assert have == position(r1=7, r2=1)


def test_rows_of_component_zero_stay_here_and_count_in_the_position(k: ModuleType) -> None:
    rows = [put(INSERT, 1, [1, "a"]), local(4), put(INSERT, 2, [1, "b"])]
    have = position()
    assert pick(k.frame_rows(b"".join(rows)), have) == (framed(rows[0], rows[2]), 2)
    assert have == position(r0=4, r1=2)
    assert pick(k.frame_rows(local(1) + local(2))) == (b"", 0)
    assert pick(k.frame_rows(row(RAFT, 3, {0: 1}, replica_id=0, group=1))) == (b"", 0)


def test_filtered_ids_are_left_out(k: ModuleType) -> None:
    rows = [put(INSERT, 1, [1, "a"], replica_id=number) for number in (1, 2, 31)]
    frames = k.frame_rows(b"".join(rows))
    assert pick(frames, skip=1 << 2 | 1 << 31) == (framed(rows[0]), 1)
    assert pick(frames, skip=(1 << 32) - 1) == (b"", 0)
    assert pick(frames, skip=1 << 5)[0] is frames.data


def test_a_peers_own_rows_come_back_only_up_to_the_limit(k: ModuleType) -> None:
    rows = [put(INSERT, lsn, [lsn, "a"], replica_id=2) for lsn in (1, 2, 3)]
    frames = k.frame_rows(b"".join(rows))
    have = position()
    assert pick(frames, have, own=2, limit=2) == (framed(*rows[:2]), 2)
    assert have == position(r2=3)
    assert pick(frames, own=2, limit=0) == (b"", 0)
    assert pick(frames, own=2, limit=3)[0] is frames.data
    assert pick(frames, own=0, limit=0)[0] is frames.data


def test_the_flags_of_a_last_row_that_is_left_out_move_to_the_one_before(k: ModuleType) -> None:
    """relay.cc, relay_process_row."""
    first, second, _ = transaction(10, 3)
    frames = k.frame_rows(first + second + local(3, tsn=2**64 - 7, flags=7) + put(INSERT, 20, [1, "a"]))
    data, count = pick(frames)
    assert count == 3
    assert data == framed(first, put(REPLACE, 11, [1, "a"], tsn=1, flags=7), put(INSERT, 20, [1, "a"]))


def test_the_last_row_that_stays_may_be_far_from_the_end(k: ModuleType) -> None:
    first, second, *_ = transaction(10, 5)
    tail = [local(number, tsn=(number - 10) % 2**64) for number in (1, 2)] + [local(3, tsn=2**64 - 7, flags=1)]
    data, count = pick(k.frame_rows(first + second + b"".join(tail)))
    assert (data, count) == (framed(first, put(REPLACE, 11, [1, "a"], tsn=1, flags=1)), 2)


def test_a_transaction_of_which_one_row_stays_is_one_of_a_single_row(k: ModuleType) -> None:
    """xrow_header_encode writes neither TSN nor COMMIT for it, but the other flags."""
    begin = put(REPLACE, 10, [1, "a"], tsn=0)
    assert pick(k.frame_rows(begin + local(3, tsn=2**64 - 7, flags=1)))[0] == framed(put(REPLACE, 10, [1, "a"]))
    kept = pick(k.frame_rows(begin + local(3, tsn=2**64 - 7, flags=7)))[0]
    assert kept == framed(put(REPLACE, 10, [1, "a"], flags=6))
    assert decoded(kept)[0].is_commit


def test_local_rows_at_the_beginning_are_left_out_without_a_trace(k: ModuleType) -> None:
    rows = [local(3, tsn=2**64 - 7), put(REPLACE, 10, [1, "a"], tsn=0), put(REPLACE, 11, [2, "a"], tsn=1, flags=1)]
    assert pick(k.frame_rows(b"".join(rows))) == (framed(*rows[1:]), 2)


def test_a_transaction_that_is_left_out_gives_its_flags_to_nobody(k: ModuleType) -> None:
    rows = [put(INSERT, 4, [1, "a"]), *transaction(5, 2, replica_id=3), put(INSERT, 6, [1, "a"])]
    assert pick(k.frame_rows(b"".join(rows)), skip=1 << 3) == (framed(rows[0], rows[3]), 2)


def test_the_part_of_a_transaction_that_a_peer_has_is_left_out(k: ModuleType) -> None:
    """The rest gets a TSN of its own: applier.cc, set_next_tx_row, wants the LSN of the first row."""
    frames = k.frame_rows(b"".join(transaction(10, 3)))
    rest = put(REPLACE, 11, [1, "a"], tsn=0), put(REPLACE, 12, [2, "a"], tsn=1, flags=1)
    assert pick(frames, position(r1=10)) == (framed(*rest), 2)
    assert pick(frames, position(r1=11)) == (framed(put(REPLACE, 12, [2, "a"])), 1)


def test_a_file_that_begins_inside_a_transaction_gives_one_that_can_be_applied(k: ModuleType) -> None:
    rest = put(REPLACE, 11, [1, "a"], tsn=0), put(REPLACE, 12, [2, "a"], tsn=1, flags=1)
    assert pick(k.frame_rows(b"".join(transaction(10, 3)[1:]))) == (framed(*rest), 2)


def test_transactions_of_two_origins_with_one_number_are_two(k: ModuleType) -> None:
    first = transaction(10, 2)
    second = [put(REPLACE, 10, [7, "b"], replica_id=2, tsn=0), local(3, tsn=2**64 - 7, flags=1)]
    data, count = pick(k.frame_rows(b"".join(first + second)), position(r2=10))
    assert (data, count) == (framed(*first), 2)


def test_a_sync_is_written_into_each_header(k: ModuleType) -> None:
    rows = [put(INSERT, 9, [1, "a"]), *transaction(10, 2), row(NOP, 12)]
    data, count = pick(k.frame_rows(b"".join(rows)), sync=300)
    assert count == 4
    expected = [decode_row(one)[0] for one in rows]
    for one in expected:
        one.sync = 300
    assert data == b"".join(encode_packet(one) for one in expected)


def test_an_old_local_row_becomes_a_nop(k: ModuleType) -> None:
    """relay.cc, relay_filter_row."""
    frames = k.frame_rows(put(INSERT, 5, [1, "a"], group=1, tsn=0) + put(INSERT, 6, [1, "a"], group=1, tsn=1, flags=1))
    data, count = pick(frames)
    assert count == 2
    assert data == framed(row(NOP, 5, tsn=0), row(NOP, 6, tsn=1, flags=1))


def test_a_header_with_unknown_keys_is_cleaned_for_old_peers(k: ModuleType) -> None:
    """protocol.md §2.1: 1.10 to 2.10.7 and 2.11.0 die of a key that they do not know."""
    odd = pack_map({0: INSERT, 2: 1, 3: 5, 0x70: {"a": [1]}, 4: 1.5, 5: 80}) + pack_map(BODY)
    frames = k.frame_rows(odd)
    assert frames.data == framed(odd)
    assert pick(frames) == (framed(put(INSERT, 5, [1, "a"])), 1)


def test_a_position_has_32_numbers(k: ModuleType) -> None:
    frames = k.frame_rows(put(INSERT, 1, [1, "a"]))
    with pytest.raises(ValueError, match="32"):
        frames.pick([0] * 31, 0, 0, 0, 0)


def test_lsns_that_do_not_grow_are_taken_once(k: ModuleType) -> None:
    rows = [put(INSERT, lsn, [lsn, "a"]) for lsn in (5, 3, 5, 6)]
    have = position()
    assert pick(k.frame_rows(b"".join(rows)), have) == (framed(rows[0], rows[3]), 2)
    assert have == position(r1=6)


# ---- against the rows, one by one ----------------------------------------------------------------

Told = tuple[int, int, int, int, bool]


def by_hand(rows: list[Row], have: list[int], skip: int, own: int, limit: int, sync: int) -> tuple[bytes, int]:
    """What relay.cc does, row by row."""
    out: list[Row] = []
    open_tx: list[Row] = []
    for one in rows:
        new = one.lsn > have[one.replica_id]
        have[one.replica_id] = max(have[one.replica_id], one.lsn)
        left_out = not one.replica_id or skip >> one.replica_id & 1 or (one.replica_id == own and one.lsn > limit)
        if new and not left_out:
            open_tx.append(one)
            one.tsn = open_tx[0].lsn
        elif one.is_commit and open_tx:
            open_tx[-1].flags = one.flags
        if one.is_commit:
            out += open_tx
            open_tx = []
    for one in out:
        one.sync = sync
    return b"".join(encode_packet(one) for one in out), len(out)


@st.composite
def batches(draw: st.DrawFn) -> list[Row]:
    """Whole transactions of several origins, with local rows in between."""
    rows: list[Row] = []
    clock = [draw(st.integers(0, 300)) for _ in range(4)]
    for _ in range(draw(st.integers(0, 8))):
        origin = draw(st.integers(0, 3))
        locals_ = draw(st.lists(st.booleans(), min_size=1, max_size=4))
        part: list[Row] = []
        for is_local in locals_:
            number = 0 if is_local else origin
            clock[number] += draw(st.integers(1, 3))
            body = pack_map({0x10: 512, 0x21: [clock[number], "a" * draw(st.integers(0, 40))]})
            part.append(
                Row(REPLACE, number, int(number == 0), clock[number], draw(st.sampled_from([0.0, 1.5])), body=body)
            )
        tsn = next((one.lsn for one in part if one.replica_id), part[0].lsn)
        for one in part:
            one.tsn = tsn
        part[-1].flags = 1 | draw(st.sampled_from([0, 2, 6]))
        rows += part
    return rows


@given(
    rows=batches(),
    have=st.lists(st.integers(0, 320), min_size=4, max_size=4),
    skip=st.integers(0, 15),
    own=st.integers(0, 3),
    limit=st.integers(0, 320),
    sync=st.sampled_from([0, 0, 1, 2**40]),
)
def test_it_is_what_a_relay_does_row_by_row(
    k: ModuleType, rows: list[Row], have: list[int], skip: int, own: int, limit: int, sync: int
) -> None:
    frames = k.frame_rows(b"".join(encode_row(one) for one in rows))
    position, other = have + [0] * 28, have + [0] * 28
    got = frames.pick(position, skip, own, limit, sync)
    assert got == by_hand(rows, other, skip, own, limit, sync)
    assert position == other
    assert got[1] == len(decoded(got[0]))


# ---- foreign bytes --------------------------------------------------------------------------------


def outcome(k: ModuleType, data: bytes, *arguments: Any) -> Any:
    try:
        frames = k.frame_rows(data)
    except MsgPackError:
        return "MsgPackError"
    have = [0] * 32
    return (
        frames.data,
        frames.plain,
        frames.last,
        frames.rows(),
        str(frames.timestamp),
        frames.pick(have, *arguments),
        have,
    )


@given(
    data=st.binary(max_size=80),
    flips=st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=3),
    skip=st.integers(0, 7),
    sync=st.integers(0, 1),
)
def test_foreign_bytes_are_framed_alike_or_refused(
    both: tuple[ModuleType, ModuleType], data: bytes, flips: list[tuple[int, int]], skip: int, sync: int
) -> None:
    rows = [
        put(INSERT, 5, [1, "a"]),
        *transaction(10, 3),
        local(3),
        row(NOP, 14),
        put(INSERT, 15, [Raw(b"\xd4\x06\x01")]),
    ]
    stream = bytearray(b"".join(rows) + data)
    for place, value in flips:
        stream[place % len(stream)] = value
    native, pure = both
    for one in (bytes(stream), data):
        assert outcome(native, one, skip, 1, 12, sync) == outcome(pure, one, skip, 1, 12, sync)
