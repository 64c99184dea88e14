"""A full disk, a directory that cannot be written, a directory that is taken, files of somebody else."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import iproto, xlogfile
from tests.support.disks import small_tmpfs
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.process import Server, ServerDiedError
from tests.support.subjects import STAND_IN, snapshot

WAL_IO = 40
SPACE = 600
ROW = 20_000
"""Bytes of random text in a row: it does not compress."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_tmpfs(tmp_path / "small", 24) as path:
        yield path


def fill(connection: iproto.Connection, first: int, count: int = 5000) -> tuple[list[int], iproto.Reply | None]:
    """Insert until a write is refused; the keys that were acknowledged, and the refusal."""
    done: list[int] = []
    for key in range(first, first + count):
        body = {iproto.SPACE_ID: SPACE, iproto.TUPLE: [key, os.urandom(ROW // 2).hex()]}
        reply = connection.ask(iproto.INSERT, body)
        if reply.failed:
            return done, reply
        done.append(key)
    return done, None


def keys(connection: iproto.Connection) -> list[int]:
    return [row[0] for row in connection.select(SPACE)]


def test_full_disk(servers: Servers, small: Path) -> None:
    """It refuses writes with the code for that, keeps the old data readable, and goes on when there is room."""
    filler = small / "filler"
    filler.write_bytes(b"f" * (12 << 20))
    server = servers.subject(small / "data", wal_max_size=2 << 20)
    with server.start():
        with iproto.Connection(*server.address) as connection:
            iproto.create_space(connection, SPACE, "t")
            done, refusal = fill(connection, 0)
            assert refusal is not None, "the disk never filled up"
            assert refusal.code == WAL_IO, refusal.answer()
            assert len(done) > 50
            assert keys(connection) == done, "what was acknowledged is there, what was refused is not"
            again, refusal = fill(connection, 10_000, count=20)
            assert refusal is not None
            filler.unlink()
            more, refusal = fill(connection, 20_000, count=50)
            assert refusal is None, f"there is room again: {refusal.answer()}"
            assert keys(connection) == done + again + more
        server.kill()
        server.start()
        with iproto.Connection(*server.address) as connection:
            assert keys(connection) == done + again + more


def test_full_disk_in_a_snapshot(servers: Servers, small: Path) -> None:
    """A snapshot that does not fit is an error; the journal, the data and the older snapshot stay."""
    server = servers.subject(small / "data")
    with server.start():
        with iproto.Connection(*server.address) as connection:
            iproto.create_space(connection, SPACE, "t")
            done, _ = fill(connection, 0, count=400)
            (small / "filler").write_bytes(b"f" * (22 << 20) if not done else b"")
            room = shutil.disk_usage(small).free
            (small / "filler").write_bytes(b"f" * max(0, room - (1 << 20)))
            before = sorted(path.name for path in (small / "data").glob("*.snap"))
            with pytest.raises(iproto.ServerError):
                snapshot(connection)
            assert sorted(path.name for path in (small / "data").glob("*.snap")) == before
            assert keys(connection) == done
            (small / "filler").unlink()
            snapshot(connection)
            assert len(list((small / "data").glob("*.snap"))) == len(before) + 1
        server.kill()
        server.start()
        with iproto.Connection(*server.address) as connection:
            assert keys(connection) == done


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(path)], check=True)


def test_empty_directory_that_cannot_be_written(servers: Servers, small: Path) -> None:
    """A new node says so and ends."""
    (small / "data").mkdir()
    server = servers.subject(small / "data")
    server.prepare()
    server.prepare = lambda: None  # type: ignore[method-assign]
    with read_only(small):
        assert "Read-only file system" in refused_to_start(server)


def test_directory_that_can_no_longer_be_written(servers: Servers, small: Path) -> None:
    """It ends and says why, or it serves what it has, refuses writes, and takes them when it can write again."""
    server = servers.subject(small / "data")
    some_data(server, 10)
    names = {path.name: path.read_bytes() for path in (small / "data").glob("*.[sx]*")}
    server.prepare = lambda: None  # type: ignore[method-assign]
    with read_only(small):
        if STAND_IN:
            refused_to_start(server)
            return
        server.start()
        with iproto.Connection(*server.address) as connection:
            assert keys(connection) == list(range(10))
            assert connection.ask(iproto.INSERT, {iproto.SPACE_ID: SPACE, iproto.TUPLE: [10]}).code == WAL_IO
            assert keys(connection) == list(range(10))
    assert {path.name: path.read_bytes() for path in (small / "data").glob("*.[sx]*")} == names
    with iproto.Connection(*server.address) as connection:
        connection.insert(SPACE, [11])
    server.kill()
    with server.start(), iproto.Connection(*server.address) as connection:
        assert keys(connection) == [*range(10), 11]


def refused_to_start(server: Server) -> str:
    """It ends by itself with a code that is not 0 and without a traceback; the end of its log."""
    try:
        server.work_dir.mkdir(exist_ok=True)
    except OSError:
        server.work_dir = server.work_dir.parent
    server.spawn()
    assert server.process is not None
    output = server.output
    code = server.wait_end(30)
    assert output is not None
    assert code != 0, output.tail()
    assert "Traceback" not in "\n".join(output.lines), output.tail(60)
    return output.tail()


def test_a_file_in_place_of_the_directory(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    server = servers.subject("file")
    if STAND_IN:
        pytest.skip("the harness writes the script of 2.6.0 into its directory")
    server.spawn_in(tmp_path)
    assert server.output is not None
    output = server.output
    assert server.wait_end(30) != 0
    assert "Traceback" not in "\n".join(output.lines), output.tail(60)


def test_two_processes_never_share_a_directory(servers: Servers) -> None:
    first = servers.subject("shared")
    with first.start():
        with iproto.Connection(*first.address) as connection:
            iproto.create_space(connection, SPACE, "t")
        second = servers.subject("shared")
        text = refused_to_start(second)
        assert "lock" in text.lower() or "hot_standby" in text or "another" in text.lower(), text
        with iproto.Connection(*first.address) as connection:
            assert connection.insert(SPACE, [1, "still here"]) == [[1, "still here"]]


@needs_tarantool
def test_tarantool_and_headwater_never_share_a_directory(servers: Servers) -> None:
    """Both lock the directory in the same way."""
    ours, theirs = servers.subject("shared", schema_version="2.3.1"), servers.tarantool("shared")
    with ours.start():
        refused_to_start(theirs)
        assert ours.running
        ours.stop()
    with theirs.start():
        refused_to_start(servers.subject("shared"))
        assert theirs.running


def some_data(server: Server, rows: int) -> None:
    with server.start():
        with iproto.Connection(*server.address) as connection:
            iproto.create_space(connection, SPACE, "t")
            for n in range(rows):
                connection.insert(SPACE, [n, "x" * 30])
        server.stop()


@pytest.mark.skipif(STAND_IN, reason="2.6.0 appends to a foreign file (gh-12087)")
@pytest.mark.parametrize("closed", [True, False])
def test_gh_12087_a_foreign_xlog_is_never_appended_to(servers: Servers, tmp_path: Path, closed: bool) -> None:
    """An xlog of another instance lies where ours would go on: it keeps its bytes, whatever the node decides."""
    ours, foreign = servers.subject("ours"), servers.subject("foreign")
    some_data(ours, 10)
    some_data(foreign, 10)
    last = max((tmp_path / "ours").glob("*.xlog"))
    body = xlogfile.read(last)
    after = sum(xlogfile.vclock(body.meta["VClock"]).values()) + len(list(body.rows()))
    source = max((tmp_path / "foreign").glob("*.xlog"))
    data = source.read_bytes()
    if not closed:
        data = data.removesuffix(xlogfile.EOF)
    vclock = f"VClock: {{1: {after}}}".encode()
    head, rest = data.split(b"\n\n", 1)
    lines = [vclock if line.startswith(b"VClock") else line for line in head.split(b"\n")]
    planted = tmp_path / "ours" / f"{after:020d}.xlog"
    planted.write_bytes(b"\n".join(lines) + b"\n\n" + rest)
    before, refused = planted.read_bytes(), ""
    try:
        with ours.start(), iproto.Connection(*ours.address) as connection:
            assert keys(connection) == list(range(10))
            connection.insert(SPACE, [100, "new"])
    except ServerDiedError as error:
        refused = str(error)
    assert "Traceback" not in refused
    assert planted.read_bytes() == before, "the foreign file was changed"


def test_leftovers_are_removed(servers: Servers, tmp_path: Path) -> None:
    """`.inprogress` files of a crash do not keep it from starting or from making the next one."""
    server = servers.subject("data")
    some_data(server, 10)
    for name in ("00000000000000000099.snap.inprogress", "00000000000000000012.xlog.inprogress"):
        (tmp_path / "data" / name).write_bytes(b"SNAP\n0.13\n")
    with server.start(), iproto.Connection(*server.address) as connection:
        assert keys(connection) == list(range(10))
        connection.insert(SPACE, [10, "x"])
        snapshot(connection)
        snapshot(connection)
    if not STAND_IN:
        assert not list((tmp_path / "data").glob("*.inprogress"))
