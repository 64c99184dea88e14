"""A restore from beginning to end: what is known of the point, then its rows, then the directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

from headwater.pipeline.restore.buckets import Bucket, Layout, Layouter
from headwater.pipeline.restore.errors import Unfit
from headwater.pipeline.restore.facts import SYSTEM_MAX
from headwater.pipeline.restore.identity import Identity, take_on
from headwater.pipeline.restore.keyspec import field_types
from headwater.pipeline.restore.material import Material, gather
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.reduce import BasePart, Reduced, ReduceTask, Shape, SpaceTask, reduce
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.safety import check_safety
from headwater.pipeline.restore.sources import scan
from headwater.pipeline.restore.split import Parted, Piece, SplitTask, split
from headwater.pipeline.restore.staging import Staging
from headwater.pipeline.restore.system import Definition, SystemState
from headwater.pipeline.restore.timeline import Timeline
from headwater.pipeline.restore.write import Fragment, WriteTask, assemble, encode_rows, write
from headwater.store import system
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.synchro import RaftMessage, Synchro, encode_raft, encode_synchro
from headwater.wire.xrow import Row
from headwater.xlog import SNAP, file_name

FOREIGN_ENGINES = frozenset(("vinyl", "memcs", "quiver"))
"""Their data do not lie in snapshots and logs."""
RAFT_SINCE = (2, 6, 2)
"""System spaces from before cannot read rows of elections and of the queue (box/picture.py)."""
_SNAPSHOT_PART = 16 << 20
_SNAPSHOT = "whole.snap"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    sources: tuple[str, ...]
    target: Target
    to: str
    identity: Identity = field(default_factory=Identity)
    allow_unsafe: bool = False
    lake: Path | None = None
    """In place of `sources`."""
    replicaset: str = ""
    """Of the lake; empty where it has one."""


@dataclass(frozen=True, slots=True)
class Built:
    """What there is now."""

    path: Path
    vclock: VClock
    instance: UUID
    replicaset: str | None
    rows: int
    size: int
    spaces: Mapping[str, int]
    notes: Sequence[str]
    seconds: float


Say = Callable[[str], None]


def restore(runner: Runner, wish: Wish, say: Say = lambda words: None) -> Built:
    """PipelineError and its kin for whatever stands in the way; then nothing is left in the target."""
    began = time.monotonic()
    staging = Staging(wish.to)
    with staging.open():
        material = _material(runner, wish, staging)
        for line in told(material):
            say(line)
        return build(runner, material, wish.identity, staging, began)


def preflight(wish: Wish) -> None:
    """What can be refused before anything is started."""
    Staging(wish.to).check()
    if wish.sources:
        scan(wish.sources)


@contextmanager
def planned(runner: Runner, wish: Wish) -> Iterator[Material]:
    """As `restore`, as far as nothing is written that stays."""
    staging = Staging(wish.to)
    with staging.open():
        yield _material(runner, wish, staging)


def _material(runner: Runner, wish: Wish, staging: Staging) -> Material:
    material = gather(runner, scan(wish.sources), wish.target)
    refuse_foreign(material.state)
    check_safety(runner, material, wish.identity, allowed=wish.allow_unsafe)
    return material


def told(material: Material) -> Iterator[str]:
    """The plan, for people."""
    base = material.base
    yield f"from the snapshot {base.file.path}, {base.file.vclock}"
    files = dict.fromkeys(part.task.path for part in material.parts)
    rows = sum(part.facts.kept for part in material.parts)
    if files:
        first, last = next(iter(files)), next(reversed(files))
        names = first if first == last else f"{first} … {last} ({len(files)} files)"
        yield f"and {rows:,} rows of the logs {names}"
    yield f"to {material.vclock}"
    for note in material.notes:
        yield f"note: {note}"


def build(runner: Runner, material: Material, identity: Identity, staging: Staging, began: float) -> Built:
    states = States(runner, material, staging).run()
    state, queue = material.state, material.queue
    for number, value in states.sequences.items():
        state.put(system.SEQUENCE_DATA, [number, value])
    for number in {row[0] for row in map(_first, state.of(system.SEQUENCE_DATA))} - set(states.sequences):
        state.remove(system.SEQUENCE_DATA, [number])
    instance = take_on(state, queue, material.base.file.instance, identity, uuid4)
    head, count = encode_rows(_head_rows(material, time.time()), 0)
    fragments = _write(runner, states.states, count, staging)
    size = assemble(staging.file(_SNAPSHOT), instance, material.vclock, head, fragments)
    path = staging.publish(_SNAPSHOT, file_name(material.vclock.signature, SNAP))
    rows = count + sum(fragment.rows for fragment in fragments)
    names = {life.now.facts.id: life.now.facts.name for life in state.lives.values()}
    spaces = {names[space_id]: total for space_id, total in sorted(states.counts().items())}
    replicaset = state.replicaset
    seconds = time.monotonic() - began
    return Built(path, material.vclock, instance, replicaset, rows, size, spaces, material.notes, seconds)


def refuse_foreign(state: SystemState) -> None:
    """Unfit for a space whose data are elsewhere."""
    for life in state.lives.values():
        facts = life.now.facts
        if facts.engine in FOREIGN_ENGINES:
            raise Unfit(
                f"The space '{facts.name}' has the engine '{facts.engine}', whose data do not lie in .snap and .xlog "
                "files: it cannot be built from them. Copy its rows with a script, drop the space, and choose a point "
                "after that."
            )


def _first(packed: bytes) -> list[int]:
    from headwater.wire.msgpack import unpack

    row: list[int] = unpack(packed)
    return row


def _head_rows(material: Material, now: float) -> Iterator[Row]:
    """System spaces first, then election and queue (memtx_engine.cc, checkpoint_f)."""
    state, queue = material.state, material.queue
    for space_id, tuples in state.rows():
        facts = state.dictionary.space(space_id)
        begin = b"\x82\x10\xce" + space_id.to_bytes(4, "big") + b"\x21"
        for packed in tuples:
            yield Row(Type.INSERT, group_id=int(facts.is_local), timestamp=now, body=begin + packed)
    if state.version < RAFT_SINCE:
        return
    raft = encode_raft(RaftMessage(queue.term, queue.vote, group_id=1))
    lsn = queue.confirmed.get(queue.owner, 0)
    promote = encode_synchro(Synchro(Type.RAFT_PROMOTE, queue.owner, lsn, queue.queue_term, queue.confirmed))
    for row in (raft, promote):
        row.timestamp = now
        yield row


def _write(runner: Runner, states: Sequence[Reduced], count: int, staging: Staging) -> list[Fragment]:
    tasks = []
    for state in states:
        if state.rows:
            tasks.append(WriteTask(state.bucket, state.path, count, str(staging.path), staging.token))
        count += state.rows
    return runner.run(write, tasks, "writing the snapshot")


# ---- rows ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    states: list[Reduced]
    sequences: Mapping[int, int]

    def counts(self) -> dict[int, int]:
        """Space → tuples."""
        total: dict[int, int] = {}
        for state in self.states:
            for space_id, count in state.spaces.items():
                total[space_id] = total.get(space_id, 0) + count
        return total


class States:
    """The rows of all spaces of users at the point, bucket by bucket."""

    def __init__(self, runner: Runner, material: Material, staging: Staging) -> None:
        self._runner = runner
        self._material = material
        self._staging = staging
        self._distrusted: frozenset[int] = frozenset()

    def run(self) -> _Found:
        """A space whose rows lie in the snapshot in another order than that of its key is found out, and parted as the
        rows of logs are."""
        while True:
            layouter = self._layouter()
            layout = layouter.layout(self._runner.cores)
            parted = self.part(layouter, layout)
            tasks = [self.task(bucket, layout, parted) for bucket in layout.buckets]
            states = self._runner.run(reduce, [task for task in tasks if task.spaces], "applying rows")
            disordered = {state.disordered for state in states if state.disordered is not None}
            if not disordered:
                numbers = [each for one in parted for each in one.numbers]
                return _Found(states, self._material.state.sequences.values(numbers))
            self._distrusted |= disordered

    def _layouter(self) -> Layouter:
        material = self._material
        layouter = Layouter(material.state.lives, self._distrusted)
        layouter.snapshot(material.base.marks, material.base.end)
        for part in material.parts:
            size = sum(size for space_id, (_, size) in part.facts.spaces.items() if space_id > SYSTEM_MAX)
            for sample in part.facts.samples:
                layouter.sample(sample, size // len(part.facts.samples))
        return layouter

    def part(self, layouter: Layouter, layout: Layout) -> list[Parted]:
        """All rows that do not lie in order already, into their buckets."""
        timeline = Timeline(self._material.state, layout)
        tasks = list(self._snapshot_tasks(layouter, layout, timeline))
        for number, part in enumerate(self._material.parts):
            setups, epoch = timeline.at_part(number)
            stops = timeline.stops(number)
            if not setups and not stops:
                continue
            last = part.facts.beyond
            tasks.append(
                replace(
                    self._split_task(len(tasks), part.task.path, part.task.size, layout),
                    begin=part.task.begin,
                    end=part.task.end,
                    setups=setups,
                    stops=stops,
                    epoch=epoch,
                    low=part.task.low,
                    high=part.task.high,
                    dropped=tuple(self._material.cut.dropped),
                    rows_max=last.row if last is not None else part.facts.rows,
                )
            )
        return self._runner.run(split, tasks, "parting rows")

    def _snapshot_tasks(self, layouter: Layouter, layout: Layout, timeline: Timeline) -> Iterator[SplitTask]:
        """Rows of the snapshot of spaces that are not in order there."""
        base = self._material.base
        number = 0
        for begin, end, space_id in layouter.unordered_blocks():
            setup = timeline.at_snapshot(space_id)
            if setup is None:
                continue
            cuts = [mark.offset for mark in base.marks if begin < mark.offset < end]
            edges = [begin, *_thinned(cuts, begin), end]
            for one, two in pairwise(edges):
                task = self._split_task(number, base.file.path, base.file.size, layout)
                yield replace(task, begin=one, end=two, setups=(setup,))
                number += 1

    def _split_task(self, number: int, path: str, size: int, layout: Layout) -> SplitTask:
        staging = self._staging
        return SplitTask(number, path, size, 0, 0, layout.count, str(staging.path), staging.token, ())

    def task(self, bucket: Bucket, layout: Layout, parted: Sequence[Parted]) -> ReduceTask:
        pieces: list[Piece] = [piece for one in parted for piece in one.pieces if piece.bucket == bucket.number]
        base, staging, lives = self._material.base, self._staging, self._material.state.lives
        spaces = tuple(
            SpaceTask(
                each.space_id,
                lives[each.space_id].now.facts.name,
                lives[each.space_id].now.facts.is_local,
                tuple(shape(definition) for definition in lives[each.space_id].definitions),
                each.low,
                each.high,
                self._is_read_here(each.space_id, layout),
            )
            for each in bucket.stretches
        )
        parts = self._base_parts(bucket, spaces)
        made = ReduceTask(bucket.number, spaces, tuple(pieces), str(staging.path), staging.token, time.time())
        return replace(made, path=base.file.path, size=base.file.size, parts=parts) if parts else made

    def _is_read_here(self, space_id: int, layout: Layout) -> bool:
        return self._material.state.lives[space_id].since is None and space_id not in layout.unordered

    def _base_parts(self, bucket: Bucket, spaces: Sequence[SpaceTask]) -> tuple[BasePart, ...]:
        """Stretches of the snapshot between two marks; those that should hold nothing else than rows of the bucket's
        one space are joined."""
        if bucket.begin >= bucket.end:
            return ()
        only = spaces[0] if len(spaces) == 1 and spaces[0].from_snapshot else None
        marks = [mark for mark in self._material.base.marks if bucket.begin <= mark.offset < bucket.end]
        found: list[BasePart] = []
        for number, mark in enumerate(marks):
            after = marks[number + 1] if number + 1 < len(marks) else None
            inner = only is not None and after is not None and _is_inner(only, (mark, after))
            end = after.offset if after is not None else bucket.end
            if found and found[-1].is_inner == inner:
                found[-1] = BasePart(found[-1].begin, end, inner)
            else:
                found.append(BasePart(mark.offset, end, inner))
        return tuple(found)


def _thinned(offsets: Sequence[int], begin: int) -> Iterator[int]:
    """Some of the offsets, far enough from one another."""
    for offset in offsets:
        if offset - begin >= _SNAPSHOT_PART:
            yield offset
            begin = offset


def _is_inner(space: SpaceTask, marks: Sequence[object]) -> bool:
    """Do the marks at both ends stand at rows of the space that are the bucket's?"""
    from headwater.kernels.split import keys_of
    from headwater.pipeline.restore.base import Mark

    spec = space.shapes[0].key
    order = spec.order()
    for mark in marks:
        assert isinstance(mark, Mark)
        found = keys_of(mark.row, 0, {space.id: spec.fields})
        if not found or not spec.is_key(found[0][1]):
            return False
        key = order(found[0][1])
        if space.low is not None and key < order(space.low):
            return False
        if space.high is not None and key > order(space.high):
            return False
    return True


def shape(definition: Definition) -> Shape:
    assert definition.key is not None
    return Shape(definition.key, definition.facts.names, tuple(field_types(definition.facts)))
