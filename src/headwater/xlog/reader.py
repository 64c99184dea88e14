"""Reading a file block by block (xlog.c, struct xlog_cursor), and judging what is wrong with it.

Tarantool takes every block that does not fit into the file for its end. So does a flipped bit in a length, and the
rest of the file is lost without a word. Here a bad block is judged by what follows it:

    CORRUPT   good blocks, or the end marker, come after it: something was damaged that had been written well
    TORN      the file ends inside of it and nothing good follows: the writer was stopped in mid-write
    UNSYNCED  it is all there but its bytes are wrong, and so is everything after it, up to the end of a file without
              end marker: a power cut took pages that had not reached the disk

TORN and UNSYNCED end the file where the good blocks end; who continues the log cuts it there and says so. CORRUPT is an
error, or with `force` a gap that is skipped and listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from headwater.errors import BoxError, XlogError
from headwater.kernels import crc32c
from headwater.wire.xrow import Row, decode_row
from headwater.xlog.blocks import DECOMPRESSED_MAX, BlockDecoder, FixHeader, decode_fixheader
from headwater.xlog.format import FIXHEADER_SIZE, MAGIC_EOF, MAGIC_PLAIN, MAGIC_ZSTD, META_SIZE_MAX, Meta, parse_meta

_READ_AHEAD = 1 << 20
_SEARCH_BUDGET = 4
"""While searching for a good block, checksums are taken over so many times the bytes that are left, not more."""


class Source(Protocol):
    """What a reader needs of a file; `world.File` has it."""

    path: str

    def read_at(self, offset: int, size: int) -> bytes: ...

    def size(self) -> int: ...


class BytesFile:
    """Bytes in memory as a file."""

    def __init__(self, data: bytes, path: str = "<bytes>") -> None:
        self.path = path
        self.data = data

    def read_at(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]

    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Block:
    """One good block."""

    offset: int
    """Where its fixheader begins."""
    end: int
    rows: bytes
    """Rows one after another, unpacked."""


class DamageKind(Enum):
    TORN = "torn"
    UNSYNCED = "unsynced"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a file that holds no good block."""

    kind: DamageKind
    path: str
    offset: int
    size: int
    reason: str
    last_lsn: int | None
    """LSN of the last row before it in this file, if there is one."""

    def error(self) -> XlogError:
        return XlogError(self.reason, path=self.path, offset=self.offset, lsn=self.last_lsn)

    def __str__(self) -> str:
        before = "no row before it" if self.last_lsn is None else f"last good LSN {self.last_lsn}"
        return f"{self.path}: {self.kind.value} at offset {self.offset}, {self.size} bytes: {self.reason} ({before})"


class Reader:
    """A position in one file. `next()` gives blocks until there is none; then `eof` and `damage` say why."""

    def __init__(
        self,
        file: Source,
        *,
        force: bool = False,
        follow: bool = False,
        limit: int = DECOMPRESSED_MAX,
    ) -> None:
        """Reads the head. `force`: skip what is corrupt (force_recovery). `follow`: the file is being written, so that
        an unfinished block is not there yet, and `next()` may be called again. `limit`: bytes a block may unpack to."""
        self.file = file
        self.path = file.path
        self.eof = False
        """Was the end marker seen? Without it a snapshot is worthless, and a log was not closed."""
        self.damage: Damage | None = None
        """What follows the last good block, if it is not nothing."""
        self.skipped: list[Damage] = []
        """Corrupt stretches passed over with `force`."""
        self.end: int | None = None
        """With `follow`: what lies behind this offset is not to be read yet."""
        self._force = force
        self._follow = follow
        self._decoder = BlockDecoder(limit=limit)
        self._size = file.size()
        self._buffer = b""
        self._buffer_at = 0
        self._last_rows = b""
        self.meta, self.position = self._read_meta()

    def _read_meta(self) -> tuple[Meta, int]:
        try:
            found = parse_meta(self.file.read_at(0, META_SIZE_MAX))
        except XlogError as error:
            raise XlogError(error.reason, path=self.path, offset=0) from None
        if found is None:
            raise XlogError("unexpected end of file, the head is not complete", path=self.path, offset=self._size)
        return found

    # ---- walking

    def next(self) -> Block | None:
        """The next good block, or None. XlogError for corruption unless `force`."""
        while not self.eof and self.damage is None:
            if self._follow:
                size = self.file.size()
                self._size = size if self.end is None else min(self.end, size)
            offset = self.position
            try:
                block = self._read_block(offset)
            except _BadBlock as bad:
                if self._pass_over(offset, bad):
                    continue
                return None
            if block is not None:
                self.position = block.end
                self._last_rows = block.rows
            return block
        return None

    def plain_blocks(self, limit: int) -> tuple[list[bytes], list[int]]:
        """The blocks that come next, as rows and offsets, as long as they are small, not compressed, good, and read
        already; at most about `limit` bytes. For files of many small blocks, where `next` costs more than they do;
        whatever is not of this kind is left to it."""
        found: list[bytes] = []
        offsets: list[int] = []
        if self.eof or self.damage is not None or not 0 <= self.position - self._buffer_at < len(self._buffer):
            return found, offsets
        data, base = self._buffer, self._buffer_at
        at = self.position - base
        last = len(data) - FIXHEADER_SIZE
        while at <= last and limit > 0 and data[at : at + 4] == MAGIC_PLAIN:
            length, place = data[at + 4], at + 5
            if length == 0xCC:
                length, place = data[place], at + 6
            elif length == 0xCD:
                length, place = data[place] << 8 | data[place + 1], at + 7
            elif length >= 0x80:
                break
            # A zero where the last block's checksum was, and a checksum of four bytes, as all but a few have it.
            begin = at + FIXHEADER_SIZE
            rows = data[begin : begin + length]
            padding = begin - place - 6
            if data[place : place + 2] != b"\x00\xce" or len(rows) != length or data[place + 6] != 0x9F + padding:
                break
            if crc32c(rows) != int.from_bytes(data[place + 2 : place + 6], "big"):
                break
            found.append(rows)
            offsets.append(base + at)
            at = begin + length
            limit -= length
        if found:
            self.position = base + at
            self._last_rows = found[-1]
        return found, offsets

    def __iter__(self) -> Iterator[Block]:
        while (block := self.next()) is not None:
            yield block

    def require_eof(self) -> None:
        """XlogError if the file was read to a place that is not its end marker. For snapshots."""
        if self.damage is not None:
            raise self.damage.error()
        if not self.eof:
            raise XlogError("no end marker: the file is not complete", path=self.path, offset=self.position)

    def _read_block(self, offset: int) -> Block | None:
        """None at the end of the file, with or without marker. _BadBlock if what is there is no block."""
        head = self._bytes(offset, FIXHEADER_SIZE)
        if not head:
            return None
        if head[:4] == MAGIC_EOF:
            self._end(offset)
            return None
        if len(head) < FIXHEADER_SIZE:
            raise _BadBlock("unexpected end of file in a block's header", is_incomplete=True)
        header = _fixheader(head)
        end = offset + FIXHEADER_SIZE + header.length
        if end > self._size:
            raise _BadBlock("unexpected end of file in a block", is_incomplete=True)
        stored = self._bytes(offset + FIXHEADER_SIZE, header.length)
        try:
            return Block(offset, end, self._decoder.decode(header, stored))
        except XlogError as error:
            raise _BadBlock(error.reason) from None

    def _end(self, offset: int) -> None:
        if self._size > offset + len(MAGIC_EOF):
            raise _BadBlock("has some data after eof marker", was_closed=True)
        self.eof = True

    def _bytes(self, offset: int, size: int) -> bytes:
        """Bytes of the file through a buffer that reads ahead; fewer at the end."""
        start = offset - self._buffer_at
        if start < 0 or start + size > len(self._buffer):
            want = min(max(size, _READ_AHEAD), max(self._size - offset, 0))
            self._buffer = self.file.read_at(offset, want)
            self._buffer_at, start = offset, 0
        return self._buffer[start : start + size]

    # ---- judging

    def _pass_over(self, offset: int, bad: _BadBlock) -> bool:
        """Judge a bad block; True if reading goes on behind it."""
        if self._follow and bad.is_incomplete:
            self._buffer = b""
            return False
        after = self._find_block(offset + 1)
        has_marker = self._size - len(MAGIC_EOF) > offset and self._tail() == MAGIC_EOF
        if after is None and has_marker:
            after = self._size - len(MAGIC_EOF)
        if after is not None or bad.was_closed:
            kind = DamageKind.CORRUPT
        else:
            kind = DamageKind.TORN if bad.is_incomplete else DamageKind.UNSYNCED
        end = self._size if after is None else after
        damage = Damage(kind, self.path, offset, end - offset, bad.reason, self.last_lsn())
        if kind is not DamageKind.CORRUPT:
            self.damage = damage
            return False
        if not self._force:
            raise damage.error()
        self.skipped.append(damage)
        self.position = end
        return True

    def _tail(self) -> bytes:
        return self.file.read_at(self._size - len(MAGIC_EOF), len(MAGIC_EOF))

    def _find_block(self, offset: int) -> int | None:
        """Where the next good block begins. A file made to keep us busy ends the search at a block that only looks
        good."""
        budget = _SEARCH_BUDGET * (self._size - offset)
        while (offset := self._find_magic(offset)) >= 0:
            head = self._bytes(offset, FIXHEADER_SIZE)
            try:
                header = _fixheader(head) if len(head) == FIXHEADER_SIZE else None
            except _BadBlock:
                header = None
            if header is not None and offset + FIXHEADER_SIZE + header.length <= self._size:
                budget -= header.length
                if budget < 0 or crc32c(self._bytes(offset + FIXHEADER_SIZE, header.length)) == header.crc:
                    return offset
            offset += 1
        return None

    def _find_magic(self, offset: int) -> int:
        """Offset of the next four bytes that begin a block, -1 if there are none."""
        overlap = len(MAGIC_PLAIN) - 1
        while offset < self._size:
            piece = self.file.read_at(offset, _READ_AHEAD)
            found = [at for magic in (MAGIC_PLAIN, MAGIC_ZSTD) if (at := piece.find(magic)) >= 0]
            if found:
                return offset + min(found)
            if len(piece) <= overlap:
                break
            offset += len(piece) - overlap
        return -1

    def last_lsn(self) -> int | None:
        """LSN of the last row of the last good block."""
        lsn = None
        at = 0
        try:
            while at < len(self._last_rows):
                row, at = decode_row(self._last_rows, at)
                lsn = row.lsn
        except BoxError:
            pass
        return lsn


class _BadBlock(Exception):  # noqa: N818
    """What is there is no block: `is_incomplete` if the file ends too early, `was_closed` behind an end marker."""

    def __init__(self, reason: str, *, is_incomplete: bool = False, was_closed: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_incomplete = is_incomplete
        self.was_closed = was_closed


def _fixheader(head: bytes) -> FixHeader:
    try:
        return decode_fixheader(head)
    except XlogError as error:
        raise _BadBlock(error.reason) from None


def rows(block: Block, path: str = "") -> Iterator[Row]:
    """The rows of a block. XlogError "can't parse row" if its bytes are no rows although their checksum is right."""
    at = 0
    lsn: int | None = None
    while at < len(block.rows):
        try:
            row, at = decode_row(block.rows, at)
        except BoxError as error:
            words = f"can't parse row: {error.message}"
            raise XlogError(words, path=path, offset=block.offset, lsn=lsn) from None
        lsn = row.lsn
        yield row
