"""The members of the set as this node sees them: who they are, who feeds us, whom we feed (replication.h,
struct replica)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from headwater.replication.applier import Applier
    from headwater.replication.guests import Guest
    from headwater.replication.relay import Relay


@dataclass(slots=True, eq=False)
class Replica:
    """One other node, or ourselves."""

    uuid: UUID
    id: int = 0
    """Its row in `_cluster`; 0 while it has none, and for anonymous replicas."""
    name: str = ""
    is_anon: bool = False
    """It follows us and wants no id."""
    is_self: bool = False
    applier: Applier | None = None
    """It feeds us: it is in `box.cfg.replication`."""
    relay: Relay | None = None
    """We feed it, or did since we started: then the relay is stopped and tells why."""
    guest: Guest | None = None
    """Its connection to us, whatever it asks on it: there is only one (has_incoming_connection)."""
    has_consumer: bool = False
    """Log files are kept for it (replica.gc)."""

    @property
    def is_orphaned(self) -> bool:
        """Nothing is left that it stands for: it can be forgotten."""
        return not (self.id or self.is_self or self.applier or self.relay or self.guest or self.has_consumer)


class Replicaset:
    """All of them, by UUID."""

    def __init__(self) -> None:
        self._replicas: dict[UUID, Replica] = {}

    def __iter__(self) -> Iterator[Replica]:
        """In the order of their ids, those without one behind, by UUID."""
        return iter(sorted(self._replicas.values(), key=lambda replica: (replica.id or 1 << 20, replica.uuid.int)))

    def find(self, uuid: UUID) -> Replica | None:
        return self._replicas.get(uuid)

    def get(self, uuid: UUID) -> Replica:
        """The replica of this UUID; a new one if there is none yet."""
        known = self._replicas.get(uuid)
        if known is None:
            known = self._replicas[uuid] = Replica(uuid)
        return known

    def by_id(self, replica_id: int) -> Replica | None:
        return next((replica for replica in self._replicas.values() if replica.id == replica_id), None)

    def forget_if_orphaned(self, uuid: UUID) -> None:
        replica = self._replicas.get(uuid)
        if replica is not None and replica.is_orphaned:
            del self._replicas[uuid]

    @property
    def anonymous(self) -> list[Replica]:
        """Those that follow us and have no id."""
        return [replica for replica in self if replica.is_anon and not replica.id]
