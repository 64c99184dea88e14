"""Connections in memory. Bytes take time; order within a connection is kept, as TCP keeps it.

Each direction between two machines is a `Way`: cut or open, slow, narrow, lossy. What a cut way would have carried is
held, as TCP goes on sending it again, and arrives in order some time after the way is open again. A connection that
gets nothing across for `Fabric.patience` is given up by the end that has something to send; the other end does not
know, and learns of it when it sends something itself. A machine without power answers nothing, and does not say
goodbye. The dice split what is written into pieces, as TCP may.

Milder than reality in this: nothing is delivered twice or changed on its way, for TCP hides both.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from itertools import product
from typing import Any
from zlib import crc32

from headwater.env.worker import settle_future
from headwater.sim.process import Crashed, Process
from headwater.world import Link, LinkHandler, Listener

HIGH_MARK = 1 << 20
LOW_MARK = 256 << 10
FIRST_PORT = 30_000
WITHIN = (0.00001, 0.0002)
"""Least and greatest seconds that a packet takes within a machine."""
BETWEEN = (0.0002, 0.002)
"""And between two."""
LEAST = 1e-6
"""Seconds between two packets of one connection."""
PATIENCE = 15.0
"""Seconds without progress after which a connection is given up. A real system waits a quarter of an hour."""
RETRY_MAX = 2.0
"""The longest time until what was held is sent again, after the way is open."""
WINDOW = 64 << 10
"""Bytes that may be sent without hearing that they came."""
SYN_RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between the tries to connect to somebody who does not answer."""
SPLIT = 0.05
"""How often what is written arrives in two pieces."""


def failure(code: int, address: str = "") -> OSError:
    return OSError(code, os.strerror(code), address) if address else OSError(code, os.strerror(code))


@dataclass(slots=True)
class Way:
    """What packets from one machine to another meet."""

    delay: tuple[float, float]
    """Least and greatest seconds."""
    is_cut: bool = False
    loss: float = 0.0
    """How many packets of one are lost. They come later: TCP sends them again."""
    bandwidth: float | None = None
    """Bytes a second; None for no limit."""
    busy_until: float = 0.0
    """When the last byte sent so far has left, if there is a limit."""

    def draw(self, size: int, now: float, dice: random.Random) -> float:
        """When a packet that is sent now arrives."""
        when = now
        if self.bandwidth is not None:
            self.busy_until = max(self.busy_until, now) + size / self.bandwidth
            when = self.busy_until
        retry = 0.2
        while self.loss and dice.random() < self.loss:
            when += retry
            retry *= 2
        return when + dice.uniform(*self.delay)


class Pipe:
    """One direction of one connection."""

    def __init__(self, fabric: Fabric, source: Process, target: Process) -> None:
        self.source = source
        self.target = target
        self.on_given_up: Callable[[], object] = lambda: None
        self.on_told: Callable[[int], object] = lambda size: None
        self._fabric = fabric
        self._way = fabric.way(source.name, target.name)
        self._back = fabric.way(target.name, source.name)
        self._last = 0.0
        """When the last packet sent so far arrives: later ones arrive later."""
        self._held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._untold = 0
        """Bytes that came, of which the sender could not be told."""
        self._timer: asyncio.TimerHandle | None = None
        self._drops = 0
        """How often all that was on its way was thrown away."""

    def send(self, size: int, call: Callable[..., None], *args: Any) -> None:
        """`call` in the target's process, when the packet has come."""
        fabric = self._fabric
        self._last = max(self._last + LEAST, self._way.draw(size, fabric.loop.time(), fabric.dice))
        fabric.at(self._last, self._arrive, self._drops, call, args)

    def _arrive(self, drops: int, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        if drops != self._drops:
            return
        if self._held or self._is_blocked():
            self._held.append((call, args))
            self._wait()
        else:
            self._deliver(call, args)

    def _is_blocked(self) -> bool:
        return self._fabric.is_blocked(self._way, self.target.name) or self._untold > WINDOW

    def _deliver(self, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._fabric.loop.call_soon(guarded, call, args, context=self.target.context())

    def tell(self, size: int) -> None:
        """The target has taken so many bytes."""
        self._untold += size
        if self._fabric.is_blocked(self._back, self.source.name):
            self._wait()
        else:
            self._tell_all()

    def _tell_all(self) -> None:
        size, self._untold = self._untold, 0
        if size:
            self._fabric.loop.call_soon(guarded, self.on_told, (size,), context=self.source.context())

    def _wait(self) -> None:
        """Something does not get across: how long until the sender gives up?"""
        if self._timer is None:
            self._timer = self._fabric.later(self._fabric.patience, self._give_up)

    def _give_up(self) -> None:
        self._fabric.note(self.source.name, f"gives up a connection to {self.target.name}")
        self.drop()
        self._fabric.loop.call_soon(guarded, self.on_given_up, (), context=self.source.context())

    def release(self) -> None:
        """The network has changed. What is held is sent again, some time later."""
        if self._held or self._untold:
            self._fabric.later(self._fabric.dice.uniform(0.0, RETRY_MAX), self._flush)

    def _flush(self) -> None:
        if not self._fabric.is_blocked(self._back, self.source.name):
            self._tell_all()
        while self._held and not self._is_blocked():
            self._deliver(*self._held.popleft())
        if not self._held and not self._untold:
            self._stop_waiting()

    def drop(self) -> None:
        """What is on its way comes never."""
        self._drops += 1
        self._held.clear()
        self._untold = 0
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guarded(call: Callable[..., object], args: tuple[Any, ...]) -> None:
    """A process may die in what it is told."""
    try:
        call(*args)
    except Crashed:
        return


class SimLink:
    """One end of a connection."""

    def __init__(self, fabric: Fabric, process: Process, peer: str, out: Pipe, back: Pipe) -> None:
        self.peer = peer
        self.process = process
        self.out = out
        self.back = back
        self.other: SimLink
        self.is_gone = False
        """Its machine knows no such connection any more: whoever sends something to it is told so."""
        self._fabric = fabric
        self._handler: LinkHandler | None = None
        self._pending = 0
        self._above_high = False
        self._arrived: deque[bytes] = deque()
        """Received while reading was paused."""
        self._paused = False
        out.on_given_up = lambda: self.lost(failure(errno.ETIMEDOUT))
        out.on_told = self._told
        self._forget = process.at_death(self._died)

    def start(self, handler: LinkHandler) -> None:
        self._handler = handler
        handler.opened(self)

    # ---- world.Link

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.process.check()
        if self.is_gone or not data:
            return
        self._pending += len(data)
        self._above_high = self._above_high or self._pending > HIGH_MARK
        data = bytes(data)
        if len(data) > 1 and self._fabric.dice.random() < SPLIT:
            place = self._fabric.dice.randrange(1, len(data))
            self.out.send(place, self.other.arrive, data[:place])
            data = data[place:]
        self.out.send(len(data), self.other.arrive, data)

    @property
    def pending(self) -> int:
        return self._pending

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        while self._arrived and not self._paused and not self.is_gone:
            self._hand_over(self._arrived.popleft())

    def close(self) -> None:
        if not self.is_gone:
            self.out.send(0, self.other.lost, None)
            self._end()
            self._fabric.loop.call_soon(self._say_closed, None, context=self.process.context())

    def abort(self) -> None:
        """What was not taken is thrown away, and the other end is told."""
        if not self.is_gone:
            self.out.drop()
            self.out.send(0, self.other.lost, failure(errno.ECONNRESET))
            self._end()
            self._fabric.loop.call_soon(self._say_closed, None, context=self.process.context())

    # ---- what comes from the other end

    def arrive(self, data: bytes) -> None:
        self._fabric.note(self.process.name, f"gets {len(data)} bytes of {self.peer}, crc {crc32(data):08x}")
        if self.is_gone:
            self.out.send(0, self.other.lost, failure(errno.ECONNRESET))
        elif self._paused or self._arrived:
            self._arrived.append(data)
        else:
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        self.back.tell(len(data))
        if self._handler is not None:
            self._handler.received(data)

    def lost(self, error: BaseException | None) -> None:
        """The other end is gone, or cannot be reached."""
        if not self.is_gone:
            self._end()
            self._say_closed(error)

    def _told(self, size: int) -> None:
        """The other end has that much less to take."""
        self._pending -= size
        if self._above_high and self._pending < LOW_MARK:
            self._above_high = False
            if self.process.alive and not self.is_gone and self._handler is not None:
                self._handler.drained()

    # ---- the end

    def reset(self) -> None:
        """Something on the way ends the connection, and both ends learn of it."""
        for end in (self, self.other):
            end.out.drop()
            error = failure(errno.ECONNRESET)
            self._fabric.loop.call_soon(guarded, end.lost, (error,), context=end.process.context())

    def vanish(self) -> None:
        """The machine has lost its power: nothing more leaves it."""
        self.out.drop()
        self._end()

    def _died(self) -> None:
        """The process is dead; its system closes the connection."""
        if not self.is_gone:
            self.out.send(0, self.other.lost, failure(errno.ECONNRESET))
            self._end()

    def _end(self) -> None:
        self.is_gone = True
        self._forget()
        self._fabric.ended(self)

    def _say_closed(self, error: BaseException | None) -> None:
        if self.process.alive and self._handler is not None:
            guarded(self._handler.closed, (error,))


class SimListener:
    def __init__(self, fabric: Fabric, address: str, process: Process, factory: Callable[[], LinkHandler]) -> None:
        self.address = address
        self.process = process
        self.factory = factory
        self._fabric = fabric

    def close(self) -> None:
        if self._fabric.listeners.get(self.address) is self:
            del self._fabric.listeners[self.address]


class Fabric:
    """What connects the machines of one simulation."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, dice: random.Random, note: Callable[[str, str], object] | None = None
    ) -> None:
        self.loop = loop
        self.dice = dice
        self.note = note or (lambda who, what: None)
        self.patience = PATIENCE
        self.listeners: dict[str, SimListener] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._dark: dict[str, bool] = {}
        """Machines without power."""
        self._links: dict[SimLink, None] = {}
        """One end of every connection that an end of still lives, in the order of their birth."""
        self._next_port = FIRST_PORT
        self._nobody = copy_context()

    # ---- the state of the network

    def way(self, source: str, target: str) -> Way:
        way = self._ways.get((source, target))
        if way is None:
            way = self._ways[source, target] = Way(delay=WITHIN if source == target else BETWEEN)
        return way

    def is_blocked(self, way: Way, target: str) -> bool:
        return way.is_cut or target in self._dark

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one to the other."""
        self.way(source, target).is_cut = True

    def mend(self, source: str, target: str) -> None:
        self.way(source, target).is_cut = False
        self._release()

    def part(self, one: Iterable[str], other: Iterable[str]) -> None:
        """No way between machines of two groups."""
        for here, there in product(one, other):
            self.cut(here, there)
            self.cut(there, here)

    def heal(self) -> None:
        """Every way is open and as quick as it was in the beginning."""
        for (source, target), way in self._ways.items():
            way.is_cut = False
            way.loss = 0.0
            way.bandwidth = None
            way.delay = WITHIN if source == target else BETWEEN
        self._release()

    def reset(self, one: str, other: str) -> int:
        """End every connection between two machines; how many there were."""
        links = [link for link in self._links if {link.process.name, link.other.process.name} == {one, other}]
        for link in links:
            link.reset()
        return len(links)

    def darken(self, machine: str) -> None:
        """It has no power any more."""
        self._dark[machine] = True
        for link in list(self._links):
            for end in (link, link.other):
                if end.process.name == machine and not end.is_gone:
                    end.vanish()

    def lighten(self, machine: str) -> None:
        if self._dark.pop(machine, False):
            self._release()

    def _release(self) -> None:
        for link in list(self._links):
            link.out.release()
            link.back.release()

    # ---- connections

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def at(self, when: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Something of the network itself: it belongs to no process."""
        return self.loop.call_at(when, call, *args, context=self._nobody.copy())

    def later(self, delay: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        return self.at(self.loop.time() + delay, call, *args)

    def join(self, client: Process, listener: SimListener) -> SimLink:
        """A new connection: the client's end of it, which nobody knows yet."""
        there, back = Pipe(self, client, listener.process), Pipe(self, listener.process, client)
        here = SimLink(self, client, listener.address, there, back)
        other = SimLink(self, listener.process, f"{client.name}:{self.free_port()}", back, there)
        here.other, other.other = other, here
        self._links[here] = None
        return here

    def ended(self, link: SimLink) -> None:
        if link.is_gone and link.other.is_gone:
            for end in (link, link.other):
                end.out.drop()
                self._links.pop(end, None)


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
            raise failure(errno.EADDRINUSE, address)
        listener = SimListener(self._fabric, address, self._process, factory)
        self._fabric.listeners[address] = listener
        self._process.at_death(listener.close)
        return listener

    async def connect(self, address: str, handler: LinkHandler) -> Link:
        """Addresses begin with the name of a machine, unless there is a listener to tell where they are."""
        listener = await self._knock(address)
        fabric = self._fabric
        here = fabric.join(self._process, listener)
        there = here.other
        opened: asyncio.Future[None] = fabric.loop.create_future()

        def accept() -> None:
            if not there.is_gone:
                there.start(listener.factory())

        def answered() -> None:
            if not here.is_gone:
                here.start(handler)
                settle_future(opened, None, None)

        # The system answers for a process that is stopped, too.
        there.out.send(0, answered)
        fabric.loop.call_soon(guarded, accept, (), context=listener.process.context())
        try:
            async with asyncio.timeout(fabric.patience):
                await opened
        except TimeoutError:
            here.close()
            raise failure(errno.ETIMEDOUT, address) from None
        except asyncio.CancelledError:
            here.close()
            raise
        return here

    async def _knock(self, address: str) -> SimListener:
        """Until something answers."""
        fabric, me = self._fabric, self._process.name
        self._process.check()
        for wait in (0.0, *SYN_RETRIES):
            await asyncio.sleep(wait)
            machine = self._machine_of(address)
            there, back = fabric.way(me, machine), fabric.way(machine, me)
            await asyncio.sleep(there.draw(0, fabric.loop.time(), fabric.dice) - fabric.loop.time())
            self._process.check()
            if fabric.is_blocked(there, machine) or back.is_cut:
                continue
            listener = fabric.listeners.get(address)
            if listener is not None and listener.process.alive:
                return listener
            await asyncio.sleep(back.draw(0, fabric.loop.time(), fabric.dice) - fabric.loop.time())
            self._process.check()
            raise failure(errno.ECONNREFUSED, address)
        raise failure(errno.ETIMEDOUT, address)

    def _machine_of(self, address: str) -> str:
        listener = self._fabric.listeners.get(address)
        return listener.process.name if listener is not None else address.rpartition(":")[0]
