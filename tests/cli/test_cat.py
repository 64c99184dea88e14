"""`headwater cat`: what it prints, for whom, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import Any, Self

import pytest
from tests.support.tarantool import EXECUTABLE
from tests.xlog.build import INSTANCE, log, row, transaction
from typer.testing import CliRunner

from headwater.cli import cat
from headwater.vclock import VClock
from headwater.wire.constants import Flag, Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row
from headwater.xlog import XLOG, Meta, file_name


def run(*arguments: object) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(cat.app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout.splitlines(), result.stderr


def lsns(lines: list[str]) -> list[int]:
    return [json.loads(line)["HEADER"]["lsn"] for line in lines]


def space_row(lsn: int, id_: int, name: str) -> Row:
    body = pack({Key.SPACE_ID: 280, Key.TUPLE: [id_, 1, name, "memtx", 0, {}, []]})
    return Row(Type.INSERT, 1, 0, lsn, 1.0, lsn, Flag.COMMIT, body)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two spaces by name, rows of two replicas, a transaction, a CONFIRM."""
    rows = [
        space_row(1, 600, "fruit"),
        space_row(2, 601, "nuts"),
        row(3, "apple", space_id=600, timestamp=100.5),
        row(4, "hazel", space_id=601, timestamp=200.0),
        row(1, "pear", replica_id=2, space_id=600, timestamp=300.0),
        *transaction(5, 2, "tx"),
        Row(Type.RAFT_CONFIRM, 1, 0, 7, 400.0, 7, Flag.COMMIT, pack({Key.REPLICA_ID: 1, Key.LSN: 6})),
        Row(Type.DELETE, 1, 0, 8, 500.0, 8, Flag.COMMIT | Flag.WAIT_SYNC | Flag.WAIT_ACK,
            pack({Key.SPACE_ID: 600, Key.KEY: [3]})),
    ]  # fmt: skip
    path = tmp_path / file_name(0, XLOG)
    path.write_bytes(log([rows]))
    return path


def test_rows_as_json_lines(file: Path) -> None:
    code, lines, errors = run(file)
    assert (code, errors) == (0, "")
    assert lsns(lines) == [3, 4, 1, 5, 6, 7, 8]
    found = [json.loads(line) for line in lines]
    assert found[0] == {
        "HEADER": {"lsn": 3, "replica_id": 1, "type": "INSERT", "timestamp": 100.5},
        "BODY": {"space_id": 600, "tuple": [3, "apple"]},
    }
    assert found[3]["HEADER"] == {"lsn": 5, "replica_id": 1, "type": "INSERT", "timestamp": 1.5, "tsn": 5}
    assert found[4]["HEADER"]["commit"] is True
    assert found[5]["BODY"] == {"2": 1, "3": 6}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--show-system"], [1, 2, 3, 4, 1, 5, 6, 7, 8]),
        (["--space", "600"], [3, 1, 8]),
        (["--space", "nuts"], [4]),
        (["--space", "nuts", "--space", "600"], [3, 4, 1, 8]),
        (["--space", "_space"], [1, 2]),
        (["--space", "nobody"], []),
        (["--replica", "2"], [1]),
        (["--from-lsn", "4", "--to-lsn", "6"], [4, 5, 6]),
        (["--type", "delete"], [8]),
        (["--type", "CONFIRM", "--type", "DELETE"], [7, 8]),
        (["--type", "40"], [7]),
        (["--from-time", "200", "--to-time", "400"], [4, 1]),
        (["--from-time", "1970-01-01T00:08:20+00:00"], [8]),
        (["--to-time", "1970-01-01T00:00:01.600"], [5, 6]),
    ],
)
def test_filters(file: Path, arguments: list[str], expected: list[int]) -> None:
    code, lines, _ = run(file, *arguments)
    assert code == 0
    assert lsns(lines) == expected


def test_table(file: Path) -> None:
    code, lines, _ = run(file, "--table")
    assert code == 0
    assert lines[0].split() == ["LSN", "REPLICA", "TIME", "TYPE", "SPACE", "CONTENTS"]
    assert lines[1].split(maxsplit=6) == [
        "3", "1", "1970-01-01", "00:01:40.500000", "INSERT", "fruit", '[3, "apple"]',
    ]  # fmt: skip
    assert lines[4].endswith("[tx 5]")
    assert lines[5].endswith("[tx 5 ends]")
    assert lines[7].endswith("[3]  [sync]")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--type", "SELECTED"], "'SELECTED' is no type of row"),
        (["--from-time", "yesterday"], "'yesterday' is no time"),
    ],
)
def test_options_that_say_nothing(file: Path, arguments: list[str], words: str) -> None:
    code, lines, errors = run(file, *arguments)
    assert (code, lines) == (2, [])
    assert words in errors


def test_file_that_is_not_there(tmp_path: Path, file: Path) -> None:
    code, lines, errors = run(tmp_path / "none.xlog", file)
    assert code == 1
    assert "none.xlog: No such file or directory" in errors
    assert len(lines) == 7


def test_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.xlog"
    path.write_bytes(b"#!/bin/sh\n\n" + b"x" * 3000)
    code, lines, errors = run(path)
    assert (code, lines) == (1, [])
    assert "headwater cat: " in errors
    assert str(path) in errors


def test_file_that_ends_in_mid_write_is_no_damage(file: Path) -> None:
    data = log([[row(1)], [row(2)]], eof=False)
    file.write_bytes(data[:-3])
    code, lines, errors = run(file)
    assert (code, lsns(lines)) == (0, [1])
    assert "note:" in errors
    assert "last good LSN 1" in errors


def test_corruption_is_told_and_skipped_if_asked(file: Path) -> None:
    data = bytearray(log([[row(1)], [row(2)], [row(3)]]))
    first = log([[row(1)]], eof=False)
    data[len(first) + 22] ^= 1
    file.write_bytes(bytes(data))
    code, lines, errors = run(file)
    assert (code, lsns(lines)) == (1, [1])
    assert f"{file}: tx checksum mismatch (offset {len(first)}, last good LSN 1)" in errors
    code, lines, errors = run("--force", file)
    assert (code, lsns(lines)) == (1, [1, 3])
    assert "corrupt at offset" in errors


def test_values_of_all_kinds_are_printed(file: Path) -> None:
    from decimal import Decimal
    from uuid import UUID

    from headwater.wire.msgpack import Datetime, Ext, Interval

    value = [
        Decimal("1.50"), UUID(int=1), Datetime(0), Interval(day=1), Ext(5, b"\x01"), b"\xff", "\udcff",
        {1: {None: True}}, float("nan"), float("inf"),
    ]  # fmt: skip
    file.write_bytes(log([[row(1, value)]]))
    code, lines, _ = run(file)
    assert code == 0
    assert json.loads(lines[0])["BODY"]["tuple"][1] == [
        "1.50", "00000000-0000-0000-0000-000000000001", "1970-01-01T00:00:00Z", "+1 days", {"ext": 5, "data": "01"},
        "\\xff", "\\xff", {"1": {"None": True}}, "nan", "inf",
    ]  # fmt: skip


def test_values_nested_too_deep_are_cut(file: Path) -> None:
    """Found by fuzzing: what a thousand arrays deep is still a row, and must not end the listing."""
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    odd = row(2)
    odd.body = b"\x83\x10\xcd\x02\x00\x21\x90" + b"\x91" * 500 + b"\x01\x01"
    file.write_bytes(log([[row(1, deep), odd, row(3)]]))
    code, lines, _ = run(file)
    assert code == 0
    assert lsns(lines) == [1, 2, 3]
    assert "…" in lines[0]
    assert "nested deeper" in lines[1]


# ---- following ------------------------------------------------------------------------------------


class Following:
    """`headwater cat --follow` as a process whose lines can be waited for."""

    def __init__(self, *arguments: object) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "headwater.cli", "cat", "--follow", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
        )
        self.lines: Queue[str] = Queue()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def next(self) -> Any:
        return json.loads(self.lines.get(timeout=30))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)
        self.thread.join(10)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def test_follow_prints_what_is_written_later_and_goes_on_in_the_next_file(tmp_path: Path) -> None:
    first, second = tmp_path / file_name(0, XLOG), tmp_path / file_name(2, XLOG)
    whole = log([[row(1)], [row(2)]])
    one = len(log([[row(1)]], eof=False))
    first.write_bytes(whole[: one + 10])
    with Following(first) as following:
        assert following.next()["HEADER"]["lsn"] == 1
        with first.open("ab") as appended:
            appended.write(whole[one + 10 :])
        assert following.next()["HEADER"]["lsn"] == 2
        meta = Meta(XLOG, INSTANCE, VClock({1: 2}), VClock())
        finished = tmp_path / "new"
        finished.write_bytes(log([[row(3)]], meta=meta, eof=False))
        finished.rename(second)
        assert following.next()["HEADER"]["lsn"] == 3


def test_follow_leaves_a_file_that_its_writer_did_not_finish(tmp_path: Path) -> None:
    first = tmp_path / file_name(0, XLOG)
    first.write_bytes(log([[row(1)]], eof=False))
    (tmp_path / file_name(1, XLOG)).write_bytes(log([[row(2)]], meta=Meta(XLOG, INSTANCE, VClock({1: 1}), VClock())))
    with Following(first) as following:
        assert [following.next()["HEADER"]["lsn"] for _ in range(2)] == [1, 2]


@pytest.mark.interop
@pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
def test_follow_a_real_tarantool(tmp_path: Path) -> None:
    from tests.support.tarantool import TarantoolServer

    server = TarantoolServer(
        tmp_path / "server",
        setup="s = box.schema.space.create('s', {if_not_exists = true}) s:create_index('pk', {if_not_exists = true}) "
        "require('fiber').create(function() for i = 1, 20 do s:replace{i} require('fiber').sleep(0.01) end end)",
    )
    server.start()
    try:
        (path,) = (tmp_path / "server").glob("*.xlog")
        with Following("--space", "s", path) as following:
            assert [following.next()["BODY"]["tuple"] for _ in range(20)] == [[number] for number in range(1, 21)]
    finally:
        server.stop()
