"""The writer thread: order, errors, and how often it wakes the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from headwater.env.worker import ThreadWorker


class CountingLoop:
    """A loop that counts how often a thread wakes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.woken = 0

    def call_soon_threadsafe(self, call: Callable[..., Any]) -> None:
        self.woken += 1
        self._loop.call_soon_threadsafe(call)

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()


def run(main: Callable[[CountingLoop], Any]) -> Any:
    async def body() -> Any:
        return await main(CountingLoop(asyncio.get_running_loop()))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(body())


def test_completions_come_in_the_order_of_submits() -> None:
    async def main(loop: CountingLoop) -> list[int | None]:
        worker = ThreadWorker(loop, "test")  # type: ignore[arg-type]
        seen: list[int | None] = []
        for number in range(200):
            worker.submit(lambda number=number: number, lambda result, error: seen.append(result))
        await worker.run(lambda: None)
        worker.close()
        return seen

    assert run(main) == list(range(200))


def test_loop_is_woken_once_for_completions_that_gather_while_it_is_busy() -> None:
    async def main(loop: CountingLoop) -> tuple[int, int]:
        worker = ThreadWorker(loop, "test")  # type: ignore[arg-type]
        finished = threading.Event()
        seen: list[None] = []
        for _ in range(50):
            worker.submit(lambda: None, lambda result, error: seen.append(result))
        worker.submit(finished.set, lambda result, error: seen.append(None))
        finished.wait()  # the loop is busy here, as far as the worker can tell
        worker.close()
        before = loop.woken
        await asyncio.sleep(0)
        while len(seen) < 51:
            await asyncio.sleep(0)
        return before, loop.woken

    assert run(main) == (1, 1)


def test_error_of_a_job_reaches_its_waiter_and_the_next_job_runs() -> None:
    async def main(loop: CountingLoop) -> str:
        worker = ThreadWorker(loop, "test")  # type: ignore[arg-type]

        def fail() -> None:
            raise OSError(28, "full")

        with pytest.raises(OSError, match="full"):
            await worker.run(fail)
        try:
            return await worker.run(lambda: "alive")
        finally:
            worker.close()

    assert run(main) == "alive"


def test_close_finishes_what_was_submitted() -> None:
    async def main(loop: CountingLoop) -> list[int]:
        worker = ThreadWorker(loop, "test")  # type: ignore[arg-type]
        done: list[int] = []
        for number in range(20):
            worker.submit(lambda number=number: done.append(number), lambda result, error: None)
        worker.close()
        with pytest.raises(RuntimeError, match="closed"):
            worker.submit(lambda: None, lambda result, error: None)
        return done

    assert run(main) == list(range(20))


def test_completion_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: CountingLoop) -> list[str]:
        worker = ThreadWorker(loop, "test")  # type: ignore[arg-type]
        seen: list[str] = []

        def broken(result: object, error: BaseException | None) -> None:
            raise ValueError("oops")

        worker.submit(lambda: None, broken)
        worker.submit(lambda: None, lambda result, error: seen.append("next"))
        await worker.run(lambda: None)
        worker.close()
        return seen

    assert run(main) == ["next"]
    assert "completion in worker 'test' failed" in caplog.text
