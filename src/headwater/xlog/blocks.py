"""Blocks: what a file is made of after its head (xlog.c: xlog_tx_write_plain, xlog_tx_write_zstd,
xlog_fixheader_decode, xlog_read_tx).

A block is 19 bytes of fixheader and its data: rows one after another, plain or as one zstd frame. A write-ahead log
never splits a transaction over blocks, so that a block that was half written is a transaction that never was.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import zstandard

from headwater.errors import MsgPackError, XlogError
from headwater.kernels import crc32c, mp_next
from headwater.wire.constants import MpType
from headwater.wire.mpread import KIND, read_uint
from headwater.wire.mpwrite import pack_uint
from headwater.xlog.format import (
    BLOCK_DATA_MAX,
    BLOCK_SIZE,
    COMPRESS_THRESHOLD,
    FIXHEADER_SIZE,
    MAGIC_PLAIN,
    MAGIC_ZSTD,
)

ZSTD_LEVEL = 1
"""Tarantool writes level 3. Level 1 needs two thirds of the time and makes blocks as small, within a few percent; who
reads them cannot tell."""
DECOMPRESSED_MAX = 1 << 30
"""A block that would unpack to more is taken for a bomb. Far above what any transaction of ours comes to."""
_WINDOW_MAX = 1 << 25
"""Tarantool's level 3 uses windows of 2 MiB; a frame that asks for more than this is refused."""
_FIRST_TRY = 2 * BLOCK_SIZE
_SLICE = 256
"""Stored bytes given to the decompressor at once when a block is large: zstd cannot make more than 8 MiB of them."""


# ---- writing --------------------------------------------------------------------------------------


class BlockEncoder:
    """Makes blocks. One per file and thread: it holds the compressor, whose buffers are used again."""

    def __init__(self, *, compress: bool = True) -> None:
        self._compressor = (
            zstandard.ZstdCompressor(
                level=ZSTD_LEVEL, write_content_size=False, write_checksum=False, write_dict_id=False
            )
            if compress
            else None
        )

    def encode(self, data: bytes | memoryview, ends: Sequence[int]) -> bytes:
        """Blocks for rows whose transactions end at `ends` (offsets into data, the last one is its length). A block is
        closed after the transaction with which it comes to 128 KiB."""
        if len(data) + FIXHEADER_SIZE < COMPRESS_THRESHOLD:
            # A lone commit: nothing to cut, nothing to compress.
            return b"".join((fixheader(MAGIC_PLAIN, len(data), crc32c(data)), data)) if data else b""
        view = memoryview(data)
        return b"".join([part for start, end in cut(ends) for part in self._block(view[start:end])])

    def encode_one(self, data: bytes | memoryview) -> bytes:
        """One block, however long."""
        return b"".join(self._block(memoryview(data)))

    def _block(self, data: memoryview) -> tuple[bytes, bytes | memoryview]:
        if self._compressor is None or len(data) + FIXHEADER_SIZE < COMPRESS_THRESHOLD:
            return fixheader(MAGIC_PLAIN, len(data), crc32c(data)), data
        packed = self._compressor.compress(data)
        return fixheader(MAGIC_ZSTD, len(packed), crc32c(packed)), packed


def encode_blocks(data: bytes, tx_ends: Sequence[int]) -> bytes:
    """`BlockEncoder.encode` for once."""
    return BlockEncoder().encode(data, tx_ends)


def cut(ends: Sequence[int]) -> list[tuple[int, int]]:
    """Where blocks begin and end, given where transactions end (xlog_tx_commit)."""
    pieces = []
    start = 0
    for end in ends:
        if end - start + FIXHEADER_SIZE >= BLOCK_SIZE:
            pieces.append((start, end))
            start = end
    if ends and ends[-1] > start:
        pieces.append((start, ends[-1]))
    return pieces


def fixheader(magic: bytes, length: int, crc: int) -> bytes:
    """Magic, length, a zero where old versions had the checksum of the block before, checksum, and a string of zeros
    that fills it up to 19 bytes."""
    head = magic + pack_uint(length) + b"\x00" + pack_uint(crc)
    padding = FIXHEADER_SIZE - len(head)
    return head + bytes((0xA0 | (padding - 1),)) + bytes(padding - 1) if padding else head


# ---- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixHeader:
    compressed: bool
    length: int
    """Bytes of data as stored, which follow the fixheader."""
    crc: int


def decode_fixheader(piece: bytes) -> FixHeader:
    """The fixheader in 19 bytes; XlogError in the words of xlog_fixheader_decode."""
    magic = piece[:4]
    if magic not in (MAGIC_PLAIN, MAGIC_ZSTD):
        raise XlogError(f"invalid magic: 0x{struct.unpack('<I', magic)[0]:x}")
    length, at = _number(piece, 4, "length")
    if length > BLOCK_DATA_MAX:
        raise XlogError("too large fixheader length")
    _, at = _number(piece, at, "crc32p")
    crc, at = _number(piece, at, "crc32c")
    if at < FIXHEADER_SIZE:
        try:
            at = mp_next(piece, at)
        except MsgPackError:
            at = 0
    if at != FIXHEADER_SIZE:
        raise XlogError("broken fixheader padding")
    return FixHeader(magic == MAGIC_ZSTD, length, crc)


def _number(piece: bytes, at: int, name: str) -> tuple[int, int]:
    """An unsigned integer that ends within the fixheader; Tarantool keeps 32 bits of it."""
    try:
        end = mp_next(piece, at) if at < FIXHEADER_SIZE else 0
    except MsgPackError:
        end = 0
    if end == 0 or KIND[piece[at]] != MpType.UINT:
        raise XlogError(f"broken fixheader {name}")
    return read_uint(piece, at)[0] & 0xFFFF_FFFF, end


class BlockDecoder:
    """Checks and unpacks the data of blocks. One per thread: it holds the decompressor."""

    def __init__(self, *, limit: int = DECOMPRESSED_MAX) -> None:
        self._limit = limit
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX)

    def decode(self, header: FixHeader, stored: bytes) -> bytes:
        """The rows of a block from its stored bytes. XlogError for a wrong checksum or a frame that is damaged or
        unpacks to more than the limit."""
        if crc32c(stored) != header.crc:
            raise XlogError("tx checksum mismatch")
        return self._unpack(stored) if header.compressed else stored

    def _unpack(self, stored: bytes) -> bytes:
        """Blocks of ordinary size in one call, others slice by slice, so that memory follows what is really there."""
        try:
            claimed = zstandard.frame_content_size(stored)
            if claimed <= _FIRST_TRY:
                return self._decompressor.decompress(stored, max_output_size=_FIRST_TRY, allow_extra_data=False)
        except zstandard.ZstdError:
            pass
        return self._unpack_slowly(stored)

    def _unpack_slowly(self, stored: bytes) -> bytes:
        out: list[bytes] = []
        size = at = 0
        frame = self._decompressor.decompressobj()
        while at < len(stored):
            piece = stored[at : at + _SLICE]
            try:
                unpacked = frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise XlogError(f"Decompression error: {error}") from None
            out.append(unpacked)
            size += len(unpacked)
            if size > self._limit:
                raise XlogError(
                    f"Decompression error: a block of {len(stored)} bytes unpacks to more than {self._limit}"
                )
            at += len(piece) - len(frame.unused_data)
            if frame.eof and at < len(stored):
                frame = self._decompressor.decompressobj()
        if not frame.eof:
            raise XlogError("Decompression error: the frame is not complete")
        return b"".join(out)
