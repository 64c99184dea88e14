"""All that is known of a point before a row of a user's space is moved: the snapshot, the parts of the logs behind it,
where they are cut, and the system spaces there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headwater.pipeline.blocks import Part, parts
from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.restore.base import Base, first_time, read_base
from headwater.pipeline.restore.cut import Cut, QueueState, cut, notable_rows
from headwater.pipeline.restore.errors import Unreachable, UnsafePoint
from headwater.pipeline.restore.facts import FREE, NO_LIMIT, PartFacts, PartTask
from headwater.pipeline.restore.plan import Chain, Planner, Segment, Target, Walked, missing_rows, when
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.sources import File, Member, Sources
from headwater.pipeline.restore.survey import survey
from headwater.pipeline.restore.system import SystemState
from headwater.pipeline.storage import Storage
from headwater.vclock import VClock
from headwater.wire.constants import Type

PART_BYTES = 16 << 20
"""A log is read in parts of this size, as it lies on the disk."""
SAMPLE_BYTES = 1 << 20
"""Of so many bytes of rows one row tells where keys lie."""
TELLS_SYNC = (2, 6, 2)
"""Rows say themselves that they wait for a quorum where the system spaces are newer."""
Say = Callable[[str], None]


@dataclass(slots=True)
class LogPart:
    """A part of a log, and what it says."""

    task: PartTask
    facts: PartFacts
    is_own: bool
    """Are its local rows those of the instance whose snapshot it is?"""


@dataclass(slots=True)
class Material:
    target: Target
    sources: Sources
    chain: Chain
    base: Base
    parts: list[LogPart]
    """Those that have rows before the point, in order."""
    cut: Cut
    state: SystemState
    queue: QueueState
    notes: list[str] = field(default_factory=list)
    """What to think of before the point is relied on."""

    @property
    def vclock(self) -> VClock:
        return self.cut.reached


def gather(runner: Runner, sources: Sources, target: Target) -> Material:
    """SourceDamaged and Unreachable name the file, the offset and the rows that are in the way."""
    return _Gathering(runner, sources, target).run()


class _Gathering:
    """One point."""

    def __init__(self, runner: Runner, sources: Sources, target: Target) -> None:
        self._runner = runner
        self._sources = sources
        self._target = target
        files = [file for member in sources.members for file in (*member.snapshots, *member.logs)]
        self._times = {file.path: first_time(file) for file in files}
        self._planner = Planner(sources, target, self._times, self._is_before)
        self._before: dict[str, bool] = {}
        self._bases: dict[str, Base] = {}
        self._facts: dict[PartTask, PartFacts] = {}
        self._sync_spaces: tuple[int, ...] = ()
        self._high: list[int] = list(FREE)
        self._skips = False
        self._waiting = 0
        """So many transactions wait at the point."""
        if target.vclock is not None:
            self._high = [int(target.vclock.get(number)) for number in range(32)]
            self._high[0] = target.vclock.get(0) or NO_LIMIT
        self._until = target.time if target.time is not None else float("inf")

    def run(self) -> Material:
        while True:
            chain, base, found = self._chain()
            found, end = self._before_open(base, found)
            made = self._material(chain, base, found, end)
            self._refuse_strangers(made)
            unseen = self._unseen_sync(made.state)
            if not unseen:
                return made
            self._sync_spaces = unseen

    # ---- times

    def _is_before(self, snapshot: File, time: float) -> bool:
        """Rows of a snapshot do not tell when it was made: Tarantool writes the time of the first one that the process
        made (memtx_engine.cc, checkpoint_write_row). The logs around it do."""
        if snapshot.path not in self._before:
            self._before[snapshot.path] = self._was_before(snapshot, time)
        return self._before[snapshot.path]

    def _was_before(self, snapshot: File, time: float) -> bool:
        logs = self._sources.member(snapshot).logs
        after = [self._times[log.path] for log in logs if log.vclock.covers(snapshot.vclock)]
        if any(0 < begin <= time for begin in after):
            return True
        before = [log for log in logs if not log.vclock.covers(snapshot.vclock)]
        if before:
            segment = Segment(before[-1], VClock(), is_own=True)
            high = tuple(snapshot.vclock.get(number) for number in range(32))
            tasks = [replace(task, high=high, until=float("inf"), skips=False) for task in self._tasks(segment)]
            facts = self._runner.run(survey, tasks, "reading when a snapshot was made")
            if any(each.kept for each in facts):
                return max(each.end for each in facts if each.kept) <= time
        return self._times[snapshot.path] <= time

    # ---- the chain

    def _chain(self) -> tuple[Chain, Base, list[LogPart]]:
        """A chain that leads to the point, by all that reading it has shown."""
        while True:
            chain = self._planner.best()
            base = self._base(chain.base)
            if base is None:
                continue
            found = self._survey(chain.segments)
            is_new = self._learn(chain.segments, found)
            end = _cut(base, found)
            if end.beyond is None and is_new:
                continue
            if self._falls_short(end) and not self._skips:
                self._skips = True
                self._high[0] = min(self._high[0], end.reached.get(0))
                continue
            if end.beyond is None and self._falls_short(end):
                raise self._unreached(chain, end)
            return chain, base, found

    def _falls_short(self, end: Cut) -> bool:
        """Are there rows of the point behind the first one that is not?"""
        wanted = self._target.vclock
        if wanted is None or end.reached.covers(wanted, ignore0=True):
            return False
        inside = end.beyond is not None and end.beyond.first <= wanted.get(end.beyond.replica_id)
        if inside and end.beyond is not None:
            wanted = wanted.copy()
            wanted.reset(end.beyond.replica_id, end.beyond.first - 1)
        return not end.reached.covers(wanted, ignore0=True)

    def _unreached(self, chain: Chain, end: Cut) -> Unreachable:
        wanted = self._target.vclock or VClock()
        return Unreachable(
            f"The point {self._target} cannot be reached from {chain.base.path}: rows "
            f"{missing_rows(end.reached, wanted)} are in none of the files. They lead to {end.reached}."
        )

    def _base(self, file: File) -> Base | None:
        """None if it is damaged: then it does not count any more."""
        if file.path not in self._bases:
            try:
                self._bases[file.path] = read_base(file)
            except SourceDamaged as error:
                self._sources.problems.append(error)
                self._sources.member(file).snapshots.remove(file)
                if not any(member.snapshots for member in self._sources.members):
                    raise
                return None
        return self._bases[file.path]

    def _survey(self, segments: Sequence[Segment]) -> list[LogPart]:
        tasks = [(task, segment.is_own) for segment in segments for task in self._tasks(segment)]
        missing = [task for task, _ in tasks if task not in self._facts]
        answers = self._runner.run(survey, missing, "reading the logs")
        self._facts.update(zip(missing, answers, strict=True))
        return [LogPart(task, self._facts[task], is_own) for task, is_own in tasks]

    def _tasks(self, segment: Segment) -> list[PartTask]:
        file = segment.file
        low = [int(segment.low.get(number)) for number in range(32)]
        if not segment.is_own:
            low[0] = NO_LIMIT
        source = Storage().open(file.path, file.size)
        try:
            borders: list[Part] = parts(source, file.begin, PART_BYTES)
        finally:
            source.close()
        common = PartTask(
            file.path,
            file.size,
            0,
            0,
            None,
            tuple(low),
            tuple(self._high),
            self._until,
            self._sync_spaces,
            SAMPLE_BYTES,
            skips=self._skips,
        )
        return [replace(common, begin=part.begin, end=part.end, before=part.before) for part in borders]

    def _learn(self, segments: Sequence[Segment], found: Sequence[LogPart]) -> bool:
        """What the logs turned out to be goes into the plan. Did that say anything new?"""
        is_new = False
        for segment in segments:
            facts = [part.facts for part in found if part.task.path == segment.file.path]
            if any(each.beyond is not None for each in facts):
                continue
            walked = _walked(segment.file, facts)
            known = self._planner.walked.get(segment.file.path)
            if known is None or (known.end, known.is_closed) != (walked.end, walked.is_closed):
                self._planner.walked[segment.file.path] = walked
                is_new = True
        return is_new

    # ---- where it is cut

    def _before_open(self, base: Base, found: list[LogPart]) -> tuple[list[LogPart], Cut]:
        """Parts and facts up to the first transaction that still waits at the point. What became of those before it is
        known from what stands between it and the point."""
        end = _cut(base, found)
        found = found[: end.parts]
        self._waiting = len(end.open)
        if not end.open:
            return found, end
        if self._skips:
            raise UnsafePoint(
                f"{self._target} lies among transactions that wait for a quorum, and no member of these was ever "
                "exactly there. Choose a point that one of them was at, or a time."
            )
        first = end.open[0]
        last = found[first.place.part]
        high = list(last.task.high)
        high[first.owner] = first.first - 1
        task = replace(last.task, high=tuple(high))
        found = [*found[: first.place.part], LogPart(task, survey(task), last.is_own)]
        before = _cut(base, found)
        before.dropped, before.confirmed, before.open = end.dropped, end.confirmed, []
        return found, before

    def _material(self, chain: Chain, base: Base, found: list[LogPart], end: Cut) -> Material:
        state, queue = SystemState(base.system), QueueState()
        for row in base.specials:
            queue.take(row)
        for place, row in notable_rows([part.facts for part in found], end.dropped):
            if row.type in (Type.RAFT, Type.RAFT_PROMOTE, Type.RAFT_DEMOTE, Type.RAFT_ROLLBACK):
                queue.take(row, is_own=found[place.part].is_own)
            else:
                state.apply(row, place)
        for owner, lsn in end.confirmed.items():
            queue.confirmed[owner] = max(lsn, queue.confirmed.get(owner, 0))
        made = Material(self._target, self._sources, chain, base, found, end, state, queue)
        made.notes += self._notes(made)
        return made

    def _unseen_sync(self, state: SystemState) -> tuple[int, ...]:
        """Synchronous spaces of a version whose rows do not say that they wait, if they were not known."""
        if state.version >= TELLS_SYNC:
            return ()
        spaces = tuple(sorted(facts.id for facts in state.dictionary.spaces if facts.is_sync and not facts.is_system))
        return spaces if spaces != self._sync_spaces else ()

    def _refuse_strangers(self, made: Material) -> None:
        """SourceDamaged for files of another replica set."""
        known = {str(row[1]) for row in made.state.cluster().values()}
        for member in list(self._sources.members):
            if member.instance == made.base.file.instance or member.instance in self._sources.trusted:
                continue
            replicaset = self._replicaset(member)
            if replicaset == made.state.replicaset or (replicaset is None and str(member.instance) in known):
                continue
            file = (member.snapshots or member.logs)[-1]
            is_of = f"of the replica set {replicaset}" if replicaset is not None else "of no member of it"
            words = f"a foreign file: {made.base.file.path} is of the replica set {made.state.replicaset}, this {is_of}"
            remedy = "Give the directories of one set alone (--from)."
            raise SourceDamaged(file.path, 0, None, f"{words} (instance {member.instance})", remedy)

    def _replicaset(self, member: Member) -> str | None:
        """As its snapshot says; None without one."""
        for snapshot in member.snapshots[::-1]:
            base = self._base(snapshot)
            if base is not None:
                return SystemState(base.system).replicaset
        return None

    # ---- what to say

    def _notes(self, made: Material) -> list[str]:
        notes = [*self._sources.notes]
        beyond, wanted = made.cut.beyond, self._target.vclock
        if beyond is not None and self._waiting:
            notes.append(
                f"{self._waiting} transactions wait at the point for a quorum, or for those before them, from "
                f"{{{beyond.replica_id}: {beyond.first}}} on: they are left out, and what is built ends before them."
            )
        elif beyond is not None and wanted is not None and beyond.first <= wanted.get(beyond.replica_id) < beyond.last:
            inside = f"{{{beyond.replica_id}: {beyond.first}..{beyond.last}}}"
            notes.append(f"{wanted} lies inside the transaction {inside}: it is left out whole.")
        if made.cut.dropped:
            notes.append(f"{len(made.cut.dropped)} transactions were rolled back for want of a quorum: left out.")
        skipped = sum(part.facts.skipped for part in made.parts)
        if skipped:
            notes.append(
                f"No member of these was ever exactly at {wanted}: {skipped:,} rows that came between are left out, as "
                "a member would lack them whose links were slow."
            )
        return notes + self._file_notes(made)

    def _file_notes(self, made: Material) -> list[str]:
        notes = [str(problem) for problem in self._sources.problems]
        others = [part.task.path for part in made.parts if not part.is_own]
        if others:
            notes.append(
                f"From {others[0]} on the logs of another member are used. Local spaces are as the logs of "
                f"{made.base.file.instance} left them."
            )
        damage = next((part.facts.damage for part in made.parts if part.facts.damage is not None), None)
        if damage is not None:
            notes.append(f"{damage} What is behind it was never acknowledged by this member, or is lost.")
        last = max((part.facts.end for part in made.parts), default=made.base.time)
        if self._target.time is not None and made.cut.beyond is None and last:
            notes.append(f"The files end before {when(self._target.time)}: their last row is of {when(last)}.")
        return notes


def _cut(base: Base, found: Sequence[LogPart]) -> Cut:
    return cut(base.file.vclock, [part.facts for part in found], [part.is_own for part in found])


def _walked(file: File, facts: Sequence[PartFacts]) -> Walked:
    end = file.vclock.copy()
    damage, is_torn = None, False
    for each in facts:
        end.merge(VClock(each.last))
        if each.damage is not None:
            damage, is_torn = each.damage, each.is_torn
            break
    is_closed = bool(facts) and facts[-1].is_closed and damage is None
    return Walked(end, damage, is_torn, is_closed)
