"""Order, group commit, failure: the journal seen from the loop."""

from __future__ import annotations

import errno

import pytest
from tests.journal.nodes import MODES, XLOG, Bench, FailOn, Several, put, write

from headwater.errors import BoxError, Er
from headwater.journal import WalMode
from headwater.sim.storage import DATA, LOCAL, TEMPORARY, Change, Storage
from headwater.vclock import VClock
from headwater.world import Disk
from headwater.xlog import Reader
from headwater.xlog.reader import BytesFile


def blocks(bench: Bench, name: str) -> int:
    return len(list(Reader(BytesFile(bytes(bench.data(name))))))


def test_changes_of_one_turn_are_one_block() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        for key in range(50):
            put(node, key)
        await node.journal.sync()

    bench.live(script)
    assert blocks(bench, XLOG(0)) == 1
    assert len(bench.state()) == 50


def test_lone_commit_waits_for_no_timer() -> None:
    """From the request to its answer there are turns of the loop and the writer's own time, nothing else."""
    bench = Bench()

    async def script(node: Storage) -> None:
        def no_timer(*args: object) -> None:
            raise AssertionError("a timer")

        node.world.tasks.later = no_timer  # type: ignore[method-assign,assignment]
        node.world.tasks.sleep = no_timer  # type: ignore[method-assign,assignment]
        put(node, 1)
        await node.journal.sync()

    bench.live(script)


def test_next_batch_gathers_while_one_is_written() -> None:
    bench = Bench(wal_mode=WalMode.FSYNC)

    async def script(node: Storage) -> None:
        answers: list[BoxError | None] = []
        for key in range(30):
            put(node, key, answers=answers)
            await node.world.tasks.sleep(0)
        await node.journal.sync()
        assert answers == [None] * 30

    bench.live(script)
    assert 2 <= blocks(bench, XLOG(0)) < 30


def test_answers_come_in_order_and_after_the_write() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        order: list[int] = []
        for key in range(20):
            node.write([Change(DATA, key, "x", key)], lambda error, key=key: order.append(key))
            if key % 3 == 0:
                await node.world.tasks.sleep(0)
        assert order == []
        await node.journal.sync()
        assert order == list(range(20))
        assert node.journal.vclock == VClock({1: 20})

    bench.live(script)


def test_settle_of_a_quiet_node_answers_at_once() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        answers: list[BoxError | None] = []
        node.journal.settle(answers.append)
        assert answers == [None]

    bench.live(script)


def test_change_without_rows_goes_with_the_batch_before_it() -> None:
    """A temporary space has no rows; yet its change has seen what is not written, and falls with it."""
    bench = Bench()

    async def script(node: Storage) -> None:
        answers: list[BoxError | None] = []
        put(node, 1, answers=answers)
        await node.world.tasks.sleep(0)
        node.write([Change(TEMPORARY, 7, "t", 7)], answers.append)
        with pytest.raises(BoxError):
            await node.journal.sync()
        assert [error.code if error else None for error in answers] == [Er.WAL_IO, Er.WAL_IO]
        space = node.memtx.space(TEMPORARY)
        assert space is not None
        assert len(space) == 0

    bench.live(script, FailOn("append"))


def test_failed_write_is_undone_with_everything_after_it() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1, 2)
        answers: list[BoxError | None] = []
        put(node, 1, "lost", answers)
        put(node, 3, "lost", answers)
        await node.world.tasks.sleep(0)
        put(node, 4, "lost too", answers)
        await node.world.tasks.sleep(0)
        put(node, 5, "lost too", answers)
        with pytest.raises(BoxError) as caught:
            await node.journal.sync()
        assert caught.value.code == Er.CASCADE_ROLLBACK
        assert [error and error.code for error in answers] == [Er.WAL_IO] * 2 + [Er.CASCADE_ROLLBACK] * 2
        assert [error and error.message for error in answers][:3:2] == [
            "Failed to write to disk",
            "WAL has a rollback in progress",
        ]
        assert sorted(node.state()[DATA]) == [1, 2]
        assert node.state()[DATA][1] == ("x", 1)
        assert node.vclock() == node.journal.vclock == VClock({1: 2})
        await write(node, 6)
        assert node.vclock() == VClock({1: 3})

    bench.live(script, FailOn("append", 3, part=10))
    assert sorted(bench.state()) == [1, 2, 6]


def test_write_from_within_an_answer_comes_after_the_undo() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        answers: list[BoxError | None] = []

        def again(error: BoxError | None) -> None:
            assert error is not None
            put(node, 2, "second try", answers)

        node.write([Change(DATA, 1, "x", 1)], again)
        put(node, 3)
        await node.world.tasks.sleep(1)
        assert answers == [None]
        assert sorted(node.state()[DATA]) == [2]
        assert node.vclock() == VClock({1: 1})

    bench.live(script, FailOn("append", path="xlog.inprogress"))
    assert sorted(bench.state()) == [2]


def test_rollback_is_told_before_its_waiters() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        told: list[str] = []
        node.journal.on_rollback.append(lambda: told.append(f"undone, {len(node.state()[DATA])} left"))
        node.write([Change(DATA, 1, "x", 1)], lambda error: told.append("waiter"))
        await node.world.tasks.sleep(1)
        assert told == ["undone, 0 left", "waiter"]
        assert node.journal.errors == 1

    bench.live(script, FailOn("append"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("broken", ["append", "truncate", "sync", "create", "rename", "sync_dir"])
def test_no_error_of_the_disk_is_acknowledged(mode: WalMode, broken: str) -> None:
    """Each call fails once, at each of its turns; then the disk is sound again."""
    for turn in range(6):
        bench = Bench(wal_mode=mode, wal_max_size=300)
        acked: list[int] = []
        faults = Several(
            FailOn(broken, turn, part=30), *([FailOn("append", 3, part=9)] if broken == "truncate" else [])
        )

        async def script(node: Storage, acked: list[int] = acked) -> None:
            for key in range(12):
                node.write(
                    [Change(DATA, key, "y" * 80, key)],
                    lambda error, key=key: acked.append(key) if error is None else None,  # type: ignore[misc]
                )
                await node.world.tasks.sleep(0.5)
            await write(node, 100, 101)

        bench.live(script, faults)
        assert sorted(bench.state()) == [*sorted(acked), 100, 101], (broken, turn)
        assert len(acked) >= 10


def test_full_disk_refuses_writes_and_goes_on_when_there_is_room() -> None:
    bench = Bench(wal_mode=WalMode.WRITE)

    async def script(node: Storage) -> None:
        await write(node, 1)
        platter = bench.machine.platter
        platter.capacity = platter.used() + 50
        for _ in range(3):
            answers: list[BoxError | None] = []
            put(node, 2, "y" * 1000, answers)
            with pytest.raises(BoxError):
                await node.journal.sync()
            assert answers[0] is not None
            assert answers[0].code == Er.WAL_IO
            assert sorted(node.state()[DATA]) == [1]
        platter.capacity = None
        await write(node, 3)

    bench.live(script)
    assert sorted(bench.state()) == [1, 3]


def test_full_disk_gives_up_logs_that_recovery_does_not_need(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(wal_mode=WalMode.WRITE, checkpoint_count=5)

    async def script(node: Storage) -> None:
        consumer = node.gc.register("replica", VClock())
        for key in range(5):
            await write(node, key, payload="y" * 500)
            await node.checkpointer.make()
        await write(node, 5, payload="y" * 500)
        platter = bench.machine.platter
        platter.capacity = platter.used() + 100
        before = bench.files()
        assert before.count(XLOG(0)) == 1
        await write(node, 6, payload="y" * 500)
        gone = set(before) - set(bench.files())
        assert gone
        assert all(name.endswith(".xlog") for name in gone)
        assert XLOG(0) in gone
        assert not consumer.active

    bench.live(script)
    assert "ran out of disk space" in caplog.text
    assert "deactivated WAL consumer replica" in caplog.text
    bench.machine.platter.capacity = None
    assert sorted(bench.state()) == [0, 1, 2, 3, 4, 5, 6]


def test_log_needed_for_recovery_stays_when_the_disk_is_full() -> None:
    bench = Bench(wal_max_size=200)

    async def script(node: Storage) -> None:
        await write(node, *range(8), payload="y" * 150)
        platter = bench.machine.platter
        platter.capacity = platter.used()
        put(node, 50, "y" * 150)
        with pytest.raises(BoxError):
            await node.journal.sync()

    bench.live(script)
    bench.machine.platter.capacity = None
    assert sorted(bench.state()) == list(range(8))


def test_files_follow_each_other_by_size() -> None:
    bench = Bench(wal_max_size=400)

    async def script(node: Storage) -> list[str]:
        await write(node, *range(12), payload="y" * 100)
        await node.stop()
        return node.journal.files()

    paths = bench.live(script)
    assert len(paths) >= 3
    readers = [Reader(BytesFile(bytes(bench.data(path.removeprefix("/data/"))))) for path in paths]
    for reader in readers:
        assert list(reader)
        reader.require_eof()
    assert readers[0].meta.prev_vclock is None
    assert [reader.meta.prev_vclock for reader in readers[1:]] == [reader.meta.vclock for reader in readers[:-1]]
    assert len(bench.state()) == 12


def test_rotation_by_hand_leaves_an_empty_file_alone() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        assert await node.journal.rotate() == VClock({1: 1})
        assert await node.journal.rotate() == VClock({1: 1})
        assert bench.files() == sorted([XLOG(0), "00000000000000000000.snap"])
        await write(node, 2)
        assert XLOG(1) in bench.files()

    bench.live(script)


def test_rotation_fails_with_the_batch_before_it() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        put(node, 1)
        with pytest.raises(BoxError) as caught:
            await node.journal.rotate()
        assert caught.value.code == Er.CASCADE_ROLLBACK
        assert node.state()[DATA] == {}

    bench.live(script, FailOn("append"))


def test_queue_says_when_it_is_full_and_when_there_is_room() -> None:
    bench = Bench(wal_queue_max_size=1000)

    async def script(node: Storage) -> None:
        told: list[str] = []
        assert not node.journal.full
        put(node, 1, "y" * 2000)
        assert node.journal.full
        node.journal.when_room(lambda: told.append("room"))
        assert told == []
        await node.journal.sync()
        assert told == ["room"]
        assert node.journal.queued == 0
        node.journal.when_room(lambda: told.append("at once"))
        assert told == ["room", "at once"]

    bench.live(script)


def test_without_a_journal_everything_is_final_at_once() -> None:
    bench = Bench(wal_mode=WalMode.NONE)

    async def script(node: Storage) -> None:
        answers: list[BoxError | None] = []
        put(node, 1, answers=answers)
        assert answers == [None]
        assert node.journal.vclock == VClock({1: 1})
        assert node.memtx.undo_end == node.journal._prepared_end

    bench.live(script)
    assert [name for name in bench.files() if name.endswith("xlog")] == []
    assert bench.state() == {}


def test_transaction_over_local_and_other_spaces_is_one() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        changes = [
            Change(LOCAL, 1, "l", 1),
            Change(DATA, 2, "d", 1),
            Change(TEMPORARY, 3, "t", 1),
            Change(LOCAL, 4, "l", 1),
        ]
        node.write(changes, lambda error: None)
        await node.journal.sync()
        assert node.vclock() == VClock({0: 2, 1: 1})

    bench.live(script)

    async def look(node: Storage) -> None:
        state = node.state()
        assert (sorted(state[LOCAL]), sorted(state[DATA])) == ([1, 4], [2])

    bench.live(look)


def test_slow_write_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(too_long_threshold=-1.0)

    async def script(node: Storage) -> None:
        await write(node, 1)

    bench.live(script)
    assert "too long WAL write: 1 rows at LSN 1:" in caplog.text


def test_growth_of_the_log_asks_for_a_snapshot_once() -> None:
    bench = Bench(checkpoint_wal_threshold=500)

    async def script(node: Storage) -> None:
        asked: list[int] = []
        node.journal.on_threshold = lambda: asked.append(1)
        await write(node, *range(20), payload="y" * 100)
        assert asked == [1]
        await node.checkpointer.make()
        assert node.journal.tail_size == 0
        await write(node, *range(20), payload="y" * 100)
        assert asked == [1, 1]

    bench.live(script)


def test_two_processes_never_share_a_directory() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        other = Storage(node.world, bench.settings)
        with pytest.raises(BoxError, match="is in use by another process"):
            await other.start()
        await node.stop()
        await other.start()

    bench.live(script)


def test_file_that_is_in_the_way_is_not_overwritten() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        disk: Disk = node.world.disk
        file = disk.create("/data/" + XLOG(0))
        file.append(b"precious")
        put(node, 1)
        with pytest.raises(BoxError):
            await node.journal.sync()
        assert file.read_at(0, 100) == b"precious"

    bench.live(script)


def test_close_writes_what_is_pending_and_the_end_marker() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        put(node, 1)
        await node.stop()

    bench.live(script)
    reader = Reader(BytesFile(bytes(bench.data(XLOG(0)))))
    assert len(list(reader)) == 1
    assert reader.eof


def test_errno_of_a_full_quota_counts_as_a_full_disk(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(checkpoint_count=5)

    async def script(node: Storage) -> None:
        await write(node, 1)
        await node.checkpointer.make()
        await write(node, 2)

    bench.live(script, FailOn("append", 3, errno=errno.EDQUOT, part=5, path=".xlog"))
    assert sorted(bench.state()) == [1, 2]
