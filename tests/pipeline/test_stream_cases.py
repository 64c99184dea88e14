"""What befalls a stream: definitions that change, snapshots that are lost, quorums, slow sinks, and users' slips."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.streams import (
    FORMAT,
    SPACE,
    Checkpoint,
    Killed,
    Pump,
    Valve,
    assert_no_gap,
    content,
    hosts,
    make_space,
    spool,
    state,
    vclock_of,
    write,
)
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.iproto import DELETE, KEY, OPS, REPLACE, SPACE_ID, TUPLE, UPDATE, Connection
from tests.support.process import Server, free_port
from tests.support.subjects import snapshot
from tests.support.waiting import wait_until

from headwater.pipeline.errors import OptionError, PipelineError, SchemaChanged
from headwater.wire.msgpack import unpack

_SPACE, _INDEX = 280, 288


@pytest.fixture
def server(servers: Servers) -> Server:
    made = servers.subject(replication_timeout=0.2).start()
    make_space(made)
    return made


@pytest.fixture
def options(server: Server, tmp_path: Path) -> dict[str, str]:
    return {"hosts": hosts(server), "spoolDir": spool(tmp_path)}


# ---- definitions ----------------------------------------------------------------------------------


def alter(server: Server, name: str, format: list[dict[str, str]]) -> None:
    with Connection(*server.address) as connection:
        connection.replace(_SPACE, [SPACE, 1, name, "memtx", 0, {}, format])


def test_rows_have_the_names_that_held_when_they_were_written(server: Server, options: dict[str, str]) -> None:
    """Also when they are planned again by a driver that has seen nothing, after all has changed."""
    mark = Checkpoint()
    with Pump(options, mark) as pump:
        write(server, 0, 5)
        pump.run_to(vclock_of(server))
        write(server, 5, 10)
        alter(server, "renamed", FORMAT)
        write(server, 10, 15)
        with Connection(*server.address) as connection:
            connection.insert(_SPACE, [SPACE + 1, 1, "other", "memtx", 0, {}, []])
            connection.insert(_INDEX, [SPACE + 1, 0, "pk", "tree", {"unique": True}, [[1, "unsigned"]]])
            connection.replace(SPACE + 1, ["a", 7])
        pump.kill_at = "journaled"
        wait_until(lambda: reaches(pump, vclock_of(server)), 10, "all is in one batch")
    with Connection(*server.address) as connection:
        connection.ask(DELETE, {SPACE_ID: SPACE + 1, KEY: [7]})
        connection.ask(DELETE, {SPACE_ID: _INDEX, KEY: [SPACE + 1, 0]})
        connection.ask(DELETE, {SPACE_ID: _SPACE, KEY: [SPACE + 1]})
    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
    names = [(row["space"], request[0]) for row in mark.rows(None) if (request := first_field(row)) is not None]
    assert names == [("t", key) for key in range(10)] + [("renamed", key) for key in range(10, 15)] + [
        ("other", "a"),
        ("other", -7),
    ]
    keys = [row.as_py() for row in mark.table["key"].combine_chunks().field("value")]
    assert keys[-4] == keys[-3], "the primary key of the other space is its second field"


def reaches(pump: Pump, vclock: dict[int, int]) -> bool:
    """The next batch has all; it is journaled and the driver killed."""
    start = json.loads((pump.checkpoint.offsets or [pump.checkpoint.initial])[-1])
    end = pump.reader.latestOffset(start, pump.reader.getDefaultReadLimit())
    ((_, found),) = end["sets"].items()
    if found["vclock"].get("1", 0) < vclock[1]:
        return False
    with pytest.raises(Killed):
        pump.step()
    return True


def first_field(row: dict[str, Any]) -> Any:
    if row["space"] is None or row["space"].startswith("_") or not row["replica_id"]:
        return None
    body = unpack(row["request"])
    return body[0x21] if row["op"] in ("INSERT", "REPLACE") else [-body[0x20][0]]


def test_typed_rows_stop_where_a_field_is_added_and_go_on_with_its_column(
    server: Server, options: dict[str, str]
) -> None:
    options |= {"space": "t", "metadataColumns": "_op,_lsn"}
    mark = Checkpoint()
    with Pump(options, mark) as pump:
        write(server, 0, 5)
        pump.run_to(vclock_of(server))
        assert [row["id"] for row in mark.table.to_pylist()] == [0, 1, 2, 3, 4]
        write(server, 5, 7)
        alter(server, "t", [*FORMAT, {"name": "price", "type": "unsigned", "is_nullable": True}])
        with Connection(*server.address) as connection:
            connection.replace(SPACE, [7, "seven", 70])
            connection.ask(DELETE, {SPACE_ID: SPACE, KEY: [3]})
        with pytest.raises(SchemaChanged, match="there is no column for the field 'price'"):
            pump.run_on()
    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
    rows = [row for number in sorted(mark.sink) for row in mark.sink[number].to_pylist()][5:]
    assert [(row["_op"], row["id"], row.get("price")) for row in rows] == [
        ("REPLACE", 5, None),
        ("REPLACE", 6, None),
        ("REPLACE", 7, 70),
        ("DELETE", 3, None),
    ]


def test_typed_rows_go_on_where_that_is_asked_for(server: Server, options: dict[str, str]) -> None:
    options |= {"space": "t", "metadataColumns": "_op,_lsn", "schemaEvolutionMode": "rescue"}
    with Pump(options) as pump:
        pump.run_to(vclock_of(server))
        alter(server, "t", [*FORMAT, {"name": "price", "type": "unsigned", "is_nullable": True}])
        with Connection(*server.address) as connection:
            connection.replace(SPACE, [7, "seven", 70])
        pump.run_to(vclock_of(server))
    (row,) = pump.checkpoint.table.to_pylist()
    assert (row["id"], row["text"]) == (7, "seven")
    assert b"price" in row["_rescued_data"]["metadata"]


# ---- where to begin -------------------------------------------------------------------------------


def test_where_a_new_query_begins(server: Server, options: dict[str, str]) -> None:
    write(server, 0, 100)
    middle = vclock_of(server)
    write(server, 100, 200)

    def keys(start: str) -> list[int]:
        with Pump({**options, "startingOffsets": start}) as pump:
            pump.run(1)
            write(server, 200, 203)
            pump.run_to(vclock_of(server))
            return [made[0] for made in pump.checkpoint.tuples()]

    assert keys("latest") == [200, 201, 202]
    assert keys("earliest")[:200] == list(range(200))
    assert keys(json.dumps({str(id): lsn for id, lsn in middle.items()}))[:100] == list(range(100, 200))
    with Pump({**options, "startingOffsets": "earliest"}) as pump:
        pump.run_to(vclock_of(server))
        times = {made[0]: row["ts"] for row, made in zip(pump.checkpoint.rows(), pump.checkpoint.tuples(), strict=True)}
    assert keys(times[150].isoformat())[0] <= 150
    assert keys(times[150].isoformat())[0] > 40
    assert keys("2999-01-01T00:00:00Z") == [200, 201, 202]


def test_a_query_that_ends_with_what_there_is(server: Server, options: dict[str, str]) -> None:
    mark = Checkpoint()
    options |= {"maxRowsPerTrigger": "100"}
    write(server, 0, 500)
    for first in (500, 700, 700):
        with Pump(options, mark) as pump:
            pump.available_now()
        assert len(mark.tuples()) == first
        if first == 500:
            write(server, 500, 700)
    assert state(mark) == content(server)
    with Pump(options, mark) as pump:
        pump.reader.prepareForTriggerAvailableNow()
        write(server, 700, 800)
        rows = pump.run()
    assert rows == 0 or rows % 100 == 0


# ---- snapshots ------------------------------------------------------------------------------------


@needs_tarantool
def test_a_snapshot_whose_copy_is_lost_begins_anew_and_says_so(servers: Servers, tmp_path: Path) -> None:
    server = servers.tarantool().start()
    make_space(server)
    write(server, 0, 3000)
    options = {"hosts": hosts(server), "spoolDir": spool(tmp_path), "maxRowsPerTrigger": "500"}
    mark = Checkpoint()
    with Pump(options, mark) as pump:
        pump.run_on_to(600)
        pump.kill_at = "written"
        with pytest.raises(Killed):
            pump.run_on()
    shutil.rmtree(spool(tmp_path))
    write(server, 0, 10, "new")
    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
    rows = mark.rows(None)
    (at,) = [at for at, row in enumerate(rows) if row["op"] == "TRUNCATE"]
    assert rows[at]["space"] is None
    assert (rows[at]["replica_id"], rows[at]["lsn"]) == (0, 0)
    assert rows[at + 1]["lsn"] == 0
    assert sum(row["space"] == "t" for row in rows[:at]) >= 600
    assert state(mark) == content(server)
    with Pump(options, mark) as pump:
        pump.run(2)
        assert not list(Path(spool(tmp_path)).glob("*/*/*/rows")), "the stream is past it"


@needs_tarantool
def test_a_snapshot_that_is_cut_before_it_is_whole_begins_anew(servers: Servers, tmp_path: Path) -> None:
    server = servers.tarantool().start()
    make_space(server)
    write(server, 0, 20_000, "x" * 200)
    valve = Valve(server, 3 << 20)
    options = {"hosts": f"127.0.0.1:{valve.port}", "spoolDir": spool(tmp_path), "maxRowsPerTrigger": "3000"}
    try:
        with Pump(options) as pump:
            pump.run_on_to(3000)
            assert pump.checkpoint.position["phase"] == "snapshot"
            valve.cut()
            write(server, 20_000, 20_010)
            pump.run_to(vclock_of(server))
    finally:
        valve.close()
    assert [row["op"] for row in pump.checkpoint.rows(None)].count("TRUNCATE") == 1
    assert state(pump.checkpoint) == content(server)
    assert_no_gap(pump.checkpoint)


def test_a_snapshot_goes_on_from_its_row_after_driver_and_server_were_killed(
    server: Server, options: dict[str, str]
) -> None:
    write(server, 0, 20_000)
    with Connection(*server.address) as connection:
        snapshot(connection)
    write(server, 20_000, 20_100)
    options |= {"maxRowsPerTrigger": "3000"}
    mark = Checkpoint()
    with Pump(options, mark) as pump:
        pump.run(2)
        pump.kill_at = "journaled"
        with pytest.raises(Killed):
            pump.run_on()
    assert mark.position["via"] == "cursor"
    server.kill()
    server.start()
    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
    assert state(mark) == content(server)
    rows = mark.rows(None)
    assert not [row for row in rows if row["op"] == "TRUNCATE"]
    numbers = [row["lsn"] for row in rows if not row["replica_id"]]
    assert numbers == sorted(set(numbers))
    assert len(mark.tuples()) == 20_100


# ---- quorums --------------------------------------------------------------------------------------


@needs_tarantool
def test_synchronous_rows_come_when_they_are_confirmed_and_never_when_rolled_back(
    servers: Servers, tmp_path: Path
) -> None:
    options = {"replication_synchro_quorum": 1, "replication_synchro_timeout": 0.3, "replication_timeout": 0.2}
    server = servers.tarantool(options=options).start()
    make_space(server, options={"is_sync": True})
    make_space(server, SPACE + 1, "plain")
    mark = Checkpoint()
    with (
        Pump({"hosts": hosts(server), "spoolDir": spool(tmp_path)}, mark) as pump,
        Connection(*server.address) as connection,
    ):
        write(server, 0, 3)
        pump.run_to(vclock_of(server))
        connection.eval("box.cfg{replication_synchro_quorum = 3}")
        reply = connection.ask(REPLACE, {SPACE_ID: SPACE, TUPLE: [3, "lost"]})
        assert reply.failed
        connection.eval("box.cfg{replication_synchro_quorum = 1}")
        write(server, 4, 6)
        write(server, 0, 2, space=SPACE + 1)
        pump.run_to(vclock_of(server))
    assert [made[0] for made in mark.tuples()] == [0, 1, 2, 4, 5]
    assert [made[0] for made in mark.tuples("plain")] == [0, 1]
    assert state(mark) == content(server)


# ---- sinks that are slow, servers that keep -------------------------------------------------------


def test_a_slow_sink_holds_back_the_server_and_keeps_its_link(
    server: Server, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    options |= {"maxBufferBytes": "1m", "maxRowsPerTrigger": "5000"}
    with Pump(options) as pump, caplog.at_level(logging.WARNING, "headwater.pipeline"):
        pump.run_to(vclock_of(server))
        write(server, 0, 50_000, "x" * 100)
        (feeder,) = pump.reader.stream._feeders.values()
        wait_until(lambda: feeder.pieces.memory > 500_000, 10, "it is full")
        met = feeder._met
        held = []
        # Four heartbeats without an acknowledgement would end the link.
        begun = feeder._acked_at
        wait_until(lambda: feeder._acked_at > begun + 5 * 0.25, 10, "it acknowledges while it reads nothing")
        while len(pump.checkpoint.offsets) < 12:
            pump.step()
            held.append(feeder.pieces.memory)
        pump.run_to(vclock_of(server))
        assert feeder._met is met
    assert max(held) < 3 << 20
    assert not caplog.records
    assert state(pump.checkpoint) == content(server)


def test_the_server_keeps_what_is_not_committed(server: Server, options: dict[str, str]) -> None:
    """Read, planned, in the sink: it is not acknowledged before Spark says that it is done."""
    mark = Checkpoint()

    def oldest() -> int:
        with Connection(*server.address) as connection:
            return int(connection.ask(0x44).body[0x29][3].get(1, 0))

    def checkpoints() -> None:
        with Connection(*server.address) as connection:
            for number in range(3):
                write(server, number * 10, number * 10 + 10)
                snapshot(connection)

    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
        write(server, 0, 10)
        before = vclock_of(server)[1]
        pump.run(1)
        checkpoints()
        assert oldest() < before
    checkpoints()
    assert oldest() < before, "it is kept while nobody is connected, too"
    with Pump(options, mark) as pump:
        pump.run_to(vclock_of(server))
        checkpoints()
        pump.run_to(vclock_of(server))
        write(server, 0, 10)
        pump.run_to(vclock_of(server))
        wait_until(lambda: oldest() > before, 10, "what is committed is acknowledged, and removed")
    assert_no_gap(mark)


# ---- users ----------------------------------------------------------------------------------------


def test_slips_are_answered_with_a_sentence(server: Server, options: dict[str, str], tmp_path: Path) -> None:
    def said(**more: str) -> str:
        with pytest.raises(PipelineError) as caught, Pump({**options, **more}) as pump:
            pump.run_on(3)
        return str(caught.value)

    assert "Is 'startingOffsets' meant?" in said(startingOfsets="latest")
    assert "should be snapshot, earliest, latest, a time" in said(startingOffsets="newest")
    assert "needs the column _op" in said(space="t")
    assert "no member" in said(hosts=f"127.0.0.1:{free_port()}").lower()
    assert "The option 'hosts' is missing" in said(hosts="")
    assert "'imageMode' is 'full', which is not built yet" in said(imageMode="full")
    assert "the user 'nobody' is refused" in said(username="nobody", password="x")
    twice = f"{options['hosts']};localhost:{server.port}"
    assert "are one replica set" in said(hosts=twice)
    assert "names no vclock for the replica set" in said(
        startingOffsets='{"11111111-1111-4111-8111-111111111111": {"1": 5}}'
    )
    assert "exclude each other" in said(space="t", spaces="t", metadataColumns="_op")


def test_a_checkpoint_of_another_set_is_refused(servers: Servers, server: Server, options: dict[str, str]) -> None:
    other = servers.subject("other").start()
    with Pump(options) as pump:
        pump.run(1)
    with Pump({**options, "hosts": hosts(other)}, pump.checkpoint) as wrong, pytest.raises(OptionError) as caught:
        wrong.run_on(3)
    assert "none of the hosts" in str(caught.value)


def test_the_uuid_is_the_checkpoints_and_an_option_overrides_it(server: Server, options: dict[str, str]) -> None:
    with Pump(options) as pump:
        pump.run(2)
        write(server, 0, 1)
        pump.run(2)
    drawn = {json.loads(text)["sets"].popitem()[1]["uuid"] for text in pump.checkpoint.offsets}
    assert len(drawn) == 1
    own = "12345678-1234-4234-8234-123456789012"
    with Pump({**options, "replicaUuid": own}, pump.checkpoint) as again:
        write(server, 1, 2)
        again.run_to(vclock_of(server))
    assert again.checkpoint.position["uuid"] == own
    assert state(pump.checkpoint) == content(server)


def test_a_password_is_in_no_plan_and_no_error(server: Server, options: dict[str, str], monkeypatch: Any) -> None:
    monkeypatch.setenv("STREAM_PASSWORD", "hidden-word")
    options |= {"username": "nobody", "passwordEnv": "STREAM_PASSWORD"}
    with pytest.raises(PipelineError) as caught, Pump(options) as pump:
        pump.run_on(3)
    assert "hidden-word" not in str(caught.value)
    assert b"hidden-word" not in pickle.dumps(pump.reader)
    assert "hidden-word" not in repr(pump.reader.options)


def test_updates_keep_their_operations(server: Server, options: dict[str, str]) -> None:
    mark = Checkpoint()
    with Pump(options, mark) as pump:
        write(server, 0, 1)
        with Connection(*server.address) as connection:
            connection.ask(UPDATE, {SPACE_ID: SPACE, KEY: [0], TUPLE: [["=", 1, "new"]]})
        pump.run_to(vclock_of(server))
    row = mark.rows()[-1]
    assert row["op"] == "UPDATE"
    assert unpack(row["request"])[TUPLE] == [["=", 1, "new"]]
    assert OPS not in unpack(row["request"])
