"""The life of one simulated process: alive, then dead at once, in the middle of anything."""

from __future__ import annotations

from collections.abc import Callable


class Crashed(BaseException):
    """Raised in the code of a process that has just died. Not an Exception: nothing in a node may survive it."""


class Process:
    """One start of one node. What it holds dies with it; the machine and its disk stay."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self._at_death: list[Callable[[], object]] = []

    def check(self) -> None:
        """Every door to the world asks this first."""
        if not self.alive:
            raise Crashed(self.name)

    def at_death(self, call: Callable[[], object]) -> None:
        self._at_death.append(call)

    def kill(self) -> None:
        """Stop existing: no completion, timer or finally-block of it has any effect from now on."""
        if not self.alive:
            return
        self.alive = False
        for call in self._at_death:
            call()
