"""SQL over the tables of a lake by their names: in DataFusion, which comes with deltalake and answers at once, or in
Spark SQL.

Names: `bronze`, `schema_history`, and each space's. Where several replica sets have a space of one name, it is the rows
of all of them with the column `_replicaset`, and each alone is `<space>_<head of the set's UUID>`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from headwater.pipeline.errors import NotThere, PipelineError
from headwater.pipeline.lake.delta import open_table
from headwater.pipeline.lake.layout import Lake, set_name
from headwater.pipeline.lake.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASE_COUNTS = {"datafusion.sql_parser.enable_ident_normalization": "false"}


@dataclass(frozen=True, slots=True)
class Named:
    """A table, or several that are asked as one."""

    name: str
    parts: Mapping[str, Path]
    """By replica set; of one that stands alone under the empty word."""


def names(lake: Lake) -> list[Named]:
    """What can be asked."""
    lake.charter()
    found = [Named("bronze", {"": lake.bronze}), Named("schema_history", {"": lake.history})]
    by_space: dict[str, dict[str, Path]] = defaultdict(dict)
    for replicaset, _, table in State.load(lake.state).live:
        if (lake.silver / table.place / "_delta_log").is_dir():
            by_space[table.space][replicaset] = lake.silver / table.place
    for space, parts in sorted(by_space.items()):
        found.append(Named(space, parts if len(parts) > 1 else {"": next(iter(parts.values()))}))
        if len(parts) > 1:
            found += [Named(f"{space}_{set_name(name)}", {"": path}) for name, path in parts.items()]
    return [named for named in found if all((path / "_delta_log").is_dir() for path in named.parts.values())]


# ---- DataFusion -----------------------------------------------------------------------------------


def ask(lake: Lake, sql: str) -> Iterator[pa.RecordBatch]:
    """PipelineError says what is wrong with the SQL."""
    builder = QueryBuilder(_CASE_COUNTS)
    known = names(lake)
    for named in known:
        if "" in named.parts:
            builder.register(named.name, DeltaTable(str(named.parts[""])))
    for named in known:
        if "" not in named.parts:
            _unite(builder, named)
    try:
        for batch in builder.execute(sql):
            yield pa.record_batch(batch)
    except Exception as error:  # whatever DataFusion raises, it is about the SQL
        raise PipelineError(f"{_first_line(error)}. {_known(known)}") from None


def _unite(builder: QueryBuilder, named: Named) -> None:
    """Several tables, which are there by names of their own, as one."""
    parts = [
        (name, f"{named.name}_{set_name(name)}", [field.name for field in DeltaTable(str(path)).schema().fields])
        for name, path in named.parts.items()
    ]
    columns = list(dict.fromkeys(column for *_, own in parts for column in own))
    selects = [_select(columns, own, name, table) for name, table, own in parts]
    list(builder.execute(f"create view {_quoted(named.name)} as {' union all '.join(selects)}"))


def _select(columns: Sequence[str], own: Sequence[str], replicaset: str, table: str) -> str:
    """All columns of one part, in the order of the whole."""
    shown = [_quoted(column) if column in own else f"null as {_quoted(column)}" for column in columns]
    return f"select {', '.join(shown)}, '{replicaset}' as _replicaset from {_quoted(table)}"  # noqa: S608 - all quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _known(known: list[Named]) -> str:
    shown = ", ".join(f'"{named.name}"' if not named.name.isidentifier() else named.name for named in known)
    return f"Tables: {shown}. Names are as they are written; odd ones stand in double quotes"


# ---- Spark ----------------------------------------------------------------------------------------


def ask_spark(lake: Lake, sql: str, spark: SparkSession) -> Iterator[pa.RecordBatch]:
    """The same in Spark SQL; odd names stand in backticks there."""
    known = names(lake)
    for named in known:
        _view(spark, named)
    from pyspark.errors import PySparkException

    try:
        yield from spark.sql(sql).toArrow().to_batches()
    except PySparkException as error:
        raise PipelineError(f"{_first_line(error)} {_known(known).replace('double quotes', 'backticks')}") from None


def _view(spark: SparkSession, named: Named) -> None:
    from pyspark.sql import functions as f

    frames = []
    for name, path in named.parts.items():
        table = open_table(path)
        if table is not None:
            frame = _frame(spark, table)
            frames.append(frame.withColumn("_replicaset", f.lit(name)) if name else frame)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    whole.createOrReplaceTempView(f"`{named.name}`" if not named.name.isidentifier() else named.name)


def _frame(spark: SparkSession, table: DeltaTable) -> Any:
    """The files of the table's last version, under its columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()), prefer_timestamp_ntz=False)
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*files)


# ---- showing --------------------------------------------------------------------------------------


def as_json(batch: pa.RecordBatch) -> Iterator[str]:
    """A line a row. Binaries are in base64, decimals text, times in ISO 8601."""
    for row in batch.to_pylist():
        yield json.dumps(row, ensure_ascii=False, default=_other, separators=(",", ":"))


def as_text(value: object) -> str:
    """One cell of a table."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex() if len(value) <= 16 else f"{value[:16].hex()}… ({len(value)} bytes)"
    if isinstance(value, str | dt.datetime | dt.date | Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=_other)


def _other(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else repr(value)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else repr(error)).rstrip(".")


def table_named(lake: Lake, name: str) -> Named:
    """NotThere with what there is."""
    known = names(lake)
    for named in known:
        if named.name == name:
            return named
    raise NotThere(f"There is no table '{name}' in {lake}. {_known(known)}.")
