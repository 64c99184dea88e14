"""What may be cut from the end of the last log, and what must not.

A crash of the process leaves a short last block. A power cut leaves a shorter file, or sectors that never reached the
disk and read as zeros, anywhere in what was not forced. Both end a log where its good blocks end: what follows was
promised to nobody (`wal_mode` write), or was never answered (fsync).

Wrong bits are something else: no crash makes them, so a disk or a hand did, and what they hit may have been
acknowledged. Cutting there would lose it in silence; so this is refused, and `force_recovery` is the operator's word
that it may be lost. docs/journal.md tells the whole of it.
"""

from __future__ import annotations

from enum import Enum

from headwater.errors import XlogError
from headwater.kernels import crc32c
from headwater.xlog import MAGIC_EOF
from headwater.xlog.blocks import FixHeader, decode_fixheader
from headwater.xlog.format import FIXHEADER_SIZE
from headwater.xlog.reader import Source

SECTOR = 512
"""What a disk writes whole or not at all."""
_PIECE = 1 << 20


class Tail(Enum):
    CUT = "cut"
    REFUSE = "refuse"


def judge_tail(file: Source, at: int, *, good_follows: bool, ordered: bool) -> Tail:
    """The first bad block of the last log begins at `at`. `good_follows`: there are good blocks behind it.
    `ordered`: each block was on the disk before the next was written (wal_mode fsync), so that no crash can have left
    a hole before a good block."""
    size = file.size()
    if _is_sealed(file, at, size):
        return Tail.REFUSE
    header = _header(file, at)
    end = size if header is None else at + FIXHEADER_SIZE + header.length
    if _has_hole(file, at, min(end, size), size):
        return Tail.REFUSE if ordered and good_follows else Tail.CUT
    if good_follows:
        return Tail.REFUSE
    if size - at < FIXHEADER_SIZE:
        return Tail.CUT
    if header is None or end <= size:
        return Tail.REFUSE
    return Tail.REFUSE if _is_whole(file, at, size, header) else Tail.CUT


def is_lost_head(file: Source) -> bool:
    """Is there no head, because the file's first bytes never reached the disk? Headwater forces heads before it gives
    a file its name; others do not."""
    return not any(file.read_at(0, SECTOR))


def _is_sealed(file: Source, at: int, size: int) -> bool:
    """The end marker is written after everything before it was forced: what is wrong there is no crash's work."""
    return size - len(MAGIC_EOF) > at and file.read_at(size - len(MAGIC_EOF), len(MAGIC_EOF)) == MAGIC_EOF


def _header(file: Source, at: int) -> FixHeader | None:
    piece = file.read_at(at, FIXHEADER_SIZE)
    try:
        return decode_fixheader(piece) if len(piece) == FIXHEADER_SIZE else None
    except XlogError:
        return None


def _has_hole(file: Source, start: int, end: int, size: int) -> bool:
    """Is some sector that the block in [start, end) lies in nothing but zeros, as far as it belongs to neither the
    good blocks before `start` nor the outside of the file?"""
    while start < end:
        piece = file.read_at(start, (start // SECTOR * SECTOR + _PIECE) - start)
        if not piece:
            return False
        at = 0
        while at < len(piece) and start < end:
            stop = min((start // SECTOR + 1) * SECTOR, size)
            sector = piece[at : at + stop - start]
            if not any(sector):
                return True
            at += stop - start
            start = stop
    return False


def _is_whole(file: Source, at: int, size: int, header: FixHeader) -> bool:
    """The block claims to be longer than the file, yet its checksum fits what is there: its length is what is wrong."""
    crc = 0
    offset = at + FIXHEADER_SIZE
    while offset < size:
        piece = file.read_at(offset, min(_PIECE, size - offset))
        crc = crc32c(piece, crc)
        offset += len(piece)
    return crc == header.crc
