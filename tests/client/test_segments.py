"""A master's stream in segments."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.replication.test_applier_recordings import Recording
from tests.replication.test_relay_recordings import exchange
from tests.wire.golden import needs_golden

from headwater.client import Cutter, Segment
from headwater.errors import BoxError, Er, er
from headwater.wire.constants import SYNCHRO_TYPES, Flag, Type
from headwater.wire.msgpack import pack
from headwater.wire.reply import error as error_reply
from headwater.wire.synchro import RaftMessage, Synchro, encode_raft, encode_synchro
from headwater.wire.xrow import Row, decode_row, encode_packet

BODY = b"\x82\x10\xcd\x02\x00\x21\x91\x01"
WAITS, SYNC = int(Flag.COMMIT | Flag.WAIT_SYNC), int(Flag.COMMIT | Flag.WAIT_SYNC | Flag.WAIT_ACK)


def row(lsn: int, replica_id: int = 1, tsn: int = 0, flags: int = 1, **more: Any) -> bytes:
    return encode_packet(
        Row(Type.REPLACE, replica_id, lsn=lsn, tsn=tsn or lsn, flags=flags, body=BODY, timestamp=float(lsn), **more)
    )


def word(type: Type, lsn: int, upto: int, owner: int = 1, replica_id: int = 1, term: int = 0) -> bytes:
    packed = encode_synchro(Synchro(type, owner, upto, term))
    packed.replica_id, packed.lsn, packed.tsn, packed.flags = replica_id, lsn, lsn, 1
    return encode_packet(packed)


def rows_of(segments: list[Segment]) -> list[tuple[int, int]]:
    found = []
    for segment in segments:
        at = 0
        while at < len(segment.data):
            end = at + 5 + int.from_bytes(segment.data[at + 1 : at + 5], "big")
            one = decode_row(segment.data, at + 5, end, exact=True)[0]
            found.append((one.replica_id, one.lsn))
            at = end
    return found


def test_segments_join_one_another() -> None:
    cutter = Cutter({1: 3}, rows_max=2)
    segments = cutter.take(row(4) + row(5) + row(1, 2) + row(6))
    assert rows_of(segments) == [(1, 4), (1, 5), (2, 1), (1, 6)]
    assert [dict(one.end) for one in segments] == [{1: 5}, {1: 6, 2: 1}]
    assert [one.start for one in segments] == [{1: 3}, segments[0].end]
    assert [one.rows for one in segments] == [2, 2]
    assert segments[-1].timestamp == 6.0


def test_a_transaction_is_never_cut_whatever_the_pieces_are() -> None:
    whole = row(4) + row(5, flags=0) + row(6, tsn=5, flags=0) + row(7, tsn=5) + row(8)
    for size in (1, 2, 7, 40, len(whole)):
        cutter, segments = Cutter({1: 3}, rows_max=1), []
        for at in range(0, len(whole), size):
            segments += cutter.take(whole[at : at + size])
        assert rows_of(segments) == [(1, 4), (1, 5), (1, 6), (1, 7), (1, 8)]
        assert [dict(one.end) for one in segments] == [{1: 4}, {1: 7}, {1: 8}]
        assert cutter.held_bytes == 0


def test_messages_are_no_rows() -> None:
    cutter = Cutter({})
    beat = encode_packet(Row(Type.OK, replica_id=1, body=b"\x81\x5a\x07"))
    assert cutter.take(beat + encode_packet(encode_raft(RaftMessage(5)))) == []
    assert cutter.vclock_sync == 7


def test_what_waits_for_a_quorum_is_held_back_with_all_behind_it() -> None:
    cutter = Cutter({})
    assert rows_of(cutter.take(row(1) + row(2, flags=SYNC) + row(3, flags=WAITS) + row(1, 2))) == [(1, 1)]
    assert (cutter.pending, cutter.vclock, cutter.seen) == (3, {1: 1}, {1: 3, 2: 1})
    segments = cutter.take(word(Type.RAFT_CONFIRM, 4, 2))
    assert rows_of(segments) == [(1, 2), (1, 3), (2, 1)]
    assert (cutter.pending, cutter.vclock) == (0, {1: 4, 2: 1})


def test_what_is_rolled_back_never_comes_and_its_numbers_are_passed() -> None:
    cutter = Cutter({})
    cutter.take(row(1, flags=SYNC) + row(2, flags=SYNC) + row(3, flags=WAITS))
    assert rows_of(cutter.take(word(Type.RAFT_CONFIRM, 4, 1))) == [(1, 1)]
    assert cutter.vclock == {1: 1}
    segments = cutter.take(word(Type.RAFT_ROLLBACK, 5, 2) + row(6))
    assert rows_of(segments) == [(1, 6)]
    assert cutter.vclock == {1: 6}


@pytest.mark.parametrize("type", [Type.RAFT_PROMOTE, Type.RAFT_DEMOTE])
def test_a_new_owner_says_what_becomes_of_the_old_ones_transactions(type: Type) -> None:
    cutter = Cutter({})
    cutter.take(row(1, flags=SYNC) + row(2, flags=SYNC))
    segments = cutter.take(word(type, 1, 1, owner=1, replica_id=2, term=3))
    assert rows_of(segments) == [(1, 1)]
    assert (cutter.vclock, cutter.term) == ({1: 2, 2: 1}, 3)


def test_a_word_of_one_owner_does_not_touch_transactions_of_another() -> None:
    cutter = Cutter({})
    cutter.take(row(1, 2, flags=SYNC))
    assert cutter.take(word(Type.RAFT_CONFIRM, 1, 1, owner=1)) == []
    assert rows_of(cutter.take(word(Type.RAFT_CONFIRM, 2, 1, owner=2, replica_id=2))) == [(2, 1)]


def test_no_position_lies_between_what_is_rolled_back_and_the_word_that_says_so() -> None:
    """Who began there would meet row 3, which only waits for others, without those others."""
    cutter = Cutter({}, rows_max=1)
    cutter.take(row(1) + row(2, flags=SYNC) + row(1, 2) + row(2, 2) + row(3, flags=WAITS))
    segments = cutter.take(word(Type.RAFT_ROLLBACK, 4, 2) + row(5))
    assert rows_of(segments) == [(2, 1), (2, 2), (1, 5)]
    assert [dict(one.end) for one in segments] == [{1: 4, 2: 2}, {1: 5, 2: 2}]


def test_a_long_transaction_is_not_looked_at_again_for_every_piece() -> None:
    body = b"\x82\x10\xcd\x02\x00\x21\x91\xd9\xc8" + b"x" * 200
    count = 60_000
    rows = [
        Row(Type.REPLACE, 1, lsn=lsn, tsn=1, flags=int(lsn == count), body=body, timestamp=1.0)
        for lsn in range(1, count + 1)
    ]
    whole = b"".join(map(encode_packet, rows)) + row(count + 1)
    assert len(whole) > 12 << 20
    cutter, segments = Cutter({}), []
    for at in range(0, len(whole), 1 << 18):
        segments += cutter.take(whole[at : at + (1 << 18)])
        assert cutter.held_bytes <= len(whole)
    segments += cutter.take(b"", idle=True)
    assert [one.rows for one in segments] == [count, 1]


def test_spaces_tell_what_waits_where_rows_do_not() -> None:
    """As those of masters before 2.6.3; which spaces they are, the stream itself tells."""

    def into(lsn: int, space: int, tuple: list[object]) -> bytes:
        body = pack({0x10: space, 0x21: tuple})
        return encode_packet(Row(Type.REPLACE, 1, lsn=lsn, tsn=lsn, flags=1, body=body))

    def define(lsn: int, options: dict[str, bool]) -> bytes:
        return into(lsn, 280, [600, 1, "s", "memtx", 0, options, []])

    cutter = Cutter({}, sync_spaces=[])
    assert rows_of(cutter.take(into(1, 600, [1]) + define(2, {"is_sync": True}))) == [(1, 1), (1, 2)]
    assert cutter.sync_spaces == {600}
    assert cutter.take(into(3, 600, [2]) + into(4, 700, [3])) == []
    assert cutter.pending == 2
    assert rows_of(cutter.take(word(Type.RAFT_CONFIRM, 5, 3) + into(6, 600, [4]))) == [(1, 3), (1, 4)]
    assert cutter.take(into(7, 700, [5])) == []
    assert rows_of(cutter.take(word(Type.RAFT_ROLLBACK, 8, 6) + define(9, {}))) == [(1, 9)]
    assert rows_of(cutter.take(into(10, 600, [6]))) == [(1, 10)]


def test_an_error_of_the_master_is_raised() -> None:
    with pytest.raises(BoxError, match="Read access") as caught:
        Cutter({}).take(error_reply(0, 0, er(Er.ACCESS_DENIED, "Read", "universe", "", "guest")))
    assert caught.value.code == Er.ACCESS_DENIED


@pytest.mark.parametrize(
    "bad",
    [
        encode_packet(Row(Type.REPLACE, 0, lsn=5, tsn=5, flags=1, body=BODY)),
        row(5, tsn=4, flags=1),
        row(5, flags=0) + row(1, 2),
        row(5, flags=0) + row(5, tsn=5),
        encode_packet(Row(Type.INSERT, 1, body=BODY)),
    ],
    ids=["no origin", "begins in its middle", "interleaving", "numbers stand still", "no number"],
)
def test_what_no_master_may_send_is_refused(bad: bytes) -> None:
    with pytest.raises(BoxError):
        Cutter({1: 4}).take(bad)


@needs_golden
@pytest.mark.parametrize("name", ["join-subscribe-bulk", "subscribe-failover"])
def test_streams_of_a_real_3_9(name: str) -> None:
    """Every row of data, in order, whatever the pieces are; thousands wait for a CONFIRM, and a leader dies."""
    recording = Recording(name)
    rows = exchange(recording, Type.SUBSCRIBE)[1:]
    data = b"".join(map(encode_packet, rows))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for one in rows:
        if one.lsn:
            first.setdefault(one.replica_id, one.lsn - 1)
            last[one.replica_id] = one.lsn
    wanted = [(one.replica_id, one.lsn) for one in rows if one.lsn and one.type not in SYNCHRO_TYPES]
    dice = random.Random(7)
    for size in (len(data), 5000, 77):
        cutter, segments, at = Cutter(first, rows_max=dice.choice([1, 10, 1000])), [], 0
        while at < len(data):
            step = dice.randint(1, size)
            segments += cutter.take(data[at : at + step])
            at += step
        assert rows_of(segments) == wanted
        assert cutter.pending == 0
        assert cutter.vclock == cutter.seen == {key: lsn for key, lsn in {**first, **last}.items() if lsn}
