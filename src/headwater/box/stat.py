"""Counters behind `box.stat` and `box.stat.net` (rmean.c, lua/stat.c): totals, and the mean of the last five seconds.

Whoever serves requests counts with `add`; once a second the node calls `tick`. A machine: time comes with the tick.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

WINDOW = 5
"""Seconds that a mean goes back (RMEAN_WINDOW)."""

REQUESTS = (
    "SELECT",
    "INSERT",
    "REPLACE",
    "UPDATE",
    "DELETE",
    "AUTH",
    "EVAL",
    "UPSERT",
    "CALL",
    "EXECUTE",
    "PREPARE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "INSERT_ARROW",
    "ERROR",
)
"""What box.stat() lists in 3.8: requests by type, and errors."""

NET = ("SENT", "RECEIVED", "CONNECTIONS", "REQUESTS", "STREAMS", "REQUESTS_IN_PROGRESS", "REQUESTS_IN_STREAM_QUEUE")
_WITHOUT_CURRENT = ("SENT", "RECEIVED")
"""Bytes have no current number."""


@dataclass(slots=True)
class _Counter:
    total: int = 0
    current: int = 0
    """How many there are now; only for things that come and go."""
    marks: deque[int] = field(default_factory=lambda: deque([0], maxlen=WINDOW))
    """The total at the last ticks, oldest first."""


class Meter:
    """A set of named counters."""

    def __init__(self, names: Iterable[str]) -> None:
        self._counters = {name: _Counter() for name in names}

    def add(self, name: str, count: int = 1) -> None:
        """Something happened `count` times. An unknown name is not counted, as 3.x counts not every request."""
        counter = self._counters.get(name)
        if counter is not None:
            counter.total += count

    def enter(self, name: str) -> None:
        """One more of what comes and goes."""
        counter = self._counters[name]
        counter.total += 1
        counter.current += 1

    def leave(self, name: str) -> None:
        self._counters[name].current -= 1

    def tick(self) -> None:
        """A second is over."""
        for counter in self._counters.values():
            counter.marks.append(counter.total)

    def total(self, name: str) -> int:
        return self._counters[name].total

    def rate(self, name: str) -> int:
        """How many a second, over the last seconds, rounded down."""
        counter = self._counters[name]
        return (counter.total - counter.marks[0]) // len(counter.marks)

    def reset(self) -> None:
        """Totals begin anew; what is there now stays there."""
        for counter in self._counters.values():
            counter.total = 0
            counter.marks = deque([0], maxlen=WINDOW)

    def shown(self, *, current: bool = False) -> dict[str, dict[str, int]]:
        """As box.stat shows them."""
        return {name: self._shown(name, counter, current) for name, counter in self._counters.items()}

    def _shown(self, name: str, counter: _Counter, current: bool) -> dict[str, int]:
        shown = {"rps": self.rate(name), "total": counter.total}
        if current and name not in _WITHOUT_CURRENT:
            shown["current"] = counter.current
        return shown


@dataclass(slots=True)
class Stats:
    """All counters of one node."""

    requests: Meter = field(default_factory=lambda: Meter(REQUESTS))
    net: Meter = field(default_factory=lambda: Meter(NET))
    take_served: Callable[[], tuple[int, int, int, int]] | None = None
    """Gives what the compiled path has served since the last look: SELECT, INSERT, REPLACE, DELETE."""

    def refresh(self) -> None:
        """Count what the compiled path has done."""
        if self.take_served is not None:
            for name, count in zip(("SELECT", "INSERT", "REPLACE", "DELETE"), self.take_served(), strict=True):
                self.requests.add(name, count)

    def tick(self) -> None:
        self.refresh()
        self.requests.tick()
        self.net.tick()

    def reset(self) -> None:
        self.refresh()
        self.requests.reset()
        self.net.reset()
