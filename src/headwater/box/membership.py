"""How a node comes into a replica set and stays in it (box.cc: bootstrap, local_recovery, box_set_replication;
seed 000).

A node without data asks all peers, and either makes the set or joins it. A node with data asks them too, but waits for
nobody; it joins anew only when every peer has removed rows that it lacks. Then it follows, and is an orphan, read-only,
until enough of those it follows are caught up with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID

from headwater.box.credentials import context_of_node
from headwater.box.first import leader_row
from headwater.box.host import Host as ProcedureHost
from headwater.box.readonly import ReadOnly
from headwater.errors import BoxError, Er, er
from headwater.replication.applier import Applier
from headwater.replication.bootstrap import Candidate, choose, named_leader, rejoin_from, supervised_leader
from headwater.replication.border import look
from headwater.replication.host import Host as ReplicationHost
from headwater.replication.replicaset import Replicaset
from headwater.replication.states import ApplierState, Mission
from headwater.replication.upstreams import Upstreams
from headwater.store import system
from headwater.store.cluster import Member
from headwater.store.events import Event as SchemaEvent
from headwater.store.events import LeaderChanged, MemberAdded, MemberChanged, MemberRemoved
from headwater.uri import Uri
from headwater.vclock import VClock
from headwater.world import Event

log = logging.getLogger("headwater.replication")

NIL = UUID(int=0)
NAMES_SINCE = (2, 11, 5)
"""Schema versions before have no names in `_cluster` (box.cc, schema_features)."""

_S = ApplierState


class Node(ProcedureHost, ReplicationHost, Protocol):
    """The instance, as far as its membership needs it."""

    read_only: ReadOnly

    @property
    def status(self) -> str: ...

    @property
    def prepared(self) -> VClock:
        """Everything up to here is in the store."""

    def tell_ballot(self) -> None:
        """Those that watch it should see it now."""

    def tell_status(self) -> None: ...

    async def make_set(self) -> None:
        """Be the first member of a new replica set."""

    async def take_join(self, joined: Applier) -> None:
        """What a JOIN brought is in the store: open the journal, make a snapshot."""

    def renew_store(self) -> None:
        """Forget what is in the store, if there is anything; connections of clients end."""


class Membership:
    """One node's place among others."""

    def __init__(self, node: Node) -> None:
        self.replicaset = Replicaset()
        self.upstreams = Upstreams(node, self._changed)
        self.leader_uuid = NIL
        """Whom this node chose when it had nothing; peers that make a set wait until everybody names them."""
        self.is_leader = False
        """It made the set in this life of the process."""
        self._node = node
        self._is_told = False
        """By box.ctl.make_bootstrap_leader."""
        self._is_asked = False
        """The same, gracefully: only if no peer is the leader already."""
        self._told: Event = node.world.tasks.event()
        self._has_id: Event = node.world.tasks.event()
        """A row of `_cluster` about this node came."""
        self._is_settled = False
        """Has it begun to follow? Before that nobody is an orphan or stops being one."""
        self._needed_lsn = 0
        """Of our own rows: some peer has them, and we have lost them."""

    # ---- from nothing ---------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Make the set or join it, however long that takes (bootstrap). BoxError for what no new try will mend."""
        node = self._node
        said = False
        while True:
            leader = await self._ask_for_leader()
            self.leader_uuid = leader.uuid if leader is not None else node.uuid
            node.tell_ballot()
            if self.leader_uuid == node.uuid:
                if await self._be_first():
                    return
            elif await self._join(self.leader_uuid):
                return
            if not said:
                said = True
                log.info("bootstrap failed, will retry every %.2f second", node.options.replication_timeout)
            await node.world.tasks.sleep(node.options.replication_timeout)

    async def _ask_for_leader(self) -> Candidate | None:
        """None: there is nobody else, or we are told to be it."""
        options = self._node.options
        uris = options.upstreams
        if options.bootstrap_strategy == "supervised" and not uris:
            await self._wait_told()
        await self.upstreams.connect(uris, is_new=True, is_enough=self._is_leader_known)
        return self._choose()

    def _choose(self) -> Candidate | None:
        """replicaset_find_join_master"""
        options = self._node.options
        candidates = self.upstreams.candidates()
        match options.bootstrap_strategy:
            case "config":
                found = self._named(candidates)
                if found is None and not self._names_us():
                    raise er(Er.CFG, "bootstrap_leader", "failed to connect to the bootstrap leader")
                return found
            case "supervised":
                found = None if self._is_told else supervised_leader(candidates)
                if found is None and not self._is_told and not self._is_asked:
                    raise er(Er.CFG, "bootstrap_strategy", "failed to connect to the bootstrap leader")
                return found
            case _:
                return choose(candidates)

    def _named(self, candidates: list[Candidate]) -> Candidate | None:
        named = self._node.options.bootstrap_leader
        return None if named is None else named_leader(candidates, str(named))

    def _names_us(self) -> bool:
        options = self._node.options
        named = str(options.bootstrap_leader)
        return named in (str(self._node.uuid), options.instance_name)

    def _is_leader_known(self) -> bool:
        """bootstrap_leader_is_connected: then no more connections are waited for."""
        match self._node.options.bootstrap_strategy:
            case "config":
                return self._named(self.upstreams.candidates()) is not None
            case "supervised":
                candidates = self.upstreams.candidates()
                is_last = self._is_asked and len(candidates) == len(self.upstreams.appliers)
                return self._is_told or is_last or supervised_leader(candidates) is not None
            case _:
                return False

    async def _wait_told(self) -> None:
        try:
            async with self._node.world.tasks.timeout(self._node.options.replication_connect_timeout):
                while not (self._is_told or self._is_asked):
                    await self._told.wait()
        except TimeoutError:
            words = "failed to connect to the bootstrap leader"
            raise er(Er.CFG, "bootstrap_strategy", words) from None

    async def lead(self, *, graceful: bool = False) -> None:
        """box.ctl.make_bootstrap_leader(): a node that has nothing yet is to make the set; one that has data says in a
        row that newcomers should join it (box_make_bootstrap_leader_nongraceful)."""
        node = self._node
        strategy = node.options.bootstrap_strategy
        if strategy != "supervised":
            what = "promoting the bootstrap leader via box.ctl.make_bootstrap_leader()"
            raise er(Er.UNSUPPORTED, f"bootstrap_strategy = '{strategy}'", what)
        if graceful:
            self._be_asked()
            return
        if not node.is_ready:
            self._be_told()
            return
        node.check_writable()
        row = leader_row(node.uuid, node.world.clock.time(), node.memtx.replica_id)
        context_of_node(node).replace(system.SCHEMA, row)
        await node.settled()

    def _be_told(self) -> None:
        self._is_told = True
        self.leader_uuid = self._node.uuid
        self._node.tell_ballot()
        self._told.set()
        self.upstreams.wake()

    def _be_asked(self) -> None:
        """box_make_bootstrap_leader_graceful"""
        if self._node.is_ready:
            log.info("graceful bootstrap request is discarded: the instance is already bootstrapped")
            return
        self._is_asked = True
        self._told.set()
        self.upstreams.wake()

    async def _be_first(self) -> bool:
        """bootstrap_master. False if a peer went away before it said whom it chose: Tarantool ends there, and is
        started again. Where Tarantool refuses any read-only node, we let one that is to be alone be made: users
        of the configuration come when it is writable."""
        options = self._node.options
        if options.read_only is True and options.upstreams and options.bootstrap_strategy != "supervised":
            raise er(Er.BOOTSTRAP_READONLY)
        if options.replication_anon:
            # An anonymous replica has no set of its own.
            raise er(
                Er.CFG, "replication_anon", "there is no replica set to follow: name a member of one in `replication`"
            )
        if options.bootstrap_strategy == "auto":
            try:
                await self._check_unanimity()
            except BoxError as error:
                if error.code != Er.CANT_CHECK_BOOTSTRAP_LEADER:
                    raise
                log.error("%s", error.message)
                return False
        await self._node.make_set()
        self.is_leader = True
        return True

    async def _check_unanimity(self) -> None:
        """Everybody who answered must have chosen us (check_bootstrap_unanimity). Peers before 2.11 cannot say."""
        for applier in self.upstreams.appliers:
            if (
                applier.state is not _S.CONNECTED
                or self.upstreams.is_self(applier)
                or not self.upstreams.tells_leader(applier)
            ):
                continue
            log.info("checking if %s at %s chose this instance as bootstrap leader", applier.uuid, applier.uri)
            await self.upstreams.wait_chosen(applier)
            ballot = applier.ballot
            if ballot is not None and ballot.bootstrap_leader_uuid != self._node.uuid:
                raise er(Er.BOOTSTRAP_NOT_UNANIMOUS, str(applier.uuid), str(ballot.bootstrap_leader_uuid))

    async def _join(self, leader: UUID) -> bool:
        """bootstrap_from_master. False if it may work another time, perhaps with another leader: one that refuses us
        may be read-only, or anonymous, for now. BoxError once there are rows."""
        node = self._node
        applier = self.upstreams.applier_of(leader)
        if applier is None:
            return False
        log.info("bootstrapping replica from %s at %s", leader, applier.uri)
        node.renew_store()
        applier.release(Mission.JOIN)
        done = _S.FETCHED_SNAPSHOT if node.options.replication_anon else _S.JOINED
        if await self.upstreams.reach(applier, done):
            await node.take_join(applier)
            return True
        if applier.state is _S.STOPPED and applier.error is not None and applier.has_rows:
            raise applier.error
        node.renew_store()
        return False

    # ---- with data of one's own ------------------------------------------------------------------------

    async def meet(self) -> bool:
        """Connect to the peers of a node that has data, and join anew if all of them are too far ahead. True if it did;
        then what it had is replaced. False with an empty store: it has tried, and need not any more."""
        node = self._node
        local = node.prepared
        await self.upstreams.connect(node.options.upstreams, is_new=False)
        for each in self.upstreams.candidates():
            applier = self.upstreams.applier_of(each.uuid)
            if applier is not None and each.uuid != node.uuid:
                await look(node, applier)
        said = False
        while (master := self._to_rejoin(local)) is not None:
            self.leader_uuid = master.uuid
            node.tell_ballot()
            if not said:
                log.error("replica is too old, initiating rebootstrap")
            if await self._join(master.uuid):
                return True
            if not said:
                said = True
                log.info("rebootstrap failed, will retry every %.2f second", node.options.replication_timeout)
            await node.world.tasks.sleep(node.options.replication_timeout)
            await self.upstreams.connect(node.options.upstreams, is_new=False)
        return False

    def _to_rejoin(self, local: VClock) -> Candidate | None:
        others = [each for each in self.upstreams.candidates() if each.uuid != self._node.uuid]
        found = rejoin_from(local, others)
        if found is not None and self._has_local_data():
            log.error(
                "every peer is too far ahead, and spaces that are local to this node would be lost by a join anew"
            )
            return None
        return found

    def _has_local_data(self) -> bool:
        spaces = self._node.schema.spaces.values()
        return any(space.is_local and not space.is_system and space.kernel and len(space.kernel) for space in spaces)

    # ---- following -------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Everything local is done: let the appliers go on. The one that made the set has nobody to catch up with."""
        self._remember_self()
        self._check_own_rows()
        self._is_settled = True
        if not self.is_leader:
            self._set_orphan(self.upstreams.sync_quorum > 0)
        self.upstreams.follow()

    def _remember_self(self) -> None:
        """An anonymous replica is in no row of `_cluster`, and knows itself all the same (box.cc, box_cfg_xc)."""
        own = self.replicaset.get(self._node.uuid)
        own.is_self = True
        own.is_anon = not own.id

    async def sync(self) -> None:
        """Wait as long as the options say until enough are caught up with."""
        if not self.is_leader:
            self._set_orphan(not await self.upstreams.sync(self._node.options.replication_sync_timeout))

    def _changed(self) -> None:
        """An applier has another state or ballot, or another quorum is asked for (replicaset_check_quorum)."""
        if self._node.read_only.lost_rows:
            # Whom we meet while we wait may have more of our rows than those we met before.
            self._needed_lsn = max(self._needed_lsn, self.upstreams.max_lsn_seen(self._node.memtx.replica_id))
        if self._is_settled and self._node.read_only.is_orphan and self.upstreams.is_synced:
            self._set_orphan(False)

    def _set_orphan(self, is_orphan: bool) -> None:
        node = self._node
        if node.read_only.is_orphan != is_orphan:
            log.info("%s orphan mode", "entering" if is_orphan else "leaving")
            node.read_only.update(is_orphan=is_orphan)
            node.tell_status()

    def _check_own_rows(self) -> None:
        """A peer has rows of ours that we do not have: our log was lost. Until they are back, an LSN given out
        would be given out for the second time (box_check_waiting_for_own_rows)."""
        node = self._node
        own = node.memtx.replica_id
        self._needed_lsn = self.upstreams.max_lsn_seen(own) if own else 0
        lost = bool(own) and node.journal.vclock.get(own) < self._needed_lsn
        if lost:
            log.warning(
                "waiting for own rows up to LSN %d: a peer has them, and the last one here is %d",
                self._needed_lsn,
                node.journal.vclock.get(own),
            )
        node.read_only.update(lost_rows=lost)
        node.tell_status()

    def vclock_moved(self) -> None:
        """Rows of peers are written."""
        node = self._node
        if node.read_only.lost_rows and node.journal.vclock.get(node.memtx.replica_id) >= self._needed_lsn:
            log.info("own rows are back")
            node.read_only.update(lost_rows=False)
            node.tell_status()

    # ---- box.cfg ---------------------------------------------------------------------------------------

    async def reconfigure(self, changes: Mapping[str, Any]) -> None:
        """Options of the replica set have new values."""
        node = self._node
        if "replication_connect_quorum" in changes:
            self._changed()
        if "replication_anon" in changes:
            if node.options.replication_anon:
                raise er(Er.CFG, "replication_anon", "cannot be turned on after bootstrap has finished")
            await self._become_member()
        elif "replication" in changes:
            await self._follow_others(node.options.upstreams)
        if "instance_name" in changes:
            await self._take_name(node.options.instance_name or "")

    async def _follow_others(self, uris: list[Uri]) -> None:
        """box_set_replication: those that are followed already are not disturbed. The strategy `legacy` makes an
        orphan of the node meanwhile."""
        before = list(self.upstreams.uris)
        self.is_leader = False
        if self._node.options.bootstrap_strategy == "legacy":
            self._set_orphan(True)
        try:
            await self.upstreams.connect(uris, is_new=False)
        except BoxError:
            await self.upstreams.connect(before, is_new=False)
            self.upstreams.follow()
            raise
        self._check_own_rows()
        self.upstreams.follow()
        await self.sync()

    async def _take_name(self, name: str) -> None:
        """Another name for ourselves (box_set_instance_name): written here, or by a member that can."""
        node = self._node
        identity = node.schema.identity
        before, identity.instance_name = identity.instance_name, name
        try:
            if name and name != node.schema.own_name:
                if node.is_read_only:
                    await self._become_member()
                else:
                    await self.register(node.uuid, name)
        except BaseException:
            identity.instance_name = before
            raise

    async def _become_member(self) -> None:
        """An anonymous replica asks for an id, or a member for another name (box_register_on_master). Every connection
        begins anew, so that all see the change."""
        node = self._node
        node.tell_ballot()
        uris = node.options.upstreams
        self.upstreams.stop()
        try:
            await self.upstreams.connect(uris, is_new=False)
            await self._register_at_master()
        finally:
            self._remember_self()
            self.upstreams.follow()
        await self.sync()

    async def _register_at_master(self) -> None:
        """CANNOT_REGISTER if nobody can give an id now. Nothing to do where the row came another way: a master that was
        asked before has answered, and the answer was lost."""
        if self._is_registered:
            return
        leader = choose(each for each in self.upstreams.candidates() if each.uuid != self._node.uuid)
        applier = self.upstreams.applier_of(leader.uuid) if leader is not None else None
        if applier is None:
            raise er(Er.CANNOT_REGISTER)
        applier.release(Mission.REGISTER)
        if not await self.upstreams.reach(applier, _S.REGISTERED, _S.SYNC, _S.FOLLOW):
            raise applier.error or er(Er.CANNOT_REGISTER)
        if applier.has_left_out and not self._node.memtx.replica_id:
            await self._wait_for_id(applier)
        if not self._node.memtx.replica_id:
            raise er(Er.CANNOT_REGISTER)

    async def _wait_for_id(self, applier: Applier) -> None:
        """It is on its way, behind rows that the master had not sent us when it registered us."""
        node = self._node
        applier.release(Mission.FOLLOW)
        try:
            async with node.world.tasks.timeout(node.options.replication_connect_timeout):
                while not node.memtx.replica_id:
                    self._has_id.clear()
                    await self._has_id.wait()
        except TimeoutError:
            log.error("%s has registered this node, but the row that says so did not come", applier.uri)

    @property
    def _is_registered(self) -> bool:
        identity, member = self._node.schema.identity, self._node.schema.cluster.by_uuid(self._node.uuid)
        has_names = identity.dd_version >= NAMES_SINCE
        return member is not None and (not has_names or member.name == (self._node.options.instance_name or ""))

    # ---- members ---------------------------------------------------------------------------------------

    def schema_changed(self, event: SchemaEvent) -> None:
        """A row of `_cluster` came, changed or went."""
        if isinstance(event, LeaderChanged):
            self.leader_uuid = event.uuid or NIL
        elif isinstance(event, MemberAdded):
            replica = self.replicaset.get(event.member.uuid)
            replica.id, replica.name, replica.is_anon = int(event.member.id), event.member.name, False
            if event.member.uuid == self._node.uuid:
                self._node.read_only.update(is_expelled=False)
                self._has_id.set()
        elif isinstance(event, MemberChanged):
            if event.old.uuid != event.new.uuid:
                self._removed(event.old.uuid)
            replica = self.replicaset.get(event.new.uuid)
            replica.id, replica.name = int(event.new.id), event.new.name
        elif isinstance(event, MemberRemoved):
            self._removed(event.member.uuid)
            if event.member.uuid == self._node.uuid and self._is_settled and not event.is_undone:
                self._expelled(event.member)

    def _removed(self, uuid: UUID) -> None:
        replica = self.replicaset.find(uuid)
        if replica is not None and replica.id:
            log.info("removed replica %s", uuid)
            replica.id, replica.name = 0, ""
            self.replicaset.forget_if_orphaned(uuid)

    def _expelled(self, member: Member) -> None:
        """We are no member any more (alter.cc, on_replace_cluster_clear_id): nobody feeds us, and we feed nobody."""
        error = er(Er.LOCAL_INSTANCE_ID_IS_READ_ONLY, member.id)
        log.error("this instance was removed from its replica set")
        self._node.read_only.update(is_expelled=True)
        for replica in list(self.replicaset):
            if replica.applier is not None:
                replica.applier.end(error)
            if replica.relay is not None:
                replica.relay.stop(error)

    def forget_members(self) -> None:
        """The store is empty again."""
        for replica in list(self.replicaset):
            replica.id, replica.name = 0, ""
            self.replicaset.forget_if_orphaned(replica.uuid)

    async def register(self, uuid: UUID, name: str) -> None:
        """Give an instance an id, or another name (box_register_replica). Returns when it is written."""
        node = self._node
        if node.schema.identity.dd_version < NAMES_SINCE:
            name = ""
        member, namesake = node.schema.cluster.by_uuid(uuid), node.schema.cluster.by_name(name)
        if member is not None and name == member.name:
            await node.settled()
            return
        node.check_writable()
        context = context_of_node(node)
        if member is not None:
            context.update(system.CLUSTER, [int(member.id)], [["=", 3, name or None]])
        elif namesake is not None:
            log.info("%s has the UUID %s from now on, no longer %s", name, uuid, namesake.uuid)
            context.update(system.CLUSTER, [int(namesake.id)], [["=", 2, str(uuid)]])
        else:
            id = node.schema.cluster.free_id() if node.ids is None else node.ids.give(uuid)
            log.info("registering %s under id %d", name or uuid, id)
            context.insert(system.CLUSTER, [int(id), str(uuid), *([name] if name else [])])
        await node.settled()

    def stop(self) -> None:
        self._is_settled = False
        self.upstreams.stop()
