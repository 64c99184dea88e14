"""Which column becomes which field, decided before the first row; what cannot be is refused by name.

A column goes into the field of its name, in whatever case if only one is alike. Fields without a column become nil,
which they must allow; those at the end of the tuple are left out unless the space asks for a number of fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from headwater.kernels.packplan import Form, PackColumn, PackError, how_of
from headwater.pipeline.dictionary import FieldFacts, SpaceFacts
from headwater.pipeline.encode import field_kind, form_of, pack_column
from headwater.pipeline.errors import NotThere, OptionError, ValueUnfit
from headwater.pipeline.sinkoptions import OPERATIONS, SinkOptions
from headwater.pipeline.tuples import Requests, Tuples, told, tuples_of
from headwater.pipeline.types import ENVELOPE, RESCUED
from headwater.pipeline.upserts import pack_ops
from headwater.typing import FieldType
from headwater.wire.constants import Type

__all__ = ["SinkPlan"]

_META = frozenset("_" + name for name in ENVELOPE.names)
"""What typed rows of files and streams tell of themselves; it is no part of a tuple."""


@dataclass(frozen=True)
class SinkPlan:
    """How rows of one DataFrame become requests for one space. Picklable."""

    space: SpaceFacts
    columns: tuple[int | None, ...]
    """Of the DataFrame, for each field of the tuple as it is packed."""
    names: tuple[str, ...]
    kinds: tuple[FieldType, ...]
    """Of these fields."""
    requests: Requests
    op_column: int | None
    ops_column: int | None
    rescued: int | None
    """A column that holds what had no column: it must be null."""
    tagged: bool
    op_name: str = ""
    """Name of the column of operations."""

    # ---- deciding

    @classmethod
    def of(cls, schema: spark.StructType, space: SpaceFacts, options: SinkOptions) -> SinkPlan:
        """OptionError or NotThere for what does not go together."""
        if not space.key_fields:
            raise OptionError(
                f"Space '{space.name}' has no primary key over whole fields; nothing can be written into it."
            )
        if space.is_system:
            raise OptionError(f"Space '{space.name}' belongs to the system; rows are not written into it.")
        found = _Matched(schema, space, options)
        operation = options.operation if options.op_column is None else int(Type.REPLACE)
        if operation == Type.DELETE:
            fields: Sequence[int] = space.key_fields
        else:
            fields = range(found.width())
        columns = tuple(found.column_of.get(field) for field in fields)
        if operation != Type.DELETE:
            found.refuse_holes(columns, keys_only=options.op_column is not None)
        changes = found.changes(options, operation) if options.ops_column is None else ()
        key = tuple(range(len(fields))) if operation == Type.DELETE else space.key_fields
        beyond = len(space.fields)
        facts_of = [
            space.fields[field] if field < beyond else FieldFacts(f"field_{field + 1}", "any") for field in fields
        ]
        made = cls(
            space,
            columns,
            tuple(facts.name for facts in facts_of),
            tuple(field_kind(facts.type) for facts in facts_of),
            Requests(space.id, operation, key, changes),
            found.op_column,
            found.ops_column,
            found.rescued,
            options.tagged,
            options.op_column or "",
        )
        made._refuse_types(schema)
        return made

    def _refuse_types(self, schema: spark.StructType) -> None:
        """A column that can never be its field."""
        for column, name, kind in zip(self.columns, self.names, self.kinds, strict=True):
            if column is None:
                continue
            part = schema[column]
            field = self.space.fields[self.space.names[name]]
            try:
                form, _ = form_of(_arrow_type(part.dataType))
                how_of(kind, form)
            except (ValueError, TypeError):
                raise OptionError(
                    f"The column '{part.name}' of type {part.dataType.simpleString()} cannot be written into the field "
                    f"'{name}' ({field.type}) of space '{self.space.name}'. {_remedy(part.dataType, field.type)}"
                ) from None

    # ---- doing

    def tuples(self, batch: pa.RecordBatch, first_row: int, partition: int) -> Tuples:
        """ValueUnfit for a value that does not fit; it names row, column and field."""
        self._refuse_rescued(batch, first_row, partition)
        names = batch.schema.names
        sources = [None if column is None else (names[column], batch.column(column)) for column in self.columns]
        rows = batch.num_rows
        packed = [
            PackColumn(name, kind, Form.NULL, 0, rows, 0, None, [], [])
            if source is None
            else pack_column(name, kind, source[1])
            for name, kind, source in zip(self.names, self.kinds, sources, strict=True)
        ]
        made = tuples_of(packed, rows, first_row, sources, partition, tagged=self.tagged)
        if self.ops_column is not None:
            made.ops = self._ops(batch, first_row, partition)
        if self.op_column is not None:
            made.types = self._types(batch.column(self.op_column), first_row, partition)
        return made

    def _types(self, array: pa.Array, first_row: int, partition: int) -> bytes:
        """The request's type of each row."""
        names = pc.utf8_lower(pc.utf8_trim_whitespace(array))
        found = pc.index_in(names, value_set=pa.array(list(OPERATIONS)))
        if found.null_count:
            row = pc.index(found.is_null(), True).as_py()
            raise ValueUnfit(
                f"Row {first_row + row} of partition {partition}: the operation in the column "
                f"'{self.op_name}' is {array[row].as_py()!r}; it should be {', '.join(OPERATIONS)}."
            )
        codes = pa.array(list(OPERATIONS.values()), pa.uint8())
        return bytes(codes.take(found).buffers()[1])[: len(array)]

    def _ops(self, batch: pa.RecordBatch, first_row: int, partition: int) -> pa.Array:
        assert self.ops_column is not None
        array = batch.column(self.ops_column)
        try:
            return pack_ops(array)
        except PackError as error:
            source = (batch.schema.names[self.ops_column], array)
            raise told(PackError(error.reason, error.row, 0), first_row, [source], partition) from None

    def _refuse_rescued(self, batch: pa.RecordBatch, first_row: int, partition: int) -> None:
        if self.rescued is None:
            return
        array = batch.column(self.rescued)
        if array.null_count < len(array):
            row = pc.index(array.is_null(), False).as_py()
            raise ValueUnfit(
                f"Row {first_row + row} of partition {partition}: the column '{batch.schema.names[self.rescued]}' "
                "holds values that had no column when they were read, and they have no field here either. Read them "
                "with columns of their own, or drop the column before writing."
            )


class _Matched:
    """Columns and fields, name by name."""

    def __init__(self, schema: spark.StructType, space: SpaceFacts, options: SinkOptions) -> None:
        self._space = space
        self._schema = schema
        self.column_of: dict[int, int] = {}
        """Column by field."""
        self.op_column = self._option_column("opColumn", options.op_column)
        self.ops_column = self._option_column("upsertOpsColumn", options.ops_column)
        self.rescued: int | None = None
        self._match()

    def _option_column(self, option: str, name: str | None) -> int | None:
        if name is None:
            return None
        for number, column in enumerate(self._schema.names):
            if column.lower() == name.lower():
                self._check_option_column(option, self._schema[number])
                return number
        raise NotThere(f"The option '{option}' names the column '{name}'; there are {', '.join(self._schema.names)}.")

    @staticmethod
    def _check_option_column(option: str, column: spark.StructField) -> None:
        kinds = (spark.StringType,) if option == "opColumn" else (spark.ArrayType, spark.VariantType, spark.BinaryType)
        if not isinstance(column.dataType, kinds):
            wanted = "a STRING" if option == "opColumn" else "ARRAY<STRUCT<op, field, value>>, VARIANT or BINARY"
            raise OptionError(
                f"The column '{column.name}' of the option '{option}' is {column.dataType.simpleString()}; it should "
                f"be {wanted}."
            )

    def _match(self) -> None:
        numbers = self._space.names
        folded: dict[str, list[int]] = {}
        for name, number in numbers.items():
            folded.setdefault(name.lower(), []).append(number)
        for column, name in enumerate(self._schema.names):
            alike = folded.get(name.lower(), [])
            field = numbers.get(name, alike[0] if len(alike) == 1 else None)
            if field is not None and column != self.ops_column:
                self._take(field, column, name)
            elif column not in (self.op_column, self.ops_column):
                self._without_field(column, name)
        missing = [self._space.fields[field].name for field in self._space.key_fields if field not in self.column_of]
        if missing:
            raise OptionError(
                f"There is no column for {_listed(missing)}, of the primary key of space '{self._space.name}'; there "
                f"are {', '.join(self._schema.names)}."
            )

    def _take(self, field: int, column: int, name: str) -> None:
        if field in self.column_of:
            twin = self._schema.names[self.column_of[field]]
            meant = self._space.fields[field].name
            raise OptionError(f"The columns '{twin}' and '{name}' are both meant for the field '{meant}'; drop one.")
        self.column_of[field] = column

    def _without_field(self, column: int, name: str) -> None:
        if name == RESCUED and isinstance(self._schema[column].dataType, spark.VariantType):
            self.rescued = column
        elif name not in _META:
            raise NotThere(
                f"Space '{self._space.name}' has no field for the column '{name}'. It is {self._space.ddl()}. Drop the "
                "column, or rename it."
            )

    def width(self) -> int:
        """Fields of a tuple."""
        if self._space.field_count:
            return self._space.field_count
        needed = [number + 1 for number, field in enumerate(self._space.fields) if not field.nullable]
        return max(max(self.column_of) + 1, max(needed, default=0))

    def refuse_holes(self, columns: Sequence[int | None], *, keys_only: bool) -> None:
        """`keys_only`: rows may be deletes, for which the key is enough; the server speaks up for the others."""
        names = [
            self._space.fields[field].name
            for field, column in enumerate(columns)
            if column is None and field < len(self._space.fields) and not self._space.fields[field].nullable
        ]
        if names and not keys_only:
            raise OptionError(
                f"There is no column for {_listed(names)} of space '{self._space.name}', which cannot be null. It is "
                f"{self._space.ddl()}; there are the columns {', '.join(self._schema.names)}."
            )

    def changes(self, options: SinkOptions, operation: int) -> tuple[tuple[str, int], ...]:
        """Operations of an upsert: those that are named, else every column outside of the key is assigned."""
        if operation != Type.UPSERT and options.op_column is None:
            return ()
        if not options.upsert_ops:
            return tuple(("=", field) for field in sorted(self.column_of) if field not in self._space.key_fields)
        found = []
        for operator, name in options.upsert_ops:
            field = self._space.names.get(name)
            if field is None or field not in self.column_of:
                raise NotThere(f"The option 'upsertOps' names '{name}', which is no column that goes into a field.")
            if field in self._space.key_fields:
                raise OptionError(f"The option 'upsertOps' changes '{name}', of the primary key, which cannot change.")
            found.append((operator, field))
        return tuple(found)


def _arrow_type(type: spark.DataType) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    if isinstance(type, spark.TimestampNTZType):
        raise TypeError("a time without zone is no moment")
    return to_arrow_type(type, timezone="UTC")


def _remedy(type: spark.DataType, field: str) -> str:
    if isinstance(type, spark.TimestampNTZType):
        return "It has no zone, so it is no moment: cast it to TIMESTAMP (in the zone of the session), or to STRING."
    if isinstance(type, (spark.FloatType, spark.DoubleType)) and field == "decimal":
        return "Cast it to a DECIMAL with the digits you want to keep."
    return "Cast the column, or write it into a field of another type."


def _listed(names: Sequence[str]) -> str:
    return ("the field " if len(names) == 1 else "the fields ") + ", ".join(f"'{name}'" for name in names)
