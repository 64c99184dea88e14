"""The change log: every row of the stream, in its order, exactly once.

Each task writes one Parquet file; the driver adds the files of a batch in one commit, with the transaction (run, number
of the batch). A batch that comes again finds its transaction and leaves no trace. Values of any kind are JSON text
here, which everybody reads; `request` holds the body of each row as it stands, and is what silver is made of.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headwater.pipeline.lake.delta import File, commit, files_of, number_of, open_or_make, open_table, write_file
from headwater.pipeline.lake.layout import Charter, Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXT = pa.string()
BRONZE = pa.schema(
    [
        ("op", _TEXT),
        ("space_id", pa.int32()),
        ("space", _TEXT),
        ("key", _TEXT),
        ("before", _TEXT),
        ("after", _TEXT),
        ("replica_id", pa.int32()),
        ("lsn", pa.int64()),
        ("tsn", pa.int64()),
        ("is_commit", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ops", _TEXT),
        ("index_id", pa.int32()),
        ("group_id", pa.int32()),
        ("flags", pa.int32()),
        ("body", _TEXT),
        ("request", pa.binary()),
        ("replicaset", _TEXT),
        ("_batch", pa.int64()),
        ("_seq", pa.int64()),
    ]
)
"""The envelope, and the place of each row: number of the batch in the lake, and of the row in the batch."""
VARIANTS = ("key", "before", "after", "ops", "body")
WANTED = ["op", "space_id", "request", "index_id", "replica_id", "lsn", "ts", "replicaset", "_batch", "_seq"]
"""Columns that silver is made of."""
TASK_BITS = 40
"""`_seq` is the number of the task, shifted by so many bits, plus that of the row in it."""
MESSAGE = "file STRING"
BYTES_MAX = 256 << 20
"""Of requests that silver takes at once, roughly, one batch apart."""
LOOK_FILES = 64
"""So many files are looked at to find out how far a step of silver goes."""


@dataclass(frozen=True)
class PartWriter:
    """What a task does: rows of its partition into one file, and a line about it. Travels to the executors."""

    directory: str
    batch: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        file = self.write(batches, context.partitionId() if context is not None else 0)
        if file is not None:
            yield pa.RecordBatch.from_pydict({"file": [file.to_json()]})

    def write(self, batches: Iterable[pa.RecordBatch], task: int) -> File | None:
        return write_file(Path(self.directory), self._placed(batches, task), BRONZE, "bronze")

    def _placed(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        at = task << TASK_BITS
        for batch in batches:
            rows = batch.num_rows
            place = {
                "_batch": pa.repeat(pa.scalar(self.batch, pa.int64()), rows),
                "_seq": pa.array(range(at, at + rows), pa.int64()),
            }
            at += rows
            arrays = [
                place[each.name] if each.name in place else batch.column(each.name).cast(each.type) for each in BRONZE
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=BRONZE)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch that is in bronze."""

    batch: int
    rows: int
    bytes: int
    newest: str | None
    """Time of its newest change, ISO 8601."""
    position: Mapping[str, Any]
    """Where the stream is behind it."""


class Bronze:
    """The table, for the one who writes it."""

    def __init__(self, lake: Lake, charter: Charter) -> None:
        self._path = lake.bronze
        self._charter = charter
        open_or_make(self._path, BRONZE, "bronze")

    def append(self, rows: DataFrame, batch_id: int, position: Mapping[str, Any]) -> Written | None:
        """A batch of the stream; None if it has no rows or was here already."""
        if self.has(batch_id):
            return None
        batch = self._charter.base + batch_id
        writer = PartWriter(str(self._path), batch)
        found = as_text(rows).mapInArrow(writer, MESSAGE).collect()
        return self.commit([File.from_json(row["file"]) for row in found], batch_id, position)

    def has(self, batch_id: int) -> bool:
        return number_of(DeltaTable(str(self._path)), self._charter.run) >= batch_id

    def commit(self, files: list[File], batch_id: int, position: Mapping[str, Any]) -> Written | None:
        """Add what the tasks wrote. The transaction is looked for on the very table that is committed to."""
        table = DeltaTable(str(self._path))
        if number_of(table, self._charter.run) >= batch_id:
            for file in files:
                (self._path / file.path).unlink(missing_ok=True)
            return None
        if not files:
            return None
        written = Written(
            self._charter.base + batch_id,
            sum(file.rows for file in files),
            sum(file.size for file in files),
            max((file.high["ts"] for file in files if "ts" in file.high), default=None),
            position,
        )
        facts = {
            "headwater.batch": written.batch,
            "headwater.rows": written.rows,
            "headwater.position": json.dumps(position),
        }
        commit(table, files, fence=(self._charter.run, batch_id), facts=facts, blind=True)
        return written


def as_text(rows: DataFrame) -> DataFrame:
    """The envelope with JSON in place of VARIANT."""
    from pyspark.sql import functions as f

    known = {field.name: field.dataType.simpleString() for field in rows.schema}
    columns = [
        f.to_json(f.col(name)).alias(name) if known[name] == "variant" else f.col(name)
        for name in BRONZE.names
        if name in known
    ]
    return rows.select(columns)


# ---- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """Batches that silver takes at once."""

    last: int
    rows: pa.Table
    """In order."""


class ChangeLog:
    """Bronze, for the one who reads it in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table = open_table(path)

    @property
    def last(self) -> int:
        """Number of the last batch, -1 without one."""
        return max((file.high for file in self._files()), default=-1)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self._files())

    def reload(self) -> None:
        if self._table is None:
            self._table = open_table(self._path)
        else:
            self._table.update_incremental()

    def after(self, batch: int, rows_max: int, bytes_max: int = BYTES_MAX) -> Unit | None:
        """The batches behind this one: as many as come to about so much, one at least."""
        files = sorted(
            (each for each in self._files() if each.high > batch), key=lambda each: (max(each.low, batch), each.seq)
        )
        if not files:
            return None
        last = self._until(files, batch, rows_max, bytes_max)
        parts = [self._read(each, batch, last) for each in files if each.low <= last]
        return Unit(last, _in_order(pa.concat_tables(parts).combine_chunks()))

    def _files(self) -> list[_Batches]:
        """Whoever wrote it: statistics are not promised."""
        found = files_of(self._table) if self._table is not None else []
        return [_Batches(file.path, file.rows, *self._limits(file), int(file.low.get("_seq", 0))) for file in found]

    def _limits(self, file: File) -> tuple[int, int]:
        if "_batch" in file.low and "_batch" in file.high:
            return int(file.low["_batch"]), int(file.high["_batch"])
        limits = pc.min_max(pq.read_table(self._path / file.path, columns=["_batch"])["_batch"]).as_py()
        return limits["min"], limits["max"]

    def _until(self, files: Sequence[_Batches], batch: int, rows_max: int, bytes_max: int) -> int:
        """The last batch of the unit. Compacted files hold many batches, which are counted one by one."""
        rows: dict[int, int] = defaultdict(int)
        size: dict[int, int] = defaultdict(int)
        for number, file in enumerate(files):
            if number >= LOOK_FILES and file.low > min(rows):
                break
            per_row = self._row_bytes(file)
            for each, count in self._counts(file).items():
                if each > batch:
                    rows[each] += count
                    size[each] += count * per_row
        else:
            number = len(files)
        whole = files[number].low if number < len(files) else max(rows) + 1
        last, total_rows, total_size = min(rows), 0, 0
        for each in sorted(rows):
            total_rows, total_size = total_rows + rows[each], total_size + size[each]
            if each > last and (each >= whole or total_rows > rows_max or total_size > bytes_max):
                break
            last = each
        return last

    def _counts(self, file: _Batches) -> Mapping[int, int]:
        if file.low == file.high:
            return {file.low: file.rows}
        found = pc.value_counts(pq.read_table(self._path / file.path, columns=["_batch"])["_batch"])
        return {each["values"]: each["counts"] for each in found.to_pylist()}

    def _row_bytes(self, file: _Batches) -> int:
        """Of its requests, on the average."""
        facts = pq.read_metadata(self._path / file.path)
        column = facts.schema.names.index("request")
        groups = (facts.row_group(number).column(column) for number in range(facts.num_row_groups))
        return int(sum(group.total_uncompressed_size for group in groups)) // max(1, file.rows)

    def _read(self, file: _Batches, batch: int, last: int) -> pa.Table:
        if file.low > batch and file.high <= last:
            return pq.read_table(self._path / file.path, columns=WANTED)
        wanted = (pc.field("_batch") > batch) & (pc.field("_batch") <= last)
        return pq.read_table(self._path / file.path, columns=WANTED, filters=wanted)


@dataclass(frozen=True, slots=True)
class _Batches:
    """A file, and the first and last batch in it."""

    path: str
    rows: int
    low: int
    high: int
    seq: int
    """Of its first row."""


def _in_order(rows: pa.Table) -> pa.Table:
    """Files are in order within themselves as they are written; compacted ones need not be."""
    batch, seq = rows["_batch"], rows["_seq"]
    if len(batch) < 2:
        return rows
    before, after = slice(0, -1), slice(1, None)
    later = pc.greater(batch[after], batch[before])
    next = pc.and_(pc.equal(batch[after], batch[before]), pc.greater(seq[after], seq[before]))
    if pc.all(pc.or_(later, next)).as_py():
        return rows
    return rows.take(pc.sort_indices(rows, [("_batch", "ascending"), ("_seq", "ascending")])).combine_chunks()
