"""What happened, in order, as one hash: two runs of a seed are the same run if and only if these are equal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b


class Trace:
    """Every event of a run goes through `add`. The last ones are kept in words, for the reader of a failure."""

    def __init__(self, keep: int = 200) -> None:
        self._hash = blake2b(digest_size=16)
        self.count = 0
        self.last: deque[str] = deque(maxlen=keep)
        self.echo: Callable[[str], object] | None = None
        """Told every event as it happens."""

    def add(self, now: float, who: str, what: str) -> None:
        line = f"{now:.9f} {who} {what}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.count += 1
        self.last.append(line)
        if self.echo is not None:
            self.echo(line)

    def digest(self) -> str:
        return self._hash.hexdigest()
