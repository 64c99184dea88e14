"""Fields of Tarantool ↔ Spark ↔ Arrow, and the columns of the envelope (docs/spark.md has the tables).

A `Plan` says which columns `kernels.columns` makes and how its buffers become a RecordBatch of a Spark schema. All
columns may be null: Spark compares Arrow schemas exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from headwater.errors import HeadwaterError
from headwater.kernels.columns import Kind, Source, Utf8
from headwater.pipeline.dictionary import FieldFacts, SpaceFacts
from headwater.pipeline.errors import NotThere, OptionError
from headwater.pipeline.settings import Options
from headwater.wire.constants import ExtType, type_name
from headwater.wire.msgpack import Ext, from_ext

TYPE_NAMES: Mapping[int, str] = {code: name for code in range(256) if (name := type_name(code)) is not None}
"""Names of rows' types, as Tarantool's `xlog` module prints them."""
RESCUED = "_rescued_data"
META = ("_op", "_replica_id", "_lsn", "_ts")
"""What a typed row tells of the change that it is, unless the option `metadataColumns` says otherwise."""
DATETIME_PARTS = ("sec", "nsec", "tzoffset", "tzindex")
INTERVAL_PARTS = ("year", "month", "week", "day", "hour", "min", "sec", "nsec", "adjust")

_VARIANT, _LONG, _TEXT = spark.VariantType(), spark.LongType(), spark.StringType()
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_INTEGERS = frozenset(("unsigned", "integer", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"))
_FLOATS = frozenset(("double", "float32", "float64"))
_DECIMALS = frozenset(("decimal", "decimal32", "decimal64", "decimal128", "decimal256"))
_LOOSE = frozenset(("any", "scalar"))
"""May hold a value of any kind: what has no place in the column is a misfit."""
_DIGITS = {"decimal32": 9, "decimal64": 18, "decimal128": 38}


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """How types without a twin in Spark are shown."""

    unsigned_as: str = "bigint"
    number_as: str = "double"
    decimal: tuple[int, int] | None = (38, 10)
    """Digits, and how many of them behind the point; None: as text."""
    uuid_as: str = "string"
    datetime_as: str = "timestamp"
    interval_as: str = "struct"
    utf8: Utf8 = Utf8.FAIL
    rescued: str = RESCUED
    """Name of the column for what has no column; empty for none."""
    meta: tuple[str, ...] = META
    tagged: bool = False
    """Texts inside variants tell what they were (`!decimal 1.5`), so that the sink can write them back."""

    @classmethod
    def read(cls, options: Options) -> TypeSettings:
        meta = options.names("metadataColumns")
        for name in meta or ():
            if not name.startswith("_") or name[1:] not in _ENVELOPE_BY_NAME:
                known = ", ".join("_" + known for known in _ENVELOPE_BY_NAME)
                raise OptionError(f"The option 'metadataColumns' names '{name}'; it may name {known}.")
        return cls(
            options.choice("unsignedAs", ("bigint", "decimal"), "bigint"),
            options.choice("numberAs", ("double", "decimal", "variant"), "double"),
            _read_decimal(options),
            options.choice("uuidAs", ("string", "binary"), "string"),
            options.choice("datetimeAs", ("timestamp", "struct", "string"), "timestamp"),
            options.choice("intervalAs", ("struct", "string"), "struct"),
            read_utf8(options, Utf8.FAIL),
            options.text("rescuedDataColumn", RESCUED) or "",
            META if meta is None else meta,
            options.boolean("variantTags", False),
        )


def read_utf8(options: Options, default: Utf8) -> Utf8:
    """What becomes of a string that is not UTF-8."""
    return Utf8[options.choice("invalidUtf8", [kind.name.lower() for kind in Utf8], default.name.lower()).upper()]


def _read_decimal(options: Options) -> tuple[int, int] | None:
    text = (options.text("decimalAs", "decimal(38,10)") or "").strip().lower()
    if text == "string":
        return None
    found = _DECIMAL.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= 38 or int(found[2]) > int(found[1]):
        raise OptionError(f"The option 'decimalAs' is '{text}'; it should be string, or decimal(38,10) or alike.")
    return int(found[1]), int(found[2])


# ---- one column -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a DataFrame, and what of a row fills it."""

    name: str
    type: spark.DataType
    source: Source | None
    """None: `constant` in every row."""
    kinds: tuple[tuple[Kind, int, int], ...] = ()
    """Kind, a, b of each column of the kernel that it is made of: one, or one for each part of a struct."""
    constant: str | None = None


def _column(name: str, type: spark.DataType, source: Source, kind: Kind, a: int = 0) -> Column:
    return Column(name, type, source, ((kind, a, 0),))


_ENVELOPE: tuple[Column, ...] = (
    _column("op", _TEXT, Source.OP, Kind.STRING),
    _column("space_id", spark.IntegerType(), Source.SPACE_ID, Kind.INT32),
    _column("space", _TEXT, Source.SPACE, Kind.STRING),
    _column("key", _VARIANT, Source.KEY, Kind.VARIANT),
    _column("before", _VARIANT, Source.BEFORE, Kind.VARIANT),
    _column("after", _VARIANT, Source.AFTER, Kind.VARIANT),
    _column("replica_id", spark.IntegerType(), Source.REPLICA_ID, Kind.INT32),
    _column("lsn", _LONG, Source.LSN, Kind.INT64),
    _column("tsn", _LONG, Source.TSN, Kind.INT64),
    _column("is_commit", spark.BooleanType(), Source.IS_COMMIT, Kind.BOOL),
    _column("ts", spark.TimestampType(), Source.TIMESTAMP, Kind.TIMESTAMP),
    _column("ops", _VARIANT, Source.OPS, Kind.VARIANT),
    _column("index_id", spark.IntegerType(), Source.INDEX_ID, Kind.INT32),
    _column("group_id", spark.IntegerType(), Source.GROUP_ID, Kind.INT32),
    _column("flags", spark.IntegerType(), Source.FLAGS, Kind.INT32),
    _column("body", _VARIANT, Source.BODY, Kind.VARIANT),
    _column("request", spark.BinaryType(), Source.REQUEST, Kind.BINARY),
    Column("replicaset", _TEXT, None),
    _column("index_base", spark.IntegerType(), Source.INDEX_BASE, Kind.INT32),
)
_ENVELOPE_BY_NAME: Mapping[str, Column] = {column.name: column for column in _ENVELOPE}
ENVELOPE = spark.StructType([spark.StructField(column.name, column.type) for column in _ENVELOPE])
"""Rows of files and streams, whatever they are."""


def _struct(names: Sequence[str]) -> spark.StructType:
    return spark.StructType([spark.StructField(name, _LONG) for name in names])


DATETIME = _struct(DATETIME_PARTS)
INTERVAL = _struct(INTERVAL_PARTS)


# ---- a field of Tarantool as a Spark type, and back -----------------------------------------------


def spark_type(facts: FieldFacts, settings: TypeSettings) -> spark.DataType:
    """The type of the column that shows a field."""
    name = facts.type
    if name in ("unsigned", "uint64"):
        return _LONG if settings.unsigned_as == "bigint" else spark.DecimalType(20, 0)
    if name in _SIZED:
        return _SIZED[name]
    if name == "number":
        if settings.number_as == "decimal":
            return spark.DecimalType(*(settings.decimal or (38, 10)))
        return spark.DoubleType() if settings.number_as == "double" else _VARIANT
    if name in _DECIMALS:
        return _decimal_type(facts, settings)
    if name == "uuid":
        return _TEXT if settings.uuid_as == "string" else spark.BinaryType()
    if name == "datetime":
        shown: Mapping[str, spark.DataType] = {"timestamp": spark.TimestampType(), "struct": DATETIME, "string": _TEXT}
        return shown[settings.datetime_as]
    if name == "interval":
        return INTERVAL if settings.interval_as == "struct" else _TEXT
    return _VARIANT


_SIZED: Mapping[str, spark.DataType] = {
    "integer": _LONG,
    "int64": _LONG,
    "int8": spark.ByteType(),
    "uint8": spark.ShortType(),
    "int16": spark.ShortType(),
    "uint16": spark.IntegerType(),
    "int32": spark.IntegerType(),
    "uint32": _LONG,
    "double": spark.DoubleType(),
    "float64": spark.DoubleType(),
    "float32": spark.FloatType(),
    "string": _TEXT,
    "varbinary": spark.BinaryType(),
    "boolean": spark.BooleanType(),
}


def _decimal_type(facts: FieldFacts, settings: TypeSettings) -> spark.DataType:
    digits = _DIGITS.get(facts.type)
    if digits is not None and 0 <= facts.scale <= digits:
        return spark.DecimalType(digits, facts.scale)
    if facts.type != "decimal" or settings.decimal is None:
        return _TEXT
    return spark.DecimalType(*settings.decimal)


def field_type(type: spark.DataType) -> str:
    """The type of the field that takes a column: the way back, for those who write. Names that 2.6 knows, datetime and
    interval apart."""
    for kind, name in _FIELD_TYPES:
        if isinstance(type, kind):
            return name
    if type == INTERVAL:
        return "interval"
    raise OptionError(f"A column of type {type.simpleString()} has no type in Tarantool; cast it before writing.")


_FIELD_TYPES: Sequence[tuple[type[spark.DataType] | tuple[type[spark.DataType], ...], str]] = (
    ((spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType), "integer"),
    ((spark.FloatType, spark.DoubleType), "double"),
    (spark.DecimalType, "decimal"),
    (spark.StringType, "string"),
    (spark.BinaryType, "varbinary"),
    (spark.BooleanType, "boolean"),
    (spark.TimestampType, "datetime"),
    (spark.ArrayType, "array"),
    (spark.MapType, "map"),
    (spark.VariantType, "any"),
)


def kinds_of(facts: FieldFacts, type: spark.DataType) -> tuple[tuple[Kind, int, int], ...] | None:
    """How the kernel fills a column of this Spark type from this field; None if they do not go together."""
    name = facts.type
    loose = name in _LOOSE
    if isinstance(type, spark.VariantType):
        return ((Kind.VARIANT, 1, 0),)
    if type == DATETIME:
        return tuple((Kind.DATETIME_PART, part, 0) for part in range(4)) if loose or name == "datetime" else None
    if type == INTERVAL:
        return tuple((Kind.INTERVAL_PART, part, 0) for part in range(9)) if loose or name == "interval" else None
    if isinstance(type, spark.StringType):
        return _text_kind(name)
    if isinstance(type, spark.DecimalType):
        fits = loose or name in _INTEGERS | _DECIMALS | {"number"}
        return ((Kind.DECIMAL, type.precision, type.scale),) if fits else None
    for kind, spark_kind, names in _KINDS:
        if isinstance(type, spark_kind):
            if isinstance(type, spark.BinaryType) and name == "uuid":
                return ((Kind.UUID_BYTES, 0, 0),)
            return ((kind, 0, 0),) if loose or name in names else None
    return None


_WHOLE = _INTEGERS | {"number"}
_KINDS: Sequence[tuple[Kind, type[spark.DataType], frozenset[str]]] = (
    (Kind.BOOL, spark.BooleanType, frozenset(("boolean",))),
    (Kind.INT8, spark.ByteType, _WHOLE),
    (Kind.INT16, spark.ShortType, _WHOLE),
    (Kind.INT32, spark.IntegerType, _WHOLE),
    (Kind.INT64, spark.LongType, _WHOLE),
    (Kind.FLOAT, spark.FloatType, _WHOLE | _FLOATS),
    (Kind.DOUBLE, spark.DoubleType, _WHOLE | _FLOATS | _DECIMALS),
    (Kind.TIMESTAMP, spark.TimestampType, frozenset(("datetime",))),
    (Kind.BINARY, spark.BinaryType, frozenset(("varbinary",))),
)


def _text_kind(name: str) -> tuple[tuple[Kind, int, int], ...] | None:
    if name == "string" or name in _LOOSE:
        return ((Kind.STRING, 0, 0),)
    if name == "uuid":
        return ((Kind.UUID, 0, 0),)
    if name in _DECIMALS:
        return ((Kind.DECIMAL_TEXT, 0, 0),)
    if name in ("datetime", "interval"):
        return ((Kind.EXT_TEXT, int(ExtType.DATETIME if name == "datetime" else ExtType.INTERVAL), 0),)
    return None


def ext_text(kind: int, contents: bytes) -> str:
    """Extensions inside a VARIANT, and in columns of text: as Tarantool writes them; what it does not know as bytes."""
    try:
        value = from_ext(kind, contents)
    except HeadwaterError:
        value = Ext(kind, contents)
    return f"ext {kind} {contents.hex()}" if isinstance(value, Ext) else str(value)


# ---- all columns ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Columns of a DataFrame out of buffers of the kernel."""

    columns: tuple[Column, ...]
    fields: tuple[int, ...] = ()
    """For each field of a tuple the column of the kernel that it fills, or the first of several; -1 for none."""
    field_names: tuple[str, ...] = ()
    utf8: Utf8 = Utf8.BINARY
    tagged: bool = False
    """Decimals, uuids and strings with `!` inside a VARIANT say what they were (`kernels.columns`)."""
    strict: bool = True
    """A value without a place is an error."""

    @cached_property
    def schema(self) -> spark.StructType:
        return spark.StructType([spark.StructField(column.name, column.type) for column in self.columns])

    @cached_property
    def arrow(self) -> pa.Schema:
        return to_arrow_schema(self.schema, timezone="UTC")

    @cached_property
    def kernel(self) -> list[tuple[int, int, int, int]]:
        """As `Columns` wants them."""
        return [
            (int(column.source), int(kind), a, b)
            for column in self.columns
            if column.source is not None
            for kind, a, b in column.kinds
        ]

    def batch(self, rows: int, taken: Sequence[tuple[int, bytes | None, list[bytes]]]) -> pa.RecordBatch:
        """What `Columns.take` gave, as Arrow has it."""
        arrays = []
        at = 0
        for column, arrow_field in zip(self.columns, self.arrow, strict=True):
            if column.source is None:
                arrays.append(_constant(column.constant, arrow_field.type, rows))
            else:
                parts = taken[at : at + len(column.kinds)]
                at += len(column.kinds)
                arrays.append(_array(arrow_field.type, rows, parts))
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def _constant(value: str | None, type: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, type) if value is None else pa.repeat(pa.scalar(value, type), rows)


def _array(type: pa.DataType, rows: int, parts: Sequence[tuple[int, bytes | None, list[bytes]]]) -> pa.Array:
    nulls, validity, buffers = parts[0]
    valid = None if validity is None else pa.py_buffer(validity)
    if not pa.types.is_struct(type):
        return pa.Array.from_buffers(type, rows, [valid, *map(pa.py_buffer, buffers)], nulls)
    if len(parts) > 1:
        children = [_array(type.field(number).type, rows, [part]) for number, part in enumerate(parts)]
    else:
        halves = ((0, buffers[:2]), (1, buffers[2:]))
        children = [
            pa.Array.from_buffers(type.field(number).type, rows, [None, *map(pa.py_buffer, half)], 0)
            for number, half in halves
        ]
    return pa.Array.from_buffers(type, rows, [valid], nulls, children=children)


def envelope_plan(
    columns: Sequence[str] | None = None,
    *,
    request: bool = False,
    replicaset: str | None = None,
    utf8: Utf8 = Utf8.BINARY,
    tagged: bool = False,
) -> Plan:
    """The envelope, or those of its columns that are named, in that order."""
    chosen = []
    for name in _ENVELOPE_BY_NAME if columns is None else columns:
        column = _ENVELOPE_BY_NAME.get(name)
        if column is None:
            raise NotThere(f"The envelope has no column '{name}'. It has: {', '.join(_ENVELOPE_BY_NAME)}.")
        if name == "replicaset":
            column = Column(name, column.type, None, constant=replicaset)
        elif name == "request" and not request:
            column = Column(name, column.type, None)
        chosen.append(column)
    return Plan(tuple(chosen), utf8=utf8, tagged=tagged)


def typed_schema(space: SpaceFacts, settings: TypeSettings, columns: Sequence[str] | None = None) -> spark.StructType:
    """Columns of the rows of one space: its fields, what has no column, and what the row says of itself; of these
    those that `columns` names, in that order."""
    found = {facts.name: spark_type(facts, settings) for facts in space.fields}
    if settings.rescued:
        found.setdefault(settings.rescued, _VARIANT)
    for name in settings.meta:
        found.setdefault(name, _ENVELOPE_BY_NAME[name[1:]].type)
    if columns is not None:
        for name in columns:
            if name not in found and name[:1] == "_" and name[1:] in _ENVELOPE_BY_NAME:
                found[name] = _ENVELOPE_BY_NAME[name[1:]].type
            elif name not in found:
                raise NotThere(f"Space '{space.name}' has no column '{name}'. It has: {', '.join(found)}.")
        found = {name: found[name] for name in columns}
    _refuse_twins(space.name, list(found))
    return spark.StructType([spark.StructField(name, type) for name, type in found.items()])


def _refuse_twins(space: str, names: Sequence[str]) -> None:
    """Spark does not tell `Id` from `id`."""
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise OptionError(
                f"Space '{space}' has the fields '{twin}' and '{name}', which Spark cannot tell apart. "
                "Name one of them and the other columns you want in the option 'columns'."
            )


def unfit(schema: spark.StructType, space: SpaceFacts, settings: TypeSettings, known: frozenset[str]) -> str | None:
    """Why rows of a space that looks like this cannot be shown in these columns, or None. `known`: fields that the
    one who made the schema knew of; leaving some of them out was his wish."""
    wanted = {column.name: column.dataType for column in schema}
    for facts in space.fields:
        type = wanted.get(facts.name)
        if type is None:
            if facts.name not in known:
                return f"there is no column for the field '{facts.name}' ({facts.type})"
        elif kinds_of(facts, type) is None:
            return f"the field '{facts.name}' ({facts.type}) has no place in a column of type {type.simpleString()}"
    return None


def plan_of(
    schema: spark.StructType,
    space: SpaceFacts,
    settings: TypeSettings,
    *,
    strict: bool = True,
    replicaset: str | None = None,
) -> Plan:
    """How tuples of this space fill the columns of a schema. A column that the space has no field for stays null, a
    field without a column goes to the rescued data."""
    numbers = space.names
    kernel_at: dict[str, int] = {}
    columns: list[Column] = []
    at = 0
    for part in schema:
        column = _typed_column(part, space, numbers, settings, replicaset)
        if column.source is Source.FIELD:
            kernel_at[column.name] = at
        at += len(column.kinds) if column.source is not None else 0
        columns.append(column)
    return Plan(
        tuple(columns),
        tuple(kernel_at.get(facts.name, -1) for facts in space.fields),
        tuple(facts.name for facts in space.fields),
        utf8=Utf8.BINARY if not strict and settings.utf8 is Utf8.FAIL else settings.utf8,
        tagged=settings.tagged,
        strict=strict,
    )


def _typed_column(
    part: spark.StructField,
    space: SpaceFacts,
    numbers: Mapping[str, int],
    settings: TypeSettings,
    replicaset: str | None,
) -> Column:
    name, type = part.name, part.dataType
    if name in numbers:
        kinds = kinds_of(space.fields[numbers[name]], type)
        return Column(name, type, None) if kinds is None else Column(name, type, Source.FIELD, kinds)
    if name == settings.rescued and isinstance(type, spark.VariantType):
        return Column(name, type, Source.RESCUED, ((Kind.VARIANT, 0, 0),))
    meta = _ENVELOPE_BY_NAME.get(name[1:]) if name.startswith("_") else None
    if meta is not None and meta.type == type:
        return Column(name, type, meta.source, meta.kinds, replicaset if meta.source is None else None)
    return Column(name, type, None)
