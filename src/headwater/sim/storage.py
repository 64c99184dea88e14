"""The storage side of one node: store, journal, snapshots, recovery, without sessions and schema.

A few spaces that are always there stand for the dictionary, so that a run spends its time where data can be lost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from headwater.errors import BoxError
from headwater.journal import Checkpointer, Gc, Journal, Recovered, Recovery, Settings, WalMode, open_writer
from headwater.journal.lock import lock_directories
from headwater.kernels import KeyDef, KeyPart, Memtx, MemtxSpace, TupleFormat
from headwater.typing import FieldType, IteratorType
from headwater.vclock import VClock
from headwater.wire.constants import Flag, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row
from headwater.world import World

SYSTEM = 272
"""Stands for the dictionary: a snapshot must begin with rows of a system space."""
DATA = 512
LOCAL = 513
TEMPORARY = 514
KEPT = (SYSTEM, DATA, LOCAL)
"""Spaces that are in snapshots."""
INSTANCE = UUID("6d2a1d35-7c0f-4b3e-9b4c-0d5f4f1e8a11")
REPLICA_ID = 1


@dataclass(frozen=True, slots=True)
class Change:
    """One statement: the tuple [key, payload, mark] is put, or deleted if `payload` is None."""

    space_id: int
    key: int
    payload: str | None = None
    mark: int = 0

    def tuple(self) -> bytes:
        return pack([self.key, self.payload, self.mark])


State = dict[int, dict[int, tuple[str, int]]]
"""Kept spaces by id: key to (payload, mark)."""


class Storage:
    """One life of a storage node. Made, started, used, and then stopped or killed."""

    journal_class: type[Journal] = Journal
    """Tests plant bugs here."""

    def __init__(self, world: World, settings: Settings) -> None:
        self.world = world
        self.settings = settings
        self.memtx = Memtx()
        self.gc = Gc(settings.checkpoint_count)
        self.recovered: Recovered | None = None
        self.journal: Journal
        self.checkpointer: Checkpointer
        self._release: Callable[[], None] = lambda: None

    # ---- life

    async def start(self) -> None:
        """Recover what is there, or begin anew with a first snapshot."""
        disk = self.world.disk
        self._release = lock_directories(disk, self.settings.wal_dir, self.settings.memtx_dir)
        self._make_spaces()
        recovery = Recovery(self.world, self.memtx, self.settings, apply_row=self._odd_row)
        self.recovered = await recovery.run()
        self.memtx.replica_id = REPLICA_ID
        self.journal = self.journal_class(self.world, self.memtx, self.settings, self.gc)
        self.checkpointer = Checkpointer(
            self.world,
            self.memtx,
            self.journal,
            self.settings,
            self.gc,
            instance_uuid=INSTANCE,
            space_ids=lambda: KEPT,
        )
        if self.recovered is None:
            await self._bootstrap()
        else:
            for file in self.recovered.checkpoints:
                self.gc.add_checkpoint(file.vclock, self.world.clock.time())
            self.journal.open(open_writer(disk, self.settings, self.recovered), tail_size=self.recovered.tail_size)

    async def _bootstrap(self) -> None:
        """The first snapshot is on the disk before the first log is begun."""
        self.memtx.undo_enabled = False
        self._space(SYSTEM).replace(pack([1, "version", 0]))
        self.journal.open(None)
        await self.checkpointer.make()
        begin = Recovered(INSTANCE, VClock(), [], [])
        self.journal.open(open_writer(self.world.disk, self.settings, begin))

    async def stop(self) -> None:
        await self.journal.close()
        self._release()

    def _odd_row(self, row: Row, is_last: bool) -> None:
        """What the compiled path leaves, as a transaction of local and other rows."""
        body = unpack(row.body)
        space = self._space(body[0x10])
        if row.type == Type.DELETE:
            space.delete(0, pack(body[0x20]))
        else:
            space.replace(pack(body[0x21]))

    def _make_spaces(self) -> None:
        for space_id, options in (
            (SYSTEM, {}),
            (DATA, {}),
            (LOCAL, {"local": True}),
            (TEMPORARY, {"temporary": True}),
        ):
            space = self.memtx.add_space(space_id, **options)
            fields = [(FieldType.UNSIGNED, False), (FieldType.STRING, False), (FieldType.UNSIGNED, False)]
            space.set_format(TupleFormat(fields))
            space.add_index(0, KeyDef([KeyPart(0, FieldType.UNSIGNED)]), True)
            if space_id == DATA:
                key_def = KeyDef([KeyPart(2, FieldType.UNSIGNED)], [KeyPart(0, FieldType.UNSIGNED)])
                space.add_index(1, key_def, False)
            space.set_access(0, 3)
            space.fast = True

    def _space(self, space_id: int) -> MemtxSpace:
        space = self.memtx.space(space_id)
        assert space is not None
        return space

    # ---- use

    def write(self, changes: Sequence[Change], done: Callable[[BoxError | None], object]) -> None:
        """One transaction; `done` when it is written or undone."""
        self.memtx.timestamp = self.world.clock.time()
        if len(changes) == 1:
            self._run(changes[0])
        else:
            self._commit(changes)
        self.journal.settle(done)

    def _run(self, change: Change) -> None:
        """By the compiled path, as a client's request."""
        kind = Type.REPLACE if change.payload is not None else Type.DELETE
        body = self._body(change)
        header = pack({0: int(kind), 1: change.mark})
        packet = struct.pack(">BI", 0xCE, len(header) + len(body)) + header + body
        stopped, _, served, _ = self.memtx.run(packet, 0, len(packet), 0, False)
        assert (stopped, served) == (len(packet), 1)

    def _commit(self, changes: Sequence[Change]) -> None:
        """As a transaction does: changes, then rows with one TSN."""
        rows = []
        for change in changes:
            space = self._space(change.space_id)
            if change.payload is None:
                space.delete(0, pack([change.key]))
            else:
                space.replace(change.tuple())
            if not space.temporary:
                rows.append((change, space.local))
        vclock = self.memtx.vclock
        globals_ = [place for place, (_, local) in enumerate(rows) if not local]
        tsn = vclock[REPLICA_ID] + 1 if globals_ else vclock[0] + 1
        for place, (change, local) in enumerate(rows):
            kind = Type.REPLACE if change.payload is not None else Type.DELETE
            flags = int(Flag.COMMIT) if place == len(rows) - 1 else 0
            self.memtx.add_row(int(kind), 1 if local else 0, self._body(change), tsn=tsn, flags=flags)

    def _body(self, change: Change) -> bytes:
        if change.payload is None:
            return pack({0x10: change.space_id, 0x20: [change.key]})
        return b"\x82\x10" + pack(change.space_id) + b"\x21" + change.tuple()

    def state(self) -> State:
        """What a reader would see now."""
        out: State = {}
        for space_id in KEPT:
            index = self._space(space_id).index(0)
            assert index is not None
            rows = [unpack(item) for item in index.select(IteratorType.ALL, b"\x90")]
            out[space_id] = {row[0]: (row[1], row[2]) for row in rows}
        return out

    def vclock(self) -> VClock:
        return VClock({place: lsn for place, lsn in enumerate(self.memtx.vclock) if lsn})

    @property
    def forgets(self) -> bool:
        """Is everything after the last snapshot lost with the process?"""
        return self.settings.wal_mode is WalMode.NONE
