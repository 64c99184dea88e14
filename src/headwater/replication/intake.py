"""Rows of a master into the store and on to the journal, as they come (applier.cc: applier_process_batch,
applier_apply_tx, apply_plain_tx).

All that one read brought is one batch: `Memtx.apply_frames` takes what is plain in one call, and what it leaves goes
packet by packet. The journal is asked once, at the end. Nothing here waits for it, nor do two intakes need a latch:
what is new is decided by the prepared vclock, and between that look and the change nobody else runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headwater.errors import BoxError, Er, er
from headwater.kernels import frame_end
from headwater.replication.channel import packet_at
from headwater.replication.conflict import First
from headwater.replication.host import Host
from headwater.replication.load import FLAGS_SINCE, enqueue
from headwater.replication.stream import Transactions, unseen
from headwater.wire.constants import SYNCHRO_TYPES, type_name
from headwater.wire.xrow import Row

log = logging.getLogger("headwater.replication")

WHOLE_MAX = 4 << 20
"""A transaction that is not whole yet is waited for as it lies, so that it can be applied in one call. One with more
bytes than this is taken apart row by row as it comes."""


TRIES_PER_ROW = 3
"""A row may have to be set aside, and tuples may have to give way to it."""
UNKNOWN_LAG = 100 * 365 * 86400.0
"""Before the first row that says when it was written (TIMEOUT_INFINITY)."""


class Intake:
    """The rows of one connection."""

    def __init__(
        self,
        host: Host,
        written: Callable[[float], object],
        heard: Callable[[Row], bool],
    ) -> None:
        """`written`: a batch is written, its last row is of that time. `heard`: a packet without LSN came (heartbeat,
        RAFT, the OK at the end of REGISTER); True ends this stage of the connection."""
        self.lag = UNKNOWN_LAG
        """Seconds from the writing of the last row to its coming here."""
        self.is_over = False
        """`heard` has said so."""
        self._host = host
        self._memtx = host.memtx
        self._written = written
        self._heard = heard
        self._transactions = Transactions(host.replicaset_uuid)
        self._timestamp = 0.0
        """Of the last row that came."""
        self._last_packet = -1
        """Where the last whole packet of the batch begins; -1 while nobody has asked."""
        self._failures: int | None = None
        """Of the journal, so far, when the first bytes came. With one more, rows that came here, or were passed over as
        known, are undone: what comes behind them would be written with a gap."""

    async def digest(self, data: bytes) -> int:
        """Apply what is whole. The offset of the first byte that is still needed. BoxError for what cannot be applied;
        what came before it is applied, and the journal is asked for it."""
        before = self._memtx.vclock
        self._last_packet = -1
        self._check_whole()
        try:
            return await self._digest(data)
        finally:
            if self._memtx.vclock != before:
                self._settle(self._timestamp)

    def _check_whole(self) -> None:
        """WAL_IO where something is undone since the first bytes. The connection is ended for that, too, but what it
        had brought by then may still come here."""
        failures = self._host.journal.errors
        if self._failures is None:
            self._failures = failures
        elif self._failures != failures:
            raise er(Er.WAL_IO)

    async def _digest(self, data: bytes) -> int:
        at, end = 0, len(data)
        while at < end and not self.is_over:
            if self._is_plain:
                at, _, timestamp = self._memtx.apply_frames(data, at, end)
                self._note_time(timestamp)
                if at == end or self._is_cut(data, at):
                    break
            packet = packet_at(data, at)
            if packet is None:
                break
            row, at = packet
            await self._take(row)
            self._check_whole()
        return at

    @property
    def _is_plain(self) -> bool:
        """May the compiled path have the next transaction?"""
        if self._transactions.is_inside or self._host.conflicts.judge.sees_all:
            return False
        return not self._host.queue.entries or self._host.schema.identity.dd_version >= FLAGS_SINCE

    def _is_cut(self, data: bytes, at: int) -> bool:
        """Is the rest a part of one transaction that goes on in the next bytes? Then the compiled path can have it
        whole. It is, if the last packet here is of the same transaction as the first one, and does not end it."""
        first = packet_at(data, at)
        if first is None or first[0].is_commit or len(data) - at > WHOLE_MAX:
            return False
        if self._last_packet < at:
            self._last_packet = _last_packet(data, at)
        last = packet_at(data, self._last_packet)
        assert last is not None
        row, head = last[0], first[0]
        return not row.is_commit and (row.replica_id, row.tsn) == (head.replica_id, head.tsn)

    async def _take(self, row: Row) -> None:
        rows = self._transactions.take(row)
        self._note_time(row.timestamp)
        if rows is None:
            return
        if row.lsn:
            await self._apply(rows)
        else:
            self.is_over = self._heard(row)

    def _note_time(self, timestamp: float) -> None:
        if timestamp:
            self._timestamp = timestamp
            self.lag = self._host.world.clock.time() - timestamp

    async def _apply(self, rows: list[Row]) -> None:
        """A transaction, or what of it is new."""
        last = rows[-1]
        known = self._memtx.vclock[last.replica_id]
        if rows[0].lsn <= known:
            rows = unseen(rows, known)
        if not rows:
            return
        if rows[0].type in SYNCHRO_TYPES:
            await self._host.apply_synchro(rows[0])
            return
        try:
            await self._change(rows)
        except BoxError:
            log.error("error applying row: %s", _row_text(rows[-1]))
            raise

    async def _change(self, rows: list[Row]) -> None:
        """As often as something has to be done first: each time at least one row is decided."""
        memtx, conflicts, origin = self._memtx, self._host.conflicts, rows[-1].replica_id
        for _ in range(TRIES_PER_ROW * (len(rows) + 1)):
            begin = memtx.undo_end
            try:
                self._host.statements.apply(rows, conflicts.judge)
            except First as first:
                known = memtx.vclock[origin]
                await conflicts.do_first(first)
                if memtx.vclock[origin] < known:
                    # Meanwhile the journal failed; what came before these rows is undone.
                    raise er(Er.WAL_IO) from None
                rows = unseen(rows, memtx.vclock[origin])
                if not rows:
                    return
            else:
                enqueue(self._host.schema, self._host.queue, rows, begin)
                return
        raise er(Er.UNSUPPORTED, "A transaction of a peer", "conflicts that come again when they are resolved")

    def _settle(self, timestamp: float) -> None:
        def settled(error: BoxError | None) -> None:
            self._host.followed(error)
            if error is None:
                self._written(timestamp)
                self._host.vclock_moved()

        self._host.journal.settle(settled)


def _last_packet(data: bytes, at: int) -> int:
    """Where the last whole packet begins. There is one at `at`."""
    end = len(data)
    while (after := frame_end(data, at, end)) and after < end and frame_end(data, after, end):
        at = after
    return at


def _row_text(row: Row) -> str:
    """Which row it is, without what is in it."""
    return f"{{type: '{type_name(row.type) or row.type}', replica_id: {row.replica_id}, lsn: {row.lsn}}}"
