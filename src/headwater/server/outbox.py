"""Replies of one connection on their way out, in the order of their requests.

A reply that rests on something not yet written waits, and those behind it wait with it. What is ready leaves in one
write.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from headwater.errors import BoxError
from headwater.world import Link


class Again(Protocol):
    """Who can say what to answer when the journal has failed."""

    def answer_again(self, data: bytes, start: int, end: int, error: BoxError) -> tuple[bytes, bool]:
        """New replies to the packets of data[start:end], and whether they wait for the journal again."""

    def settle(self, waiter: Waiting) -> None: ...


class Waiting:
    """Some replies that wait for the journal. It is called with what became of it, and is its own waiter, so that no
    request costs a closure."""

    __slots__ = ("_again", "_data", "_end", "_outbox", "_start", "is_ready", "replies")

    def __init__(self, outbox: Outbox, again: Again, replies: bytes, data: bytes, start: int, end: int) -> None:
        self.replies = replies
        self.is_ready = False
        self._outbox = outbox
        self._again = again
        self._data = data
        self._start = start
        self._end = end

    def __call__(self, error: BoxError | None) -> None:
        if error is not None:
            before = len(self.replies)
            self.replies, waits = self._again.answer_again(self._data, self._start, self._end, error)
            self._outbox.size += len(self.replies) - before
            if waits:
                self._again.settle(self)
                return
        self.is_ready = True
        self._outbox.flush()


class Outbox:
    """`link` is None when nobody can receive anything: before the connection is there, and after it is gone."""

    __slots__ = ("_is_closing", "_is_held", "_queue", "link", "sent", "size")

    def __init__(self) -> None:
        self.link: Link | None = None
        self.size = 0
        """Bytes that have not left."""
        self.sent = 0
        """Bytes that have, since somebody set it to 0."""
        self._queue: deque[bytes | Waiting] | None = None
        self._is_held = False
        self._is_closing = False

    def __bool__(self) -> bool:
        return bool(self._queue)

    def hold(self) -> None:
        """More comes in this turn: `flush` does nothing until `release`."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        if self._is_closing and not self._queue:
            self.close()
        else:
            self.flush()

    def add(self, reply: bytes | Waiting) -> None:
        """A reply behind the others; `flush` lets it go."""
        if self._queue is None:
            self._queue = deque()
        self._queue.append(reply)
        self.size += len(reply) if isinstance(reply, bytes) else len(reply.replies)

    def put(self, reply: bytes) -> None:
        """A reply that waits for nothing but those before it."""
        self.add(reply)
        self.flush()

    def flush(self) -> None:
        queue = self._queue
        if not queue or self._is_held:
            return
        out: list[bytes] = []
        while queue:
            first = queue[0]
            if isinstance(first, Waiting):
                if not first.is_ready:
                    break
                out.append(first.replies)
            else:
                out.append(first)
            queue.popleft()
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            self.size -= len(data)
            self.send(data)
        if self._is_closing and not queue:
            self.close()

    def send(self, data: bytes) -> None:
        """Past the queue; only when it is empty."""
        if self.link is not None:
            self.sent += len(data)
            self.link.write(data)

    def close(self) -> None:
        """Close the connection once everything has left."""
        self._is_closing = True
        if not self._queue and not self._is_held and self.link is not None:
            self.link.close()

    def drop(self) -> None:
        """The connection is gone."""
        self.link = None
        self._queue = None
        self.size = 0
