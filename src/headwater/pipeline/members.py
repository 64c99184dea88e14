"""Whom of a replica set a stream follows.

The first member in the order of `hosts` that has all the stream has seen, and every row behind that still. One that
lags is taken when there is no other: it is waited for, and nothing goes back. One whose oldest log begins too late is
passed over; when all are so, data is lost, and the error says which.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from headwater.client import AnonymousReplica, ConnectionFailed
from headwater.errors import BoxError, Er, HeadwaterError
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.hosts import Host, ReplicaSet
from headwater.pipeline.offsets import VClockMap, covers, missing_range, text_of
from headwater.wire.ballot import Ballot

log = logging.getLogger("headwater.pipeline")

_OF_THE_USER = frozenset((Er.NO_SUCH_USER, Er.CREDS_MISMATCH, Er.ACCESS_DENIED, Er.UNKNOWN_AUTH_METHOD))


DENIED_SECONDS = 5.0
"""So long a refused login is tried again: a server that starts does not know its users yet."""


class Unreachable(PipelineError):
    """Nobody can be followed just now."""

    def __init__(self, words: str, is_denied: bool = False) -> None:
        """`is_denied`: every member refuses the user."""
        super().__init__(words)
        self.is_denied = is_denied

    def patience(self, seconds: float) -> float:
        return min(seconds, DENIED_SECONDS) if self.is_denied else seconds


@dataclass(frozen=True, slots=True)
class Gap:
    """A member that has removed what we need."""

    host: Host
    oldest: VClockMap
    """Where its oldest log begins."""

    def words(self, have: VClockMap) -> str:
        gone = missing_range(have, self.oldest) or f"behind {text_of(have)}"
        return f"{self.host} has removed the rows {gone}: its oldest log begins at {text_of(self.oldest)}"


class AllGone(PipelineError):
    """Every member has removed what we need."""

    def __init__(self, gaps: list[Gap], unreachable: dict[str, str], have: VClockMap) -> None:
        said = [gap.words(have) for gap in gaps] + [f"{host}: {why}" for host, why in unreachable.items()]
        super().__init__("; ".join(said))
        self.gaps = gaps
        self.unreachable = unreachable


@dataclass(frozen=True, slots=True)
class Met:
    """A member that answers."""

    host: Host
    replica: AnonymousReplica
    ballot: Ballot
    lags: bool = False
    """It has not yet all that the stream has seen."""


class Members:
    """Connects to members of one set, under one replica UUID."""

    def __init__(self, hosts: ReplicaSet, uuid: UUID, replicaset: UUID | None = None) -> None:
        self.hosts = hosts
        self.uuid = uuid
        self.replicaset = replicaset
        """Of all members; the first one that is met says it."""
        self._why: dict[str, str] = {}
        """Not."""
        self._lost: set[str] = set()
        """Those that have said that rows are gone which their ballots promise."""
        self._denied: set[str] = set()
        """Those that refused our user when they were last asked."""
        self._refused: set[str] = set()
        """Those that did not serve us when they were last asked: asked last."""

    def __str__(self) -> str:
        return str(self.hosts)

    def any(self) -> Met:
        """The first that answers. Unreachable if nobody does."""
        for host in self._in_order():
            met = self._meet(host)
            if met is not None:
                return met
        raise self._nobody()

    def best(self, have: VClockMap, server: UUID | None = None) -> Met:
        """Who is followed from `have` on; with `server` that instance only. Unreachable for now, or AllGone."""
        behind: list[Met] = []
        gaps: list[Gap] = []
        chosen: Met | None = None
        for met in self._others(server):
            if str(met.host) in self._lost or not covers(have, met.ballot.gc_vclock):
                gaps.append(Gap(met.host, met.ballot.gc_vclock))
                met.replica.close()
            elif not covers(met.ballot.vclock, have):
                behind.append(met)
            else:
                chosen = met
                break
        if chosen is None and behind:
            chosen = max(behind, key=lambda met: sum(met.ballot.vclock.values()))
            behind.remove(chosen)
            chosen = replace(chosen, lags=True)
            lag = missing_range(chosen.ballot.vclock, have)
            log.warning("%s lags behind this stream, it has not yet the rows %s: they are waited for", chosen.host, lag)
        for met in behind:
            met.replica.close()
        if chosen is not None:
            return chosen
        if gaps:
            raise AllGone(gaps, dict(self._why), have)
        raise self._nobody()

    def has_lost(self, host: Host) -> None:
        """It refused to send what its ballot promised."""
        self._lost.add(str(host))

    def forget_losses(self) -> None:
        self._lost.clear()

    def has_refused(self, host: Host) -> None:
        self._refused.add(str(host))

    def has_taken(self, host: Host) -> None:
        self._refused.discard(str(host))

    def latest(self) -> VClockMap:
        """Where the first member is that answers."""
        met = self.any()
        met.replica.close()
        return met.ballot.vclock

    def _others(self, server: UUID | None) -> Iterator[Met]:
        for host in self._in_order():
            met = self._meet(host)
            if met is None:
                continue
            if server is not None and met.replica.server_uuid != server:
                self._why[str(host)] = f"it is not the instance {server}, which has the snapshot that is being read"
                met.replica.close()
                continue
            yield met

    def _in_order(self) -> list[Host]:
        return sorted(self.hosts, key=lambda host: str(host) in self._refused)

    def _meet(self, host: Host) -> Met | None:
        """PipelineError for what will not pass by itself."""
        self._why.pop(str(host), None)
        self._denied.discard(str(host))
        replica = None
        try:
            replica = AnonymousReplica(host.uri(), self.uuid, self.hosts.connect_timeout)
            ballot = replica.ballot()
            if not ballot.is_booted:
                raise ConnectionFailed("it is not booted")
            self._check_set(host, replica.replicaset_uuid())
        except (ConnectionFailed, OSError) as error:
            self._why[str(host)] = str(error)
        except BoxError as error:
            self._why[str(host)] = str(error)
            if error.code in _OF_THE_USER:
                self._denied.add(str(host))
                self._why[str(host)] = refused(host, error)
        except HeadwaterError:
            if replica is not None:
                replica.close()
            raise
        else:
            return Met(host, replica, ballot)
        if replica is not None:
            replica.close()
        return None

    def _check_set(self, host: Host, found: UUID) -> None:
        if self.replicaset is None:
            self.replicaset = found
        elif self.replicaset != found:
            raise PipelineError(
                f"{host} belongs to the replica set {found}, and this stream follows {self.replicaset}. The option "
                "'hosts' names members of one set between semicolons; another set needs another checkpointLocation."
            )

    def _nobody(self) -> Unreachable:
        said = "; ".join(f"{host}: {self._why.get(str(host), 'it was not asked')}" for host in self.hosts)
        is_denied = all(str(host) in self._denied for host in self.hosts)
        return Unreachable(f"No member of the replica set {self.hosts} can be followed ({said})", is_denied)


def refused(host: Host, error: BoxError) -> str:
    """What a user may not do there."""
    return (
        f"the user '{host.username or 'guest'}' is refused: {error}. The options 'username' and 'password' (or "
        "passwordEnv, passwordFile) say who asks; to follow a server he needs the role 'replication'"
    )
