"""A key range of all places side by side; runs in a task.

Each place's rows are brought to their state by themselves, as in a restore. What is equal byte by byte needs no second
look; of a space that is not, the tuples that differ are found by their keys. Every tuple is hashed, and hashes are
added up: the sums of key ranges make the checksum of a space, in whatever order and pieces it was read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headwater.kernels.columns import hash_tuples
from headwater.kernels.split import tuples_of
from headwater.pipeline.restore.loading import load
from headwater.pipeline.restore.reduce import Edge, ReduceTask, SpaceTask, State, read_piece
from headwater.pipeline.restore.staging import check_token

_U64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RangeTask:
    """One key range."""

    number: int
    sides: tuple[ReduceTask, ...]
    """What each place has of it."""
    limit: int
    """So many differences of a space are shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One primary key."""

    key: bytes
    tuples: tuple[bytes | None, ...]
    """What each place has under it."""


@dataclass(slots=True)
class SpaceRange:
    """A space in a key range."""

    space_id: int
    rows: tuple[int, ...]
    """At each place."""
    sums: tuple[int, ...]
    """Of the hashes, modulo 2^64."""
    differing: int = 0
    """Keys under which not all have the same."""
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class Range:
    number: int
    spaces: list[SpaceRange] = field(default_factory=list)
    edges: list[list[Edge]] = field(default_factory=list)
    """By place: what was found in blocks of its snapshot that other ranges read, too."""


def compare(task: RangeTask) -> Range:
    states: list[State] = []
    edges: list[list[Edge]] = []
    for side in task.sides:
        check_token(side.staging, side.token)
        state = State(side.spaces)
        edges.append(load(side, state))
        for piece in side.pieces:
            state.apply(read_piece(piece))
        states.append(state)
    known = {space.id: space for side in task.sides for space in side.spaces}
    return Range(task.number, [_compare(known[number], states, task.limit) for number in sorted(known)], edges)


def _compare(space: SpaceTask, states: Sequence[State], limit: int) -> SpaceRange:
    packed = [tuples_of(state.dump(space.id), 0) for state in states]
    rows = tuple(len(offsets) // 4 - 1 for offsets, _ in packed)
    sums = tuple(_sum(offsets, data) for offsets, data in packed)
    made = SpaceRange(space.id, rows, sums)
    if any(each != packed[0] for each in packed):
        for difference in _differences(space, packed):
            made.differing += 1
            if not limit or len(made.differences) < limit:
                made.differences.append(difference)
    return made


def _sum(offsets: bytes, data: bytes) -> int:
    count = len(offsets) // 4 - 1
    hashes: tuple[int, ...] = struct.unpack(f"<{count}Q", hash_tuples(offsets, data, 0, count))
    return sum(hashes) & _U64


def _differences(space: SpaceTask, packed: Sequence[tuple[bytes, bytes]]) -> Iterator[Difference]:
    """In the order of the keys, as far as one place has them."""
    key_def = space.shapes[-1].key.key_def()
    sides = []
    for offsets, data in packed:
        ends = struct.unpack(f"<{len(offsets) // 4}I", offsets)
        tuples = (data[begin:end] for begin, end in pairwise(ends))
        sides.append({key_def.extract(each): each for each in tuples})
    for key in sorted(dict.fromkeys(key for side in sides for key in side), key=space.shapes[-1].key.order()):
        found = tuple(side.get(key) for side in sides)
        if any(each != found[0] for each in found):
            yield Difference(key, found)
