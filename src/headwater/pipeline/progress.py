"""Bars for work that takes long: how much is done, how fast it goes, how long it still takes. Where nobody looks at a
terminal, a plain line every few seconds instead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

LINE_SECONDS = 10.0
"""Between two plain lines about the same work."""
_SPEED_SECONDS = 30.0


class Bar:
    """One piece of work. Any thread may move it."""

    def __init__(self, bars: Bars, name: str, unit: str, total: float | None) -> None:
        self.name = name
        self.unit = unit
        self.done = 0.0
        self.total = total
        """None while nobody knows how much there is."""
        self._bars = bars
        self.began = time.monotonic()
        self._marks: list[tuple[float, float]] = [(self.began, 0.0)]

    def advance(self, by: float) -> None:
        self.set(self.done + by)

    def set(self, done: float, total: float | None = None) -> None:
        """How much is done, and of how much in all."""
        self.done = done
        if total is not None:
            self.total = max(total, done)
        now = time.monotonic()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] < now - _SPEED_SECONDS:
            self._marks.pop(0)
        self._bars.moved(self)

    @property
    def rate(self) -> float | None:
        """A second, of late."""
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end - begin) if end > begin else None

    @property
    def left(self) -> float | None:
        """Seconds."""
        if self.total is None or not self.rate:
            return None
        return max(0.0, self.total - self.done) / self.rate

    def text(self) -> str:
        """`snapshot: 120,000 of 1,000,000 rows, 34,000 a second, 26 s left`"""
        parts = [f"{self.name}: {self.done:,.0f}" + (f" of {self.total:,.0f}" if self.total is not None else "")]
        parts[0] += f" {self.unit}"
        if self.rate is not None:
            parts.append(f"{self.rate:,.0f} a second")
        if self.left is not None and self.left >= 1:
            parts.append(f"{span(self.left)} left")
        return ", ".join(parts)


class Bars:
    """All that is at work. Draws on a terminal, otherwise says a line now and then."""

    def __init__(self, *, say: Callable[[str], None] | None = None, file: TextIO | None = None) -> None:
        """`say` takes lines where there is no terminal; without it they are printed to `file`, or standard error."""
        self._console = Console(file=file, stderr=file is None, highlight=False)
        self._say = say or (lambda line: self._console.print(line, soft_wrap=True))
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _Amount(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[int, TaskID] = {}
        self._said: dict[int, float] = {}
        self._lock = threading.Lock()

    @property
    def is_drawn(self) -> bool:
        return bool(self._console.is_terminal)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def add(self, name: str, unit: str = "rows", total: float | None = None) -> Bar:
        bar = Bar(self, name, unit, total)
        with self._lock:
            self._tasks[id(bar)] = self._progress.add_task(name, total=total, bar=bar)
        return bar

    def remove(self, bar: Bar) -> None:
        with self._lock:
            task = self._tasks.pop(id(bar), None)
        if task is not None:
            self._progress.remove_task(task)

    def print(self, line: str) -> None:
        """A line that stays, above the bars."""
        if self.is_drawn:
            self._progress.console.print(line, soft_wrap=True)
        else:
            self._say(line)

    def moved(self, bar: Bar) -> None:
        with self._lock:
            task = self._tasks.get(id(bar))
        if task is None:
            return
        if self.is_drawn:
            self._progress.update(task, completed=bar.done, total=bar.total)
            return
        now = time.monotonic()
        if now - self._said.get(id(bar), bar.began) >= LINE_SECONDS:
            self._said[id(bar)] = now
            self._say(bar.text())


class _Amount(ProgressColumn):
    """Done, rate, time left: what the bar says of itself."""

    def render(self, task: Task) -> Text:
        bar: Bar = task.fields["bar"]
        return Text(bar.text().partition(": ")[2])


def span(seconds: float) -> str:
    """`26 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = round(seconds)
    for unit, size, lower, small in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    return f"{whole} s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.0f} ms"
