"""The columns of a table of silver: a space's fields as types of Delta, and what the lake keeps for itself.

Delta has no type for values of any kind: maps, arrays and fields of type `any` or `scalar` are JSON text. Whatever a
column shows, `_tuple` holds the tuple as it stands, and nothing is lost. A column begins with the narrow type that most
data has; a value that it cannot hold widens it (integers above 2^63 - 1 to DECIMAL(20,0), decimals with more digits to
text).
"""

from __future__ import annotations

import base64
import gc
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgpack as _codec  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import VariantVal

from headwater.errors import HeadwaterError
from headwater.kernels.columns import Columns, Kind, RowError, Source, Utf8
from headwater.pipeline.dictionary import FieldFacts, SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake.bodies import inserts
from headwater.pipeline.types import Column, Plan, TypeSettings, ext_text, kinds_of, spark_type
from headwater.wire.msgpack import from_ext

KEY, TUPLE, LSN, REPLICA_ID, TS, RESCUED = "_key", "_tuple", "_lsn", "_replica_id", "_ts", "_rescued"
OWN = pa.schema(
    [
        (RESCUED, pa.string()),
        (KEY, pa.binary()),
        (TUPLE, pa.binary()),
        (LSN, pa.int64()),
        (REPLICA_ID, pa.int32()),
        (TS, pa.timestamp("us", "UTC")),
    ]
)
"""Behind the fields of the space: what has no column of its own (JSON), the key that rows are found by, the tuple as it
stands, and the change that it is from. `_lsn` is null and `_replica_id` 0 for rows of a snapshot."""
SETTINGS = TypeSettings(decimal=(38, 10), interval_as="string", rescued="", meta=())
_JSON = "json"
_WIDER: Mapping[str, spark.DataType] = {"bigint": spark.DecimalType(20, 0), "decimal(38,10)": spark.StringType()}
_ODD = re.compile(r"[ ,;{}()\n\t=.`\x00-\x1f]")
_CHUNK_BYTES = 64 << 20


class Widen(Exception):
    """A value does not fit the type of a column."""

    def __init__(self, column: str, why: str) -> None:
        super().__init__(column)
        self.column = column
        self.why = why


@dataclass(frozen=True, slots=True)
class Field:
    """A column for a field of the space."""

    column: str
    type: spark.DataType
    facts: FieldFacts

    @property
    def is_json(self) -> bool:
        return isinstance(self.type, spark.VariantType)

    @property
    def arrow(self) -> pa.DataType:
        return _arrow(self.type)


@dataclass(frozen=True)
class Shape:
    """The columns of one table."""

    space_id: int
    fields: tuple[Field, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(field.column, field.arrow) for field in self.fields] + list(OWN))

    def type_of(self, column: str) -> str:
        return next(field.type.simpleString() for field in self.fields if field.column == column)

    def widened(self, column: str) -> Shape | None:
        """With the next wider type of a column; None if there is none."""
        for number, field in enumerate(self.fields):
            wider = _WIDER.get(field.type.simpleString())
            if field.column == column and wider is not None:
                fields = list(self.fields)
                fields[number] = replace(field, type=wider)
                return replace(self, fields=tuple(fields))
        return None

    def as_wide_as(self, schema: pa.Schema) -> Shape:
        """With the wider types that a table has already."""
        shape = self
        for field in self.fields:
            at = schema.get_field_index(field.column)
            wider = _WIDER.get(field.type.simpleString())
            if at >= 0 and wider is not None and schema.field(at).type == _arrow(wider):
                shape = shape.widened(field.column) or shape
        return shape

    def rows(self, left: pa.Table) -> pa.Table:
        """Rows of the table out of key, tuple, LSN, replica id and time. Widen for what does not fit."""
        parts = [self._rows(each) for each in _pieces(left)]
        return pa.concat_tables(parts) if parts else self.arrow.empty_table()

    def _rows(self, left: pa.Table) -> pa.Table:
        tuples = left["tuple"].combine_chunks()
        if isinstance(tuples, pa.ChunkedArray):
            tuples = tuples.chunk(0)
        columns, rescued = self._plain(tuples)
        columns |= self._json(tuples)
        snapshot = pc.equal(left["replica_id"], 0)
        own = {
            RESCUED: rescued,
            KEY: left["key"],
            TUPLE: tuples,
            LSN: pc.if_else(snapshot, pa.scalar(None, pa.int64()), left["lsn"]),
            REPLICA_ID: left["replica_id"],
            TS: left["ts"],
        }
        arrays = [columns[field.column] for field in self.fields] + [own[name] for name in OWN.names]
        return pa.Table.from_arrays(arrays, schema=self.arrow)

    @cached_property
    def _plan(self) -> Plan:
        """What the kernel makes. Columns of JSON are variants there, so that they are not among the rescued; JSON is
        made of the tuple."""
        columns = [
            Column(field.column, field.type, Source.FIELD, kinds_of(field.facts, field.type) or ())
            for field in self.fields
        ]
        columns.append(Column(RESCUED, spark.VariantType(), Source.RESCUED, ((Kind.VARIANT, 0, 0),)))
        return Plan(
            tuple(columns),
            tuple(range(len(self.fields))),
            tuple(field.column for field in self.fields),
            utf8=Utf8.REPLACE,
        )

    def _plain(self, tuples: pa.Array) -> tuple[dict[str, pa.Array], pa.Array]:
        for strict in (True, False):
            kernel = Columns(
                self._plan.kernel, {}, ext_text, len(tuples) + 1, 1 << 31, int(Utf8.REPLACE), False, strict
            )
            kernel.set_fields(self._plan.fields, self._plan.field_names)
            try:
                kernel.decode(inserts(self.space_id, tuples), 0)
            except RowError as error:
                self._unfit(error)
                continue
            batch = self._plan.batch(*kernel.take())
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            return columns, _rescued(columns.pop(RESCUED))
        raise PipelineError(f"Tuples of space {self.space_id} cannot be read; is the change log damaged?")

    def _unfit(self, error: RowError) -> None:
        """Widen the column, if there is a wider type; otherwise the value goes to the rescued ones."""
        if not 0 <= error.column < len(self._plan.columns) - 1:
            raise PipelineError(f"A tuple of space {self.space_id} cannot be read: {error.reason}.")
        column = self._plan.columns[error.column].name
        if self.widened(column) is not None:
            raise Widen(column, error.reason)

    def _json(self, tuples: pa.Array) -> dict[str, pa.Array]:
        wanted = [(number, field.column) for number, field in enumerate(self.fields) if field.is_json]
        if not wanted:
            return {}
        found: dict[str, list[str | None]] = {column: [] for _, column in wanted}
        with _no_collector():
            for row in _unpacked(tuples):
                for number, column in wanted:
                    found[column].append(to_json(row[number]) if number < len(row) else None)
        return {column: pa.array(texts, pa.string()) for column, texts in found.items()}


# ---- which columns --------------------------------------------------------------------------------


def shape_of(space: SpaceFacts) -> Shape:
    """Columns for all fields that have a name or an index over them. Names that Delta or Spark could not tell apart or
    read get others: `a b` becomes `a_b`, the second of `id` and `ID` becomes `ID_2`, for it is the second field."""
    taken = {name.lower() for name in OWN.names}
    fields = []
    for number, facts in enumerate(space.fields, 1):
        column = _ODD.sub("_", facts.name) or f"field_{number}"
        if column.lower() in taken:
            column = f"{column}_{number}"
        taken.add(column.lower())
        fields.append(Field(column, _type(facts), facts))
    return Shape(space.id, tuple(fields))


def _type(facts: FieldFacts) -> spark.DataType:
    type = spark_type(facts, SETTINGS)
    return type if isinstance(type, spark.VariantType) or kinds_of(facts, type) else spark.VariantType()


def _arrow(type: spark.DataType) -> pa.DataType:
    found = _ARROW.get(type.simpleString())
    if found is not None:
        return found
    assert isinstance(type, spark.DecimalType)
    return pa.decimal128(type.precision, type.scale)


_ARROW: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "variant": pa.string(),
}


# ---- JSON -----------------------------------------------------------------------------------------


def to_json(value: Any) -> str | None:
    """As Spark's `to_json` writes a VARIANT: binaries in base64, what JSON has no number for as text. None for nil."""
    if value is None:
        return None
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        return _ENCODER.encode(_plain(value))


def _other(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_other)


def _plain(value: Any) -> Any:
    """Without numbers and keys that JSON does not have."""
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else _name(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value if value is None or isinstance(value, str | int | float) else _other(value)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else (to_json(value) or "null")


def _rescued(values: pa.Array) -> pa.Array:
    """What has no column, as JSON. There are few of them."""
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.string())
    variants = (None if each is None else VariantVal(each["value"], each["metadata"]) for each in values.to_pylist())
    return pa.array([None if each is None else to_json(each.toPython()) for each in variants], pa.string())


def _unpacked(tuples: pa.Array) -> Iterator[Sequence[Any]]:
    """As Python values; texts that are no UTF-8 with replacement characters, as in columns of texts."""
    for packed in tuples:
        data = packed.as_buffer()
        try:
            row = _codec.unpackb(data, ext_hook=_from_ext, strict_map_key=False, unicode_errors="replace")
        except (ValueError, TypeError) as error:
            raise PipelineError(f"A tuple cannot be read ({error}): {packed.as_py()[:32].hex()}…") from None
        yield row


def _from_ext(kind: int, data: bytes) -> object:
    try:
        value = from_ext(kind, data)
    except HeadwaterError:
        return ext_text(kind, data)
    return ext_text(kind, data) if type(value).__module__.startswith("headwater") else value


def _pieces(left: pa.Table) -> Iterator[pa.Table]:
    """So that no piece comes near 2 GiB."""
    size = pc.sum(pc.binary_length(left["tuple"])).as_py() or 0
    count = max(1, size // _CHUNK_BYTES)
    step = -(-left.num_rows // count) if left.num_rows else 0
    for at in range(0, left.num_rows, step or 1):
        yield left.slice(at, step)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Many small objects that hold no cycles: looking for some costs three times what making them does."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
