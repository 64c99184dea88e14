"""Connections in memory. Bytes take time; order within a link is kept, as TCP keeps it.

The seam for more: `Fabric.delay` and `Fabric.reachable` decide for every packet, by the names of the machines.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

from headwater.sim.process import Process
from headwater.world import Link, LinkHandler, Listener

HIGH_MARK = 1 << 20
LOW_MARK = 256 << 10
FIRST_PORT = 30_000


class SimLink:
    """One end of a connection."""

    def __init__(self, fabric: Fabric, process: Process, handler: LinkHandler, peer: str) -> None:
        self.peer = peer
        self.process = process
        self._fabric = fabric
        self._handler = handler
        self._other: SimLink | None = None
        self._pending = 0
        self._above_high = False
        self._arrived: deque[bytes] = deque()
        """Received while reading was paused."""
        self._paused = False
        self._closed = False
        self._last = 0.0
        """When the last byte sent so far arrives: later ones arrive later."""

    def join(self, other: SimLink) -> None:
        self._other, other._other = other, self

    def start(self) -> None:
        self._handler.opened(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.process.check()
        if self._closed or not data:
            return
        self._pending += len(data)
        self._above_high = self._above_high or self._pending > HIGH_MARK
        if self._other is not None:
            self._send(self._other.arrive, bytes(data))

    @property
    def pending(self) -> int:
        return self._pending

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        while self._arrived and not self._paused and not self._closed:
            self._hand_over(self._arrived.popleft())

    def close(self) -> None:
        if not self._closed and self._other is not None:
            self._closed = True
            self._send(self._other.lost, None)
            self._fabric.loop.call_soon(self._say_closed, None)

    def abort(self) -> None:
        self.close()

    def lost(self, error: BaseException | None) -> None:
        """The other end is gone."""
        if not self._closed:
            self._closed = True
            self._say_closed(error)

    def cut(self, error: BaseException) -> None:
        """The network or the peer's death ends the connection, both ways."""
        for end in (self, self._other):
            if end is not None:
                self._fabric.loop.call_soon(end.lost, error)

    def _say_closed(self, error: BaseException | None) -> None:
        if self.process.alive:
            self._handler.closed(error)

    def _send(self, call: Callable[..., None], *args: object) -> None:
        assert self._other is not None
        delay = self._fabric.delay(self.process.name, self._other.process.name)
        self._last = max(self._last + 1e-6, self._fabric.loop.time() + delay)
        self._fabric.loop.call_at(self._last, call, *args)

    def arrive(self, data: bytes) -> None:
        """Bytes of the other end, after their delay."""
        if self._closed or not self.process.alive:
            self._take(len(data))
        elif self._paused or self._arrived:
            self._arrived.append(data)
        else:
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        self._take(len(data))
        self._handler.received(data)

    def _take(self, size: int) -> None:
        if self._other is not None:
            self._other.taken(size)

    def taken(self, size: int) -> None:
        """The other end has that much less to take."""
        self._pending -= size
        if self._above_high and self._pending < LOW_MARK:
            self._above_high = False
            if self.process.alive and not self._closed:
                self._handler.drained()


class SimListener:
    def __init__(self, fabric: Fabric, address: str, process: Process, factory: Callable[[], LinkHandler]) -> None:
        self.address = address
        self.process = process
        self.factory = factory
        self._fabric = fabric

    def close(self) -> None:
        self._fabric.listeners.pop(self.address, None)


class Fabric:
    """What connects the machines of one simulation."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random) -> None:
        self.loop = loop
        self.listeners: dict[str, SimListener] = {}
        self._dice = dice
        self._next_port = FIRST_PORT

    def delay(self, sender: str, receiver: str) -> float:
        return self._dice.expovariate(10_000.0) if sender == receiver else self._dice.uniform(0.0002, 0.002)

    def reachable(self, sender: str, receiver: str) -> bool:
        return True

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port


class SimNet:
    """`world.Net` of one process."""

    def __init__(self, fabric: Fabric, process: Process) -> None:
        self._fabric = fabric
        self._process = process

    async def listen(self, address: str, factory: Callable[[], LinkHandler]) -> Listener:
        self._process.check()
        if address.endswith(":0"):
            address = f"{address[:-2]}:{self._fabric.free_port()}"
        taken = self._fabric.listeners.get(address)
        if taken is not None and taken.process.alive:
            raise OSError(98, "Address already in use", address)
        listener = SimListener(self._fabric, address, self._process, factory)
        self._fabric.listeners[address] = listener
        self._process.at_death(listener.close)
        return listener

    async def connect(self, address: str, handler: LinkHandler) -> Link:
        self._process.check()
        listener = self._fabric.listeners.get(address)
        await asyncio.sleep(self._fabric.delay(self._process.name, address))
        self._process.check()
        if listener is None or not listener.process.alive:
            raise ConnectionRefusedError(111, "Connection refused", address)
        if not self._fabric.reachable(self._process.name, listener.process.name):
            raise TimeoutError(110, "Connection timed out", address)
        return self._connect(listener, handler)

    def _connect(self, listener: SimListener, handler: LinkHandler) -> Link:
        here = SimLink(self._fabric, self._process, handler, listener.address)
        there = SimLink(self._fabric, listener.process, listener.factory(), f"{self._process.name}:0")
        here.join(there)
        broken = ConnectionResetError(104, "Connection reset by peer")
        self._process.at_death(lambda: here.cut(broken))
        listener.process.at_death(lambda: there.cut(broken))
        there.start()
        here.start()
        return here
