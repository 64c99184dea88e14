"""Members of the replica set as `_cluster` lists them (replication.cc, alter.cc on_replace_dd_cluster)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from headwater.errors import Er, er
from headwater.store.identifier import is_node_name
from headwater.store.rowview import Row
from headwater.typing import VCLOCK_MAX, ReplicaId


@dataclass(frozen=True, slots=True)
class Member:
    """A row of `_cluster`."""

    id: ReplicaId
    uuid: UUID
    name: str = ""
    """Empty where the member has none."""


def check_replica_id(replica_id: int) -> None:
    """replica_check_id."""
    if replica_id == 0:
        raise er(Er.REPLICA_ID_IS_RESERVED, replica_id)
    if replica_id >= VCLOCK_MAX:
        raise er(Er.REPLICA_MAX, replica_id)


def read_node_name(row: Row | None, field: int, what: str) -> str:
    """An optional node name; '' for none (tuple_field_node_name)."""
    kind = row.type(field) if row is not None else None
    if row is None or kind is None or kind == "nil":
        return ""
    name = row.string(field) if kind == "string" else ""
    if not is_node_name(name):
        raise er(Er.FIELD_TYPE, what, "a valid name", "a bad name")
    return name


def read_member(row: Row) -> Member:
    """replica_def_new_from_tuple."""
    replica_id = row.u32(0)
    check_replica_id(replica_id)
    uuid = row.uuid(1)
    if uuid.int == 0:
        raise er(Er.INVALID_UUID, str(uuid))
    return Member(ReplicaId(replica_id), uuid, read_node_name(row, 2, "_cluster.name"))


@dataclass(slots=True, eq=False)
class Leave:
    """One deletion of a row."""

    is_written: bool = False


class Cluster:
    """All members by id, UUID and name."""

    def __init__(self) -> None:
        self._members: dict[ReplicaId, Member] = {}
        self.leaving: dict[ReplicaId, Leave] = {}
        """Whose row is deleted, and that is not written yet: they are members until it is."""

    def __iter__(self) -> Iterator[Member]:
        return iter(sorted(self._members.values(), key=lambda member: member.id))

    def __len__(self) -> int:
        return len(self._members)

    def by_id(self, replica_id: int) -> Member | None:
        return self._members.get(ReplicaId(replica_id))

    def by_uuid(self, uuid: UUID) -> Member | None:
        return next((member for member in self._members.values() if member.uuid == uuid), None)

    def by_name(self, name: str) -> Member | None:
        """No member has the empty name."""
        return next((member for member in self._members.values() if name and member.name == name), None)

    def free_id(self) -> ReplicaId:
        """The lowest id that no member has (replica_find_new_id); REPLICA_MAX when there is none."""
        for replica_id in range(1, VCLOCK_MAX):
            if ReplicaId(replica_id) not in self._members:
                return ReplicaId(replica_id)
        raise er(Er.REPLICA_MAX, VCLOCK_MAX)

    def put(self, member: Member) -> None:
        self._members[member.id] = member

    def remove(self, replica_id: ReplicaId) -> None:
        self._members.pop(replica_id, None)
