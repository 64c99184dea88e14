"""The keys that every node broadcasts (box.cc, builtin_events_init and box_broadcast_*)."""

from __future__ import annotations

from uuid import UUID

from headwater.box.watchers import Watchers
from headwater.errors import Packed
from headwater.wire.ballot import Ballot, encode_ballot
from headwater.wire.msgpack import pack

ID = "box.id"
STATUS = "box.status"
ELECTION = "box.election"
SCHEMA = "box.schema"
WAL_ERROR = "box.wal_error"
SHUTDOWN = "box.shutdown"
BALLOT = "internal.ballot"

NIL_UUID = UUID(int=0)


class Events:
    """Values of the built-in keys. Before the node knows better they are empty maps."""

    def __init__(self, watchers: Watchers) -> None:
        self._watchers = watchers
        for key in (ID, SCHEMA, STATUS, ELECTION, WAL_ERROR, BALLOT):
            watchers.broadcast(key, b"\x80")

    def id(
        self,
        *,
        id: int,
        instance_uuid: UUID | None,
        instance_name: str,
        replicaset_uuid: UUID | None,
        replicaset_name: str,
        cluster_name: str,
    ) -> None:
        """Who the node is; id 0 before it has one, names '' where there are none."""
        value = {
            "id": id,
            "instance_uuid": instance_uuid or NIL_UUID,
            "instance_name": instance_name or None,
            "replicaset_uuid": replicaset_uuid or NIL_UUID,
            "replicaset_name": replicaset_name or None,
            "cluster_name": cluster_name or None,
        }
        self._watchers.broadcast(ID, pack(value))

    def status(self, *, is_ro: bool, is_ro_cfg: bool, status: str, dd_version: tuple[int, int, int]) -> None:
        """`is_ro_cfg`: read-only by the option; `dd_version`: version of the system spaces."""
        value = {
            "is_ro": is_ro,
            "is_ro_cfg": is_ro_cfg,
            "status": status,
            "dd_version": ".".join(map(str, dd_version)),
        }
        self._watchers.broadcast(STATUS, pack(value))

    def election(self, *, term: int, role: str, is_ro: bool, leader: int) -> None:
        self._watchers.broadcast(ELECTION, pack({"term": term, "role": role, "is_ro": is_ro, "leader": leader}))

    def schema(self, version: int) -> None:
        self._watchers.broadcast(SCHEMA, pack({"version": version}))

    def wal_error(self, count: int) -> None:
        """How many writes of the journal have failed so far (journal.c)."""
        self._watchers.broadcast(WAL_ERROR, pack({"count": count}))

    def ballot(self, ballot: Ballot) -> None:
        """What peers choose a leader by; the same as the answer to VOTE."""
        self._watchers.broadcast(BALLOT, Packed(encode_ballot(ballot)))

    def shutdown(self) -> None:
        """Clients should finish and go."""
        self._watchers.broadcast(SHUTDOWN, pack(True))
