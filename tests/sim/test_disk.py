"""The disk that forgets: what a crash keeps, what a power cut keeps."""

from __future__ import annotations

import errno
import random

import pytest

from headwater.sim import Machine, Simulation, SimWorld
from headwater.sim.disk import SECTOR
from headwater.sim.faults import Die, DieAt, DiskOp, Fail
from headwater.sim.process import Crashed


def machine(seed: int = 1, capacity: int | None = None) -> Machine:
    return Simulation(seed).machine("a", capacity)


def with_dir(where: Machine) -> SimWorld:
    world = where.boot()
    world.disk.makedirs("/d")
    return world


def make(world: SimWorld, path: str, data: bytes, *, sync: bool = False) -> None:
    file = world.disk.create(path)
    file.append(data)
    if sync:
        file.sync()
    file.close()


def read(world: SimWorld, path: str) -> bytes:
    file = world.disk.open(path)
    return file.read_at(0, file.size())


def test_killed_process_loses_nothing_it_wrote() -> None:
    a = machine()
    make(with_dir(a), "/d/x", b"hello")
    a.kill()
    assert read(a.boot(), "/d/x") == b"hello"


def test_dead_process_reaches_nothing() -> None:
    a = machine()
    world = with_dir(a)
    file = world.disk.create("/d/x")
    a.kill()
    for call in (lambda: file.append(b"x"), file.sync, lambda: world.disk.listdir("/d"), lambda: file.read_at(0, 1)):
        with pytest.raises(Crashed):
            call()
    assert read(a.boot(), "/d/x") == b""


def test_synced_file_with_synced_name_survives_a_power_cut() -> None:
    for seed in range(50):
        a = machine(seed)
        world = with_dir(a)
        make(world, "/d/x", b"hello", sync=True)
        world.disk.sync_dir("/d")
        a.power_cut()
        assert read(a.boot(), "/d/x") == b"hello"


def test_unsynced_name_may_vanish_and_may_stay() -> None:
    seen = set()
    for seed in range(50):
        a = machine(seed)
        make(with_dir(a), "/d/x", b"hello", sync=True)
        a.power_cut()
        seen.add(tuple(a.boot().disk.listdir("/d")))
    assert seen == {(), ("x",)}


def test_unsynced_rename_is_one_step() -> None:
    seen = set()
    for seed in range(50):
        a = machine(seed)
        world = with_dir(a)
        make(world, "/d/old", b"1", sync=True)
        world.disk.sync_dir("/d")
        world.disk.rename("/d/old", "/d/new")
        a.power_cut()
        seen.add(tuple(a.boot().disk.listdir("/d")))
    assert seen == {("old",), ("new",)}


def test_unsynced_bytes_survive_in_every_shape() -> None:
    """None, all, a prefix, and later sectors without earlier ones; what was synced before is always whole."""
    head, tail = b"h" * 700, bytes(range(1, 251)) * 8
    shapes = set()
    for seed in range(300):
        a = machine(seed)
        world = with_dir(a)
        file = world.disk.create("/d/x")
        file.append(head)
        file.sync()
        world.disk.sync_dir("/d")
        file.append(tail[:900])
        file.append(tail[900:])
        a.power_cut()
        kept = read(a.boot(), "/d/x")
        assert kept[: len(head)] == head
        rest = kept[len(head) :]
        if rest == b"":
            shapes.add("none")
        elif rest == tail:
            shapes.add("all")
        elif tail.startswith(rest):
            shapes.add("prefix")
        else:
            assert all(byte in (0, tail[place]) for place, byte in enumerate(rest))
            shapes.add("holes")
    assert shapes == {"none", "all", "prefix", "holes"}


def test_synced_open_makes_every_append_durable() -> None:
    for seed in range(30):
        a = machine(seed)
        world = with_dir(a)
        file = world.disk.create("/d/x", sync=True)
        world.disk.sync_dir("/d")
        file.append(b"x" * 2000)
        a.power_cut()
        assert read(a.boot(), "/d/x") == b"x" * 2000


def test_failed_sync_loses_its_bytes_for_good() -> None:
    class FailFirstSync:
        failed = False

        def on_disk(self, op: DiskOp) -> Fail | Die | None:
            if op.name == "sync" and not self.failed:
                self.failed = True
                return Fail(errno.EIO)
            return None

    a = machine()
    world = a.boot(FailFirstSync())
    world.disk.makedirs("/d")
    file = world.disk.create("/d/x")
    world.disk.sync_dir("/d")
    file.append(b"a" * SECTOR)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.append(b"b" * SECTOR)
    file.sync()
    assert read(world, "/d/x") == b"a" * SECTOR + b"b" * SECTOR
    a.power_cut()
    assert read(a.boot(), "/d/x") == bytes(SECTOR) + b"b" * SECTOR


def test_full_disk_takes_what_fits() -> None:
    a = machine(capacity=1000)
    world = with_dir(a)
    file = world.disk.create("/d/x")
    with pytest.raises(OSError, match="No space"):
        file.append(b"x" * 1500)
    assert file.size() == 1000
    with pytest.raises(OSError, match="No space"):
        world.disk.create("/d/y")
    world.disk.unlink("/d/x")
    make(world, "/d/y", b"y" * 1000)


def test_crash_in_an_append_leaves_a_part() -> None:
    a = machine()
    with_dir(a)
    a.kill()
    world = a.boot(DieAt(1, part=0.25))
    file = world.disk.create("/d/x")
    with pytest.raises(Crashed):
        file.append(b"x" * 100)
    assert not world.process.alive
    assert read(a.boot(), "/d/x") == b"x" * 25


def test_lock_dies_with_its_process() -> None:
    a = machine()
    world = with_dir(a)
    world.disk.lock("/d")
    with pytest.raises(BlockingIOError):
        world.disk.lock("/d")
    a.kill()
    a.boot().disk.lock("/d")()


def test_errors_of_names() -> None:
    world = with_dir(machine())
    with pytest.raises(FileNotFoundError):
        world.disk.open("/d/none")
    with pytest.raises(FileNotFoundError):
        world.disk.create("/none/x")
    make(world, "/d/x", b"")
    with pytest.raises(FileExistsError):
        world.disk.create("/d/x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        world.disk.open("/d/x").append(b"x")
    world.disk.makedirs("/d/sub/deep")
    make(world, "/d/sub/deep/y", b"")
    assert world.disk.listdir("/d") == ["sub", "x"]
    assert world.disk.listdir("/") == ["d"]


def test_dice_of_two_purposes_do_not_touch() -> None:
    one, two = Simulation(7), Simulation(7)
    one.dice("a").random()
    assert one.dice("b").random() == two.dice("b").random()
    assert isinstance(one.dice("b"), random.Random)
