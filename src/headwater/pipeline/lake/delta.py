"""Delta tables as the lake writes them: Parquet files of our own making, added and removed in one commit.

Every commit that follows from a batch carries a transaction (an application and a number), so that a batch that comes
again is known. deltalake refuses such a commit of a table that somebody else has changed meanwhile as well; `Conflict`
says so, and whoever gets it reads the table anew.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

CHECKPOINT_COMMITS = 50
_CONFIGURATION = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""A commit every few seconds makes many files of the log: they are not kept longer than a day."""
_GROUP_ROWS = 1 << 17
_TEXT_MAX = 64
"""Longer texts have no place in statistics."""

Fence = tuple[str, int]
"""An application and the number of its transaction."""


class Conflict(Exception):
    """The table is not what it was when it was read."""


@dataclass(frozen=True, slots=True)
class File:
    """A data file of a table."""

    path: str
    """Below the table."""
    size: int
    rows: int
    low: Mapping[str, Any]
    """Least value of a column, where it is known."""
    high: Mapping[str, Any]
    nulls: Mapping[str, int]

    def to_json(self) -> str:
        return json.dumps([self.path, self.size, self.rows, self.low, self.high, self.nulls])

    @staticmethod
    def from_json(text: str) -> File:
        return File(*json.loads(text))


# ---- files


def write_file(directory: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, prefix: str) -> File | None:
    """One Parquet file of them all; None if there is no row."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{prefix}-{uuid4().hex}.parquet"
    path = directory / name
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)
                rows += batch.num_rows
    if not rows:
        path.unlink()
        return None
    return _described(path, name)


def _described(path: Path, name: str) -> File:
    facts = pq.read_metadata(path)
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(facts.num_columns):
        column = facts.schema.column(number).path
        found = [facts.row_group(group).column(number).statistics for group in range(facts.num_row_groups)]
        if any(each is None for each in found):
            continue
        if all(each.has_null_count for each in found):
            nulls[column] = sum(each.null_count for each in found)
        limits = [each for each in found if each.has_min_max]
        if len(limits) + sum(each.num_values == 0 for each in found) < len(found) or not limits:
            continue
        least, most = _low(min(each.min for each in limits)), _high(max(each.max for each in limits))
        if least is not None and most is not None:
            low[column], high[column] = least, most
    return File(name, path.stat().st_size, facts.num_rows, low, high, nulls)


def _low(value: object) -> object:
    return _text(value, 0)


def _high(value: object) -> object:
    return _text(value, 999)


def _text(value: object, microseconds: int) -> object:
    """As Delta's statistics have it: integers and short texts as they are, times in milliseconds, rounded outwards."""
    if isinstance(value, dt.datetime):
        moment = value + dt.timedelta(microseconds=microseconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MAX else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# ---- tables


def open_table(path: Path) -> DeltaTable | None:
    """None if nobody has made it yet."""
    try:
        return DeltaTable(str(path))
    except TableNotFoundError:
        return None


def open_or_make(path: Path, schema: pa.Schema, name: str) -> DeltaTable:
    table = open_table(path)
    if table is None:
        path.mkdir(parents=True, exist_ok=True)
        table = DeltaTable.create(
            str(path), schema=Schema.from_arrow(schema), mode="ignore", name=name, configuration=dict(_CONFIGURATION)
        )
    return table


def number_of(table: DeltaTable, application: str) -> int:
    """The last transaction of the application, -1 for none."""
    found = table.transaction_version(application)
    return -1 if found is None else int(found)


def files_of(table: DeltaTable) -> list[File]:
    """All data files, with what is known of their contents."""
    out = []
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        parts: dict[str, dict[str, Any]] = {"min": {}, "max": {}, "null_count": {}}
        for name, value in row.items():
            kind, point, column = name.partition(".")
            if point and kind in parts and value is not None:
                parts[kind][column] = value
        out.append(
            File(
                row["path"], row["size_bytes"], row["num_records"] or 0, parts["min"], parts["max"], parts["null_count"]
            )
        )
    return out


def commit(
    table: DeltaTable,
    add: Sequence[File],
    remove: Sequence[File] = (),
    fence: Fence | None = None,
    facts: Mapping[str, object] | None = None,
    *,
    blind: bool = False,
) -> None:
    """Conflict if the table is not what it was when `table` was read; `blind`: it may be, nothing was read of it."""
    actions: list[AddAction | RemoveAction] = [_add(each) for each in add]
    actions += [RemoveAction(each.path, True, _now(), size=each.size, partition_values={}) for each in remove]
    try:
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=_properties(fence, facts, 15 if blind else 0)
        )
    except CommitFailedError as error:
        raise Conflict(str(error)) from None


def replace(
    path: Path,
    schema: pa.Schema,
    add: Sequence[File],
    fence: Fence | None = None,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Other columns and other rows, all at once."""
    try:
        create_table_with_add_actions(
            str(path),
            Schema.from_arrow(schema),
            [_add(each) for each in add],
            mode="overwrite",
            name=path.name,
            configuration=dict(_CONFIGURATION),
            commit_properties=_properties(fence, facts, 0),
        )
    except CommitFailedError as error:
        raise Conflict(str(error)) from None


def append(path: Path, schema: pa.Schema, rows: pa.Table, name: str, fence: Fence) -> bool:
    """A few rows; False if this transaction was there already."""
    table = open_or_make(path, schema, name)
    if number_of(table, fence[0]) >= fence[1]:
        return False
    file = write_file(path, rows.cast(schema).to_batches(), schema, "part")
    commit(table, [file] if file else [], fence=fence, blind=True)
    return True


def _properties(fence: Fence | None, facts: Mapping[str, object] | None, retries: int) -> CommitProperties:
    transactions = [Transaction(*fence)] if fence else None
    return CommitProperties(dict(facts) if facts else None, retries, transactions)


def _add(file: File) -> AddAction:
    stats = {"numRecords": file.rows, "minValues": file.low, "maxValues": file.high, "nullCount": file.nulls}
    return AddAction(file.path, file.size, {}, _now(), True, json.dumps(stats))


def _now() -> int:
    return int(time.time() * 1000)
