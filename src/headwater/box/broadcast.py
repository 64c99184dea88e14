"""The node's own events, told when something of them changes (box.cc, box_broadcast_*; replication.cc)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from headwater.box.events import Events
from headwater.box.readonly import ReadOnly
from headwater.kernels import Memtx
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.store.events import Event as SchemaEvent
from headwater.store.events import IdentityChanged, SchemaChanged, VersionChanged
from headwater.store.schema import Schema
from headwater.wire.ballot import Ballot

NIL = UUID(int=0)
INTERVAL = 1.0
"""Rows move the vclock of the ballot; watchers are told of that so often (box_update_broadcast_ballot_interval)."""


class Teller(Protocol):
    """The instance, as far as its events tell of it."""

    options: Options
    memtx: Memtx
    schema: Schema
    read_only: ReadOnly
    election: Persistent

    @property
    def is_ready(self) -> bool: ...

    @property
    def is_read_only(self) -> bool: ...

    @property
    def status(self) -> str: ...

    @property
    def leader_id(self) -> int: ...

    def ballot(self) -> Ballot: ...


class Broadcasts:
    """Values of the built-in keys, from what the node is now."""

    def __init__(self, node: Teller, events: Events) -> None:
        self._node = node
        self._events = events
        self._told: Mapping[int, int] = {}
        """The vclock in the ballot that was told last."""

    def everything(self) -> None:
        self.identity()
        self.status()
        self.election()
        self._events.schema(self._node.memtx.schema_version)
        self.ballot()

    def identity(self) -> None:
        node, identity = self._node, self._node.schema.identity
        self._events.id(
            id=node.memtx.replica_id,
            instance_uuid=identity.instance_uuid,
            instance_name=node.schema.own_name,
            replicaset_uuid=identity.replicaset_uuid,
            replicaset_name=identity.replicaset_name,
            cluster_name=identity.cluster_name,
        )

    def status(self) -> None:
        node = self._node
        self._events.status(
            is_ro=node.is_read_only,
            is_ro_cfg=node.options.read_only is True,
            status=node.status,
            dd_version=node.schema.identity.dd_version,
        )

    def election(self) -> None:
        node = self._node
        self._events.election(term=node.election.term, role="follower", is_ro=node.is_read_only, leader=node.leader_id)

    def ballot(self) -> None:
        ballot = self._node.ballot()
        self._told = ballot.vclock
        self._events.ballot(ballot)

    def rows_written(self) -> None:
        """Called now and then: tell the ballot if its vclock has moved."""
        if self._node.ballot().vclock != self._told:
            self.ballot()

    def schema_changed(self, event: SchemaEvent) -> None:
        """Before the node is ready only the ballot is of interest to anybody."""
        if not self._node.is_ready:
            return
        if isinstance(event, SchemaChanged):
            self._events.schema(event.version)
        elif isinstance(event, IdentityChanged):
            self.identity()
        elif isinstance(event, VersionChanged):
            self.status()
        else:
            self.identity()
            self.ballot()
