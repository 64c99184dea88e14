"""With `replica_ids: remap`: the local space `_replica_ids` of this node, from its first row on (seed 004)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from headwater.box.credentials import context_of_node
from headwater.box.membership import Node
from headwater.errors import Er, er
from headwater.replication.ids import MODE, OURS, REMAP, ReplicaIds
from headwater.replication.local import LocalSpace
from headwater.store import system
from headwater.store.cluster import Member
from headwater.store.events import Event, MemberAdded, MemberChanged
from headwater.wire.msgpack import pack, unpack

log = logging.getLogger("headwater.replication")

_FORMAT = [
    {"name": "peer", "type": "string"},
    {"name": "id", "type": "unsigned"},
    {"name": "order", "type": "unsigned"},
    {"name": "instance", "type": "string"},
    {"name": "end", "type": "unsigned", "is_nullable": True},
]
_KEY_FIELDS = 3
_PRIMARY = [[0, "string"], [1, "unsigned"], [2, "unsigned"]]


class KeptIds:
    """The numberings of one node, and the space that they are kept in."""

    def __init__(self, node: Node) -> None:
        self.ids = ReplicaIds(self._keep, self._drop, lambda: node.prepared.as_dict())
        self._node = node
        self._space = LocalSpace(node, system.REPLICA_IDS)
        self.is_open = False
        """What is learned goes into the space."""
        self._there: dict[bytes, bytes] = {}
        """Rows of the space by their keys."""
        node.schema.check_member = self._check
        node.schema.listeners.append(self._schema_changed)

    def load(self) -> None:
        """The files are read, or the store was emptied: what is in the space is what is known."""
        self.is_open = False
        self.ids.load(self._read())

    def _read(self) -> list[bytes]:
        tuples = self._space.tuples()
        self._there = {pack(unpack(data)[:_KEY_FIELDS]): data for data in tuples}
        return tuples

    def open(self) -> None:
        """From now on what is learned is kept: in the journal, or in the first snapshot where there is none yet."""
        node = self._node
        is_new = not self._space.exists
        if is_new:
            _create(node)
        self.is_open = True
        self.ids.adopt(node.schema.cluster, node.prepared)
        if is_new and not self.ids.is_inherited:
            self._begin()
        self.ids.tell_all()
        if self._undone not in node.journal.on_rollback:
            node.journal.on_rollback.append(self._undone)

    def _begin(self) -> None:
        """Until now the set had one numbering, as far as this node knows: that of its `_cluster`. Whoever gives ids of
        his own says so himself before his rows come."""
        for member in self._node.schema.cluster:
            if member.uuid != self._node.uuid and not self.ids.knows(member.uuid):
                self.ids.shares(member.uuid)

    def _keep(self, row: list[object]) -> None:
        """What is learned before the journal is open is written when it is."""
        key, data = pack(row[:_KEY_FIELDS]), pack(row)
        if self.is_open and self._there.get(key) != data:
            self._there[key] = data
            self._space.replace(data)

    def _drop(self, key: list[object]) -> None:
        packed = pack(key)
        if self.is_open and self._there.pop(packed, None) is not None:
            self._space.delete(packed)

    # ---- members -----------------------------------------------------------------------------------------

    def _check(self, member: Member) -> None:
        """A client makes a member by a row of `_cluster`."""
        self.ids.check(int(member.id), member.uuid)

    def _schema_changed(self, event: Event) -> None:
        """An id is given as soon as the row is prepared; it is kept in a turn of its own, as the transaction that
        brought the row is not at its end."""
        if self.is_open and isinstance(event, MemberAdded | MemberChanged):
            member = event.member if isinstance(event, MemberAdded) else event.new
            self.ids.registry.put(int(member.id), member.uuid)
            self._node.world.tasks.soon(self._keep_news)

    def _keep_news(self) -> None:
        if self.is_open:
            self.ids.write_news()

    # ---- a journal that fails ----------------------------------------------------------------------------

    def _undone(self) -> None:
        """Rows of ours could not be written. What they say is true all the same: it is written once more, when the
        next rows are."""
        if self.is_open:
            self._read()
            self._node.world.tasks.soon(self._again)

    def _again(self) -> None:
        if self.is_open:
            self.ids.tell_all()


def _create(node: Node) -> None:
    """The space stays on this node, its definition too."""
    context = context_of_node(node)
    context.insert(
        system.SPACE, [system.REPLICA_IDS, system.ADMIN, "_replica_ids", "memtx", 0, {"group_id": 1}, _FORMAT]
    )
    context.insert(system.INDEX, [system.REPLICA_IDS, 0, "primary", "tree", {"unique": True}, _PRIMARY])


def kept_ids(node: Node) -> KeptIds | None:
    """None where the set shares one numbering."""
    if node.options.replica_ids != REMAP:
        return None
    node.schema.refuses_sync = MODE
    return KeptIds(node)


def check_ids(node: Node, queue_owner: int) -> None:
    """Does the option go with what is in the directory? BoxError where it does not."""
    if node.options.replica_ids != REMAP:
        _check_shared(LocalSpace(node, system.REPLICA_IDS).tuples())
    elif queue_owner:
        words = f"'remap' does not go together with a queue of synchronous transactions: replica {queue_owner} owns it"
        raise er(Er.CFG, "replica_ids", words)


def _check_shared(tuples: Sequence[bytes]) -> None:
    """A node that gave ids of its own may share them again as long as no peer counts otherwise."""
    owners: dict[str, dict[int, UUID]] = {}
    for data in tuples:
        row: list[Any] = unpack(data)
        owners.setdefault(row[0], {})[row[1]] = UUID(row[3])
    ours = owners.pop(OURS, {})
    for peer, theirs in owners.items():
        for replica_id, instance in theirs.items():
            if ours.get(replica_id) != instance:
                words = (
                    f"'shared' would mix up rows: replica {instance} has the id {replica_id} at {peer}, and another "
                    "one here. Keep 'remap', or let this node join anew with empty directories"
                )
                raise er(Er.CFG, "replica_ids", words)
