"""`headwater status` as its users meet it: on a live pair of Tarantool 2.6.0, on what a 3.x answers, on nobody."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest
from tests.cli.test_statusnode import ONE, TWO
from tests.support.cluster import Cluster
from tests.support.fixtures import needs_tarantool, servers
from tests.support.headwater import ROOT, HeadwaterServer
from tests.support.iproto import frame
from tests.support.process import Output, free_port

__all__ = ["servers"]

TIME = 60.0
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}


def status(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater.cli", "status", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIME, check=False, env=ENV)


def seen(*args: object) -> tuple[int, dict[str, Any]]:
    done = status("--json", *args)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


# ---- a live pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("pair"), "tt") as cluster:
        cluster.start()
        follow_each_other(cluster)
        yield cluster


def follow_each_other(pair: Cluster) -> None:
    """What one of them lacked while the other was still starting, it asks for again a moment later."""
    pair.wait_follow(pair[0], pair[1])
    pair.wait_follow(pair[1], pair[0])


def uri(cluster: Cluster, number: int) -> str:
    return f"127.0.0.1:{cluster[number].server.port}"


@needs_tarantool
def test_one_member_of_a_pair_of_2_6_leads_to_the_other(pair: Cluster) -> None:
    code, shown = seen(uri(pair, 1))
    assert (code, shown["healthy"], shown["reasons"]) == (0, True, [])
    assert {node["address"] for node in shown["nodes"]} == {uri(pair, 0), uri(pair, 1)}
    assert [node["id"] for node in shown["nodes"]] == [1, 2]
    assert {node["version"] for node in shown["nodes"]} == {"Tarantool 2.6.0"}
    uuids = [node["uuid"] for node in shown["nodes"]]
    assert [(link["follower"], link["leader"]) for link in shown["links"]] == [
        (uuids[0], uuids[1]),
        (uuids[1], uuids[0]),
    ]
    for link in shown["links"]:
        assert (link["upstream"]["status"], link["downstream"]["status"], link["rows_behind"]) == (
            "follow",
            "follow",
            0,
        )
        assert link["upstream"]["lag"] is not None


@needs_tarantool
def test_both_members_named_are_asked_once(pair: Cluster) -> None:
    done = status(uri(pair, 0), f"localhost:{pair[1].server.port}")
    assert done.returncode == 0
    assert done.stdout.count("Tarantool 2.6.0") == 2
    assert done.stdout.rstrip().endswith("healthy")


@needs_tarantool
def test_peers_are_left_alone_when_that_is_asked_for(pair: Cluster) -> None:
    code, shown = seen("--no-follow", uri(pair, 0))
    assert (code, len(shown["nodes"])) == (0, 1)
    assert shown["not_asked"] == [{"address": uri(pair, 1), "named_by": uri(pair, 0)}]


@needs_tarantool
def test_a_paused_and_a_dead_member(pair: Cluster) -> None:
    pair[1].pause()
    code, shown = seen("--timeout", "0.5", uri(pair, 0))
    assert (code, shown["healthy"]) == (1, False)
    assert f"{uri(pair, 1)}, which {uri(pair, 0)} follows, cannot be asked: timed out" in shown["reasons"]
    pair[1].resume()
    pair[1].kill()
    code, shown = seen(uri(pair, 0))
    assert code == 1
    assert [one["address"] for one in shown["unreachable"]] == [uri(pair, 1)]
    assert any("does not follow" in reason and "disconnected" in reason for reason in shown["reasons"])
    pair[1].start()
    follow_each_other(pair)
    pair.settle()
    assert seen(uri(pair, 0))[0] == 0


@needs_tarantool
def test_watching_until_it_is_interrupted(pair: Cluster) -> None:
    command = [sys.executable, "-m", "headwater.cli", "status", "--watch", "--interval", "0.1", uri(pair, 0)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENV) as process:
        assert process.stdout is not None
        output = Output(os.dup(process.stdout.fileno()))
        try:
            first = output.wait_for("^healthy", TIME)
            assert first is not None
            assert output.wait_for("^healthy", TIME, start=len(output.lines)) is not None, "it looks again"
            process.send_signal(signal.SIGINT)
            assert process.wait(TIME) == 0
        finally:
            process.kill()


# ---- what a 3.x answers


class Recorded:
    """Answers every CALL with what was recorded under its name, as a server of that version."""

    def __init__(self, version: str, uuid: str, answers: Mapping[str, object]) -> None:
        self.version = version
        self.uuid = uuid
        self.answers = answers
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self.socket.accept()
            except OSError:
                return
            with link, link.makefile("rb") as stream:
                line = f"Tarantool {self.version} (Binary) {self.uuid}"
                link.sendall(f"{line:<63}\n{'A' * 44:<63}\n".encode())
                while head := stream.read(5):
                    packet = msgpack.Unpacker(strict_map_key=False)
                    packet.feed(stream.read(int.from_bytes(head[1:], "big")))
                    header, body = packet
                    answer = self.answers.get(body[0x22])
                    link.sendall(frame({0: 0, 1: header[1], 5: 80}, {0x30: [] if answer is None else [answer]}))

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(TIME)


SET = "2c2edea2-5db9-4271-a165-e4a83c7ef907"
OF_3_9: dict[str, Any] = {
    "version": "3.9.0-entrypoint-84-g67428d092e",
    "id": 1,
    "ro": True,
    "ro_reason": "election",
    "uuid": ONE,
    "pid": 10537,
    "cluster": {"name": None},
    "schema_version": 95,
    "listen": "127.0.0.1:26152",
    "replication_anon": {"count": 0},
    "health": {"liveness": {"checks": [], "verdict": True}, "readiness": {"status": True, "checks": {}}},
    "package": "Tarantool",
    "election": {"leader_idle": 1512.101416931, "state": "follower", "vote": 0, "term": 7, "leader": 2},
    "signature": 2022,
    "synchro": {
        "queue": {"owner": 2, "size": 0, "confirm_lag": 0, "busy": False, "age": 0, "len": 3, "term": 1},
        "quorum": 2,
    },
    "status": "running",
    "hostname": "vm",
    "vclock": {0: 6, 1: 1100, 2: 16},
    "uptime": 4,
    "lsn": 1100,
    "sql": [],
    "vinyl": [],
    "memory": [],
    "gc": [],
    "replicaset": {"uuid": SET, "name": None},
    "name": "storage-a",
    "config": {"status": "uninitialized", "meta": {"last": []}, "hierarchy": [], "alerts": []},
}
"""What a live one answered, with a name, a leader elsewhere and a queue put in."""


@pytest.fixture
def recorded() -> Iterator[Any]:
    made: list[Recorded] = []

    def make(*args: Any) -> Recorded:
        made.append(Recorded(*args))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_what_a_3_9_answers(recorded: Any) -> None:
    peer = f"replicator@127.0.0.1:{free_port()}"
    members = {
        1: {"id": 1, "uuid": ONE, "lsn": 1100, "name": "storage-a"},
        2: {
            "id": 2,
            "uuid": TWO,
            "lsn": 16,
            "upstream": {"status": "follow", "idle": 0.0155, "peer": peer, "lag": 5.03e-05},
            "name": None,
            "downstream": {"status": "follow", "idle": 0.0161, "vclock": {1: 1090, 2: 16}, "lag": 0.5},
        },
    }
    gc = {
        "consumers": [{"name": f"replica {TWO}", "signature": 1106, "vclock": {1: 1090, 2: 16}}],
        "signature": 5,
        "vclock": {1: 5},
        "checkpoints": [],
        "wal_retention_vclock": {},
        "is_paused": False,
        "checkpoint_is_in_progress": False,
    }
    server = recorded("3.9.0", ONE, {"box.info": {**OF_3_9, "replication": members}, "box.info.gc": gc})
    code, shown = seen("--no-follow", server.address)
    [node] = shown["nodes"]
    assert (node["name"], node["version"], node["ro_reason"]) == ("storage-a", "Tarantool 3.9.0", "election")
    assert (node["replicaset_uuid"], node["lsn"], node["status"]) == (SET, 1100, "running")
    assert node["election"] == {"state": "follower", "term": 7, "leader": 2}
    assert (node["queue_length"], node["queue_owner"], node["gc_signature"]) == (3, 2, 5)
    up, down = shown["links"]
    assert (up["leader"], up["upstream"]["status"], up["rows_behind"]) == (TWO, "follow", None)
    assert (down["leader"], down["downstream"]["lag"], down["rows_behind"]) == (ONE, 0.5, 10)
    assert (code, shown["reasons"]) == (1, [f"no node is writable ({server.address}: election)"])
    text = status(server.address).stdout
    assert "1 storage-a" in text
    assert "no: election" in text
    assert "10 rows (10 of replica 1)" in text
    assert "3 synchronous transactions wait for their quorum" in text
    assert "keeps its journal" not in text, "the replica is connected"


def test_an_answer_that_is_no_map(recorded: Any) -> None:
    done = status(recorded("3.3.0", ONE, {"box.info": 5}).address)
    assert done.returncode == 2
    assert "what it answers to box.info is no map" in done.stdout
    assert "no node could be asked" in done.stderr


# ---- who may not look, and who is not there


def test_a_guest_who_may_call_nothing_sees_the_ballot_and_is_told_what_to_grant(tmp_path: Path) -> None:
    with HeadwaterServer(tmp_path / "node", dev=False).start() as node:
        code, shown = seen(f"127.0.0.1:{node.port}")
        [only] = shown["nodes"]
        assert (code, only["id"], only["ro"]) == (1, 0, False)
        assert only["version"] == "speaks 3.8.0"
        assert "Execute access to function 'box.info' is denied for user 'guest'" in only["denied"]
        assert "box.schema.user.grant('guest', 'execute', 'function', NAME)" in only["denied"]


def test_a_single_headwater_node(tmp_path: Path) -> None:
    with HeadwaterServer(tmp_path / "node").start() as node:
        code, shown = seen(f"127.0.0.1:{node.port}")
        [only] = shown["nodes"]
        assert (code, only["id"], only["status"], only["ro"]) == (0, 1, "running", False)
        assert shown["links"] == []


def test_nobody_there() -> None:
    done = status(f"127.0.0.1:{free_port()}")
    assert done.returncode == 2
    assert "unreachable: Connection refused" in done.stdout
    assert done.stderr == "headwater status: no node could be asked\n"


def test_a_uri_that_is_none() -> None:
    done = status("127.0.0.1:port:1")
    assert done.returncode == 2
    assert done.stderr.startswith("headwater status: ")
