"""A node that does nothing but follow: store, journal and appliers, no server and no clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from headwater.box.conflicts import Conflicts
from headwater.box.execute import Statements
from headwater.box.readonly import ReadOnly
from headwater.box.settings import settings_of
from headwater.box.stat import Stats
from headwater.box.synchro import SynchroRows
from headwater.errors import BoxError
from headwater.journal import Gc, Journal, Recovered, open_writer
from headwater.kernels import Memtx
from headwater.limbo.queue import SyncQueue
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.replication.applier import Applier
from headwater.replication.replicaset import Replicaset
from headwater.replication.states import ApplierState
from headwater.store.bootstrap import bootstrap_rows, master_rows
from headwater.store.context import Source
from headwater.store.events import MemberAdded, MemberChanged
from headwater.store.schema import Schema
from headwater.txn import Txns
from headwater.uri import parse_uri
from headwater.vclock import VClock
from headwater.wire.ballot import Ballot
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row
from headwater.world import Event, World

SET = UUID("aaaaaaaa-0000-4000-8000-000000000000")
SELF = UUID("00000000-0000-4000-8000-000000000003")


class SmallHost:
    """`replication.host.Host`, as far as an applier asks."""

    def __init__(self, world: World, directory: str | Path, uuid: UUID = SELF, **options: Any) -> None:
        self.world = world
        world.disk.makedirs(str(directory))
        self.options = Options.load({"wal_dir": str(directory), "memtx_dir": str(directory), **options})
        self.settings = settings_of(self.options)
        self.memtx = Memtx()
        self.memtx.rows_enabled = False
        self.schema = Schema(self.memtx)
        self.schema.identity.instance_uuid = uuid
        self.schema.identity.instance_name = self.options.instance_name or ""
        self.read_only = ReadOnly()
        self.txns = Txns(self.memtx, lambda: self.schema.spaces.values(), world.clock.time)
        stats = Stats(take_served=self.memtx.take_served)
        self.statements = Statements(self.schema, self.txns, self.options, self.read_only, stats, world.tasks)
        self.gc = Gc(2)
        self.journal = Journal(world, self.memtx, self.settings, self.gc)
        self.election = Persistent()
        self.queue = SyncQueue()
        self.synchro = SynchroRows(self)
        self.replicaset = Replicaset()
        self.ids = None
        self.conflicts = Conflicts(self)
        self.conflicts.load()
        self.needs_own_rows = False
        self.is_ready = False
        self.states: list[tuple[Applier, ApplierState]] = []
        self.outcomes: list[Exception | None] = []
        """What `followed` was told."""
        self.raft: list[Row] = []
        self.schema.listeners.append(self._schema_changed)
        self._changed: Event = world.tasks.event()

    def _schema_changed(self, event: object) -> None:
        if isinstance(event, MemberAdded) and event.member.uuid == self.uuid:
            self.memtx.replica_id = event.member.id
        elif isinstance(event, MemberChanged) and event.new.uuid == self.uuid:
            self.memtx.replica_id = event.new.id

    # ---- life -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """The store has its first contents: from now on changes are journaled."""
        self.schema.end_recovery()
        vclock = VClock({id: lsn for id, lsn in enumerate(self.memtx.vclock) if lsn})
        self.journal.open(open_writer(self.world.disk, self.settings, Recovered(self.uuid, vclock, [], [])))
        self.conflicts.open()
        self.is_ready = True

    def fill(self, version: tuple[int, int, int] = (2, 3, 1), own_id: int = 3) -> None:
        """As after a join: the rows of a new set, with this node as a member."""
        self.schema.begin_snapshot()
        for space_id, data in bootstrap_rows(version):
            self.load(space_id, unpack(data))
        self.schema.end_snapshot()
        first = UUID("00000000-0000-4000-8000-000000000001")
        for space_id, data in master_rows(version, first, SET):
            self.load(space_id, unpack(data), Source.BOOTSTRAP)
        if own_id:
            self.load(320, [own_id, str(self.uuid)], Source.XLOG)
        self.memtx.confirm_to(self.memtx.undo_end)

    def load(self, space_id: int, tuple_: Sequence[object], source: Source = Source.SNAPSHOT) -> None:
        body = pack({int(Key.SPACE_ID): space_id, int(Key.TUPLE): tuple_})
        self.statements.recover([Row(Type.INSERT, body=body)], source)

    def applier(self, uri: str) -> Applier:
        return Applier(self, parse_uri(uri), self._moved)

    def _moved(self, applier: Applier) -> None:
        self.states.append((applier, applier.state))
        self._changed.set()

    def states_of(self, applier: Applier) -> list[ApplierState]:
        """Those that it has been in, each stay once."""
        seen = [state for one, state in self.states if one is applier]
        return [state for place, state in enumerate(seen) if place == 0 or seen[place - 1] is not state]

    async def reach(self, applier: Applier, *states: ApplierState) -> ApplierState:
        return await self.wait(lambda: applier.state in states) or applier.state

    async def wait(self, is_so: Callable[[], bool], timeout: float = 120.0) -> None:
        """Until it is so; looked at after each change of an applier and each written batch."""
        async with self.world.tasks.timeout(timeout):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

    # ---- what others ask ------------------------------------------------------------------------------

    @property
    def uuid(self) -> UUID:
        assert self.schema.identity.instance_uuid is not None
        return self.schema.identity.instance_uuid

    @property
    def replicaset_uuid(self) -> UUID:
        return self.schema.identity.replicaset_uuid or UUID(int=0)

    @property
    def is_read_only(self) -> bool:
        return self.read_only.active

    @property
    def ship(self) -> Any:
        raise NotImplementedError

    @property
    def consumers(self) -> Any:
        raise NotImplementedError

    def check_writable(self) -> None:
        self.read_only.check()

    def ballot(self) -> Ballot:
        return Ballot(is_ro=True, is_booted=self.is_ready)

    async def register(self, uuid: UUID, name: str) -> None:
        raise NotImplementedError

    def picture(self) -> Sequence[int]:
        raise NotImplementedError

    async def settled(self) -> None:
        await self.journal.sync()

    async def apply_synchro(self, row: Row) -> None:
        await self.synchro.apply(row)

    def take_raft(self, row: Row) -> None:
        self.raft.append(row)
        self.synchro.take_raft(row)

    def election_changed(self) -> None: ...

    def followed(self, error: Exception | None) -> None:
        self.outcomes.append(error)
        self._changed.set()

    def vclock_moved(self) -> None:
        self._changed.set()

    # ---- what is in the store -------------------------------------------------------------------------

    @property
    def vclock(self) -> Mapping[int, int]:
        """What is written."""
        return self.journal.vclock.as_dict(ignore0=True)

    def rows(self, space: int | str) -> list[Any]:
        found = self.schema.space(space)
        assert found.kernel is not None
        index = found.kernel.index(0)
        assert index is not None
        return [unpack(data) for data in index.select(2, b"\x90")]

    def errors(self) -> list[BoxError]:
        return [error for error in self.outcomes if isinstance(error, BoxError)]
