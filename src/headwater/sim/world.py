"""Machines, their processes, and the world that each process receives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
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
    """The clocks of a machine, as wrong as they are."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def time(self) -> float:
        return EPOCH + self._machine.clock_offset + self._machine.uptime()

    def monotonic(self) -> float:
        return self._machine.uptime()


class SimChance:
    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def uuid4(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def token(self, size: int) -> bytes:
        return self.random.randbytes(size)


class SimTasks(LoopTasks):
    """`LoopTasks` that stop mattering when their process dies, and that go by the clock of their machine."""

    def __init__(self, loop: SimLoop, machine: Machine, process: Process, errors: list[str]) -> None:
        super().__init__(loop)
        self._machine = machine
        self._process = process
        self._errors = errors
        process.at_death(self._end_all)

    def _end_all(self) -> None:
        self.cancel_all()

    def spawn(self, fiber: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        if not self._process.alive:
            fiber.close()
            raise Crashed(self._process.name)
        # A task copies the context that it is made in.
        return self._process.context().run(super().spawn, fiber, name)

    def failed(self, name: str, error: BaseException) -> None:
        if self._process.alive and not isinstance(error, Crashed):
            super().failed(name, error)
            self._errors.append(f"{self._process.name}: fiber '{name}': {error!r}")

    def soon(self, call: Callable[..., object], *args: object) -> None:
        self.loop.call_soon(self._call, call, args, context=self._process.context())

    def later(self, delay: float, call: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        context = self._process.context()
        return self.loop.call_later(self._machine.seconds(delay), self._call, call, args, context=context)

    async def sleep(self, delay: float) -> None:
        await super().sleep(self._machine.seconds(delay))

    def timeout(self, delay: float | None) -> AbstractAsyncContextManager[object]:
        return super().timeout(None if delay is None else self._machine.seconds(delay))

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
        self.clock: Clock = SimClock(machine)
        self.chance: Chance = SimChance(f"{simulation.seed}/{self._name}/chance")
        self.tasks: Tasks = SimTasks(simulation.loop, machine, process, simulation.errors)
        self.disk: Disk = SimDisk(machine.platter, process, faults, lambda what: simulation.note(self._name, what))
        self.net: Net = SimNet(simulation.fabric, process)

    def worker(self, name: str) -> SimWorker:
        dice = self._simulation.dice(f"{self._name}/worker/{name}")
        return SimWorker(self._simulation.loop, self.process, dice, lambda: self.machine.disk_slowness)

    async def live(self, fiber: Coroutine[Any, Any, T]) -> T:
        """Run a fiber of this process to its end. Crashed if the process dies first."""
        task = self._simulation.loop.create_task(fiber, context=self.process.context())
        forget = self.process.at_death(task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            self.process.check()
            raise
        finally:
            forget()


class Machine:
    """A computer: a disk that stays, clocks of its own, and at most one process of the node at a time."""

    def __init__(self, simulation: Simulation, name: str, capacity: int | None = None) -> None:
        self.name = name
        self.platter = Platter(capacity)
        self.boots = 0
        self.process: Process | None = None
        self.clock_offset = 0.0
        """By how much the wall clock is wrong. May jump; nothing but timestamps may notice."""
        self.disk_slowness = 1.0
        """How many times as long as usual its disk takes."""
        self._rate = 1.0
        self._reached = (0.0, 0.0)
        """Time of the simulation and of the machine when the rate last changed."""
        self._simulation = simulation

    # ---- clocks

    def uptime(self) -> float:
        """Seconds by the quartz of this machine."""
        since, base = self._reached
        return base + (self._simulation.loop.now - since) * self._rate

    def seconds(self, delay: float) -> float:
        """What the machine takes for so many seconds."""
        return delay / self._rate

    def drift(self, rate: float) -> None:
        """From now on its clocks run so many times as quick as the others."""
        self._reached = (self._simulation.loop.now, self.uptime())
        self._rate = rate
        self._simulation.note(self.name, f"clocks run {rate:g} times as quick")

    def jump(self, offset: float) -> None:
        """Somebody sets the wall clock."""
        self.clock_offset = offset
        self._simulation.note(self.name, f"wall clock is {offset:+g} s wrong")

    def set_clock(self) -> None:
        """The wall clock is right again, and the quartz."""
        if self._rate != 1.0:
            self.drift(1.0)
        self.clock_offset = self._simulation.loop.now - self.uptime()

    # ---- the process

    def boot(self, faults: Faults | None = None) -> SimWorld:
        """Start the process anew; the one before must be dead."""
        assert self.process is None or not self.process.alive
        self.boots += 1
        self.process = Process(self.name)
        self._simulation.note(self.name, f"boot {self.boots}")
        self._simulation.fabric.lighten(self.name)
        return SimWorld(self._simulation, self, self.process, faults)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.alive

    def stop(self) -> None:
        """SIGSTOP: the process does nothing, its connections stay."""
        if self.process is not None and self.process.alive:
            self._simulation.note(self.name, "stopped")
            self.process.stop()

    def go_on(self) -> None:
        """SIGCONT."""
        if self.process is not None and self.process.is_stopped:
            self._simulation.note(self.name, "goes on")
            self.process.go_on()

    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        if self.process is not None:
            self._simulation.note(self.name, "killed")
            self.process.kill()

    def power_cut(self) -> None:
        """The page cache is gone, too, and nobody is told."""
        self._simulation.fabric.darken(self.name)
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
        self.fabric = Fabric(self.loop, self.dice("net"), self.note)
        self._fibers: dict[asyncio.Task[Any], None] = {}
        self._machines: list[Machine] = []

    def dice(self, name: str) -> random.Random:
        """A stream of its own for each purpose: more draws here do not shift the draws there."""
        return random.Random(f"{self.seed}/{name}")

    def note(self, who: str, what: str) -> None:
        self.trace.add(self.loop.now, who, what)

    def machine(self, name: str, capacity: int | None = None) -> Machine:
        machine = Machine(self, name, capacity)
        self._machines.append(machine)
        return machine

    def spawn(self, fiber: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """A fiber of the simulation itself. Whoever waits for it gets its error; otherwise it is kept in `errors`."""
        task = self.loop.create_task(fiber, name=name)
        self._fibers[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._fibers.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(f"fiber '{task.get_name()}': {error!r}")

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(main)

    def close(self) -> None:
        """Everything in it ends here and now, not when it is collected, in the middle of another simulation."""
        for machine in self._machines:
            machine.kill()
        for fiber in list(self._fibers):
            fiber.cancel()
        self.loop.drain()
        self.loop.close()
