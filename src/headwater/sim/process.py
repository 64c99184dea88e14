"""The life of one simulated process: alive, stopped for a while, then dead at once, in the middle of anything."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Protocol


class Crashed(BaseException):
    """Raised in the code of a process that has just died. Not an Exception: nothing in a node may survive it."""


class Parked(Protocol):
    """A callback of the loop that was due while its process was stopped."""

    def go_on(self) -> object: ...


class Process:
    """One start of one node. What it holds dies with it; the machine and its disk stay."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.is_stopped = False
        """By SIGSTOP: none of its callbacks runs, bytes for it wait."""
        self._parked: list[Parked] = []
        self._at_death: dict[int, Callable[[], object]] = {}
        self._deaths = 0
        self._context = copy_context()
        self._context.run(OWNER.set, self)

    def check(self) -> None:
        """Every door to the world asks this first."""
        if not self.alive:
            raise Crashed(self.name)

    def context(self) -> Context:
        """A new context: callbacks that run in it, and all that they set off, are this process's."""
        return self._context.copy()

    def at_death(self, call: Callable[[], object]) -> Callable[[], None]:
        """Returns what takes it back."""
        self._deaths += 1
        number = self._deaths
        self._at_death[number] = call
        return lambda: self._forget(number)

    def _forget(self, number: int) -> None:
        self._at_death.pop(number, None)

    def stop(self) -> None:
        """SIGSTOP."""
        self.is_stopped = self.alive

    def park(self, call: Parked) -> None:
        self._parked.append(call)

    def go_on(self) -> None:
        """SIGCONT: what was due meanwhile happens now, in its order, and before whatever falls due with this."""
        self.is_stopped = False
        parked, self._parked = self._parked, []
        for call in reversed(parked):
            call.go_on()

    def kill(self) -> None:
        """Stop existing: no completion, timer or finally-block of it has any effect from now on."""
        if not self.alive:
            return
        self.alive = False
        self.go_on()
        calls, self._at_death = self._at_death, {}
        for call in calls.values():
            call()


OWNER: ContextVar[Process | None] = ContextVar("OWNER", default=None)
"""Whose callback runs."""
