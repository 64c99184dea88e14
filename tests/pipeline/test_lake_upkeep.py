"""What is done with a lake besides writing it: compact, vacuum, rebuild, query, status, from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipeline.lakes import Workload, assert_equal, catch_up, fill, is_equal, log_of, silver_tuples
from tests.support.fixtures import Servers, module_servers
from tests.support.headwater import ROOT
from tests.support.iproto import Connection

from headwater.pipeline.lake.layout import Lake

__all__ = ["module_servers"]


def lake_command(*args: str, code: int = 0, **env: str) -> str:
    """What `headwater lake …` prints; its errors, where it fails as it should."""
    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli", "lake", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **env},
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def source(module_servers: Servers) -> tuple[Connection, Path]:
    server = module_servers.subject("node").start()
    connection = Connection(*server.address)
    Workload(connection, seed=11).write(300, ddl=0.02)
    return connection, server.work_dir


@pytest.fixture
def lake(source: tuple[Connection, Path], tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    charter = made.found(system=False)
    rows = log_of(source[1])
    fill(made, charter, rows, range(100, len(rows), 40))
    catch_up(made, charter, 1)
    return made


def test_compacted_vacuumed_and_rebuilt_it_is_the_same(lake: Lake, source: tuple[Connection, Path]) -> None:
    before = silver_tuples(lake)
    compacted = lake_command("compact", str(lake))
    assert "bronze: " in compacted
    assert "would free" in lake_command("vacuum", str(lake), "--retention", "0h", "--dry-run")
    assert "freed" in lake_command("vacuum", str(lake), "--retention", "0h")
    assert len(list(lake.bronze.glob("*.parquet"))) == 1
    assert silver_tuples(lake) == before
    lake_command("rebuild", str(lake))
    assert_equal(lake, source[0])


def test_what_goes_on_behind_a_compaction(lake: Lake, source: tuple[Connection, Path]) -> None:
    """Batches of a file that holds several are told apart."""
    lake_command("compact", str(lake))
    lake.state.unlink()
    charter = lake.charter()
    catch_up(lake, charter, 1)
    assert is_equal(lake, source[0])


def test_queries(lake: Lake, source: tuple[Connection, Path]) -> None:
    space = min(silver_tuples(lake), key=lambda name: (not name.isidentifier(), name))
    count = len(silver_tuples(lake)[space])
    assert json.loads(lake_command("query", str(lake), f'select count(*) as n from "{space}"', "--json")) == {
        "n": count
    }
    drawn = lake_command("query", str(lake), "select op, lsn from bronze where lsn > 5 order by lsn limit 2")
    assert drawn.splitlines()[0].split() == ["op", "lsn"]
    assert len(drawn.splitlines()) == 3
    wrong = lake_command("query", str(lake), "select nothing from nowhere", code=1)
    assert "Tables: bronze, schema_history" in wrong
    assert "no lake is here" in lake_command("query", str(lake.root.parent / "none"), "select 1", code=1)


def test_status(lake: Lake, source: tuple[Connection, Path]) -> None:
    host, port = source[0].socket.getpeername()
    found = json.loads(lake_command("status", str(lake), "--json", "--hosts", f"{host}:{port}"))
    assert found["bronze_batch"] == found["silver_batch"] > 0
    assert {each["name"]: each["rows"] for each in found["tables"]}.items() >= {
        name: len(rows) for name, rows in silver_tuples(lake).items()
    }.items()
    assert found["servers"][0]["remark"] == "the lake does not follow its set"
    with lake.locked():
        assert "a sync writes into it" in lake_command("status", str(lake))


def test_a_lake_has_one_writer(lake: Lake) -> None:
    with lake.locked():
        told = lake_command("rebuild", str(lake), code=1)
        assert f"process {os.getpid()} writes into it" in told
        told = lake_command("vacuum", str(lake), "--retention", "0h", code=1)
        assert "with a retention below 1 hour" in told


def test_a_sync_that_cannot_begin_says_why(tmp_path: Path) -> None:
    base = ["sync", "--lake", str(tmp_path / "lake"), "--hosts", "127.0.0.1:1"]
    assert "Java 17" in lake_command(*base, code=1, PATH=str(tmp_path), JAVA_HOME="")
    assert "it should be a time" in lake_command(*base, "--trigger", "soon", code=1)
    assert "show in the list of processes" in lake_command("sync", "--lake", "x", "--hosts", "u:p@h:1", code=2)
    assert not (tmp_path / "lake").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert "holds 'mine.txt' and is no lake" in lake_command(*base[:2], str(tmp_path / "full"), *base[3:], code=1)
