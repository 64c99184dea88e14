"""`headwater diff` as its users meet it: live nodes of both kinds, data directories, snapshots."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import iproto
from tests.support.cluster import Cluster, Node
from tests.support.fixtures import needs_tarantool
from tests.support.headwater import ROOT, HeadwaterServer
from tests.support.process import free_port

TIME = 120.0
SPACE, HASHED, PAIRS, LOCAL = 600, 601, 602, 603


def diff(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater.cli", "diff", *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, timeout=TIME, check=False, env=env)


def seen(*args: object) -> tuple[int, dict[str, Any]]:
    done = diff("--json", *args)
    return done.returncode, json.loads(done.stdout)


def differing(shown: dict[str, Any]) -> dict[str, list[Any]]:
    """Of each space that differs: its tuples that do."""
    return {
        space["space"]: [[each["a"], each["b"]] for each in space["differences"]]
        for space in shown["spaces"]
        if not space["same"]
    }


def make_spaces(connection: iproto.Connection) -> None:
    """Keys of several kinds, and enough tuples for several pages."""
    iproto.create_space(connection, SPACE, "plain")
    iproto.create_space(connection, HASHED, "hashed", indexes=[["pk", "hash", {"unique": True}, [[0, "unsigned"]]]])
    iproto.create_space(connection, PAIRS, "pairs", parts=[[2, "string"], [0, "integer"]])
    for number in range(300):
        connection.insert(SPACE, [number, "x" * number, {"a": [number, None]}])
        connection.insert(HASHED, [number, -number])
        connection.insert(PAIRS, [-number, 1.5, f"key {number % 7}"])
    connection.insert(SPACE, [1000, "y" * 900_000])


def uri(node: Node) -> str:
    return f"127.0.0.1:{node.server.port}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("pair"), "tt") as cluster:
        cluster.start()
        make_spaces(cluster[0].conn)
        cluster.settle()
        yield cluster


# ---- Tarantool 2.6.0


@needs_tarantool
def test_a_pair_of_2_6_that_replicates(pair: Cluster) -> None:
    code, shown = seen(uri(pair[0]), uri(pair[1]))
    assert (code, shown["same"], shown["notes"]) == (0, True, [])
    assert shown["a"]["vclock"] == shown["b"]["vclock"] == {str(id_): lsn for id_, lsn in pair[0].vclock().items()}
    counts = {space["space"]: (space["rows_a"], space["rows_b"]) for space in shown["spaces"]}
    assert (counts["plain"], counts["hashed"], counts["pairs"]) == ((301, 301), (300, 300), (300, 300))
    assert counts["_cluster"] == (2, 2)
    done = diff("--no-system", uri(pair[0]), uri(pair[1]))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "same: 901 tuples in 3 spaces")


@needs_tarantool
def test_a_live_node_and_its_own_directory(pair: Cluster) -> None:
    code, shown = seen(uri(pair[0]), pair[0].server.work_dir)
    assert (code, differing(shown)) == (0, {})
    assert shown["a"]["vclock"] == shown["b"]["vclock"]


@needs_tarantool
def test_what_one_node_has_and_the_other_one_has_not(pair: Cluster, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(pair[1].server.work_dir, before)
    first, second = pair[0].conn, pair[1].conn
    vclock = pair[0].vclock()
    first.replace(SPACE, [7, "changed"])
    first.ask(iproto.DELETE, {iproto.SPACE_ID: SPACE, iproto.INDEX_ID: 0, iproto.KEY: [8]})
    second.insert(HASHED, [5000, 1])
    second.replace(PAIRS, [-3, 2.5, "key 3"])
    pair.settle()
    code, shown = seen(uri(pair[0]), before)
    assert code == 1
    rows = [8, "x" * 8, {"a": [8, None]}]
    found = differing(shown)
    assert sorted(found["plain"], key=repr) == [[None, rows], [[7, "changed"], [7, "x" * 7, {"a": [7, None]}]]]
    assert found["hashed"] == [[[5000, 1], None]]
    assert found["pairs"] == [[[-3, 2.5, "key 3"], [-3, 1.5, "key 3"]]]
    assert shown["b"]["vclock"] == {str(id_): lsn for id_, lsn in vclock.items()}
    ids = sorted((pair[0].id, pair[1].id))
    assert shown["notes"] == [
        f"they stand at different vclocks: B has not got 4 rows (2 of replica {ids[0]}, 2 of replica {ids[1]})"
    ]
    text = diff("--space", "hashed", "--space", str(PAIRS), before, uri(pair[1]))
    assert text.returncode == 1
    assert text.stdout.splitlines()[2:] == [
        "space hashed: different; A has 300 tuples, B has 301",
        "    only in B  [5000, 1]",
        "space pairs: different; A has 300 tuples, B has 300",
        '    in A       [-3, 1.5, "key 3"]',
        '      in B     [-3, 2.5, "key 3"]',
        f"note: {shown['notes'][0].replace('B has', 'A has')}",
        "different: 2 of 2 spaces",
    ]


@needs_tarantool
def test_local_and_temporary_spaces_of_2_6_are_left_out(pair: Cluster) -> None:
    first = pair[0].conn
    for id_, name, options in ((LOCAL, "at_home", {"group_id": 1}), (LOCAL + 1, "brief", {"temporary": True})):
        iproto.create_space(first, id_, name, options=options)
        first.insert(id_, [1])
    first.eval("box.space.at_home:truncate()")
    pair.wait_vclock_equal()
    code, shown = seen(uri(pair[0]), uri(pair[1]))
    assert (code, differing(shown)) == (0, {})


# ---- Headwater


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HeadwaterServer]:
    with HeadwaterServer(tmp_path / "node").start() as server:
        with iproto.Connection(*server.address) as connection:
            make_spaces(connection)
        yield server


def test_a_headwater_node_its_directory_and_its_snapshot(node: HeadwaterServer) -> None:
    address = f"127.0.0.1:{node.port}"
    assert diff(address, node.work_dir).returncode == 0
    with iproto.Connection(*node.address) as connection:
        connection.call("box.snapshot")
        newest = max(node.work_dir.glob("*.snap"))
        assert diff(address, newest).returncode == 0
        connection.insert(SPACE, [9999])
    code, shown = seen(address, newest)
    assert (code, differing(shown)) == (1, {"plain": [[[9999], None]]})
    code, shown = seen(node.work_dir, newest)
    assert (code, differing(shown)) == (1, {"plain": [[[9999], None]]})
    assert not list(node.work_dir.glob("*.corrupted")), "nothing is changed by who only reads"


def test_tuples_beyond_the_limit(node: HeadwaterServer, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(node.work_dir, copied)
    with iproto.Connection(*node.address) as connection:
        for number in range(20):
            connection.replace(SPACE, [number])
    done = diff("--space", "plain", "--limit", "3", f"127.0.0.1:{node.port}", copied)
    assert (done.returncode, done.stdout.count("in A"), done.stdout.count("in B")) == (1, 3, 3)
    assert "    and more (--limit)\n" in done.stdout
    assert done.stdout.endswith("different: 1 of 1 spaces\n")
    _, shown = seen("--limit", "0", f"127.0.0.1:{node.port}", copied)
    assert len(differing(shown)["plain"]) == 20


def test_who_may_not_read_cannot_compare(tmp_path: Path) -> None:
    with HeadwaterServer(tmp_path / "node", dev=False).start() as server:
        done = diff(f"127.0.0.1:{server.port}", server.work_dir)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Read access to space '_space' is denied for user 'guest'" in done.stderr


# ---- what cannot be compared


def test_a_socket_file_is_an_address(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(path))
        done = diff(path, path)
    assert done.returncode == 2
    assert done.stderr == f"headwater diff: cannot connect to unix/:{path}: Connection refused\n"


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("absent/", "absent/: No such file or directory"),
        ("some/absent.snap", "some/absent.snap: No such file or directory"),
        ("file.xlog", "file.xlog: Neither a directory nor a .snap file"),
        ("empty", "empty: no .snap file is there"),
        ("broken.snap", "broken.snap"),
        ("host", "bad URI 'host'"),
    ],
)
def test_places_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, problem: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.xlog").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.snap").write_bytes(b"SNAP\n0.13\nnonsense")
    done = diff(place, place)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_nobody_there() -> None:
    port = free_port()
    done = diff(f"127.0.0.1:{port}", f"127.0.0.1:{port}")
    assert (done.returncode, done.stderr) == (
        2,
        f"headwater diff: cannot connect to 127.0.0.1:{port}: Connection refused\n",
    )
