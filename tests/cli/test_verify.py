"""`headwater verify`: sound directories pass, and each kind of fault is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.tarantool import EXECUTABLE, run_lua
from tests.wire.golden import GOLDEN, needs_golden
from tests.xlog.build import INSTANCE, log, packed, row, transaction
from typer.testing import CliRunner

from headwater.cli import verify
from headwater.vclock import VClock
from headwater.wire.constants import Flag, Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row
from headwater.xlog import SNAP, XLOG, BlockEncoder, Meta, file_name, format_meta


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(verify.app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def snap_row(number: int, space_id: int = 512) -> Row:
    body = pack({Key.SPACE_ID: space_id, Key.TUPLE: [number]})
    return Row(Type.INSERT, 0, 0, number, 1.0, number, Flag.COMMIT, body)


def put(
    directory: Path,
    batches: Sequence[Sequence[Row]],
    vclock: dict[int, int],
    prev: dict[int, int] | None = None,
    *,
    filetype: str = XLOG,
    eof: bool = True,
    instance: UUID = INSTANCE,
) -> Path:
    meta = Meta(filetype, instance, VClock(vclock), None if prev is None else VClock(prev))
    path = directory / file_name(meta.signature, filetype)
    path.write_bytes(log(batches, meta=meta, eof=eof))
    return path


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """Two snapshots and three logs that belong together."""
    put(tmp_path, [[snap_row(0, 272), snap_row(1)]], {}, filetype=SNAP)
    put(tmp_path, [[row(1), row(2)], transaction(3, 3)], {})
    put(tmp_path, [[snap_row(0), snap_row(1)]], {1: 5}, filetype=SNAP)
    put(tmp_path, [[row(6), row(1, replica_id=2)]], {1: 5}, {})
    put(tmp_path, [], {1: 6, 2: 1}, {1: 5})
    return tmp_path


def test_sound_directory(sound: Path) -> None:
    code, told, errors = run(sound)
    assert (code, errors) == (0, "")
    assert told.endswith("5 files, 11 rows: nothing is wrong\n")
    assert "{1: 5} → {1: 6, 2: 1}" in told
    assert "PROBLEM" not in told
    assert run("--quiet", sound) == (0, "", "")


def test_logs_in_another_directory(sound: Path) -> None:
    logs = sound / "wal"
    logs.mkdir()
    for path in sound.glob("*.xlog"):
        path.rename(logs / path.name)
    code, told, _ = run(sound, "--wal-dir", logs)
    assert code == 0
    assert "5 files, 11 rows" in told


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def first_log(directory: Path) -> Path:
    return directory / file_name(0, XLOG)


def break_checksum(directory: Path) -> None:
    data = first_log(directory).read_bytes()
    flip(first_log(directory), data.index(b"\n\n") + 2 + 25)


def break_snapshot(directory: Path) -> None:
    path = directory / file_name(5, SNAP)
    path.write_bytes(path.read_bytes()[:-4])


def break_name(directory: Path) -> None:
    (directory / file_name(5, SNAP)).rename(directory / file_name(4, SNAP))


def break_type(directory: Path) -> None:
    (directory / file_name(7, XLOG)).rename(directory / file_name(7, SNAP))


def break_chain(directory: Path) -> None:
    (directory / file_name(5, XLOG)).unlink()


def break_beginning(directory: Path) -> None:
    first_log(directory).unlink()
    (directory / file_name(5, SNAP)).unlink()


def break_instance(directory: Path) -> None:
    put(directory, [], {1: 6, 2: 1}, {1: 5}, instance=UUID(int=9))


def break_order(directory: Path) -> None:
    put(directory, [[row(1), row(1)], transaction(2, 4)], {})


def break_transaction(directory: Path) -> None:
    rows = [*transaction(1, 2), *transaction(3, 3)]
    rows[1].flags = 0
    put(directory, [rows], {})


def break_block(directory: Path) -> None:
    rows = [row(1), row(2), *transaction(3, 3)]
    data, _ = packed(rows[:4])
    rest, _ = packed(rows[4:])
    encoder = BlockEncoder()
    head = format_meta(Meta(XLOG, INSTANCE, VClock()))
    first_log(directory).write_bytes(head + encoder.encode_one(data) + encoder.encode_one(rest))


def break_body(directory: Path) -> None:
    bad = row(1)
    bad.body = pack({Key.SPACE_ID: 512})
    put(directory, [[bad, row(2)], transaction(3, 3)], {})


def break_kind(directory: Path) -> None:
    bad = row(1)
    bad.type = 99
    put(directory, [[bad, row(2)], transaction(3, 3)], {})


def break_replica(directory: Path) -> None:
    put(directory, [[row(1), row(1, replica_id=40), row(2)], transaction(3, 3)], {})


def break_numbers(directory: Path) -> None:
    put(directory, [[snap_row(0), snap_row(5)]], {1: 5}, filetype=SNAP)


def lose_rows(directory: Path) -> None:
    put(directory, [[row(1)]], {})


def add_rows(directory: Path) -> None:
    put(directory, [[row(1), row(2)], transaction(3, 3), [row(6)]], {})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (break_checksum, "corrupt at offset"),
        (break_snapshot, "no end marker: the snapshot is not complete"),
        (break_name, "the name says signature 4, the head 5"),
        (break_type, "a file of type XLOG should not be named"),
        (break_chain, "Missing .xlog file between LSN 0 {} and 7 {1: 6, 2: 1}"),
        (break_beginning, "since the newest snapshot"),
        (break_instance, "files of several instances"),
        (break_order, "its LSN is not above 1"),
        (break_transaction, "it belongs to transaction 3 while 1 has not ended"),
        (break_block, "ends inside transaction 3"),
        (break_body, "Missing mandatory field 'TUPLE' in request"),
        (break_kind, "Unknown request type 99"),
        (break_replica, "there is no replica id 40"),
        (break_numbers, "it stands where row 1 should"),
        (lose_rows, "ends at {1: 1}, but the log after it begins at {1: 5}: rows are missing"),
        (add_rows, "ends at {1: 6}, but the log after it begins at {1: 5}: they overlap"),
    ],
)
def test_each_fault_is_named(sound: Path, damage: Callable[[Path], None], words: str) -> None:
    damage(sound)
    code, told, _ = run(sound)
    assert code == 1
    assert words in told
    assert "PROBLEM" in told
    assert "problem" in told.splitlines()[-1]
    assert words in run("--quiet", sound)[1]


def test_rows_behind_the_damage_of_a_snapshot_are_no_further_problems(sound: Path) -> None:
    batches = [[snap_row(0)], [snap_row(1)], [snap_row(2)]]
    path = put(sound, batches, {1: 5}, filetype=SNAP)
    data = bytearray(path.read_bytes())
    data[data.index(snap_row(1).body)] ^= 1
    path.write_bytes(bytes(data))
    code, told, _ = run("--quiet", sound)
    assert code == 1
    assert "tx checksum mismatch" in told
    assert "5 files, 11 rows: 1 problem\n" in told


def test_log_of_a_killed_writer_is_a_note(sound: Path) -> None:
    last = put(sound, [[row(7)], [row(8)]], {1: 6, 2: 1}, {1: 5}, eof=False)
    code, told, _ = run(sound)
    assert code == 0
    assert "note: was not closed" in told
    last.write_bytes(last.read_bytes()[:-2])
    code, told, _ = run(sound)
    assert code == 0
    assert "note: ends in mid-write" in told


def test_leftovers_and_missing_snapshots_are_notes(sound: Path) -> None:
    (sound / file_name(9, SNAP, inprogress=True)).write_bytes(b"half")
    for path in sound.glob("*.snap"):
        path.unlink()
    code, told, _ = run(sound)
    assert code == 0
    assert "never finished; a start removes it" in told
    assert "no snapshot" in told


def test_many_problems_are_counted(sound: Path) -> None:
    put(sound, [[row(1) for _ in range(100)]], {})
    code, told, _ = run(sound)
    assert code == 1
    assert "and 79 more" in told


def test_nothing_to_look_at(tmp_path: Path) -> None:
    code, told, errors = run(tmp_path)
    assert (code, told) == (2, "")
    assert "no .snap or .xlog file" in errors
    code, told, errors = run(tmp_path / "nowhere")
    assert code == 2
    assert "No such file or directory" in errors


@needs_golden
@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_directories_of_a_real_3_9(node: str) -> None:
    """One of them was killed without warning."""
    code, told, _ = run(GOLDEN / "files" / node)
    assert code == 0
    assert told.endswith("nothing is wrong\n")


@needs_golden
def test_a_lost_file_of_a_real_3_9_is_missed(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "files" / "node-1", tmp_path / "copy")
    (tmp_path / "copy").chmod(0o755)
    (tmp_path / "copy" / file_name(3389, XLOG)).unlink()
    code, told, _ = run(tmp_path / "copy")
    assert code == 1
    assert "rows are missing" in told


@pytest.mark.interop
@pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
def test_directory_of_tarantool_2_6(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    script = """
    box.cfg{work_dir = argument, memtx_memory = 64 * 1024 * 1024, log = argument .. '/log', wal_max_size = 20000}
    local s = box.schema.space.create('s')
    s:create_index('pk')
    for i = 1, 500 do s:insert{i, string.rep('x', 100)} end
    box.snapshot()
    for i = 1, 100 do box.begin() s:replace{i} s:replace{i + 1} box.commit() end
    answer(true)
    """
    run_lua(script, cwd=tmp_path / "script", argument=str(work))
    code, told, _ = run(work)
    assert code == 0, told
    assert len(list(work.glob("*.xlog"))) > 2
