"""What a node makes of the files that it finds."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.journal.nodes import SNAP, Bench, FailOn, put, write
from tests.journal.nodes import XLOG as NAME

from headwater.errors import BoxError, Er, XlogError, XlogGapError
from headwater.journal import Progress, Recovery, WalMode
from headwater.kernels import Memtx
from headwater.sim.storage import DATA, INSTANCE, Change, Storage
from headwater.vclock import VClock
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, XLOG, BlockEncoder, Meta, Reader, format_meta
from headwater.xlog.reader import BytesFile

SECTOR = 512


def with_rows(count: int = 10, payload: str = "y" * 100, **settings: object) -> Bench:
    """A node killed after so many writes, each in a block of its own."""
    bench = Bench(**settings)

    async def script(node: Storage) -> None:
        await write(node, *range(count), payload=payload)

    bench.live(script)
    return bench


def block_offsets(bench: Bench, name: str) -> list[int]:
    return [block.offset for block in Reader(BytesFile(bytes(bench.data(name))))]


def zero(start: int, end: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[start:end] = bytes(min(end, len(data)) - start)

    return change


def flip(at: int, bit: int = 0) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1 << bit

    return change


def cut(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        del data[at:]

    return change


def put_in(content: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[:] = content

    return change


def keys_after(bench: Bench) -> list[int]:
    return sorted(bench.state())


def keys_or_error(bench: Bench) -> list[int] | XlogError:
    try:
        return keys_after(bench)
    except XlogError as error:
        return error


def test_empty_directory_is_nothing_to_recover() -> None:
    bench = Bench()
    world = bench.machine.boot()
    world.disk.makedirs("/data")
    recovery = Recovery(world, Memtx(), bench.settings, apply_row=lambda row, last: None)
    assert bench.simulation.run(recovery.run()) is None


def test_logs_without_any_snapshot_are_refused() -> None:
    bench = with_rows(3)
    del bench.machine.platter.names["/data/" + SNAP(0)]
    with pytest.raises(BoxError) as caught:
        bench.state()
    assert caught.value.code == Er.MISSING_SNAPSHOT


def test_restart_goes_on_in_a_new_file_that_names_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    bench = with_rows(3)

    async def script(node: Storage) -> None:
        await write(node, 100)

    bench.live(script)
    assert bench.files() == sorted([SNAP(0), NAME(0), NAME(3)])
    old, new = (Reader(BytesFile(bytes(bench.data(NAME(number))))) for number in (0, 3))
    assert len(list(old)) == 3
    old.require_eof()
    assert new.meta.vclock == VClock({1: 3})
    assert new.meta.prev_vclock == VClock()
    assert new.meta.instance_uuid == INSTANCE
    assert keys_after(bench) == [0, 1, 2, 100]
    assert f"file '/data/{NAME(0)}' wasn't correctly closed" in caplog.text


def test_last_file_without_rows_is_gone_on_with() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, 1)
        await node.journal.rotate()
        put(node, 2)
        await node.world.tasks.sleep(1)

    bench.live(script)
    offsets = block_offsets(bench, NAME(1))
    bench.damage(NAME(1), cut(offsets[0]))

    async def again(node: Storage) -> None:
        await write(node, 3, 4)

    bench.live(again)
    assert bench.files() == sorted([SNAP(0), NAME(0), NAME(1)])
    assert keys_after(bench) == [1, 3, 4]


def test_file_of_another_instance_is_refused_and_left_alone() -> None:
    bench = with_rows(3)
    other = UUID("00000000-0000-4000-8000-000000000001")
    bench.damage(NAME(0), put_in(bytes(bench.data(NAME(0))).replace(str(INSTANCE).encode(), str(other).encode())))
    before = bytes(bench.data(NAME(0)))
    with pytest.raises(XlogError, match="invalid instance UUID") as caught:
        bench.state()
    assert caught.value.path == "/data/" + NAME(0)
    assert bytes(bench.data(NAME(0))) == before


def test_configured_uuid_must_be_that_of_the_files() -> None:
    bench = with_rows(1)
    world = bench.machine.boot()
    other = UUID("00000000-0000-4000-8000-000000000001")
    recovery = Recovery(world, Memtx(), bench.settings, apply_row=lambda row, last: None, instance_uuid=other)
    with pytest.raises(BoxError) as caught:
        bench.simulation.run(recovery.run())
    assert caught.value.code in (Er.INSTANCE_UUID_MISMATCH, Er.PROC_LUA)


# ---- torn and damaged ends


def test_every_truncation_of_the_last_log_leaves_a_prefix() -> None:
    bench = with_rows(5, "y" * 30)
    whole = bytes(bench.data(NAME(0)))
    offsets = [*block_offsets(bench, NAME(0)), len(whole)]
    for size in range(offsets[0], len(whole)):
        bench.damage(NAME(0), put_in(whole))
        bench.damage(NAME(0), cut(size))
        complete = sum(1 for end in offsets[1:] if end <= size)
        assert keys_after(bench) == list(range(complete)), size


def test_cut_end_is_said_and_written_over_only_when_there_is_something_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = with_rows(3)
    torn = block_offsets(bench, NAME(0))[2] + 30
    bench.damage(NAME(0), cut(torn))
    assert keys_after(bench) == [0, 1]
    assert len(bench.data(NAME(0))) == torn
    assert "the last 30 bytes are cut off" in caplog.text
    assert f"/data/{NAME(0)}: unexpected end of file in a block" in caplog.text

    async def script(node: Storage) -> None:
        await write(node, 7)

    bench.live(script)
    assert bytes(bench.data(NAME(0))).endswith(MAGIC_EOF)
    assert keys_after(bench) == [0, 1, 7]


@pytest.mark.parametrize("mode", [WalMode.WRITE, WalMode.FSYNC])
def test_every_bit_flip_is_refused_or_harmless(mode: WalMode) -> None:
    """A killed node's log with one wrong bit: never a state that lost or changed an acknowledged row."""
    bench = with_rows(4, "y" * 20, wal_mode=mode)
    whole = bytes(bench.data(NAME(0)))
    begin = block_offsets(bench, NAME(0))[0]
    refused = 0
    for at in range(begin, len(whole)):
        for bit in (0, 3, 7):
            bench.damage(NAME(0), put_in(whole))
            bench.damage(NAME(0), flip(at, bit))
            answer = keys_or_error(bench)
            if isinstance(answer, XlogError):
                refused += 1
                assert (answer.path, answer.offset is None) == ("/data/" + NAME(0), False)
            else:
                assert answer == [0, 1, 2, 3], (at, bit)
    assert refused > (len(whole) - begin) * 2


def test_sectors_that_never_reached_the_disk_end_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Each sector of its own, the end included: what was written before it is there, and the node starts."""
    bench = with_rows(30, "y" * 150)
    whole = bytes(bench.data(NAME(0)))
    offsets = block_offsets(bench, NAME(0))
    for start in range(SECTOR, len(whole), SECTOR):
        bench.damage(NAME(0), put_in(whole))
        bench.damage(NAME(0), zero(start, start + SECTOR))
        whole_before = sum(1 for end in [*offsets[1:], len(whole)] if end <= start)
        assert keys_after(bench) == list(range(whole_before)), start


def test_hole_before_good_blocks_is_no_crash_where_each_write_is_forced() -> None:
    bench = with_rows(30, "y" * 150, wal_mode=WalMode.FSYNC)
    bench.damage(NAME(0), zero(SECTOR, 2 * SECTOR))
    with pytest.raises(XlogError):
        bench.state()


def test_hole_in_a_closed_log_is_refused() -> None:
    bench = Bench()

    async def script(node: Storage) -> None:
        await write(node, *range(30), payload="y" * 100)
        await node.stop()

    bench.live(script)
    bench.damage(NAME(0), zero(2 * SECTOR, 3 * SECTOR))
    with pytest.raises(XlogError) as caught:
        bench.state()
    assert caught.value.offset in block_offsets_before(bench, 3 * SECTOR)
    assert caught.value.lsn is not None


def block_offsets_before(bench: Bench, end: int) -> list[int]:
    reader = Reader(BytesFile(bytes(bench.data(NAME(0)))), force=True)
    return [0, *(block.end for block in reader if block.end < end)]


def test_length_that_claims_too_much_is_refused_when_its_checksum_fits() -> None:
    """The last block is whole, and only the number before it says that it is not."""
    bench = with_rows(3)
    at = block_offsets(bench, NAME(0))[2]
    assert bench.data(NAME(0))[at + 4] < 0x80 or bench.data(NAME(0))[at + 4] == 0xCC
    place = at + 5 if bench.data(NAME(0))[at + 4] == 0xCC else at + 4
    bench.damage(NAME(0), lambda data: data.__setitem__(place, data[place] + 1))
    with pytest.raises(XlogError):
        bench.state()


def test_force_recovery_skips_what_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    bench = with_rows(6)
    offsets = block_offsets(bench, NAME(0))
    bench.damage(NAME(0), flip(offsets[2] + 40))
    bench.damage(NAME(0), flip(offsets[5] + 40))
    bench.settings.force_recovery = True
    assert keys_after(bench) == [0, 1, 3, 4]
    assert "skipped, because force_recovery is set" in caplog.text


# ---- the chain of files


def chain(files: int = 4, **settings: object) -> Bench:
    """Several logs of three rows each; the last one without end marker."""
    bench = Bench(**settings)

    async def script(node: Storage) -> None:
        for number in range(files):
            await write(node, *range(3 * number, 3 * number + 3), payload="y" * 100)
            if number < files - 1:
                await node.journal.rotate()

    bench.live(script)
    return bench


def test_missing_log_in_the_middle_is_a_gap() -> None:
    bench = chain()
    del bench.machine.platter.names["/data/" + NAME(3)]
    with pytest.raises(XlogGapError) as caught:
        bench.state()
    assert caught.value.code == Er.XLOG_GAP
    assert caught.value.message == "Missing .xlog file between LSN 0 {} and 6 {1: 6}"
    bench.settings.force_recovery = True
    assert keys_after(bench) == [0, 1, 2, 6, 7, 8, 9, 10, 11]


def test_missing_first_log_is_a_gap() -> None:
    bench = chain()
    del bench.machine.platter.names["/data/" + NAME(0)]
    with pytest.raises(XlogGapError):
        bench.state()


def test_log_that_lost_its_end_to_a_power_cut_ends_the_history(caplog: pytest.LogCaptureFixture) -> None:
    """Not by our own files, which are forced before the next one is begun, but by those of a Tarantool."""
    bench = chain()
    offsets = block_offsets(bench, NAME(3))
    bench.damage(NAME(3), cut(offsets[2]))
    assert keys_after(bench) == [0, 1, 2, 3, 4]
    assert bench.files() == sorted([SNAP(0), NAME(0), NAME(3), NAME(6) + ".lost", NAME(9) + ".lost"])
    assert "the power was cut before the rows between them were on the disk" in caplog.text

    async def script(node: Storage) -> None:
        await write(node, 77)

    bench.live(script)
    assert keys_after(bench) == [0, 1, 2, 3, 4, 77]


def test_closed_log_that_is_damaged_is_refused_though_others_follow() -> None:
    bench = chain()
    bench.damage(NAME(3), flip(block_offsets(bench, NAME(3))[1] + 30))
    with pytest.raises(XlogError) as caught:
        bench.state()
    assert caught.value.path == "/data/" + NAME(3)
    assert caught.value.lsn == 4


def test_log_without_end_marker_in_the_middle_is_fine_when_no_row_is_missing() -> None:
    bench = chain()
    bench.damage(NAME(3), cut(len(bench.data(NAME(3))) - len(MAGIC_EOF)))
    assert keys_after(bench) == list(range(12))


@pytest.mark.parametrize("content", [b"", bytes(100), bytes(600)])
def test_newest_log_whose_head_never_reached_the_disk_is_moved_aside(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench = chain()
    bench.damage(NAME(9), put_in(content))
    assert keys_after(bench) == list(range(9))
    assert NAME(9) + ".corrupted" in bench.files()
    assert "has no head: the power was cut" in caplog.text

    async def script(node: Storage) -> None:
        await write(node, 50)

    bench.live(script)
    assert keys_after(bench) == [*range(9), 50]


def test_garbage_head_is_refused() -> None:
    bench = chain()
    bench.damage(NAME(9), lambda data: data.__setitem__(slice(0, 4), b"XLAG"))
    with pytest.raises(BoxError):
        bench.state()


def test_unfinished_files_are_removed() -> None:
    bench = with_rows(2)
    for name in (SNAP(9) + ".inprogress", NAME(9) + ".inprogress"):
        bench.machine.platter.names["/data/" + name] = bench.machine.platter.names["/data/" + NAME(0)]
    assert keys_after(bench) == [0, 1]
    assert bench.files() == sorted([SNAP(0), NAME(0)])


# ---- snapshots


def snapshots() -> Bench:
    """Snapshots at 0, 3 and 6, and every log."""
    bench = Bench(checkpoint_count=5)

    async def script(node: Storage) -> None:
        for number in (0, 3, 6):
            await write(node, number, number + 1, number + 2, payload="y" * 100)
            await node.checkpointer.make()
        await write(node, 9)

    bench.live(script)
    return bench


@pytest.mark.parametrize("what", [flip(200), cut(150), cut(0), zero(100, 300), lambda data: data.extend(b"junk")])
def test_damaged_snapshot_is_passed_over_for_the_one_before_it(
    what: Callable[[bytearray], None], caplog: pytest.LogCaptureFixture
) -> None:
    bench = snapshots()
    bench.damage(SNAP(9), what)
    assert keys_after(bench) == list(range(10))
    assert f"/data/{SNAP(9)}" in caplog.text
    assert SNAP(9) + ".corrupted" in bench.files()

    async def script(node: Storage) -> None:
        await node.checkpointer.make()

    bench.live(script)
    assert keys_after(bench) == list(range(10))


def test_only_snapshot_that_is_damaged_is_refused() -> None:
    bench = with_rows(3)
    bench.damage(SNAP(0), flip(len(bench.data(SNAP(0))) - 10))
    with pytest.raises(XlogError) as caught:
        bench.state()
    assert caught.value.path == "/data/" + SNAP(0)


def test_snapshot_without_end_marker_is_refused() -> None:
    bench = with_rows(3)
    bench.damage(SNAP(0), cut(len(bench.data(SNAP(0))) - 4))
    with pytest.raises(XlogError, match="no end marker"):
        bench.state()


def test_damaged_snapshot_and_no_log_to_make_up_for_it_is_a_gap() -> None:
    bench = snapshots()
    bench.damage(SNAP(9), flip(200))
    del bench.machine.platter.names["/data/" + NAME(6)]
    with pytest.raises(XlogGapError):
        bench.state()


# ---- rows


def log_file(bench: Bench, rows: list[Row], *, blocks: int = 1) -> None:
    """Put these rows into the directory as its first log."""
    encoder = BlockEncoder()
    size = -(-len(rows) // blocks)
    pieces = [b"".join(map(encode_row, rows[at : at + size])) for at in range(0, len(rows), size)]
    content = format_meta(Meta(XLOG, INSTANCE, VClock())) + b"".join(map(encoder.encode_one, pieces)) + MAGIC_EOF
    inode = type(bench.machine.platter.names["/data/" + SNAP(0)])()
    inode.data, inode.durable = bytearray(content), bytearray(content)
    bench.machine.platter.names["/data/" + NAME(0)] = inode


def fresh() -> Bench:
    bench = Bench()

    async def script(node: Storage) -> None:
        pass

    bench.live(script)
    return bench


def body(key: int, space_id: int = DATA) -> bytes:
    return b"\x82\x10" + pack(space_id) + b"\x21" + Change(space_id, key, "x", key).tuple()


def recover(bench: Bench, *, fast: bool = True) -> tuple[list[tuple[int, int, bool]], VClock, list[Progress]]:
    """Rows that reached the callback as (type, lsn, last)."""
    world = bench.machine.boot()
    node = Storage(world, bench.settings)
    node._make_spaces()
    space = node.memtx.space(DATA)
    assert space is not None
    space.fast = fast
    seen: list[tuple[int, int, bool]] = []
    progress: list[Progress] = []
    recovery = Recovery(
        world,
        node.memtx,
        bench.settings,
        apply_row=lambda row, last: seen.append((row.type, row.lsn, last)),
        progress=progress.append,
    )
    try:
        found = bench.simulation.run(recovery.run())
    finally:
        bench.machine.kill()
    assert found is not None
    return seen, found.vclock, progress


def test_rows_that_the_compiled_path_leaves_come_with_the_end_of_their_transaction() -> None:
    bench = fresh()
    rows = [
        Row(3, 1, 0, 1, 1.0, 1, 1, body(1)),
        Row(9, 1, 0, 2, 1.0, 2, 0, body(2)),
        Row(3, 1, 0, 3, 1.0, 2, 0, body(3)),
        Row(4, 1, 0, 4, 1.0, 2, 1, body(3)),
        Row(12, 1, 0, 5, 1.0, 5, 1),
        Row(30, 0, 1, 1, 1.0, 1, 1, pack({0: 2})),
        Row(3, 2, 0, 7, 1.0, 7, 1, body(4)),
    ]
    log_file(bench, rows)
    seen, vclock, progress = recover(bench)
    assert seen == [(9, 2, False), (3, 3, False), (4, 4, True), (12, 5, True), (30, 1, True)]
    assert vclock == VClock({0: 1, 1: 5, 2: 7})
    assert progress[-1].rows == 8


def test_transaction_over_two_blocks_is_still_one() -> None:
    bench = fresh()
    log_file(bench, [Row(9, 1, 0, lsn, 1.0, 1, int(lsn == 4), body(lsn)) for lsn in (1, 2, 3, 4)], blocks=2)
    seen, vclock, _ = recover(bench)
    assert seen == [(9, 1, False), (9, 2, False), (9, 3, False), (9, 4, True)]
    assert vclock == VClock({1: 4})


def test_unfinished_transaction_at_the_end_is_an_error() -> None:
    bench = fresh()
    log_file(bench, [Row(9, 1, 0, lsn, 1.0, 1, 0, body(lsn)) for lsn in (1, 2)])
    with pytest.raises(XlogError, match="found a not finished transaction in the log"):
        recover(bench)


def test_rows_of_the_snapshot_are_not_applied_again() -> None:
    """The last row of a transaction of which a part is known ends it as a NOP (recovery.cc, recover_xlog)."""
    bench = snapshots()
    seen, vclock, _ = recover(bench, fast=False)
    inserts = [lsn for kind, lsn, _ in seen if kind == 2]
    assert len(inserts) == 9
    assert [(kind, lsn) for kind, lsn, _ in seen if kind != 2] == [(3, 10)]
    assert vclock == VClock({1: 10})


def test_half_known_transaction_ends_with_a_nop() -> None:
    bench = fresh()
    rows = [
        Row(9, 1, 0, 1, 1.0, 1, 1, body(1)),
        Row(9, 2, 0, 5, 1.0, 5, 0, body(2)),
        Row(9, 1, 0, 1, 1.0, 5, 1, body(3)),
    ]
    log_file(bench, rows)
    seen, vclock, _ = recover(bench)
    assert seen == [(9, 1, True), (9, 5, False), (12, 1, True)]
    assert vclock == VClock({1: 1, 2: 5})


def test_refused_row_names_file_offset_and_row() -> None:
    bench = with_rows(2)
    world = bench.machine.boot()
    node = Storage(world, bench.settings)
    node._make_spaces()
    space = node.memtx.space(DATA)
    assert space is not None
    space.fast = False

    def refuse(row: Row, last: bool) -> None:
        raise BoxError(Er.NO_SUCH_SPACE, "Space '512' does not exist")

    recovery = Recovery(world, node.memtx, bench.settings, apply_row=refuse)
    with pytest.raises(XlogError) as caught:
        bench.simulation.run(recovery.run())
    offset = block_offsets(bench, NAME(0))[0]
    assert caught.value.message == (
        f"/data/{NAME(0)}: row {{1: 1}} was refused: Space '512' does not exist (offset {offset})"
    )
    assert caught.value.cause is not None
    assert caught.value.cause.code == Er.NO_SUCH_SPACE


def test_insert_of_what_is_there_is_named(caplog: pytest.LogCaptureFixture) -> None:
    bench = fresh()
    log_file(bench, [Row(2, 1, 0, lsn, 1.0, lsn, 1, body(key)) for lsn, key in ((1, 1), (2, 2), (3, 2), (4, 4))])
    with pytest.raises(XlogError, match=r"row \{1: 3\} was refused: Duplicate key"):
        bench.state()
    bench.settings.force_recovery = True
    assert keys_after(bench) == [1, 2, 4]


def test_replica_id_beyond_all_vclocks_is_an_error() -> None:
    bench = fresh()
    log_file(bench, [Row(9, 40, 0, 1, 1.0, 1, 1, body(1))])
    with pytest.raises(XlogError, match="replica id 40 is out of range"):
        recover(bench)


def test_unreadable_directory_is_told_by_name() -> None:
    bench = with_rows(3)
    world = bench.machine.boot(FailOn("read", -1))
    recovery = Recovery(world, Memtx(), bench.settings, apply_row=lambda row, last: None)
    with pytest.raises(BoxError, match=r"recovery: cannot read '/data/.*Input/output error"):
        bench.simulation.run(recovery.run())
