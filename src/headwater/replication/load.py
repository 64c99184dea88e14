"""What JOIN and FETCH_SNAPSHOT bring, into an empty store (applier.cc, applier_wait_snapshot and applier_wait_register;
box.cc, bootstrap_from_master).

First meta, then a snapshot, then the rows since. It is recovery with a peer in the place of the files: nothing goes
into the journal, which is opened afterwards, and a snapshot of our own makes it last.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headwater.errors import Er, er
from headwater.limbo.queue import Entry, SyncQueue
from headwater.replication.channel import packet_at
from headwater.replication.host import Host
from headwater.replication.stream import Transactions, unseen
from headwater.store.context import Source
from headwater.store.schema import Schema
from headwater.typing import VCLOCK_MAX, SpaceId
from headwater.wire.constants import DML_TYPES, SYNCHRO_TYPES, Flag, Type
from headwater.wire.replication import decode_error
from headwater.wire.request import of_row
from headwater.wire.synchro import decode_raft, decode_synchro
from headwater.wire.xrow import Row

log = logging.getLogger("headwater.replication")

ROWS_PER_LOG = 100_000
_SYNC_FLAGS = Flag.WAIT_SYNC | Flag.WAIT_ACK
FLAGS_SINCE = (2, 6, 2)
"""Schema version from which on the last row of a transaction says whether it waits for a quorum. Before, its spaces
do."""


class Load:
    """One join. `meta` and `snapshot` until it is over, `end_snapshot`, then `final` until that is over."""

    def __init__(self, host: Host, vclock: Mapping[int, int]) -> None:
        """`vclock`: where the snapshot stands, as the first answer says. The store is empty."""
        self.rows = 0
        """Of the snapshot and behind it, so far."""
        self._host = host
        self._memtx = host.memtx
        self._transactions = Transactions(host.replicaset_uuid)
        self._next_log = ROWS_PER_LOG
        host.memtx.undo_enabled = False
        host.memtx.rows_enabled = False
        host.schema.begin_snapshot()
        for replica_id in range(VCLOCK_MAX):
            host.memtx.set_lsn(replica_id, vclock.get(replica_id, 0))

    def meta(self, row: Row) -> None:
        """State of election and queue, between JOIN_META and JOIN_SNAPSHOT."""
        if row.is_error:
            raise decode_error(row)
        if row.type in (Type.RAFT_PROMOTE, Type.RAFT_DEMOTE):
            self._host.queue.restore(decode_synchro(row))
        elif row.type == Type.RAFT:
            self._host.election.take(decode_raft(row))
        else:
            raise er(Er.UNKNOWN_REQUEST_TYPE, row.type)

    # ---- the snapshot ---------------------------------------------------------------------------------

    def snapshot(self, data: bytes) -> tuple[int, bool]:
        """Rows of the snapshot: where the first byte lies that is not used, and whether the snapshot is whole."""
        at, end = 0, len(data)
        while at < end:
            at, count = self._memtx.load_frames(data, at, end)
            self._count(count)
            packet = packet_at(data, at)
            if packet is None:
                break
            row, at = packet
            if self.snapshot_row(row):
                return at, True
        return at, False

    def snapshot_row(self, row: Row) -> bool:
        """One of them; True if it is the end of the snapshot."""
        if row.type == Type.OK:
            return True
        if row.is_error:
            raise decode_error(row)
        if row.type not in DML_TYPES:
            raise er(Er.UNKNOWN_REQUEST_TYPE, row.type)
        self._host.statements.recover([row], Source.SNAPSHOT)
        self._memtx.confirm_to(self._memtx.undo_end)
        self._count(1)
        return False

    def end_snapshot(self) -> None:
        """Build what was left out; rows behind it find all indexes there."""
        self._host.schema.end_snapshot()

    def _count(self, rows: int) -> None:
        self.rows += rows
        while self.rows >= self._next_log:
            log.info("%.1fM rows received", self._next_log / 1e6)
            self._next_log += ROWS_PER_LOG

    # ---- what was written since ------------------------------------------------------------------------

    def final(self, data: bytes) -> tuple[int, bool]:
        """Rows since the snapshot, in the same manner."""
        at = 0
        while (packet := packet_at(data, at)) is not None:
            row, at = packet
            self._count(1)
            rows = self._transactions.take(row)
            if rows is None:
                continue
            if row.type == Type.OK:
                return at, True
            if row.lsn:
                self._transaction(rows)
        return at, False

    def _transaction(self, rows: list[Row]) -> None:
        last = rows[-1]
        rows = unseen(rows, self._memtx.vclock[last.replica_id])
        if not rows:
            return
        if rows[0].type in SYNCHRO_TYPES:
            undo = self._host.queue.process(decode_synchro(rows[0]))
            if undo is not None:
                self._memtx.rollback_to(undo)
        else:
            begin = self._memtx.undo_end
            self._host.statements.recover(rows, Source.XLOG)
            enqueue(self._host.schema, self._host.queue, rows, begin)
        self._memtx.set_lsn(last.replica_id, last.lsn)
        if not self._host.queue.entries:
            self._memtx.confirm_to(self._memtx.undo_end)


def enqueue(schema: Schema, queue: SyncQueue, rows: Sequence[Row], undo_begin: int) -> None:
    """A transaction that is prepared enters the queue of synchronous ones if it needs a quorum, or waits behind one
    that does."""
    last = rows[-1]
    is_sync = bool(last.flags & Flag.WAIT_ACK) or (not last.flags & _SYNC_FLAGS and _touches_sync(schema, rows))
    if is_sync or last.flags & _SYNC_FLAGS or queue.entries:
        queue.append(Entry(last.lsn, is_sync, undo_begin), last.replica_id)


def _touches_sync(schema: Schema, rows: Sequence[Row]) -> bool:
    if schema.identity.dd_version >= FLAGS_SINCE:
        return False
    for row in rows:
        space = schema.spaces.get(SpaceId(of_row(row).space_id)) if row.type != Type.NOP else None
        if space is not None and space.is_sync:
            return True
    return False
