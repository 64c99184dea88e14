"""The files of one or several members of a replica set, as their heads describe them.

Files of one instance may lie in several directories (`memtx_dir`, `wal_dir`); all files of a directory must be of one
instance, as a node asks that starts on them (xlog.c, xdir_open_cursor).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from headwater.errors import XlogError
from headwater.pipeline.errors import NotThere, SourceDamaged
from headwater.pipeline.storage import Found, Storage
from headwater.vclock import VClock
from headwater.xlog.format import META_SIZE_MAX, SNAP, XLOG, Meta, parse_meta, parse_name

_REMEDY = "Restore the file from a backup, or move it away if it is not needed."


@dataclass(frozen=True, slots=True)
class File:
    """One file."""

    path: str
    size: int
    """As long as it was when it was found: what is written later is not seen."""
    instance: UUID
    vclock: VClock
    """Where its rows begin (a log), or what it holds (a snapshot)."""
    prev: VClock | None
    """Where the log before it in its directory begins, if it says so."""
    begin: int
    """Offset of the first block."""


@dataclass(slots=True)
class Member:
    """One instance."""

    instance: UUID
    directories: list[str] = field(default_factory=list)
    snapshots: list[File] = field(default_factory=list)
    """Oldest first."""
    logs: list[File] = field(default_factory=list)

    def follows(self, log: File) -> File | None:
        """The next log, if it says that it was written right after this one."""
        at = self.logs.index(log) + 1
        after = self.logs[at] if at < len(self.logs) else None
        return after if after is not None and after.prev == log.vclock else None

    def is_last(self, log: File) -> bool:
        return self.logs[-1] is log


@dataclass(slots=True)
class Sources:
    """What was given."""

    members: list[Member]
    problems: list[SourceDamaged]
    """Files whose heads cannot be read: only to be told where something is missing."""
    notes: list[str] = field(default_factory=list)
    trusted: frozenset[UUID] = frozenset()
    """Instances whose files were made of rows that are known to be the set's."""

    def member(self, file: File) -> Member:
        return next(member for member in self.members if member.instance == file.instance)


def scan(directories: Sequence[str], storage: Storage | None = None) -> Sources:
    """The heads of all `.snap` and `.xlog` files. SourceDamaged for a file of another instance among those of a
    directory, NotThere if there is nothing to start from."""
    storage = storage or Storage()
    found = Sources([], [])
    members: dict[UUID, Member] = {}
    for directory in directories:
        files = list(_read(directory, storage, found))
        _refuse_foreign(directory, files)
        for filetype, file in files:
            member = members.setdefault(file.instance, Member(file.instance))
            if directory not in member.directories:
                member.directories.append(directory)
            _add(member.snapshots if filetype == SNAP else member.logs, file, found)
    found.members = list(members.values())
    for member in found.members:
        for files_of in (member.snapshots, member.logs):
            files_of.sort(key=lambda file: file.vclock.signature)
    if not any(member.snapshots for member in found.members):
        raise NotThere(_no_snapshot(directories, found.problems))
    return found


def _read(directory: str, storage: Storage, found: Sources) -> Iterable[tuple[str, File]]:
    for file in storage.find(directory):
        filetype = next((kind for kind in (SNAP, XLOG) if parse_name(file.name, kind) is not None), None)
        if filetype is None:
            if file.is_named:
                raise NotThere(f"{file.path} is neither a .snap nor an .xlog file.")
            continue
        try:
            yield filetype, _open(file, filetype, storage)
        except SourceDamaged as error:
            found.problems.append(error)


def _open(file: Found, filetype: str, storage: Storage) -> File:
    source = storage.open(file.path, file.size)
    try:
        head = source.read_at(0, META_SIZE_MAX)
    finally:
        source.close()
    try:
        parsed = parse_meta(head)
    except XlogError as error:
        raise SourceDamaged(file.path, 0, None, error.reason, _REMEDY) from None
    if parsed is None:
        raise SourceDamaged(file.path, file.size, None, "the file ends within its head", _REMEDY)
    meta, begin = parsed
    _check_head(file, filetype, meta)
    vclock = meta.vclock if meta.vclock is not None else VClock()
    return File(file.path, file.size, meta.instance_uuid, vclock, meta.prev_vclock, begin)


def _check_head(file: Found, filetype: str, meta: Meta) -> None:
    if meta.filetype != filetype:
        words = f"it calls itself {meta.filetype}, and its name says {filetype}"
        raise SourceDamaged(file.path, 0, None, words, _REMEDY)
    signature = parse_name(file.name, filetype)
    if meta.vclock is not None and meta.signature != signature:
        words = f"its name says that it begins at {signature}, its head says {meta.vclock}"
        raise SourceDamaged(file.path, 0, None, words, _REMEDY)


def _refuse_foreign(directory: str, files: Sequence[tuple[str, File]]) -> None:
    owners = Counter(file.instance for _, file in files)
    if len(owners) < 2:
        return
    snapshots = [file for filetype, file in files if filetype == SNAP]
    newest = max(snapshots, key=lambda file: file.vclock.signature, default=None)
    most = max(owners.values())
    tied = [instance for instance, count in owners.items() if count == most]
    owner = newest.instance if newest is not None and newest.instance in tied else tied[0]
    for _, file in files:
        if file.instance != owner:
            words = f"a foreign file: it is of instance {file.instance}, the others in {directory} are of {owner}"
            remedy = "Move it away; to use the files of several members, give each its own directory."
            raise SourceDamaged(file.path, 0, None, words, remedy)


def _add(files: list[File], file: File, found: Sources) -> None:
    twin = next((each for each in files if each.vclock == file.vclock), None)
    if twin is None:
        files.append(file)
        return
    found.notes.append(f"{file.path} and {twin.path} are the same file by their heads; the longer one is used.")
    if file.size > twin.size:
        files[files.index(twin)] = file


def _no_snapshot(directories: Sequence[str], problems: Sequence[SourceDamaged]) -> str:
    words = f"No snapshot (.snap) is in {', '.join(directories)}: without one there is nothing to start from."
    return " ".join([words, *(str(problem) for problem in problems)])
