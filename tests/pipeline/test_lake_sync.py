"""A sync end to end: a server under load, Spark's stream, bronze whole, silver equal to the source."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.lakes import (
    Workload,
    assert_bronze_whole,
    assert_equal,
    is_equal,
    replicaset_of,
    tables,
)
from tests.support.fixtures import Servers, servers
from tests.support.iproto import Connection
from tests.support.waiting import wait_until

from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.sync import Sync, SyncOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["servers"]

TIME = 120.0


class Running:
    """A sync in a thread of the test."""

    def __init__(self, spark: SparkSession, lake: Lake, source: dict[str, str], *, once: bool) -> None:
        self.sync = Sync(lake, SyncOptions(source, once=once, trigger="100 milliseconds"))
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(spark,), daemon=True)
        self._thread.start()

    def _run(self, spark: SparkSession) -> None:
        try:
            self.sync.run(spark)
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(TIME)
        assert not self._thread.is_alive(), "the sync does not end"
        if self.error is not None:
            raise self.error

    def until(self, condition: Any, what: str) -> None:
        def check() -> bool:
            if self.error is not None:
                raise self.error
            return bool(condition())

        wait_until(check, TIME, what, 0.1)

    def end(self) -> None:
        self.sync.end()
        self.join()


@contextmanager
def syncing(spark: SparkSession, lake: Lake, hosts: str, **more: str) -> Iterator[Running]:
    running = Running(spark, lake, {"hosts": hosts, **more}, once=False)
    try:
        yield running
    finally:
        running.end()


def sync_once(spark: SparkSession, lake: Lake, hosts: str, **more: str) -> None:
    Running(spark, lake, {"hosts": hosts, **more}, once=True).join()


@pytest.mark.parametrize("kinds", [["headwater"], ["tarantool", "headwater"]], ids="-".join)
def test_all_operations_and_changes_of_the_schema_under_load(
    spark: SparkSession, servers: Servers, tmp_path: Path, kinds: list[str]
) -> None:
    """Each server is a replica set of its own, in the same lake."""
    made = [(servers.subject if kind == "headwater" else servers.tarantool)(kind).start() for kind in kinds]
    connections = [Connection(*server.address) for server in made]
    sources = {replicaset_of(connection): connection for connection in connections}
    works = [Workload(connection, seed) for seed, connection in enumerate(connections, 7)]
    for work in works:
        work.write(200, ddl=0.03)
    lake, hosts = Lake(tmp_path / "lake"), ";".join(f"127.0.0.1:{server.port}" for server in made)
    with syncing(spark, lake, hosts) as running:
        while not tables(lake):
            for work in works:
                work.write(10, ddl=0.02)
            running.until(lambda: True, "no error")
        for _ in range(20):
            for work in works:
                work.write(50, ddl=0.03)
                work.pipeline(100)
        running.until(lambda: all(is_equal(lake, each, name) for name, each in sources.items()), "silver is equal")
    for name, connection in sources.items():
        assert_equal(lake, connection, name)
    assert_bronze_whole(lake, sources)


def test_plans_do_not_show_a_password(spark: SparkSession, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Kaltwasser-7719")
    base = {"hosts": "127.0.0.1:1", "username": "lake"}
    for given in ({"password": "Kaltwasser-7719"}, {"passwordFile": str(secret)}):
        rows = spark.readStream.format("tarantool").options(**base, **given).load()
        plan = rows._jdf.queryExecution()
        shown = [plan.toString(), plan.logical().treeString(), plan.logical().toJSON(), plan.analyzed().prettyJson()]
        assert not [text for text in shown if "Kaltwasser" in text]
