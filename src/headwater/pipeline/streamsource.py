"""The stream source: `spark.readStream.format("tarantool")`. docs/spark.md lists its options and what it promises.

Spark keeps one reader in a process of the driver, which it asks about offsets; others of it, which never start
anything, are pickled for the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as spark
from pyspark.sql.streaming import datasource as limits

from headwater.kernels.columns import Utf8
from headwater.pipeline import livesource
from headwater.pipeline.decode import EVOLUTION, EnvelopeView, TypedView
from headwater.pipeline.errors import NotThere, OptionError
from headwater.pipeline.offsets import Offset
from headwater.pipeline.settings import Options
from headwater.pipeline.ship import StreamPart
from headwater.pipeline.stream import Stream
from headwater.pipeline.streamoptions import StreamOptions
from headwater.pipeline.streamread import View, read_part
from headwater.pipeline.types import ENVELOPE, TypeSettings, envelope_plan, read_utf8

_OF_COLUMNS = frozenset(
    (
        *("hosts", "username", "user", "password", "passwordenv", "passwordfile", "connecttimeout", "requesttimeout"),
        *("space", "columns", "metadatacolumns", "rescueddatacolumn", "invalidutf8", "mode", "varianttags"),
        *("unsignedas", "numberas", "decimalas", "uuidas", "datetimeas", "intervalas"),
    )
)
"""What a live space is told to have its columns."""


class StreamSettings:
    """All options of the stream source."""

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(given)
        self.stream = StreamOptions.read(options)
        self.types = TypeSettings.read(options)
        self.columns = options.names("columns")
        self.spaces = options.names("spaces")
        self.request = options.boolean("request", False)
        self.utf8 = read_utf8(options, Utf8.BINARY)
        self.permissive = options.choice("mode", ("FAILFAST", "PERMISSIVE"), "FAILFAST") == "PERMISSIVE"
        self.evolution = options.choice("schemaEvolutionMode", EVOLUTION, EVOLUTION[0])
        options.check()
        if self.stream.space is not None and self.spaces is not None:
            raise OptionError("The options 'space' and 'spaces' exclude each other: typed rows are of one space.")

    def view(self, schema: spark.StructType) -> View:
        if self.stream.space is None:
            self._check_envelope(schema)
            return EnvelopeView(tuple(schema.names), self.spaces, self.request, utf8=self.utf8)
        if "_op" not in schema.names:
            raise OptionError(
                "A stream of the rows of one space needs the column _op, which tells a DELETE from an INSERT: set "
                "metadataColumns to _op, or to _op,_lsn,_ts; or take the changes of all spaces, without the option "
                "'space'."
            )
        return TypedView(
            self.stream.space,
            schema,
            self.types,
            frozenset(schema.names),
            strict=not self.permissive,
            evolution=self.evolution,
        )

    @staticmethod
    def _check_envelope(schema: spark.StructType) -> None:
        own = {column.name: column.dataType for column in ENVELOPE}
        for column in schema:
            if own.get(column.name) != column.dataType:
                raise NotThere(
                    f"A stream of changes has no column {column.name} of type {column.dataType.simpleString()}. It has "
                    f"{', '.join(f'{name} {type.simpleString()}' for name, type in own.items())}."
                )


def schema(options: Mapping[str, str]) -> spark.StructType:
    """Columns of the envelope, or of the rows of one space as it is now."""
    if "space" not in {_plain(name) for name in options}:
        return envelope_plan(Options(options).names("columns")).schema
    return livesource.schema({name: value for name, value in options.items() if _plain(name) in _OF_COLUMNS})


def reader(options: Mapping[str, str], schema: spark.StructType) -> StreamReader:
    settings = StreamSettings(options)
    return StreamReader(settings.stream, settings.view(schema))


def _plain(name: str) -> str:
    return name.lower().removeprefix("tarantool.")


class StreamReader(ds.DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """What Spark asks, in its terms."""

    def __init__(self, options: StreamOptions, view: View) -> None:
        self.options = options
        self.view = view
        self._stream: Stream | None = None
        """Of the one that is asked about offsets."""

    @property
    def stream(self) -> Stream:
        if self._stream is None:
            self._stream = Stream(self.options)
        return self._stream

    # ---- in the driver

    def initialOffset(self) -> dict[str, Any]:
        return self.stream.initial().fields()

    def getDefaultReadLimit(self) -> limits.ReadLimit:
        if self.options.max_rows:
            return limits.ReadMaxRows(self.options.max_rows)
        if self.options.max_bytes:
            return limits.ReadMaxBytes(self.options.max_bytes)
        return limits.ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: limits.ReadLimit) -> dict[str, Any]:
        rows = size = 0
        if isinstance(limit, limits.ReadMaxRows):
            # Spark carries one limit only; the other option is ours to keep.
            rows, size = limit.max_rows, self.options.max_bytes
        elif isinstance(limit, limits.ReadMaxBytes):
            size = limit.max_bytes
        begin = Offset.read(start)
        end = self.stream.latest(begin, rows, size)
        return start if end == begin else end.fields()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        found = self.stream.report()
        return None if found is None else found.fields()

    def prepareForTriggerAvailableNow(self) -> None:
        self.stream.prepare()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ds.InputPartition]:
        return self.stream.plan(Offset.read(start), Offset.read(end)) if start != end else []

    def commit(self, end: dict[str, Any]) -> None:
        self.stream.commit(Offset.read(end))

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.stop()
            self._stream = None

    def __getstate__(self) -> tuple[StreamOptions, View]:
        return self.options, self.view

    def __setstate__(self, state: tuple[StreamOptions, View]) -> None:
        self.options, self.view = state
        self._stream = None

    # ---- in tasks

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPart)
        return read_part(self.view, partition)
