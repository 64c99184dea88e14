"""Which snapshot to start from, and which logs lead from it to the point that is asked for.

A machine over the heads of files, and over what a survey found out about some of them. A chain prefers the logs of
the member whose snapshot it starts from, file after file; where one of them is missing or damaged, those of another
member go on: what a log holds behind a position is the same on every member, as for a replica that changes its master.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.restore.errors import Unreachable
from headwater.pipeline.restore.sources import File, Member, Sources
from headwater.vclock import VClock


@dataclass(frozen=True, slots=True)
class Target:
    """The point: a vclock, a time, or, with neither, as far as the files go."""

    vclock: VClock | None = None
    time: float | None = None

    def __str__(self) -> str:
        if self.vclock is not None:
            return str(self.vclock)
        return when(self.time) if self.time is not None else "the end of the files"


@dataclass(frozen=True, slots=True)
class Walked:
    """What reading a log has shown."""

    end: VClock
    """Behind its last good row."""
    damage: SourceDamaged | None = None
    """What is wrong behind that."""
    is_torn: bool = False
    """It is what a writer leaves that was stopped in mid-write, at the end of the file."""
    is_closed: bool = False
    """Its end marker is there: what the next log begins behind was never written (recovery.cc, recovery_open_log)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A log, as far as the chain takes it: rows behind `low`."""

    file: File
    low: VClock
    is_own: bool
    """Is it of the instance whose snapshot the chain starts from? Else its local rows are another's."""


@dataclass(slots=True)
class Chain:
    """From a snapshot on."""

    base: File
    segments: list[Segment] = field(default_factory=list)
    reached: VClock = field(default_factory=VClock)
    """As far as it is known to lead, component 0 of the base's instance included."""
    is_open: bool = False
    """The last log goes on from `reached`, and only reading it tells how far."""
    missing: Unreachable | None = None
    """Why it does not lead further, where it should."""


class Planner:
    """One point. `walked` grows as logs are read, and plans become certain."""

    def __init__(
        self, sources: Sources, target: Target, times: Mapping[str, float], is_before: Callable[[File, float], bool]
    ) -> None:
        """`times`: of the first row of each log; 0 for one that has none. `is_before`: is a snapshot of that time or of
        an earlier one?"""
        self.sources = sources
        self.target = target
        self.walked: dict[str, Walked] = {}
        self._times = times
        self._is_of = is_before

    # ---- from where

    def bases(self) -> Iterator[File]:
        """Snapshots to start from, the best first. Unreachable if the point lies before all of them."""
        candidates = [snapshot for member in self.sources.members for snapshot in member.snapshots]
        is_none = True
        for snapshot in sorted(candidates, key=lambda snapshot: -snapshot.vclock.signature):
            if self._is_before(snapshot):
                is_none = False
                yield snapshot
        if is_none:
            first = min(candidates, key=lambda snapshot: snapshot.vclock.signature)
            raise Unreachable(
                f"The point {self.target} lies before the oldest snapshot, {first.path}, which is of {first.vclock}. "
                "Give a directory with an older snapshot (--from), or a later point."
            )

    def _is_before(self, snapshot: File) -> bool:
        if self.target.vclock is not None:
            return self.target.vclock.covers(snapshot.vclock, ignore0=True)
        return self.target.time is None or self._is_of(snapshot, self.target.time)

    # ---- where to

    def best(self) -> Chain:
        """The first chain that leads all the way, by what is known. Unreachable as the best start has it."""
        failures: list[Unreachable] = []
        for base in self.bases():
            chain = self.chain(base)
            if chain.missing is None:
                return chain
            failures.append(chain.missing)
        raise failures[0]

    def chain(self, base: File) -> Chain:
        chain = Chain(base, reached=base.vclock.copy())
        log: File | None = None
        while not self._is_there(chain.reached):
            log = self._next(chain, log)
            if log is None:
                chain.missing = self._missing(chain)
                break
            if self._is_later(log):
                break
            chain.segments.append(Segment(log, chain.reached.copy(), is_own=log.instance == base.instance))
            end = self._end(log)
            if end is None:
                chain.is_open = True
                break
            chain.reached.merge(end, ignore0=log.instance != base.instance)
        return chain

    def _is_there(self, reached: VClock) -> bool:
        return self.target.vclock is not None and reached.covers(self.target.vclock, ignore0=True)

    def _is_later(self, log: File) -> bool:
        """Is its first row of a later time than the one asked for? What is behind it does not count then."""
        return self.target.time is not None and self._times.get(log.path, 0.0) > self.target.time

    def _end(self, log: File) -> VClock | None:
        """Where a log ends; None while nobody knows."""
        after = self.sources.member(log).follows(log)
        walked = self.walked.get(log.path)
        if walked is None:
            return after.vclock if after is not None else None
        end = walked.end.copy()
        if walked.is_closed and after is not None:
            end.merge(after.vclock)
        return end

    def _next(self, chain: Chain, before: File | None) -> File | None:
        """A log that goes on from where the chain is: of the same member if there is one, else the one that leads
        furthest. Local rows count only as long as the chain has not left the logs of its own member."""
        used = {segment.file.path for segment in chain.segments}
        logs = [log for log in self._logs() if log.path not in used]
        own = [log for log in logs if log.instance == chain.base.instance and self._goes_on(log, chain.reached)]
        if own:
            return max(own, key=lambda log: log.vclock.signature)
        fit = [log for log in logs if self._goes_on(log, chain.reached, ignore0=True)]
        same = [log for log in fit if before is not None and log.instance == before.instance]
        if same:
            return max(same, key=lambda log: log.vclock.signature)
        return max(fit, key=self._reach, default=None)

    def _logs(self) -> Iterator[File]:
        for member in self.sources.members:
            yield from member.logs

    def _goes_on(self, log: File, reached: VClock, *, ignore0: bool = False) -> bool:
        end = self._end(log)
        return reached.covers(log.vclock, ignore0=ignore0) and (end is None or not reached.covers(end, ignore0=ignore0))

    def _reach(self, log: File) -> int:
        end = self._end(log)
        return end.copy(ignore0=True).signature if end is not None else log.vclock.signature

    # ---- what is missing

    def _missing(self, chain: Chain) -> Unreachable | None:
        """None if the files simply end here, and that is what was asked for."""
        behind = [log for log in self._logs() if not chain.reached.covers(log.vclock, ignore0=True)]
        behind += [
            snapshot
            for member in self.sources.members
            for snapshot in member.snapshots
            if self.target.vclock is None and not chain.reached.covers(snapshot.vclock, ignore0=True)
        ]
        damage = self._damage(chain)
        if self.target.vclock is None and not behind:
            is_at_end = damage is None or (damage[1].is_torn and self.target.time is None)
            return None if is_at_end else Unreachable(self._words(chain, behind, damage))
        return Unreachable(self._words(chain, behind, damage))

    def _damage(self, chain: Chain) -> tuple[File, Walked] | None:
        """The file at whose damaged end the chain stopped."""
        for member in self.sources.members:
            for log in member.logs:
                walked = self.walked.get(log.path)
                if walked is not None and walked.damage is not None and chain.reached.covers(walked.end, ignore0=True):
                    after = [each for each in member.logs if each.vclock.signature > log.vclock.signature]
                    if all(not chain.reached.covers(each.vclock, ignore0=True) for each in after):
                        return log, walked
        return None

    def _words(self, chain: Chain, behind: Sequence[File], damage: tuple[File, Walked] | None) -> str:
        upto = self.target.vclock
        nearest = min(behind, key=lambda file: file.vclock.signature, default=None)
        if nearest is not None and (upto is None or not nearest.vclock.covers(upto, ignore0=True)):
            upto = nearest.vclock
        words = [f"The point {self.target} cannot be reached from {chain.base.path}:"]
        words.append(
            f"rows {missing_rows(chain.reached, upto)} are in none of the files." if upto else "rows are lost."
        )
        if damage is not None and damage[1].damage is not None:
            words.append(str(damage[1].damage))
        elif chain.segments:
            words.append(f"{chain.segments[-1].file.path} ends at {chain.reached}.")
        if nearest is not None:
            why = "." if damage is not None else ": the one before it is missing."
            words.append(f"The next file, {nearest.path}, begins at {nearest.vclock}{why}")
        words += [str(problem) for problem in self.sources.problems]
        words.append(self._remedy(chain))
        return " ".join(words)

    def _remedy(self, chain: Chain) -> str:
        others = [member for member in self.sources.members if member.instance != chain.base.instance]
        told = "; ".join(_extent(member) for member in others if member.logs)
        given = f" Given besides: {told}." if told else ""
        return (
            "Any member of the set that kept its logs may have them: add its directory with --from; or choose a point "
            f"up to {chain.reached}.{given}"
        )


def _extent(member: Member) -> str:
    first, last = member.logs[0], member.logs[-1]
    return (
        f"instance {member.instance} in {', '.join(member.directories)}, logs from {first.vclock} to {last.vclock} on"
    )


def missing_rows(have: VClock, upto: VClock) -> str:
    """`{1: 101..150}`."""
    parts = []
    for replica_id, lsn in upto.items():
        first = have.get(replica_id) + 1
        if replica_id and lsn >= first:
            parts.append(f"{replica_id}: {first}" + (f"..{lsn}" if lsn > first else ""))
    return "{" + ", ".join(parts) + "}"


def when(time: float | None) -> str:
    """For people: `2026-01-31 12:00:00.25 UTC`."""
    if not time:
        return "at an unknown time"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".") + " UTC"
