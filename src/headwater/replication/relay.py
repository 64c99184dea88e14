"""Feeds one subscriber: rows, heartbeats, and what it acknowledges (relay.cc; seed 001).

Two fibers: one writes, one reads acknowledgements. A batch that is written while the peer is at the end of the journal
goes out in the very turn, as a slice of bytes that all relays share; a peer that does not take what it got waits for
itself alone. Heartbeats go out by a timer of their own, between two whole transactions: while rows flow, while old
files are read, and while nothing happens (relay_send_heartbeat_on_timeout).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.errors import BoxError, Er, SocketError, TimedOut, er
from headwater.replication.border import Border
from headwater.replication.channel import OUTPUT_MAX, Channel, ChannelClosed, packet_at
from headwater.replication.cursor import Cursor
from headwater.replication.peers import (
    ECHOES_SYNC,
    LAG_NEEDS_TIME,
    hidden_types,
    hide,
    raft_group,
    rewrite,
    takes_raft,
)
from headwater.vclock import VClock, VClockError
from headwater.wire.constants import RaftState, Type
from headwater.wire.replication import RelayHeartbeat, Subscribe, decode_applier_heartbeat, encode_relay_heartbeat
from headwater.wire.synchro import RaftMessage, decode_synchro, encode_raft
from headwater.wire.xrow import Row, encode_packet
from headwater.world import Event, Timer

if TYPE_CHECKING:
    from headwater.replication.host import Host
    from headwater.replication.replicaset import Replica
    from headwater.replication.ship import Portion

log = logging.getLogger("headwater.replication")

DISCONNECT_AFTER = 4
"""replication_disconnect_timeout: so many times replication_timeout of silence."""
_PROMOTIONS = frozenset((Type.RAFT_PROMOTE, Type.RAFT_DEMOTE))


class Relay:
    """One subscription. It stays in `Replica.relay` after its end, for box.info."""

    def __init__(
        self,
        host: Host,
        replica: Replica,
        channel: Channel,
        request: Subscribe,
        sync: int,
        border: Border | None = None,
    ) -> None:
        """`request` is in our replica ids; what goes to the peer and comes from it passes the `border`."""
        clock = host.world.clock
        self.state = "follow"
        """"stopped" after its end."""
        self.error: BoxError | None = None
        """What ended it."""
        self.peer = channel.peer
        self.version = request.version_id
        self.is_anon = bool(request.is_anon)
        self.vclock = VClock(request.vclock).copy(ignore0=True)
        """What the peer has acknowledged."""
        self.term = 0
        """Its term, as far as it tells."""
        self.vclock_sync = 0
        """The last heartbeat of ours that it has seen."""
        self.lag = 0.0
        """Seconds between the writing of a transaction here and the news that the peer has it."""
        self.sent_rows = 0
        self.sent_bytes = 0
        self.last_row_time = clock.monotonic()
        """When something was sent to it last."""
        self.heard = clock.monotonic()
        """When something came from it last."""
        self._host = host
        self._replica = replica
        self._channel = channel
        self._border = border or Border()
        self._sync = sync
        self._own_limit = host.journal.vclock.get(replica.id) if replica.id else 0
        """Own rows of the peer up to here are sent back to it: it may have lost them (relay_filter_row)."""
        self._skip = sum(1 << replica_id for replica_id in {0, *(request.id_filter or ())})
        self._hidden = hidden_types(self.version, host.schema.identity.dd_version)
        self._takes_raft = takes_raft(self.version, host.schema.identity.dd_version, is_anon=self.is_anon)
        self._cares = self._hidden | (_PROMOTIONS if self._takes_raft else frozenset())
        self._sent_term = 0
        self._heartbeats = 0
        self._beat_time = clock.monotonic()
        self._sent_since_beat = False
        """Rows went out since the last heartbeat: it tells no time then, which would spoil the peer's lag."""
        self._cursor: Cursor | None = None
        self._timer: Timer | None = None
        self._news: Event = host.world.tasks.event()
        self.is_dismissed = False
        """This node ends: the peer is told to come again."""
        self._is_at_end = False
        """The writing fiber waits for news: what is written may go out at once."""

    @property
    def uuid(self) -> UUID:
        return self._replica.uuid

    @property
    def id(self) -> int:
        return self._replica.id

    @property
    def idle(self) -> float:
        """Seconds since something was sent to it."""
        return self._host.world.clock.monotonic() - self.last_row_time

    # ---- life ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the connection is at its end, or something else ends it, which is raised then."""
        host = self._host
        host.ship.relays.append(self)
        reading = None
        try:
            self._cursor = Cursor(host, self._start_vclock(), self._written)
            reading = host.world.tasks.spawn(self._listen(), f"relay {self.peer} reader")
            self._heartbeat()
            self._timer = host.world.tasks.later(host.options.replication_timeout, self._beat)
            await self._feed(self._cursor)
        except ChannelClosed as closed:
            self.stop(SocketError(str(closed), self.peer))
        except BoxError as error:
            self.stop(error)
        finally:
            self._end()
            if reading is not None:
                reading.cancel()
        if self.error is not None:
            raise self.error

    def stop(self, error: BoxError | None = None) -> None:
        """End it. The first reason is told."""
        if self.state == "stopped":
            return
        self.state = "stopped"
        self.is_dismissed = error is None
        self.error = error or er(Er.LOADING)
        self.lag = 0.0
        if self._timer is not None:
            self._timer.cancel()
        self._news.set()
        if self._channel.pending > OUTPUT_MAX:
            self._channel.abort(self.error.message)

    def _end(self) -> None:
        self.stop()
        self._host.ship.relays.remove(self)
        if self._cursor is not None:
            self._cursor.close()

    def _start_vclock(self) -> VClock:
        """Component 0 of the peer says nothing here (box_localize_vclock)."""
        start = self.vclock.copy()
        start.reset(0, self._host.journal.vclock.get(0))
        return start

    # ---- rows ----------------------------------------------------------------------------------------

    async def _feed(self, cursor: Cursor) -> None:
        while self.state == "follow":
            portion = cursor.near()
            if portion is None and cursor.is_behind:
                portion = await cursor.far()
            if self.state != "follow":
                return
            if portion is not None:
                self._send(cursor, portion)
                await self._channel.flush()
            elif not cursor.is_behind:
                self._news.clear()
                self._is_at_end = True
                await self._news.wait()
                self._is_at_end = False

    def _written(self) -> None:
        """The journal has a new batch. Whoever is at its end gets it at once."""
        if not self._is_at_end or self._channel.pending > OUTPUT_MAX:
            self._news.set()
            return
        cursor = self._cursor
        assert cursor is not None
        try:
            while (portion := cursor.near()) is not None:
                self._send(cursor, portion)
        except ChannelClosed as closed:
            self.stop(SocketError(str(closed), self.peer))
        except BoxError as error:
            self.stop(error)
        if cursor.is_behind:
            self._news.set()

    def _send(self, cursor: Cursor, portion: Portion) -> None:
        data, rows = portion.frames.pick(cursor.have, self._skip, self.id, self._own_limit, self._sync)
        if not rows:
            return
        if portion.kinds & self._cares:
            data = rewrite(data, self._cares, self._special)
        self._sent_since_beat = True
        self._write(data, rows)

    def _special(self, row: Row) -> bytes:
        """A row that this peer does not know, or that must not come before a RAFT message of its term."""
        if row.type in self._hidden:
            return hide(row)
        term = decode_synchro(row).term
        packet = encode_packet(row)
        return packet if term <= self._sent_term else self._raft_packet(self._raft_state(term)) + packet

    def _write(self, data: bytes, rows: int = 0) -> None:
        """The only way to the peer."""
        data = self._border.rows_out(data)
        self._channel.write(data)
        self.sent_rows += rows
        self.sent_bytes += len(data)
        self.last_row_time = self._host.world.clock.monotonic()

    # ---- the election --------------------------------------------------------------------------------

    def tell_raft(self, sync: int = 0) -> None:
        """The state of the election here, to a peer that reads it (box_raft_checkpoint_remote)."""
        if self._takes_raft:
            self._write(self._raft_packet(self._raft_state(), sync))

    def push_raft(self, message: RaftMessage) -> None:
        if not self._takes_raft or self.state != "follow":
            return
        try:
            self._write(self._raft_packet(message, self._sync))
        except ChannelClosed as closed:
            self.stop(SocketError(str(closed), self.peer))

    def _raft_state(self, term: int = 0) -> RaftMessage:
        """`term`: one that a row of the journal has told."""
        election = self._host.election
        if term > election.term:
            return RaftMessage(term, state=RaftState.FOLLOWER)
        return RaftMessage(election.term, election.vote, RaftState.FOLLOWER)

    def _raft_packet(self, message: RaftMessage, sync: int | None = None) -> bytes:
        row = encode_raft(message)
        row.group_id, row.sync = raft_group(self.version), self._sync if sync is None else sync
        self._sent_term = max(self._sent_term, message.term)
        return encode_packet(row)

    # ---- time ----------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Every replication_timeout. A node that was stopped itself must not blame its peers for the silence."""
        tasks, timeout = self._host.world.tasks, self._host.options.replication_timeout
        now = self._host.world.clock.monotonic()
        if now - self._beat_time > DISCONNECT_AFTER / 2 * timeout:
            self.heard = now
        self._beat_time = now
        if now - self.heard > DISCONNECT_AFTER * timeout:
            self.stop(TimedOut())
            return
        try:
            if self._channel.pending <= OUTPUT_MAX:
                self._heartbeat()
        except ChannelClosed as closed:
            self.stop(SocketError(str(closed), self.peer))
            return
        self._timer = tasks.later(timeout, self._beat)

    def _heartbeat(self) -> None:
        """relay_send_heartbeat"""
        self._heartbeats += 1
        heartbeat = RelayHeartbeat(self._heartbeats if self.version >= ECHOES_SYNC else 0)
        is_timeless = self._sent_since_beat and self.version >= LAG_NEEDS_TIME
        timestamp = 0.0 if is_timeless else self._host.world.clock.time()
        row = encode_relay_heartbeat(heartbeat, self._host.memtx.replica_id, timestamp)
        row.sync = self._sync
        self._sent_since_beat = False
        self._write(encode_packet(row))

    # ---- what it acknowledges ------------------------------------------------------------------------

    async def _listen(self) -> None:
        """relay_reader_f"""
        channel = self._channel
        try:
            while True:
                data = await channel.take()
                at = 0
                while (found := packet_at(data, at)) is not None:
                    row, at = found
                    self._acknowledged(row)
                self.heard = self._host.world.clock.monotonic()
                if at < len(data):
                    channel.keep(data, at)
        except ChannelClosed as closed:
            self.stop(SocketError(str(closed), self.peer))
        except BoxError as error:
            self.stop(error)

    def _acknowledged(self, row: Row) -> None:
        heartbeat = decode_applier_heartbeat(row)
        try:
            vclock = VClock(self._border.vclock_in(heartbeat.vclock))
        except VClockError as error:
            raise er(Er.PROTOCOL, str(error)) from None
        has_more = not self.vclock.covers(vclock, ignore0=True)
        if has_more:
            self.vclock.merge(vclock, ignore0=True)
            if row.timestamp:
                self.lag = self._host.world.clock.time() - row.timestamp
            self._host.consumers.acknowledged(self.uuid, self.vclock)
        self.term = max(self.term, heartbeat.term or 0)
        self.vclock_sync = heartbeat.vclock_sync
        for call in self._host.ship.on_ack:
            call(self)
