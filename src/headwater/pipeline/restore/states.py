"""The rows of all spaces at a point, from where they lie to states of buckets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headwater.kernels.split import keys_of
from headwater.pipeline.restore.base import Mark
from headwater.pipeline.restore.buckets import Bucket, Layout, Layouter
from headwater.pipeline.restore.facts import SYSTEM_MAX
from headwater.pipeline.restore.keyspec import field_types
from headwater.pipeline.restore.loading import reduce, strays
from headwater.pipeline.restore.material import Material
from headwater.pipeline.restore.reduce import BasePart, Edge, Reduced, ReduceTask, Shape, SpaceTask
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.split import Parted, Piece, SplitTask, split
from headwater.pipeline.restore.staging import Staging
from headwater.pipeline.restore.system import Definition
from headwater.pipeline.restore.timeline import Timeline

_SNAPSHOT_PART = 16 << 20


@dataclass(slots=True)
class Found:
    states: list[Reduced]
    sequences: Mapping[int, int]
    """Their values."""


class States:
    """The rows of all spaces of users at the point, bucket by bucket."""

    def __init__(
        self, runner: Runner, material: Material, staging: Staging, *, spaces: frozenset[int] | None = None
    ) -> None:
        """`spaces`: only these."""
        self._runner = runner
        self._material = material
        self._staging = staging
        self.lives = {
            space_id: life for space_id, life in material.state.lives.items() if spaces is None or space_id in spaces
        }
        self.distrusted: frozenset[int] = frozenset()
        """Spaces whose rows in the snapshot are not to be believed to be in order."""

    def run(self) -> Found:
        """A space whose rows lie in the snapshot in another order than that of its key is found out, and parted as the
        rows of logs are."""
        while True:
            layouter = self.layouter()
            layout = layouter.layout(self._runner.cores)
            parted = self.part(layouter, layout)
            tasks = [self.task(bucket, layout, parted) for bucket in layout.buckets]
            states = self._runner.run(reduce, [task for task in tasks if task.spaces], "applying rows")
            disordered = self.strays([edge for state in states for edge in state.edges], layout)
            if not disordered:
                numbers = [each for one in parted for each in one.numbers]
                return Found(states, self._material.state.sequences.values(numbers))
            self.distrusted |= disordered

    def strays(self, edges: Sequence[Edge], layout: Layout) -> set[int]:
        """Spaces that are not in order in the snapshot, by what tasks have seen of it."""
        return strays(edges, [space_id for space_id in layout.first if self._is_read_here(space_id, layout)])

    def layouter(self) -> Layouter:
        """Knows what lies where."""
        material = self._material
        layouter = Layouter(self.lives, self.distrusted)
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
        base, staging, lives = self._material.base, self._staging, self.lives
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
        return self.lives[space_id].since is None and space_id not in layout.unordered

    def _base_parts(self, bucket: Bucket, spaces: Sequence[SpaceTask]) -> tuple[BasePart, ...]:
        """Stretches of the snapshot between two marks; those that should hold nothing else than rows of the bucket's
        one space are joined, the others are told one by one."""
        if bucket.begin >= bucket.end:
            return ()
        only = spaces[0] if len(spaces) == 1 and spaces[0].from_snapshot else None
        marks = [mark for mark in self._material.base.marks if bucket.begin <= mark.offset < bucket.end]
        found: list[BasePart] = []
        for number, mark in enumerate(marks):
            after = marks[number + 1] if number + 1 < len(marks) else None
            inner = only is not None and after is not None and _is_inner(only, (mark, after))
            end = after.offset if after is not None else bucket.end
            if found and found[-1].is_inner and inner:
                found[-1] = BasePart(found[-1].begin, end, is_inner=True)
            else:
                found.append(BasePart(mark.offset, end, inner))
        return tuple(found)


def _thinned(offsets: Sequence[int], begin: int) -> Iterator[int]:
    """Some of the offsets, far enough from one another."""
    for offset in offsets:
        if offset - begin >= _SNAPSHOT_PART:
            yield offset
            begin = offset


def _is_inner(space: SpaceTask, marks: Sequence[Mark]) -> bool:
    """Do the marks at both ends stand at rows of the space that are the bucket's?"""
    spec = space.shapes[0].key
    order = spec.order()
    for mark in marks:
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
