"""A bucket's rows of the snapshot, read where they lie, and then those of the logs; runs in a task.

The rows of a snapshot are in the order of space and key: a server writes them so. It is not taken on trust. Between two
marks within one space of one bucket all rows must be the bucket's; in blocks at an edge every row must be that of one
of the buckets that read them, which the driver sees from their counts. A space that fails is parted as logs are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from uuid import uuid4

from headwater.kernels.split import RowError, Splitter, Stop, Survey
from headwater.pipeline.blocks import Blocks
from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.restore.facts import FREE
from headwater.pipeline.restore.reduce import BasePart, Edge, Reduced, ReduceTask, SpaceTask, State, read_piece
from headwater.pipeline.restore.staging import check_token
from headwater.pipeline.restore.survey import REMEDY, opened

_ALL = (-1,) * 32
STRAY = -1


def reduce(task: ReduceTask) -> Reduced:
    """Unfit where rows contradict each other."""
    check_token(task.staging, task.token)
    state = State(task.spaces, are_given=task.are_given)
    edges = load(task, state)
    for piece in task.pieces:
        state.apply(read_piece(piece))
    path = os.path.join(task.staging, f"state-{task.bucket:06}-{uuid4().hex}")
    size = rows = 0
    with open(path, "wb") as out:
        for data, count in state.rows(task.time):
            out.write(data)
            size, rows = size + len(data), rows + count
    return Reduced(task.bucket, path, size, rows, state.counts(), edges)


def load(task: ReduceTask, state: State) -> list[Edge]:
    """Into `state`; what was seen at edges."""
    wanted = [space for space in task.spaces if space.from_snapshot]
    splitters = [(space, _splitter(space)) for space in wanted]
    edges: list[Edge] = []
    if not task.parts:
        return edges
    with opened(task.path, task.size) as blocks:
        for part in task.parts:
            blocks.seek(part.begin)
            if part.is_inner:
                for rows in blocks.read(part.end):
                    state.apply(rows)
            else:
                edges.append(_edge(blocks, part, splitters, state))
    strays = {space.id: STRAY for space in wanted if not state.is_inside(space)}
    return [*edges, Edge(task.parts[0].begin, {}, strays)] if strays else edges


def _edge(blocks: Blocks, part: BasePart, splitters: Sequence[tuple[SpaceTask, Splitter]], state: State) -> Edge:
    survey = Survey(_ALL, FREE, float("inf"), -1)
    own: dict[int, int] = {}
    for rows in blocks.read(part.end):
        try:
            _count(survey, rows)
            for space, splitter in splitters:
                splitter.split(rows, 0, 1 << 62)
                for bucket, data, count in splitter.take():
                    if bucket == 1:
                        state.apply(data)
                        own[space.id] = own.get(space.id, 0) + count
        except RowError as error:
            where = blocks.locate(error.offset)
            raise SourceDamaged(blocks.path, where, error.lsn or None, error.reason, REMEDY) from None
    return Edge(part.begin, {number: count for number, (count, _) in survey.spaces().items()}, own)


def _count(survey: Survey, rows: bytes) -> None:
    at, why = 0, int(Stop.WORD)
    while why == Stop.WORD:
        at, why = survey.walk(rows, at)


def _splitter(space: SpaceTask) -> Splitter:
    """Three buckets: below, inside, above."""
    splitter = Splitter(3)
    bounds = [bound for bound in (space.low, space.high) if bound is not None]
    splitter.set_space(space.id, space.shapes[0].key.split_parts(), bounds, 1 if space.low is None else 0)
    return splitter


def strays(edges: Sequence[Edge], spaces: Sequence[int]) -> set[int]:
    """Which of the spaces have rows that are not where their order says, by what all buckets have seen."""
    found = {number for edge in edges for number, count in edge.own.items() if count == STRAY}
    kept: dict[tuple[int, int], int] = {}
    there: dict[tuple[int, int], int] = {}
    for edge in edges:
        for number in spaces:
            place = (edge.begin, number)
            there[place] = max(there.get(place, 0), edge.rows.get(number, 0))
            kept[place] = kept.get(place, 0) + max(0, edge.own.get(number, 0))
    return found | {number for (begin, number), count in there.items() if kept[begin, number] != count}
