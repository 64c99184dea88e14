"""What a node does about rows of peers that do not fit: the judge that the options ask for, and what it needs.

The stamps of `last_write_wins` are rows of the local space `_conflict_stamps`, in the same transaction as the change
that they tell of: they are written or undone with it, are in the snapshot, and come back with it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from headwater.box.body import key_body, tuple_body
from headwater.box.credentials import context_of_node
from headwater.box.membership import Node as Member
from headwater.box.procedures import registry
from headwater.errors import BoxError, SystemError_
from headwater.kernels import MemtxSpace
from headwater.options import Options
from headwater.options.checks import CONFLICT_POLICIES
from headwater.replication.conflict import Evict, First, Judge, SetAside, Skipping
from headwater.replication.hook import Asking
from headwater.replication.lastwrite import LastWriteWins, Place, RowClock, Stamp, is_stamped, place_of
from headwater.replication.quarantine import Quarantine, record
from headwater.replication.states import ApplierState
from headwater.store import system
from headwater.store.events import Event, SchemaChanged
from headwater.store.space import Space
from headwater.txn import DirectTxn, Txns
from headwater.txn.base import PRIMARY, RowDraft, index_of, kernel_of
from headwater.typing import IndexId, IteratorType, SpaceId
from headwater.wire.constants import Group, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import of_row
from headwater.wire.xrow import Row
from headwater.world import Task, Worker

log = logging.getLogger("headwater.replication")

_FORMAT = [("space", "unsigned"), ("key", "varbinary"), ("time", "double"), ("replica", "unsigned")]
_PRIMARY = [[0, "unsigned"], [1, "varbinary"]]
_BY_TIME = [[2, "double"]]
_HORIZON: Place = (0, b"")
"""The place of the stamp before which all stamps are forgotten."""
_LOOK = 60.0
"""Seconds between two looks at what may be forgotten."""
_CHUNK = 1000


class Node(Member, Protocol):
    """The instance, as far as conflicts need it."""

    txns: Txns


class Conflicts:
    """Of one node."""

    def __init__(self, node: Node) -> None:
        self.judge: Judge = Judge(node.options)
        self._node = node
        self._stamps = Stamps(node)
        self._quarantine = Quarantine(node.world.disk, node.options.wal_dir)
        self._worker: Worker | None = None
        """Writes the quarantine."""
        self._set_aside: set[tuple[int, int]] = set()
        """Origin and LSN of rows that are in the quarantine, and whose NOP is perhaps not in the journal yet."""

    # ---- the options ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Take the policy that the options name. BoxError CFG if its function cannot be had."""
        self.judge = self._made(self._node.options)
        if self._stamps.is_open:
            self._stamp()

    def _made(self, options: Options) -> Judge:
        node, policy = self._node, options.replication_conflict
        match policy:
            case "stop":
                return Judge(options)
            case "skip":
                return Skipping(options, lambda row: (row.replica_id, row.lsn) in self._set_aside)
            case "last_write_wins":
                return self._stamps.judge(options)
        assert policy not in CONFLICT_POLICIES
        module, _, name = policy.rpartition(":")
        hook = registry.load_function(module, name)
        return Asking(options, policy, hook, lambda: node.schema.cluster, node.world.clock.time)

    def open(self) -> None:
        """The store is there, and the journal takes rows from now on."""
        self._stamps.is_open = True
        self._stamp()

    def _stamp(self) -> None:
        is_wanted = isinstance(self.judge, LastWriteWins)
        self._node.statements.writes_whole_tuples = is_wanted
        if is_wanted:
            self._stamps.begin()
        else:
            self._stamps.end()

    def close(self) -> None:
        """The store is emptied: a join begins."""
        self._stamps.end()
        self._stamps.is_open = False

    async def stop(self) -> None:
        self.close()
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.run(self._quarantine.close)
            worker.close()

    # ---- what has to be done first ----------------------------------------------------------------------

    async def do_first(self, first: First) -> None:
        match first:
            case SetAside():
                await self._keep(first)
            case Evict():
                self._delete(first)

    async def _keep(self, first: SetAside) -> None:
        """What cannot be written leaves the row where it is, at the peer: the applier comes for it again."""
        node = self._node
        if self._worker is None:
            self._worker = node.world.worker("quarantine")
        now, records = node.world.clock.time(), []
        for refusal in first.refusals:
            member = node.schema.cluster.by_id(refusal.row.replica_id)
            records.append(record(refusal, member.uuid if member is not None else None, now))
        try:
            await self._worker.run(partial(self._quarantine.append, records))
        except OSError as error:
            raise SystemError_.of("cannot write rows that are skipped into the quarantine", error) from None
        written = node.journal.vclock
        self._set_aside = {(origin, lsn) for origin, lsn in self._set_aside if lsn > written.get(origin)}
        for refusal in first.refusals:
            row = refusal.row
            log.warning(
                "row {%d: %d} of space '%s' is skipped and in the quarantine: %s",
                row.replica_id,
                row.lsn,
                refusal.space,
                refusal.error.message,
            )
            self._set_aside.add((row.replica_id, row.lsn))

    def _delete(self, first: Evict) -> None:
        """As a change of our own, so that every node makes it. An orphan does so, too: it would wait for what it
        follows for ever. A node that may not write at all waits for one that does: the applier comes again."""
        node = self._node
        read_only = node.read_only
        if read_only.by_config or read_only.lost_rows or read_only.queue is not None or not node.memtx.replica_id:
            raise SystemError_(f"a conflict in space '{first.space.name}' has to be resolved by a node that may write")
        node.statements.repair(first.space, first.keys)
        log.warning(
            "%d tuples of space '%s' give way, because of a unique index, to others: %s",
            len(first.keys),
            first.space.name,
            ", ".join(str(unpack(key)) for key in first.keys),
        )


class Stamps:
    """When each tuple was last written, for `last_write_wins`."""

    def __init__(self, node: Node) -> None:
        self.is_open = False
        self._node = node
        self._clock = RowClock(node.world.clock.time)
        self._is_kept = False
        self._held: dict[SpaceId, Space] = {}
        """Spaces that the compiled path is kept out of: it makes no stamps."""
        self._horizon = 0.0
        """What was written before, and has no stamp, may have been written or deleted later: the stamp is forgotten."""
        self._forgetting: Task | None = None

    def judge(self, options: Options) -> LastWriteWins:
        schema = self._node.schema
        return LastWriteWins(
            options, self._clock, lambda: schema.collations, self._find, self._note, lambda: self._horizon
        )

    # ---- begin and end ----------------------------------------------------------------------------------

    def begin(self) -> None:
        if self._is_kept:
            return
        node = self._node
        if system.CONFLICT_STAMPS not in node.schema.spaces:
            _create(node)
        self._look_around()
        self._is_kept = True
        node.txns.now = self._clock.time
        node.txns.before_commit.append(self._stamp_own)
        node.schema.listeners.append(self._schema_changed)
        self._hold()
        self._forgetting = node.world.tasks.spawn(self._forget(), "conflict stamps")

    def end(self) -> None:
        if not self._is_kept:
            return
        self._is_kept = False
        if self._forgetting is not None:
            self._forgetting.cancel()
        node = self._node
        node.txns.now = node.world.clock.time
        node.txns.before_commit.remove(self._stamp_own)
        node.schema.listeners.remove(self._schema_changed)
        held, self._held = self._held, {}
        for space in held.values():
            space.release_fast()

    def _look_around(self) -> None:
        """What the files say: our clock goes on behind all of it."""
        horizon = self._find(_HORIZON)
        self._horizon = horizon.time if horizon is not None else 0.0
        newest = index_of(self._kernel, _TIME).select(IteratorType.LE, b"\x90", 0, 1)
        if newest:
            self._clock.saw(_stamp_of(newest[0]).time)

    def _schema_changed(self, event: Event) -> None:
        if isinstance(event, SchemaChanged):
            self._hold()

    def _hold(self) -> None:
        spaces = self._node.schema.spaces
        for space_id, space in list(self._held.items()):
            if spaces.get(space_id) is not space or not is_stamped(space):
                self._held.pop(space_id).release_fast()
        for space in spaces.values():
            if space.id not in self._held and is_stamped(space):
                self._held[space.id] = space
                space.hold_fast()

    # ---- stamps -----------------------------------------------------------------------------------------

    @property
    def _space(self) -> Space:
        return self._node.schema.spaces[system.CONFLICT_STAMPS]

    @property
    def _kernel(self) -> MemtxSpace:
        return kernel_of(self._space)

    def _find(self, place: Place) -> Stamp | None:
        found = index_of(self._kernel, PRIMARY).get(pack(place))
        return None if found is None else _stamp_of(found)

    def _note(self, txn: DirectTxn, place: Place, stamp: Stamp) -> None:
        data = pack([*place, *stamp])
        self._kernel.replace(data)
        txn.add_row(RowDraft(Type.REPLACE, Group.LOCAL, tuple_body(system.CONFLICT_STAMPS, data)))

    def _stamp_own(self, txn: DirectTxn, now: float) -> None:
        """Of what this node writes itself: each key that its rows name, a DELETE that found nothing, too."""
        schema = self._node.schema
        for draft in list(txn.rows):
            if draft.lsn or draft.group_id or draft.type not in _HAS_A_KEY:
                continue
            request = of_row(Row(draft.type, body=draft.body))
            space = schema.spaces.get(SpaceId(request.space_id))
            if space is None or not is_stamped(space) or space.pk is None:
                continue
            key = request.key
            if request.tuple is not None and draft.type != Type.UPDATE:
                key = index_of(kernel_of(space), PRIMARY).key_def.extract(request.tuple)
            if key is not None and not request.index_id:
                stamp = Stamp(now, self._node.memtx.replica_id)
                self._note(txn, place_of(space, key, schema.collations), stamp)

    # ---- forgetting -------------------------------------------------------------------------------------

    async def _forget(self) -> None:
        """While all that we follow are followed: what has not come yet is young then, but for what third nodes hold."""
        node = self._node
        while True:
            await node.world.tasks.sleep(_LOOK)
            time = node.world.clock.time() - node.options.replication_conflict_horizon
            try:
                while self._is_all_followed() and self._forget_some(time):
                    await node.settled()
            except BoxError as error:
                log.error("stamps of old writes cannot be removed now: %s", error.message)

    def _is_all_followed(self) -> bool:
        node = self._node
        states = [replica.applier.state for replica in node.replicaset if replica.applier is not None]
        own = sum(1 for replica in node.replicaset if replica.is_self)
        followed = sum(1 for state in states if state is ApplierState.FOLLOW)
        return followed + own >= len(node.options.upstreams) and all(
            state in (ApplierState.FOLLOW, ApplierState.OFF) for state in states
        )

    def _forget_some(self, before: float) -> bool:
        """False if there is nothing older."""
        kernel = self._kernel
        old = index_of(kernel, _TIME).select(IteratorType.LT, pack([before]), 0, _CHUNK)
        old = [data for data in old if unpack(data)[0]]
        if not old:
            return False
        txn = self._node.txns.direct()
        if before > self._horizon:
            self._horizon = before
            self._note(txn, _HORIZON, Stamp(before, 0))
        order = index_of(kernel, PRIMARY).key_def
        for data in old:
            key = order.extract(data)
            kernel.delete(PRIMARY, key)
            txn.add_row(RowDraft(Type.DELETE, Group.LOCAL, key_body(system.CONFLICT_STAMPS, key)))
        txn.commit()
        return True


_TIME = IndexId(1)
"""The index by time."""
_HAS_A_KEY = (Type.INSERT, Type.REPLACE, Type.UPDATE, Type.UPSERT, Type.DELETE)


def _stamp_of(data: bytes) -> Stamp:
    _, _, time, replica_id = unpack(data)
    return Stamp(time, replica_id)


def _create(node: Node) -> None:
    """The space stays on this node, its definition too."""
    context = context_of_node(node)
    format = [{"name": name, "type": type} for name, type in _FORMAT]
    space_id = system.CONFLICT_STAMPS
    context.insert(system.SPACE, [space_id, system.ADMIN, "_conflict_stamps", "memtx", 0, {"group_id": 1}, format])
    context.insert(system.INDEX, [space_id, 0, "primary", "tree", {"unique": True}, _PRIMARY])
    context.insert(system.INDEX, [space_id, 1, "time", "tree", {"unique": False}, _BY_TIME])
