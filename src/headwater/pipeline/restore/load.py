"""A data directory out of DataFrames: rows become tuples by columns, are parted by primary key, and each task writes
its stretch of a snapshot. A server that starts on it has its data without a request."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc

from headwater.kernels.columns import pack_rows
from headwater.pipeline.dictionary import SpaceFacts
from headwater.pipeline.errors import NotThere, OptionError, PipelineError, ValueUnfit
from headwater.pipeline.restore.buckets import Layouter
from headwater.pipeline.restore.build import Built, Say, publish
from headwater.pipeline.restore.cut import QueueState
from headwater.pipeline.restore.identity import Identity, take_on
from headwater.pipeline.restore.loading import reduce
from headwater.pipeline.restore.material import gather
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.reduce import Reduced, ReduceTask, SpaceTask
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.sources import scan
from headwater.pipeline.restore.split import Parted, Setup, SplitTask, split
from headwater.pipeline.restore.staging import Staging, check_token, refused
from headwater.pipeline.restore.states import shape
from headwater.pipeline.restore.system import Place, SystemState
from headwater.pipeline.sinkoptions import SinkOptions
from headwater.pipeline.sinkplan import SinkPlan
from headwater.pipeline.types import field_type
from headwater.store import system
from headwater.store.bootstrap import bootstrap_rows, master_rows
from headwater.store.bootstrap_tables import V3_8_0, VERSIONS, Version
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, SNAP, BlockEncoder, Meta, format_meta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOBODY = UUID(int=0)
_BLOCK = 1 << 20
_WRITTEN = "path STRING, size BIGINT, rows BIGINT, length BIGINT, samples ARRAY<BINARY>"
_FIRST_USER_SPACE = 512


@dataclass(frozen=True, slots=True)
class NewSpace:
    """A space to be made, where no other directory has its definition."""

    key: tuple[str, ...]
    """Names of the columns of the primary key."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Types of fields, where they are not what the columns suggest."""


@dataclass(frozen=True, slots=True)
class LoadWish:
    to: str
    like: str = ""
    """A directory or snapshot, whose definitions, users and sequences are taken over; its tuples are not."""
    spaces: Mapping[str, NewSpace] = field(default_factory=dict)
    """By name: those to be made."""
    version: Version = V3_8_0
    """Of the system spaces, without `like`."""
    identity: Identity = field(default_factory=Identity)


def load(
    spark: SparkSession, runner: Runner, frames: Mapping[str, DataFrame], wish: LoadWish, say: Say = lambda words: None
) -> Built:
    """`frames`: by the names of their spaces. PipelineError and its kin, and then nothing is left in the target."""
    if wish.identity.keep:
        raise OptionError("What is loaded has no identity to keep.")
    began = time.monotonic()
    staging = Staging(wish.to)
    with staging.open():
        state, queue, base = _definitions(runner, frames, wish)
        plans = {name: _plan(state, name, frame) for name, frame in frames.items()}
        written: list[_Written] = []
        for name, frame in frames.items():
            found = _encode(frame, plans[name], staging)
            say(f"{name}: {sum(each.rows for each in found):,} rows")
            written += found
        states, numbers = _states(runner, state, plans, written, staging)
        for number, value in state.sequences.values(numbers).items():
            state.put(system.SEQUENCE_DATA, [number, value])
        instance = take_on(state, queue, base, wish.identity, uuid4)
        return publish(runner, state, queue, states, VClock(), instance, staging, [], began)


# ---- definitions -----------------------------------------------------------------------------------


def _definitions(
    runner: Runner, frames: Mapping[str, DataFrame], wish: LoadWish
) -> tuple[SystemState, QueueState, UUID]:
    if wish.like:
        material = gather(runner, scan([wish.like]), Target())
        state, queue, base = material.state, QueueState(material.queue.term), material.base.file.instance
        for space_id in list(state.lives):
            state.forget_rows(space_id)
    else:
        if wish.version not in VERSIONS:
            known = ", ".join(".".join(map(str, version)) for version in VERSIONS)
            raise OptionError(f"There is no schema version {'.'.join(map(str, wish.version))} here; there are {known}.")
        own, replicaset = wish.identity.instance or uuid4(), wish.identity.replicaset or uuid4()
        rows = [*bootstrap_rows(wish.version), *master_rows(wish.version, own, replicaset)]
        state, queue, base = SystemState(rows), QueueState(), own
    for name, frame in frames.items():
        if state.dictionary.find(name) is None:
            _make_space(state, name, frame, wish)
        elif name in wish.spaces:
            raise OptionError(f"The space '{name}' is in {wish.like} already: give no primary key for it.")
    return state, queue, base


def _make_space(state: SystemState, name: str, frame: DataFrame, wish: LoadWish) -> None:
    new = wish.spaces.get(name)
    if new is None:
        where = f" in {wish.like}" if wish.like else ""
        raise NotThere(
            f"There is no space '{name}'{where}. With a primary key (--key '{name}=column,…') it is made out of the "
            "columns."
        )
    types = dict(new.types)
    columns = [(each.name, types.pop(each.name, "") or _type_of(each.dataType)) for each in frame.schema]
    names = [column for column, _ in columns]
    for column in (*new.key, *types):
        if column not in names:
            raise NotThere(f"The space '{name}': there is no column '{column}'; there are {', '.join(names)}.")
    format_ = [{"name": column, "type": kind, "is_nullable": column not in new.key} for column, kind in columns]
    number = max([*(each.id for each in state.dictionary.spaces if not each.is_system), _FIRST_USER_SPACE - 1]) + 1
    parts = [[names.index(column), columns[names.index(column)][1]] for column in new.key]
    _insert(state, system.SPACE, [number, 1, name, "memtx", 0, {}, format_])
    _insert(state, system.INDEX, [number, 0, "primary", "tree", {"unique": True}, parts])
    state.forget_rows(number)


def _insert(state: SystemState, space_id: int, row: Sequence[object]) -> None:
    state.apply(Row(Type.INSERT, body=pack({0x10: space_id, 0x21: list(row)})), Place(0, 0))


def _type_of(type_: object) -> str:
    from pyspark.sql import types as spark

    from headwater.pipeline.types import DATETIME, INTERVAL

    if type_ == DATETIME:
        return "datetime"
    if isinstance(type_, spark.StructType) and type_ != INTERVAL:
        return "map"
    return "any" if isinstance(type_, spark.NullType) else field_type(type_)  # type: ignore[arg-type]


def _plan(state: SystemState, name: str, frame: DataFrame) -> SinkPlan:
    facts = state.dictionary.space(name)
    if facts.is_temporary or facts.engine != "memtx" or facts.id not in state.lives:
        raise OptionError(f"The space '{name}' keeps no tuples in snapshots (engine {facts.engine}).")
    options = SinkOptions.read({"hosts": "127.0.0.1:1", "space": name, "operation": "insert"})
    return SinkPlan.of(frame.schema, facts, options)


# ---- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Written:
    """A file of rows of one space, in no order."""

    path: str
    size: int
    rows: int
    length: int
    """Bytes of its blocks."""
    samples: tuple[bytes, ...]


def _encode(frame: DataFrame, plan: SinkPlan, staging: Staging) -> list[_Written]:
    encoder = _Encoder(plan, str(staging.path), staging.token)
    rows = frame.mapInArrow(encoder, _WRITTEN).collect()
    faults = [row["path"] for row in rows if row["size"] < 0]
    if faults:
        raise ValueUnfit(faults[0])
    return [_Written(row["path"], row["size"], row["rows"], row["length"], tuple(row["samples"])) for row in rows]


@dataclass(frozen=True)
class _Encoder:
    """What a task does: its rows as rows of a snapshot, in a file. Travels to the executors."""

    plan: SinkPlan
    staging: str
    token: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        try:
            check_token(self.staging, self.token)
            found = self._write(batches, context.partitionId() if context is not None else 0)
        except PipelineError as error:
            found = _Written(str(error), -1, 0, 0, ())
        except OSError as error:
            found = _Written(str(refused(error)), -1, 0, 0, ())
        if found is not None:
            values = {"path": found.path, "size": found.size, "rows": found.rows, "length": found.length}
            yield pa.RecordBatch.from_pylist([{**values, "samples": list(found.samples)}], schema=_ARROW)

    def _write(self, batches: Iterable[pa.RecordBatch], partition: int) -> _Written | None:
        path = os.path.join(self.staging, f"given-{uuid4().hex}")
        encoder = BlockEncoder(compress=False)
        samples: list[bytes] = []
        rows = size = 0
        with open(path, "wb") as out:
            size += out.write(format_meta(Meta(SNAP, _NOBODY, VClock())))
            begin = size
            for batch in batches:
                _refuse_nulls(self.plan.space, batch, rows, partition)
                for block, sample in self._blocks(batch, rows, partition):
                    size += out.write(encoder.encode_one(block))
                    samples.append(sample)
                rows += batch.num_rows
            end = size
            size += out.write(MAGIC_EOF)
        if not rows:
            os.unlink(path)
            return None
        return _Written(path, size, rows, end - begin, tuple(samples))

    def _blocks(self, batch: pa.RecordBatch, first_row: int, partition: int) -> Iterator[tuple[bytes, bytes]]:
        """Blocks of rows, and one row of each."""
        tuples = self.plan.tuples(batch, first_row, partition)
        space_id, at = self.plan.space.id, 0
        while at < tuples.count:
            left = tuples.count - at
            rows, count = pack_rows(tuples.offsets, tuples.data, at, left, space_id, 0, 0, 0.0, _BLOCK)
            packed = bytes(tuples.bytes_of(at + count // 2, 1))
            body = b"\x82\x10\xce" + space_id.to_bytes(4, "big") + b"\x21" + packed
            yield rows, encode_row(Row(Type.INSERT, body=body))
            at += count


_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("length", pa.int64()),
        ("samples", pa.list_(pa.field("element", pa.binary()))),
    ]
)


def _refuse_nulls(space: SpaceFacts, batch: pa.RecordBatch, first_row: int, partition: int) -> None:
    """A server asks this of a request; of a snapshot it finds out when it starts."""
    required = {each.name.lower() for each in space.fields if not each.nullable}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if array.null_count and name.lower() in required:
            row = pc.index(array.is_null(), True).as_py()
            raise ValueUnfit(
                f"Row {first_row + row} of partition {partition}: the column '{name}' is null, and the field of the "
                f"space '{space.name}' must not be."
            )


def _states(
    runner: Runner, state: SystemState, plans: Mapping[str, SinkPlan], written: Sequence[_Written], staging: Staging
) -> tuple[list[Reduced], list[tuple[int, Mapping[int, tuple[int, int]]]]]:
    """Tuples in order, and the numbers that move sequences."""
    wanted = {plan.space.id for plan in plans.values()}
    lives = {space_id: life for space_id, life in state.lives.items() if space_id in wanted}
    layouter = Layouter(lives)
    for each in written:
        for sample in each.samples:
            layouter.sample(sample, each.length // len(each.samples))
    layout = layouter.layout(runner.cores)
    fields = {space_id: number for space_id, (_, number) in state.attachments().items()}
    setups = tuple(
        Setup(space_id, life.now.key, tuple(layout.bounds[space_id]), layout.first[space_id], fields.get(space_id, -1))
        for space_id, life in sorted(lives.items())
    )
    where, token = str(staging.path), staging.token
    tasks = [
        SplitTask(number, each.path, each.size, _begin_of(each), each.size, layout.count, where, token, setups)
        for number, each in enumerate(written)
    ]
    parted: list[Parted] = runner.run(split, tasks, "parting rows")
    for each in written:
        Path(each.path).unlink()
    pieces = [piece for one in parted for piece in one.pieces]
    reductions = [
        ReduceTask(
            bucket.number,
            tuple(
                SpaceTask(
                    each.space_id,
                    lives[each.space_id].now.facts.name,
                    lives[each.space_id].now.facts.is_local,
                    (shape(lives[each.space_id].now),),
                    each.low,
                    each.high,
                )
                for each in bucket.stretches
            ),
            tuple(piece for piece in pieces if piece.bucket == bucket.number),
            where,
            token,
            time.time(),
            are_given=True,
        )
        for bucket in layout.buckets
    ]
    states = runner.run(reduce, [task for task in reductions if task.spaces], "putting rows in order")
    return states, [numbers for one in parted for numbers in one.numbers]


def _begin_of(written: _Written) -> int:
    return written.size - len(MAGIC_EOF) - written.length
