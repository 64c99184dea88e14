"""The sink beside a pipe of requests that were encoded before, and the read of a live space beside Parquet.

The pipe sends the very requests that the sink would send, from memory, over as many connections as there are tasks, and
looks only for the last answer.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from tests.support.headwater import HeadwaterServer
from tests.support.iproto import BEGIN, COMMIT, Connection, request
from tests.support.process import Server
from tests.support.tarantool import EXECUTABLE, TarantoolServer

from bench.spark import Figures, Goal, SparkBench, best, to_noop
from bench.sparkfiles import prepare
from headwater.pipeline import sinkjob
from headwater.pipeline.chunks import Chunk, chunked
from headwater.pipeline.sinkoptions import SinkOptions

PIPE = "pre-encoded pipe"
TASKS = 2
ROWS_MAX, INTERACTIVE_MAX = 2_000_000, 200_000
"""Rows at most; and of the sink by transactions."""
STREAM = 7

GOALS = [
    Goal("sink → Tarantool 2.6.0, replace", "rows/s", 0.25, PIPE),
    Goal("sink → Headwater, replace, transactions=off", "rows/s", 0.25, PIPE),
    Goal("sink → Headwater, exactly once by transactions", "rows/s", 0.25, "pre-encoded transactions"),
    Goal("live space of Tarantool 2.6.0 → noop", "rows/s", 0.1, "Parquet → noop"),
    Goal("live space of Headwater → noop", "rows/s", 0.1, "Parquet → noop"),
]


class Scene:
    """One server and the rows."""

    def __init__(self, bench: SparkBench, server: Server, rows: int) -> None:
        self.bench = bench
        self.server = server
        self.rows = rows
        self.parquet = str(bench.data(f"spark-sink-{rows}"))
        if not Path(self.parquet).exists():
            frame = bench.spark.read.parquet(str(prepare(bench) / "parquet")).where(f"id <= {rows}")
            frame.repartitionByRange(TASKS, "id").write.parquet(self.parquet)

    def options(self, **more: str) -> dict[str, str]:
        return {"hosts": f"127.0.0.1:{self.server.port}", "space": "readings", "primaryKey": "id", **more}

    def write(self, **more: str) -> None:
        frame = self.bench.spark.read.parquet(self.parquet)
        frame.write.format("tarantool").options(**self.options(**more)).mode("append").save()

    def read(self) -> None:
        load = self.bench.spark.read.format("tarantool").options(**self.options(numPartitions=str(TASKS)))
        to_noop(load.load().drop("_rescued_data"))

    # ---- the pipe

    def chunks(self, **more: str) -> tuple[sinkjob.Job, list[list[Chunk]]]:
        """Of each task."""
        files = sorted(Path(self.parquet).glob("*.parquet"))
        schema = from_arrow_schema(pq.read_schema(files[0]))
        job = sinkjob.begin(SinkOptions.read(self.options(**more)), schema, overwrite=False)
        assert job.target is not None
        plan = job.target.plan
        out = []
        for file in files:
            tuples = (plan.tuples(batch, 0, 0) for batch in pq.ParquetFile(file).iter_batches(10_000))
            out.append(list(chunked(tuples, job.options.batch_rows, job.options.batch_bytes)))
        return job, out

    def pipe(self, packets: list[list[bytes]]) -> float:
        """Seconds for these requests, a list for each connection; the sync of the last is the greatest."""
        connections = [Connection("127.0.0.1", self.server.port, timeout=600) for _ in packets]
        try:
            work = [lambda c=c, p=p: _push(c, p) for c, p in zip(connections, packets, strict=True)]
            return best(lambda: _together(work))
        finally:
            for connection in connections:
                connection.close()


def _push(connection: Connection, packets: list[bytes]) -> None:
    """Send them all, and wait for the answer to the last."""
    last = packets[-1]
    at = last.rfind(b"\x01\xcf")
    pattern = last[at : at + 10]
    done = threading.Thread(target=_wait_for, args=(connection, pattern))
    done.start()
    for packet in packets:
        connection.socket.sendall(packet)
    done.join()


def _wait_for(connection: Connection, pattern: bytes) -> None:
    rest = b""
    while True:
        data = connection.socket.recv(1 << 20)
        if not data or (rest + data).find(pattern) >= 0:
            return
        rest = data[-len(pattern) :]


def _together(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


SYNC = 1 << 40
"""Wide, so that it stands in each answer as it stands in its request."""


def _plain(job: sinkjob.Job, chunks: list[Chunk]) -> list[bytes]:
    assert job.target is not None
    packets, sync = [], SYNC
    for chunk in chunks:
        packets += chunk.requests(job.target.plan.requests, sync)
        sync += chunk.rows
    return packets


def _interactive(scene: Scene, job: sinkjob.Job, chunks: list[list[Chunk]]) -> float:
    """Seconds for chunks as transactions: their statements, and when all are answered the COMMIT."""
    assert job.target is not None
    made = job.target.plan.requests

    def task(connection: Connection, mine: list[Chunk]) -> None:
        sync = SYNC
        for chunk in mine:
            begin = request(BEGIN, {}, sync, STREAM)
            _push(connection, [begin, *chunk.requests(made, sync + 1, STREAM)])
            sync += chunk.rows + 1
            _push(connection, [request(COMMIT, {}, sync, STREAM)])
            sync += 1

    connections = [Connection("127.0.0.1", scene.server.port, timeout=600) for _ in chunks]
    try:
        return best(lambda: _together([lambda c=c, m=m: task(c, m) for c, m in zip(connections, chunks, strict=True)]))
    finally:
        for connection in connections:
            connection.close()


# ---- scenes ---------------------------------------------------------------------------------------


def _server(bench: SparkBench, kind: str) -> Server:
    directory = bench.data(f"spark-sink-{kind}")
    shutil.rmtree(directory, ignore_errors=True)
    if kind == "tarantool":
        return TarantoolServer(directory, options={"memtx_memory": 2 << 30})
    return HeadwaterServer(directory)


def _plain_scene(bench: SparkBench, kind: str, sink: Goal, live: Goal) -> Figures:
    rows = min(bench.rows, ROWS_MAX)
    with _server(bench, kind).start() as server:
        scene = Scene(bench, server, rows)
        job, chunks = scene.chunks(transactions="off")
        pipe = rows / scene.pipe([_plain(job, mine) for mine in chunks])
        ours = rows / best(lambda: scene.write(transactions="off" if kind == "headwater" else "auto"))
        read = rows / best(scene.read)
        parquet = rows / best(lambda: to_noop(bench.spark.read.parquet(scene.parquet)))
    return {sink.name: (ours, pipe), live.name: (read, parquet)}


def tarantool(bench: SparkBench) -> Figures:
    if EXECUTABLE is None:
        raise SystemExit("this scene writes to a tarantool, and none is installed (apt install tarantool)")
    return _plain_scene(bench, "tarantool", GOALS[0], GOALS[3])


def headwater(bench: SparkBench) -> Figures:
    return _plain_scene(bench, "headwater", GOALS[1], GOALS[4])


def exactly_once(bench: SparkBench) -> Figures:
    rows = min(bench.rows, INTERACTIVE_MAX)
    with _server(bench, "headwater").start() as server:
        scene = Scene(bench, server, rows)
        job, chunks = scene.chunks()
        pipe = rows / _interactive(scene, job, chunks)
        ours = rows / best(scene.write)
    return {GOALS[2].name: (ours, pipe)}


SCENES = {"sink-tarantool": tarantool, "sink-headwater": headwater, "sink-exactly-once": exactly_once}
