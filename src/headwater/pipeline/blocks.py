"""The blocks of a part of a file, as rows, fast where they are good and with judgement where they are not.

Small plain blocks are taken many at a time by the kernel, zstd frames one by one; anything else, the end of the file
included, is left to `xlog.Reader`, which knows what is wrong (xlog/reader.py).
"""

from __future__ import annotations

import logging
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.errors import XlogError
from headwater.kernels.columns import Columns, Kind, RowError, borders, plain_rows
from headwater.kernels.columns import Source as RowPart
from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.storage import LocalSource, Source
from headwater.pipeline.types import ext_text
from headwater.xlog import Damage, Meta, Reader
from headwater.xlog.blocks import BlockDecoder, FixHeader, decode_fixheader
from headwater.xlog.format import FIXHEADER_SIZE, MAGIC_EOF, MAGIC_PLAIN, MAGIC_ZSTD

ROWS_AT_ONCE = 1 << 20
"""Bytes of rows that are taken out of plain blocks in one go."""
REMEDY = "Restore the file from another member or a backup, or read what is good with mode=PERMISSIVE"
_BOMB = "unpacks to more than"
_WALK_WINDOW = 256 << 10
"""Headers of large blocks are hopped over, so that little of a file is read."""
ID_AND_LSN = ((RowPart.REPLICA_ID, Kind.INT32, 0, 0), (RowPart.LSN, Kind.INT64, 0, 0))
_log = logging.getLogger(__name__)


class Blocks:
    """A position in a file. `end` is the offset behind the blocks given last, `offset` where they begin."""

    def __init__(self, source: Source, *, force: bool, limit: int) -> None:
        """Reads the head. `force`: pass over what is damaged. `limit`: bytes a block may unpack to. SourceDamaged if
        the head is none."""
        self.source = source
        self.path = source.path
        self.offset = self.end = 0
        self.passed_damage = False
        """Was something passed over right before the blocks given last, or behind them?"""
        self._limit = limit
        self._decoder = BlockDecoder(limit=limit)
        self._window = b""
        self._window_at = 0
        self._last_rows = b""
        self._starts: list[tuple[int, int]] = []
        """(where its rows begin, where it begins) of the blocks given last; empty if they were plain."""
        try:
            self._reader = Reader(source, force=force, limit=limit)
        except XlogError as error:
            raise damaged(error, limit, path=self.path) from None
        self.begin = self.end = self._reader.position

    @property
    def meta(self) -> Meta:
        return self._reader.meta

    @property
    def closed(self) -> bool:
        """Was the end marker met?"""
        return self._reader.eof

    @property
    def tail(self) -> Damage | None:
        """What of the file is no block although it ends there: torn, or never synced."""
        return self._reader.damage

    def seek(self, offset: int) -> None:
        """A block begins there."""
        self.end = offset

    def read(self, end: int) -> Iterator[bytes]:
        """Rows of the blocks that begin before `end`, whole blocks at a time."""
        while self.end < end and (rows := self.next(end)) is not None:
            yield rows

    def next(self, end: int) -> bytes | None:
        """The next block or several, as long as they begin before `end`; None where the file ends."""
        at = self.end
        rows = self._quick(at, end)
        if rows is None:
            rows = self._slow(at, end)
        if rows is not None:
            self._last_rows = rows
        return rows

    def last_lsn(self) -> int | None:
        """Of the last row that was read."""
        try:
            return positions(self._last_rows)[-1][1] if self._last_rows else None
        except RowError:
            return None

    def locate(self, rows_offset: int) -> int:
        """Where the block begins that holds this byte of the rows given last."""
        if self._starts:
            return self._starts[bisect_right(self._starts, rows_offset, key=lambda start: start[0]) - 1][1]
        at = self.offset
        passed = 0
        while at + FIXHEADER_SIZE < self.end:
            header = decode_fixheader(self.source.read_at(at, FIXHEADER_SIZE))
            if header.compressed or passed + header.length > rows_offset:
                break
            passed += header.length
            at += FIXHEADER_SIZE + header.length
        return at

    # ---- ways to read

    def _quick(self, at: int, end: int) -> bytes | None:
        """None unless the block at `at` is whole, good and of ordinary size."""
        start = self._at(at, FIXHEADER_SIZE)
        magic = self._window[start : start + 4]
        if magic not in (MAGIC_PLAIN, MAGIC_ZSTD):
            return None
        take = self._plain if magic == MAGIC_PLAIN else self._frames
        rows = take(at, start, end)
        if rows is None and start:
            rows = take(at, self._load(at), end)
        return rows

    def _plain(self, at: int, start: int, end: int) -> bytes | None:
        stop = min(len(self._window), end - self._window_at)
        rows, stopped = plain_rows(self._window, start, stop, ROWS_AT_ONCE)
        if stopped == start:
            return None
        self._starts = []
        self.offset, self.end, self.passed_damage = at, self._window_at + stopped, False
        return rows

    def _frames(self, at: int, start: int, end: int) -> bytes | None:
        window, base = self._window, self._window_at
        pieces: list[bytes] = []
        starts: list[tuple[int, int]] = []
        size, place = 0, start
        while place + base < end and size < ROWS_AT_ONCE:
            header = _zstd_header(window, place)
            begin = place + FIXHEADER_SIZE
            if header is None or begin + header.length > len(window):
                break
            try:
                rows = self._decoder.decode(header, window[begin : begin + header.length])
            except XlogError:
                break
            pieces.append(rows)
            starts.append((size, base + place))
            size += len(rows)
            place = begin + header.length
        if not pieces:
            return None
        self._starts = starts
        self.offset, self.end, self.passed_damage = at, base + place, False
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _slow(self, at: int, end: int) -> bytes | None:
        reader = self._reader
        reader.position = at
        skipped = len(reader.skipped)
        try:
            block = reader.next()
        except XlogError as error:
            raise damaged(error, self._limit, lsn=self.last_lsn()) from None
        self.passed_damage = len(reader.skipped) > skipped
        for damage in reader.skipped[skipped:]:
            _log.warning("passed over: %s", damage)
        if block is None:
            self.end = self.source.size()
            self.passed_damage = self.passed_damage or reader.damage is not None
            return None
        if block.offset >= end:
            # Behind damage that reaches over the border: it belongs to who reads from there.
            self.end = block.offset
            return None
        self._starts = [(0, block.offset)]
        self.offset, self.end = block.offset, block.end
        return block.rows

    def _at(self, offset: int, size: int) -> int:
        """Where in the window this offset is, with `size` bytes behind it if the file has them."""
        start = offset - self._window_at
        if start < 0 or start + size > len(self._window):
            return self._load(offset)
        return start

    def _load(self, offset: int) -> int:
        self._window = self.source.read_at(offset, self.source.window)
        self._window_at = offset
        return 0


def _zstd_header(window: bytes, at: int) -> FixHeader | None:
    """The fixheader at `at` if it is that of a zstd frame; in the form that writers give it, without a call for each
    number."""
    if window[at : at + 4] != MAGIC_ZSTD or at + FIXHEADER_SIZE > len(window):
        return None
    code = window[at + 4]
    place = at + (9 if code == 0xCE else 7)
    if code in (0xCD, 0xCE) and window[place : place + 2] == b"\x00\xce":
        padding = at + FIXHEADER_SIZE - place - 6
        if window[place + 6] == 0x9F + padding:
            length = int.from_bytes(window[at + 5 : place], "big")
            return FixHeader(True, length, int.from_bytes(window[place + 2 : place + 6], "big"))
    try:
        return decode_fixheader(window[at : at + FIXHEADER_SIZE])
    except XlogError:
        return None


def damaged(error: XlogError, limit: int, *, path: str = "", lsn: int | None = None) -> SourceDamaged:
    """In the pipeline's words."""
    remedy = REMEDY
    if _BOMB in error.reason:
        remedy = f"If it is a huge transaction and no attack, give maxBlockBytes more than {limit}. {REMEDY}"
    where = error.path or path
    return SourceDamaged(where, error.offset, error.lsn if error.lsn is not None else lsn, error.reason, f"{remedy}.")


# ---- rows ----------------------------------------------------------------------------------------


def ends_open(rows: bytes) -> bool:
    """Is the last row not the last of its transaction?"""
    columns = Columns((), {}, ext_text, 1, 1)
    columns.set_types(())
    columns.decode(rows, 0)
    return columns.open


def positions(rows: bytes) -> list[tuple[int, int]]:
    """(replica id, LSN) of each row."""
    count = max(1, len(rows) // 2)
    columns = Columns(ID_AND_LSN, {}, ext_text, count, 1)
    columns.decode(rows, 0)
    _, ((_, _, ids), (_, _, lsns)) = columns.take()
    return list(zip(array("i", ids[0]), array("q", lsns[0]), strict=True))


# ---- borders -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """Blocks of a file that begin from `begin` on and before `end`."""

    begin: int
    end: int
    before: int | None
    """Where the block before the first one begins; None if there is none."""


def parts(source: Source, begin: int, step: int) -> list[Part]:
    """A file in parts of about `step` bytes, at borders of blocks. Only their fixheaders are looked at. Behind
    something that is no block there are no more borders: who reads it judges it."""
    found: list[Part] = []
    start, before = begin, None
    walk = _Walk(source, begin, step)
    for previous, at in walk:
        found.append(Part(start, at, before))
        start, before = at, previous
        walk.wanted = at + step
    found.append(Part(start, source.size(), before))
    return found


class _Walk:
    """(block before, block) for the first block at or behind `wanted`, which may be moved on meanwhile."""

    def __init__(self, source: Source, begin: int, step: int) -> None:
        self.wanted = begin + step
        self._source = source
        self._at = begin
        self._size = source.size()
        self._window = min(_WALK_WINDOW, source.window) if isinstance(source, LocalSource) else source.window

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self._at < self._size:
            data = self._source.read_at(self._at, self._window)
            blocks = self._blocks(data)
            for previous, block in blocks:
                if block >= self.wanted and self._source.read_at(block, len(MAGIC_EOF)) not in (MAGIC_EOF, b""):
                    yield previous, block
            if not blocks:
                return
            self._at = blocks[-1][1]

    def _blocks(self, data: bytes) -> list[tuple[int, int]]:
        """(block before, where the next one should begin) behind the block at hand: all of them in the window where one
        is wanted, else the last."""
        at = self._at
        is_near = self.wanted - at <= len(data)
        found, stopped = borders(data, 0, len(data), 1 if is_near else len(data) + 1)
        if not stopped:
            # Larger than the window, or no block.
            try:
                header = decode_fixheader(data[:FIXHEADER_SIZE])
            except (XlogError, struct.error):
                return []
            return [(at, at + FIXHEADER_SIZE + header.length)]
        blocks = [(at + before, at + block) for before, block in found]
        return [*blocks, (blocks[-1][1] if blocks else at, at + stopped)]
