"""A master's stream, cut where transactions end."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import INSERT
from tests.kernels.test_frames import CONFIRM, NOP, RAFT, framed, transaction

from headwater.errors import MsgPackError
from headwater.wire.constants import Flag, Type
from headwater.wire.xrow import Row, encode_packet

ALL = 1 << 40


def packet(lsn: int, **more: object) -> bytes:
    values: dict[str, object] = {"replica_id": 1, "lsn": lsn, "tsn": lsn, "flags": 1, "body": b"\x82\x10\x01\x21\x90"}
    return encode_packet(Row(INSERT, **{**values, **more}))  # type: ignore[arg-type]


def test_transactions_of_one_row_are_taken_with_the_last_lsn_of_each_replica(k: ModuleType) -> None:
    data = packet(4, timestamp=1.5) + packet(5, replica_id=3) + packet(6, timestamp=2.5)
    assert k.cut_frames(data, 0, len(data), ALL) == (len(data), 3, [(1, 6), (3, 5)], 2.5)


def test_a_transaction_of_several_rows_is_taken_whole_or_not(k: ModuleType) -> None:
    before, rows = packet(9), [framed(one) for one in transaction(10, 3)]
    whole = before + b"".join(rows)
    assert k.cut_frames(whole, 0, len(whole), ALL)[:3] == (len(whole), 4, [(1, 12)])
    for end in range(len(before), len(whole)):
        assert k.cut_frames(whole[:end], 0, end, ALL)[:3] == (len(before), 1, [(1, 9)])


def test_no_further_transaction_is_begun_once_there_are_enough_rows(k: ModuleType) -> None:
    data = packet(1) + b"".join(map(framed, transaction(2, 3))) + packet(5)
    assert k.cut_frames(data, 0, len(data), 2)[1:3] == (4, [(1, 4)])
    assert k.cut_frames(data, 0, len(data), 1)[1:3] == (1, [(1, 1)])
    assert k.cut_frames(data, 0, len(data), 0) == (0, 0, [], 0.0)


@pytest.mark.parametrize(
    "odd",
    [
        encode_packet(Row(Type.OK, replica_id=2)),
        encode_packet(Row(RAFT, lsn=0, body=b"\x81\x00\x02")),
        encode_packet(Row(CONFIRM, 1, lsn=7, tsn=7, flags=1, body=b"\x82\x02\x01\x03\x05")),
        encode_packet(Row(0x8003, body=b"\x80")),
        packet(7, flags=int(Flag.COMMIT | Flag.WAIT_SYNC)),
        packet(7, flags=int(Flag.COMMIT | Flag.WAIT_SYNC | Flag.WAIT_ACK)),
        packet(7, replica_id=0),
        packet(7, group_id=1),
        packet(8, tsn=7, flags=1),
        b"\xc0",
        b"\xce\x00\x00\x00\x01\xc1",
        b"\xce\x00\x00\x00\x00",
        b"\xce\x00\x00\x00\x05\x81\xa1a\x01\x80",
    ],
    ids=lambda data: data.hex()[:24],
)
def test_what_is_not_plain_is_left(k: ModuleType, odd: bytes) -> None:
    data = packet(6) + odd + packet(8)
    assert k.cut_frames(data, 0, len(data), ALL)[:3] == (len(packet(6)), 1, [(1, 6)])


def test_interleaving_transactions_are_left(k: ModuleType) -> None:
    one, other = transaction(10, 2), transaction(5, 2, replica_id=2)
    data = b"".join(map(framed, [one[0], other[0], one[1], other[1]]))
    assert k.cut_frames(data, 0, len(data), ALL) == (0, 0, [], 0.0)


def test_a_number_that_is_known_has_no_body(k: ModuleType) -> None:
    data = encode_packet(Row(NOP, 1, lsn=3, tsn=3, flags=1))
    assert k.cut_frames(data, 0, len(data), ALL)[:3] == (len(data), 1, [(1, 3)])


def test_a_range_outside_of_the_bytes_is_refused(k: ModuleType) -> None:
    with pytest.raises(MsgPackError, match="does not lie in"):
        k.cut_frames(b"abc", 2, 5, ALL)


@given(st.data())
def test_twins_agree(both: tuple[ModuleType, ModuleType], data: st.DataObject) -> None:
    native, pure = both
    whole = b"".join(
        data.draw(
            st.sampled_from(
                [packet(6), packet(7, flags=3), packet(8, replica_id=2), b"".join(map(framed, transaction(9, 3)))]
            )
        )
        for _ in range(data.draw(st.integers(0, 8)))
    )
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 3)) if whole else 0):
        broken[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    limit, end = data.draw(st.integers(0, 9)), data.draw(st.integers(0, len(whole)))
    assert native.cut_frames(bytes(broken), 0, end, limit) == pure.cut_frames(bytes(broken), 0, end, limit)
