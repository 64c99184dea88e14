"""When the next snapshot by time is due (checkpoint_schedule.c)."""

from __future__ import annotations

import random


class Schedule:
    """Snapshots at `start`, `start + interval`, …; the start is moved by chance, so that the nodes of one machine do
    not all write at once."""

    def __init__(self, dice: random.Random) -> None:
        self.interval = 0.0
        self._start = 0.0
        self._dice = dice

    def configure(self, now: float, interval: float, since_last: float) -> None:
        """A new interval (0: none by time); the last snapshot is so many seconds old."""
        self.interval = interval
        self._start = now + interval - min(since_last, interval)
        if interval > 0:
            self._start += self._dice.random() * interval

    def reset(self, now: float) -> None:
        """A snapshot was asked for by hand or by size: count from now."""
        self._start = now + self.interval

    def timeout(self, now: float) -> float | None:
        """Seconds to the next one; None: never."""
        if self.interval <= 0:
            return None
        if now < self._start:
            return self._start - now
        return self.interval - (now - self._start) % self.interval
