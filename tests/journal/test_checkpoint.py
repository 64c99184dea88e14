"""Snapshots while the node goes on, and what they leave behind."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.journal.nodes import SNAP, XLOG, Bench, FailOn, put, write

from headwater.errors import BoxError, Er
from headwater.journal import CheckpointDaemon, SystemRow, WalMode
from headwater.journal.schedule import Schedule
from headwater.sim.storage import DATA, LOCAL, Change, Storage
from headwater.vclock import VClock
from headwater.wire.msgpack import pack
from headwater.xlog import Reader, rows
from headwater.xlog.reader import BytesFile


def noise(seed: int) -> str:
    """Nothing that compresses."""
    return random.Random(seed).randbytes(200).hex()


def snapshot_rows(bench: Bench, name: str) -> list[tuple[int, int, int, bytes]]:
    """(type, group, LSN, body) of each row."""
    reader = Reader(BytesFile(bytes(bench.data(name))))
    found = [(row.type, row.group_id, row.lsn, row.body) for block in reader for row in rows(block)]
    reader.require_eof()
    return found


def test_snapshot_holds_all_kept_spaces_in_order_with_counted_lsns() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 3, 1, 2)
        node.write([Change(LOCAL, 5, "l", 5)], lambda error: None)
        assert await node.checkpointer.make() == VClock({0: 1, 1: 3})

    bench.live(script)
    found = snapshot_rows(bench, SNAP(4))
    assert [lsn for _, _, lsn, _ in found] == [0, 1, 2, 3, 4]
    assert [kind for kind, _, _, _ in found] == [2] * 5
    assert [group for _, group, _, _ in found] == [0, 0, 0, 0, 1]
    assert found[1][3] == b"\x82\x10\xce\x00\x00\x02\x00\x21" + Change(DATA, 1, "x", 1).tuple()
    meta = Reader(BytesFile(bytes(bench.data(SNAP(4))))).meta
    assert meta.vclock == VClock({0: 1, 1: 3})
    assert meta.prev_vclock is None


def test_snapshot_waits_until_what_it_holds_is_written() -> None:
    bench = Bench(wal_mode=WalMode.FSYNC)

    async def script(node: Storage) -> None:
        answers: list[BoxError | None] = []
        for key in range(40):
            put(node, key, answers=answers)
            if key % 7 == 0:
                await node.world.tasks.sleep(0)
        vclock = await node.checkpointer.make()
        assert vclock == VClock({1: 40})
        assert answers == [None] * 40

    bench.live(script)
    assert len(snapshot_rows(bench, SNAP(40))) == 41


def test_write_that_fails_takes_the_snapshot_along() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        put(node, 2)
        with pytest.raises(BoxError):
            await node.checkpointer.make()
        assert not node.checkpointer.in_progress
        await write(node, 3)

    bench.live(script, FailOn("append", 2))
    assert [name for name in bench.files() if ".snap" in name] == [SNAP(0)]
    assert sorted(bench.state()) == [1, 3]


def test_writes_go_on_meanwhile_and_are_not_in_it() -> None:
    bench = Bench(snap_io_rate_limit=0.05)

    async def script(node: Storage) -> None:
        for key in range(300):
            put(node, key, noise(key))
        task = node.world.tasks.spawn(node.checkpointer.make(), "snapshot")
        await node.world.tasks.sleep(0.3)
        assert node.checkpointer.in_progress
        await write(node, 1000)
        node.write([Change(DATA, 5, None, 5)], lambda error: None)
        await node.journal.sync()
        await task

    bench.live(script)
    assert len(snapshot_rows(bench, SNAP(300))) == 301
    assert sorted(bench.state()) == [*(key for key in range(300) if key != 5), 1000]


def test_rate_limit_takes_its_time() -> None:
    bench = Bench(snap_io_rate_limit=0.01)

    async def script(node: Storage) -> float:
        for key in range(200):
            put(node, key, noise(key))
        before = node.world.clock.monotonic()
        await node.checkpointer.make()
        return node.world.clock.monotonic() - before

    took = bench.live(script)
    size = len(bench.data(SNAP(200)))
    assert took >= 0.8 * size / (0.01 * (1 << 20))


def test_second_snapshot_at_the_same_time_is_refused() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        task = node.world.tasks.spawn(node.checkpointer.make(), "snapshot")
        await node.world.tasks.sleep(0)
        with pytest.raises(BoxError, match="Snapshot is already in progress") as caught:
            await node.checkpointer.make()
        assert caught.value.code == Er.CHECKPOINT_IN_PROGRESS
        await task

    bench.live(script)


def test_snapshot_of_the_same_vclock_is_there_already() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        first = await node.checkpointer.make()
        before = bytes(bench.data(SNAP(1)))
        assert await node.checkpointer.make() == first
        assert bytes(bench.data(SNAP(1))) == before
        assert len(node.gc.checkpoints) == 2

    bench.live(script)


@pytest.mark.parametrize("call", ["create", "append", "sync", "rename", "sync_dir"])
def test_error_leaves_nothing_behind_and_the_next_one_succeeds(call: str) -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        with pytest.raises(BoxError, match=r"cannot write snapshot '/data/0+1\.snap': Input/output error"):
            await node.checkpointer.make()
        assert not [name for name in bench.files() if name.startswith(SNAP(1))]
        await write(node, 2)
        await node.checkpointer.make()

    path = ".snap" if call != "sync_dir" else "/data"
    bench.live(script, FailOn(call, 1 if call == "sync_dir" else 0, part=20, path=path))
    assert SNAP(2) in bench.files()
    assert sorted(bench.state()) == [1, 2]


def test_cancelled_snapshot_leaves_nothing_behind() -> None:
    bench = Bench(snap_io_rate_limit=0.01)

    async def script(node: Storage) -> None:
        for key in range(100):
            put(node, key, noise(key))
        task = node.world.tasks.spawn(node.checkpointer.make(), "snapshot")
        await node.world.tasks.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not node.checkpointer.in_progress

    bench.live(script)
    assert [name for name in bench.files() if ".snap" in name] == [SNAP(0)]


def test_old_snapshots_and_their_logs_go() -> None:
    bench = Bench(checkpoint_count=2)

    async def script(node: Storage) -> None:
        for key in range(5):
            await write(node, key)
            await node.checkpointer.make()
        await write(node, 9)

    bench.live(script)
    assert bench.files() == sorted([SNAP(4), SNAP(5), XLOG(4), XLOG(5)])
    assert sorted(bench.state()) == [0, 1, 2, 3, 4, 9]


def test_pinned_snapshot_stays_with_all_that_follows_it() -> None:
    bench = Bench(checkpoint_count=1)

    async def script(node: Storage) -> None:
        await write(node, 0)
        await node.checkpointer.make()
        last = node.gc.last_checkpoint
        assert last is not None
        release = node.gc.pin(last, "backup")
        for key in (1, 2, 3):
            await write(node, key)
            await node.checkpointer.make()
        names = bench.files()
        assert {SNAP(1), XLOG(1), XLOG(2), XLOG(3)} <= {*names, XLOG(3)}
        assert node.checkpointer.backup_files(last.vclock) == ["/data/" + SNAP(1)]
        release()
        release()
        await node.checkpointer.collect()
        assert bench.files() == [SNAP(4)]

    bench.live(script)


def test_consumer_keeps_the_logs_that_it_has_not_read() -> None:
    bench = Bench(checkpoint_count=1)

    async def script(node: Storage) -> None:
        await write(node, 0)
        node.gc.register("replica", node.vclock())
        for key in (1, 2, 3):
            await write(node, key)
            await node.checkpointer.make()
        assert {XLOG(1), XLOG(2), XLOG(3)} >= {name for name in bench.files() if name.endswith("xlog")} - {XLOG(0)}
        assert XLOG(2) in bench.files()
        node.gc.advance_consumer("replica", node.vclock())
        await node.checkpointer.collect()
        assert bench.files() == [SNAP(4)]

    bench.live(script)


def test_nothing_is_removed_while_paused() -> None:
    bench = Bench(checkpoint_count=1)

    async def script(node: Storage) -> None:
        node.gc.pause("replicas")
        for key in range(3):
            await write(node, key)
            await node.checkpointer.make()
        assert len([name for name in bench.files() if name.endswith("snap")]) == 4
        node.gc.resume("replicas")
        await node.checkpointer.collect()
        assert bench.files() == [SNAP(3)]

    bench.live(script)


def test_file_that_cannot_be_removed_is_told_and_left(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(checkpoint_count=1)

    async def script(node: Storage) -> None:
        await write(node, 1)
        await node.checkpointer.make()

    bench.live(script, FailOn("unlink", -1))
    assert "error while removing /data/" in caplog.text
    assert sorted(bench.state()) == [1]


def test_system_rows_stand_between_system_spaces_and_the_others() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        raft = SystemRow(30, 1, pack({0: 3}))
        promote = SystemRow(31, 0, pack({2: 0, 3: 0, 0x53: 3}))
        node.checkpointer._system_rows = lambda: [raft, promote]
        await node.checkpointer.make()

    bench.live(script)
    found = snapshot_rows(bench, SNAP(1))
    assert [(kind, group, lsn) for kind, group, lsn, _ in found] == [(2, 0, 0), (30, 1, 1), (31, 0, 2), (2, 0, 3)]
    assert found[1][3] == pack({0: 3})


def test_without_a_journal_snapshots_are_what_stays() -> None:
    bench = Bench(wal_mode=WalMode.NONE)

    async def script(node: Storage) -> None:
        put(node, 1)
        await node.checkpointer.make()
        put(node, 2)

    bench.live(script)
    assert sorted(bench.state()) == [1]


# ---- by time


def test_schedule_counts_from_the_last_snapshot_with_an_offset() -> None:
    schedule = Schedule(random.Random(1))
    assert schedule.timeout(0) is None
    schedule.configure(100.0, 60.0, 10.0)
    first = schedule.timeout(100.0)
    assert first is not None
    assert 50 <= first < 110
    assert schedule.timeout(100.0 + first) == pytest.approx(60)
    assert schedule.timeout(100.0 + first + 59) == pytest.approx(1)
    schedule.reset(1000.0)
    assert schedule.timeout(1000.0) == 60
    schedule.configure(0.0, 60.0, 1e9)
    overdue = schedule.timeout(0.0)
    assert overdue is not None
    assert 0 <= overdue <= 60


def test_daemon_makes_them_by_time_and_when_asked() -> None:
    bench = Bench(checkpoint_count=100)

    async def script(node: Storage) -> None:
        daemon = CheckpointDaemon(node.world, node.checkpointer, node.gc)
        daemon.configure(60.0)
        node.world.tasks.spawn(daemon.run(), "checkpoint")
        for key in range(6):
            await write(node, key)
            await node.world.tasks.sleep(60)
        assert 5 <= len(node.gc.checkpoints) <= 7
        daemon.configure(0)
        count = len(node.gc.checkpoints)
        await write(node, 50)
        await node.world.tasks.sleep(100_000)
        assert len(node.gc.checkpoints) == count
        daemon.trigger()
        daemon.trigger()
        await node.world.tasks.sleep(1)
        assert len(node.gc.checkpoints) == count + 1

    bench.live(script)


def test_daemon_outlives_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(checkpoint_count=100)

    async def script(node: Storage) -> None:
        daemon = CheckpointDaemon(node.world, node.checkpointer, node.gc)
        node.world.tasks.spawn(daemon.run(), "checkpoint")
        await write(node, 1)
        daemon.trigger()
        await node.world.tasks.sleep(1)
        assert len(node.gc.checkpoints) == 1
        daemon.trigger()
        await node.world.tasks.sleep(1)
        assert len(node.gc.checkpoints) == 2

    bench.live(script, FailOn("create", path=".snap"))
    assert "snapshot failed: cannot write snapshot" in caplog.text
