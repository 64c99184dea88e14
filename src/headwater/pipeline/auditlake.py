"""The silver of a lake as a snapshot: the tuples of its tables as they stand, and the definitions that they were
written under."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.kernels.columns import pack_rows
from headwater.pipeline.errors import NotThere, PipelineError
from headwater.pipeline.lake.delta import files_of, open_table
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.shape import TUPLE
from headwater.pipeline.lake.state import SetState, State
from headwater.pipeline.restore.spooled import SpoolFile
from headwater.store import system
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import SNAP

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class SilverSet:
    """One replica set of a lake."""

    lake: Lake
    name: str
    state: SetState
    position: VClock


def silver_set(path: Path, replicaset: str) -> SilverSet:
    """NotThere where there is none, or not only one; PipelineError while its snapshot is still on its way."""
    lake = Lake(path)
    lake.charter()
    state = State.load(lake.state)
    sets = {name: each for name, each in state.sets.items() if name.startswith(replicaset)}
    if len(sets) != 1:
        told = ", ".join(state.sets) or "none yet"
        raise NotThere(f"{path}: silver holds the replica sets {told}. Choose one with --replicaset.")
    ((name, found),) = sets.items()
    place = state.position.get("sets", {}).get(name, {})
    if place.get("phase") != "stream":
        raise PipelineError(f"{path}: the snapshot of {name} is not whole in silver. Wait for `headwater lake sync`.")
    position = VClock({int(number): lsn for number, lsn in place["vclock"].items()})
    return SilverSet(lake, name, found, position)


def spool_silver(silver: SilverSet, directory: Path) -> Path:
    """A snapshot of it. Its rows are in no order."""
    with SpoolFile(directory, SNAP, uuid4(), silver.position) as file:
        rows = b"".join(_row(space_id, packed) for space_id, packed in _definitions(silver.state))
        file.add(rows, 1)
        for space_id, table in sorted(silver.state.tables.items()):
            if not table.is_lost:
                _spool_table(silver.lake.silver / table.place, space_id, file)
    return file.path


def _definitions(state: SetState) -> list[tuple[int, bytes]]:
    found = [(int(system.COLLATION), packed) for _, packed in sorted(state.collations.items())]
    return [*found, *state.dictionary.tuples()]


def _row(space_id: int, packed: bytes) -> bytes:
    body = b"\x82\x10\xce" + space_id.to_bytes(4, "big") + b"\x21" + packed
    return encode_row(Row(Type.INSERT, body=body))


def _spool_table(path: Path, space_id: int, out: SpoolFile) -> None:
    table = open_table(path)
    for each in files_of(table) if table is not None else ():
        with pq.ParquetFile(path / each.path) as file:
            for batch in file.iter_batches(columns=[TUPLE]):
                _spool_tuples(batch.column(0), space_id, out)


def _spool_tuples(tuples: pa.Array, space_id: int, out: SpoolFile) -> None:
    _, offsets, data = tuples.buffers()
    if data is None:
        return
    at = tuples.offset
    end = at + len(tuples)
    while at < end:
        rows, count = pack_rows(offsets, data, at, end - at, space_id, 0, 0, 0.0, _BLOCK)
        out.add(rows, count)
        at += count
