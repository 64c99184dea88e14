"""Replica sets of whole nodes in the simulator: nothing but boxes, their disks and the net, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headwater.box.credentials import context_of_node
from headwater.box.instance import Box
from headwater.errors import BoxError
from headwater.options import Options
from headwater.server.node import make_node
from headwater.sim.faults import Faults
from headwater.sim.world import Machine, Simulation, SimWorld
from headwater.store import system
from headwater.typing import SpaceId

SPACE = 600
CREDENTIALS = {"users": {"guest": {"roles": ["super"]}}}
COMMON = {
    "replication_timeout": 0.5,
    "replication_connect_timeout": 5,
    "replication_sync_timeout": 10,
    "checkpoint_interval": 0,
}


class Peer:
    """One machine and its node."""

    def __init__(self, machine: Machine, options: dict[str, Any]) -> None:
        self.machine = machine
        self.options = options
        self.faults: Faults | None = None
        """Of the disk of its next lives."""
        self.box: Box
        self._world: SimWorld

    @property
    def address(self) -> str:
        return f"{self.machine.name}:3301"

    def boot(self) -> Box:
        self._world = self.machine.boot(self.faults)
        data = f"/{self.machine.name}"
        values = {**COMMON, "listen": self.address, "wal_dir": data, "memtx_dir": data, **self.options}
        self.box = make_node(self._world, Options.load(values))
        self.box.credentials = CREDENTIALS
        return self.box

    async def start(self) -> Box:
        box = self.boot()
        await self._world.live(box.start())
        return box

    async def stop(self) -> None:
        await self._world.live(self.box.stop())
        self.machine.kill()

    async def do(self, fiber: Awaitable[Any]) -> Any:
        async def run() -> Any:
            return await fiber

        return await self._world.live(run())

    async def configure(self, **options: Any) -> None:
        """box.cfg at run time."""
        planned = self.box.options.plan(options)
        before = {name: getattr(self.box.options, name) for name in planned}
        self.box.options.assign(planned)
        try:
            await self.do(self.box.reconfigure({k: v for k, v in planned.items() if v != before[k]}))
        except BoxError:
            self.box.options.assign(before)
            raise

    # ---- data

    async def make_space(self, **options: Any) -> None:
        context = context_of_node(self.box)
        context.insert(system.SPACE, [SPACE, 1, "t", "memtx", 0, options, []])
        context.insert(system.INDEX, [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
        await self.do(self.box.settled())

    async def put(self, *keys: int) -> None:
        for key in keys:
            context_of_node(self.box).replace(SPACE, [key, self.machine.name])
        await self.do(self.box.settled())

    @property
    def keys(self) -> list[int]:
        if self.box.schema.spaces.get(SpaceId(SPACE)) is None:
            return []
        return [row[0] for row in context_of_node(self.box).select(SPACE)]

    @property
    def vclock(self) -> dict[int, int]:
        return self.box.journal.vclock.as_dict(ignore0=True)

    def upstream(self, of: Peer) -> Any:
        found = [one for one in self.box.facts().members if one.uuid == str(of.box.uuid)]
        return found[0].upstream if found else None

    def files(self, suffix: str) -> list[str]:
        return [name for name in self._world.disk.listdir(f"/{self.machine.name}") if name.endswith(suffix)]


class ReplicaSet:
    """Some of them. `run` takes the coroutine of a test."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)

    def peer(self, name: str, *masters: str, **options: Any) -> Peer:
        machine = self.simulation.machine(name)
        machine.platter.makedirs(f"/{name}") if hasattr(machine.platter, "makedirs") else None
        replication = [f"{master}:3301" for master in masters]
        return Peer(machine, {"replication": replication, **options})

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        try:
            self.simulation.run(test())
            assert not self.simulation.errors, self.simulation.errors
        finally:
            self.simulation.close()

    async def until(self, condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
        """Virtual seconds."""
        loop = self.simulation.loop
        deadline = loop.now + seconds
        while not condition():
            assert loop.now < deadline, what
            await asyncio.sleep(0.01)

    async def together(self, *peers: Peer) -> None:
        """Start them at one instant."""
        await asyncio.gather(*(peer.start() for peer in peers))

    async def equal(self, *peers: Peer) -> None:
        await self.until(
            lambda: all(one.vclock == peers[0].vclock for one in peers), f"{[one.vclock for one in peers]}"
        )
        assert all(one.keys == peers[0].keys for one in peers)
