"""Do replicas, files and a lake hold the same data at one vclock?

Every place is brought to the same vclock: a live server by its snapshot and the changes behind it, a directory by its
files. A difference that is told is one: nothing is compared that the other place has not got yet, however much is
written meanwhile. A place that does not come to the vclock is an error, not a difference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from headwater.pipeline.auditcompare import Difference, Range, RangeTask, compare
from headwater.pipeline.auditlive import Count
from headwater.pipeline.auditplaces import Kind, Place, place, settle
from headwater.pipeline.errors import NotThere, OptionError
from headwater.pipeline.restore.buckets import Layout
from headwater.pipeline.restore.keyspec import KeySpec
from headwater.pipeline.restore.material import Material
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.reduce import ReduceTask
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.staging import Staging
from headwater.pipeline.restore.states import States
from headwater.pipeline.restore.system import SystemState
from headwater.store import system
from headwater.vclock import VClock
from headwater.wire.msgpack import unpack

_U64 = (1 << 64) - 1
_OF_SPACES = frozenset((system.SPACE, system.INDEX, system.TRUNCATE, system.SPACE_SEQUENCE, 364, 372))
"""System spaces whose first field is the id of the space that a row is about."""
_IDENTITY = frozenset(("cluster", "replicaset_uuid", "bootstrap_leader_uuid"))
_OF_LAKE = frozenset((int(system.SPACE), int(system.INDEX)))
"""What a lake knows of the system."""


@dataclass(frozen=True, slots=True)
class AuditWish:
    places: tuple[str, ...]
    at: Target = field(default_factory=Target)
    """Of directories, where nothing else says it."""
    spaces: frozenset[str] = frozenset()
    """By name or id; empty for all."""
    system: bool = True
    across_sets: bool = False
    """They need not be of one replica set: who they are is not compared."""
    replicaset: str = ""
    """Of a lake with several."""
    limit: int = 10
    timeout: float = 60.0
    spool: str = ""
    """Where data of live servers go; a temporary directory without."""


@dataclass(slots=True)
class SpaceAudit:
    """One space at all places."""

    name: str
    rows: list[int | None]
    """At each place; None: it is not there."""
    sums: list[int]
    differing: int = 0
    differences: list[Difference] = field(default_factory=list)
    note: str = ""

    @property
    def is_same(self) -> bool:
        return not self.differing and not self.note and None not in self.rows


@dataclass(slots=True)
class Audit:
    """What was found."""

    places: list[Place]
    vclock: VClock
    spaces: list[SpaceAudit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        return all(space.is_same for space in self.spaces)


def audit(runner: Runner, wish: AuditWish, count: Count = lambda rows: None) -> Audit:
    """PipelineError and its kin where something cannot be compared."""
    if len(wish.places) < 2:
        raise OptionError("Two places at least are compared.")
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-audit-", dir=wish.spool or None))
        staging = Staging(Path(directory) / "rows")
        stack.enter_context(staging.open())
        places = [
            stack.enter_context(closing(place(text, number, Path(directory), wish.timeout, wish.replicaset)))
            for number, text in enumerate(wish.places)
        ]
        vclock, materials = settle(runner, places, wish.at, count)
        made = Audit(places, vclock)
        if not wish.across_sets:
            _check_set(made, materials)
        chosen = _chosen(materials, wish)
        if wish.system:
            made.spaces += _system(made, materials, wish)
        made.spaces += _Users(runner, places, materials, staging, chosen, wish.limit).run()
        made.notes += _notes(made, materials)
        return made


def _check_set(made: Audit, materials: Sequence[Material]) -> None:
    sets = {
        each.name: uuid
        for each, material in zip(made.places, materials, strict=True)
        if (uuid := material.state.replicaset) is not None
    }
    if len(set(sets.values())) > 1:
        told = ", ".join(f"{name} is of {uuid}" for name, uuid in sets.items())
        raise OptionError(f"They are of different replica sets: {told}. With --across-sets that does not count.")


def _chosen(materials: Sequence[Material], wish: AuditWish) -> dict[int, str]:
    """Spaces of users that are compared, by id: those that every member should have."""
    found: dict[int, str] = {}
    for material in materials:
        for space_id, life in material.state.lives.items():
            facts = life.now.facts
            if not facts.is_local and life.now.key is not None:
                found.setdefault(space_id, facts.name)
    if not wish.spaces:
        return found
    system_names = {facts.name for material in materials for facts in material.state.dictionary.spaces}
    unknown = [each for each in wish.spaces if each not in {*found.values(), *map(str, found), *system_names}]
    if unknown:
        raise NotThere(f"There is no space '{unknown[0]}' at any of the places.")
    return {number: name for number, name in found.items() if wish.spaces & {name, str(number)}}


# ---- system spaces ---------------------------------------------------------------------------------


def _system(made: Audit, materials: Sequence[Material], wish: AuditWish) -> Iterator[SpaceAudit]:
    """By the driver: they are small."""
    for space_id in sorted({number for material in materials for number in material.state.tuples}):
        sides: list[dict[bytes, bytes] | None] = []
        name = ""
        for each, material in zip(made.places, materials, strict=True):
            facts = material.state.dictionary.find(space_id)
            is_told = each.has_system or space_id in _OF_LAKE
            if facts is None or not is_told:
                sides.append(None)
                continue
            name = facts.name
            is_own = facts.is_local or facts.is_temporary or space_id == system.SEQUENCE_DATA
            sides.append({} if is_own else _shared(material.state, space_id, wish))
        wanted = not wish.spaces or wish.spaces & {name, str(space_id)}
        if wanted and any(sides):
            yield _compared(name, sides, wish.limit)


def _shared(state: SystemState, space_id: int, wish: AuditWish) -> dict[bytes, bytes]:
    """Rows that every member should have."""
    alone = {facts.id for facts in state.dictionary.spaces if facts.is_local or facts.is_temporary}
    found = {}
    for key, packed in state.tuples.get(space_id, {}).items():
        row = unpack(packed)
        if space_id in _OF_SPACES and (row[0] >= system.TEMPORARY_ID_MIN or row[0] in system.OWN_SPACES):
            continue
        if space_id == system.TRUNCATE and row[0] in alone:
            continue
        if wish.across_sets and (space_id == system.CLUSTER or (space_id == system.SCHEMA and row[0] in _IDENTITY)):
            continue
        found[key] = packed
    return found


def _compared(name: str, sides: Sequence[Mapping[bytes, bytes] | None], limit: int) -> SpaceAudit:
    present = [side for side in sides if side is not None]
    made = SpaceAudit(name, [0 if side is None else len(side) for side in sides], [])
    for key in sorted({key for side in present for key in side}):
        tuples = tuple(side.get(key) if side is not None else None for side in sides)
        told = [each for each, side in zip(tuples, sides, strict=True) if side is not None]
        if any(each != told[0] for each in told):
            made.differing += 1
            if not limit or len(made.differences) < limit:
                made.differences.append(Difference(key, tuples))
    return made


def _notes(made: Audit, materials: Sequence[Material]) -> Iterator[str]:
    """What to think of before the verdict is believed."""
    for each, material in zip(made.places, materials, strict=True):
        if not each.has_system:
            yield f"{each.letter}: silver has no system spaces; of them only definitions are compared"
        for note in material.notes:
            yield f"{each.letter}: {note}"


# ---- spaces of users -------------------------------------------------------------------------------


class _Users:
    """Key range by key range."""

    def __init__(
        self,
        runner: Runner,
        places: Sequence[Place],
        materials: Sequence[Material],
        staging: Staging,
        chosen: Mapping[int, str],
        limit: int,
    ) -> None:
        self._runner = runner
        self._materials = materials
        self._limit = limit
        self._chosen = chosen
        self._keys = [self._keys_of(material) for material in materials]
        same = frozenset(number for number in chosen if len(self._shapes(number)) == 1)
        self._sides = [States(runner, material, staging, spaces=same) for material in materials]
        for side, each in zip(self._sides, places, strict=True):
            if each.kind is Kind.SILVER:
                side.distrusted = frozenset(side.lives)

    def _keys_of(self, material: Material) -> dict[int, KeySpec | None]:
        lives = material.state.lives
        return {number: lives[number].now.key for number in self._chosen if number in lives}

    def _shapes(self, number: int) -> set[KeySpec | None]:
        """Primary keys that the space has, here or there."""
        return {keys[number] for keys in self._keys if number in keys}

    def run(self) -> Iterator[SpaceAudit]:
        ranges = self._ranges()
        for number, name in sorted(self._chosen.items()):
            present = [number in keys for keys in self._keys]
            if len(self._shapes(number)) > 1:
                made = SpaceAudit(name, [0 if here else None for here in present], [])
                made.note = "its primary key is not the same everywhere, so its tuples are not compared"
                yield made
                continue
            yield self._sum(number, name, present, ranges)

    def _ranges(self) -> list[Range]:
        while True:
            layouters = [side.layouter() for side in self._sides]
            widest = max(layouters, key=lambda each: each.weight)
            layout = widest.layout(self._runner.cores)
            missing = set().union(*(side.lives for side in self._sides)) - set(layout.first)
            layout = layout.with_spaces(sorted(missing))
            tasks: list[list[ReduceTask]] = [[] for _ in layout.buckets]
            layouts = [layouter.alike(layout) for layouter in layouters]
            for side, layouter, own in zip(self._sides, layouters, layouts, strict=True):
                parted = side.part(layouter, own)
                for bucket in own.buckets:
                    tasks[bucket.number].append(side.task(bucket, own, parted))
            pieces = [RangeTask(number, tuple(sides), self._limit) for number, sides in enumerate(tasks)]
            ranges = self._runner.run(compare, pieces, "comparing")
            if not self._distrust(ranges, layouts):
                return ranges

    def _distrust(self, ranges: Sequence[Range], layouts: Sequence[Layout]) -> bool:
        """Spaces whose rows turned out to be in no order in a snapshot. Were there any?"""
        is_new = False
        for place_, (side, layout) in enumerate(zip(self._sides, layouts, strict=True)):
            edges = [edge for found in ranges for edge in found.edges[place_]]
            strays = side.strays(edges, layout)
            is_new = is_new or bool(strays)
            side.distrusted |= strays
        return is_new

    def _sum(self, number: int, name: str, present: Sequence[bool], ranges: Sequence[Range]) -> SpaceAudit:
        rows, sums = [0] * len(present), [0] * len(present)
        made = SpaceAudit(name, [], sums)
        for space in (space for found in ranges for space in found.spaces if space.space_id == number):
            for at, (count, sum_) in enumerate(zip(space.rows, space.sums, strict=True)):
                rows[at] += count
                sums[at] = (sums[at] + sum_) & _U64
            made.differing += space.differing
            made.differences += space.differences
        made.rows = [count if here else None for count, here in zip(rows, present, strict=True)]
        if self._limit:
            del made.differences[self._limit :]
        return made
