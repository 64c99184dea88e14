"""What tests of the sink share: a write carried out without Spark, batch by batch, and what the server then holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema
from tests.support.iproto import ALL, Connection
from tests.support.process import Server

from headwater.pipeline import sinkend, sinkjob, sinktask
from headwater.pipeline.sinkjob import Job
from headwater.pipeline.sinkoptions import SinkOptions
from headwater.pipeline.sinktask import SinkMessage

COUNTERS = spark.StructType([spark.StructField("id", spark.LongType()), spark.StructField("n", spark.LongType())])
"""Rows of the space that most tests write into."""
SPACES, INDEXES = 280, 288


def options(*servers: Server, **more: object) -> dict[str, str]:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return {"hosts": hosts, **{name: str(value) for name, value in more.items()}}


def batches_of(schema: spark.StructType, rows: Iterable[Sequence[Any]], size: int = 700) -> Iterator[pa.RecordBatch]:
    """As Spark hands them to a task."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    held = list(rows)
    for at in range(0, len(held), size):
        columns = zip(*held[at : at + size], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow
        )


def counters(first: int, count: int, n: int = 1) -> list[tuple[int, int]]:
    return [(number, n) for number in range(first, first + count)]


def begin(given: dict[str, str], schema: spark.StructType = COUNTERS, *, overwrite: bool = False) -> Job:
    return sinkjob.begin(SinkOptions.read(given), schema, overwrite=overwrite)


def write(
    given: dict[str, str],
    *partitions: Iterable[Sequence[Any]],
    schema: spark.StructType = COUNTERS,
    overwrite: bool = False,
) -> list[SinkMessage]:
    """A whole write of a DataFrame with these partitions."""
    job = begin(given, schema, overwrite=overwrite)
    messages = [sinktask.write(job, batches_of(schema, rows), number) for number, rows in enumerate(partitions)]
    sinkend.commit(job, messages)
    return messages


def stream_job(given: dict[str, str], schema: spark.StructType = COUNTERS) -> Job:
    return Job(SinkOptions.read(given), schema, is_stream=True)


def write_batch(
    job: Job, batch: int, *partitions: Iterable[Sequence[Any]], query: str = "query", commit: bool = True
) -> list[SinkMessage]:
    """One batch of a streaming query; without `commit` the driver dies before its end."""
    messages = [
        sinktask.write_of_stream(job, batches_of(job.schema, rows), number, query, batch)
        for number, rows in enumerate(partitions)
    ]
    if commit:
        from dataclasses import replace

        sinkend.commit(replace(job, app=query, batch=batch), messages)
    return messages


def space_id(server: Server, name: str) -> int:
    with Connection("127.0.0.1", server.port) as conn:
        return next(int(row[0]) for row in conn.select(SPACES) if row[2] == name)


def rows_of(server: Server, name: str) -> list[Any]:
    with Connection("127.0.0.1", server.port) as conn:
        return conn.select(next(row[0] for row in conn.select(SPACES) if row[2] == name), iterator=ALL)


def spaces_of(server: Server) -> set[str]:
    with Connection("127.0.0.1", server.port) as conn:
        return {str(row[2]) for row in conn.select(SPACES)}


def make_space(server: Server, name: str, format: Sequence[tuple[str, str, bool]], key: Sequence[int] = (0,)) -> int:
    """`format`: (name, type, may it be null)."""
    with Connection("127.0.0.1", server.port) as conn:
        number = max(511, *(row[0] for row in conn.select(SPACES))) + 1
        fields = [{"name": field, "type": kind, "is_nullable": nullable} for field, kind, nullable in format]
        conn.insert(SPACES, [number, 1, name, "memtx", 0, {}, fields])
        parts = [[field, format[field][1]] for field in key]
        conn.insert(INDEXES, [number, 0, "primary", "tree", {"unique": True}, parts])
        return number
