"""Which files of a directory a recovery reads."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from uuid import UUID

from headwater.errors import BoxError, XlogError
from headwater.journal.damage import is_lost_head
from headwater.kernels import crc32c
from headwater.world import Disk, File
from headwater.xlog import MAGIC_EOF, SNAP, XLOG, LogFile, parse_meta, parse_name, scan
from headwater.xlog.blocks import decode_fixheader
from headwater.xlog.format import FIXHEADER_SIZE, META_SIZE_MAX

log = logging.getLogger("headwater.journal")

_PIECE = 1 << 20


@dataclass(slots=True)
class Found:
    files: list[LogFile]
    """Oldest first."""
    discarded: list[str] = field(default_factory=list)
    """Paths of files that are of no use."""

    @property
    def newest(self) -> LogFile | None:
        return self.files[-1] if self.files else None


def find_snapshots(disk: Disk, directory: str, force: bool) -> Found:
    """Snapshots up to the newest one that is whole. A damaged one is passed over for the one before it: the logs since
    then lead to the same state, and a gap in them is found later. Error of the newest if none is whole, unless
    `force`."""
    problems: list[BoxError] = []
    candidates = _scan(disk, directory, SNAP, None, problems)
    bad: list[str] = [error.path for error in problems if isinstance(error, XlogError)]
    damaged: list[LogFile] = []
    while len(candidates) > 1 or (candidates and damaged):
        damage = _damage(disk, candidates[-1].path)
        if damage is None:
            break
        log.error("snapshot '%s' is damaged: %s; trying the one before it", candidates[-1].path, damage.message)
        problems.insert(0, damage)
        damaged.append(candidates.pop())
    if not candidates and damaged and force:
        return Found([*reversed(damaged)], bad)
    if not candidates and problems:
        raise problems[0]
    for error in problems:
        log.error("snapshot is of no use: %s", error.message)
    return Found(candidates, bad + [file.path for file in damaged])


def find_logs(disk: Disk, directory: str, instance_uuid: UUID | None, force: bool) -> Found:
    """All logs. A head that never reached the disk is excused in the newest one: it held nothing that was promised."""
    problems: list[BoxError] = []
    discarded = _lost_heads(disk, directory)
    files = _scan(disk, directory, XLOG, instance_uuid, problems)
    for error in problems:
        if isinstance(error, XlogError) and error.path in discarded:
            log.warning("'%s' has no head: the power was cut before its first bytes reached the disk", error.path)
        elif force:
            log.error("%s; left out, because force_recovery is set", error.message)
        else:
            raise error
    return Found(files, discarded)


def _scan(
    disk: Disk, directory: str, filetype: str, instance_uuid: UUID | None, problems: list[BoxError]
) -> list[LogFile]:
    try:
        return scan(disk, directory, filetype, instance_uuid=instance_uuid, problems=problems)
    except FileNotFoundError:
        return []


def _lost_heads(disk: Disk, directory: str) -> list[str]:
    """The newest log, if it has no head; and the one before it, if that has none either; and so on."""
    try:
        names = disk.listdir(directory)
    except FileNotFoundError:
        return []
    lost: list[str] = []
    for _, name in sorted(((parse_name(name, XLOG) or 0, name) for name in names if _is_log(name)), reverse=True):
        file = disk.open(f"{directory}/{name}")
        try:
            if not is_lost_head(file):
                break
        finally:
            file.close()
        lost.append(f"{directory}/{name}")
    return lost


def _is_log(name: str) -> bool:
    return parse_name(name, XLOG) is not None


def _damage(disk: Disk, path: str) -> XlogError | None:
    """Is something wrong with a snapshot? Every checksum is taken; nothing is unpacked, so it costs little beside the
    recovery that follows."""
    file = disk.open(path)
    try:
        _walk(file)
    except XlogError as error:
        return XlogError(error.reason, path=path, offset=error.offset)
    finally:
        file.close()
    return None


def _walk(file: File) -> None:
    head = parse_meta(file.read_at(0, META_SIZE_MAX))
    if head is None:
        raise XlogError("unexpected end of file, the head is not complete", offset=0)
    size, at = file.size(), head[1]
    pages = _Pages(file)
    while (magic := pages.read(at, len(MAGIC_EOF))) != MAGIC_EOF:
        if not magic:
            raise XlogError("no end marker: the file is not complete", offset=at)
        at = _check_block(pages, at, size)
    if at + len(MAGIC_EOF) != size:
        raise XlogError("has some data after eof marker", offset=at)


def _check_block(pages: _Pages, at: int, size: int) -> int:
    fixheader = pages.read(at, FIXHEADER_SIZE)
    if len(fixheader) < FIXHEADER_SIZE:
        raise XlogError("unexpected end of file in a block's header", offset=at)
    try:
        header = decode_fixheader(fixheader)
    except XlogError as error:
        raise XlogError(error.reason, offset=at) from None
    end = at + FIXHEADER_SIZE + header.length
    if end > size:
        raise XlogError("unexpected end of file in a block", offset=at)
    if crc32c(pages.read(at + FIXHEADER_SIZE, header.length)) != header.crc:
        raise XlogError("tx checksum mismatch", offset=at)
    return end


class _Pages:
    """Small reads out of large ones."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._start = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        at = offset - self._start
        if at < 0 or at + size > len(self._data):
            self._data, self._start, at = self._file.read_at(offset, max(size, _PIECE)), offset, 0
        return self._data[at : at + size]
