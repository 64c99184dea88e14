"""Fibers as asyncio tasks.

The simulator uses the same class on its own loop, so that cancellation, timeouts and the order of turns
mean the same in both worlds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("headwater.env")


class LoopEvent:
    """`world.Event` on an asyncio loop."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


class LoopTasks:
    """`world.Tasks` on an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._alive: dict[asyncio.Task[Any], None] = {}
        """Running fibers in the order of their birth. Without a strong reference the loop may forget a task
        in mid-flight; a dict and not a set, so that ending them all has one order."""

    def spawn(self, fiber: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = self.loop.create_task(fiber, name=name)
        self._alive[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._alive.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.failed(task.get_name(), error)

    def failed(self, name: str, error: BaseException) -> None:
        """A fiber ended with an error that nobody caught."""
        log.error("fiber '%s' failed: %s: %s", name, type(error).__name__, error, exc_info=error)

    def soon(self, call: Callable[..., object], *args: object) -> None:
        self.loop.call_soon(call, *args)

    def later(self, delay: float, call: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        return self.loop.call_later(delay, call, *args)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay)

    def event(self) -> LoopEvent:
        return LoopEvent()

    def timeout(self, delay: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(delay)

    def cancel_all(self) -> list[asyncio.Task[Any]]:
        """Cancel every fiber that still runs, oldest first; returns them so that the caller can wait."""
        running = list(self._alive)
        for task in running:
            task.cancel()
        return running
