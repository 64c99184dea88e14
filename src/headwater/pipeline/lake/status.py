"""How a lake is: what its tables hold, how far it is behind, how fast it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from headwater.pipeline.lake.bronze import ChangeLog
from headwater.pipeline.lake.delta import files_of, open_table
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.state import State

COMMITS = 50
"""So many of the last ones rates are taken from."""
RECENT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table."""

    name: str
    replicaset: str
    place: str
    rows: int
    files: int
    bytes: int
    version: int
    changed: float | None
    """Time of the last commit."""


@dataclass(frozen=True, slots=True)
class SetStatus:
    """One replica set's stream."""

    replicaset: str
    phase: str
    vclock: Mapping[int, int]
    row: int
    """In the snapshot, while it is taken."""
    uuid: str
    """Who the stream is for the servers."""


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """The whole."""

    root: str
    is_written: bool
    """Does a sync run?"""
    bronze_batch: int
    silver_batch: int
    newest: float | None
    """Time of the newest change in bronze, by the clock of its server."""
    committed: float | None
    """When bronze was last written."""
    rows_per_second: float | None
    """Of the last minutes; None without a few commits in them."""
    tables: Sequence[TableStatus] = field(default_factory=tuple)
    sets: Sequence[SetStatus] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status(lake: Lake, *, is_written: bool) -> LakeStatus:
    """NotThere if there is no lake."""
    lake.charter()
    state = State.load(lake.state)
    bronze = open_table(lake.bronze)
    found = [_table("bronze", "", lake.bronze, lake)] if bronze is not None else []
    for replicaset, _, table in state.live:
        if (lake.silver / table.place / "_delta_log").is_dir():
            found.append(_table(table.space, replicaset, lake.silver / table.place, lake))
    history = _history(bronze)
    return LakeStatus(
        root=str(lake.root),
        is_written=is_written,
        bronze_batch=ChangeLog(lake.bronze).last,
        silver_batch=state.batch,
        newest=_newest(bronze),
        committed=history[0]["timestamp"] / 1000 if history else None,
        rows_per_second=_rate(history, time.time()),
        tables=found,
        sets=sets_of(_position(history) or state.position),
    )


def sets_of(position: Mapping[str, Any]) -> list[SetStatus]:
    """Where the stream of each set is, out of an offset of the source."""
    return [
        SetStatus(
            name,
            str(each.get("phase", "")),
            {int(number): lsn for number, lsn in each.get("vclock", {}).items()},
            int(each.get("row", 0)),
            str(each.get("uuid", "")),
        )
        for name, each in position.get("sets", {}).items()
    ]


def _table(name: str, replicaset: str, path: Path, lake: Lake) -> TableStatus:
    table = open_table(path)
    assert table is not None
    files = files_of(table)
    last = table.history(1)
    return TableStatus(
        name,
        replicaset,
        str(path.relative_to(lake.root)),
        sum(file.rows for file in files),
        len(files),
        sum(file.size for file in files),
        table.version(),
        last[0]["timestamp"] / 1000 if last else None,
    )


def _history(bronze: DeltaTable | None) -> list[dict[str, Any]]:
    """The last commits of batches, newest first."""
    if bronze is None:
        return []
    return [entry for entry in bronze.history(COMMITS) if "headwater.rows" in entry]


def _rate(history: Sequence[Mapping[str, Any]], now: float) -> float | None:
    recent = [entry for entry in history if entry["timestamp"] / 1000 > now - RECENT_SECONDS]
    if len(recent) < 2:
        return None
    seconds = (recent[0]["timestamp"] - recent[-1]["timestamp"]) / 1000
    rows = sum(int(entry["headwater.rows"]) for entry in recent[:-1])
    return rows / seconds if seconds > 0 else None


def _position(history: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    for entry in history:
        found = json.loads(entry.get("headwater.position") or "{}")
        if isinstance(found, dict) and found:
            return found
    return None


def _newest(bronze: DeltaTable | None) -> float | None:
    """Of all files' statistics."""
    if bronze is None:
        return None
    times = [file.high["ts"] for file in files_of(bronze) if "ts" in file.high]
    return max(map(_seconds, times), default=None)


def _seconds(moment: Any) -> float:
    return float(moment.timestamp())
