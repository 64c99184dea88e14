"""What the dictionary tells the rest of the node when it changes (box_broadcast_*, session and replication hooks)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from headwater.store.cluster import Member


@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """Memtx.schema_version was counted up: `box.schema` (box_broadcast_schema)."""

    version: int


@dataclass(frozen=True, slots=True)
class IdentityChanged:
    """A UUID or a name of the replica set or the cluster is written: `box.id` (box_broadcast_id)."""


@dataclass(frozen=True, slots=True)
class VersionChanged:
    """The version of the system spaces is written: `box.status` (box_broadcast_status)."""

    version: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """`bootstrap_leader_uuid` is written: `internal.ballot` (box_broadcast_ballot)."""

    uuid: UUID | None


@dataclass(frozen=True, slots=True)
class MemberAdded:
    """A member has its id from now on, though its row is not written yet."""

    member: Member


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """Another name, or another UUID under the same id."""

    old: Member
    new: Member


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """The row is gone for good, or its insertion was taken back; the id is free again."""

    member: Member
    is_undone: bool = False
    """The insertion was taken back: it never was a member."""


@dataclass(frozen=True, slots=True)
class MembersWritten:
    """A row of `_cluster` came or went and is written: a quorum counted from them may be another one."""


Event = (
    SchemaChanged
    | IdentityChanged
    | VersionChanged
    | LeaderChanged
    | MemberAdded
    | MemberChanged
    | MemberRemoved
    | MembersWritten
)
