"""Who creates the replica set, whom a newcomer joins, and whether enough peers answered to say so (replication.cc:
replicaset_find_join_master, replicaset_connect_quorum, replicaset_needs_rejoin; seed 000, bootstrap).

A machine: it is told what ballots say, and gives the choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from headwater.vclock import Order, VClock
from headwater.wire.ballot import Ballot


class Stage(Enum):
    """What the node is about while it connects (replication.h, enum replicaset_state)."""

    BOOTSTRAP = "bootstrap"
    """It has nothing, and no peer that answered has anything either."""
    JOIN = "join"
    """It has nothing; some peer has."""
    RECOVERY = "recovery"
    """It has files of its own."""
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A peer that answered; ourselves too, if our own address is among those to follow."""

    uuid: UUID
    ballot: Ballot
    address: str = ""


def score(ballot: Ballot) -> int:
    """replicaset_find_join_master_auto: booted before all, then writable by configuration, then writable now, then able
    to be elected."""
    return 1000 * ballot.is_booted + 100 * (not ballot.is_ro_cfg) + 10 * (not ballot.is_ro) + ballot.can_lead


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """The best score; among equals the greater vclock; among those the lower UUID. Every node that sees the same
    ballots chooses the same one."""
    best: Candidate | None = None
    for candidate in sorted(candidates, key=lambda each: each.uuid.int):
        if best is None or _beats(candidate.ballot, best.ballot):
            best = candidate
    return best


def _beats(one: Ballot, other: Ballot) -> bool:
    if score(one) != score(other):
        return score(one) > score(other)
    return _ahead(one, other)


def _ahead(one: Ballot, other: Ballot) -> bool:
    """Has it seen more? Vclocks that cannot be compared count so (vclock_compare_ignore0: undefined is more)."""
    order = VClock(one.vclock).compare(VClock(other.vclock), ignore0=True)
    return order in (Order.GREATER, Order.CONCURRENT)


def named_leader(candidates: Iterable[Candidate], named: str) -> Candidate | None:
    """The one that the option `bootstrap_leader` names, by name, UUID or address (applier_is_bootstrap_leader)."""
    for candidate in candidates:
        if named in (candidate.ballot.instance_name, str(candidate.uuid), candidate.address):
            return candidate
    return None


def supervised_leader(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one that was told to be it, and says so in its ballot."""
    for candidate in candidates:
        if candidate.ballot.bootstrap_leader_uuid == candidate.uuid:
            return candidate
    return None


def connect_quorum(strategy: str, stage: Stage, total: int, legacy: int | None) -> int:
    """How many peers must have answered before the node goes on (replicaset_connect_quorum)."""
    if strategy == "legacy":
        return total if legacy is None else min(total, legacy)
    if strategy != "auto":
        return 0
    return {Stage.BOOTSTRAP: total // 2 + 1, Stage.JOIN: 1}.get(stage, 0)


def strangers(candidates: Sequence[Candidate], total: int) -> list[UUID]:
    """Members that peers have registered and that are not among those connected, if there are more members than
    addresses: then `replication` does not list all of them (replicaset_update)."""
    known = {candidate.uuid for candidate in candidates}
    registered = {uuid for candidate in candidates for uuid in candidate.ballot.registered_replica_uuids}
    return sorted(registered - known, key=lambda uuid: uuid.int) if len(registered) > total else []


def rejoin_from(local: VClock, candidates: Iterable[Candidate]) -> Candidate | None:
    """Whom to join anew, if every peer has removed rows that we lack; None if one of them can still feed us, or if we
    have rows that they have not (replicaset_needs_rejoin). The most advanced one is taken. Rows of component 0, which
    peers never have, do not count."""
    local = local.copy(ignore0=True)
    best: Candidate | None = None
    for candidate in candidates:
        ballot = candidate.ballot
        if local.covers(VClock(ballot.gc_vclock)):
            return None
        if not VClock(ballot.vclock).covers(local):
            continue
        if best is None or VClock(ballot.vclock).signature > VClock(best.ballot.vclock).signature:
            best = candidate
    return best
