"""Who still needs which log files: one consumer a replica (gc.c; replication.cc, replication_anon_gc_fiber_f).

A consumer stands where its replica was when it connected, and moves to the beginning of a file once the replica has
acknowledged everything before that. It stays while the replica is away: a member's for as long as it is a member, an
anonymous replica's for `replication_anon_ttl`. Where the schema has `_gc_consumers` (3.3.0) it is stored there and
comes back after a restart. Members without a stored one are waited for: until they are back, or for
`wal_cleanup_delay`, nothing is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.journal.gc import Consumer
from headwater.replication.local import LocalSpace
from headwater.store import system
from headwater.store.events import Event as SchemaEvent
from headwater.store.events import MemberRemoved
from headwater.vclock import VClock
from headwater.wire.msgpack import pack, unpack
from headwater.world import Event, Task, Timer

if TYPE_CHECKING:
    from headwater.replication.host import Host
    from headwater.replication.replicaset import Replica

log = logging.getLogger("headwater.replication")

CLEANUP_DELAY = 4 * 3600.0
"""wal_cleanup_delay, where it is not set."""
_AWAITED = "members of the replica set have not come back yet"
_PREFIX = "replica "


def name_of(uuid: UUID) -> str:
    """In `box.info.gc()` (gc_consumer_name)."""
    return f"{_PREFIX}{uuid}"


class Consumers:
    """The consumers of one node's log."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._space = LocalSpace(host, system.GC_CONSUMERS)
        self._stored: dict[UUID, VClock] = {}
        """As they are in `_gc_consumers`."""
        self._awaited: set[UUID] = set()
        """Members that may need rows which nobody has asked for since the start."""
        self._held: dict[UUID, Callable[[], None]] = {}
        """What releases the snapshot that a replica was fetching, should it come back for the rest."""
        self._expiry: dict[UUID, Timer] = {}
        """When anonymous replicas that have left are forgotten."""
        self._resume: Timer | None = None
        self._changed: Event = host.world.tasks.event()
        self._fiber: Task | None = None

    # ---- life ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """The journal is open, maybe anew: take up what is stored, and keep what others may need."""
        host = self._host
        self._stop_timers()
        self._stored = self._load()
        for uuid, vclock in self._stored.items():
            self._register(uuid, vclock)
        members = {member.uuid for member in host.schema.cluster}
        for uuid in sorted(self._stored.keys() - members, key=lambda each: each.int):
            self._expire_later(uuid)
        self._awaited = members - self._stored.keys() - {host.uuid} if host.memtx.replica_id else set()
        host.gc.resume(_AWAITED)
        if self._awaited:
            self._wait_for_members()
        if self._removed not in host.schema.listeners:
            host.schema.listeners.append(self._removed)
            host.journal.on_rollback.append(self._undone)
        if self._fiber is None or self._fiber.done():
            self._fiber = host.world.tasks.spawn(self._keep(), "gc consumers")

    async def stop(self) -> None:
        """What is acknowledged is stored; the journal closes behind it."""
        self._stop_timers()
        if self._fiber is not None:
            self._fiber.cancel()
            self._fiber = None
            self._store_all()

    def _stop_timers(self) -> None:
        for timer in self._expiry.values():
            timer.cancel()
        self._expiry.clear()
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None

    def _wait_for_members(self) -> None:
        self._host.gc.pause(_AWAITED)
        log.info("wal/engine cleanup is paused: %s", _AWAITED)
        delay = self._host.options.wal_cleanup_delay
        self._resume = self._host.world.tasks.later(CLEANUP_DELAY if delay is None else delay, self._waited)

    def _waited(self) -> None:
        log.info("wal/engine cleanup is resumed due to timeout expiration")
        self._awaited.clear()
        self._go_on()

    def _arrived(self, uuid: UUID) -> None:
        if uuid in self._awaited:
            self._awaited.discard(uuid)
            if not self._awaited:
                log.info("wal/engine cleanup is resumed")
                self._go_on()

    def _go_on(self) -> None:
        self._host.gc.resume(_AWAITED)
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        self._changed.set()

    # ---- replicas ------------------------------------------------------------------------------------

    async def connect(self, uuid: UUID, vclock: VClock) -> None:
        """It needs rows after this from now on. Returns when that is stored. Where it cannot be, for the disk is full,
        it is known all the same, and stored when something is written again: who cannot write can still be followed
        (Tarantool refuses the replica then)."""
        host = self._host
        timer = self._expiry.pop(uuid, None)
        if timer is not None:
            timer.cancel()
        consumer = self._register(uuid, vclock)
        if self._space.exists:
            self._store(uuid, consumer)
            try:
                await host.journal.sync()
            except BoxError as error:
                log.error("cannot store where replica %s is: %s", uuid, error.message)
        self._release(uuid)
        self._arrived(uuid)

    def _register(self, uuid: UUID, vclock: VClock) -> Consumer:
        """Who is no member is known too, while something is kept for it (replicaset_add_anon)."""
        replica = self._host.replicaset.get(uuid)
        replica.has_consumer = True
        replica.is_anon = replica.is_anon or not (replica.id or replica.is_self or replica.applier)
        return self._host.gc.register(name_of(uuid), vclock)

    def hold(self, uuid: UUID, release: Callable[[], None]) -> None:
        """A replica that is connected fetches a snapshot, which is pinned: `release` is called when it connects anew,
        or will not come back."""
        self._release(uuid)
        self._held[uuid] = release

    def _release(self, uuid: UUID) -> None:
        release = self._held.pop(uuid, None)
        if release is not None:
            release()
            self._changed.set()

    def acknowledged(self, uuid: UUID, vclock: VClock) -> None:
        """It has everything up to here: files that hold nothing else are not needed for it any more
        (relay_on_close_log_f, relay_schedule_pending_gc)."""
        consumer = self._host.gc.consumer(name_of(uuid))
        if consumer is None:
            return
        for entry in reversed(self._host.journal.entries):
            if entry.vclock.signature <= consumer.vclock.signature:
                return
            if vclock.covers(entry.vclock, ignore0=True):
                self._advance(consumer, entry.vclock)
                return

    def advance(self, uuid: UUID, vclock: VClock) -> None:
        """The last stage of a JOIN is over."""
        consumer = self._host.gc.consumer(name_of(uuid))
        if consumer is not None:
            self._advance(consumer, vclock)

    def _advance(self, consumer: Consumer, vclock: VClock) -> None:
        self._host.gc.advance_consumer(consumer.name, vclock)
        self._changed.set()

    def left(self, replica: Replica) -> None:
        """Its connection is over (replica_on_disconnect)."""
        if replica.id or self._host.gc.consumer(name_of(replica.uuid)) is None:
            return
        if replica.is_anon:
            self._expire_later(replica.uuid)
        else:
            self.forget(replica.uuid)

    def drop(self, uuid: UUID) -> None:
        """box.ctl.replica_gc: keep nothing more for a replica that is not connected, member or not (replica_gc)."""
        replica = self._host.replicaset.find(uuid)
        if replica is None or replica.is_self:
            words = "Replica does not exist" if replica is None else "Cannot clean up self"
            raise er(Er.REPLICA_GC, str(uuid), words)
        if replica.guest is not None:
            raise er(Er.REPLICA_GC, str(uuid), "Replica is connected")
        self._arrived(uuid)
        self._let_go(uuid)

    def _let_go(self, uuid: UUID) -> None:
        """An anonymous one is forgotten itself, too."""
        timer = self._expiry.pop(uuid, None)
        if timer is not None:
            timer.cancel()
        replica = self._host.replicaset.find(uuid)
        if replica is not None and not replica.id:
            replica.relay = None
        self.forget(uuid)

    def forget(self, uuid: UUID) -> None:
        """It will not come back, or it does not matter (gc_erase_consumer)."""
        self._host.gc.unregister(name_of(uuid))
        self._release(uuid)
        replica = self._host.replicaset.find(uuid)
        if replica is not None:
            replica.has_consumer = False
            self._host.replicaset.forget_if_orphaned(uuid)
        self._changed.set()

    def _expire_later(self, uuid: UUID) -> None:
        ttl = self._host.options.replication_anon_ttl
        self._expiry[uuid] = self._host.world.tasks.later(ttl, self._expired, uuid)

    def _expired(self, uuid: UUID) -> None:
        log.info("anonymous replica %s has not been used for too long, so it has been removed", uuid)
        self._let_go(uuid)

    def _removed(self, event: SchemaEvent) -> None:
        """A member is one no longer (replica_clear_id). While it is connected its consumer stays."""
        if not isinstance(event, MemberRemoved):
            return
        self._arrived(event.member.uuid)
        replica = self._host.replicaset.find(event.member.uuid)
        if replica is None or replica.guest is None:
            self.forget(event.member.uuid)

    # ---- on the disk ---------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Store what has changed, then remove what nobody needs any more (gc_sync_fiber_f, gc_cleanup_fiber_f)."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.store()
                await self._host.collect_garbage()
            except BoxError as error:
                log.error("cannot store where replicas are: %s", error.message)

    async def store(self) -> None:
        """Returns when all that has changed is written."""
        if self._store_all():
            await self._host.journal.sync()

    def _load(self) -> dict[UUID, VClock]:
        rows = [unpack(each) for each in self._space.tuples()]
        return {UUID(row[0]): VClock(row[1]) for row in rows}

    def _undone(self) -> None:
        """Rows of ours may be among those that could not be written."""
        self._stored = self._load()

    def _store_all(self) -> bool:
        """Is there a row that must be written?"""
        if not self._space.exists:
            return False
        now = {
            UUID(one.name.removeprefix(_PREFIX)): one for one in self._host.gc.consumers if one.name.startswith(_PREFIX)
        }
        gone = [uuid for uuid in self._stored if uuid not in now]
        moved = [uuid for uuid, one in now.items() if self._stored.get(uuid) != one.vclock]
        for uuid in gone:
            self._erase(uuid)
        for uuid in moved:
            self._store(uuid, now[uuid])
        return bool(gone or moved)

    def _store(self, uuid: UUID, consumer: Consumer) -> None:
        if self._stored.get(uuid) == consumer.vclock:
            return
        vclock = consumer.vclock.as_dict(ignore0=True)
        self._space.replace(pack([str(uuid), vclock, {"type": "replica"}]))
        self._stored[uuid] = consumer.vclock.copy()

    def _erase(self, uuid: UUID) -> None:
        self._space.delete(pack([str(uuid)]))
        del self._stored[uuid]
