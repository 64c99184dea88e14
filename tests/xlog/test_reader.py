"""Every way in which a file can be cut short or damaged: the right answer each, and never wrong rows."""

from __future__ import annotations

import random

import pytest
from tests.xlog.build import INSTANCE, log, packed, row, transaction

from headwater.errors import XlogError
from headwater.vclock import VClock
from headwater.wire.xrow import Row
from headwater.xlog import (
    MAGIC_EOF,
    SNAP,
    XLOG,
    Block,
    BlockEncoder,
    BytesFile,
    DamageKind,
    Meta,
    Reader,
    encode_blocks,
    format_meta,
    rows,
)
from headwater.xlog.format import MAGIC_PLAIN

HEAD = len(format_meta(Meta(XLOG, INSTANCE, VClock())))

BATCHES = [
    [row(1), row(2, "é")],
    transaction(3, 4),
    [row(7, "x" * 3000)],
    [*transaction(8, 2), row(10)],
    [row(11, "y" * 2500)],
]
FILE = log(BATCHES)


def blocks_of(data: bytes) -> list[Block]:
    return list(Reader(BytesFile(data)))


BLOCKS = blocks_of(FILE)
ALL_ROWS = b"".join(block.rows for block in BLOCKS)
ENDS = [HEAD, *(block.end for block in BLOCKS)]


def read(data: bytes, *, force: bool = False) -> tuple[bytes, Reader]:
    """Rows of all good blocks, and the reader at its end."""
    reader = Reader(BytesFile(data, "dir/1.xlog"), force=force)
    return b"".join(block.rows for block in reader), reader


def lsns(data: bytes) -> list[int]:
    return [one.lsn for block in blocks_of(data) for one in rows(block)]


def test_whole_file() -> None:
    found, reader = read(FILE)
    assert found == ALL_ROWS
    assert (reader.eof, reader.damage, reader.position) == (True, None, len(FILE) - 4)
    assert lsns(FILE) == list(range(1, 12))
    reader.require_eof()


def test_rows_come_back_with_their_transactions() -> None:
    found = [one for block in blocks_of(FILE) for one in rows(block)]
    assert found == [one for batch in BATCHES for one in batch]


# ---- truncation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("eof", [True, False])
def test_every_truncation_gives_the_whole_blocks_before_it(eof: bool) -> None:
    """A transaction is there as a whole or not at all, and whether the file ended well is known."""
    data = log(BATCHES, eof=eof)
    for size in range(HEAD, len(data)):
        found, reader = read(data[:size])
        last = max(end for end in ENDS if end <= size)
        expected = b"".join(block.rows for block in BLOCKS if block.end <= size)
        assert found == expected
        assert not reader.eof
        if size == last:
            assert reader.damage is None
        else:
            assert reader.damage is not None
            assert reader.damage.kind is DamageKind.TORN
            assert (reader.damage.offset, reader.damage.size) == (last, size - last)
        with pytest.raises(XlogError):
            reader.require_eof()


def test_damage_names_file_offset_and_last_good_lsn() -> None:
    _, reader = read(FILE[: ENDS[2] + 25])
    assert reader.damage is not None
    assert reader.damage.last_lsn == 6
    text = f"dir/1.xlog: torn at offset {ENDS[2]}, 25 bytes: unexpected end of file in a block (last good LSN 6)"
    assert str(reader.damage) == text
    error = reader.damage.error()
    assert (error.path, error.offset, error.lsn) == ("dir/1.xlog", ENDS[2], 6)
    assert error.message.endswith(f"(offset {ENDS[2]}, last good LSN 6)")


def test_file_of_a_head_alone() -> None:
    _, reader = read(FILE[:HEAD])
    assert (reader.eof, reader.damage, reader.last_lsn()) == (False, None, None)
    _, reader = read(FILE[: HEAD + 5])
    assert reader.damage is not None
    assert "no row before it" in str(reader.damage)


# ---- what a power cut leaves ----------------------------------------------------------------------


@pytest.mark.parametrize("tail", [bytes(1), bytes(5000), b"\xff" * 100, b"old garbage of another file " * 300])
def test_pages_that_never_reached_the_disk(tail: bytes) -> None:
    data = log(BATCHES, eof=False)
    found, reader = read(data + tail)
    assert found == ALL_ROWS
    assert reader.damage is not None
    assert reader.damage.offset == len(data)
    assert reader.damage.kind in (DamageKind.TORN, DamageKind.UNSYNCED)


def test_last_block_whose_middle_never_reached_the_disk() -> None:
    data = bytearray(log(BATCHES, eof=False))
    data[ENDS[-2] + 30 : ENDS[-1]] = bytes(ENDS[-1] - ENDS[-2] - 30)
    found, reader = read(bytes(data))
    assert found == b"".join(block.rows for block in BLOCKS[:-1])
    assert reader.damage is not None
    assert (reader.damage.kind, reader.damage.reason) == (DamageKind.UNSYNCED, "tx checksum mismatch")


# ---- corruption -----------------------------------------------------------------------------------


def test_damage_before_good_blocks_is_corruption() -> None:
    data = bytearray(FILE)
    data[ENDS[1] + 25] ^= 0x40
    with pytest.raises(XlogError, match="tx checksum mismatch") as caught:
        read(bytes(data))
    assert (caught.value.offset, caught.value.lsn) == (ENDS[1], 2)


def test_length_that_points_beyond_the_file_is_no_end() -> None:
    """Tarantool takes it for the end of the file and loses what follows without a word."""
    data = bytearray(log(BATCHES, eof=False, compress=False))
    plain = blocks_of(bytes(data))
    data[plain[1].offset + 4] = 0x7F
    data[plain[1].offset + 4 : plain[1].offset + 4 + 5] = b"\xce\x00\xff\xff\xff"
    with pytest.raises(XlogError):
        read(bytes(data))


def test_damaged_last_block_before_an_end_marker_is_corruption() -> None:
    data = bytearray(FILE)
    data[ENDS[-2] + 25] ^= 1
    with pytest.raises(XlogError, match="tx checksum mismatch"):
        read(bytes(data))


def test_force_skips_to_the_next_good_block() -> None:
    data = bytearray(FILE)
    data[ENDS[1] + 25] ^= 0x40
    data[ENDS[3] + 1] ^= 0x40
    found, reader = read(bytes(data), force=True)
    assert found == BLOCKS[0].rows + BLOCKS[2].rows + BLOCKS[4].rows
    assert [(skip.kind, skip.offset, skip.size) for skip in reader.skipped] == [
        (DamageKind.CORRUPT, ENDS[1], ENDS[2] - ENDS[1]),
        (DamageKind.CORRUPT, ENDS[3], ENDS[4] - ENDS[3]),
    ]
    assert reader.eof


def test_force_does_not_take_bytes_inside_a_block_for_a_block() -> None:
    """A tuple may hold the bytes of a whole block; what a damaged block holds is not believed if a good one follows."""
    inner = encode_blocks(*packed([row(99)]))
    batches = [[row(1)], [row(2, inner.decode("latin-1"))], [row(3)]]
    data = bytearray(log(batches, compress=False))
    whole = blocks_of(bytes(data))
    data[whole[1].offset + 20] ^= 1
    found, reader = read(bytes(data), force=True)
    assert found == whole[0].rows + whole[2].rows
    assert len(reader.skipped) == 1


@pytest.mark.parametrize("junk", [b"x", b"junk" * 50, FILE[HEAD:]])
def test_bytes_behind_the_end_marker(junk: bytes) -> None:
    with pytest.raises(XlogError, match="has some data after eof marker"):
        read(FILE + junk)
    found, reader = read(FILE + junk, force=True)
    assert found.startswith(ALL_ROWS)
    assert reader.skipped[0].offset == len(FILE) - 4


def test_block_of_good_bytes_that_are_no_rows() -> None:
    encoder = BlockEncoder()
    good, _ = packed([row(5)])
    data = FILE[:HEAD] + encoder.encode_one(good + b"\xc1")
    (block,) = blocks_of(data)
    found = rows(block, "dir/1.xlog")
    assert next(found).lsn == 5
    with pytest.raises(XlogError, match="can't parse row") as caught:
        next(found)
    assert (caught.value.path, caught.value.offset, caught.value.lsn) == ("dir/1.xlog", HEAD, 5)


def test_search_in_a_file_full_of_magic_is_bounded() -> None:
    """Each of these looks like a block that reaches to the end; their checksums are not all computed."""
    fake = MAGIC_PLAIN + b"\xce\x00\x0f\x00\x00" + b"\x00" + b"\x07" + b"\xa7" + bytes(7)
    data = FILE[:HEAD] + fake * 60_000
    with pytest.raises(XlogError):
        read(data)


# ---- bit flips ------------------------------------------------------------------------------------


@pytest.mark.parametrize("eof", [True, False])
def test_bit_flips_never_give_wrong_rows(eof: bool) -> None:
    """10,000 in all: the rows are right as far as they go, and where they end early it is said. A flip that is not
    noticed was in a byte that means nothing, and all rows are there."""
    data = log(BATCHES, eof=eof)
    dice = random.Random(0x5EED)
    silent = 0
    for _ in range(5000):
        bit = dice.randrange(HEAD * 8, len(data) * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            found, reader = read(bytes(flipped))
        except XlogError:
            continue
        assert ALL_ROWS.startswith(found), f"bit {bit}"
        if reader.damage is None and reader.eof == eof:
            assert found == ALL_ROWS, f"bit {bit}"
            silent += 1
        elif reader.damage is None:
            assert found == ALL_ROWS, f"bit {bit}"
    assert silent < 1000


def test_bit_flips_in_the_middle_are_never_an_end() -> None:
    """With good blocks behind it, no flip makes a file look finished."""
    data = log(BATCHES, eof=False)
    for bit in range(ENDS[0] * 8, ENDS[1] * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            found, reader = read(bytes(flipped))
        except XlogError:
            continue
        assert found == ALL_ROWS, f"bit {bit}"
        assert reader.damage is None


def test_bit_flips_with_force_give_only_rows_that_were_written() -> None:
    dice = random.Random(0xF0)
    good = {block.rows for block in BLOCKS}
    for _ in range(1000):
        flipped = bytearray(FILE)
        for _ in range(dice.randrange(1, 4)):
            bit = dice.randrange(HEAD * 8, len(FILE) * 8)
            flipped[bit // 8] ^= 1 << bit % 8
        reader = Reader(BytesFile(bytes(flipped)), force=True)
        assert all(block.rows in good for block in reader)


# ---- following a live file ------------------------------------------------------------------------


class Growing(BytesFile):
    """A file that another process writes."""


def test_follow_gives_a_block_when_it_is_whole() -> None:
    file = Growing(FILE[:HEAD], "live.xlog")
    reader = Reader(file, follow=True)
    given: list[Block] = []
    for size in range(HEAD, len(FILE) + 1):
        file.data = FILE[:size]
        while (block := reader.next()) is not None:
            given.append(block)
        assert [block.end for block in given] == [end for end in ENDS[1:] if end <= size]
        assert reader.damage is None
        assert reader.eof == (size == len(FILE))
    assert given == BLOCKS


def test_follow_sees_what_a_writer_wrote_again() -> None:
    """After a failed write the writer cuts the file back and writes other bytes at the same place."""
    file = Growing(FILE[: ENDS[1] + 30])
    reader = Reader(file, follow=True)
    assert reader.next() == BLOCKS[0]
    assert reader.next() is None
    other = encode_blocks(*packed([row(3, "other")]))
    file.data = FILE[: ENDS[1]] + other
    block = reader.next()
    assert block is not None
    assert [one.lsn for one in rows(block)] == [3]


def test_follow_still_tells_corruption() -> None:
    data = bytearray(FILE)
    data[ENDS[1] + 25] ^= 0x40
    reader = Reader(BytesFile(bytes(data)), follow=True)
    assert reader.next() == BLOCKS[0]
    with pytest.raises(XlogError, match="tx checksum mismatch"):
        reader.next()


# ---- large files ----------------------------------------------------------------------------------


def test_file_larger_than_what_is_read_ahead() -> None:
    made: list[list[Row]] = [[row(lsn, random.Random(lsn).randbytes(200_000).hex())] for lsn in range(1, 12)]
    data = log(made)
    assert len(data) > 2 << 20
    assert lsns(data) == list(range(1, 12))


def test_snapshot_without_end_marker_is_refused() -> None:
    meta = Meta(SNAP, INSTANCE, VClock({1: 5}))
    whole = log([[row(0)]], meta=meta)
    found, reader = read(whole)
    assert found
    reader.require_eof()
    found, reader = read(whole[: -len(MAGIC_EOF)])
    with pytest.raises(XlogError, match="no end marker: the file is not complete"):
        reader.require_eof()
