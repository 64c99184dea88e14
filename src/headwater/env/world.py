"""All of the real world, as a node receives it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from headwater.env.clock import RealChance, RealClock
from headwater.env.disk import RealDisk
from headwater.env.net import RealNet
from headwater.env.tasks import LoopTasks
from headwater.env.worker import ThreadWorker
from headwater.world import Chance, Clock, Disk, Net, Tasks, World

T = TypeVar("T")

SWITCH_INTERVAL = 0.0005
"""Seconds after which a busy loop hands the interpreter to a writer thread that asks for it. Python's 5 ms would
be added to every lone commit beside a busy connection."""


class RealWorld:
    """`world.World` over the running asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._fibers = LoopTasks(loop)
        self.clock: Clock = RealClock()
        self.chance: Chance = RealChance()
        self.tasks: Tasks = self._fibers
        self.disk: Disk = RealDisk()
        self.net: Net = RealNet(loop)
        self._workers: list[ThreadWorker] = []

    def worker(self, name: str) -> ThreadWorker:
        worker = ThreadWorker(self._loop, name)
        self._workers.append(worker)
        return worker

    async def close(self) -> None:
        """End every fiber, wait for them, then let the writers finish."""
        current = asyncio.current_task()
        fibers = [task for task in self._fibers.cancel_all() if task is not current]
        await asyncio.gather(*fibers, return_exceptions=True)
        for worker in self._workers:
            worker.close()


def run(main: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """Run one node's main fiber in the real world until it returns."""

    async def body() -> T:
        world = RealWorld(asyncio.get_running_loop())
        try:
            return await main(world)
        finally:
            await world.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(body())
    finally:
        sys.setswitchinterval(before)
