"""A writer thread. Calls run in it one after another; completions come back to the loop in batches."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("headwater.env")

Job = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class ThreadWorker:
    """`world.Worker` as a thread.

    The loop is woken once for any number of completions that gather before it gets to run (one write to its
    eventfd, not one a job), and a completion never waits for a timer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._finished: deque[tuple[Callable[[Any, BaseException | None], None], Any, BaseException | None]] = deque()
        self._woken = False
        """A wake-up is on its way to the loop. The loop clears it before it looks, the thread sets it after it
        has put, so a completion is never left lying."""
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        if self._closed:
            raise RuntimeError(f"worker {self._thread.name} is closed")
        self._jobs.put((call, done))

    def run(self, call: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(call, lambda result, error: settle_future(future, result, error))
        return future

    def close(self) -> None:
        """Blocks until the thread has finished what was submitted; completions are called as usual, later."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, done = job
            result: Any = None
            error: BaseException | None = None
            try:
                result = call()
            except BaseException as raised:  # whatever it is, the one who waits must learn of it
                error = raised
            self._finished.append((done, result, error))
            del call, done, result, error, job
            if not self._woken:
                self._woken = True
                self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop was closed before its worker: nobody is left to tell
            log.warning("worker '%s' finished a job after its loop was closed", self._thread.name)

    def _deliver(self) -> None:
        self._woken = False
        finished = self._finished
        while finished:
            done, result, error = finished.popleft()
            try:
                done(result, error)
            except Exception as raised:
                log.error("completion in worker '%s' failed", self._thread.name, exc_info=raised)


def settle_future(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Pass a completion on to a future, unless its waiter was cancelled meanwhile."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
