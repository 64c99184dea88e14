"""Replica ids of packets exchanged for others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import DELETE, INSERT, UPDATE, UPSERT, pack_map
from tests.kernels.test_apply import put, row
from tests.kernels.test_frames import CONFIRM, DEMOTE, NOP, PROMOTE, RAFT, ROLLBACK, framed

IDS = [-1] * 32
IDS[1:4] = [31, 1, 3]


def renumber(k: ModuleType, data: bytes) -> Any:
    return k.renumber_frames(data, 0, len(data), IDS)


def test_the_id_of_each_header_is_exchanged_and_nothing_else(k: ModuleType) -> None:
    def rows(*ids: int) -> bytes:
        return framed(
            put(INSERT, 1, [2, "a"], replica_id=ids[0]),
            row(DELETE, 2, {0x10: 512, 0x20: [2]}, replica_id=ids[1]),
            row(NOP, 2, replica_id=ids[1]),
            row(UPDATE, 3, {0x10: 2**31, 0x20: [1], 0x21: []}, replica_id=ids[2], tsn=0),
            row(UPSERT, 4, {0x10: 512, 0x21: [1], 0x28: []}, replica_id=ids[2], tsn=1, flags=1),
            row(0, 0, {0x5A: 300}, replica_id=ids[0]),
            row(0, 0, replica_id=ids[0]),
        )

    data = rows(1, 2, 3)
    assert renumber(k, data) == (rows(31, 1, 3), len(data))


def test_packets_without_an_id_stay(k: ModuleType) -> None:
    data = framed(put(INSERT, 0, [1, "a"], replica_id=0), pack_map({0: 0}))
    assert renumber(k, data) == (data, len(data))
    assert k.renumber_frames(data, 3, 3, IDS) == (b"", 3)


ODD: dict[str, bytes] = {
    "an id that has no other": put(INSERT, 1, [1, "a"], replica_id=4),
    "an id outside the vclock": put(INSERT, 1, [1, "a"], replica_id=32),
    "an id of 0": pack_map({0: NOP, 2: 0}),
    "an id in a long form": b"\x82\x00\x0c\x02\xcc\x01",
    "two ids": b"\x83\x00\x0c\x02\x01\x02\x02",
    "a change of _cluster": put(INSERT, 1, [1, "a"], space=320),
    "a change of the last system space": put(INSERT, 1, [1, "a"], space=511),
    "another order of keys": row(INSERT, 1, {0x21: [1, "a"], 0x10: 512}),
    "an empty body": row(INSERT, 1, {}),
    "a space that is text": row(INSERT, 1, {0x10: "a", 0x21: []}),
    "a body that is an array": row(INSERT, 1) + b"\x90",
    "a raft message": row(RAFT, 0, {0: 1}),
    "a promote": row(PROMOTE, 5, {2: 1, 3: 1}),
    "a demote": row(DEMOTE, 5, {2: 1, 3: 1}),
    "a confirm": row(CONFIRM, 5, {2: 1, 3: 1}),
    "a rollback": row(ROLLBACK, 5, {2: 1, 3: 1}),
    "an error": pack_map({0: 0x8003}) + pack_map({0x31: "no"}),
    "a vclock": row(0, 0, {0x26: {1: 5}}),
    "a header that is an array": b"\x90",
    "nothing in it": b"",
}


@pytest.mark.parametrize("name", ODD)
def test_it_stops_before(k: ModuleType, name: str) -> None:
    good = framed(put(INSERT, 1, [1, "a"]))
    expected = framed(put(INSERT, 1, [1, "a"], replica_id=31)), len(good)
    assert renumber(k, good + framed(ODD[name]) + good) == expected


def test_it_stops_before_half_a_packet(k: ModuleType) -> None:
    one = framed(put(INSERT, 1, [1, "a"], replica_id=3))
    for cut in range(len(one)):
        assert k.renumber_frames(one + one, 0, len(one) + cut, IDS) == (one, len(one))


@pytest.mark.parametrize("ids", [[1] * 31, [0] * 32, [32] * 32, [-2] * 32])
def test_ids_must_be_ids(k: ModuleType, ids: list[int]) -> None:
    with pytest.raises(ValueError, match="id"):
        k.renumber_frames(b"", 0, 0, ids)


@given(data=st.binary(max_size=60), flips=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=3))
def test_foreign_bytes_are_renumbered_alike(
    both: tuple[ModuleType, ModuleType], data: bytes, flips: list[tuple[int, int]]
) -> None:
    stream = bytearray(framed(put(INSERT, 1, [1, "a"]), row(0, 0, {0x5A: 1}), row(NOP, 2, replica_id=2)) + data)
    for place, value in flips:
        stream[place % len(stream)] = value
    native, pure = both
    for one in (bytes(stream), data):
        assert renumber(native, one) == renumber(pure, one)
