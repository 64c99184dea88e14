"""The batch source over files without Spark: planned and read in this process, as Spark's workers do it in theirs."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, VariantVal

from headwater.pipeline import filesource
from headwater.pipeline.fileplan import FileParts


def options(path: Path | Sequence[Path] | str, given: Mapping[str, object]) -> dict[str, str]:
    named = {"path": str(path)} if isinstance(path, Path | str) else {"paths": str([str(each) for each in path])}
    if "paths" in named:
        named["paths"] = named["paths"].replace("'", '"')
    base = {"schemaCacheDir": "", "maxPartitionBytes": "64m"}
    return {**base, **{name: str(value) for name, value in given.items()}, **named}


def reader(path: Path | Sequence[Path] | str, schema: StructType | None = None, **given: object) -> DataSourceReader:
    asked = options(path, given)
    return filesource.reader(asked, schema if schema is not None else filesource.schema(asked))


def parts(path: Path | Sequence[Path] | str, schema: StructType | None = None, **given: object) -> list[pa.Table]:
    """What each task gives; reader and partitions travel pickled, as to Spark's workers."""
    made = reader(path, schema, **given)
    travelled: DataSourceReader = pickle.loads(pickle.dumps(made))
    tables = []
    for partition in made.partitions():
        assert isinstance(partition, FileParts)
        batches = list(travelled.read(pickle.loads(pickle.dumps(partition))))  # type: ignore[call-overload]
        tables.append(pa.Table.from_batches(batches, to_arrow_schema(partition.view.schema, timezone="UTC")))
    return tables


def read(path: Path | Sequence[Path] | str, schema: StructType | None = None, **given: object) -> list[dict[str, Any]]:
    """All rows, variants as values of Python."""
    return [row for table in parts(path, schema, **given) for row in values(table)]


def values(table: pa.Table) -> list[dict[str, Any]]:
    variants = [field.name for field in table.schema if is_variant(field.type)]
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in variants:
            found = row[name]
            row[name] = None if found is None else VariantVal(found["value"], found["metadata"]).toPython()
    return rows


def is_variant(type: pa.DataType) -> bool:
    return pa.types.is_struct(type) and [field.name for field in type] == ["value", "metadata"]
