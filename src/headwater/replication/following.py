"""One subscription: rows in, acknowledgements out (applier.cc: applier_subscribe, applier_thread_reader_f,
applier_thread_writer_f)."""

from __future__ import annotations

import logging
from typing import Protocol

from headwater.errors import BoxError, Er, er
from headwater.replication import requests
from headwater.replication.border import Border
from headwater.replication.channel import Channel, ChannelClosed
from headwater.replication.host import Host
from headwater.replication.intake import Intake
from headwater.vclock import Order, VClock
from headwater.wire.constants import Type
from headwater.wire.greeting import NIL_UUID
from headwater.wire.replication import (
    SubscribeReply,
    decode_error,
    decode_relay_heartbeat,
    decode_subscribe_reply,
)
from headwater.wire.synchro import RaftMessage, decode_raft
from headwater.wire.xrow import Row
from headwater.world import Event, Task

log = logging.getLogger("headwater.replication")


class Owner(Protocol):
    """The applier whose subscription it is."""

    def heard(self) -> None: ...

    def synced(self) -> None: ...

    def restart(self, error: BoxError) -> None: ...


class Following:
    """From SUBSCRIBE to the end of the connection."""

    def __init__(
        self, host: Host, channel: Channel, version: int, owner: Owner, border: Border, *, is_member: bool = False
    ) -> None:
        """`is_member`: the master has given us an id, and the row that says so is to come."""
        self.instance_id = 0
        """Of the master."""
        self.remote_vclock = VClock()
        """The master's when we subscribed. Once we have all of it, and little lag, we are in sync."""
        self.local_vclock = host.journal.vclock
        """Ours when we subscribed."""
        self.raft: RaftMessage | None = None
        self._host = host
        self._channel = channel
        self._version = version
        self._is_member = is_member
        self._owner = owner
        self._border = border
        """Between the master's replica ids and ours."""
        self._intake = Intake(host, self._written, self._heard)
        self._vclock_sync = 0
        """Number in the master's last heartbeat; we send it back."""
        self._timestamp = 0.0
        """Of the last written transaction; each is sent once."""
        self._to_acknowledge: Event = host.world.tasks.event()
        self._writer: Task | None = None
        self._is_over = False

    @property
    def lag(self) -> float:
        return self._intake.lag

    # ---- the request ----------------------------------------------------------------------------------

    async def subscribe(self) -> None:
        """Ask for everything after what is written here. Rows that are prepared and not yet written come again, and are
        known then."""
        host, border = self._host, self._border
        await border.open(self._channel)
        own = host.memtx.replica_id
        id_filter = frozenset[int]() if host.needs_own_rows else border.filter_out((own,))
        vclock = border.vclock_out(self.local_vclock.as_dict(ignore0=True))
        self._channel.send(requests.subscribe(host, self._version, vclock, id_filter, is_member=self._is_member))
        row = await self._channel.packet()
        if row.is_error:
            raise decode_error(row)
        if row.type != Type.OK:
            raise er(Er.PROTOCOL, "Invalid response to SUBSCRIBE")
        reply = decode_subscribe_reply(row)
        self._check(reply)
        self.instance_id = row.replica_id
        self.remote_vclock = VClock(border.vclock_in(reply.vclock))

    def _check(self, reply: SubscribeReply) -> None:
        """Is it of our set? Masters up to 2.1 do not say, and have looked themselves."""
        host = self._host
        if reply.replicaset_uuid not in (NIL_UUID, host.replicaset_uuid):
            raise er(Er.REPLICASET_UUID_MISMATCH, str(reply.replicaset_uuid), str(host.replicaset_uuid))
        name = host.schema.identity.replicaset_name
        if name and self._version >= requests.KNOWS_NAMES and reply.replicaset_name != name:
            if not host.options.force_recovery:
                raise er(Er.REPLICASET_NAME_MISMATCH, name, reply.replicaset_name or "<no-name>")
            log.info("replicaset name mismatch allowed by 'force_recovery'")

    # ---- rows -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the connection is at its end, which is an error."""
        journal = self._host.journal
        self._writer = self._host.world.tasks.spawn(self._acknowledge(), "applier writer")
        journal.on_rollback.append(self._undone)
        try:
            await self._read()
        finally:
            journal.on_rollback.remove(self._undone)

    async def _read(self) -> None:
        data, at = b"", 0
        while True:
            data = await self._take(data, at)
            self._owner.heard()
            at = await self._intake.digest(data)
            await self._wait_room()

    async def _take(self, data: bytes, at: int) -> bytes:
        """More bytes, behind those from `at` on. Nothing at all for too long is the end of the connection."""
        channel, tasks = self._channel, self._host.world.tasks
        channel.keep_partial(*self._border.before(data, at))
        while True:
            before = channel.received_bytes
            try:
                async with tasks.timeout(4 * self._host.options.replication_timeout):
                    return self._border.rows_in(await channel.take())
            except TimeoutError:
                if channel.received_bytes == before:
                    raise

    async def _wait_room(self) -> None:
        """The journal has too much to write: read no more meanwhile."""
        journal = self._host.journal
        while journal.full:
            room: Event = self._host.world.tasks.event()
            journal.when_room(room.set)
            await room.wait()

    def _heard(self, row: Row) -> bool:
        """A heartbeat or a RAFT message (applier_process_heartbeat, applier_handle_raft)."""
        if row.type == Type.RAFT:
            self._take_raft(row)
        else:
            self._take_heartbeat(row)
        self._to_acknowledge.set()
        self._check_sync()
        return False

    def _take_raft(self, row: Row) -> None:
        if not self.instance_id:
            raise er(Er.PROTOCOL, "Can't apply a Raft request from an instance without an ID")
        self.raft = decode_raft(row)
        row.replica_id = self.instance_id
        self._host.take_raft(row)

    def _take_heartbeat(self, row: Row) -> None:
        number = decode_relay_heartbeat(row).vclock_sync
        if not number:
            return
        if number < self._vclock_sync:
            raise er(Er.PROTOCOL, f"Non-monotonic vclock sync value. Old: {self._vclock_sync}, new: {number}")
        self._vclock_sync = number

    # ---- acknowledgements -----------------------------------------------------------------------------

    def _written(self, timestamp: float) -> None:
        if not self._is_over:
            self._timestamp = timestamp
            self._to_acknowledge.set()
            self._check_sync()

    def _undone(self) -> None:
        """A write failed, and all that was prepared is undone, rows of other masters too that we have passed over as
        known (applier_on_rollback)."""
        self._owner.restart(er(Er.WAL_IO))

    def _check_sync(self) -> None:
        """applier_check_sync"""
        if self.lag > self._host.options.replication_sync_lag:
            return
        order = self.remote_vclock.compare(self._host.journal.vclock, ignore0=True)
        if order in (Order.LESS, Order.EQUAL):
            self._owner.synced()

    async def _acknowledge(self) -> None:
        """The writer: after each batch that is written, each heartbeat, and when nothing was said for a while."""
        host = self._host
        while not self._channel.is_closed:
            try:
                async with host.world.tasks.timeout(host.options.replication_timeout):
                    await self._to_acknowledge.wait()
            except TimeoutError:
                log.debug("nothing new to acknowledge")
            self._to_acknowledge.clear()
            try:
                self._send()
                await self._channel.flush()
            except ChannelClosed:
                return

    def _send(self) -> None:
        vclock = self._border.vclock_out(self._host.journal.vclock.as_dict(ignore0=True))
        row = requests.acknowledgement(
            self._version, vclock, self._host.election.term, self._vclock_sync, self._timestamp
        )
        self._timestamp = 0.0
        self._channel.send(row)

    def end(self) -> None:
        """The connection is given up."""
        self._is_over = True
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.cancel()
