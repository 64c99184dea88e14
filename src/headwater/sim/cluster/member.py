"""One member of the set: a machine, and somebody who starts its node again whenever it is dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from headwater.box.instance import Box
from headwater.errors import BoxError, Er, SocketError
from headwater.options import Options
from headwater.server.node import make_node
from headwater.sim.check import Violation
from headwater.sim.cluster.plan import NodePlan, address
from headwater.sim.disk import Platter
from headwater.sim.faults import FaultPlan
from headwater.sim.process import Crashed
from headwater.sim.world import Simulation, SimWorld
from headwater.typing import ReplicaId
from headwater.vclock import VClock

CREDENTIALS = {"users": {"guest": {"roles": ["super"]}}}

Instance = int | str
"""Whose rows: a replica id where all share one numbering, else the UUID behind it."""

NOT_YET = frozenset(
    {
        Er.CFG,
        Er.READONLY,
        Er.WAL_IO,
        Er.CASCADE_ROLLBACK,
        Er.BOOTSTRAP_NOT_UNANIMOUS,
        Er.CANT_CHECK_BOOTSTRAP_LEADER,
        Er.BOOTSTRAP_CONNECTION_NOT_TO_ALL,
        Er.LOADING,
    }
)
"""Why a node without data may refuse to start while its peers cannot be reached or cannot take it in: it is started
again. A JOIN that breaks off, or whose connection is lost, ends a Tarantool, too."""


class Member:
    """Its node, whichever life that is in."""

    def __init__(
        self, simulation: Simulation, plan: NodePlan, observer: Observer, *, names_differ: bool = False
    ) -> None:
        """`names_differ`: some node of the set gives ids of its own."""
        self.name = plan.name
        self.address = address(plan.name)
        self.plan = plan
        self.machine = simulation.machine(plan.name)
        self.faults = FaultPlan(simulation.dice(f"{plan.name}/disk"))
        self.values: dict[str, Any] = dict(plan.options)
        """Options of its next life."""
        self.peers: list[str] = list(self.values["replication"])
        """Whom it follows, but for those in `unfollowed`."""
        self.unfollowed: list[str] = []
        self.box: Box | None = None
        self.world: SimWorld | None = None
        self.is_up = False
        """Its present process has started and takes requests."""
        self.was_up = False
        """It has once been a member."""
        self.wants_id = False
        """An anonymous replica that is to become a member. The option is set while it runs, never before: a node does
        not start with another one than what its files say."""
        self.last: dict[Instance, int] = {}
        """What its present or last process had written."""
        self.is_away = False
        """Expelled, and not taken back yet."""
        self.lost_tail = False
        """A power cut may have taken something since it was last up."""
        self.lives = 0
        self.injected_at_boot = 0
        self._names_differ = names_differ
        self._simulation = simulation
        self._observer = observer
        self._dice = simulation.dice(f"{plan.name}/lives")
        self._boot_at = float("inf")
        self._news = asyncio.Event()

    # ---- what others see

    @property
    def is_anon(self) -> bool:
        return bool(self.values.get("replication_anon"))

    @property
    def uuid(self) -> UUID:
        assert self.box is not None
        return self.box.uuid

    @property
    def id(self) -> int:
        return self.box.memtx.replica_id if self.box is not None else 0

    @property
    def vclock(self) -> VClock:
        assert self.box is not None
        return self.box.journal.vclock.copy(ignore0=True)

    @property
    def instance(self) -> Instance:
        """Its own rows are under this name in a position."""
        assert self.box is not None
        return self.instance_of(self.id)

    @property
    def position(self) -> dict[Instance, int]:
        """Its vclock, in words that mean the same on every node."""
        return self.by_instance(self.vclock.as_dict())

    def by_instance(self, lsns: Mapping[int, int]) -> dict[Instance, int]:
        return {self.instance_of(replica_id): lsn for replica_id, lsn in lsns.items()}

    def instance_of(self, replica_id: int) -> Instance:
        if not self._names_differ:
            return replica_id
        assert self.box is not None
        if self.box.ids is not None:
            owner = self.box.ids.registry.owner(replica_id)
        else:
            member = self.box.schema.cluster.by_id(ReplicaId(replica_id))
            owner = None if member is None else member.uuid
        return f"{replica_id} on {self.name}" if owner is None else str(owner)

    @property
    def following(self) -> list[str]:
        gone = [address(name) for name in self.unfollowed]
        return [peer for peer in self.peers if peer not in gone]

    # ---- lives

    def boot_at(self, when: float) -> None:
        """The next process begins then, or as soon after as the present one is dead."""
        self._boot_at = when
        self._news.set()

    async def supervise(self) -> None:
        """As an init system does: a node that ends is started again."""
        while True:
            await self._wait()
            await self._live()
            self._boot_at = max(self._boot_at, self._simulation.loop.now + self._dice.uniform(0.05, 1.0))

    async def _wait(self) -> None:
        while (left := self._boot_at - self._simulation.loop.now) > 0:
            self._news.clear()
            try:
                async with asyncio.timeout(None if left == float("inf") else left):
                    await self._news.wait()
            except TimeoutError:
                return

    async def _live(self) -> None:
        self.lives += 1
        self._boot_at = 0.0
        self.values["replication"] = self.following
        self.injected_at_boot = self.faults.injected
        self.world = world = self.machine.boot(self.faults)
        died = asyncio.Event()
        world.process.at_death(died.set)
        box = self.box = make_node(world, Options.load(self.values))
        box.credentials = CREDENTIALS
        self._observer.born(self, box)
        try:
            await world.live(box.start())
        except Crashed:
            self._simulation.note(self.name, "died while it started")
        except (BoxError, OSError) as error:
            self._did_not_start(error)
        else:
            self._simulation.note(self.name, f"is up at {self.vclock}")
            self._observer.risen(self)
            self.is_up = self.was_up = True
            await died.wait()
        self.is_up = False

    def _did_not_start(self, error: BoxError | OSError) -> None:
        self.machine.kill()
        self._simulation.note(self.name, f"did not start: {error}")
        if self.wants_id and self.was_up and isinstance(error, BoxError) and error.code in (Er.UNKNOWN_REPLICA, Er.CFG):
            # It died while it became a member: whether it is one, the error says.
            self.values["replication_anon"] = error.code == Er.UNKNOWN_REPLICA
            return
        is_full = self.machine.platter.capacity is not None
        excused = self.faults.injected > self.injected_at_boot or is_full
        broke_off = isinstance(error, SocketError) or (isinstance(error, BoxError) and error.code in NOT_YET)
        if not excused and not broke_off:
            self._observer.fail(Violation(f"liveness: {self.name} does not start: {error}"))

    async def end(self) -> None:
        """SIGTERM."""
        box, world = self.box, self.world
        if self.is_up and box is not None and world is not None:
            self.is_up = False
            try:
                await world.live(box.stop())
            except Crashed:
                return
        self.machine.kill()

    def lose_data(self) -> None:
        """Its disk is replaced by an empty one. It must be dead."""
        self.machine.platter = Platter()
        self.last = {}

    def power_cut(self) -> None:
        self.lost_tail = self.lost_tail or self.values.get("wal_mode") == "write"
        self.machine.power_cut()


class Observer:
    """Who is told of lives, and of what is wrong."""

    def __init__(self, fail: Callable[[Violation], object]) -> None:
        self.fail = fail

    def born(self, member: Member, box: Box) -> None:
        """About to start."""

    def risen(self, member: Member) -> None:
        """It has started."""
