"""With `replica_ids: remap`: which id this node and each of its peers give to whom, kept in the local space
`_replica_ids` (seed 004).

A row is `[peer, id, order, instance, end]`: `peer` is empty for our own numbering, and else the UUID of whose numbering
it is; `order` counts the owners that the id has had there; `end` is absent but for an owner of before that has another
id there now (`Numbering.ends`). Rows are written when something is learned, so they are in the journal no later than
the first row that is numbered by them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from headwater.errors import Er, er
from headwater.replication.remap import UNKNOWN, Numbering, Registry, Translator, Way
from headwater.store.cluster import Cluster
from headwater.vclock import VClock
from headwater.wire.msgpack import unpack

log = logging.getLogger("headwater.replication")

OURS = ""
"""The `peer` of our own numbering."""

REMAP = "remap"
"""Value of the option `replica_ids`."""

MODE = "Headwater with replica_ids: remap"
"""What refuses."""


class ReplicaIds:
    """All numberings that this node knows."""

    def __init__(
        self,
        keep: Callable[[list[object]], object],
        drop: Callable[[list[object]], object] = lambda key: None,
        have: Callable[[], Mapping[int, int]] = dict,
    ) -> None:
        """`keep(row)` puts a row into `_replica_ids`, `drop(key)` takes one out; `have()` is our vclock."""
        self.registry = Registry()
        self.is_inherited = False
        """Did the numbering come from a master that gives ids of its own? Others of its set may count otherwise."""
        self._keep = keep
        self._drop = drop
        self._have = have
        self._numberings: dict[UUID, Numbering] = {}
        self._unknown: dict[UUID, dict[int, None]] = {}
        """By peer: ids that came in its rows and that its `_cluster` did not name."""
        self._looking: dict[UUID, dict[int, bool]] = {}
        """By peer: ids of ours in rows for it that we know no number of its for; True until its `_cluster` is there."""

    # ---- from the space, and from what was joined -------------------------------------------------------

    def load(self, tuples: Iterable[bytes]) -> None:
        """Rows of `_replica_ids`, in the order of its primary key."""
        self.registry, self._numberings, self.is_inherited = Registry(), {}, False
        for data in tuples:
            peer, replica_id, _, instance, *end = unpack(data)
            if peer == OURS:
                self.registry.put(replica_id, UUID(instance))
                continue
            numbering = self._numbering(UUID(peer))
            numbering.learn(replica_id, UUID(instance))
            if end:
                numbering.ends[replica_id, UUID(instance)] = end[0]
        self.registry.news.clear()

    def inherit(self, members: Iterable[tuple[int, UUID]]) -> None:
        """The numbering of the master whose data we took, those that it has expelled included: rows of theirs that came
        with the data have its ids."""
        for replica_id, uuid in members:
            self.registry.put(replica_id, uuid)
        self.is_inherited = True

    def adopt(self, cluster: Cluster, vclock: VClock) -> None:
        """The members that there are, under the ids that they have here; whoever had an id before is not named, but
        nobody gets it."""
        for member in cluster:
            self.registry.put(int(member.id), member.uuid)
        self.registry.reserve({int(replica_id): int(lsn) for replica_id, lsn in vclock.items()})
        self.write_news()

    def give(self, uuid: UUID) -> int:
        """The id of a new member."""
        given = self.registry.give(uuid)
        self.write_news()
        return given

    def check(self, replica_id: int, uuid: UUID) -> None:
        """May a client make this instance a member under this id?"""
        known, owner = self.registry.find(uuid), self.registry.owner(replica_id)
        if known and known != replica_id:
            raise er(Er.UNSUPPORTED, MODE, f"another id for replica {uuid}: it has the id {known} here, and keeps it")
        if not known and replica_id <= self.registry.counter:
            whose = f" to {owner}" if owner is not None else ""
            raise er(Er.UNSUPPORTED, MODE, f"an id for the second time: {replica_id} was given{whose} before")

    # ---- peers ------------------------------------------------------------------------------------------

    def knows(self, peer: UUID) -> bool:
        return bool(self._numbering(peer).owners)

    def numbers_of(self, peer: UUID) -> Numbering:
        return self._numbering(peer)

    def shares(self, peer: UUID) -> None:
        """It has everything from us, and our numbering with it, whatever it had before."""
        self._replace(peer, list(self.registry))

    def downloaded(self, peer: UUID, members: Sequence[tuple[int, UUID]], *, is_all: bool = False) -> None:
        """The `_cluster` of a peer that we follow. Every instance in it has an id here from now on. `is_all`: it gives
        no id twice, and has told all that it ever gave."""
        for _, uuid in members:
            self.registry.give(uuid)
        self.write_news()
        if is_all:
            self._replace(peer, members)
            return
        for replica_id, uuid in members:
            self._learn(peer, replica_id, uuid)
        self._looked(peer)

    def stream(self, peer: UUID, way: Way) -> Translator:
        """For one connection."""
        translator = Translator(
            self.registry,
            self._numbering(peer),
            way,
            learned=lambda replica_id, uuid: self._learned(peer),
            end_of=self._end_of,
        )
        owners = self._numbering(peer).owners
        translator.skips.update(id_ for id_ in self._unknown.get(peer, ()) if id_ not in owners)
        return translator

    def met_unknown(self, peer: UUID, replica_id: int) -> None:
        """A row of an instance that the peer did not name. Its `_cluster` is looked at once more, on a new connection;
        if that does not name it either, its rows are left out (seed 004, problem 6)."""
        self._unknown.setdefault(peer, {})[replica_id] = None

    def look_again(self, peer: UUID, replica_id: int) -> bool:
        """A row of this id of ours is to go to a peer that does not translate, and has no number for it. True: its
        `_cluster` may tell, and was not looked at for this one yet."""
        asked = self._looking.setdefault(peer, {})
        is_new = replica_id not in asked
        asked[replica_id] = True
        return is_new

    def is_looking(self, peer: UUID) -> bool:
        return any(self._looking.get(peer, {}).values())

    def _looked(self, peer: UUID) -> None:
        """Numbers that are known now may be asked for again, should they get lost."""
        numbering = self._numbering(peer)
        asked = self._looking.pop(peer, {})
        still = {id_: False for id_ in asked if (owner := self.registry.owner(id_)) and not numbering.id_of(owner)}
        if still:
            self._looking[peer] = still

    def to_local(self, peer: UUID, vclock: Mapping[int, int]) -> dict[int, int]:
        return self._numbering(peer).to_local(vclock, self.registry, self._have())

    def filter_to_local(self, peer: UUID, ids: Iterable[int]) -> frozenset[int]:
        return frozenset(self._numbering(peer).to_local(dict.fromkeys(ids, 1), self.registry))

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
        for peer in self._numberings:
            self._keep_owners(peer)

    def _numbering(self, peer: UUID) -> Numbering:
        return self._numberings.setdefault(peer, Numbering())

    def _learn(self, peer: UUID, replica_id: int, uuid: UUID) -> None:
        if self._numbering(peer).learn(replica_id, uuid, self._end_of(uuid)):
            self._learned(peer)

    def _end_of(self, uuid: UUID) -> int:
        return self._have().get(self.registry.find(uuid) or UNKNOWN, 0)

    def _replace(self, peer: UUID, members: Iterable[tuple[int, UUID]]) -> None:
        numbering = self._numbering(peer)
        before = [(replica_id, order) for replica_id, them in numbering.owners.items() for order in range(len(them))]
        if not numbering.replace(members):
            return
        for replica_id, order in before:
            if order or replica_id not in numbering.owners:
                self._drop([str(peer), replica_id, order])
        self._learned(peer)

    def _learned(self, peer: UUID) -> None:
        self.write_news()
        self._keep_owners(peer)

    def _keep_owners(self, peer: UUID) -> None:
        numbering = self._numbering(peer)
        for replica_id, owners in numbering.owners.items():
            for order, uuid in enumerate(owners):
                end = numbering.ends.get((replica_id, uuid))
                self._keep([str(peer), replica_id, order, str(uuid), *([] if end is None else [end])])

    def write_news(self) -> None:
        """Keep the ids that were given since this was done last."""
        news, self.registry.news = self.registry.news, []
        for replica_id, uuid in news:
            log.info("replica %s has the id %d here", uuid, replica_id)
            self._keep([OURS, replica_id, 0, str(uuid)])
