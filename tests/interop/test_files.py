"""Directories change hands: what one server wrote the other opens, with every row, type and index."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.faults.workload import Load, create_spaces, judge, make_writers
from tests.interop import dataset
from tests.support import iproto, xlogfile
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.process import Server
from tests.support.tarantool import run_lua, version

pytestmark = needs_tarantool

SMALL = {"wal_max_size": 1 << 16, "checkpoint_count": 3}
"""Small journals, so that there are several."""
OPTIONS = {**SMALL, "schema_version": "2.3.1" if version() < (2, 11) else "3.8.0"}
"""The schema that the installed one reads without an upgrade."""
THEIRS = {**SMALL, **({"memtx_use_mvcc_engine": True} if version() > (2, 6, 0) else {})}


def written_by(server: Server) -> dict[str, Any]:
    """Let `server` write the whole dataset and end in peace; what it then had."""
    with server.start():
        with iproto.Connection(*server.address, timeout=60) as connection:
            dataset.define(connection)
            dataset.fill(connection)
            there = dataset.dump(connection)
        server.stop()
    return there


def opened_by(server: Server) -> dict[str, Any]:
    with server.start():
        with iproto.Connection(*server.address, timeout=60) as connection:
            there = dataset.dump(connection)
        server.stop()
    return there


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert set(one) == set(other)
    for name, rows in one.items():
        assert rows == other[name], name


def test_tarantool_opens_what_headwater_wrote(servers: Servers, tmp_path: Path) -> None:
    there = written_by(servers.subject("shared", **OPTIONS))
    assert len(list((tmp_path / "shared").glob("*.xlog"))) > 2
    same(there, opened_by(servers.tarantool("shared", setup="")))


def test_headwater_opens_what_tarantool_wrote(servers: Servers, tmp_path: Path) -> None:
    there = written_by(servers.tarantool("shared", options=THEIRS))
    assert len(list((tmp_path / "shared").glob("*.xlog"))) > 2
    same(there, opened_by(servers.subject("shared")))


def test_they_take_turns(servers: Servers) -> None:
    """Each opens what the other left and writes on; nothing is lost on the way."""
    writers = make_writers(7)
    ours, theirs = servers.subject("shared", **OPTIONS), servers.tarantool("shared", options=THEIRS)
    with ours.start():
        create_spaces(ours.address)
    for turn in range(6):
        server = theirs if turn % 2 else ours
        with server.start():
            judge(server.address, writers)
            Load(server.address, writers).run(0.1)
            server.stop() if turn % 3 else server.kill()


@pytest.mark.parametrize("writer_is", ["headwater", "tarantool"])
def test_opened_after_a_kill_in_the_middle_of_writing(servers: Servers, writer_is: str) -> None:
    ours, theirs = servers.subject("shared", **OPTIONS), servers.tarantool("shared", options=THEIRS)
    first, second = (ours, theirs) if writer_is == "headwater" else (theirs, ours)
    writers = make_writers(11)
    with first.start():
        create_spaces(first.address)
    for _ in range(5):
        first.start()
        judge(first.address, writers)
        Load(first.address, writers).run(0.1, at_end=first.kill)
    with second.start():
        judge(second.address, writers)


READ = """
local lsns = {}
for _, row in require('xlog').pairs(argument) do table.insert(lsns, row.HEADER.lsn or 0) end
answer(lsns)
"""


def test_tarantools_own_reader_reads_the_files(servers: Servers, tmp_path: Path) -> None:
    """`require('xlog').pairs` of 2.6.0 gives the rows that are there, file by file."""
    server = servers.subject("shared", **OPTIONS)
    written_by(server)
    for path in sorted((tmp_path / "shared").glob("*.[sx]*")):
        if path.suffix not in (".snap", ".xlog"):
            continue
        ours = [header.get(3, 0) for header, _ in xlogfile.read(path).rows()]
        assert run_lua(READ, cwd=tmp_path / "lua", argument=str(path)) == ours, path.name


def test_files_have_the_same_shape(servers: Servers, tmp_path: Path) -> None:
    """Headers, markers and the chain of the files, compared with those of the real one."""
    written_by(servers.subject("ours", **OPTIONS))
    written_by(servers.tarantool("theirs", options=THEIRS))
    for name in ("ours", "theirs"):
        files = [xlogfile.read(path) for path in sorted((tmp_path / name).glob("*.xlog"))]
        before: str | None = None
        for path, file in zip(sorted((tmp_path / name).glob("*.xlog")), files, strict=True):
            assert (file.kind, file.version, file.closed) == ("XLOG", "0.13", True)
            assert sum(xlogfile.vclock(file.meta["VClock"]).values()) == int(path.stem)
            assert file.meta.get("PrevVClock") == before
            assert {"Version", "Instance", "VClock"} <= set(file.meta)
            before = file.meta["VClock"]
        for path in (tmp_path / name).glob("*.snap"):
            file = xlogfile.read(path)
            assert (file.kind, file.version, file.closed) == ("SNAP", "0.13", True)
            assert [header.get(3, 0) for header, _ in file.rows()] == list(range(len(list(file.rows()))))


def test_a_directory_moves_with_its_last_xlog_torn(servers: Servers, tmp_path: Path) -> None:
    """A torn tail is cut by whoever opens it next: all whole transactions before it are there."""
    server = servers.subject("shared", **OPTIONS)
    server.start()
    with iproto.Connection(*server.address) as connection:
        iproto.create_space(connection, 700, "t")
        for n in range(50):
            connection.replace(700, [n, "x" * 20])
    server.kill()
    last = max((tmp_path / "shared").glob("*.xlog"))
    whole = xlogfile.read(last)
    last.write_bytes(last.read_bytes()[: whole.blocks[-1].end - 3])
    shutil.copytree(tmp_path / "shared", tmp_path / "copy")
    for who in (servers.subject("shared"), servers.tarantool("copy", setup="")):
        with who.start(), iproto.Connection(*who.address) as connection:
            assert connection.select(700) == [[n, "x" * 20] for n in range(49)]
