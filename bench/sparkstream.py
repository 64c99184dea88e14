"""The stream: catching up with a log beside Spark's own source of invented rows, and how old the newest row is when its
batch is done, at a steady rate."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from tests.support import iproto
from tests.support.headwater import HeadwaterServer
from tests.support.process import Server
from tests.support.tarantool import EXECUTABLE, GUEST_IS_SUPER, TarantoolServer

from bench.load import SPACE, Load, compiled
from bench.spark import Figures, Goal, SparkBench
from bench.sparkfiles import SPACE as READINGS
from bench.sparkfiles import prepare

RATE = "rate-micro-batch"
RATE_ROWS = 1_000_000
"""Rows of one of its batches."""
PACE, PACED_SECONDS = 10_000, 20

GOALS = [
    Goal("stream of Tarantool 2.6.0 → noop, typed rows", "rows/s", 0.4, RATE),
    Goal("stream of Headwater → noop, typed rows", "rows/s", 0.4, RATE),
    Goal("stream of Headwater → noop, envelope", "rows/s", 0.4, RATE),
    Goal("age of the newest row, 10,000 rows a second", "s", 0.5, better="less"),
]


# ---- catching up ----------------------------------------------------------------------------------


@contextmanager
def served(bench: SparkBench, kind: str) -> Iterator[Server]:
    """A server on a copy of the logs that are read as files, too."""
    path = bench.data("spark-stream")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(prepare(bench) / "data", path)
    options: dict[str, object] = {"memtx_memory": 4 << 30}
    if kind == "tarantool":
        server: Server = TarantoolServer(path, options=options, setup=GUEST_IS_SUPER)
    else:
        server = HeadwaterServer(path, options=options)
    try:
        yield server.start(timeout=600)
    finally:
        server.kill()
        shutil.rmtree(path, ignore_errors=True)


def stream(bench: SparkBench, server: Server, **options: str) -> DataFrame:
    reader = bench.spark.readStream.format("tarantool").option("hosts", f"127.0.0.1:{server.port}")
    return reader.option("startingOffsets", "earliest").options(**options).load()


def rate_of(bench: SparkBench, frame: DataFrame, rows: int, *, ends: bool) -> float:
    """Rows a second, from the first trigger to the end of the one that makes `rows` full."""
    checkpoint = bench.data("spark-checkpoint")
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(availableNow=True) if ends else writer).start()
    seen: dict[int, Any] = {}
    try:
        while sum(each["numInputRows"] for each in seen.values()) < rows:
            for each in query.recentProgress:
                seen[each["batchId"]] = each
            if not query.isActive and not query.exception():
                seen |= {each["batchId"]: each for each in query.recentProgress}
                break
            if query.exception():
                raise RuntimeError(str(query.exception()))
            time.sleep(0.02)
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    batches = [seen[number] for number in sorted(seen)]
    total = sum(each["numInputRows"] for each in batches)
    assert total >= rows, f"{total} of {rows} rows"
    return total / (ended(batches[-1]) - begun(batches[0]))


def begun(progress: Any) -> float:
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def ended(progress: Any) -> float:
    return begun(progress) + progress["durationMs"]["triggerExecution"] / 1000


def invented(bench: SparkBench) -> float:
    """What Spark's own source of micro-batches makes."""
    reader = bench.spark.readStream.format(RATE).option("rowsPerBatch", RATE_ROWS).option("numPartitions", 2)
    return rate_of(bench, reader.load(), min(bench.rows, 8 * RATE_ROWS), ends=False)


def catching_up(kind: str, name: str, *, envelope: bool = False) -> Callable[[SparkBench], Figures]:
    def scene(bench: SparkBench) -> Figures:
        if kind == "tarantool" and EXECUTABLE is None:
            return {}
        base = invented(bench)
        with served(bench, kind) as server:
            options = {} if envelope else {"space": READINGS, "metadataColumns": "_op,_lsn"}
            ours = rate_of(bench, stream(bench, server, **options), bench.rows, ends=True)
        return {name: (ours, base)}

    return scene


# ---- the age of rows ------------------------------------------------------------------------------


def newest(bench: SparkBench) -> Figures:
    path = bench.data("spark-paced")
    shutil.rmtree(path, ignore_errors=True)
    checkpoint = bench.data("spark-checkpoint")
    shutil.rmtree(checkpoint, ignore_errors=True)
    with HeadwaterServer(path / "server") as server:
        with iproto.Connection(*server.address) as connection:
            iproto.create_space(connection, SPACE, "paced")
        reader = bench.spark.readStream.format("tarantool").option("hosts", f"127.0.0.1:{server.port}")
        frame = reader.option("startingOffsets", "latest").option("spaces", "paced").load()
        seen = frame.observe("seen", f.unix_micros(f.max("ts")).alias("newest"))
        writer = seen.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.start()
        try:
            ages = paced(bench, server, query)
        finally:
            query.stop()
    shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return {GOALS[-1].name: (statistics.median(ages), None)}


def paced(bench: SparkBench, server: Server, query: Any) -> list[float]:
    """Seconds from the newest row of each batch to the end of the batch; the first ones, which warm up, left out."""
    load = Load(compiled(bench.directory), server.address)
    count = PACE * (PACED_SECONDS // 2 if bench.quick else PACED_SECONDS)
    writing = threading.Thread(
        target=lambda: load.run("replace", operations=count, keys=count, window=50, rate=PACE), daemon=True
    )
    ages: dict[int, float] = {}
    writing.start()
    while writing.is_alive() and query.isActive:
        for each in query.recentProgress:
            found = each["observedMetrics"].get("seen")
            if found is not None and found["newest"] is not None:
                ages[each["batchId"]] = ended(each) - found["newest"] / 1e6
        time.sleep(0.1)
    writing.join()
    if query.exception():
        raise RuntimeError(str(query.exception()))
    found = [ages[number] for number in sorted(ages)]
    return found[min(5, len(found) // 2) :]


SCENES = {
    "stream-tarantool": catching_up("tarantool", GOALS[0].name),
    "stream-headwater": catching_up("headwater", GOALS[1].name),
    "stream-envelope": catching_up("headwater", GOALS[2].name, envelope=True),
    "stream-age": newest,
}
