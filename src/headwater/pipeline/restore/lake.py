"""The change log of a lake as files of a server: a snapshot and a log, so that a restore from it is one from files.

Bronze holds what a stream brought: the rows of a snapshot, then every change behind it, each with its request as it
stood; a stream that had to begin anew is there with another snapshot behind. What lies between two snapshots is a
stretch; the last one that begins before the point is taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.pipeline.errors import NotThere, PipelineError
from headwater.pipeline.lake.bodies import contents
from headwater.pipeline.lake.delta import files_of, open_table
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.restore.errors import Unreachable
from headwater.pipeline.restore.plan import Target, when
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.staging import Staging, check_token
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.xlog import MAGIC_EOF, SNAP, XLOG, BlockEncoder, Meta, file_name, format_meta

COLUMNS = ["op", "replica_id", "lsn", "tsn", "is_commit", "ts", "request", "replicaset", "_batch", "_seq"]
TRUNCATE = "TRUNCATE"
_BLOCK = 1 << 20
_TYPES = {kind.name: int(kind) for kind in Type if 0 < kind < 100}
_HEAD = np.dtype(
    [
        *(("map", "u1"), ("k0", "u1"), ("type", "u1"), ("k2", "u1"), ("replica_id", "u1")),
        *(("k3", "u1"), ("u64", "u1"), ("lsn", ">u8"), ("k4", "u1"), ("double", "u1"), ("time", ">f8")),
        *(("k8", "u1"), ("u64_", "u1"), ("distance", ">u8"), ("k9", "u1"), ("flags", "u1")),
    ]
)
"""A header of a row whose numbers are all as long as they can be: as good as a short one, and made by columns."""
_EMPTY = pa.scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Files of bronze that have batches in common; other tasks have none of these."""

    number: int
    paths: tuple[str, ...]
    replicaset: str
    staging: str
    token: str


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one kind, one after another, as blocks in a file."""

    is_snapshot: bool
    is_anew: bool
    """Is it said that everything before is void?"""
    path: str
    offset: int
    size: int
    rows: int
    first: Mapping[int, int]
    """By replica id, the least LSN; under 0 numbers of rows of a snapshot."""
    last: Mapping[int, int]
    time: float
    """Of the first row; 0 if it has none."""


def write_rows(task: GroupTask) -> list[Run]:
    """In a task: the rows of some batches, in order, as blocks."""
    check_token(task.staging, task.token)
    parts = [pq.read_table(path, columns=COLUMNS) for path in task.paths]
    rows = pa.concat_tables(parts)
    rows = rows.filter(pc.equal(rows["replicaset"], task.replicaset))
    rows = rows.take(pc.sort_indices(rows, [("_batch", "ascending"), ("_seq", "ascending")])).combine_chunks()
    path = os.path.join(task.staging, f"bronze-{task.number:06}-{uuid4().hex}")
    found: list[Run] = []
    with open(path, "wb") as out:
        for is_anew, stretch in _stretches(rows):
            found += _write(stretch, is_anew, path, out)
    return found


def _stretches(rows: pa.Table) -> list[tuple[bool, pa.Table]]:
    """(does it begin anew, rows) between the rows that say so."""
    marks = pc.indices_nonzero(pc.equal(rows["op"], TRUNCATE)).to_pylist()
    edges = [-1, *marks, rows.num_rows]
    return [(number > 0, rows.slice(begin + 1, end - begin - 1)) for number, (begin, end) in enumerate(pairwise(edges))]


def _write(rows: pa.Table, is_anew: bool, path: str, out: Any) -> list[Run]:
    """Runs of rows of snapshots and of changes. A snapshot whose rows are counted from the beginning is another one."""
    found: list[Run] = []
    of_snapshot = _numbers(rows["replica_id"]) == 0
    goes_back = of_snapshot[1:] & of_snapshot[:-1] & (np.diff(_numbers(rows["lsn"])) <= 0)
    borders = np.flatnonzero(np.diff(of_snapshot.astype(np.int8)).astype(bool) | goes_back) + 1
    edges = [0, *(int(border) for border in borders), rows.num_rows]
    for begin, end in pairwise(edges):
        if begin == end and not (is_anew and not found):
            continue
        part = rows.slice(begin, end - begin)
        is_snapshot = bool(of_snapshot[begin]) if begin < end else True
        offset = out.tell()
        _write_blocks(part, is_snapshot, out)
        first, last = _limits(part)
        time = _seconds(part["ts"])[0] if part.num_rows else 0.0
        anew = is_anew and not found
        found.append(Run(is_snapshot, anew, path, offset, out.tell() - offset, part.num_rows, first, last, float(time)))
    return found


def _write_blocks(rows: pa.Table, is_snapshot: bool, out: Any) -> None:
    if not rows.num_rows:
        return
    packed = _snapshot_rows(rows) if is_snapshot else _log_rows(rows)
    sizes = np.asarray(pc.binary_length(packed), dtype=np.int64)
    ends = np.cumsum(sizes)
    last = np.ones(len(ends), bool) if is_snapshot else np.asarray(pc.fill_null(rows["is_commit"], True))
    may_end = ends[last]
    data = contents(packed)
    encoder = BlockEncoder(compress=False)
    at = 0
    while at < len(data):
        place = min(int(np.searchsorted(may_end, at + _BLOCK)), len(may_end) - 1)
        end = int(may_end[place])
        if end <= at:
            raise PipelineError("The change log of the lake ends inside a transaction: is a batch missing?")
        out.write(encoder.encode_one(data[at:end]))
        at = end


def _snapshot_rows(rows: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(b"\x81\x00\x02", pa.binary()), _requests(rows), _EMPTY)


def _log_rows(rows: pa.Table) -> pa.Array:
    """Whoever waited for a quorum has it: streams bring nothing else."""
    heads = np.zeros(rows.num_rows, _HEAD)
    lsn = _numbers(rows["lsn"])
    for name, value in (("map", 0x86), ("k2", 2), ("k3", 3), ("u64", 0xCF), ("k4", 4), ("double", 0xCB)):
        heads[name] = value
    for name, value in (("k8", 8), ("u64_", 0xCF), ("k9", 9)):
        heads[name] = value
    heads["type"] = _types(rows["op"])
    heads["replica_id"] = _numbers(rows["replica_id"])
    heads["lsn"] = lsn
    heads["time"] = _seconds(rows["ts"])
    heads["distance"] = lsn - _numbers(pc.coalesce(rows["tsn"], rows["lsn"]))
    heads["flags"] = np.asarray(pc.fill_null(rows["is_commit"], True))
    buffer = pa.py_buffer(heads.tobytes())
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_HEAD.itemsize), rows.num_rows, [None, buffer])
    return pc.binary_join_element_wise(fixed.cast(pa.binary()), _requests(rows), _EMPTY)


def _requests(rows: pa.Table) -> pa.Array:
    found = pc.fill_null(rows["request"], b"")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _types(ops: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    names = pa.array(list(_TYPES), pa.string())
    found = pc.index_in(ops, value_set=names)
    if found.null_count:
        name = ops.filter(pc.is_null(found))[0].as_py()
        raise PipelineError(f"The change log of the lake holds a row of the type {name!r}, which is no change.")
    codes: np.ndarray[Any, Any] = np.asarray(list(_TYPES.values()), np.uint8)[np.asarray(found)]
    return codes


def _numbers(values: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    numbers: np.ndarray[Any, Any] = np.asarray(pc.fill_null(values, 0)).astype(np.int64)
    return numbers


def _seconds(moments: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    micros = pc.fill_null(moments.cast(pa.int64()), 0)
    seconds: np.ndarray[Any, Any] = np.asarray(micros).astype(np.float64) / 1e6
    return seconds


def _limits(rows: pa.Table) -> tuple[dict[int, int], dict[int, int]]:
    """By replica id; rows of snapshots have 0."""
    grouped = rows.group_by("replica_id").aggregate([("lsn", "min"), ("lsn", "max")]).to_pylist()
    first = {row["replica_id"] or 0: row["lsn_min"] for row in grouped}
    return first, {row["replica_id"] or 0: row["lsn_max"] for row in grouped}


# ---- stretches -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stretch:
    """A snapshot and the changes behind it."""

    snapshot: list[Run] = field(default_factory=list)
    changes: list[Run] = field(default_factory=list)

    @property
    def time(self) -> float:
        """Of the first change; 0 without one."""
        return self.changes[0].time if self.changes else 0.0

    def vclock(self, end: VClock) -> VClock:
        """Of the snapshot: behind it comes the first change of each replica. `end`: what the stretch leads to."""
        found = end.copy()
        seen: set[int] = set()
        for run in self.changes:
            for replica_id, lsn in run.first.items():
                if replica_id and replica_id not in seen:
                    found.reset(replica_id, lsn - 1)
                    seen.add(replica_id)
        return found


def stretches_of(runs: Sequence[Run]) -> list[Stretch]:
    """In the order in which they came. A machine."""
    found: list[Stretch] = []
    for run in runs:
        if not found or (run.is_snapshot and _begins(run, found[-1])):
            found.append(Stretch())
        (found[-1].snapshot if run.is_snapshot else found[-1].changes).append(run)
    return [each for each in found if any(run.rows for run in each.snapshot)]


def _begins(run: Run, before: Stretch) -> bool:
    """Is it another snapshot than the one that is being gathered?"""
    if run.is_anew or before.changes or not before.snapshot:
        return True
    return bool(run.first) and run.first.get(0, 0) <= before.snapshot[-1].last.get(0, -1)


def choose(stretches: Sequence[Stretch], ends: Sequence[VClock], target: Target, where: Lake) -> int:
    """The last one that begins before the point. Unreachable if none does."""
    for number in range(len(stretches) - 1, -1, -1):
        stretch, begin = stretches[number], stretches[number].vclock(ends[number])
        if target.vclock is not None and not target.vclock.covers(begin, ignore0=True):
            continue
        if target.time is not None and not 0 < stretch.time <= target.time:
            continue
        return number
    first = stretches[0].vclock(ends[0])
    raise Unreachable(
        f"{where}: the lake begins with a snapshot of {first}, whose first change is of {when(stretches[0].time)}. "
        f"The point {target} is before that."
    )


# ---- files -----------------------------------------------------------------------------------------


def spool_lake(runner: Runner, path: Path, replicaset: str, target: Target, staging: Staging) -> str:
    """Bronze as a directory of files, of which the point can be built."""
    lake = Lake(path)
    lake.charter()
    positions = _positions(lake)
    name = _one_set(lake, positions, replicaset)
    groups = _groups(lake)
    tasks = [
        GroupTask(number, tuple(paths), name, str(staging.path), staging.token) for number, paths in enumerate(groups)
    ]
    runs = [run for answer in runner.run(write_rows, tasks, "reading the lake") for run in answer]
    stretches = stretches_of(runs)
    place = positions[name]
    if stretches and place.get("phase") == "snapshot" and not stretches[-1].changes:
        stretches.pop()
    stretches = [each for each in stretches if each.changes or each is stretches[-1]]
    if not stretches:
        raise NotThere(f"{path}: the snapshot of {name} is not whole yet. Wait for `headwater lake sync`.")
    end = VClock({int(number): lsn for number, lsn in place["vclock"].items()}).copy(ignore0=True)
    ends = [*(_last(each) for each in stretches[:-1]), end]
    number = choose(stretches, ends, target, lake)
    directory = Path(staging.file(f"lake-{uuid4().hex}"))
    _assemble(stretches[number], stretches[number].vclock(ends[number]), directory)
    return str(directory)


def _last(stretch: Stretch) -> VClock:
    found = VClock()
    for run in stretch.changes:
        found.merge(VClock(run.last))
    return found


def _positions(lake: Lake) -> Mapping[str, Any]:
    """Where the stream of each set is, as the newest commit says it."""
    table = open_table(lake.bronze)
    for entry in table.history() if table is not None else ():
        found = json.loads(entry.get("headwater.position") or "{}")
        if found.get("sets"):
            sets: Mapping[str, Any] = found["sets"]
            return sets
    raise NotThere(
        f"{lake}: bronze is empty, or its log no longer tells how far it is. `headwater lake sync` fills it."
    )


def _one_set(lake: Lake, sets: Mapping[str, Any], wanted: str) -> str:
    found = [name for name in sets if name.startswith(wanted)]
    if len(found) != 1:
        raise NotThere(f"{lake}: the lake holds the replica sets {', '.join(sets)}. Choose one with --replicaset.")
    return found[0]


def _groups(lake: Lake) -> list[list[str]]:
    """Files in the order of their batches; those that have batches in common together."""
    table = open_table(lake.bronze)
    files = sorted(
        (_batches(lake, file.path, file.low, file.high) for file in files_of(table)) if table is not None else ()
    )
    groups: list[list[str]] = []
    reached = -1
    for low, high, path in files:
        if low > reached or not groups:
            groups.append([])
        groups[-1].append(path)
        reached = max(reached, high)
    return groups


def _batches(lake: Lake, name: str, low: Mapping[str, Any], high: Mapping[str, Any]) -> tuple[int, int, str]:
    path = str(lake.bronze / name)
    if "_batch" in low and "_batch" in high:
        return int(low["_batch"]), int(high["_batch"]), path
    limits = pc.min_max(pq.read_table(path, columns=["_batch"])["_batch"]).as_py()
    return limits["min"], limits["max"], path


def _assemble(stretch: Stretch, vclock: VClock, directory: Path) -> None:
    directory.mkdir()
    instance = uuid4()
    for filetype, runs in ((SNAP, stretch.snapshot), (XLOG, stretch.changes)):
        path = directory / file_name(vclock.signature, filetype)
        with path.open("wb", buffering=0) as out:
            out.write(format_meta(Meta(filetype, instance, vclock)))
            for run in runs:
                _copy(run, out.fileno())
            out.write(MAGIC_EOF)


def _copy(run: Run, out: int) -> None:
    with open(run.path, "rb") as file:
        at, left = run.offset, run.size
        while left:
            copied = os.sendfile(out, file.fileno(), at, left)
            if not copied:
                raise PipelineError(
                    f"{run.path} is shorter than it was: who else writes to {os.path.dirname(run.path)}?"
                )
            at, left = at + copied, left - copied
