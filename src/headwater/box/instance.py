"""One node: the rooms wired together, from an empty or a full directory to a node that answers (box.cc, box_cfg).

Nothing is decided here that a machine could decide; this is the order of things.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from headwater.box import facts, first
from headwater.box.backup import Backups
from headwater.box.broadcast import INTERVAL, Broadcasts
from headwater.box.call import Calls
from headwater.box.conflicts import Conflicts
from headwater.box.credentials import create_credentials, grant_guest, open_guest, warn_of_open_guest
from headwater.box.events import Events
from headwater.box.execute import Statements
from headwater.box.identity import check_identity, set_cluster_name, set_replicaset_name
from headwater.box.info import Facts
from headwater.box.membership import Membership
from headwater.box.picture import kept_spaces, sent_spaces, system_rows
from headwater.box.procedures import registry
from headwater.box.readonly import ReadOnly
from headwater.box.replay import Replay
from headwater.box.replicaids import check_ids, kept_ids
from headwater.box.settings import apply_settings, settings_of
from headwater.box.stat import Stats
from headwater.box.synchro import SynchroRows
from headwater.box.watchers import Watchers
from headwater.errors import BoxError
from headwater.journal import (
    CheckpointDaemon,
    Checkpointer,
    Gc,
    Journal,
    Progress,
    Recovered,
    Recovery,
    lock_directories,
    open_writer,
)
from headwater.journal.batch import prepared_vclock
from headwater.kernels import Memtx
from headwater.limbo.queue import SyncQueue
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.replication.applier import Applier
from headwater.replication.channel import Channel
from headwater.replication.consumers import Consumers
from headwater.replication.ids import ReplicaIds
from headwater.replication.replicaset import Replicaset
from headwater.replication.serve import serve
from headwater.replication.ship import Ship
from headwater.store.schema import Schema
from headwater.store.users import User
from headwater.txn import Txns
from headwater.vclock import VClock
from headwater.wire.ballot import Ballot
from headwater.wire.constants import RaftState
from headwater.wire.request import Request
from headwater.wire.synchro import RaftMessage
from headwater.wire.xrow import Row
from headwater.world import World

log = logging.getLogger("headwater.box")

NIL = UUID(int=0)
FIRST_WRITES_AGAIN = 1.0
"""Seconds until what the options want in the dictionary is tried again."""


class Server(Protocol):
    """Who listens and answers (`server.iproto.IprotoServer`)."""

    @property
    def addresses(self) -> list[str]: ...

    async def listen(self, addresses: Sequence[str]) -> None: ...

    def renew_users(self) -> None:
        """The users are others now: nobody has logged in yet."""

    async def shutdown(self) -> None: ...


class Box:
    """Make it, `await start()`, and later `await stop()`. One instance a world; nothing is shared between two."""

    def __init__(self, world: World, options: Options, make_server: Callable[[Box], Server]) -> None:
        """`make_server` makes the server of this instance; it stands in a room below."""
        self.world = world
        self.options = options
        self.pid = 0
        """Of the process; for show."""
        self.hostname: str | None = None
        self.credentials: Mapping[str, Any] = {}
        """Users and roles of the configuration, made when the node is first writable."""
        self.on_log_options: Callable[[], object] = lambda: None
        """The level of the log was set by box.cfg."""
        self.is_ready = False
        self.memtx = Memtx()
        self.schema = Schema(self.memtx)
        self.read_only = ReadOnly()
        self.stats = Stats(take_served=self.memtx.take_served)
        self.watchers = Watchers(world.tasks)
        self.events = Events(self.watchers)
        self.txns = Txns(self.memtx, lambda: self.schema.spaces.values(), world.clock.time)
        self.statements = Statements(self.schema, self.txns, options, self.read_only, self.stats, world.tasks)
        self.settings = settings_of(options)
        self.gc = Gc(options.checkpoint_count)
        self.journal = Journal(world, self.memtx, self.settings, self.gc)
        self.backups = Backups(self)
        self.procedures = Calls(self)
        self.election = Persistent()
        self.queue = SyncQueue()
        self.synchro = SynchroRows(self)
        self.kept_ids = kept_ids(self)
        self.membership = Membership(self)
        self.ship = Ship(self)
        self.consumers = Consumers(self)
        self.conflicts = Conflicts(self)
        self.tell = Broadcasts(self, self.events)
        self.server = make_server(self)
        self.checkpointer: Checkpointer | None = None
        self._stage = "unconfigured"
        self._daemon: CheckpointDaemon | None = None
        self._born = world.clock.monotonic()
        self._unlock: Callable[[], None] = lambda: None
        self._made_first_writes = False
        self._told_progress = 0.0
        self._position: VClock | None = VClock()
        """Of the files, as far as their heads tell; None once they are read."""
        self._is_journal_open = False
        self._replay: Replay | None = None
        self._recovered: Recovered | None = None
        """What a rebootstrap is to replace."""
        self._is_store_taken = False
        """What was recovered is gone from memory: a join began."""
        self.schema.listeners.append(self.membership.schema_changed)
        self.schema.listeners.append(self.tell.schema_changed)
        self.schema.has_connections = self._has_connections
        self.read_only.listeners.append(self._read_only_changed)
        self.gc.on_moved = self._rows_removed
        self.journal.on_rollback.append(lambda: self.events.wal_error(self.journal.errors))

    # ---- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Until requests are served and, for as long as the options say, until peers are caught up with. Listens as
        soon as it knows who it is, and answers LOADING until all is there."""
        options = self.options
        self.procedures = Calls(self, registry.load(options.procedure_modules))
        self.conflicts.load()
        for setting in options.ignored():
            log.warning("option '%s' has no effect: %s", setting.name, setting.why)
        self._unlock = lock_directories(self.world.disk, options.wal_dir, options.memtx_dir)
        self._stage = "loading"
        self.schema.force_recovery = options.force_recovery
        self.schema.identity.instance_name = options.instance_name or ""
        recovery = self._recovery()
        found = await recovery.look()
        if found is not None:
            self._position = found.vclock
        self.schema.identity.instance_uuid = found.instance_uuid if found is not None else self._new_uuid()
        log.info("instance uuid %s", self.uuid)
        self._tell_before_ready()
        await self._listen()
        if found is None:
            self._position = None
            await self.membership.begin()
        else:
            await self._come_back(recovery)
        await self._be_ready()

    async def stop(self) -> None:
        """Finish what is promised, close the files, let go of the directories."""
        self.membership.stop()
        await self.conflicts.stop()
        if self._is_journal_open:
            await self.consumers.stop()
        self.ship.stop()
        await self.server.shutdown()
        if self._is_journal_open:
            await self.journal.close()
        self._stage = "stopped"
        self._unlock()

    async def _listen(self) -> None:
        await self.server.listen([str(uri) for uri in self.options.addresses])

    def _new_uuid(self) -> UUID:
        given = self.options.instance_uuid
        return UUID(given) if given else self.world.chance.uuid4()

    async def _be_ready(self) -> None:
        """Everything local is done (box.cc, box_cfg_xc, after local_recovery or bootstrap)."""
        self.read_only.update(by_config=self._is_read_only_by_option)
        self.synchro.look()
        log.info("replicaset uuid %s", self.replicaset_uuid)
        self._stage = "running"
        self.membership.follow()
        self.is_ready = True
        self.tell.everything()
        if self.options.dev:
            open_guest(self.schema)
        else:
            warn_of_open_guest(self)
        self._start_fibers()
        await self.membership.sync()
        if not self.read_only.active:
            await self._first_writes()

    @property
    def _is_read_only_by_option(self) -> bool:
        """`unless_bootstrap`: writable is only who has just made the set (box_check_ro)."""
        given = self.options.read_only
        return not self.membership.is_leader if given == "unless_bootstrap" else bool(given)

    def _start_fibers(self) -> None:
        assert self.checkpointer is not None
        self._daemon = CheckpointDaemon(self.world, self.checkpointer, self.gc)
        self._daemon.configure(self.options.checkpoint_interval)
        self.journal.on_threshold = self._daemon.trigger
        self.world.tasks.spawn(self._daemon.run(), "checkpoints")
        self.world.tasks.spawn(self._tick(), "statistics")

    async def _first_writes(self) -> None:
        """What the options want to be in the dictionary, when the node is first writable. A follower of others takes
        from them what `dev` grants: two rows of one key, written by two, would stop replication."""
        if self._made_first_writes:
            return
        self._made_first_writes = True
        if self.options.dev and (self.membership.is_leader or not self.options.upstreams):
            grant_guest(self)
        create_credentials(self, self.credentials)
        await self.settled()

    async def _try_first_writes(self) -> None:
        """A disk that takes nothing now may take it later."""
        while not (self._made_first_writes or self.is_read_only):
            try:
                await self._first_writes()
            except BoxError as error:
                self._made_first_writes = False
                log.error("users of the options cannot be written: %s. This is tried again", error.message)
                await self.world.tasks.sleep(FIRST_WRITES_AGAIN)

    async def _tick(self) -> None:
        """Rates of box.stat and the ballot's vclock."""
        while True:
            await self.world.tasks.sleep(INTERVAL)
            self.stats.tick()
            self.tell.rows_written()

    # ---- from the files --------------------------------------------------------------------------------

    def _recovery(self) -> Recovery:
        replay = Replay(self.schema, self.statements, self.election, self.queue, keep_waiting=self._has_peers)
        self._replay = replay
        return Recovery(
            self.world,
            self.memtx,
            self.settings,
            apply_row=replay.row,
            instance_uuid=UUID(self.options.instance_uuid) if self.options.instance_uuid else None,
            snapshot_done=replay.snapshot_done,
            progress=self._progress,
        )

    @property
    def _has_peers(self) -> bool:
        return bool(self.options.upstreams)

    async def _come_back(self, recovery: Recovery) -> None:
        """local_recovery. A rebootstrap that began and was not needed any more leaves an empty store: read again."""
        while True:
            self.schema.begin_snapshot()
            recovered = await recovery.run()
            assert recovered is not None, "it was there a moment ago"
            assert self._replay is not None
            self._replay.finish()
            self._position = None
            self._recovered, self._is_store_taken = recovered, False
            if self.kept_ids is not None:
                self.kept_ids.load()
            if await self.membership.meet():
                return
            if not self._is_store_taken:
                break
            recovery = self._recovery()
        self._take_up(recovered)

    def _progress(self, progress: Progress) -> None:
        """A line every few seconds, for whoever waits."""
        now = self.world.clock.monotonic()
        if not self._told_progress:
            self._told_progress = now
        elif now - self._told_progress >= 2.0:
            self._told_progress = now
            done = 100.0 * progress.bytes_done / progress.bytes_total if progress.bytes_total else 0.0
            log.info("recovering: %d rows, %.0f%% of the files", progress.rows, done)

    def _take_up(self, recovered: Recovered) -> None:
        """Go on where the files end."""
        member = self.schema.cluster.by_uuid(recovered.instance_uuid)
        if member is not None:
            self.memtx.replica_id = member.id
        check_identity(self.schema, self.memtx.replica_id, self.options)
        check_ids(self, self.queue.owner)
        self.schema.end_recovery()
        now = self.world.clock.time()
        for snapshot in recovered.checkpoints:
            self.gc.add_checkpoint(snapshot.vclock, now)
        self.gc.vclock = recovered.oldest.copy()
        self._open_journal(recovered)

    def _open_journal(self, recovered: Recovered) -> None:
        writer = open_writer(self.world.disk, self.settings, recovered)
        self.journal.open(writer, tail_size=recovered.tail_size)
        self._is_journal_open = True
        self.checkpointer = Checkpointer(
            self.world,
            self.memtx,
            self.journal,
            self.settings,
            self.gc,
            instance_uuid=recovered.instance_uuid,
            space_ids=lambda: kept_spaces(self.schema),
            system_rows=lambda: system_rows(self.schema, self.election, self.queue),
            before=self.synchro.wait_empty,
        )
        if self.kept_ids is not None and not self.kept_ids.is_open:
            self.kept_ids.open()
        self.conflicts.open()
        self.ship.start()
        self.consumers.start()

    # ---- from nothing ----------------------------------------------------------------------------------

    def renew_store(self) -> None:
        """Nobody has logged in before the node is ready, so sessions keep nothing of the store but who guest is."""
        self.conflicts.close()
        self.schema.clear()
        self.memtx.undo_enabled = False
        self.memtx.rows_enabled = False
        self.election.term, self.election.vote = 1, 0
        self.queue.clear()
        self.membership.forget_members()
        if self.kept_ids is not None:
            self.kept_ids.load()
        self.server.renew_users()
        self._is_store_taken = True

    async def make_set(self) -> None:
        """The first member of a new replica set (box.cc, bootstrap_master)."""
        given = self.options.replicaset_uuid
        set_uuid = UUID(given) if given else self.world.chance.uuid4()
        self.renew_store()
        now = self.world.clock.time()
        first.fill(self.schema, self.statements, self.options, self.uuid, set_uuid, now=now)
        if first.version_of(self.options) >= (3, 8, 0):
            self.queue.term = 1
        self.schema.end_recovery()
        await self._begin_files(None)

    async def take_join(self, joined: Applier) -> None:
        """What a JOIN brought is in the store (bootstrap_from_master). The files of a life before stay until there is
        the new snapshot; it is newer than they are, component 0 included."""
        log.info("joined from %s, vclock %s", joined.uuid, self.prepared)
        before = self._recovered
        if before is not None:
            self.memtx.set_lsn(0, max(self.memtx.vclock[0], before.vclock.get(0)))
        check_identity(self.schema, self.memtx.replica_id, self.options)
        self.schema.end_recovery()
        await self._begin_files(before)

    async def _begin_files(self, before: Recovered | None) -> None:
        """A journal that begins now, and the snapshot that it begins with. Only then what was before may go."""
        if not self.queue.entries:
            self.memtx.confirm_to(self.memtx.undo_end)
        if self.kept_ids is not None:
            # Part of the snapshot: a log before it would be one that nothing leads to, should we die in between.
            self.kept_ids.open()
        recovered = Recovered(self.uuid, self.prepared, [], [])
        self.gc.vclock = self.prepared
        if before is not None:
            recovered.logs, recovered.begins_anew = before.logs, True
            for snapshot in before.checkpoints:
                self.gc.supersede(snapshot.vclock)
        self._open_journal(recovered)
        assert self.checkpointer is not None
        await self.checkpointer.make()

    async def checkpoint(self) -> None:
        assert self.checkpointer is not None
        await self.checkpointer.make()
        if self._daemon is not None:
            self._daemon.made_by_hand()

    async def collect_garbage(self) -> None:
        """Somebody needs fewer files."""
        if self.checkpointer is not None:
            await self.checkpointer.collect()

    # ---- what others ask --------------------------------------------------------------------------------

    @property
    def uuid(self) -> UUID:
        return self.schema.identity.instance_uuid or NIL

    @property
    def replicaset_uuid(self) -> UUID:
        return self.schema.identity.replicaset_uuid or NIL

    @property
    def status(self) -> str:
        """box_status; 'running' has two exceptions (box_update_title)."""
        if self._stage != "running":
            return self._stage
        if self.read_only.lost_rows:
            return "waiting_for_own_rows"
        return "orphan" if self.read_only.is_orphan else "running"

    @property
    def prepared(self) -> VClock:
        return prepared_vclock(self.memtx)

    @property
    def vclock(self) -> VClock:
        """What is written; before the journal is open, what is read."""
        if self._position is not None:
            return self._position
        return self.journal.vclock if self._is_journal_open else self.prepared

    @property
    def is_read_only(self) -> bool:
        return self.read_only.active or not self.is_ready

    def check_writable(self) -> None:
        self.read_only.check()

    @property
    def needs_own_rows(self) -> bool:
        return self.read_only.lost_rows or self.read_only.is_orphan

    @property
    def replicaset(self) -> Replicaset:
        return self.membership.replicaset

    @property
    def ids(self) -> ReplicaIds | None:
        return None if self.kept_ids is None else self.kept_ids.ids

    @property
    def leader_id(self) -> int:
        return self.synchro.leader_id

    async def settled(self) -> None:
        await self.journal.sync()

    def broadcast(self, key: str, value: bytes | None) -> None:
        self.watchers.broadcast(key, value)

    def serve_peer(self, request: Request, user: User, channel: Channel) -> Coroutine[Any, Any, None]:
        """JOIN, FETCH_SNAPSHOT, REGISTER, SUBSCRIBE of a connection."""
        return serve(self, request, user, channel)

    async def register(self, uuid: UUID, name: str) -> None:
        await self.membership.register(uuid, name)

    async def make_bootstrap_leader(self, *, graceful: bool = False) -> None:
        await self.membership.lead(graceful=graceful)

    async def forget_replica(self, uuid: UUID) -> None:
        self.consumers.drop(uuid)
        await self.consumers.store()

    def picture(self) -> Sequence[int]:
        return sent_spaces(self.schema)

    async def apply_synchro(self, row: Row) -> None:
        await self.synchro.apply(row)

    def take_raft(self, row: Row) -> None:
        self.synchro.take_raft(row)

    def followed(self, error: Exception | None) -> None:
        if error is not None:
            log.error("rows of peers could not be written: %s. They are asked for again", error)

    def vclock_moved(self) -> None:
        self.membership.vclock_moved()

    def _has_connections(self, uuid: UUID) -> bool:
        """replica_has_connections"""
        replica = self.replicaset.find(uuid)
        if replica is None:
            return False
        return replica.applier is not None or (replica.relay is not None and replica.relay.state == "follow")

    def facts(self) -> Facts:
        return Facts(
            status=self.status,
            id=self.memtx.replica_id if self.memtx.replica_id or self.options.replication_anon else None,
            vclock=self.vclock.as_dict(),
            ro_reason=self.read_only.reason,
            uptime=self.world.clock.monotonic() - self._born,
            listening=self.server.addresses,
            gc_vclock=self.gc.vclock.as_dict(),
            checkpoints=facts.checkpoints_of(self.gc),
            consumers=facts.consumers_of(self.gc),
            is_gc_paused=self.gc.is_paused,
            is_checkpointing=self.checkpointer is not None and self.checkpointer.in_progress,
            pid=self.pid,
            hostname=self.hostname,
            members=facts.members_of(self.replicaset),
            term=self.election.term,
            vote=self.election.vote,
            leader=self.leader_id,
            queue=facts.queue_of(self.queue, self.world.clock.monotonic()),
        )

    def ballot(self) -> Ballot:
        """What a peer should know of this node before it chooses a leader (box.cc, box_process_vote). An instance that
        is not booted must say that it is read-only: a peer of 2.11 or later waits for one that says neither."""
        return Ballot(
            is_ro_cfg=self.options.read_only is True,
            is_ro=self.is_read_only,
            is_anon=self.options.replication_anon,
            is_booted=self.is_ready,
            vclock=self.vclock.as_dict(ignore0=True),
            gc_vclock=self.gc.vclock.as_dict(ignore0=True),
            bootstrap_leader_uuid=self.membership.leader_uuid,
            instance_name=self.schema.own_name or self.schema.identity.instance_name,
            registered_replica_uuids=tuple(member.uuid for member in self.schema.cluster),
        )

    # ---- what changed -----------------------------------------------------------------------------------

    def tell_ballot(self) -> None:
        self.tell.ballot()

    def tell_status(self) -> None:
        self.tell.status()

    def _tell_before_ready(self) -> None:
        self.tell.identity()
        self.tell.status()
        self.tell.ballot()

    def _rows_removed(self) -> None:
        if self.is_ready:
            self.tell.ballot()

    def election_changed(self) -> None:
        self.tell.election()
        self.ship.push_raft(
            RaftMessage(
                self.election.term,
                self.election.vote,
                RaftState.FOLLOWER,
                leader_id=self.leader_id,
                is_leader_seen=bool(self.leader_id),
            )
        )

    def _read_only_changed(self, active: bool) -> None:
        """box_update_ro_summary"""
        if not self.is_ready:
            return
        if active:
            self.txns.abort_writers(lambda space: space.is_local or space.is_temporary)
            log.info("box switched to read-only - %s", self.read_only.words)
        else:
            log.info("box switched to rw")
            self.world.tasks.spawn(self._try_first_writes(), "first writes")
        self.tell.status()
        self.tell.election()
        self.tell.ballot()

    async def reconfigure(self, changes: Mapping[str, Any]) -> None:
        """The options have these values already; whoever keeps a copy or acts on a change is told here."""
        apply_settings(self.settings, self.options)
        self.gc.checkpoint_count = self.options.checkpoint_count
        if "read_only" in changes:
            self.read_only.update(by_config=self._is_read_only_by_option)
            self.tell.status()
            self.tell.ballot()
            if not self.read_only.active:
                await self._first_writes()
        if "replication_conflict" in changes:
            self.conflicts.load()
        if "checkpoint_interval" in changes and self._daemon is not None:
            self._daemon.configure(self.options.checkpoint_interval)
        if "force_recovery" in changes:
            self.schema.force_recovery = self.options.force_recovery
        if changes.keys() & {"log_level", "log_modules"}:
            self.on_log_options()
        if "listen" in changes:
            await self._listen()
        if changes.get("cluster_name"):
            await set_cluster_name(self, changes["cluster_name"])
        if changes.get("replicaset_name"):
            await set_replicaset_name(self, changes["replicaset_name"])
        await self.membership.reconfigure(changes)
