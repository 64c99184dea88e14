"""A sync that is killed with all its processes at random moments: no gap and no duplicate in bronze, silver equal; and
where its password is not to be found."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.pipeline.lakeprocess import SyncProcess, bronze_version
from tests.pipeline.lakes import Workload, assert_bronze_whole, assert_equal, replicaset_of
from tests.support.fixtures import Servers, servers
from tests.support.iproto import Connection
from tests.support.soak import Record

from headwater.pipeline.lake.layout import Lake

__all__ = ["servers"]

PASSWORD = "Kaltwasser-7719"


@contextmanager
def writing(connection: Connection, seed: int) -> Iterator[None]:
    """Changes all the time, some of the schema, in a thread."""
    work = Workload(connection, seed)
    work.write(100)
    ended = threading.Event()
    thread = threading.Thread(target=_write, args=(work, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write(work: Workload, ended: threading.Event) -> None:
    while not ended.wait(0.05):
        work.write(5, ddl=0.02)
        work.pipeline(20)


def rounds(directory: Path, connection: Connection, hosts: str, count: int, seed: int, *args: str) -> list[str]:
    """Start, kill at a random moment after something was committed; at last let it finish. Their command lines and
    what they printed."""
    lake, chance, seen = Lake(directory / "lake"), random.Random(seed), []
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{directory}"}
    with writing(connection, seed):
        for _ in range(count):
            version = bronze_version(lake)
            with SyncProcess(lake, hosts, "--trigger", "200ms", *args, conf=events) as process:
                process.until_committed(version + chance.choice([1, 2, 5]))
                time.sleep(chance.random() * 0.4)
                seen += process.command_lines()
                process.kill()
                seen.append(process.output.tail(1000))
    with SyncProcess(lake, hosts, "--once", *args, conf=events) as process:
        seen.append(process.wait())
    assert_equal(lake, connection)
    assert_bronze_whole(lake, {replicaset_of(connection): connection})
    return seen


def test_killed_three_times_and_never_tells_its_password(servers: Servers, tmp_path: Path) -> None:
    server = servers.subject()
    server.start()
    connection = Connection(*server.address)
    connection.call("box.schema.user.create", "lake", {"password": PASSWORD})
    connection.call("box.schema.user.grant", "lake", "replication")
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    figures = tmp_path / "lake.prom"
    login = ("--user", "lake", "--password-file", str(secret), "--metrics", str(figures))
    seen = rounds(tmp_path, connection, f"127.0.0.1:{server.port}", 3, 1, *login)
    assert sum("java" in line for line in seen) >= 3
    assert not [text for text in seen if PASSWORD in text]
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert [path for path in holding if not path.is_relative_to(server.work_dir)] == [secret]
    assert list(tmp_path.glob("eventlog*")), "Spark wrote no event log"
    told = [line.split()[0] for line in figures.read_text().splitlines() if not line.startswith("#")]
    assert {'headwater_lake_rows_total{layer="bronze"}', 'headwater_lake_rows_total{layer="silver"}'} <= set(told)


@pytest.mark.soak
def test_killed_fifty_times(servers: Servers, tmp_path: Path) -> None:
    record = Record("lake-kill")
    while record.total("rounds") < 50:
        seed = record.total("rounds")
        kind = "tarantool" if seed % 20 else "headwater"
        server = servers.tarantool(f"t{seed}") if kind == "tarantool" else servers.subject(f"h{seed}")
        server.start()
        directory = tmp_path / str(seed)
        directory.mkdir()
        rounds(directory, Connection(*server.address), f"127.0.0.1:{server.port}", 10, seed)
        server.stop()
        record.add(rounds=10, seed=seed, kind=kind)
