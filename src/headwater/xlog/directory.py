"""The files of one directory and how they follow each other (xlog.c, xdir_scan and xdir_open_cursor; recovery.cc,
recovery_open_log)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from headwater.errors import BoxError, Er, XlogError, XlogGapError, er
from headwater.vclock import Order, VClock
from headwater.world import Disk
from headwater.xlog.format import META_SIZE_MAX, Meta, parse_meta, parse_name


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file: its path, and what its name and head say."""

    path: str
    signature: int
    meta: Meta

    @property
    def vclock(self) -> VClock:
        return self.meta.vclock if self.meta.vclock is not None else VClock()


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that no file of the directory holds."""

    begin: VClock
    """Where the file before it began; unknown rows were written after it."""
    end: VClock
    """`vclock` of the file after it."""
    path: str
    """The file after it."""

    def error(self) -> XlogGapError:
        return XlogGapError.between(self.begin.signature, str(self.begin), self.end.signature, str(self.end))


def scan(
    disk: Disk,
    directory: str,
    filetype: str,
    *,
    instance_uuid: UUID | None = None,
    problems: list[BoxError] | None = None,
) -> list[LogFile]:
    """All files of a type in the order of their signatures. A file whose head is damaged, of another type or instance
    than the name says, or out of order is an error; with `problems` it is left out and listed there (force_recovery).
    `.inprogress` files are not looked at: a writer never finished them."""
    found: list[LogFile] = []
    names = [
        (signature, name) for name in disk.listdir(directory) if (signature := parse_name(name, filetype)) is not None
    ]
    for signature, name in sorted(names):
        try:
            file = _open(disk, f"{directory}/{name}", signature, filetype, instance_uuid)
            _check_order(found, file)
        except BoxError as error:
            if problems is None:
                raise
            problems.append(error)
        else:
            found.append(file)
    return found


def inprogress(disk: Disk, directory: str) -> list[str]:
    """Paths of files that were never finished; a starting instance removes them."""
    return [f"{directory}/{name}" for name in disk.listdir(directory) if name.endswith(".inprogress")]


def read_meta(disk: Disk, path: str) -> Meta:
    """Only the head of a file."""
    file = disk.open(path)
    try:
        found = parse_meta(file.read_at(0, META_SIZE_MAX))
    except XlogError as error:
        raise XlogError(error.reason, path=path, offset=0) from None
    finally:
        file.close()
    if found is None:
        raise XlogError("unexpected end of file, the head is not complete", path=path, offset=0)
    return found[0]


def _open(disk: Disk, path: str, signature: int, filetype: str, instance_uuid: UUID | None) -> LogFile:
    """The checks of xdir_open_cursor."""
    meta = read_meta(disk, path)
    if meta.filetype != filetype:
        raise er(Er.INVALID_XLOG_TYPE, filetype, meta.filetype)
    if instance_uuid is not None and meta.instance_uuid != instance_uuid:
        raise XlogError(f"invalid instance UUID {meta.instance_uuid}, expected {instance_uuid}", path=path)
    if meta.signature != signature:
        raise XlogError(f"signature check failed: the name says {signature}, the head {meta.signature}", path=path)
    return LogFile(path, signature, meta)


def _check_order(before: Sequence[LogFile], file: LogFile) -> None:
    """A file must come wholly after the one before it (xdir_index_file)."""
    if before and before[-1].vclock.compare(file.vclock) is not Order.LESS:
        raise XlogError(f"invalid xlog order: {file.vclock} does not follow {before[-1].vclock}", path=file.path)


def gaps(files: Iterable[LogFile], start: VClock | None = None) -> list[Gap]:
    """What is missing in a chain of logs: between `start` and the first file, if that begins later, and wherever a
    file was written after another one than the one before it. Files from before 0.13 do not say, and pass."""
    missing: list[Gap] = []
    previous: VClock | None = None
    for file in files:
        if previous is None:
            if start is not None and not start.covers(file.vclock):
                missing.append(Gap(start, file.vclock, file.path))
        elif file.meta.prev_vclock is not None and file.meta.prev_vclock != previous:
            missing.append(Gap(previous, file.vclock, file.path))
        previous = file.vclock
    return missing


def after(files: Sequence[LogFile], vclock: VClock) -> Sequence[LogFile]:
    """Those files that may hold rows after `vclock`: from the last one that does not begin after it on, or all if every
    one does (vclockset_match)."""
    for number in range(len(files) - 1, -1, -1):
        if vclock.covers(files[number].vclock):
            return files[number:]
    return files
