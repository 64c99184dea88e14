"""An asyncio loop whose time is a number.

Nothing waits: when no callback is ready, time jumps to the next timer. Everything else (tasks, cancellation,
timeouts) is asyncio's own code, so that a fiber means the same here as in the real world. The order of callbacks
and timers follows from the calls that made them alone, so that the same calls give the same order again.

A callback belongs to the process in whose context it was made. While that one is stopped it is parked.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from headwater.sim.process import OWNER

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICK = 1e-7
"""Timers of the same moment, to this many seconds, run in one turn. Coarser than the grain of a float for years."""


DRAIN_TURNS = 100
"""More turns than any fiber takes from its cancellation to its end."""


class StuckError(Exception):
    """Nothing is ready and no timer is set, yet somebody still waits: a lost wake-up in what is simulated."""


def _never() -> float:
    return 0.0


class _NoSelector:
    """Takes the place of the system's poll: instead of sleeping, it moves the loop's time."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise StuckError("every fiber waits and no timer is set")
        self._loop.now += timeout + (self._loop.late() if timeout else 0.0)
        return []


class _Owned(asyncio.Handle):
    """Asks its process first."""

    _context: Context
    _loop: SimLoop

    def _run(self) -> None:
        owner = self._context.get(OWNER)
        if owner is not None and owner.is_stopped:
            owner.park(self)
        else:
            super()._run()

    def go_on(self) -> None:
        self._loop.ready.appendleft(self)


class _Timer(_Owned, asyncio.TimerHandle):
    _scheduled: bool

    def in_heap(self) -> None:
        self._scheduled = True


class SimLoop(asyncio.BaseEventLoop):
    """`asyncio` on virtual time."""

    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.errors: list[str] = []
        """What callbacks raised. Anything here is a bug in what was simulated."""
        self.late: Callable[[], float] = _never
        """Seconds by which the loop comes too late to the next timer, as on a busy processor: whatever falls due
        meanwhile runs in one turn, before the fibers that the first of it wakes."""
        self._selector = _NoSelector(self)
        self._clock_resolution = TICK
        self.set_exception_handler(self._keep_error)

    @property
    def ready(self) -> deque[Any]:
        return self._ready

    def time(self) -> float:
        return self.now

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run one coroutine to its end."""
        asyncio.set_event_loop(self)
        try:
            return self.run_until_complete(main)
        finally:
            asyncio.set_event_loop(None)

    def drain(self) -> None:
        """Let what was cancelled come to its end; time stands still."""
        self._scheduled.clear()
        for _ in range(DRAIN_TURNS):
            if not self._ready:
                return
            self.run(asyncio.sleep(0))

    def _keep_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message', 'error in a callback')}: {error!r}")

    # As BaseEventLoop's own, with other handles.

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Owned(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer.in_heap()
        return timer

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    # What BaseEventLoop asks of a loop that polls the system.

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
