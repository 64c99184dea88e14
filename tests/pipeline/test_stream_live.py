"""The stream of a live server of each kind, its reader driven as Spark drives it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Self

import pytest
from tests.pipeline.streams import (
    POINTS,
    SPACE,
    Checkpoint,
    Killed,
    Pump,
    assert_no_gap,
    content,
    hosts,
    make_space,
    spool,
    state,
    vclock_of,
    write,
)
from tests.support.fixtures import Servers
from tests.support.iproto import DELETE, KEY, SPACE_ID, Connection
from tests.support.process import Server
from tests.support.subjects import snapshot
from tests.support.tarantool import EXECUTABLE
from tests.support.waiting import wait_until

from headwater.pipeline.errors import CheckpointTaken, DataLost

KINDS = [
    "headwater",
    pytest.param("tarantool", marks=pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")),
]


def start(servers: Servers, kind: str, name: str = "server", **options: object) -> Server:
    options = {"replication_timeout": 0.2, **options}
    made = servers.tarantool(name, options=options) if kind == "tarantool" else servers.subject(name, **options)
    return made.start()


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Server:
    made = start(servers, request.param)
    make_space(made)
    return made


class Writer(threading.Thread):
    """Goes on until it is told to stop."""

    def __init__(self, server: Server, pause: float = 0.002) -> None:
        super().__init__(daemon=True)
        self.pause = pause
        self.server = server
        self.keys = 0
        self._ended = threading.Event()

    def run(self) -> None:
        with Connection(*self.server.address) as connection:
            while not self._ended.is_set():
                write(self.server, self.keys % 3000, self.keys % 3000 + 50, f"{self.keys} ")
                connection.ask(DELETE, {SPACE_ID: SPACE, KEY: [self.keys % 2999]})
                self.keys += 50
                self._ended.wait(self.pause)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(10)


def test_snapshot_and_changes_under_load_come_to_what_the_source_has(server: Server, tmp_path: Path) -> None:
    write(server, 0, 3000)
    options = {"hosts": hosts(server), "spoolDir": spool(tmp_path), "maxRowsPerTrigger": "900"}
    with Writer(server) as writer, Pump(options) as pump:
        wait_until(lambda: writer.keys > 500, 20, "there is load")
        pump.run_to(vclock_of(server))
        done = writer.keys
        wait_until(lambda: writer.keys > done + 500, 20, "there is load")
        pump.run_to(vclock_of(server))
        writer.__exit__()
        pump.run_to(vclock_of(server))
    mark = pump.checkpoint
    assert state(mark) == content(server)
    assert_no_gap(mark)
    assert mark.position["vclock"] == {"1": vclock_of(server)[1]}
    assert max(table.num_rows for table in mark.sink.values()) <= 900
    snapshot_rows = [row["lsn"] for row in mark.rows(None) if not row["replica_id"]]
    assert snapshot_rows == sorted(set(snapshot_rows))
    assert {row["replicaset"] for row in mark.rows(None)} == set(json.loads(mark.initial)["sets"])


def test_a_driver_that_is_killed_at_any_point_of_a_batch_leaves_neither_gap_nor_twin(
    server: Server, tmp_path: Path
) -> None:
    write(server, 0, 4000)
    with Connection(*server.address) as connection:
        snapshot(connection)
    options = {"hosts": hosts(server), "spoolDir": spool(tmp_path), "maxRowsPerTrigger": "500"}
    mark, keys = Checkpoint(), 4000
    for _ in range(3):
        for point in POINTS:
            with Pump(options, mark) as pump:
                pump.run(1)
                write(server, keys, keys + 300)
                keys += 300
                pump.kill_at = point
                with pytest.raises(Killed):
                    pump.run_on()
    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
    assert state(mark) == content(server)
    assert_no_gap(mark)
    assert len(mark.tuples()) == keys
    uuids = {json.loads(text)["sets"].popitem()[1]["uuid"] for text in (mark.initial, *mark.offsets)}
    assert len(uuids) == 1


def test_the_server_that_is_followed_is_killed_and_comes_back(server: Server, tmp_path: Path) -> None:
    write(server, 0, 2000)
    with Connection(*server.address) as connection:
        snapshot(connection)
    options = {"hosts": hosts(server), "spoolDir": spool(tmp_path), "maxRowsPerTrigger": "700"}
    with Pump(options) as pump:
        for round_ in range(3):
            pump.run(2)
            server.kill()
            pump.run(3)
            server.start()
            write(server, 2000 + 100 * round_, 2100 + 100 * round_)
        pump.run_to(vclock_of(server))
    assert state(pump.checkpoint) == content(server)
    assert_no_gap(pump.checkpoint)


def test_a_second_driver_with_the_checkpoint_is_told_so(server: Server, tmp_path: Path) -> None:
    options = {"hosts": hosts(server), "spoolDir": spool(tmp_path), "leaseTimeout": "300ms"}
    with Pump(options) as first:
        first.run_to(vclock_of(server))
        with Pump(options, first.checkpoint) as second, pytest.raises(CheckpointTaken) as caught:
            second.run_on()
        assert "Another driver streams with this checkpoint: process " in str(caught.value)
        # On another machine there is no lock to be seen: the server refuses.
        elsewhere = {**options, "spoolDir": str(tmp_path / "elsewhere")}
        with Pump(elsewhere, first.checkpoint) as third, pytest.raises(CheckpointTaken) as caught:
            third.run_on()
        assert f"at 127.0.0.1:{server.port}" in str(caught.value)
        write(server, 0, 10)
        first.run_to(vclock_of(server))
    assert len(first.checkpoint.tuples()) == 10
    with Pump(options, first.checkpoint) as next_one:
        next_one.run()


def test_rows_that_every_server_has_removed_are_named(server: Server, tmp_path: Path) -> None:
    options = {"hosts": hosts(server), "spoolDir": spool(tmp_path), "reconnectTimeout": "1s"}
    with Pump(options) as pump:
        write(server, 0, 10)
        pump.run_to(vclock_of(server))
    mark, before = pump.checkpoint, vclock_of(server)[1]
    forget_logs(server)
    oldest = oldest_of(server)
    assert oldest > before
    with Pump(options, mark) as pump, pytest.raises(DataLost) as caught:
        pump.run_on()
    told = str(caught.value)
    assert f"this stream stands at {{1: {before}}}" in told
    assert f"127.0.0.1:{server.port} has removed the rows 1: {before + 1}..{oldest}" in told
    assert "another checkpointLocation" in told
    assert "failOnDataLoss" in told
    with Pump({**options, "failOnDataLoss": "false"}, mark) as pump:
        pump.run_to(vclock_of(server))
    assert [row["op"] for row in mark.rows(None)].count("TRUNCATE") == 1
    assert state(mark) == content(server)
    assert mark.position["attempt"] == 1


def oldest_of(server: Server) -> int:
    with Connection(*server.address) as connection:
        return int(connection.ask(0x44).body[0x29][3].get(1, 0))


def forget_logs(server: Server) -> None:
    """The server removes what nobody needs, and does not know of us: as after replication_anon_ttl."""
    if server.name == "headwater":
        server.options["replication_anon_ttl"] = 0.1  # type: ignore[attr-defined]
        server.restart()
    before = vclock_of(server)[1]
    with Connection(*server.address) as connection:
        for number in range(4):
            write(server, number * 10, number * 10 + 10)
            snapshot(connection)
    wait_until(lambda: oldest_of(server) > before, 20, "the oldest log is removed")


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_lags_is_waited_for_and_nothing_goes_back(kind: str, servers: Servers, tmp_path: Path) -> None:
    master = start(servers, kind, "master")
    make_space(master)
    peer = f"127.0.0.1:{master.port}"
    replica = start(servers, kind, "replica", replication=[peer], read_only=True)
    write(master, 0, 100)
    wait_until(lambda: vclock_of(replica) == vclock_of(master), 20, "the replica has all")
    options = {"hosts": hosts(master, replica), "spoolDir": spool(tmp_path)}
    with Pump(options) as pump:
        pump.run_to(vclock_of(master))
        replica.kill()
        write(master, 100, 200)
        pump.run_to(vclock_of(master))
        ahead = dict(pump.checkpoint.position["vclock"])
        master.kill()
        # It starts without its master, so as an orphan that lags.
        replica.options["replication_connect_timeout"] = 0.5  # type: ignore[attr-defined]
        replica.start()
        wait_until(lambda: pump.step() is None and follows(pump, replica), 20, "the replica is followed")
        assert pump.checkpoint.position["vclock"] == ahead
        master.start()
        write(master, 200, 300)
        wait_until(lambda: vclock_of(replica) == vclock_of(master), 30, "the replica has all")
        pump.run_to(vclock_of(master))
    assert state(pump.checkpoint) == content(master)
    assert_no_gap(pump.checkpoint)
    assert pump.checkpoint.tuples()[-1][0] == 299


def follows(pump: Pump, server: Server) -> bool:
    (feeder,) = pump.reader.stream._feeders.values()
    met = feeder._met
    return met is not None and met.host.address.service == str(server.port) and bool(met.replica.server_id)


@pytest.mark.parametrize("kind", KINDS)
def test_several_sets_are_one_stream(kind: str, servers: Servers, tmp_path: Path) -> None:
    one, two = start(servers, kind, "one"), start(servers, kind, "two")
    for number, server in enumerate((one, two)):
        make_space(server)
        write(server, 1000 * number, 1000 * number + 500)
    options = {"hosts": f"{hosts(one)};{hosts(two)}", "spoolDir": spool(tmp_path), "maxRowsPerTrigger": "300"}
    mark = Checkpoint()
    with Pump(options, mark) as pump:
        pump.run_on_to(1000)
        write(two, 1500, 1600)
        write(one, 500, 600)
        pump.kill_at = "written"
        with pytest.raises(Killed):
            pump.run_on()
    with Pump(options, mark) as pump:
        pump.run_on_to(1200)
    sets: dict[str, list[int]] = {}
    for row, made in zip(mark.rows(), mark.tuples(), strict=True):
        sets.setdefault(row["replicaset"], []).append(made[0])
    assert sorted(map(sorted, sets.values())) == [list(range(600)), list(range(1000, 1600))]
