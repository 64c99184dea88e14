"""Rows on their way to the journal: bytes by hand from protocol.md §2.1 and §2.6."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import pack_map
from tests.kernels.stores import memtx

BODY = b"\x82\x10\xcd\x02\x00\x21\x91\x01"
TM = b"\x04\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"
INSERT = 2


def test_a_row_of_its_own_transaction_has_neither_tsn_nor_flags(k: ModuleType) -> None:
    node = memtx(k)
    assert node.add_row(INSERT, 0, BODY) == 1
    assert node.rows_pending == 25
    node.take_rows()
    assert node.add_row(INSERT, 0, BODY) == 2
    assert node.take_rows() == (b"\x84\x00\x02\x02\x01\x03\x02" + TM + BODY, [25], 1)


def test_map_keys_come_in_the_order_of_xrow_header_encode(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(3, 299)
    assert node.add_row(INSERT, 5, BODY, tsn=299, flags=7, replica_id=3) == 300
    data, ends, count = node.take_rows()
    assert data == b"\x87\x00\x02\x02\x03\x07\x05\x03\xcd\x01\x2c" + TM + b"\x08\x01\x09\x07" + BODY
    assert (ends, count) == ([len(data)], 1)


def test_zero_fields_are_left_out(k: ModuleType) -> None:
    node = k.Memtx()
    node.add_row(12, 0, b"")
    assert node.take_rows() == (b"\x82\x00\x0c\x03\x01", [5], 1)


def test_rows_of_one_transaction_carry_their_distance_from_its_first(k: ModuleType) -> None:
    """Key 08 on every row, also 08:00 on the first; the commit flag on the last alone."""
    node = memtx(k)
    node.set_lsn(1, 10)
    first = node.add_row(INSERT, 0, BODY, tsn=11)
    node.add_row(INSERT, 0, BODY, tsn=11)
    node.add_row(INSERT, 0, BODY, tsn=11, flags=1)
    assert first == 11
    data, ends, count = node.take_rows()
    assert data == (
        b"\x85\x00\x02\x02\x01\x03\x0b" + TM + b"\x08\x00" + BODY
        + b"\x85\x00\x02\x02\x01\x03\x0c" + TM + b"\x08\x01" + BODY
        + b"\x86\x00\x02\x02\x01\x03\x0d" + TM + b"\x08\x02\x09\x01" + BODY
    )  # fmt: skip
    assert (ends, count) == ([len(data)], 3)


@pytest.mark.parametrize(
    ("apart", "ends"), [(0, [25, 50, 75, 100]), (25, [25, 50, 75, 100]), (26, [50, 100]), (60, [75, 100])]
)
def test_ends_that_are_near_the_one_before_are_left_out(k: ModuleType, apart: int, ends: list[int]) -> None:
    node = memtx(k)
    for _ in range(4):
        node.add_row(INSERT, 0, BODY)
    assert node.take_rows(apart)[1:] == (ends, 4)
    node.add_row(INSERT, 0, BODY)
    assert node.take_rows(apart)[1:] == ([25], 1)


def test_local_rows_before_the_first_global_one_wrap_around(k: ModuleType) -> None:
    node = memtx(k)
    node.set_lsn(0, 4)
    node.add_row(INSERT, 1, BODY, tsn=7)
    data, ends, count = node.take_rows()
    assert data == b"\x85\x00\x02\x07\x01\x03\x05" + TM + b"\x08\xcf" + b"\xff" * 7 + b"\xfe" + BODY
    assert (ends, count) == ([], 1)


def test_a_synchronous_row_of_its_own_transaction_has_flags_alone(k: ModuleType) -> None:
    node = memtx(k)
    node.add_row(INSERT, 0, BODY, flags=6)
    node.add_row(INSERT, 0, BODY, flags=7)
    node.add_row(INSERT, 0, BODY, tsn=3, flags=7)
    data, ends, count = node.take_rows()
    row = b"\x85\x00\x02\x02\x01\x03%c" + TM + b"\x09\x06" + BODY
    assert data == row % 1 + row % 2 + row % 3
    assert (ends, count) == ([27, 54, 81], 3)


def test_local_rows_count_in_component_zero(k: ModuleType) -> None:
    node = memtx(k)
    assert node.add_row(INSERT, 1, BODY) == 1
    assert node.add_row(INSERT, 0, BODY) == 1
    assert node.vclock[:2] == [1, 1]
    assert node.take_rows()[0][:9] == b"\x84\x00\x02\x07\x01\x03\x01" + TM[:2]


def test_an_applied_row_keeps_its_origin_lsn_and_time(k: ModuleType) -> None:
    node = memtx(k)
    assert node.add_row(INSERT, 0, BODY, replica_id=2, lsn=77, timestamp=1.0) == 77
    assert node.vclock == [0, 0, 77] + [0] * 29
    assert node.take_rows()[0] == b"\x84\x00\x02\x02\x02\x03\x4d\x04\xcb\x3f\xf0" + bytes(6) + BODY
    assert node.add_row(INSERT, 0, BODY, replica_id=2) == 78


def test_lsns_are_counted_though_no_rows_are_made(k: ModuleType) -> None:
    node = memtx(k)
    node.rows_enabled = False
    assert node.add_row(INSERT, 0, BODY) == 1
    assert node.add_row(INSERT, 0, BODY, replica_id=2, lsn=5) == 5
    assert node.vclock[:3] == [0, 1, 5]
    assert node.rows_pending == 0
    assert node.take_rows()[0] == b""


def test_take_rows_starts_anew(k: ModuleType) -> None:
    node = memtx(k)
    assert node.take_rows() == (b"", [], 0)
    node.add_row(INSERT, 0, BODY)
    pending = node.rows_pending
    data, ends, count = node.take_rows()
    assert (len(data), ends, count) == (pending, [pending], 1)
    assert node.rows_pending == 0
    assert node.take_rows() == (b"", [], 0)


def test_the_vclock_is_a_copy_that_set_lsn_and_next_lsn_move(k: ModuleType) -> None:
    node = k.Memtx()
    assert node.vclock == [0] * 32
    node.set_lsn(31, 2**63 - 2)
    assert node.next_lsn(31) == 2**63 - 1
    node.vclock[5] = 9
    assert node.vclock == [0] * 31 + [2**63 - 1]
    node.set_lsn(31, 3)
    assert node.vclock[31] == 3


@pytest.mark.parametrize("replica_id", [32, 100, 2**31])
def test_ids_outside_the_vclock_are_refused(k: ModuleType, replica_id: int) -> None:
    node = k.Memtx()
    for call in (lambda: node.set_lsn(replica_id, 1), lambda: node.next_lsn(replica_id)):
        with pytest.raises((IndexError, ValueError)):
            call()


@given(
    type=st.integers(0, 127), replica_id=st.integers(0, 31), group_id=st.integers(0, 1), lsn=st.integers(1, 2**62),
    tsn=st.integers(0, 2**62), flags=st.integers(0, 7), timestamp=st.floats(allow_nan=False).filter(bool),
)  # fmt: skip
def test_header_fields_read_back(
    k: ModuleType, type: int, replica_id: int, group_id: int, lsn: int, tsn: int, flags: int, timestamp: float
) -> None:
    node = k.Memtx()
    node.add_row(type, group_id, b"", tsn, flags, replica_id, lsn, timestamp)
    single = tsn == 0 or (tsn == lsn and bool(flags & 1))
    fields: dict[int, Any] = {
        0x00: type, 0x02: replica_id, 0x07: group_id, 0x03: lsn,
        0x04: timestamp, 0x08: (lsn - tsn) % 2**64, 0x09: flags & 6 if single else flags,
    }  # fmt: skip
    always = {0x00} if single else {0x00, 0x08}
    never = {0x08} if single else set()
    wanted = {key: value for key, value in fields.items() if (value or key in always) and key not in never}
    data, ends, count = node.take_rows()
    assert data == pack_map(wanted)
    assert (ends, count) == ([len(data)] if tsn == 0 or flags & 1 else [], 1)
