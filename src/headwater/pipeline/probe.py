"""What is asked of servers beside the stream: which sets hosts belong to, how far they are, what fields a space has."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from headwater.client import AnonymousReplica, ConnectionFailed
from headwater.errors import BoxError
from headwater.pipeline.dictionary import Dictionary
from headwater.pipeline.errors import OptionError, PipelineError
from headwater.pipeline.hosts import ReplicaSets
from headwater.pipeline.members import Members, Unreachable
from headwater.pipeline.offsets import Position, VClockMap, joined, stream_position

log = logging.getLogger("headwater.pipeline")

_PAUSE = 0.5
_ASK_SECONDS = 1.0
"""No server is asked more often how far it is."""


def meet_all(sets: ReplicaSets, uuid: UUID, patience: float) -> dict[UUID, Members]:
    """By the UUID of each set. PipelineError when nobody of one answers for so many seconds."""
    found: dict[UUID, Members] = {}
    begun = time.monotonic()
    for hosts in sets:
        members = Members(hosts, uuid)
        while members.replicaset is None:
            try:
                members.any().replica.close()
            except Unreachable as error:
                if time.monotonic() - begun >= error.patience(patience):
                    raise PipelineError(f"{error}. Do they run, and do these addresses lead to them?") from None
                log.warning("%s; it is tried again", error)
                time.sleep(_PAUSE)
        twin = found.setdefault(members.replicaset, members)
        if twin is not members:
            raise OptionError(
                f"{twin} and {members} are one replica set, {members.replicaset}. In the option 'hosts' members of a "
                "set are parted by commas; semicolons part sets."
            )
    return found


class Probe:
    """Connections that are kept to ask how far servers are."""

    def __init__(self) -> None:
        self._links: dict[UUID, AnonymousReplica] = {}
        self._told: dict[UUID, tuple[float, VClockMap]] = {}

    def position(self, members: Members, seen: VClockMap) -> Position:
        """Of the first member that answers; at least what the stream has seen."""
        assert members.replicaset is not None
        at, vclock = self._told.get(members.replicaset, (0.0, {}))
        if time.monotonic() - at > _ASK_SECONDS:
            vclock = self._ask(members, members.replicaset) or vclock
            self._told[members.replicaset] = time.monotonic(), vclock
        return stream_position(members.replicaset, joined(vclock, seen), members.uuid)

    def _ask(self, members: Members, replicaset: UUID) -> VClockMap | None:
        link = self._links.pop(replicaset, None)
        try:
            if link is None:
                link = members.any().replica
            vclock = link.ballot().vclock
        except (BoxError, ConnectionFailed, OSError, PipelineError):
            if link is not None:
                link.close()
            return None
        self._links[replicaset] = link
        return vclock

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    @staticmethod
    def fields(members: Members, space: str) -> tuple[str, ...]:
        """Of a space as it is now; none if there is none."""
        met = members.any()
        try:
            found = Dictionary.fetch(met.replica.link).find(space)
        finally:
            met.replica.close()
        return () if found is None else tuple(field.name for field in found.fields)
