"""With `replica_ids: remap`: which id this node and each of its peers give to whom, kept in the local space
`_replica_ids` (seed 004).

A row is `[peer, id, order, instance]`: `peer` is empty for our own numbering, and else the UUID of whose numbering it
is; `order` counts the owners that the id has had there. Rows are written when something is learned, so they are in the
journal no later than the first row that is numbered by them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from headwater.errors import Er, er
from headwater.replication.remap import Numbering, Registry, Translator, Way
from headwater.store.cluster import Cluster
from headwater.vclock import VClock
from headwater.wire.msgpack import unpack

log = logging.getLogger("headwater.replication")

OURS = ""
"""The `peer` of our own numbering."""

REMAP = "remap"
"""Value of the option `replica_ids`."""


class ReplicaIds:
    """All numberings that this node knows."""

    def __init__(self, keep: Callable[[list[object]], object]) -> None:
        """`keep(row)` puts a row into `_replica_ids`."""
        self.registry = Registry()
        self._keep = keep
        self._numberings: dict[UUID, Numbering] = {}
        self._unknown: dict[UUID, dict[int, None]] = {}
        """By peer: ids that came in its rows and that its `_cluster` did not name."""

    # ---- from the space, and from what was joined -------------------------------------------------------

    def load(self, tuples: Iterable[bytes]) -> None:
        """Rows of `_replica_ids`, in the order of its primary key."""
        self.registry, self._numberings = Registry(), {}
        for data in tuples:
            peer, replica_id, _, instance = unpack(data)
            if peer == OURS:
                self.registry.put(replica_id, UUID(instance))
            else:
                self._numbering(UUID(peer)).learn(replica_id, UUID(instance))
        self.registry.news.clear()

    def adopt(self, cluster: Cluster, vclock: VClock) -> None:
        """The members that there are, under the ids that they have here; whoever had an id before is not named, but
        nobody gets it."""
        for member in cluster:
            self.registry.put(int(member.id), member.uuid)
        self.registry.reserve({int(replica_id): int(lsn) for replica_id, lsn in vclock.items()})
        self._write_news()

    def give(self, uuid: UUID) -> int:
        """The id of a new member."""
        given = self.registry.give(uuid)
        self._write_news()
        return given

    # ---- peers ------------------------------------------------------------------------------------------

    def knows(self, peer: UUID) -> bool:
        return bool(self._numbering(peer).owners)

    def shares(self, peer: UUID) -> None:
        """It has everything from us, and our numbering with it."""
        for replica_id, uuid in self.registry:
            self._learn(peer, replica_id, uuid)

    def downloaded(self, peer: UUID, members: Iterable[tuple[int, UUID]]) -> None:
        """The `_cluster` of a peer that we follow. Every instance in it has an id here from now on."""
        for replica_id, uuid in members:
            self._learn(peer, replica_id, uuid)
            self.registry.give(uuid)
        self._write_news()

    def stream(self, peer: UUID, way: Way) -> Translator:
        """For one connection."""
        translator = Translator(
            self.registry,
            self._numbering(peer),
            way,
            learned=lambda replica_id, uuid: self._learned(peer, replica_id),
        )
        owners = self._numbering(peer).owners
        translator.skips.update(id_ for id_ in self._unknown.get(peer, ()) if id_ not in owners)
        return translator

    def met_unknown(self, peer: UUID, replica_id: int) -> None:
        """A row of an instance that the peer did not name. Its `_cluster` is looked at once more, on a new connection;
        if that does not name it either, its rows are left out (seed 004, problem 6)."""
        self._unknown.setdefault(peer, {})[replica_id] = None

    def to_local(self, peer: UUID, vclock: Mapping[int, int]) -> dict[int, int]:
        return self._numbering(peer).to_local(vclock, self.registry)

    def to_remote(self, peer: UUID, vclock: Mapping[int, int], seen: Mapping[int, int]) -> dict[int, int]:
        """Our vclock as the peer counts. Of instances that it does not name we pretend to have all that it had when it
        told `seen`, so that it neither sends nor keeps what would be left out."""
        numbering = self._numbering(peer)
        out = numbering.to_remote(vclock, self.registry)
        for replica_id, lsn in seen.items():
            if replica_id and replica_id not in numbering.owners:
                out[replica_id] = lsn
        return out

    def filter_to_remote(self, peer: UUID, ids: Iterable[int]) -> frozenset[int]:
        return self._numbering(peer).filter_to_remote(ids, self.registry)

    # ---- keeping ----------------------------------------------------------------------------------------

    def tell_all(self) -> None:
        """Keep everything that is known; who keeps it knows what is there already."""
        for replica_id, uuid in self.registry:
            self._keep([OURS, replica_id, 0, str(uuid)])
        for peer, numbering in self._numberings.items():
            for replica_id in numbering.owners:
                self._keep_owners(peer, replica_id)

    def _numbering(self, peer: UUID) -> Numbering:
        return self._numberings.setdefault(peer, Numbering())

    def _learn(self, peer: UUID, replica_id: int, uuid: UUID) -> None:
        if self._numbering(peer).learn(replica_id, uuid):
            self._learned(peer, replica_id)

    def _learned(self, peer: UUID, replica_id: int) -> None:
        self._write_news()
        self._keep_owners(peer, replica_id)

    def _keep_owners(self, peer: UUID, replica_id: int) -> None:
        for order, uuid in enumerate(self._numbering(peer).owners[replica_id]):
            self._keep([str(peer), replica_id, order, str(uuid)])

    def _write_news(self) -> None:
        news, self.registry.news = self.registry.news, []
        for replica_id, uuid in news:
            log.info("replica %s has the id %d here", uuid, replica_id)
            self._keep([OURS, replica_id, 0, str(uuid)])


def check_rows(rows: Sequence[tuple[int, UUID]], master: UUID) -> None:
    """A peer's `_cluster` without the peer: its rows could not be told from others'."""
    if all(uuid != master for _, uuid in rows):
        raise er(Er.UNKNOWN_REPLICA, str(master), "its own _cluster")
