"""Machines, their processes, and the world that each process receives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from headwater.env.tasks import LoopTasks
from headwater.sim.disk import Platter, SimDisk
from headwater.sim.faults import Faults
from headwater.sim.loop import SimLoop
from headwater.sim.net import Fabric, SimNet
from headwater.sim.process import Crashed, Process
from headwater.sim.trace import Trace
from headwater.sim.worker import SimWorker
from headwater.world import Chance, Clock, Disk, Net, Tasks

T = TypeVar("T")

EPOCH = 1_700_000_000.0
"""Wall-clock time at which every simulation begins."""


class SimClock:
    def __init__(self, loop: SimLoop, offset: float = 0.0) -> None:
        self._loop = loop
        self.offset = offset
        """By how much this machine's wall clock is wrong. May jump; nothing but timestamps may notice."""

    def time(self) -> float:
        return EPOCH + self.offset + self._loop.now

    def monotonic(self) -> float:
        return self._loop.now


class SimChance:
    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def uuid4(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def token(self, size: int) -> bytes:
        return self.random.randbytes(size)


class SimTasks(LoopTasks):
    """`LoopTasks` that stop mattering when their process dies."""

    def __init__(self, loop: SimLoop, process: Process, errors: list[str]) -> None:
        super().__init__(loop)
        self._process = process
        self._errors = errors
        process.at_death(self._end_all)

    def _end_all(self) -> None:
        self.cancel_all()

    def spawn(self, fiber: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        if not self._process.alive:
            fiber.close()
            raise Crashed(self._process.name)
        return super().spawn(fiber, name)

    def failed(self, name: str, error: BaseException) -> None:
        if self._process.alive and not isinstance(error, Crashed):
            super().failed(name, error)
            self._errors.append(f"fiber '{name}': {error!r}")

    def soon(self, call: Callable[..., object], *args: object) -> None:
        self.loop.call_soon(self._call, call, args)

    def later(self, delay: float, call: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        return self.loop.call_later(delay, self._call, call, args)

    def _call(self, call: Callable[..., object], args: tuple[object, ...]) -> None:
        if self._process.alive:
            try:
                call(*args)
            except Crashed:
                return


class SimWorld:
    """`world.World` of one process."""

    def __init__(self, simulation: Simulation, machine: Machine, process: Process, faults: Faults | None) -> None:
        self.process = process
        self.machine = machine
        self._simulation = simulation
        self._name = f"{machine.name}/{machine.boots}"
        self.clock: Clock = SimClock(simulation.loop)
        self.chance: Chance = SimChance(f"{simulation.seed}/{self._name}/chance")
        self.tasks: Tasks = SimTasks(simulation.loop, process, simulation.errors)
        self.disk: Disk = SimDisk(machine.platter, process, faults, lambda what: simulation.note(self._name, what))
        self.net: Net = SimNet(simulation.fabric, process)

    def worker(self, name: str) -> SimWorker:
        return SimWorker(self._simulation.loop, self.process, self._simulation.dice(f"{self._name}/worker/{name}"))

    async def live(self, fiber: Coroutine[Any, Any, T]) -> T:
        """Run a fiber of this process to its end. Crashed if the process dies first."""
        task = self._simulation.loop.create_task(fiber)
        self.process.at_death(task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            self.process.check()
            raise


class Machine:
    """A computer: a disk that stays, and at most one process of the node at a time."""

    def __init__(self, simulation: Simulation, name: str, capacity: int | None = None) -> None:
        self.name = name
        self.platter = Platter(capacity)
        self.boots = 0
        self.process: Process | None = None
        self._simulation = simulation

    def boot(self, faults: Faults | None = None) -> SimWorld:
        """Start the process anew; the one before must be dead."""
        assert self.process is None or not self.process.alive
        self.boots += 1
        self.process = Process(self.name)
        self._simulation.note(self.name, f"boot {self.boots}")
        return SimWorld(self._simulation, self, self.process, faults)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.alive

    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        if self.process is not None:
            self._simulation.note(self.name, "killed")
            self.process.kill()

    def power_cut(self) -> None:
        """The page cache is gone, too."""
        self.kill()
        self._simulation.note(self.name, "power cut")
        self.platter.power_cut(self._simulation.dice(f"{self.name}/{self.boots}/power"))


class Simulation:
    """One seed: time, dice, trace, and the machines in it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.trace = Trace()
        self.errors = self.loop.errors
        self.fabric = Fabric(self.loop, self.dice("net"))

    def dice(self, name: str) -> random.Random:
        """A stream of its own for each purpose: more draws here do not shift the draws there."""
        return random.Random(f"{self.seed}/{name}")

    def note(self, who: str, what: str) -> None:
        self.trace.add(self.loop.now, who, what)

    def machine(self, name: str, capacity: int | None = None) -> Machine:
        return Machine(self, name, capacity)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(main)

    def close(self) -> None:
        self.loop.close()
