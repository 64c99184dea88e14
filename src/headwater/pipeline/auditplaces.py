"""What is compared: live servers, data directories, snapshots, the silver of a lake. Each becomes files that lead to
one vclock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headwater.pipeline.auditlake import silver_set, spool_silver
from headwater.pipeline.auditlive import Count, LiveServer
from headwater.pipeline.errors import NotThere, PipelineError
from headwater.pipeline.restore.material import Material, gather
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.sources import Member, Sources, scan
from headwater.uri import parse_uri
from headwater.vclock import VClock

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Kind(Enum):
    LIVE = "live"
    DIRECTORY = "directory"
    SNAPSHOT = "snapshot"
    SILVER = "silver"


@dataclass(slots=True)
class Place:
    """One of those that are compared."""

    name: str
    letter: str
    kind: Kind
    sources: Sources | None = None
    """Its files; of a live server, and of a lake, those that were made of it."""
    position: VClock | None = None
    """Of what it has as it stands; a directory can go back from there."""
    server: LiveServer | None = None

    @property
    def is_fixed(self) -> bool:
        """Has it only what it holds at one position?"""
        return self.kind is not Kind.DIRECTORY

    @property
    def has_system(self) -> bool:
        """Does it hold the rows of system spaces, too?"""
        return self.kind is not Kind.SILVER

    def close(self) -> None:
        if self.server is not None:
            self.server.close()


def place(text: str, number: int, spool: Path, timeout: float, replicaset: str) -> Place:
    """What the text names. NotThere, UriError or PipelineError if that is nothing."""
    if number >= len(LETTERS):
        raise PipelineError(f"At most {len(LETTERS)} places are compared at once.")
    letter, path = LETTERS[number], Path(text)
    if path.suffix == ".snap":
        sources = scan([text])
        return Place(text, letter, Kind.SNAPSHOT, sources, _newest(sources))
    if path.is_dir():
        if (path / "_headwater" / "lake.json").exists():
            return _silver(text, letter, spool / letter, replicaset)
        return Place(text, letter, Kind.DIRECTORY, scan([text]))
    if path.exists() and not path.is_socket():
        raise NotThere(f"{text} is neither a directory nor a .snap file.")
    if "/" in text and not text.startswith("unix") and "@" not in text:
        raise NotThere(f"{text} does not exist.")
    server = LiveServer(parse_uri(text), spool / letter, timeout)
    return Place(str(server.uri), letter, Kind.LIVE, server=server)


def _silver(text: str, letter: str, spool: Path, replicaset: str) -> Place:
    found = silver_set(Path(text), replicaset)
    spool_silver(found, spool)
    sources = scan([str(spool)])
    return Place(text, letter, Kind.SILVER, sources, found.position)


def _newest(sources: Sources) -> VClock:
    return max(
        (snapshot for member in sources.members for snapshot in member.snapshots),
        key=lambda file: file.vclock.signature,
    ).vclock.copy(ignore0=True)


# ---- one vclock ------------------------------------------------------------------------------------


def settle(runner: Runner, places: Sequence[Place], at: Target, count: Count) -> tuple[VClock, list[Material]]:
    """The vclock at which all are compared, and what each has there. Live servers are asked for their data one after
    another, then each for what came after: so they are read at one vclock though they are written to meanwhile."""
    for each in places:
        if each.server is not None:
            each.server.fetch(count)
            each.position = each.server.picture
    for each in places:
        if each.kind is Kind.DIRECTORY:
            assert each.sources is not None
            each.position = gather(runner, each.sources, at).vclock.copy(ignore0=True)
    vclock = _common(places)
    _follow(runner, places, vclock, count)
    donors = [member for each in places if each.kind in (Kind.LIVE, Kind.DIRECTORY) for member in _members(each)]
    return vclock, [_material(runner, each, vclock, donors) for each in places]


def _common(places: Sequence[Place]) -> VClock:
    """The least one that all can come to: fixed ones cannot go back, directories need not go on."""
    fixed = [each.position for each in places if each.is_fixed and each.position is not None]
    if fixed:
        vclock = VClock()
        for position in fixed:
            vclock.merge(position)
        return vclock
    first, *rest = [each.position for each in places if each.position is not None]
    vclock = first.copy()
    for position in rest:
        vclock.minimum(position)
    return vclock


def _follow(runner: Runner, places: Sequence[Place], vclock: VClock, count: Count) -> None:
    """Rows that lead to the vclock: each server's own, and from the first one those that places without logs lack."""
    is_first = True
    for each in places:
        if each.server is None or each.position is None:
            continue
        start = each.position.copy()
        for other in places if is_first else ():
            if other.server is None and other.position is not None and not other.position.covers(vclock):
                start.minimum(other.position)
        is_first = False
        if not each.position.covers(vclock) or start != each.position:
            files = scan([str(each.server.directory)])
            state = gather(runner, files, Target()).state
            sync = [facts.id for facts in state.dictionary.spaces if facts.is_sync]
            each.server.follow(start, vclock, sync, count)
        each.sources = scan([str(each.server.directory)])


def _members(each: Place) -> list[Member]:
    assert each.sources is not None
    return each.sources.members


def _material(runner: Runner, each: Place, vclock: VClock, donors: Sequence[Member]) -> Material:
    """Of its own snapshot; logs of others only where its own do not lead to the vclock."""
    assert each.sources is not None
    assert each.position is not None
    sources = each.sources
    if not each.position.covers(vclock):
        trusted = frozenset(member.instance for member in donors)
        sources = Sources(_with_logs(sources.members, donors), sources.problems, trusted=trusted)
    return gather(runner, sources, Target(vclock=vclock))


def _with_logs(own: Sequence[Member], donors: Sequence[Member]) -> list[Member]:
    """Snapshots stay those of the place."""
    members = {
        member.instance: Member(member.instance, member.directories, member.snapshots, list(member.logs))
        for member in own
    }
    for donor in donors:
        member = members.setdefault(donor.instance, Member(donor.instance, donor.directories))
        known = {log.vclock.signature for log in member.logs}
        member.logs += [log for log in donor.logs if log.vclock.signature not in known]
        member.logs.sort(key=lambda log: log.vclock.signature)
    return list(members.values())
