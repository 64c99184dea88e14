"""Upkeep of a lake's tables: many small files become few large ones, and what no reader needs any more is removed.

Both may run while a sync writes: Delta's log decides who was first, and the other one begins again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from headwater.pipeline.errors import OptionError
from headwater.pipeline.lake.delta import open_table
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.state import State

TARGET_BYTES = 128 << 20
RETENTION_HOURS = 7 * 24.0
BUSY_HOURS_MIN = 1.0
"""While a sync runs, files that are younger may be its own, not yet committed."""
MANY_FILES = 32
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A table of the lake."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a table."""

    name: str
    files_before: int
    files_after: int
    bytes: int
    """Removed, by `vacuum`."""
    note: str = ""


def places(lake: Lake) -> list[Place]:
    """All tables, bronze first."""
    state = State.load(lake.state)
    found = [Place("bronze", lake.bronze), Place("schema_history", lake.history)]
    found += [Place(f"silver/{table.place}", lake.silver / table.place) for _, _, table in state.live]
    return [place for place in found if (place.path / "_delta_log").is_dir()]


def compact(lake: Lake, tables: list[Place], target: int = TARGET_BYTES) -> Iterator[Done]:
    """Put small files together, table by table."""
    for place in tables:
        yield _compact(place, target)


def _compact(place: Place, target: int) -> Done:
    before = 0
    for _ in range(_TRIES):
        table = _open(place)
        before = before or len(table.file_uris())
        try:
            table.optimize.compact(target_size=target)
        except CommitFailedError:
            continue
        table = _open(place)
        table.create_checkpoint()
        table.cleanup_metadata()
        return Done(place.name, before, len(table.file_uris()), 0)
    return Done(place.name, before, before, 0, "it is being written all the time; left as it is")


def vacuum(lake: Lake, hours: float, *, dry_run: bool, is_busy: bool) -> Iterator[Done]:
    """Remove data files that the last versions do not name and that are older than so many hours, and the directories
    of tables whose spaces are long gone."""
    if hours < BUSY_HOURS_MIN and is_busy:
        raise OptionError(
            f"A sync writes into {lake}: with a retention below {BUSY_HOURS_MIN:.0f} hour its newest files could be "
            "taken for waste. End it first, or take --retention 1h or more."
        )
    for place in places(lake):
        table = _open(place)
        names = table.vacuum(int(hours), dry_run=True, enforce_retention_duration=False, full=True)
        size = sum(_size(place.path / name) for name in names)
        if not dry_run and names:
            table.vacuum(int(hours), dry_run=False, enforce_retention_duration=False, full=True)
        count = len(table.file_uris())
        yield Done(place.name, count + len(names), count, size)
    for path in orphans(lake, hours):
        size = sum(_size(each) for each in path.rglob("*"))
        if not dry_run:
            shutil.rmtree(path)
        yield Done(str(path.relative_to(lake.root)), 1, 0, size, "its space was dropped")


def keep(lake: Lake, hours: float) -> tuple[int, int]:
    """What a sync does by itself now and then: put together where there are many files, remove what is older. Tables
    that were put together, and bytes that were freed."""
    many = [place for place in places(lake) if len(_open(place).file_uris()) >= MANY_FILES]
    done = [each for each in compact(lake, many) if each.files_after < each.files_before]
    freed = sum(each.bytes for each in vacuum(lake, max(hours, BUSY_HOURS_MIN), dry_run=False, is_busy=True))
    return len(done), freed


def forget_silver(lake: Lake) -> None:
    """As if no batch had come to silver yet: it can be made anew from bronze. Nobody may read or write meanwhile."""
    lake.state.unlink(missing_ok=True)
    for path in (lake.silver, lake.history):
        shutil.rmtree(path, ignore_errors=True)


def orphans(lake: Lake, hours: float) -> list[Path]:
    """Tables that the state does not name, and checkpoints of runs before this one, untouched for so long."""
    known = {lake.silver / place for place in State.load(lake.state).places}
    current = lake.checkpoint(lake.charter())
    found = [log.parent for log in lake.silver.glob("*/*/_delta_log") if log.parent not in known]
    found += [path for path in lake.own.glob("checkpoint-*") if path != current]
    return [path for path in found if _newest(path) < time.time() - hours * 3600]


def _newest(path: Path) -> float:
    return max((each.stat().st_mtime for each in path.rglob("*")), default=0.0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


def _open(place: Place) -> DeltaTable:
    table = open_table(place.path)
    assert table is not None, place.path
    return table
