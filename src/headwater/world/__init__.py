"""What a fiber may ask of the world around a node.

Fibers touch clocks, sockets, files, threads and chance only through these protocols. There are two
worlds: `headwater.env` (asyncio, real sockets and files, a writer thread) and `headwater.sim`
(virtual time, a disk that tears, one process, one seed). Nothing in a node may reach around them;
a run in the simulator is replayed from its seed only as long as that holds.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")


class Clock(Protocol):
    """Two clocks: one that people read and that may jump, one that only goes forward."""

    def time(self) -> float:
        """Seconds since the epoch. Goes into rows; never decides a timeout."""

    def monotonic(self) -> float:
        """Seconds since some moment. Decides every timeout."""


class Chance(Protocol):
    """The only source of dice."""

    random: random.Random

    def uuid4(self) -> UUID: ...

    def token(self, size: int) -> bytes:
        """Bytes that a peer cannot guess (salts)."""


class Task(Protocol):
    def cancel(self) -> object: ...

    def done(self) -> bool: ...

    def __await__(self) -> Any: ...


class Event(Protocol):
    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    async def wait(self) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Tasks(Protocol):
    """Fibers of one node, and how they wait."""

    def spawn(self, fiber: Coroutine[Any, Any, T], name: str) -> Task:
        """Start a fiber. An exception that leaves it is logged with its name, never lost."""

    def soon(self, call: Callable[..., object], *args: object) -> None:
        """Run a plain call in the next turn of the loop, in the order of the calls to `soon`."""

    def later(self, delay: float, call: Callable[..., object], *args: object) -> Timer: ...

    async def sleep(self, delay: float) -> None: ...

    def event(self) -> Event: ...

    def timeout(self, delay: float | None) -> AbstractAsyncContextManager[object]:
        """`async with tasks.timeout(5): ...` raises TimeoutError when the time is over."""


class Worker(Protocol):
    """One thread that runs blocking calls one after another, in order, without the loop."""

    def submit(self, call: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run `call` in the worker, then `done(result, error)` in the loop. Both keep the order of submits."""

    def run(self, call: Callable[[], T]) -> Awaitable[T]: ...

    def close(self) -> None:
        """Finish what was submitted, then stop."""


class File(Protocol):
    """An open file. All calls block; a node makes them from a Worker or during recovery."""

    path: str

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` at the end, or raise OSError. After an error the file may hold a part of it:
        the caller truncates to the last good size before it writes again."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def sync(self) -> None:
        """What was appended survives a power cut once this returns (fdatasync)."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are plain strings. Every call may raise OSError with a true errno."""

    def open(self, path: str) -> File:
        """For reading. FileNotFoundError if absent."""

    def create(self, path: str, *, sync: bool = False, exclusive: bool = True) -> File:
        """A new file for appending. `sync`: every append is durable when it returns (O_SYNC).
        FileExistsError if it exists and `exclusive`; otherwise it is emptied."""

    def reopen(self, path: str, *, sync: bool = False) -> File:
        """An existing file for appending and reading."""

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def listdir(self, path: str) -> list[str]:
        """Names, sorted."""

    def exists(self, path: str) -> bool: ...

    def makedirs(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Names created, renamed and removed in the directory survive a power cut once this returns."""

    def lock(self, path: str) -> Callable[[], None]:
        """Take a lock that no other process can hold at the same time and that dies with the process.
        BlockingIOError if taken. Returns its release."""

    def free(self, path: str) -> int:
        """Bytes that may still be written to the file system that holds `path`."""


class Link(Protocol):
    """One connected byte stream."""

    peer: str

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue bytes. Never blocks; a writer watches `pending`."""

    @property
    def pending(self) -> int:
        """Bytes queued that the peer has not taken yet."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Send what is queued, then close."""

    def abort(self) -> None: ...


class LinkHandler(Protocol):
    """Whom a link tells what happens. All calls come from the loop."""

    def opened(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None: ...

    def drained(self) -> None:
        """`pending` has fallen below the low mark after it was above the high one."""

    def closed(self, error: BaseException | None) -> None: ...


class Listener(Protocol):
    address: str
    """host:port with the port really taken (port 0 asks the system for one), or unix/:path."""

    def close(self) -> None: ...


class Net(Protocol):
    async def listen(self, address: str, factory: Callable[[], LinkHandler]) -> Listener: ...

    async def connect(self, address: str, handler: LinkHandler) -> Link: ...


class World(Protocol):
    """All of it, as a node receives it."""

    clock: Clock
    chance: Chance
    tasks: Tasks
    disk: Disk
    net: Net

    def worker(self, name: str) -> Worker:
        """A new worker thread (in the simulator: a queue in the loop)."""
