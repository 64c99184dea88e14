"""The stream in Spark itself."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.pipeline.streamcheck import Judge
from tests.pipeline.streamdriver import COLUMNS
from tests.pipeline.streams import content, hosts, make_space, set_of, vclock_of, write
from tests.pipeline.test_stream_live import KINDS, Writer, start
from tests.support.fixtures import Servers
from tests.support.headwater import ROOT
from tests.support.iproto import Connection, create_space
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Place:
    """Directories of one query."""

    def __init__(self, directory: Path) -> None:
        self.sink, self.checkpoint, self.spool = (directory / name for name in ("sink", "checkpoint", "spool"))

    def start(self, spark: SparkSession, options: dict[str, str], **trigger: Any) -> StreamingQuery:
        reader = spark.readStream.format("tarantool").options(spoolDir=str(self.spool), pollTimeout="100ms", **options)
        writer = reader.load().selectExpr(*COLUMNS).writeStream.format("parquet").option("path", str(self.sink))
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextmanager
def stopped(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def progress_of(query: StreamingQuery) -> Any:
    if not query.isActive:
        raise AssertionError(f"the query ended: {query.exception()}")
    return query.lastProgress


def is_at(query: StreamingQuery, vclock: dict[int, int]) -> bool:
    progress = progress_of(query)
    end = progress["sources"][0]["endOffset"] if progress else None
    return bool(end) and f'"vclock": {{"1": {vclock[1]}}}' in end and '"phase": "stream"' in end


@pytest.mark.parametrize("kind", KINDS)
def test_snapshot_and_changes_under_load_are_the_source_row_by_row(
    kind: str, spark: SparkSession, servers: Servers, place: Place
) -> None:
    server = start(servers, kind)
    make_space(server)
    write(server, 0, 5000)
    with Writer(server) as writer, stopped(place.start(spark, {"hosts": hosts(server)})) as query:
        wait_until(lambda: progress_of(query) is not None and writer.keys > 500, 60, "there is load and a batch")
        done = writer.keys
        wait_until(lambda: writer.keys > done + 1000, 20, "there is more")
        writer.__exit__()
        wait_until(lambda: is_at(query, vclock_of(server)), 60, "the query has all")
        latest = query.lastProgress["sources"][0]["latestOffset"]
    assert f'"1": {vclock_of(server)[1]}' in latest
    judge = Judge(place.sink, {set_of(server): content(server)})
    judge.assert_exact()
    assert judge.ask("select count(*) from change where replica_id > 0")[0][0] > 500


def test_what_there_is_now_and_later_the_rest(spark: SparkSession, servers: Servers, place: Place) -> None:
    """Trigger.AvailableNow ends, and a second driver of the same checkpoint is told so while another one runs."""
    server = start(servers, "headwater")
    make_space(server)
    options = {"hosts": hosts(server), "maxRowsPerTrigger": "1000"}
    for last in (2500, 4000):
        write(server, last - 1500, last)
        query = place.start(spark, options, availableNow=True)
        assert query.awaitTermination(60)
        assert query.exception() is None
    Judge(place.sink, {set_of(server): content(server)}).assert_exact()
    with stopped(place.start(spark, options)) as first:
        write(server, 0, 10)
        wait_until(lambda: is_at(first, vclock_of(server)), 60, "the query has all")
        twin = Place(place.sink.parent / "twin")
        shutil.copytree(place.checkpoint, twin.checkpoint)
        # In one session Spark would stop the first query of this id; the second driver is a session of its own.
        (twin.checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))
        (twin.checkpoint / ".metadata.crc").unlink()
        twin.spool = place.spool
        second = twin.start(spark, {**options, "leaseTimeout": "200ms"})
        wait_until(lambda: not second.isActive, 60, "the second one ends")
        assert "Another driver streams with this checkpoint: process" in str(second.exception())
        assert first.isActive


def test_the_lines_of_the_readme_run(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    """In the session that is there, on a node as the lines before them make it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page[page.index("## Ten lines to a Spark stream") :]
    lines = textwrap.dedent(section[section.index("<<'END'\n") + len("<<'END'\n") : section.index("    END\n")])
    server = start(servers, "headwater")
    with Connection(*server.address) as connection:
        create_space(connection, 512, "books")
        connection.insert(512, [1, "The Sea, the Sea", 1978])
    lines = lines.replace("3301", str(server.port)).replace("var/stream", str(tmp_path / "stream"))
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    for scope in (first, second):
        exec(lines, scope)
        end = scope["query"].lastProgress["sources"][0]["endOffset"]
        assert f'"vclock": {{"1": {vclock_of(server)[1]}}}' in end
        assert scope["books"].columns == ["op", "key", "after", "replica_id", "lsn", "ts"]
    assert sum(each["numInputRows"] for each in first["query"].recentProgress) > 300, "the system's spaces, too"
    assert sum(each["numInputRows"] for each in second["query"].recentProgress) in (1, 2), "it goes on"


def test_a_password_is_in_no_plan_no_progress_and_no_checkpoint(
    spark: SparkSession,
    servers: Servers,
    place: Place,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = start(servers, "headwater")
    make_space(server)
    with Connection(*server.address) as connection:
        connection.call("box.schema.user.create", "streamer", {"password": "hidden-word"})
        connection.call("box.schema.user.grant", "streamer", "replication")
    path = place.sink.parent / "password"
    path.write_text("hidden-word\n")
    told = ""
    for secret in ({"passwordFile": str(path)}, {"password": "hidden-word"}):
        options = {"hosts": hosts(server), "username": "streamer", **secret}
        shutil.rmtree(place.checkpoint, ignore_errors=True)
        with stopped(place.start(spark, options)) as query:
            wait_until(lambda: progress_of(query), 60, "there is a batch")
            query.explain(extended=True)
            told += str(query.lastProgress)
    told += "".join(capfd.readouterr())
    for directory, _, names in os.walk(place.checkpoint):
        told += "".join(Path(directory, name).read_bytes().decode(errors="replace") for name in names)
    assert "PythonMicroBatch" in told or "tarantool" in told
    assert "hidden-word" not in told
