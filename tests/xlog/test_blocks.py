"""Heads and blocks as bytes: what is written, and what is refused."""

from __future__ import annotations

import itertools
import struct
from typing import Any
from uuid import UUID

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.xlog.build import INSTANCE, packed, row

from headwater.errors import XlogError
from headwater.kernels import crc32c
from headwater.vclock import VClock
from headwater.xlog import (
    SNAP,
    XLOG,
    BlockDecoder,
    BlockEncoder,
    BytesFile,
    Meta,
    Reader,
    encode_blocks,
    file_name,
    format_meta,
    parse_meta,
    parse_name,
)
from headwater.xlog.blocks import cut, decode_fixheader, fixheader
from headwater.xlog.format import BLOCK_SIZE, CUT_APART, MAGIC_PLAIN, MAGIC_ZSTD

# ---- heads ----------------------------------------------------------------------------------------

HEAD = f"""XLOG
0.13
Version: 3.8.0
Instance: {INSTANCE}
VClock: {{0: 13, 1: 3376}}
PrevVClock: {{1: 6}}

""".encode()


def test_head_has_these_bytes() -> None:
    meta = Meta(XLOG, INSTANCE, VClock({0: 13, 1: 3376}), VClock({1: 6}))
    assert format_meta(meta) == HEAD
    assert parse_meta(HEAD + b"rest") == (meta, len(HEAD))
    assert meta.signature == 3389


def test_head_without_vclocks() -> None:
    meta = Meta(SNAP, INSTANCE, None)
    found = parse_meta(format_meta(meta))
    assert found is not None
    assert found[0] == meta
    assert format_meta(Meta(SNAP, INSTANCE, VClock())).endswith(b"VClock: {}\n\n")


def test_head_of_an_old_file() -> None:
    old = f"XLOG\n0.12\nServer: {INSTANCE}\nVClock: {{1: 2}}\nStrange: yes\n\n".encode()
    found = parse_meta(old)
    assert found is not None
    meta = found[0]
    assert (meta.instance_uuid, meta.format, meta.unknown) == (INSTANCE, "0.12", ("Strange",))
    assert meta.vclock == VClock({1: 2})


@pytest.mark.parametrize("size", range(len(HEAD)))
def test_head_that_is_cut_short(size: int) -> None:
    assert parse_meta(HEAD[:size]) is None
    with pytest.raises(XlogError, match=r"file.xlog: unexpected end of file, the head is not complete"):
        Reader(BytesFile(HEAD[:size], "file.xlog"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("VERYLONGTYPE\n0.13\n\n", "failed to parse xlog type string"),
        ("XLOG\n0.13.with.tail\n\n", "failed to parse xlog version string"),
        ("XLOG\n\n", "failed to parse xlog version string"),
        ("XLOG\n0.14\n\n", "unsupported file format version 0.14"),
        ("XLOG\n0.13\nno colon\n\n", "can't extract meta value"),
        ("XLOG\n0.13\nInstance: x\n\n", "can't parse instance UUID"),
        ("XLOG\n0.13\nVClock: {1}\n\n", "invalid vclock at offset"),
        ("XLOG\n0.13\nPrevVClock: {40: 1}\n\n", "replica id 40"),
    ],
)
def test_head_that_is_malformed(text: str, words: str) -> None:
    with pytest.raises(XlogError, match=words):
        parse_meta(text.encode())
    with pytest.raises(XlogError, match=r"^a/b.xlog: .*offset 0"):
        Reader(BytesFile(text.encode(), "a/b.xlog"))


vclocks = st.dictionaries(st.integers(0, 31), st.integers(1, 2**62)).map(VClock)


@given(st.sampled_from((XLOG, SNAP)), st.uuids(), st.none() | vclocks, st.none() | vclocks)
def test_head_comes_back(filetype: str, uuid: UUID, vclock: VClock | None, prev: VClock | None) -> None:
    meta = Meta(filetype, uuid, vclock, prev)
    data = format_meta(meta)
    assert parse_meta(data) == (meta, len(data))


def test_names() -> None:
    assert file_name(42, XLOG) == "00000000000000000042.xlog"
    assert file_name(0, SNAP, inprogress=True) == "00000000000000000000.snap.inprogress"
    assert parse_name("00000000000000000042.xlog", XLOG) == 42
    assert parse_name("7.xlog", XLOG) == 7
    for name in ("42.snap", "42.xlog.inprogress", "x.xlog", "42xlog", "42.xlog.bak", "-1.xlog", "9" * 20 + ".xlog"):
        assert parse_name(name, XLOG) is None
    assert parse_name("42.xlog.inprogress", XLOG, inprogress=True) == 42


# ---- writing --------------------------------------------------------------------------------------


def test_fixheader_has_these_bytes() -> None:
    assert fixheader(MAGIC_PLAIN, 5, 0x12345678).hex() == "d5ba0bab" + "05" + "00" + "ce12345678" + "a7" + "00" * 7
    assert fixheader(MAGIC_ZSTD, 0x12345, 0).hex() == "d5ba0bba" + "ce00012345" + "00" + "00" + "a7" + "00" * 7


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1), st.booleans())
def test_fixheader_comes_back(length: int, crc: int, compressed: bool) -> None:
    data = fixheader(MAGIC_ZSTD if compressed else MAGIC_PLAIN, length, crc)
    assert len(data) == 19
    found = decode_fixheader(data)
    assert (found.compressed, found.length, found.crc) == (compressed, length, crc)


def test_short_block_is_plain_and_long_one_compressed() -> None:
    """xlog.c: from 2048 bytes on, header included."""
    assert encode_blocks(b"x" * 2028, [2028])[:4] == MAGIC_PLAIN
    assert encode_blocks(b"x" * 2029, [2029])[:4] == MAGIC_ZSTD
    assert BlockEncoder(compress=False).encode_one(b"x" * 5000)[:4] == MAGIC_PLAIN


def test_frame_has_neither_size_nor_checksum() -> None:
    frame = encode_blocks(b"abc" * 2000, [6000])[19:]
    found = zstandard.get_frame_parameters(frame)
    assert zstandard.frame_content_size(frame) == -1
    assert not found.has_checksum
    assert found.dict_id == 0


@given(st.lists(st.integers(1, 3 * BLOCK_SIZE), min_size=1, max_size=30))
def test_blocks_are_cut_at_ends_of_transactions(sizes: list[int]) -> None:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    pieces = cut(ends)
    assert [piece[0] for piece in pieces] == [0, *(end for _, end in pieces[:-1])]
    assert pieces[-1][1] == ends[-1]
    assert {end for _, end in pieces} <= set(ends)
    for start, end in pieces[:-1]:
        assert end - start + 19 >= BLOCK_SIZE
        inner = [at for at in ends if start < at < end]
        assert not inner or inner[-1] - start + 19 < BLOCK_SIZE


@given(st.lists(st.integers(1, 40_000), max_size=60))
def test_ends_nearer_than_a_block_change_nothing(sizes: list[int]) -> None:
    """What `Memtx.take_rows(CUT_APART)` leaves out."""
    ends = list(itertools.accumulate(sizes))
    told: list[int] = []
    for end in ends:
        if end - (told[-1] if told else 0) >= CUT_APART or end == ends[-1]:
            told.append(end)
    assert cut(told) == cut(ends)


def test_nothing_gives_no_block() -> None:
    assert encode_blocks(b"", []) == b""
    assert cut([]) == []


@given(st.lists(st.binary(min_size=1, max_size=5000), min_size=1, max_size=20))
def test_blocks_come_back(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    ends = [sum(map(len, pieces[: number + 1])) for number in range(len(pieces))]
    reader = Reader(BytesFile(HEAD + encode_blocks(data, ends)))
    assert b"".join(block.rows for block in reader) == data
    assert (reader.damage, reader.eof) == (None, False)


# ---- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("d5ba0bac" + "05" + "00" * 14, "invalid magic: 0xac0bbad5"),
        ("d5ba0bab" + "a0" + "00" * 14, "broken fixheader length"),
        ("d5ba0bab" + "ff" + "00" * 14, "broken fixheader length"),
        ("d5ba0bab" + "ce80000001" + "00" * 10, "too large fixheader length"),
        ("d5ba0bab" + "05" + "c0" + "00" * 13, "broken fixheader crc32p"),
        ("d5ba0bab" + "05" + "00" + "c1" + "00" * 12, "broken fixheader crc32c"),
        ("d5ba0bab" + "cf" + "00" * 8 + "cf" + "00" * 5, "broken fixheader crc32p"),
        ("d5ba0bab" + "05" + "00" + "07" + "aa" + "00" * 11, "broken fixheader padding"),
        ("d5ba0bab" + "05" + "00" + "07" + "ab" + "00" * 11, ""),
        ("d5ba0bab" + "05" + "00" + "07" + "00" * 12, "broken fixheader padding"),
        ("d5ba0bab" + "05" + "00" + "07" + "dc0009" + "c0" * 9, ""),
    ],
)
def test_fixheader_checks(text: str, words: str) -> None:
    """Padding may be any value that fills it; a checksum of the block before is read over."""
    piece = bytes.fromhex(text)
    assert len(piece) == 19
    if words:
        with pytest.raises(XlogError, match=f"^{words}$"):
            decode_fixheader(piece)
    else:
        assert decode_fixheader(piece).crc == 7


def stored(frame: bytes) -> bytes:
    return fixheader(MAGIC_ZSTD, len(frame), crc32c(frame)) + frame


def decode(block: bytes, limit: int = 1 << 30) -> bytes:
    return BlockDecoder(limit=limit).decode(decode_fixheader(block[:19]), block[19:])


def frame_of(data: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(3, **options).compress(data)


@pytest.mark.parametrize("size", [0, 1, 5000, 300_000, 5_000_000])
@pytest.mark.parametrize("options", [{}, {"write_content_size": False}, {"write_checksum": True}])
def test_frames_of_any_writer_are_read(size: int, options: dict[str, bool]) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert decode(stored(frame_of(data, **options))) == data


def test_several_frames_in_one_block() -> None:
    """Nobody writes that, but Tarantool reads it."""
    assert decode(stored(frame_of(b"abc") + frame_of(b"def" * 200_000))) == b"abc" + b"def" * 200_000


@pytest.mark.parametrize("cut_off", [1, 3, 10])
def test_frame_that_is_cut_short(cut_off: int) -> None:
    frame = frame_of(bytes(range(256)) * 100, write_content_size=False)
    with pytest.raises(XlogError, match="Decompression error: the frame is not complete"):
        decode(stored(frame[:-cut_off]))


@pytest.mark.parametrize("frame", [b"", b"garbage that is no frame", frame_of(b"abc") + b"junk behind"])
def test_bytes_that_are_no_frame(frame: bytes) -> None:
    with pytest.raises(XlogError, match="Decompression error"):
        decode(stored(frame))


def test_wrong_checksum() -> None:
    block = bytearray(encode_blocks(b"abc", [3]))
    block[-1] ^= 1
    with pytest.raises(XlogError, match=r"^tx checksum mismatch$"):
        decode(bytes(block))


@pytest.mark.parametrize("options", [{}, {"write_content_size": False}])
def test_bomb_is_an_error_before_it_goes_off(options: dict[str, bool]) -> None:
    bomb = stored(frame_of(bytes(40_000_000), **options))
    assert len(bomb) < 4000
    with pytest.raises(XlogError, match="unpacks to more than 1000000"):
        decode(bomb, limit=1_000_000)
    assert decode(bomb) == bytes(40_000_000)


def test_frame_that_claims_a_huge_size() -> None:
    """The claim is not believed: memory follows what is really unpacked."""
    frame = bytearray(frame_of(b"abc" * 100))
    assert frame[4] & 0xE0 == 0x60
    claim = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 50) + bytes(frame[7:])
    with pytest.raises(XlogError, match="Decompression error"):
        decode(stored(claim))


def test_transaction_is_never_split() -> None:
    """A block of a log holds whole transactions, whatever their size."""
    big = [row(lsn, "x" * 60_000) for lsn in range(1, 9)]
    data, ends = packed(big)
    blocks = list(Reader(BytesFile(HEAD + encode_blocks(data, ends))))
    assert len(blocks) == 3
    whole = list(Reader(BytesFile(HEAD + encode_blocks(data, [len(data)]))))
    assert len(whole) == 1
