"""One node: the rooms wired together, from an empty or a full directory to a node that answers (box.cc, box_cfg).

Nothing is decided here that a machine could decide; this is the order of things.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from headwater.box.backup import Backups
from headwater.box.call import Calls
from headwater.box.credentials import create_credentials, grant_guest, open_guest, warn_of_open_guest
from headwater.box.events import Events
from headwater.box.execute import Statements
from headwater.box.info import Checkpoint as ShownCheckpoint
from headwater.box.info import Facts
from headwater.box.procedures import registry
from headwater.box.readonly import ReadOnly
from headwater.box.replay import Replay
from headwater.box.stat import Stats
from headwater.box.watchers import Watchers
from headwater.errors import Er, er
from headwater.journal import (
    CheckpointDaemon,
    Checkpointer,
    Gc,
    Journal,
    Progress,
    Recovered,
    Recovery,
    Settings,
    SystemRow,
    WalMode,
    lock_directories,
    open_writer,
)
from headwater.kernels import Memtx
from headwater.limbo.queue import SyncQueue
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.store.bootstrap import bootstrap_rows, master_rows
from headwater.store.context import Source
from headwater.store.events import Event as SchemaEvent
from headwater.store.events import IdentityChanged, SchemaChanged, VersionChanged
from headwater.store.schema import Schema
from headwater.txn import Txns
from headwater.vclock import VClock
from headwater.wire.ballot import Ballot
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.synchro import encode_raft, encode_synchro
from headwater.wire.xrow import Row
from headwater.world import World

log = logging.getLogger("headwater.box")

NIL = UUID(int=0)
SELF_ID = 1
"""The first member of a new replica set."""


class Server(Protocol):
    """Who listens and answers (`server.iproto.IprotoServer`)."""

    @property
    def addresses(self) -> list[str]: ...

    async def listen(self, addresses: Sequence[str]) -> None: ...

    async def shutdown(self) -> None: ...


class Box:
    """Make it, `await start()`, and later `await stop()`. One instance a world; nothing is shared between two."""

    def __init__(self, world: World, options: Options, serve: Callable[[Box], Server]) -> None:
        """`serve` makes the server of this instance; it stands in a room below."""
        self.world = world
        self.options = options
        self.pid = 0
        """Of the process; for show."""
        self.hostname: str | None = None
        self.credentials: Mapping[str, Any] = {}
        """Users and roles of the configuration, made when the node is first writable."""
        self.on_log_options: Callable[[], object] = lambda: None
        """The level of the log was set by box.cfg."""
        self.status = "unconfigured"
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
        self.server = serve(self)
        self.checkpointer: Checkpointer | None = None
        self._daemon: CheckpointDaemon | None = None
        self._born = world.clock.monotonic()
        self._unlock: Callable[[], None] = lambda: None
        self._made_first_writes = False
        self._told_progress = 0.0
        self.schema.listeners.append(self._schema_changed)
        self.read_only.listeners.append(lambda active: self._broadcast_status())
        self.journal.on_rollback.append(lambda: self.events.wal_error(self.journal.errors))

    # ---- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Until requests are served. Listens from the beginning, and answers LOADING until all is recovered."""
        options = self.options
        self.procedures = Calls(self, registry.load(options.procedure_modules))
        for setting in options.ignored():
            log.warning("option '%s' has no effect: %s", setting.name, setting.why)
        self._unlock = lock_directories(self.world.disk, options.wal_dir, options.memtx_dir)
        self.status = "loading"
        self._broadcast_status()
        self.schema.force_recovery = options.force_recovery
        self.schema.identity.instance_name = options.instance_name or ""
        await self._listen()
        recovered = await self._recover()
        if recovered is None:
            await self._bootstrap()
        else:
            self._take_up(recovered)
        await self._ready()

    async def stop(self) -> None:
        """Finish what is promised, close the files, let go of the directories."""
        await self.server.shutdown()
        if self.status == "running":
            await self.journal.close()
        self.status = "stopped"
        self._unlock()

    async def _listen(self) -> None:
        await self.server.listen([str(uri) for uri in self.options.addresses])

    async def _ready(self) -> None:
        self.read_only.update(by_config=self.options.read_only is True)
        self.status = "running"
        self.is_ready = True
        identity = self.schema.identity
        log.info("instance uuid %s", identity.instance_uuid)
        log.info("replicaset uuid %s", identity.replicaset_uuid)
        self._broadcast_all()
        if self.options.dev:
            open_guest(self.schema)
        else:
            warn_of_open_guest(self)
        if not self.read_only.active:
            await self._first_writes()
        assert self.checkpointer is not None
        self._daemon = CheckpointDaemon(self.world, self.checkpointer, self.gc)
        self._daemon.configure(self.options.checkpoint_interval)
        self.journal.on_threshold = self._daemon.trigger
        self.world.tasks.spawn(self._daemon.run(), "checkpoints")
        self.world.tasks.spawn(self._tick(), "statistics")

    async def _first_writes(self) -> None:
        """What the options want to be in the dictionary, when the node is first writable."""
        if self._made_first_writes:
            return
        self._made_first_writes = True
        if self.options.dev:
            grant_guest(self)
        create_credentials(self, self.credentials)
        await self.settled()

    async def _tick(self) -> None:
        """Rates of box.stat and the ballot's vclock, once a second."""
        last: Mapping[int, int] = {}
        while True:
            await self.world.tasks.sleep(1)
            self.stats.tick()
            vclock = self.journal.vclock.as_dict()
            if vclock != last:
                last = vclock
                self.events.ballot(self.ballot())

    # ---- from the files --------------------------------------------------------------------------------

    async def _recover(self) -> Recovered | None:
        replay = Replay(self.schema, self.statements, self.election, self.queue)
        self.schema.begin_snapshot()
        recovery = Recovery(
            self.world,
            self.memtx,
            self.settings,
            apply_row=replay.row,
            instance_uuid=UUID(self.options.instance_uuid) if self.options.instance_uuid else None,
            snapshot_done=replay.snapshot_done,
            progress=self._progress,
            instance_found=self._set_instance,
        )
        recovered = await recovery.run()
        if recovered is not None:
            replay.finish()
        return recovered

    def _set_instance(self, uuid: UUID) -> None:
        self.schema.identity.instance_uuid = uuid

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
        self._set_instance(recovered.instance_uuid)
        member = self.schema.cluster.by_uuid(recovered.instance_uuid)
        if member is not None:
            self.memtx.replica_id = member.id
        self._check_identity()
        self.schema.end_recovery()
        writer = open_writer(self.world.disk, self.settings, recovered)
        self.journal.open(writer, tail_size=recovered.tail_size)
        now = self.world.clock.time()
        for snapshot in recovered.checkpoints:
            self.gc.add_checkpoint(snapshot.vclock, now)
        self._make_checkpointer(recovered.instance_uuid)

    def _check_identity(self) -> None:
        """Do the files agree with the options (box.cc, check_global_ids_integrity)?"""
        identity, options = self.schema.identity, self.options
        if identity.instance_uuid is not None and not self.memtx.replica_id:
            raise er(Er.UNKNOWN_REPLICA, str(identity.instance_uuid), str(identity.replicaset_uuid or NIL))
        if options.replicaset_uuid and str(identity.replicaset_uuid) != options.replicaset_uuid:
            raise er(Er.REPLICASET_UUID_MISMATCH, options.replicaset_uuid, str(identity.replicaset_uuid))

    # ---- from nothing ----------------------------------------------------------------------------------

    async def _bootstrap(self) -> None:
        """The first member of a new replica set (box.cc, bootstrap_master)."""
        options = self.options
        uuid = UUID(options.instance_uuid) if options.instance_uuid else self.world.chance.uuid4()
        set_uuid = UUID(options.replicaset_uuid) if options.replicaset_uuid else self.world.chance.uuid4()
        version = schema_version(options.schema_version)
        log.info("bootstrapping replica set %s, schema %s", set_uuid, options.schema_version)
        self._set_instance(uuid)
        self.memtx.undo_enabled = False
        self.memtx.rows_enabled = False
        for space_id, data in bootstrap_rows(version):
            self._load(space_id, data, Source.SNAPSHOT)
        self.schema.end_snapshot()
        for space_id, data in master_rows(
            version,
            uuid,
            set_uuid,
            instance_name=options.instance_name or "",
            replicaset_name=options.replicaset_name or "",
            cluster_name=options.cluster_name or "",
        ):
            self._load(space_id, data, Source.BOOTSTRAP)
        self.memtx.confirm_to(self.memtx.undo_end)
        if version >= (3, 8, 0):
            self.queue.term = 1
        self.memtx.replica_id = SELF_ID
        self.schema.end_recovery()
        recovered = Recovered(uuid, VClock(), [], [])
        self.journal.open(open_writer(self.world.disk, self.settings, recovered))
        self._make_checkpointer(uuid)
        assert self.checkpointer is not None
        await self.checkpointer.make()

    def _load(self, space_id: int, data: bytes, source: Source) -> None:
        body = pack({Key.SPACE_ID: space_id})[1:] + pack(int(Key.TUPLE)) + data
        self.statements.recover([Row(Type.INSERT, body=b"\x82" + body)], source)

    # ---- snapshots --------------------------------------------------------------------------------------

    def _make_checkpointer(self, uuid: UUID) -> None:
        self.checkpointer = Checkpointer(
            self.world,
            self.memtx,
            self.journal,
            self.settings,
            self.gc,
            instance_uuid=uuid,
            space_ids=self._kept_spaces,
            system_rows=self._system_rows,
        )

    def _kept_spaces(self) -> list[int]:
        """All whose tuples a snapshot keeps, in ascending order; the view is opened right after."""
        self.schema.store_sequences()
        return sorted(
            int(space.id)
            for space in self.schema.spaces.values()
            if space.kernel is not None and not space.is_temporary and space.pk is not None
        )

    def _system_rows(self) -> list[SystemRow]:
        """State of election and queue; versions before 2.6.2 cannot read a row of them."""
        version = self.schema.identity.dd_version
        if version < (2, 6, 2):
            return []
        rows = [encode_raft(self.election.checkpoint()), encode_synchro(self.queue.checkpoint())]
        return [SystemRow(row.type, row.group_id, row.body) for row in rows]

    async def checkpoint(self) -> None:
        assert self.checkpointer is not None
        await self.checkpointer.make()
        if self._daemon is not None:
            self._daemon.made_by_hand()

    # ---- what others ask --------------------------------------------------------------------------------

    @property
    def uuid(self) -> UUID:
        return self.schema.identity.instance_uuid or NIL

    @property
    def replicaset_uuid(self) -> UUID:
        return self.schema.identity.replicaset_uuid or NIL

    async def settled(self) -> None:
        await self.journal.sync()

    def broadcast(self, key: str, value: bytes | None) -> None:
        self.watchers.broadcast(key, value)

    def facts(self) -> Facts:
        return Facts(
            status=self.status,
            id=self.memtx.replica_id or None,
            vclock=self.journal.vclock.as_dict(),
            ro_reason=self.read_only.reason,
            uptime=self.world.clock.monotonic() - self._born,
            listening=self.server.addresses,
            gc_vclock=self.gc.vclock.as_dict(),
            checkpoints=[ShownCheckpoint(one.vclock.as_dict(), tuple(one.pins)) for one in self.gc.checkpoints],
            is_checkpointing=self.checkpointer is not None and self.checkpointer.in_progress,
            pid=self.pid,
            hostname=self.hostname,
            term=self.election.term,
            queue_owner=self.queue.owner,
            queue_term=self.queue.term,
        )

    def ballot(self) -> Ballot:
        """What a peer should know of this node before it chooses a leader (box.cc, box_process_vote)."""
        if not self.is_ready:
            return Ballot(is_ro_cfg=self.options.read_only is True, is_ro=True, is_booted=False)
        identity = self.schema.identity
        return Ballot(
            is_ro_cfg=self.read_only.by_config,
            is_ro=self.read_only.active,
            is_booted=True,
            vclock=self.journal.vclock.as_dict(ignore0=True),
            gc_vclock=self.gc.vclock.as_dict(ignore0=True),
            bootstrap_leader_uuid=identity.bootstrap_leader_uuid or NIL,
            instance_name=identity.instance_name,
            registered_replica_uuids=tuple(member.uuid for member in self.schema.cluster),
        )

    # ---- box.cfg ----------------------------------------------------------------------------------------

    async def reconfigure(self, changes: Mapping[str, Any]) -> None:
        """The options have these values already; whoever keeps a copy or acts on a change is told here."""
        apply_settings(self.settings, self.options)
        self.gc.checkpoint_count = self.options.checkpoint_count
        if "read_only" in changes:
            self.read_only.update(by_config=self.options.read_only is True)
            if self.read_only.active:
                self.txns.abort_writers(lambda space: space.is_local or space.is_temporary)
            else:
                await self._first_writes()
        if "checkpoint_interval" in changes and self._daemon is not None:
            self._daemon.configure(self.options.checkpoint_interval)
        if "force_recovery" in changes:
            self.schema.force_recovery = self.options.force_recovery
        if changes.keys() & {"log_level", "log_modules"}:
            self.on_log_options()
        if "listen" in changes:
            await self._listen()

    # ---- events -----------------------------------------------------------------------------------------

    def _schema_changed(self, event: SchemaEvent) -> None:
        if not self.is_ready:
            return
        if isinstance(event, SchemaChanged):
            self.events.schema(event.version)
        elif isinstance(event, IdentityChanged):
            self._broadcast_id()
        elif isinstance(event, VersionChanged):
            self._broadcast_status()
        else:
            self.events.ballot(self.ballot())

    def _broadcast_all(self) -> None:
        self._broadcast_id()
        self._broadcast_status()
        self.events.schema(self.memtx.schema_version)
        self.events.ballot(self.ballot())

    def _broadcast_id(self) -> None:
        identity = self.schema.identity
        self.events.id(
            id=self.memtx.replica_id,
            instance_uuid=identity.instance_uuid,
            instance_name=identity.instance_name,
            replicaset_uuid=identity.replicaset_uuid,
            replicaset_name=identity.replicaset_name,
            cluster_name=identity.cluster_name,
        )

    def _broadcast_status(self) -> None:
        is_ro = self.read_only.active or not self.is_ready
        self.events.status(
            is_ro=is_ro,
            is_ro_cfg=self.options.read_only is True,
            status=self.status,
            dd_version=self.schema.identity.dd_version,
        )
        self.events.election(term=self.election.term, role="follower", is_ro=is_ro, leader=0)


def settings_of(options: Options) -> Settings:
    """What the journal's room takes of the options."""
    settings = Settings(wal_dir=options.wal_dir, memtx_dir=options.memtx_dir, wal_mode=WalMode(options.wal_mode))
    apply_settings(settings, options)
    return settings


def apply_settings(settings: Settings, options: Options) -> None:
    """Those that may change while the node runs."""
    settings.wal_max_size = options.wal_max_size
    settings.wal_queue_max_size = options.wal_queue_max_size
    settings.checkpoint_count = options.checkpoint_count
    settings.checkpoint_interval = options.checkpoint_interval
    settings.checkpoint_wal_threshold = options.checkpoint_wal_threshold
    settings.snap_io_rate_limit = options.snap_io_rate_limit
    settings.force_recovery = options.force_recovery
    settings.too_long_threshold = options.too_long_threshold


def schema_version(text: str) -> tuple[int, int, int]:
    major, minor, patch = (int(part) for part in text.split("."))
    return major, minor, patch
