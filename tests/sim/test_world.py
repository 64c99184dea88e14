"""The simulated loop, worker and network: virtual time, one order, sudden death."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.sim import Simulation, SimWorld
from headwater.sim.loop import StuckError
from headwater.sim.process import Crashed
from headwater.world import Link


def test_time_jumps_instead_of_passing() -> None:
    simulation = Simulation(1)
    world = simulation.machine("a").boot()

    async def main() -> float:
        await world.tasks.sleep(3600 * 24 * 365)
        return world.clock.monotonic()

    assert simulation.run(main()) == pytest.approx(3600 * 24 * 365)


def test_busy_loop_does_what_fell_due_meanwhile_in_one_turn() -> None:
    """Before the fibers that the first of it wakes."""

    def story(lateness: float) -> str:
        simulation, told = Simulation(1), ""
        simulation.loop.late = lambda: lateness

        def fall_due() -> None:
            nonlocal told
            told += "event "
            event.set()

        async def fiber() -> None:
            nonlocal told
            while told.count("event") < 2:
                await event.wait()
                event.clear()
                told += "fiber "

        event = asyncio.Event()
        for delay in (1.0, 1.005):
            simulation.loop.call_later(delay, fall_due)
        simulation.run(fiber())
        simulation.close()
        return told

    assert story(0.0) == "event fiber event fiber "
    assert story(0.01) == "event event fiber "


def test_what_was_due_while_a_process_was_stopped_comes_first() -> None:
    """Also before what falls due in the turn in which it goes on."""
    simulation, told = Simulation(1), ""

    def tell(word: str) -> None:
        nonlocal told
        told += word

    machine = simulation.machine("m")
    tasks = machine.boot().tasks
    machine.stop()
    for delay, word in ((1.0, "a"), (2.0, "b"), (3.005, "c")):
        tasks.later(delay, tell, word)
    simulation.loop.call_later(3.0, machine.go_on)
    simulation.loop.late = lambda: 0.01
    simulation.run(asyncio.sleep(4.0))
    simulation.close()
    assert told == "abc"


def test_timeout_is_virtual_too() -> None:
    simulation = Simulation(1)
    world = simulation.machine("a").boot()

    async def main() -> None:
        async with world.tasks.timeout(60):
            await world.tasks.event().wait()

    with pytest.raises(TimeoutError):
        simulation.run(main())
    assert world.clock.monotonic() == pytest.approx(60)


def test_lost_wake_up_is_told_and_not_waited_for() -> None:
    simulation = Simulation(1)
    world = simulation.machine("a").boot()
    with pytest.raises(StuckError):
        simulation.run(world.tasks.event().wait())  # type: ignore[arg-type]


def test_worker_keeps_order_and_takes_time() -> None:
    simulation = Simulation(3)
    world = simulation.machine("a").boot()
    seen: list[object] = []

    async def main() -> None:
        worker = world.worker("wal")
        for number in range(50):
            worker.submit(lambda number=number: number, lambda result, error: seen.append(result))
        assert seen == []
        await worker.run(lambda: None)

    simulation.run(main())
    assert seen == list(range(50))
    assert world.clock.monotonic() > 0


def test_death_in_the_worker_stops_fibers_and_completions() -> None:
    simulation = Simulation(3)
    machine = simulation.machine("a")
    world = machine.boot()
    seen: list[str] = []

    def die() -> None:
        world.process.kill()
        raise Crashed("a")

    async def fiber() -> None:
        try:
            await world.tasks.event().wait()
        finally:
            with pytest.raises(Crashed):
                world.disk.listdir("/")
            seen.append("had no effect")

    async def main() -> None:
        world.tasks.spawn(fiber(), "fiber")
        worker = world.worker("wal")
        worker.submit(die, lambda result, error: seen.append("completed"))
        worker.submit(lambda: seen.append("ran"), lambda result, error: seen.append("completed"))
        world.tasks.later(10, seen.append, "timer")
        await asyncio.sleep(60)

    simulation.run(main())
    assert seen == ["had no effect"]
    assert simulation.errors == []


class Echo:
    def __init__(self) -> None:
        self.data = b""
        self.error: BaseException | None = None
        self.closed_times = 0
        self.drains = 0
        self.link: Link | None = None

    def opened(self, link: Link) -> None:
        self.link = link

    def received(self, data: bytes) -> None:
        self.data += data

    def drained(self) -> None:
        self.drains += 1

    def closed(self, error: BaseException | None) -> None:
        self.error = error
        self.closed_times += 1


def two(seed: int) -> tuple[Simulation, SimWorld, SimWorld]:
    simulation = Simulation(seed)
    return simulation, simulation.machine("a").boot(), simulation.machine("b").boot()


def test_link_keeps_order_and_pauses() -> None:
    simulation, a, b = two(5)
    server, client = Echo(), Echo()

    async def main() -> None:
        listener = await a.net.listen("a:0", lambda: server)
        link = await b.net.connect(listener.address, client)
        assert server.link is not None
        for number in range(100):
            link.write(b"%d," % number)
        await b.tasks.sleep(1)
        assert server.data == b"".join(b"%d," % number for number in range(100))
        server.link.pause_reading()
        for _ in range(3):
            link.write(bytes(1 << 20))
        await b.tasks.sleep(1)
        assert link.pending == 3 << 20
        assert client.drains == 0
        server.link.resume_reading()
        await b.tasks.sleep(0.1)
        assert link.pending == 0
        assert client.drains == 1
        link.close()
        await b.tasks.sleep(1)
        assert (server.closed_times, client.closed_times) == (1, 1)
        with pytest.raises(ConnectionRefusedError):
            await b.net.connect("a:1", client)

    simulation.run(main())


def test_death_of_a_machine_resets_its_links() -> None:
    simulation, a, b = two(5)
    server, client = Echo(), Echo()

    async def main() -> None:
        listener = await a.net.listen("a:3301", lambda: server)
        await b.net.connect(listener.address, client)
        a.machine.kill()
        await b.tasks.sleep(1)
        assert isinstance(client.error, ConnectionResetError)
        assert server.closed_times == 0
        with pytest.raises(ConnectionRefusedError):
            await b.net.connect(listener.address, client)

    simulation.run(main())


SCENARIO = """
import sys
from headwater.sim import Simulation
from headwater.sim.faults import FaultPlan
from headwater.sim.process import Crashed

def trace(seed):
    simulation = Simulation(seed)
    machine = simulation.machine("a")

    async def life(world):
        world.disk.makedirs("/d")
        worker = world.worker("wal")
        for number in range(40):
            def job(number=number):
                file = world.disk.create(f"/d/{number}")
                file.append(world.chance.token(100))
                if number % 3:
                    file.sync()
                file.close()
                world.disk.rename(f"/d/{number}", f"/d/file-{number}")
            await worker.run(job)
            simulation.note("fiber", f"{world.chance.uuid4()} {world.clock.time():.6f} {hash(number)}")

    async def main():
        for _ in range(5):
            world = machine.boot(FaultPlan(simulation.dice("faults"), die=0.02))
            try:
                await world.live(life(world))
            except (Crashed, FileExistsError) as error:
                simulation.note("main", type(error).__name__)
            machine.power_cut()
            simulation.note("disk", repr({path: bytes(inode.data) for path, inode in machine.platter.names.items()}))

    simulation.run(main())
    return simulation.trace.digest()

print(trace(int(sys.argv[1])))
"""


def digest_in_another_process(seed: int, hash_seed: str) -> str:
    src = Path(__file__).parents[2] / "src"
    ran = subprocess.run(
        [sys.executable, "-c", SCENARIO, str(seed)],
        env={"PYTHONPATH": str(src), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_one_seed_is_one_run_in_any_process() -> None:
    digests = {digest_in_another_process(11, hash_seed) for hash_seed in ("0", "1", "random")}
    assert len(digests) == 1
    assert digest_in_another_process(12, "0") not in digests
