"""The simulated network: ways that are cut, slow, narrow or lossy; processes that stop; clocks that are wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headwater.sim import Simulation, SimWorld
from headwater.sim.net import PATIENCE, RETRY_MAX
from headwater.world import Link

ADDRESS = "a:3301"


class End:
    """A `LinkHandler` that writes down what it is told, and when."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.link: Link
        self.data = b""
        self.received_at: list[float] = []
        self.errors: list[BaseException | None] = []

    def opened(self, link: Link) -> None:
        self.link = link

    def received(self, data: bytes) -> None:
        self.data += data
        self.received_at.append(self.world.clock.monotonic())

    def drained(self) -> None: ...

    def closed(self, error: BaseException | None) -> None:
        self.errors.append(error)


class Pair:
    """A connection from machine b to machine a."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)
        self.fabric = self.simulation.fabric
        self.a = self.simulation.machine("a").boot()
        self.b = self.simulation.machine("b").boot()
        self.server, self.client = End(self.a), End(self.b)

    async def connect(self) -> None:
        await self.a.net.listen(ADDRESS, lambda: self.server)
        await self.b.net.connect(ADDRESS, self.client)

    def run(self, main: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
        self.simulation.run(main(self))
        assert self.simulation.errors == []


def test_bytes_for_a_cut_way_come_in_order_once_it_is_open() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.fabric.cut("b", "a")
        pair.client.link.write(b"one")
        pair.client.link.write(b"two")
        pair.server.link.write(b"the other way is open")
        await asyncio.sleep(5)
        assert (pair.server.data, pair.client.data) == (b"", b"the other way is open")
        pair.fabric.mend("b", "a")
        await asyncio.sleep(RETRY_MAX + 0.1)
        assert pair.server.data == b"onetwo"
        assert not pair.client.errors

    Pair().run(main)


def test_who_has_something_to_say_gives_up_and_the_other_end_does_not_know() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.fabric.part("a", "b")
        pair.client.link.write(b"anybody there?")
        await asyncio.sleep(PATIENCE + 1)
        assert isinstance(pair.client.errors[0], TimeoutError)
        assert not pair.server.errors
        pair.fabric.heal()
        await asyncio.sleep(60)
        assert not pair.server.errors
        assert pair.server.data == b""
        pair.server.link.write(b"hello")
        await asyncio.sleep(1)
        assert isinstance(pair.server.errors[0], ConnectionResetError)

    Pair().run(main)


def test_one_way_cut_lets_data_through_but_the_sender_cannot_know() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.fabric.cut("a", "b")
        pair.client.link.write(bytes(1000))
        await asyncio.sleep(1)
        assert len(pair.server.data) == 1000
        assert pair.client.link.pending == 1000
        await asyncio.sleep(PATIENCE)
        assert isinstance(pair.client.errors[0], TimeoutError)

    Pair().run(main)


def test_nobody_connects_over_a_cut_and_somebody_who_waits_may() -> None:
    async def main(pair: Pair) -> None:
        await pair.a.net.listen(ADDRESS, lambda: pair.server)
        pair.fabric.cut("a", "b")
        with pytest.raises(TimeoutError):
            async with pair.b.tasks.timeout(3):
                await pair.b.net.connect(ADDRESS, pair.client)
        pair.b.tasks.later(4, pair.fabric.heal)
        await pair.b.net.connect(ADDRESS, pair.client)
        assert 7 < pair.b.clock.monotonic() < 12

    Pair().run(main)


def test_a_reset_ends_both_ends_and_what_was_on_its_way() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.client.link.write(b"lost")
        assert pair.fabric.reset("a", "b") == 1
        await asyncio.sleep(1)
        assert pair.server.data == b""
        assert all(isinstance(end.errors[0], ConnectionResetError) for end in (pair.client, pair.server))

    Pair().run(main)


def test_an_aborted_link_delivers_nothing_more() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.client.link.write(b"too late")
        pair.client.link.abort()
        await asyncio.sleep(1)
        assert pair.server.data == b""
        assert isinstance(pair.server.errors[0], ConnectionResetError)
        assert pair.client.errors == [None]

    Pair().run(main)


def test_a_closed_link_delivers_all_that_was_written() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        for number in range(100):
            pair.client.link.write(b"%d," % number)
        pair.client.link.close()
        await asyncio.sleep(1)
        assert pair.server.data == b"".join(b"%d," % number for number in range(100))
        assert (pair.server.errors, pair.client.errors) == ([None], [None])

    Pair().run(main)


def test_loss_delays_and_reorders_nothing() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.fabric.way("b", "a").loss = 0.3
        for number in range(200):
            pair.client.link.write(b"%d," % number)
        await asyncio.sleep(30)
        assert pair.server.data == b"".join(b"%d," % number for number in range(200))
        assert pair.server.received_at[-1] > 0.2

    Pair().run(main)


def test_bandwidth_is_shared_by_all_connections_of_a_way() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.fabric.way("b", "a").bandwidth = 10_000.0
        other = End(pair.b)
        await pair.b.net.connect(ADDRESS, other)
        began = pair.b.clock.monotonic()
        for _ in range(10):
            pair.client.link.write(bytes(1000))
            other.link.write(bytes(1000))
        await asyncio.sleep(10)
        assert pair.server.received_at[-1] - began == pytest.approx(2.0, abs=0.1)

    Pair().run(main)


def test_a_power_cut_says_no_goodbye_and_a_reboot_answers_with_a_reset() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.a.machine.power_cut()
        await asyncio.sleep(5)
        assert not pair.client.errors
        pair.client.link.write(b"hello?")
        await asyncio.sleep(1)
        assert not pair.client.errors
        pair.a.machine.boot()
        await asyncio.sleep(RETRY_MAX + 0.1)
        assert isinstance(pair.client.errors[0], ConnectionResetError)

    Pair().run(main)


def test_a_stopped_process_does_nothing_and_then_all_of_it() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await pair.a.tasks.sleep(1)
                ticks.append(pair.a.clock.monotonic())

        pair.a.tasks.spawn(tick(), "tick")
        await asyncio.sleep(2.5)
        pair.a.machine.stop()
        pair.client.link.write(b"one")
        second = End(pair.b)
        await pair.b.net.connect(ADDRESS, second)  # its system answers
        await asyncio.sleep(10)
        assert (len(ticks), pair.server.data) == (2, b"")
        pair.a.machine.go_on()
        await asyncio.sleep(2)
        assert pair.server.data == b"one"
        assert ticks[2] == pytest.approx(12.5, abs=0.1)
        assert len(ticks) == 4

    Pair().run(main)


def test_a_stopped_process_may_be_killed() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        pair.a.machine.stop()
        pair.client.link.write(b"never seen")
        await asyncio.sleep(1)
        pair.a.machine.kill()
        await asyncio.sleep(1)
        assert pair.server.data == b""
        assert isinstance(pair.client.errors[0], ConnectionResetError)

    Pair().run(main)


def test_clocks_drift_and_jump() -> None:
    async def main(pair: Pair) -> None:
        begin = pair.a.clock.time()
        pair.a.machine.drift(2.0)
        await pair.a.tasks.sleep(10)
        assert pair.simulation.loop.time() == pytest.approx(5)
        assert pair.a.clock.monotonic() == pytest.approx(10)
        assert pair.b.clock.monotonic() == pytest.approx(5)
        pair.a.machine.jump(-1000)
        assert pair.a.clock.time() == pytest.approx(begin - 990)
        pair.a.machine.drift(1.0)
        with pytest.raises(TimeoutError):
            async with pair.a.tasks.timeout(3):
                await asyncio.sleep(100)
        assert pair.simulation.loop.time() == pytest.approx(8)

    Pair().run(main)


def test_pieces_of_one_write_come_as_one_stream() -> None:
    async def main(pair: Pair) -> None:
        await pair.connect()
        for _ in range(200):
            pair.client.link.write(bytes(100))
        await asyncio.sleep(1)
        assert len(pair.server.data) == 20_000
        assert len(pair.server.received_at) > 200

    Pair().run(main)
