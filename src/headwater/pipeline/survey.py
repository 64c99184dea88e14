"""What the spaces look like where a part of a file begins: out of the newest snapshot before it, and the rows of
`_space` and `_index` in the logs behind that.

These rows are few, but they may be anywhere, so that all logs are unpacked once on the driver, by all cores, and what
was found is kept in a cache: a query asks for it twice, in two processes, and the next query again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.kernels.columns import RowError, pick
from headwater.pipeline.blocks import Blocks, Part, parts
from headwater.pipeline.decode import RowRange
from headwater.pipeline.dictionary import WATCHED, Dictionary, SpaceFacts
from headwater.pipeline.errors import PipelineError, SourceDamaged
from headwater.pipeline.files import Chain, DataFile, FileSettings, Finder
from headwater.store.system import SYSTEM_ID_MAX
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import of_row
from headwater.wire.xrow import Row, decode_row

_SCAN_STEP = 16 << 20
"""Bytes of a file that one thread unpacks at a time."""
_CACHE_DAYS = 30
_CACHE_VERSION = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """A row of `_space` or `_index`, and the block that it is in."""

    offset: int
    packed: bytes

    @property
    def row(self) -> Row:
        return decode_row(self.packed)[0]


@dataclass(frozen=True, slots=True)
class FileDictionaries:
    """The spaces at the beginning of a file, and what changes them inside."""

    begin: Dictionary
    changes: tuple[SchemaRow, ...]
    is_known: bool
    """False: no snapshot and unbroken row of logs leads here, so that spaces may be missing from it."""

    def at(self, offset: int) -> Dictionary:
        """Where the block at `offset` begins."""
        dictionary = self.begin.copy()
        for change in self.changes:
            if change.offset < offset:
                dictionary.apply(change.row)
        return dictionary


NOTHING_KNOWN = FileDictionaries(Dictionary(), (), is_known=False)
"""For who does not ask."""


class Surveyor:
    """Reads rows of the schema out of the files of chains."""

    def __init__(self, settings: FileSettings, cache: Path | None) -> None:
        self._settings = settings
        self._storage = settings.storage
        self._cache = cache
        self._scanned: dict[str, tuple[SchemaRow, ...]] = {}

    def survey(self, chain: Chain) -> dict[str, FileDictionaries]:
        """For each wanted file of a chain, by path."""
        snapshots = [file for file in chain.beside if file.is_snapshot] + self._other_snapshots()
        needed = self._needed(chain, snapshots)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for file in needed:
                self._scanned[file.path] = self._scan(file, pool, is_wanted=file in chain.wanted)
        return {file.path: self._dictionaries(chain, snapshots, file) for file in chain.wanted}

    # ---- which files lead to a position

    def _other_snapshots(self) -> list[DataFile]:
        path = self._settings.schema_path
        if path is None:
            return []
        settings = FileSettings((path,), self._settings.storage_options, "snap")
        return [file for chain in Finder(settings).chains() for file in chain.wanted]

    def _needed(self, chain: Chain, snapshots: list[DataFile]) -> list[DataFile]:
        needed: dict[str, DataFile] = {}
        for file in chain.wanted:
            base, logs, _ = _way(chain, snapshots, file)
            for each in ([base] if base is not None else []) + logs + [file]:
                needed[each.path] = each
        return list(needed.values())

    def _dictionaries(self, chain: Chain, snapshots: list[DataFile], file: DataFile) -> FileDictionaries:
        if file.is_snapshot:
            return FileDictionaries(self._of_snapshot(file), (), is_known=True)
        base, logs, is_known = _way(chain, snapshots, file)
        if not is_known:
            # A name that may be out of date is worse than none.
            base, logs = None, []
        dictionary = Dictionary.builtin() if base is None else self._of_snapshot(base)
        start = VClock() if base is None else base.vclock
        for log in logs:
            for change in self._scanned[log.path]:
                row = change.row
                if row.lsn > start.get(row.replica_id):
                    dictionary.apply(row)
        return FileDictionaries(dictionary, self._scanned[file.path], is_known)

    def _of_snapshot(self, file: DataFile) -> Dictionary:
        return Dictionary.from_rows(change.row for change in self._scanned[file.path])

    # ---- scanning

    def _scan(self, file: DataFile, pool: ThreadPoolExecutor, *, is_wanted: bool) -> tuple[SchemaRow, ...]:
        """SourceDamaged for a wanted file that is damaged, unless that is to be passed over."""
        cached = _Cached(self._cache, file)
        rows = cached.load()
        if rows is None:
            try:
                rows = self._read(file, pool, force=self._settings.permissive)
            except SourceDamaged as error:
                if is_wanted:
                    raise
                _log.warning("what the spaces look like may be told wrongly: %s", error)
                rows = self._read(file, pool, force=True)
            else:
                cached.save(rows)
        return rows

    def _read(self, file: DataFile, pool: ThreadPoolExecutor, *, force: bool) -> tuple[SchemaRow, ...]:
        if file.is_snapshot:
            return tuple(self._read_snapshot(file, force=force))
        source = self._storage.open(file.path, file.found.size)
        try:
            pieces = parts(source, file.begin, _SCAN_STEP)
        finally:
            source.close()
        found = pool.map(lambda part: list(self._read_part(file, part, force=force)), pieces)
        return tuple(change for piece in found for change in piece)

    def _read_part(self, file: DataFile, part: Part, *, force: bool) -> Iterator[SchemaRow]:
        source = self._storage.open(file.path, file.found.size)
        try:
            blocks = Blocks(source, force=force, limit=self._settings.max_block)
            blocks.seek(part.begin)
            for rows in blocks.read(part.end):
                for begin, end in _picked(blocks, rows):
                    yield SchemaRow(blocks.locate(begin), rows[begin:end])
        finally:
            source.close()

    def _read_snapshot(self, file: DataFile, *, force: bool) -> Iterator[SchemaRow]:
        """System spaces come first there (memtx_engine.cc, checkpoint_add_space; space_foreach)."""
        source = self._storage.open(file.path, file.found.size)
        try:
            blocks = Blocks(source, force=force, limit=self._settings.max_block)
            for rows in blocks.read(source.size()):
                for begin, end in _picked(blocks, rows):
                    yield SchemaRow(blocks.offset, rows[begin:end])
                if _is_past_system(rows):
                    return
        finally:
            source.close()


def _picked(blocks: Blocks, rows: bytes) -> list[tuple[int, int]]:
    try:
        return pick(rows, 0, WATCHED)
    except RowError as error:
        offset = blocks.locate(error.offset)
        raise SourceDamaged(blocks.path, offset, error.lsn or None, error.reason, "Its writer is at fault.") from None


def _is_past_system(rows: bytes) -> bool:
    """Is the first row of these one of a user's space?"""
    row = decode_row(rows)[0]
    if row.type != Type.INSERT:
        return False
    try:
        return of_row(row).space_id > SYSTEM_ID_MAX
    except HeadwaterError:
        return False


def _way(chain: Chain, snapshots: Iterable[DataFile], file: DataFile) -> tuple[DataFile | None, list[DataFile], bool]:
    """(snapshot, logs behind it, nothing missing between) that lead to the beginning of a file."""
    if file.is_snapshot:
        return file, [], True
    before = [snap for snap in snapshots if file.vclock.covers(snap.vclock)]
    base = max(before, key=lambda snap: snap.meta.signature, default=None)
    start = base.vclock if base is not None else VClock()
    logs = chain.logs
    earlier = [log for log in logs[: logs.index(file)] if log.meta.signature < file.meta.signature]
    at = max((n for n, log in enumerate(earlier) if start.covers(log.vclock)), default=-1)
    if base is not None and start == file.vclock:
        return base, [], True
    led = earlier[max(at, 0) :]
    steps = [*led, file]
    begins = (base is not None and start.covers(steps[0].vclock)) or not steps[0].vclock.as_dict()
    return base, led, begins and all(_follows(one, two) for one, two in pairwise(steps))


def _follows(one: DataFile, two: DataFile) -> bool:
    return two.meta.prev_vclock is None or two.meta.prev_vclock == one.vclock


def versions(space: str, dictionaries: FileDictionaries, limits: RowRange) -> Iterator[SpaceFacts]:
    """How a space looks in a file, from its beginning to its end or to the end of the range."""
    dictionary = dictionaries.begin.copy()
    seen = dictionary.find(space)
    if seen is not None:
        yield seen
    for change in dictionaries.changes:
        row = change.row
        if not limits.has(row):
            continue
        dictionary.apply(row)
        found = dictionary.find(space)
        if found is not None and found != seen:
            yield found
        seen = found


# ---- cache ---------------------------------------------------------------------------------------


def cache_directory(option: str | None) -> Path | None:
    """Where found rows are kept: as the option says, none if it is empty, else among the user's temporary files."""
    if option is not None:
        return Path(option) if option else None
    return Path(tempfile.gettempdir()) / f"headwater-schema-{os.getuid()}"


class _Cached:
    """The rows of the schema of one file, as long as the file stays as it is."""

    def __init__(self, directory: Path | None, file: DataFile) -> None:
        self._path: Path | None = None
        if directory is None or not file.found.version:
            return
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid != os.getuid():
                return
        except OSError:
            return
        key = (_CACHE_VERSION, file.path, file.found.size, file.found.version, str(file.meta))
        self._path = directory / hashlib.sha256(repr(key).encode()).hexdigest()

    def load(self) -> tuple[SchemaRow, ...] | None:
        if self._path is None:
            return None
        try:
            found = unpack(self._path.read_bytes())
            os.utime(self._path)
            return tuple(SchemaRow(offset, packed) for offset, packed in found)
        except (OSError, HeadwaterError, ValueError, TypeError):
            return None

    def save(self, rows: Iterable[SchemaRow]) -> None:
        if self._path is None:
            return
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            temporary.write_bytes(pack([(change.offset, change.packed) for change in rows]))
            temporary.replace(self._path)
            _tidy(self._path.parent)
        except OSError as error:
            _log.warning("what was learnt of the schema is not kept: %s", error)


def _tidy(directory: Path) -> None:
    old = time.time() - _CACHE_DAYS * 86_400
    for path in directory.iterdir():
        try:
            if path.stat().st_mtime < old:
                path.unlink()
        except OSError:
            continue


def missing(file: DataFile) -> PipelineError:
    """For who needs to know the spaces at a place where nobody can."""
    return PipelineError(
        f"What the spaces look like at the beginning of {file.path} ({file.vclock}) is not known: beside it there is "
        "no snapshot from before it with all logs in between. Name a directory with such a snapshot in the option "
        "'schemaPath', or take the rows as an envelope, without the option 'space'."
    )
