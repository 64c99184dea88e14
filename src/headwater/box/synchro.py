"""What the words of others about elections and synchronous transactions do to this node (txn_limbo.c,
txn_limbo_process; raft.c, box_raft_process_msg).

It follows: transactions that wait for their quorum stay undoable until their owner says what becomes of them, and a
new term is put on disk. It asks nobody for a vote.
"""

from __future__ import annotations

import logging
from typing import Protocol

from headwater.box.picture import RAFT_SINCE
from headwater.box.readonly import ForeignQueue, ReadOnly
from headwater.errors import BoxError, Er, er
from headwater.journal import Journal
from headwater.kernels import Memtx
from headwater.limbo.queue import SyncQueue
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.store.schema import Schema
from headwater.wire.constants import Group, RaftState, Type
from headwater.wire.synchro import RaftMessage, decode_raft, decode_synchro, encode_raft
from headwater.wire.xrow import Row
from headwater.world import Event, World

log = logging.getLogger("headwater.box")


class Node(Protocol):
    """The instance, as far as agreement with others changes it."""

    world: World
    options: Options
    memtx: Memtx
    schema: Schema
    journal: Journal
    election: Persistent
    queue: SyncQueue
    read_only: ReadOnly

    async def settled(self) -> None: ...

    def election_changed(self) -> None:
        """Peers and watchers should hear of the new term or leader."""


class SynchroRows:
    """Rows and messages of peers about the queue and the election."""

    def __init__(self, node: Node) -> None:
        self.leader_id = 0
        """Who says that it leads in the present term; 0: nobody that we know of."""
        self._node = node
        self._moved: Event = node.world.tasks.event()
        """Something left the queue."""
        self._volatile_term = 0
        """Being written."""
        node.journal.hold = lambda: node.queue.held
        node.journal.on_rollback.append(self._journal_failed)

    def _journal_failed(self) -> None:
        self._node.queue.lost(self._node.memtx.undo_end)

    # ---- the queue -------------------------------------------------------------------------------------

    async def apply(self, row: Row) -> None:
        """CONFIRM, ROLLBACK, PROMOTE or DEMOTE of a peer. What is taken back must be written first: its row stands
        behind theirs in the journal."""
        node = self._node
        request = decode_synchro(row)
        if request.type != Type.RAFT_CONFIRM:
            await node.settled()
        if row.lsn <= node.memtx.vclock[row.replica_id]:
            return
        undo = node.queue.process(request, node.world.clock.monotonic())
        if undo is not None:
            log.info("synchronous transactions from LSN %d on are rolled back", request.lsn)
            node.journal.take_back(undo)
        node.memtx.add_row(
            row.type, row.group_id, row.body, replica_id=row.replica_id, lsn=row.lsn, timestamp=row.timestamp
        )
        node.journal.release()
        self._moved.set()
        if request.type in (Type.RAFT_PROMOTE, Type.RAFT_DEMOTE):
            self._see_term(request.term)
            self.look()

    def look(self) -> None:
        """Whose is the queue? Where a PROMOTE has given it to another member, we may not write (txn_limbo_is_ro)."""
        node, queue = self._node, self._node.queue
        foreign = bool(queue.term and queue.owner and queue.owner != node.memtx.replica_id)
        node.read_only.set_queue(self._foreign() if foreign else None)

    def _foreign(self) -> ForeignQueue:
        """box_ro_state_msg_snprint"""
        node, queue = self._node, self._node.queue
        term = node.election.term
        fields: dict[str, object] = {"state": "follower", "term": term}
        words = f"state is election follower with term {term}"
        if self.leader_id:
            words += f", leader is {self._named(self.leader_id)}"
            fields["leader_id"] = self.leader_id
            self._put_uuid(fields, "leader_uuid", self.leader_id)
        words += f", synchro queue with term {queue.term} belongs to {self._named(queue.owner)}"
        fields |= {"queue_owner_id": queue.owner, "queue_term": queue.term}
        self._put_uuid(fields, "queue_owner_uuid", queue.owner)
        return ForeignQueue(words, fields)

    def _named(self, replica_id: int) -> str:
        member = self._node.schema.cluster.by_id(replica_id)
        return str(replica_id) if member is None else f"{replica_id} ({member.uuid})"

    def _put_uuid(self, fields: dict[str, object], key: str, replica_id: int) -> None:
        member = self._node.schema.cluster.by_id(replica_id)
        if member is not None:
            fields[key] = member.uuid

    async def wait_empty(self) -> None:
        """Before a snapshot: it may hold nothing that is taken back later. SYNC_QUORUM_TIMEOUT if that takes too long
        (txn_limbo_wait_confirm)."""
        queue = self._node.queue
        if not queue.entries:
            return
        try:
            async with self._node.world.tasks.timeout(self._node.options.replication_synchro_timeout):
                while queue.entries:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise er(Er.SYNC_QUORUM_TIMEOUT) from None

    # ---- the election ----------------------------------------------------------------------------------

    def take_raft(self, row: Row) -> None:
        """What a peer says of itself; `row.replica_id` is the sender. PROTOCOL for what makes no sense
        (raft_process_msg)."""
        message = decode_raft(row)
        if not message.term or not RaftState.FOLLOWER <= (message.state or RaftState.FOLLOWER) <= RaftState.LEADER:
            raise er(Er.PROTOCOL, f"a RAFT message of {row.replica_id} with term {message.term}, state {message.state}")
        self._see_term(message.term)
        if message.term < self._newest_term:
            return
        leads = message.state == RaftState.LEADER
        if leads and self.leader_id != row.replica_id:
            self._set_leader(row.replica_id)
        elif not leads and self.leader_id == row.replica_id:
            self._set_leader(0)

    def _set_leader(self, replica_id: int) -> None:
        """Told at once, unless its term is still being written: then with that."""
        self.leader_id = replica_id
        self.look()
        if self._node.election.term == self._newest_term:
            self._node.election_changed()

    @property
    def _newest_term(self) -> int:
        return max(self._volatile_term, self._node.election.term)

    def _see_term(self, term: int) -> None:
        """A newer one is put on disk, then it counts."""
        node = self._node
        if term <= self._newest_term or node.schema.identity.dd_version < RAFT_SINCE:
            return
        self._volatile_term = term
        self.leader_id = 0
        row = encode_raft(RaftMessage(term, group_id=Group.LOCAL))
        node.memtx.add_row(row.type, row.group_id, row.body)

        def written(error: BoxError | None) -> None:
            if error is not None:
                self._volatile_term = 0
            elif term > node.election.term:
                node.election.take(RaftMessage(term))
                log.info("RAFT: term is %d now", term)
                self.look()
                node.election_changed()

        node.journal.settle(written)
