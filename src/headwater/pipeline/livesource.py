"""The batch source over a live space, of one replica set or of several. docs/spark.md tells the options and what is
promised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql import types as spark

from headwater.client.pipe import Pipe
from headwater.kernels.columns import pack_rows
from headwater.pipeline.decode import Decoder, TypedView
from headwater.pipeline.dictionary import Dictionary, IndexFacts, SpaceFacts
from headwater.pipeline.errors import NotThere, OptionError, PipelineError, SchemaChanged
from headwater.pipeline.hosts import WRITE_OPTIONS, ReplicaSet, ReplicaSets, pass_over
from headwater.pipeline.keyrange import KeyRange, Narrower, Order, option_range
from headwater.pipeline.leader import Seeker
from headwater.pipeline.livepages import Page, Pages, Reading
from headwater.pipeline.livesplit import split
from headwater.pipeline.settings import Options
from headwater.pipeline.types import ENVELOPE, TypeSettings, typed_schema, unfit
from headwater.wire.constants import version_id
from headwater.wire.msgpack import unpack

__all__ = ["LiveReader", "PushDownLiveReader", "reader", "schema"]

_READ_VIEWS = version_id(2, 11, 0)
_ROWS_LIMIT = 1 << 30
_PLANNING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What a user says of a read."""

    sets: ReplicaSets
    space: str
    columns: tuple[str, ...] | None
    index: str | None
    partitions: int
    """Of each replica set, at most."""
    from_leader: bool
    read_view: bool
    page_rows: int
    page_bytes: int
    range: KeyRange
    types: TypeSettings
    permissive: bool
    push_down: bool
    patience: float

    @classmethod
    def read(cls, given: Mapping[str, str]) -> LiveOptions:
        options = Options(given)
        pass_over(options, WRITE_OPTIONS)
        types = TypeSettings.read(options)
        made = cls(
            sets=ReplicaSets.read(options),
            space=options.needed("space", "which space is read; all changes of all spaces are had with readStream"),
            columns=options.names("columns"),
            index=options.text("index"),
            partitions=options.integer("numPartitions", 1, 1, 10_000),
            from_leader=options.choice("readFrom", ("any", "leader"), "any") == "leader",
            read_view=options.boolean("readView", False),
            page_rows=options.integer("pageRows", 10_000, 1, 1_000_000),
            page_bytes=options.size("pageBytes", 2 << 20),
            range=option_range(options.json("keyFrom"), options.json("keyTo")),
            types=types if options.has("metadataColumns") else replace(types, meta=()),
            permissive=options.choice("mode", ("FAILFAST", "PERMISSIVE"), "FAILFAST") == "PERMISSIVE",
            push_down=options.boolean("pushDownFilters", False),
            patience=options.span("retryTimeout", 60.0),
        )
        options.check()
        return made


def schema(options: Mapping[str, str]) -> spark.StructType:
    """Columns of the rows of the space, as the first replica set has it."""
    read = LiveOptions.read(options)
    # Nothing has been read yet: who has mistyped an address learns it soon.
    with closing(Seeker(read.sets.sets[0], min(read.patience, _PLANNING_SECONDS)).any()) as pipe:
        facts = _space(Dictionary.fetch(pipe), read, pipe)
    return typed_schema(facts, read.types, read.columns)


def reader(options: Mapping[str, str], schema: spark.StructType) -> ds.DataSourceReader:
    read = LiveOptions.read(options)
    return (PushDownLiveReader if read.push_down else LiveReader)(read, schema)


@dataclass(frozen=True)
class LivePart(ds.InputPartition):
    """One task."""

    members: ReplicaSet
    first_host: int
    """Who is asked first, so that tasks spread over the members."""
    dictionary: Dictionary
    view: TypedView
    reading: Reading
    ranges: tuple[KeyRange, ...]
    patience: float


class LiveReader(ds.DataSourceReader):
    """Plans on the driver, reads in tasks."""

    def __init__(self, options: LiveOptions, schema: spark.StructType) -> None:
        self.options = options
        self.schema = schema
        self.filters: tuple[ds.Filter, ...] = ()

    def partitions(self) -> Sequence[ds.InputPartition]:
        return [part for members in self.options.sets for part in self._parts(members)]

    def _parts(self, members: ReplicaSet) -> list[LivePart]:
        options = self.options
        seeker = Seeker(members, options.patience)
        with closing(seeker.leader() if options.from_leader else seeker.any()) as pipe:
            dictionary = Dictionary.fetch(pipe)
            facts = _space(dictionary, options, pipe)
            self._check(facts, members)
            order = Order(facts, _index(facts, options))
            _refuse_view(options, pipe)
            groups = self._groups(order, pipe)
            at_least = dict(pipe.ballot().vclock)
        reading = Reading(
            order, options.page_rows, options.page_bytes, options.read_view, options.from_leader, at_least
        )
        view = TypedView(
            str(facts.id), self.schema, options.types, frozenset(facts.names), strict=not options.permissive
        )
        return [
            LivePart(members, number, dictionary, view, reading, ranges, options.patience)
            for number, ranges in enumerate(groups)
        ]

    def _groups(self, order: Order, pipe: Pipe) -> list[tuple[KeyRange, ...]]:
        """Ranges for each task."""
        options = self.options
        asked = options.range
        if asked != option_range(None, None) and not order.is_known:
            raise OptionError(
                f"The options 'keyFrom' and 'keyTo' need an index whose order is known here; '{order.index.name}' of "
                f"space '{order.space.name}' is a hash, has a collation or parts inside of fields."
            )
        narrower = Narrower(order, self.schema)
        for each in self.filters:
            narrower.push(each)
        ranges = narrower.ranges(order.typed(asked))
        if len(ranges) > 1:
            size = -(-len(ranges) // options.partitions)
            return [tuple(ranges[at : at + size]) for at in range(0, len(ranges), size)]
        return [(each,) for each in split(pipe, order, ranges[0], options.partitions)]

    def _check(self, facts: SpaceFacts, members: ReplicaSet) -> None:
        """Sets whose spaces differ, and columns that no set has."""
        own = {self.options.types.rescued, *("_" + name for name in ENVELOPE.names)}
        for name in self.schema.names:
            if name not in facts.names and name not in own:
                raise NotThere(f"Space '{facts.name}' of {members} has no field '{name}'. It is {facts.ddl()}.")
        # A field that another set has not got is rescued, unless the user said which columns are wanted.
        whole = len(self.options.sets) > 1 and self.options.columns is None and not self.options.types.rescued
        why = unfit(self.schema, facts, self.options.types, frozenset() if whole else frozenset(facts.names))
        if why is not None:
            raise SchemaChanged(
                f"The space '{facts.name}' of {members} does not suit the columns of this query: {why}. It is "
                f"{facts.ddl()}. Give a schema that suits all replica sets."
            )

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LivePart)
        seeker = Seeker(partition.members, partition.patience)
        decoder = _TupleDecoder(partition.view, partition.dictionary)
        for range_ in partition.ranges:
            pages = Pages(partition.reading, range_, seeker, partition.first_host)
            for page in pages:
                yield from decoder.page(page, pages.host)
        yield from decoder.finish()


class PushDownLiveReader(LiveReader):
    """With the option `pushDownFilters`: filters on leading parts of the index become ranges of it. Spark applies them
    again. Needs spark.sql.python.filterPushdown.enabled."""

    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:
        self.filters = tuple(filters)
        return filters


class _TupleDecoder(Decoder):
    """Pages as if they were rows of a snapshot."""

    def __init__(self, view: TypedView, dictionary: Dictionary) -> None:
        super().__init__(view, dictionary, is_snapshot=True)
        self._space_id = int(view.space)
        self._key_fields = dictionary.space(self._space_id).key_fields
        self._page: Page | None = None
        self._host = ""

    def page(self, page: Page, host: str) -> Iterator[pa.RecordBatch]:
        self._page, self._host = page, host
        rows, count = pack_rows(page.offsets, page.data, 0, page.count, self._space_id, 0, 1, 0.0, _ROWS_LIMIT)
        assert count == page.count, "a page is smaller than what fits"
        yield from self.feed(rows)

    def _place(self, lsn: int, offset: int) -> str:
        """By the key of the tuple: rows of a page are numbered from 1."""
        page = self._page
        where = f"Space '{self.dictionary.space(self._space_id).name}' at {self._host}"
        if page is None or not 1 <= lsn <= page.count:
            return where
        values = unpack(page.tuple(lsn - 1))
        return f"{where}, key {[values[field] for field in self._key_fields]}"


# ---- what is there --------------------------------------------------------------------------------


def _space(dictionary: Dictionary, options: LiveOptions, pipe: Pipe) -> SpaceFacts:
    facts = dictionary.space(options.space)
    if not facts.indexes:
        raise PipelineError(f"Space '{facts.name}' at {pipe.uri} has no index; there is nothing to read it by.")
    return facts


def _index(facts: SpaceFacts, options: LiveOptions) -> IndexFacts:
    wanted = options.index
    if wanted is None:
        return _readable(facts)
    for index in facts.indexes:
        if wanted in (index.name, str(index.id)):
            if index.type not in ("tree", "hash"):
                raise OptionError(
                    f"The index '{wanted}' of space '{facts.name}' is a {index.type}; it cannot be walked."
                )
            return index
    known = ", ".join(index.name for index in facts.indexes)
    raise NotThere(f"Space '{facts.name}' has no index '{wanted}'. There are: {known}.")


def _readable(facts: SpaceFacts) -> IndexFacts:
    """The primary one; instead of a hash a tree that has every tuple and an order, if there is one."""
    primary = facts.indexes[0]
    if primary.type == "tree":
        return primary
    trees = (index for index in facts.indexes if index.type == "tree" and Order(facts, index).is_total)
    return next(trees, primary)


def _refuse_view(options: LiveOptions, pipe: Pipe) -> None:
    if options.read_view and not (pipe.has_transactions and pipe.greeting.version_id >= _READ_VIEWS):
        raise PipelineError(
            f"{pipe.uri} (version {pipe.version}) has no read views over a connection: Tarantool has them from 2.11 "
            "on, with memtx_use_mvcc_engine. Leave out readView, or read a .snap file, or the snapshot of a stream."
        )
