"""The writer thread of a simulated process: a queue in the loop, with delays of its own.

A job runs whole at one moment of virtual time, some time after it was submitted; its completion reaches the loop
later still. So the loop goes on before, between and after, and a crash may fall into either gap.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headwater.env.worker import settle_future
from headwater.sim.process import Crashed, Process

T = TypeVar("T")

SLOWEST = 5.0
"""Seconds that no call takes longer than, however slow the disk is."""

Done = Callable[[Any, BaseException | None], None]


class SimWorker:
    """`world.Worker` without a thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: Process,
        dice: random.Random,
        slowness: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`slowness`: how many times as long as usual everything takes now."""
        self._loop = loop
        self._process = process
        self._dice = dice
        self._slowness = slowness
        self._jobs: deque[tuple[Callable[[], Any], Done]] = deque()
        self._busy = False
        self._closed = False
        self._last = 0.0
        """When the latest completion arrives: the next one may not overtake it."""

    def submit(self, call: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self._process.check()
        if self._closed:
            raise RuntimeError("worker is closed")
        self._jobs.append((call, done))
        if not self._busy:
            self._next()

    def run(self, call: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(call, lambda result, error: settle_future(future, result, error))
        return future

    def close(self) -> None:
        self._closed = True
        while self._jobs and self._process.alive:
            self._perform()

    def _next(self) -> None:
        self._busy = bool(self._jobs)
        if self._busy:
            self._loop.call_later(self._delay(), self._perform_then_next)

    def _perform_then_next(self) -> None:
        if self._process.alive:
            if self._jobs:
                self._perform()
            self._next()

    def _perform(self) -> None:
        call, done = self._jobs.popleft()
        result: Any = None
        error: BaseException | None = None
        try:
            result = call()
        except Crashed:
            return
        except BaseException as raised:  # whatever it is, the one who waits must learn of it
            error = raised
        self._last = max(self._last + 1e-6, self._loop.time() + self._delay())
        self._loop.call_at(self._last, self._complete, done, result, error)

    def _complete(self, done: Done, result: Any, error: BaseException | None) -> None:
        if self._process.alive:
            try:
                done(result, error)
            except Crashed:
                return

    def _delay(self) -> float:
        """Mostly as quick as a page cache, now and then as slow as a disk that thinks."""
        usual = self._dice.expovariate(20_000.0) if self._dice.random() < 0.95 else self._dice.uniform(0.001, 0.2)
        return min(usual * self._slowness(), SLOWEST)
