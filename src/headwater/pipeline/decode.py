"""Rows to RecordBatches: the envelope of any rows, or the typed rows of one space.

A `View` says what is wanted, and lives as long as a query; a `Plan` says how it is made under one definition of a
space. The kernel stops before every row of `_space` and `_index`, the dictionary moves over it, and a space that looks
different then gets a new plan: each row is read under the schema that held when it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark.sql import types as spark

from headwater.errors import HeadwaterError
from headwater.kernels.columns import Columns, Kind, RowError, Source, Utf8
from headwater.pipeline.dictionary import WATCHED, Dictionary, SpaceFacts
from headwater.pipeline.errors import SchemaChanged, SourceDamaged, ValueUnfit
from headwater.pipeline.types import TYPE_NAMES, Plan, TypeSettings, envelope_plan, ext_text, plan_of, unfit
from headwater.typing import VCLOCK_MAX
from headwater.vclock import VClock
from headwater.wire.mpread import read_uint
from headwater.wire.xrow import Row

BATCH_ROWS = 16_384
BATCH_BYTES = 16 << 20
"""Of values of any length: a batch is ended early when they come to more."""
EVOLUTION = ("failOnNewColumns", "rescue", "none", "addNewColumns")
"""What becomes of rows that do not suit the columns. The last one: make columns for all of them in advance."""
_LSN_MAX = (1 << 63) - 1
_ID_AND_LSN = ((Source.REPLICA_ID, Kind.INT32, 0, 0), (Source.LSN, Kind.INT64, 0, 0))


@dataclass(frozen=True)
class RowRange:
    """Which rows are kept."""

    low: VClock | None = None
    """Rows behind it."""
    high: VClock | None = None
    """Rows up to it: a replica that it does not name has none."""
    begin: float | None = None
    end: float | None = None
    """Rows with begin <= timestamp < end."""

    @property
    def names_local(self) -> bool:
        """Rows that stay on their instance, component 0, are in a range only if it names them: vclocks that are passed
        around leave it out."""
        return any(vclock is not None and vclock.get(0) > 0 for vclock in (self.low, self.high))

    def has(self, row: Row) -> bool:
        """Is the row not behind the range?"""
        high = self.high.get(row.replica_id) if self.high is not None else _LSN_MAX
        return row.lsn <= high and (self.end is None or row.timestamp < self.end)

    def set(self, columns: Columns, *, is_snapshot: bool = False) -> None:
        """Rows of snapshots have numbers of their own, which no vclock speaks of."""
        if (self.low is not None or self.high is not None) and not is_snapshot:
            low = [int(self.low.get(number)) if self.low is not None else 0 for number in range(VCLOCK_MAX)]
            high = [int(self.high.get(number)) if self.high is not None else _LSN_MAX for number in range(VCLOCK_MAX)]
            if not self.names_local:
                high[0] = 0
            columns.set_range(low, high)
        if self.begin is not None or self.end is not None:
            columns.set_times(
                float("-inf") if self.begin is None else self.begin, float("inf") if self.end is None else self.end
            )


class View(Protocol):
    """What is wanted of rows. Picklable."""

    @property
    def schema(self) -> spark.StructType: ...

    def wanted(self, dictionary: Dictionary) -> list[int] | None:
        """Ids of the spaces whose rows are kept; None: all rows, those that are not DML too."""
        ...

    def key(self, dictionary: Dictionary) -> object:
        """Equal as long as the plan need not be another."""
        ...

    def plan(self, dictionary: Dictionary) -> Plan:
        """SchemaChanged if what is there now cannot be shown."""
        ...


@dataclass(frozen=True)
class EnvelopeView:
    """Rows of all spaces, or of some."""

    columns: tuple[str, ...] | None = None
    spaces: tuple[str, ...] | None = None
    """Names or ids."""
    request: bool = False
    replicaset: str | None = None
    utf8: Utf8 = Utf8.BINARY
    tagged: bool = False

    @property
    def schema(self) -> spark.StructType:
        return self._plan().schema

    def wanted(self, dictionary: Dictionary) -> list[int] | None:
        return None if self.spaces is None else dictionary.ids(self.spaces)

    def key(self, dictionary: Dictionary) -> object:
        return None

    def plan(self, dictionary: Dictionary) -> Plan:
        return self._plan()

    def _plan(self) -> Plan:
        return envelope_plan(
            self.columns, request=self.request, replicaset=self.replicaset, utf8=self.utf8, tagged=self.tagged
        )


@dataclass(frozen=True)
class TypedView:
    """Rows of one space."""

    space: str
    """Name or id."""
    schema: spark.StructType
    settings: TypeSettings
    known: frozenset[str] = field(default_factory=frozenset)
    """Fields that were known when the schema was made."""
    strict: bool = True
    evolution: str = EVOLUTION[0]
    replicaset: str | None = None

    def wanted(self, dictionary: Dictionary) -> list[int] | None:
        return dictionary.ids((self.space,))

    def key(self, dictionary: Dictionary) -> object:
        found = dictionary.find(self.space)
        return None if found is None else (found.fields, found.key_fields)

    def plan(self, dictionary: Dictionary) -> Plan:
        found = dictionary.find(self.space) or _unknown(self.space)
        if self.evolution in (EVOLUTION[0], EVOLUTION[3]):
            why = unfit(self.schema, found, self.settings, self.known)
            if why is not None:
                raise SchemaChanged(f"{why}; the space is {found.ddl()} there")
        return plan_of(self.schema, found, self.settings, strict=self.strict, replicaset=self.replicaset)


class Decoder:
    """A stream of rows, from one position on. `where` is what errors say of the place of the rows that
    are fed."""

    def __init__(
        self,
        view: View,
        dictionary: Dictionary,
        *,
        range: RowRange | None = None,
        types: Sequence[int] | None = None,
        is_snapshot: bool = False,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """`dictionary` is the decoder's own from now on. `types`: only rows of these types. `is_snapshot`: the rows
        are those of a snapshot, whose dictionary is known from the outset; others move it by rows of `_space` and
        `_index`."""
        self.dictionary = dictionary
        self.where = ""
        self.locate: Callable[[int], str] | None = None
        """Says of an offset in the rows fed last where they come from, better than `where`."""
        self._view = view
        self._range = range or RowRange()
        self._types = types
        self._is_snapshot = is_snapshot
        self._limits = (batch_rows, batch_bytes)
        self._key: object = None
        self._unfit: str | None = None
        """Why rows of the space cannot be shown now."""
        self._read_before = 0
        self._misfits_before = 0
        self._plan: Plan
        self._columns: Columns
        self._begin_plan()

    # ---- asking

    @property
    def open(self) -> bool:
        """Was the last row that was fed not the last of its transaction?"""
        return self._columns.open

    @property
    def rows_read(self) -> int:
        """Rows fed so far, those left out included."""
        return self._read_before + self._columns.read

    @property
    def misfits(self) -> int:
        """Values that had no place in their column."""
        return self._misfits_before + self._columns.misfits

    def skip_transaction(self) -> None:
        """Leave out rows until the transaction that goes on here has ended: it belongs to who began it."""
        self._columns.skip = True

    # ---- rows

    def feed(self, rows: bytes, *, to_commit: bool = False, framed: bool = False) -> Iterator[pa.RecordBatch]:
        """Rows as files hold them, one after another. `to_commit`: not beyond the end of the transaction. `framed`:
        whole packets of the wire."""
        at = 0
        passing = False
        while at < len(rows):
            before = at
            at = self._decode(rows, at, passing, to_commit, framed)
            passing = self._columns.watched
            if passing:
                yield from self._move(rows, read_uint(rows, at)[1] if framed else at)
            elif self._unfit is not None and self._columns.rows:
                self._refuse(at)
            elif to_commit and not self._columns.open:
                return
            elif self._columns.rows:
                if at < len(rows):
                    yield self._take()
            elif at == before:
                raise ValueError("the last packet is not whole")

    def feed_packets(self, data: bytes) -> Iterator[pa.RecordBatch]:
        """Rows framed for the wire: whole packets."""
        return self.feed(data, framed=True)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """What is gathered, if there is anything."""
        if self._columns.rows:
            yield self._take()

    finish = flush

    def _decode(self, rows: bytes, at: int, passing: bool, to_commit: bool, framed: bool) -> int:
        try:
            return self._columns.decode(rows, at, passing, to_commit, framed)
        except RowError as error:
            raise self._told(error) from None

    def _take(self) -> pa.RecordBatch:
        return self._plan.batch(*self._columns.take())

    # ---- schema

    def _move(self, rows: bytes, at: int) -> Iterator[pa.RecordBatch]:
        """Over a row of `_space` or `_index`, which the kernel has not read yet."""
        if not self.dictionary.apply_bytes(rows, at):
            return
        if self._view.key(self.dictionary) == self._key:
            self._tell_spaces()
            return
        yield from self.flush()
        self._begin_plan()

    def _begin_plan(self) -> None:
        """A new plan; the transaction goes on."""
        before = getattr(self, "_columns", None)
        self._key = self._view.key(self.dictionary)
        try:
            self._plan = self._view.plan(self.dictionary)
            self._unfit = None
            columns = self._new_columns(self._plan, *self._limits)
        except SchemaChanged as error:
            # Nobody may ever ask for such rows: the first one that is wanted stops the query.
            self._unfit = str(error)
            self._plan = Plan(())
            columns = Columns(
                [(Source.REPLICA_ID, Kind.INT32, 0, 0), (Source.LSN, Kind.INT64, 0, 0)], {}, ext_text, 1, 1
            )
        self._range.set(columns, is_snapshot=self._is_snapshot)
        if self._types is not None:
            columns.set_types(self._types)
        if not self._is_snapshot:
            columns.set_watched(WATCHED)
        if before is not None:
            columns.skip = before.skip
            self._read_before += before.read
            self._misfits_before += before.misfits
        self._columns = columns
        self._tell_spaces()

    def _new_columns(self, plan: Plan, rows: int, size: int) -> Columns:
        columns = Columns(plan.kernel, TYPE_NAMES, ext_text, rows, size, int(plan.utf8), plan.tagged, plan.strict)
        columns.set_fields(plan.fields, plan.field_names)
        return columns

    def _tell_spaces(self) -> None:
        dictionary = self.dictionary
        self._columns.set_spaces(dictionary.names, dictionary.keys, self._view.wanted(dictionary))

    # ---- errors

    def _refuse(self, behind: int) -> None:
        _, ((_, _, ids), (_, _, lsns)) = self._columns.take()
        replica_id = int.from_bytes(ids[0], "little", signed=True)
        lsn = int.from_bytes(lsns[0], "little", signed=True)
        raise SchemaChanged(
            f"{self._place(lsn, behind - 1)}, replica {replica_id}: the space changed, and its rows do not suit the "
            f"columns of this query: {self._unfit}. Read up to that position or from it on (toVclock, fromVclock), let "
            "the columns take in all definitions (schemaEvolutionMode=addNewColumns), put what has no column into the "
            "column of rescued data (rescue), or drop it (none)."
        )

    def _place(self, lsn: int, offset: int) -> str:
        place = self._where(offset)
        return f"{place}, LSN {lsn}" if lsn else place

    def _where(self, offset: int) -> str:
        return self.locate(offset) if self.locate is not None else self.where or "A row"

    def _told(self, error: RowError) -> HeadwaterError:
        """In the words of the user's columns."""
        column = self._column_of(error.column)
        if column is None:
            if "can't parse" in error.reason:
                return SourceDamaged(
                    self._where(error.offset),
                    None,
                    error.lsn or None,
                    error.reason,
                    "The file or the server is at fault.",
                )
            return ValueUnfit(
                f"{self._place(error.lsn, error.offset)}: {error.reason}. A string that is not UTF-8 is kept with "
                "invalidUtf8=binary, or changed with invalidUtf8=replace."
            )
        name, type = column
        return ValueUnfit(
            f"{self._place(error.lsn, error.offset)}: a value has no place in the column '{name}' of type "
            f"{type.simpleString()}. {_remedy(type)}"
        )

    def _column_of(self, number: int) -> tuple[str, spark.DataType] | None:
        at = 0
        for column in self._plan.columns:
            at += len(column.kinds) if column.source is not None else 0
            if 0 <= number < at:
                return column.name, column.type
        return None


def _remedy(type: spark.DataType) -> str:
    general = "mode=PERMISSIVE puts it into the column of rescued data."
    if isinstance(type, spark.LongType):
        return f"A number above 2^63 - 1 is kept with unsignedAs=decimal; {general}"
    if isinstance(type, spark.DecimalType):
        return f"Give the column more digits (decimalAs, or a schema), or decimalAs=string; {general}"
    if isinstance(type, spark.StringType):
        return f"A string that is not UTF-8 is changed with invalidUtf8=replace; {general}"
    return f"Ask for another type with a schema, such as VARIANT, which holds any value; {general}"


def _unknown(name: str) -> SpaceFacts:
    return SpaceFacts(-1, name, (), (), "memtx", False, 0, False, False, ())
