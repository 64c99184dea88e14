"""Whom this node follows: the appliers of `box.cfg.replication`, and when there are enough of them
(replication.cc: replicaset_connect, replicaset_update, replicaset_follow, replicaset_sync).

A start connects to all addresses side by side. On empty directories it waits for the quorum that the strategy asks for.
A node that has data waits only until every peer has answered or has failed once: it may be the only one alive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

from headwater.errors import Er, er
from headwater.replication.applier import Applier
from headwater.replication.bootstrap import Candidate, Stage, connect_quorum, strangers
from headwater.replication.host import Host
from headwater.replication.states import ApplierState, Mission
from headwater.typing import VCLOCK_MAX
from headwater.uri import Uri
from headwater.wire.ballot import Ballot
from headwater.world import Event

log = logging.getLogger("headwater.replication")

NIL = UUID(int=0)
TELLS_BOOTED = 2 << 16 | 7 << 8 | 3
"""Peers before 2.7.3 do not say in their ballot whether they are booted."""
TELLS_LEADER = 2 << 16 | 11 << 8
"""Peers before 2.11.0 do not say whom they chose."""

_S = ApplierState
_FAILED = (_S.STOPPED, _S.OFF, _S.DISCONNECTED, _S.LOADING)
_ANSWERED = (
    _S.CONNECTED, _S.AUTH, _S.READY, _S.WAIT_SNAPSHOT, _S.FETCH_SNAPSHOT, _S.FETCHED_SNAPSHOT, _S.REGISTER,
    _S.REGISTERED, _S.FINAL_JOIN, _S.JOINED, _S.SYNC, _S.FOLLOW,
)  # fmt: skip
_FOLLOWING = (_S.SYNC, _S.FOLLOW)


class Upstreams:
    """All appliers of one node."""

    def __init__(self, host: Host, changed: Callable[[], object]) -> None:
        """`changed`: an applier has another state or ballot."""
        self.appliers: list[Applier] = []
        self.uris: list[Uri] = []
        self.sync_quorum = 0
        """How many must be in sync before this node is no orphan."""
        self._host = host
        self._changed = changed
        self._news: Event = host.world.tasks.event()
        self._tried: set[str] = set()
        """Addresses that have answered or failed since the last `connect`."""
        self._is_connecting = False
        """Then duplicates are an error of the configuration, found when all have answered."""

    # ---- what an applier tells ------------------------------------------------------------------------

    def _moved(self, applier: Applier) -> None:
        if applier.state in _FAILED or applier.state in _ANSWERED:
            self._tried.add(str(applier.uri))
        if applier.state in _ANSWERED:
            self._introduce(applier)
        self._changed()
        self._news.set()

    def _introduce(self, applier: Applier) -> None:
        """Now it is known who it is; it may have become another one since (replica_on_applier_connect, _reconnect)."""
        if applier not in self.appliers:
            return
        replicaset = self._host.replicaset
        replica = replicaset.get(applier.uuid)
        if replica.applier is applier:
            return
        if replica.applier is not None and replica.applier in self.appliers:
            if self._is_connecting:
                return
            log.error(
                "duplicate connection to the same replica: instance uuid %s, addr1 %s, addr2 %s",
                applier.uuid,
                applier.uri,
                replica.applier.uri,
            )
            applier.end(er(Er.CFG, "replication", "duplicate connection to the same replica"))
            return
        self._forget(applier)
        replica.applier = applier
        if applier.ballot is not None:
            replica.is_anon = applier.ballot.is_anon

    def _forget(self, applier: Applier) -> None:
        replicaset = self._host.replicaset
        for replica in list(replicaset):
            if replica.applier is applier:
                replica.applier = None
                replicaset.forget_if_orphaned(replica.uuid)

    # ---- connecting -----------------------------------------------------------------------------------

    def is_self(self, applier: Applier) -> bool:
        """Is the address our own?"""
        return applier.uuid == self._host.uuid

    def candidates(self) -> list[Candidate]:
        """Everybody who answered, ourselves included if our own address is among theirs."""
        out = []
        for applier in self.appliers:
            if self.is_self(applier):
                out.append(Candidate(applier.uuid, self._host.ballot(), applier.uri.address))
            elif applier.state in _ANSWERED and applier.ballot is not None:
                out.append(Candidate(applier.uuid, self._ballot(applier), applier.uri.address))
        return out

    def _ballot(self, applier: Applier) -> Ballot:
        """With vclocks in our replica ids."""
        ballot, ids = ballot_of(applier), self._host.ids
        if ids is None:
            return ballot
        vclock, gc = ids.to_local(applier.uuid, ballot.vclock), ids.to_local(applier.uuid, ballot.gc_vclock)
        return replace(ballot, vclock=vclock, gc_vclock=gc)

    @staticmethod
    def tells_leader(applier: Applier) -> bool:
        """Does its ballot say whom it chose?"""
        return applier.version >= TELLS_LEADER

    def applier_of(self, uuid: UUID) -> Applier | None:
        return next((applier for applier in self.appliers if applier.uuid == uuid), None)

    def stage(self) -> Stage:
        """Of a node without data: does anybody have some?"""
        booted = any(candidate.ballot.is_booted for candidate in self.candidates())
        return Stage.JOIN if booted else Stage.BOOTSTRAP

    async def connect(
        self, uris: Sequence[Uri], *, is_new: bool, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Connect to these and to no others; those that follow already go on. `is_new`: this node has no data, so it
        must not go on before enough have answered; ER_CFG if they do not in `replication_connect_timeout`. `is_enough`:
        no more connections are needed."""
        if len(uris) >= VCLOCK_MAX:
            raise er(Er.CFG, "replication", "too many replicas")
        self._keep(uris)
        if not uris:
            self.sync_quorum = 0
            return
        log.info("connecting to %d replicas", len(uris))
        self._is_connecting = True
        try:
            async with self._host.world.tasks.timeout(self._host.options.replication_connect_timeout):
                while not (is_enough() or self._is_connected(is_new)):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            log.debug("no more waiting for connections")
        finally:
            self._is_connecting = False
        self._judge(is_new)

    def _keep(self, uris: Sequence[Uri]) -> None:
        """Appliers for exactly these addresses: working ones stay as they are, others begin anew."""
        wanted = {str(uri): uri for uri in uris}
        if len(wanted) < len(uris):
            raise er(Er.CFG, "replication", "duplicate connection to the same replica")
        kept = {
            str(one.uri): one
            for one in self.appliers
            if one.state in _FOLLOWING and wanted.get(str(one.uri)) == one.uri
        }
        for applier in self.appliers:
            if applier not in kept.values():
                applier.stop()
                self._forget(applier)
        self.uris = list(uris)
        self._tried = set(kept)
        self.appliers = [kept.get(str(uri)) or Applier(self._host, uri, self._moved) for uri in uris]
        for applier in self.appliers:
            if str(applier.uri) not in kept:
                applier.start()

    def _is_connected(self, is_new: bool) -> bool:
        """replicaset_is_connected"""
        total = len(self.appliers)
        connected = len(self.candidates())
        if is_new and self._host.options.bootstrap_strategy == "supervised":
            return False
        if connected == total:
            return True
        stage = self.stage() if is_new else Stage.RECOVERY
        quorum = connect_quorum(
            self._host.options.bootstrap_strategy, stage, total, self._host.options.replication_connect_quorum
        )
        hopeless = sum(self._is_hopeless(applier) for applier in self.appliers)
        if total - hopeless < quorum:
            return True
        if stage is Stage.BOOTSTRAP:
            return connected + hopeless == total
        return connected >= quorum and len(self._tried) == total

    def _is_hopeless(self, applier: Applier) -> bool:
        """One that has not begun yet is OFF, too."""
        is_tried = str(applier.uri) in self._tried
        return is_tried and applier.state in (_S.STOPPED, _S.OFF) and not self.is_self(applier)

    def _judge(self, is_new: bool) -> None:
        """Enough? replicaset_connect, after the wait."""
        options = self._host.options
        candidates, total = self.candidates(), len(self.appliers)
        stage = self.stage() if is_new else Stage.RECOVERY
        if len(candidates) == total:
            log.info("connected to %d replicas", total)
        else:
            log.error("failed to connect to %d out of %d replicas", total - len(candidates), total)
            quorum = connect_quorum(options.bootstrap_strategy, stage, total, options.replication_connect_quorum)
            if len(candidates) < quorum and is_new:
                raise er(Er.CFG, "replication", f"failed to connect to one or more replicas: {self._failures()}")
        self._check_duplicates()
        if is_new and stage is Stage.JOIN and (missing := strangers(candidates, total)):
            log.warning("not all replica set members listed in box.cfg.replication")
            for uuid in missing:
                log.warning("no connection to %s", uuid)
            if options.bootstrap_strategy == "auto" and not options.replication_anon:
                raise er(Er.BOOTSTRAP_CONNECTION_NOT_TO_ALL)
        # Our own address counts as in sync, so it counts here, too, although we are not booted yet. Tarantool leaves it
        # out here alone, and in a set of two the node whose address is in its own list has nobody to catch up with.
        booting = sum(not each.ballot.is_booted for each in candidates if each.uuid != self._host.uuid)
        self.sync_quorum = len(candidates) - booting
        if options.bootstrap_strategy == "legacy":
            asked = options.replication_connect_quorum
            self.sync_quorum = total if asked is None else min(asked, total)

    def _check_duplicates(self) -> None:
        seen: dict[UUID, Applier] = {}
        for applier in self.appliers:
            if applier.uuid == NIL or (applier.state not in _ANSWERED and not self.is_self(applier)):
                continue
            if applier.uuid in seen:
                raise er(Er.CFG, "replication", "duplicate connection to the same replica")
            seen[applier.uuid] = applier

    def _failures(self) -> str:
        """Who did not answer, and why, as far as it is known."""
        answered = {candidate.uuid for candidate in self.candidates()}
        words = [
            f"{applier.uri}: {applier.error or 'no answer'}"
            for applier in self.appliers
            if applier.uuid not in answered
        ]
        return "; ".join(words)

    async def wait_chosen(self, applier: Applier) -> None:
        """Until its ballot says whom it chose as the leader of a new set, or its connection is gone
        (applier_wait_bootstrap_leader_uuid_is_set). Or until it turns out to have had data all along: its first ballot
        was one of a node that recovers. It chooses nobody then, and Tarantool waits on."""
        while applier.ballot is None or applier.ballot.bootstrap_leader_uuid == NIL:
            if applier.state not in _ANSWERED or (applier.ballot is not None and applier.ballot.is_booted):
                raise er(Er.CANT_CHECK_BOOTSTRAP_LEADER, str(applier.uuid))
            self._news.clear()
            await self._news.wait()

    def wake(self) -> None:
        """What `is_enough` says may be another thing now."""
        self._news.set()

    # ---- following ------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Let all of them go on."""
        for applier in self.appliers:
            applier.release(Mission.FOLLOW)

    async def reach(self, applier: Applier, *states: ApplierState) -> bool:
        """Until the applier is in one of these states; False once it has failed."""
        while applier.state not in states:
            if applier.state in _FAILED:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    @property
    def synced(self) -> int:
        """Those that follow closely; one that leads to ourselves counts, too."""
        return sum(
            applier.state is _S.FOLLOW or (applier.state is _S.OFF and self.is_self(applier))
            for applier in self.appliers
        )

    @property
    def is_synced(self) -> bool:
        return self.synced >= self.sync_quorum

    async def sync(self, timeout: float) -> bool:
        """Wait until enough are in sync, as long as they may become so (replicaset_sync). False if they are not."""
        if self.sync_quorum == 0:
            return True
        log.info("synchronizing with %d replicas", self.sync_quorum)
        try:
            async with self._host.world.tasks.timeout(timeout):
                while not self.is_synced and self._hopeful >= self.sync_quorum:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            log.debug("no more waiting for synchronization")
        if self.is_synced:
            log.info("replica set sync complete")
        else:
            total = len(self.appliers)
            log.error("failed to synchronize with %d out of %d replicas", total - self.synced, total)
        return self.is_synced

    @property
    def _hopeful(self) -> int:
        return sum(applier.state in _ANSWERED or applier.state is _S.LOADING for applier in self.appliers) + sum(
            applier.state is _S.OFF and self.is_self(applier) for applier in self.appliers
        )

    def max_lsn_seen(self, replica_id: int) -> int:
        """The greatest LSN of ours that a peer has, as far as ballots tell (replicaset_max_instance_lsn)."""
        ballots = [self._ballot(applier) for applier in self.appliers if applier.ballot is not None]
        return max((ballot.vclock.get(replica_id, 0) for ballot in ballots), default=0)

    def stop(self) -> None:
        for applier in self.appliers:
            applier.stop()
            self._forget(applier)
        self.appliers = []
        self.uris = []


def ballot_of(applier: Applier) -> Ballot:
    """Its ballot. Peers before 2.7.3 do not say whether they are booted: one that is loading and has no rows is not."""
    ballot = applier.ballot
    assert ballot is not None
    if applier.version < TELLS_BOOTED and ballot.is_ro and not any(ballot.vclock.values()):
        return replace(ballot, is_booted=False)
    return ballot
