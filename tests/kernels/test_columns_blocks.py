"""Blocks that need no unpacking, borders among blocks, rows of some spaces, packets as rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType

import pytest
from tests.kernels.batches import DELETE, NOP, RAFT, SPACE, body_of, frame, replace, row

from headwater.kernels.columnplan import RowError
from headwater.xlog import BlockEncoder

ROWS = [replace(number, "x" * 40, lsn=number) for number in range(1, 40)]


def blocks(groups: Sequence[bytes], compress: bool = False) -> list[bytes]:
    encoder = BlockEncoder(compress=compress)
    return [encoder.encode_one(group) for group in groups]


def grouped(count: int) -> list[bytes]:
    return [b"".join(ROWS[at : at + count]) for at in range(0, len(ROWS), count)]


# ---- plain_rows -----------------------------------------------------------------------------------


def test_rows_of_plain_blocks(c: ModuleType) -> None:
    made = blocks(grouped(4))
    data = b"head" + b"".join(made) + b"tail"
    assert c.plain_rows(data, 4, len(data), 1 << 20) == (b"".join(ROWS), len(data) - 4)
    assert c.plain_rows(memoryview(data), 4, len(data), 1 << 20)[1] == len(data) - 4


def test_reading_stops_at_the_limit_but_not_before_the_first_block(c: ModuleType) -> None:
    made, groups = blocks(grouped(4)), grouped(4)
    data = b"".join(made)
    assert c.plain_rows(data, 0, len(data), 1) == (groups[0], len(made[0]))
    assert c.plain_rows(data, 0, len(data), len(groups[0] + groups[1])) == (
        b"".join(groups[:2]),
        len(made[0] + made[1]),
    )


def test_reading_stops_before_what_is_not_whole_plain_and_good(c: ModuleType) -> None:
    first, second = blocks(grouped(20))
    packed = blocks([b"".join(ROWS) * 20], compress=True)[0]
    broken = second[:30] + bytes([second[30] ^ 1]) + second[31:]
    for rest in (
        second[:-1],
        second[:10],
        packed,
        broken,
        b"\xd5\x10\xad\xed",
        b"\xd5\xba\x0b\xab" + b"\xc0" * 15,
        b"",
    ):
        assert c.plain_rows(first + rest, 0, len(first + rest), 1 << 20) == (grouped(20)[0], len(first))


def test_place_outside_of_the_data_is_refused(c: ModuleType) -> None:
    for begin, end in ((-1, 0), (2, 1), (0, 5)):
        with pytest.raises(ValueError):
            c.plain_rows(b"abcd", begin, end, 10)
        with pytest.raises(ValueError):
            c.borders(b"abcd", begin, end, 10)
    for bad in (0, -1):
        with pytest.raises(ValueError):
            c.plain_rows(b"", 0, 0, bad)
        with pytest.raises(ValueError):
            c.borders(b"", 0, 0, bad)


# ---- borders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 100, 1000, 100_000])
def test_borders_of_every_step(c: ModuleType, step: int) -> None:
    made = blocks(grouped(4)) + blocks([b"".join(ROWS) * 20], compress=True) + blocks(grouped(7))
    data = b"12345" + b"".join(made) + b"\xd5\x10\xad\xed"
    begins = [5]
    for block in made:
        begins.append(begins[-1] + len(block))
    expected, wanted = [], (5 // step + 1) * step
    for before, begin in itertools.pairwise(begins[:-1]):
        if begin >= wanted:
            expected.append((before, begin))
            wanted = (begin // step + 1) * step
    assert c.borders(data, 5, len(data), step) == (expected, begins[-1])


def test_walk_stops_at_a_torn_block_and_does_not_look_into_blocks(c: ModuleType) -> None:
    first, second = blocks(grouped(20))
    spoilt = first[:25] + b"\0" * 5 + first[30:]
    assert c.borders(spoilt + second[:-1], 0, len(spoilt + second) - 1, 1) == ([], len(spoilt))
    assert c.borders(spoilt + second, 0, len(spoilt + second), 1) == ([(0, len(first))], len(spoilt + second))


# ---- pick, unframe --------------------------------------------------------------------------------


@pytest.mark.parametrize("framed", [False, True])
def test_rows_of_some_spaces_are_picked(c: ModuleType, framed: bool) -> None:
    odd_order = b"\x81\x00\x02" + b"\x82\x21\x91\x01\x10\xcd\x01\x18"
    rows = [
        replace(1),
        replace(2, space=280),
        row(NOP),
        row(RAFT, {0x10: 280}),
        odd_order,
        row(DELETE, body_of(280, key=[2])),
    ]
    data = b"".join(map(frame, rows)) if framed else b"".join(rows)
    found = c.pick(data, 0, [280, 288], framed)
    assert [data[begin:end] for begin, end in found] == [rows[1], rows[4], rows[5]]
    assert c.pick(data, 0, []) == [] if not framed else True


def test_picking_among_bytes_that_are_no_rows(c: ModuleType) -> None:
    for bad in (b"\xc1", b"\x81\x00\x03\x90", b"\x81\x00\x03\x81\x21\x01"):
        with pytest.raises(RowError) as info:
            c.pick(replace(1) + bad, 0, [SPACE])
        assert info.value.offset == len(replace(1))


def test_packets_become_rows_of_a_file(c: ModuleType) -> None:
    rows = [replace(1), row(NOP), row(RAFT, {0: 1})]
    data = b"".join(map(frame, rows))
    assert c.unframe(data, 0, len(data)) == (b"".join(rows), len(data))
    for cut in range(1, len(frame(rows[-1])) + 1):
        end = len(data) - cut
        assert c.unframe(data[:end], 0, end) == c.unframe(data, 0, end)
        assert c.unframe(data, 0, end)[0] == rows[0] + rows[1]
    assert c.unframe(data, len(frame(rows[0])), len(data))[0] == rows[1] + rows[2]


def test_packet_without_a_body_becomes_a_row_with_an_empty_one(c: ModuleType) -> None:
    """Or the header of the next row would be taken for its body."""
    data = frame(row(RAFT)) + frame(replace(1))
    rows, end = c.unframe(data, 0, len(data))
    assert (rows, end) == (row(RAFT) + b"\x80" + replace(1), len(data))
