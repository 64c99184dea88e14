"""The batch source over files: `spark.read.format("tarantool").load(path)`. docs/spark.md lists its options."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as spark

from headwater.pipeline.decode import EnvelopeView, TypedView, View
from headwater.pipeline.dictionary import SpaceFacts
from headwater.pipeline.errors import NotThere, OptionError
from headwater.pipeline.filepart import PartReader
from headwater.pipeline.fileplan import FileParts, Plan, ReadSettings
from headwater.pipeline.types import ENVELOPE, TYPE_NAMES, envelope_plan

_SLACK = 1e-4
"""A column of times holds microseconds, a row a double: filters let through a little more on both sides."""
_log = logging.getLogger(__name__)


def schema(options: Mapping[str, str]) -> spark.StructType:
    """Columns of the envelope, or of the rows of one space."""
    settings = ReadSettings.read(options)
    if settings.space is None:
        return envelope_plan(settings.columns).schema
    return Plan(settings).typed_schema()


def reader(options: Mapping[str, str], schema: spark.StructType) -> ds.DataSourceReader:
    settings = ReadSettings.read(options)
    kind = PushDownFileReader if settings.push_down else FileReader
    return kind(settings, schema)


# ---- the reader -----------------------------------------------------------------------------------


class FileReader(ds.DataSourceReader):
    """Plans on the driver, reads in tasks. Spark sends the reader to the tasks before it asks for the partitions, so
    that all that the plan learns goes with these."""

    def __init__(self, settings: ReadSettings, schema: spark.StructType) -> None:
        self.settings = settings
        self.schema = schema
        self.types: tuple[int, ...] | None = None
        """Only rows of these types, if filters say so."""
        if settings.space is None:
            _check_envelope(schema)

    def partitions(self) -> Sequence[ds.InputPartition]:
        plan = Plan(self.settings, self.schema.names)
        view = self._envelope() if self.settings.space is None else self._typed(plan)
        return plan.partitions(view) or [FileParts(view, ())]

    def _envelope(self) -> View:
        settings = self.settings
        return EnvelopeView(tuple(self.schema.names), settings.spaces, settings.request, utf8=settings.envelope_utf8)

    def _typed(self, plan: Plan) -> View:
        settings = self.settings
        assert settings.space is not None
        seen = plan.versions()
        newest = plan.newest(seen)
        self._check_typed(newest, seen)
        return TypedView(
            settings.space,
            self.schema,
            settings.types,
            frozenset(newest.names),
            strict=not settings.files.permissive,
            evolution=settings.evolution,
        )

    def _check_typed(self, newest: SpaceFacts, seen: Sequence[SpaceFacts]) -> None:
        """A column that no version has is a slip."""
        known = {field.name for facts in (*seen, newest) for field in facts.fields}
        own = {self.settings.types.rescued, *("_" + name for name in ENVELOPE.names)}
        for name in self.schema.names:
            if name not in known | own:
                raise NotThere(
                    f"Space '{newest.name}' has no field '{name}', which the schema asks for. It is {newest.ddl()}."
                )

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FileParts)
        for part in partition.parts:
            try:
                yield from PartReader(self.settings.files, partition.view, part, self.types).batches()
            except NotThere as error:
                if not self.settings.files.permissive:
                    raise
                _log.warning("left out: %s", error)


class PushDownFileReader(FileReader):
    """With the option `pushDownFilters`: filters thin out rows before they are decoded. Spark applies them again, so
    that they need only be right about what they leave out. Needs spark.sql.python.filterPushdown.enabled."""

    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:
        for each in filters:
            self._push(each)
        return filters

    def _push(self, each: ds.Filter) -> None:
        name = ".".join(getattr(each, "attribute", ()))
        values = _values(each)
        if self.settings.space is not None:
            name = name[1:] if name.startswith("_") else ""
        if values is not None and name == "op":
            codes = tuple(code for code, known in TYPE_NAMES.items() if known in values and code < 64)
            self.types = codes if self.types is None else tuple(set(codes) & set(self.types))
        elif values is not None and name in ("space", "space_id") and self.settings.spaces is None:
            self.settings = replace(self.settings, spaces=tuple(str(value) for value in values))
        elif name == "ts" and isinstance(each, ds.GreaterThan | ds.GreaterThanOrEqual):
            self._narrow(begin=_seconds(each.value))
        elif name == "ts" and isinstance(each, ds.LessThan | ds.LessThanOrEqual):
            self._narrow(end=_seconds(each.value))

    def _narrow(self, *, begin: float | None = None, end: float | None = None) -> None:
        limits = self.settings.files.range
        if begin is not None:
            limits = replace(
                limits, begin=begin - _SLACK if limits.begin is None else max(begin - _SLACK, limits.begin)
            )
        if end is not None:
            limits = replace(limits, end=end + _SLACK if limits.end is None else min(end + _SLACK, limits.end))
        self.settings = replace(self.settings, files=replace(self.settings.files, range=limits))


def _values(each: ds.Filter) -> list[object] | None:
    if isinstance(each, ds.EqualTo | ds.EqualNullSafe):
        return [each.value] if each.value is not None else None
    return list(each.value) if isinstance(each, ds.In) else None


def _seconds(value: object) -> float | None:
    if not isinstance(value, dt.datetime):
        return None
    return (value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)).timestamp()


def _check_envelope(schema: spark.StructType) -> None:
    own = {column.name: column.dataType for column in ENVELOPE}
    for column in schema:
        if own.get(column.name) != column.dataType:
            has = own.get(column.name)
            what = "no such column" if has is None else f"it as {has.simpleString()}"
            raise OptionError(
                f"The schema asks for {column.name} as {column.dataType.simpleString()}; the envelope has {what}. "
                "Typed rows of one space are had with the option 'space'."
            )
