"""Storage nodes on simulated machines, for the tests of the journal's room."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from headwater.errors import BoxError
from headwater.journal import Settings, WalMode
from headwater.sim.faults import Die, DiskOp, Fail, Faults
from headwater.sim.storage import DATA, Change, Storage
from headwater.sim.world import Machine, Simulation, SimWorld

T = TypeVar("T")

SETTINGS = Settings(wal_dir="/data", memtx_dir="/data")


class FailOn:
    """Calls that fail: the n-th (from 0) of a name, and of paths that contain `path`; n -1: every one."""

    def __init__(self, name: str, n: int = 0, errno: int = 5, part: int = 0, path: str = "") -> None:
        self.name, self.n, self.errno, self.part, self.path = name, n, errno, part, path
        self.seen = -1
        self.hits = 0

    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        if op.name != self.name or self.path not in op.path:
            return None
        self.seen += 1
        if self.n in (-1, self.seen):
            self.hits += 1
            return Fail(self.errno, min(self.part, op.size))
        return None


class Several:
    def __init__(self, *faults: Faults) -> None:
        self.faults = faults

    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        verdicts = [fault.on_disk(op) for fault in self.faults]
        return next((verdict for verdict in verdicts if verdict is not None), None)


class Bench:
    """One machine, and its node started and stopped at will."""

    def __init__(self, seed: int = 1, capacity: int | None = None, **settings: Any) -> None:
        self.simulation = Simulation(seed)
        self.machine: Machine = self.simulation.machine("node", capacity)
        self.settings = replace(SETTINGS, **settings)

    def live(self, script: Callable[[Storage], Coroutine[Any, Any, T]], faults: Faults | None = None) -> T:
        """Start the node, run the script on it, kill the process."""
        world: SimWorld = self.machine.boot()
        node = Storage(world, self.settings)

        async def life() -> T:
            await node.start()
            world.disk.faults = faults or world.disk.faults  # type: ignore[attr-defined]
            return await script(node)

        try:
            return self.simulation.run(world.live(life()))
        finally:
            self.machine.kill()

    def state(self) -> dict[int, tuple[str, int]]:
        """What a restarted node shows."""

        async def look(node: Storage) -> dict[int, tuple[str, int]]:
            return node.state()[DATA]

        return self.live(look)

    def files(self) -> list[str]:
        return sorted(path.removeprefix("/data/") for path in self.machine.platter.names)

    def data(self, name: str) -> bytearray:
        """The bytes of a file, to be looked at or damaged; then also on the disk."""
        return self.machine.platter.names[f"/data/{name}"].data

    def damage(self, name: str, change: Callable[[bytearray], None]) -> None:
        inode = self.machine.platter.names[f"/data/{name}"]
        change(inode.data)
        inode.pending.clear()
        inode.durable = bytearray(inode.data)


def put(node: Storage, key: int, payload: str = "x", answers: list[BoxError | None] | None = None) -> None:
    """One REPLACE; its answer goes to the list."""
    kept: list[BoxError | None] = answers if answers is not None else []
    node.write([Change(DATA, key, payload, key)], kept.append)


async def write(node: Storage, *keys: int, payload: str = "x") -> None:
    """One transaction per key, each waited for: each becomes a block of its own."""
    for key in keys:
        put(node, key, payload)
        await node.journal.sync()


XLOG = "{:020}.xlog".format
SNAP = "{:020}.snap".format
MODES = [WalMode.WRITE, WalMode.FSYNC]
