"""With `replica_ids: remap`: the local space `_replica_ids` of this node, from its first row on (seed 004)."""

from __future__ import annotations

import logging

from headwater.box.credentials import context_of_node
from headwater.box.membership import Node
from headwater.errors import Er, er
from headwater.replication.ids import REMAP, ReplicaIds
from headwater.replication.local import LocalSpace
from headwater.store import system
from headwater.wire.msgpack import pack

log = logging.getLogger("headwater.replication")

_FORMAT = [("peer", "string"), ("id", "unsigned"), ("order", "unsigned"), ("instance", "string")]
_PRIMARY = [[0, "string"], [1, "unsigned"], [2, "unsigned"]]
_MODE = "Headwater with replica_ids: remap"


class KeptIds:
    """The numberings of one node, and the space that they are kept in."""

    def __init__(self, node: Node) -> None:
        self.ids = ReplicaIds(self._keep)
        self._node = node
        self._space = LocalSpace(node, system.REPLICA_IDS)
        self._is_open = False
        self._there: set[bytes] = set()
        """Rows of the space."""

    def load(self) -> None:
        """The files are read, or the store was emptied: what is in the space is what is known."""
        self._is_open = False
        tuples = self._space.tuples()
        self._there = set(tuples)
        self.ids.load(tuples)

    def open(self) -> None:
        """The journal takes rows from now on."""
        node = self._node
        if not self._space.exists:
            _create(node)
        self._is_open = True
        self.ids.adopt(node.schema.cluster, node.prepared)
        self.ids.tell_all()
        if self._undone not in node.journal.on_rollback:
            node.journal.on_rollback.append(self._undone)

    def close(self) -> None:
        self._is_open = False

    def _keep(self, row: list[object]) -> None:
        """What is learned before the journal is open is written when it is."""
        data = pack(row)
        if self._is_open and data not in self._there:
            self._there.add(data)
            self._space.replace(data)

    def _undone(self) -> None:
        """Rows of ours could not be written. What they say is true all the same: it is written once more, when the
        next rows are."""
        if self._is_open:
            self._there = set(self._space.tuples())
            self._node.world.tasks.soon(self._again)

    def _again(self) -> None:
        if self._is_open:
            self.ids.tell_all()


def _create(node: Node) -> None:
    """The space stays on this node, its definition too."""
    context = context_of_node(node)
    format = [{"name": name, "type": type} for name, type in _FORMAT]
    context.insert(
        system.SPACE, [system.REPLICA_IDS, system.ADMIN, "_replica_ids", "memtx", 0, {"group_id": 1}, format]
    )
    context.insert(system.INDEX, [system.REPLICA_IDS, 0, "primary", "tree", {"unique": True}, _PRIMARY])


def kept_ids(node: Node) -> KeptIds | None:
    """None where the set shares one numbering. BoxError for what does not go together with one of our own: rows of
    elections and of the queue hold replica ids."""
    options = node.options
    if options.replica_ids != REMAP:
        return None
    if options.election_mode != "off":
        raise er(Er.CFG, "replica_ids", "'remap' does not go together with elections: set election_mode to 'off'")
    node.schema.refuses_sync = _MODE
    return KeptIds(node)
