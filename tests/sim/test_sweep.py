"""The same short life, ended in every call to the disk, in turn."""

from __future__ import annotations

import pytest

from headwater.journal import Settings, WalMode
from headwater.sim.faults import DieAt
from headwater.sim.process import Crashed
from headwater.sim.storage import DATA, Change, Storage
from headwater.sim.world import Machine, Simulation

KEYS = range(14)


async def life(node: Storage, acked: list[int]) -> None:
    """Writes in several files, of which some are superseded by snapshots, then an orderly end."""
    await node.start()
    for key in KEYS:
        changes = [Change(DATA, key, "y" * 90, key), Change(DATA, 100 + key, "z", key)]
        node.write(changes, lambda error, key=key: acked.append(key) if error is None else None)  # type: ignore[misc]
        await node.world.tasks.sleep(0.5)
        if key in (4, 9):
            await node.checkpointer.make()
    await node.stop()


async def look(node: Storage) -> dict[int, tuple[str, int]]:
    await node.start()
    return node.state()[DATA]


def one(machine: Machine, simulation: Simulation, settings: Settings, call: int, part: float) -> tuple[bool, list[int]]:
    acked: list[int] = []
    world = machine.boot(DieAt(call, part))
    try:
        simulation.run(world.live(life(Storage(world, settings), acked)))
    except Crashed:
        return True, acked
    finally:
        machine.kill()
    return False, acked


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("mode", [WalMode.WRITE, WalMode.FSYNC])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_death_in_every_call(mode: WalMode, power: bool, part: float) -> None:
    call = 0
    died = True
    while died:
        simulation = Simulation(call)
        machine = simulation.machine("node")
        settings = Settings("/data", "/data", mode, wal_max_size=500, checkpoint_count=1)
        died, acked = one(machine, simulation, settings, call, part)
        if power:
            machine.power_cut()
        world = machine.boot()
        state = simulation.run(world.live(look(Storage(world, settings))))
        present = sorted(key for key in state if key < 100)
        assert sorted(key - 100 for key in state if key >= 100) == present, f"half a transaction, call {call}"
        assert present == list(range(len(present))), f"not a prefix, call {call}"
        if mode is WalMode.FSYNC or not power:
            assert set(acked) <= set(present), f"lost, call {call}"
        call += 1
    assert call > 60
