"""Rows of the files that the compiled path leaves: schema, updates, synchronous transactions, election state.

`Recovery` gives them one by one; here they become transactions again, because whether one waits for a quorum stands
in its last row. Nothing is undone later, except transactions whose quorum was not reached when the file says so.
"""

from __future__ import annotations

import logging

from headwater.box.execute import Statements
from headwater.limbo.queue import Entry, SyncQueue
from headwater.raft.state import Persistent
from headwater.store.context import Source
from headwater.store.schema import Schema
from headwater.typing import SpaceId
from headwater.wire.constants import SYNCHRO_TYPES, Flag, Type
from headwater.wire.request import of_row
from headwater.wire.synchro import decode_raft, decode_synchro
from headwater.wire.xrow import Row

log = logging.getLogger("headwater.box")

_WAITS = Flag.WAIT_SYNC | Flag.WAIT_ACK


class Replay:
    """One recovery, from the snapshot's first row to the last one of the journals."""

    def __init__(
        self,
        schema: Schema,
        statements: Statements,
        election: Persistent,
        queue: SyncQueue,
        *,
        keep_waiting: bool = False,
    ) -> None:
        """`keep_waiting`: there are peers that will say what becomes of transactions at the end of the journal."""
        self.is_snapshot = True
        self._schema = schema
        self._statements = statements
        self._election = election
        self._queue = queue
        self._keep_waiting = keep_waiting
        self._rows: list[Row] = []
        """Of the transaction that is being read."""

    def snapshot_done(self) -> None:
        self._schema.end_snapshot()
        self.is_snapshot = False

    def row(self, row: Row, is_last: bool) -> None:
        """BoxError for a row that cannot be applied."""
        if self.is_snapshot:
            self._snapshot_row(row)
            return
        self._rows.append(row)
        if is_last:
            rows, self._rows = self._rows, []
            self._transaction(rows)

    def finish(self) -> None:
        """The files are read. What still waits for a quorum has none to wait for on a node alone."""
        if self._queue.entries and self._keep_waiting:
            log.info("%d transactions wait for word about their quorum", len(self._queue.entries))
        elif self._queue.entries:
            log.warning(
                "%d transactions at the end of the journal have no word about their quorum; they are kept",
                len(self._queue.entries),
            )
            self._queue.entries.clear()
        self._settle()

    def _snapshot_row(self, row: Row) -> None:
        if row.type == Type.RAFT:
            self._election.take(decode_raft(row))
        elif row.type in SYNCHRO_TYPES:
            self._queue.restore(decode_synchro(row))
        else:
            self._statements.recover([row], Source.SNAPSHOT)

    def _transaction(self, rows: list[Row]) -> None:
        first, last = rows[0], rows[-1]
        if first.type == Type.RAFT:
            self._election.take(decode_raft(first))
        elif first.type in SYNCHRO_TYPES:
            undo = self._queue.process(decode_synchro(first))
            if undo is not None:
                self._schema.memtx.rollback_to(undo)
        else:
            self._changes(rows, last)
        self._settle()

    def _changes(self, rows: list[Row], last: Row) -> None:
        begin = self._schema.memtx.undo_end
        self._statements.recover(rows, Source.XLOG)
        is_sync = bool(last.flags & Flag.WAIT_ACK) or (not last.flags & _WAITS and self._is_sync(rows))
        if is_sync or last.flags & _WAITS or self._queue.entries:
            lsn = next((row.lsn for row in reversed(rows) if row.replica_id), last.lsn)
            self._queue.append(Entry(lsn, is_sync, begin), last.replica_id)

    def _is_sync(self, rows: list[Row]) -> bool:
        """Before 2.6.3 the rows do not say it; the spaces do."""
        if self._schema.identity.dd_version >= (2, 6, 2):
            return False
        for row in rows:
            space = self._schema.spaces.get(SpaceId(of_row(row).space_id)) if row.type != Type.NOP else None
            if space is not None and space.is_sync:
                return True
        return False

    def _settle(self) -> None:
        memtx = self._schema.memtx
        if not self._queue.entries:
            memtx.confirm_to(memtx.undo_end)
