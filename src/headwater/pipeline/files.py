"""Which files are read: found by path, ordered by vclock, held against each other, pruned by name and head.

The files of one directory are a chain: the snapshots and logs of one instance. A set of members, or of shards, is
several chains.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from headwater.errors import XlogError
from headwater.pipeline.blocks import damaged
from headwater.pipeline.decode import RowRange
from headwater.pipeline.errors import DataLost, NotThere, OptionError, PipelineError, SourceDamaged
from headwater.pipeline.settings import Options, Secret
from headwater.pipeline.storage import Found, Storage
from headwater.vclock import VClock
from headwater.xlog import SNAP, XLOG, LogFile, Meta, gaps, parse_meta, parse_name
from headwater.xlog.format import INPROGRESS, META_SIZE_MAX

MODES = ("FAILFAST", "PERMISSIVE")
_HEADS_AT_ONCE = 16
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileSettings:
    """Which files, and what becomes of those that are not as they should be."""

    paths: tuple[str, ...]
    storage_options: Secret | None = None
    """JSON that goes to fsspec."""
    file_type: str = "auto"
    recursive: bool = False
    permissive: bool = False
    """Damage is passed over and told in the log; values without a place are rescued."""
    instance_uuid: UUID | None = None
    """Only files that this instance wrote."""
    schema_path: str | None = None
    """Where snapshots lie that tell of the spaces, if not beside the logs."""
    range: RowRange = field(default_factory=RowRange)
    max_block: int = 256 << 20
    """Bytes that a block may unpack to."""

    @classmethod
    def read(cls, options: Options) -> FileSettings:
        options.choice("verifyChecksum", ("true",), "true")
        uuid = options.text("instanceUuid")
        try:
            instance = None if uuid is None else UUID(uuid)
        except ValueError:
            raise OptionError(f"The option 'instanceUuid' is '{uuid}'; it should be a UUID.") from None
        storage = options.json("storageOptions") or {}
        if not isinstance(storage, dict):
            raise OptionError("The option 'storageOptions' should be an object in JSON, like {\"anon\": true}.")
        return cls(
            read_paths(options),
            options.secret("storageOptions"),
            options.choice("fileType", ("auto", "snap", "xlog"), "auto"),
            options.boolean("recursiveFileLookup", False),
            options.choice("mode", MODES, MODES[0]) == "PERMISSIVE",
            instance,
            options.text("schemaPath"),
            RowRange(
                options.vclock("fromVclock"),
                options.vclock("toVclock"),
                options.moment("fromTimestamp"),
                options.moment("toTimestamp"),
            ),
            options.size("maxBlockBytes", 256 << 20),
        )

    @property
    def storage(self) -> Storage:
        if self.storage_options is None:
            return Storage()
        try:
            found = json.loads(self.storage_options.reveal())
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise OptionError("The option 'storageOptions' should be an object in JSON, like {\"anon\": true}.")
        return Storage(found)


def read_paths(options: Options) -> tuple[str, ...]:
    """`path`, or `paths` as Spark hands over several."""
    many = options.names("paths") or ()
    one = options.text("path")
    found = (*many, *([one] if one else []))
    if not found:
        raise OptionError("The option 'path' is missing: it names a file, a directory or a pattern.")
    return found


@dataclass(frozen=True)
class DataFile:
    """A file whose head was read."""

    found: Found
    meta: Meta
    begin: int
    """Where its first block begins."""

    @property
    def path(self) -> str:
        return self.found.path

    @property
    def is_snapshot(self) -> bool:
        return self.meta.filetype == SNAP

    @property
    def vclock(self) -> VClock:
        return self.meta.vclock if self.meta.vclock is not None else VClock()

    @property
    def log_file(self) -> LogFile:
        """As `xlog.gaps` and `xlog.after` want it."""
        return LogFile(self.path, self.meta.signature, self.meta)


@dataclass(frozen=True)
class Chain:
    """Files of one instance in one directory, in the order in which they were written; a snapshot before the log that
    begins where it ends."""

    directory: str
    wanted: tuple[DataFile, ...]
    """Those that are read."""
    beside: tuple[DataFile, ...]
    """All of the directory, those included: what the spaces look like is told there."""

    @property
    def logs(self) -> list[DataFile]:
        return [file for file in self.beside if not file.is_snapshot]

    def is_newest(self, file: DataFile) -> bool:
        """Is it the log that may be being written?"""
        logs = self.logs
        return bool(logs) and logs[-1].path == file.path

    def next_vclock(self, file: DataFile) -> VClock | None:
        """Where the log after this one begins."""
        logs = self.logs
        for one, two in pairwise(logs):
            if one.path == file.path:
                return two.vclock
        return None


class Finder:
    """Makes chains out of paths."""

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self._storage = settings.storage

    def chains(self) -> list[Chain]:
        """By directory. Errors say which file is at fault; with PERMISSIVE it is left out and told in the log."""
        found = {file.path: file for path in self._settings.paths for file in self._find(path)}
        by_directory: dict[str, list[Found]] = {}
        for file in found.values():
            by_directory.setdefault(file.directory, []).append(file)
        chains = [self._chain(directory, files) for directory, files in sorted(by_directory.items())]
        if not any(chain.wanted for chain in chains):
            _log.warning("no file among %s is in the range that was asked for", ", ".join(self._settings.paths))
        return chains

    # ---- finding

    def _find(self, path: str) -> list[Found]:
        found = self._storage.find(path, recursive=self._settings.recursive)
        kept = [file for file in found if file.is_named or self._is_ours(file.name)]
        if not kept:
            raise NotThere(f"{path}: there is no .snap or .xlog file there (.inprogress files are not read).")
        for file in kept:
            if file.name.endswith(INPROGRESS):
                raise OptionError(f"{file.path} was never finished, and its instance will remove it; it is not read.")
        return kept

    def _is_ours(self, name: str) -> bool:
        kinds = {"auto": (SNAP, XLOG), "snap": (SNAP,), "xlog": (XLOG,)}[self._settings.file_type]
        return any(parse_name(name, kind) is not None for kind in kinds)

    def _chain(self, directory: str, found: Sequence[Found]) -> Chain:
        named = {file.path for file in found}
        listed = [file for file in self._storage.beside(directory) if parse_any(file.name)]
        others = [file for file in listed if file.path not in named]
        files = self._same_instance(directory, self._heads(found))
        instances = {file.meta.instance_uuid for file in files}
        beside = [file for file in self._quiet_heads(others) if file.meta.instance_uuid in instances]
        everything = tuple(sorted((*files, *beside), key=_order))
        wanted = [file for file in sorted(files, key=_order) if self._is_kind(file)]
        kept = tuple(self._prune(wanted, everything))
        self._check_gaps(kept)
        return Chain(directory, kept, everything)

    def _is_kind(self, file: DataFile) -> bool:
        return self._settings.file_type in ("auto", file.meta.filetype.lower())

    # ---- heads

    def _heads(self, found: Sequence[Found]) -> list[DataFile]:
        heads = []
        for file, head in zip(found, self._read_heads(found), strict=True):
            if isinstance(head, PipelineError):
                self._complain(head)
            else:
                problem = _name_problem(file, head)
                if problem is not None:
                    self._complain(problem)
                else:
                    heads.append(head)
        return heads

    def _quiet_heads(self, found: Sequence[Found]) -> list[DataFile]:
        """Of files that nobody asked for: those that cannot be read are passed over."""
        return [head for head in self._read_heads(found) if isinstance(head, DataFile)]

    def _read_heads(self, found: Sequence[Found]) -> list[DataFile | PipelineError]:
        with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
            return list(pool.map(self._head, found))

    def _head(self, found: Found) -> DataFile | PipelineError:
        try:
            source = self._storage.open(found.path, found.size)
            try:
                data = source.read_at(0, META_SIZE_MAX)
            finally:
                source.close()
            return _read_head(found, data)
        except XlogError as error:
            return damaged(error, self._settings.max_block, path=found.path)
        except PipelineError as error:
            return error

    # ---- judging

    def _complain(self, error: PipelineError) -> None:
        if not self._settings.permissive:
            raise error
        _log.warning("left out: %s", error)

    def _same_instance(self, directory: str, files: list[DataFile]) -> list[DataFile]:
        """A directory belongs to one instance: a file of another was copied there by mistake."""
        wanted = self._settings.instance_uuid
        if wanted is not None:
            return [file for file in files if file.meta.instance_uuid == wanted]
        counts = Counter(file.meta.instance_uuid for file in files)
        if len(counts) < 2:
            return files
        owner = counts.most_common(1)[0][0]
        for file in files:
            if file.meta.instance_uuid != owner:
                self._complain(
                    SourceDamaged(
                        file.path,
                        None,
                        None,
                        f"it was written by instance {file.meta.instance_uuid}, while {directory} belongs to {owner}",
                        "Move it away, or name one instance in the option 'instanceUuid'.",
                    )
                )
        return [file for file in files if file.meta.instance_uuid == owner]

    def _check_gaps(self, files: Sequence[DataFile]) -> None:
        """Are there all logs between those that are read? Whoever names files one by one wants these and no others."""
        logs = [file for file in files if not file.is_snapshot]
        low = self._settings.range.low
        if low is not None and logs and not low.covers(logs[0].vclock, ignore0=True):
            self._complain(
                DataLost(
                    f"{logs[0].path} begins at {logs[0].vclock}, and there is no log before it, but rows behind {low} "
                    "are wanted. Take the older logs from a backup or another member, or begin at that position."
                )
            )
        if any(file.found.is_named for file in files):
            return
        for gap in gaps([file.log_file for file in logs]):
            self._complain(
                SourceDamaged(
                    gap.path,
                    None,
                    None,
                    f"a log is missing before it: the one before begins at {gap.begin}, this one at {gap.end} and was "
                    "written after another one",
                    "Restore the missing log, or read what there is with mode=PERMISSIVE.",
                )
            )

    # ---- pruning

    def _prune(self, files: Iterable[DataFile], everything: Sequence[DataFile]) -> Iterator[DataFile]:
        """Those that may hold rows of the range. Behind a position to begin at there are changes, so no snapshots."""
        low, high = self._settings.range.low, self._settings.range.high
        ignore0 = not self._settings.range.names_local
        logs = [file for file in everything if not file.is_snapshot]
        for file in files:
            if file.is_snapshot:
                if low is None and (high is None or high.covers(file.vclock, ignore0=True)):
                    yield file
                continue
            after = _following(logs, file)
            if low is not None and after is not None and low.covers(after, ignore0=ignore0):
                continue
            if high is not None and file.vclock.covers(high, ignore0=ignore0):
                continue
            yield file


def _following(logs: Sequence[DataFile], file: DataFile) -> VClock | None:
    for number, log in enumerate(logs[:-1]):
        if log.path == file.path:
            return logs[number + 1].vclock
    return None


def _order(file: DataFile) -> tuple[int, bool]:
    return file.meta.signature, not file.is_snapshot


def parse_any(name: str) -> bool:
    """Is it the name of a snapshot or log?"""
    return parse_name(name, SNAP) is not None or parse_name(name, XLOG) is not None


def _read_head(found: Found, data: bytes) -> DataFile:
    head = parse_meta(data)
    if head is None:
        what = "it is empty" if not data else "unexpected end of file, the head is not complete"
        if data and not data.startswith((b"XLOG\n", b"SNAP\n")):
            what = "it is no .snap or .xlog file of Tarantool"
        raise XlogError(what, path=found.path, offset=0)
    meta, begin = head
    if meta.filetype not in (SNAP, XLOG):
        what = f"it is a file of type {meta.filetype}, which only the vinyl engine reads"
        raise XlogError(what, path=found.path, offset=0)
    return DataFile(found, meta, begin)


def _name_problem(found: Found, file: DataFile) -> SourceDamaged | None:
    """A name of the usual kind must be the file's own (xdir_open_cursor); others may be whatever their owner likes."""
    reason = None
    for kind in (SNAP, XLOG):
        signature = parse_name(found.name, kind)
        if signature is None:
            continue
        if kind != file.meta.filetype:
            reason = f"its name says {kind}, its head {file.meta.filetype}"
        elif file.meta.vclock is not None and signature != file.meta.signature:
            reason = f"its name says signature {signature}, its head {file.meta.signature}"
    if reason is None:
        return None
    return SourceDamaged(found.path, 0, None, reason, "Give it back the name that it had.")
