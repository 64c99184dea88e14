"""One task of a write: the rows of a partition, and what the driver is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from headwater.client.pipe import Pipe
from headwater.pipeline.chunks import chunked
from headwater.pipeline.dictionary import Dictionary
from headwater.pipeline.errors import DataLost
from headwater.pipeline.leader import Seeker
from headwater.pipeline.sinkjob import Job
from headwater.pipeline.sinkplain import Plain
from headwater.pipeline.sinkplan import SinkPlan
from headwater.pipeline.sinkrows import WHOLE, ProgressSpace
from headwater.pipeline.sinktarget import Target, aim
from headwater.pipeline.sinkwrite import Task, Transactional
from headwater.pipeline.tuples import Tuples

__all__ = ["SinkMessage", "write", "write_of_stream"]


@dataclass
class SinkMessage(WriterCommitMessage):
    """What a task tells the driver."""

    app: str
    batch: int
    partition: int
    rows: int = 0
    digest: str = ""
    """Of these rows."""
    is_transactional: bool = False
    is_known: bool = False
    """The whole batch was written before; nothing was done."""
    engine: str = "memtx"
    vclock: dict[int, int] = field(default_factory=dict)
    """Without transactions: whoever is behind it has these rows."""
    retries: int = 0


def write(job: Job, batches: Iterator[pa.RecordBatch], partition: int) -> SinkMessage:
    """Of a DataFrame."""
    if job.is_void:
        return SinkMessage(job.app, job.batch, partition, is_known=True)
    assert job.target is not None, "the driver has found it"
    seeker = job.seeker()
    return _run(job, batches, partition, job.target, seeker, seeker.leader())


def write_of_stream(job: Job, batches: Iterator[pa.RecordBatch], partition: int, query: str, batch: int) -> SinkMessage:
    """Of a batch of a stream; `query` is what Spark calls the query for as long as its checkpoint lives."""
    job = replace(job, app=job.options.app or query, batch=batch)
    seeker = job.seeker()
    (target, is_known), pipe = seeker.reach(lambda pipe: _find(job, pipe))
    if is_known:
        pipe.close()
        return SinkMessage(job.app, batch, partition, is_known=True, engine=target.plan.space.engine)
    return _run(job, batches, partition, target, seeker, pipe)


def _find(job: Job, pipe: Pipe) -> tuple[Target, bool]:
    """Where the rows go, and whether this batch was written before."""
    target = aim(pipe, Dictionary.fetch(pipe), job.schema, job.options, is_lasting=True)
    return target, target.progress is not None and _is_in(job, pipe, target.progress)


def _is_in(job: Job, pipe: Pipe, progress: ProgressSpace) -> bool:
    """Was this batch written before?"""
    whole = progress.read(pipe, job.app, WHOLE)
    if whole is None or not whole.is_done:
        return False
    if whole.batch < job.batch - 1:
        raise DataLost(
            f"{pipe.uri} knows batches of '{job.app}' up to {whole.batch}, and this is batch {job.batch}: those "
            "between were acknowledged by a server that was replaced before they had reached the others. Their rows "
            f"are missing in space '{job.options.space}'. Write them again; the query goes on when the rows of "
            f"'{job.app}' are deleted from '{progress.name}'."
        )
    return whole.batch >= job.batch


def _run(
    job: Job, batches: Iterator[pa.RecordBatch], partition: int, target: Target, seeker: Seeker, pipe: Pipe
) -> SinkMessage:
    task = Task(target.plan, job.app, job.batch, partition, job.run, job.options.may_be_plain)
    writer: Transactional | Plain
    if target.is_transactional:
        assert target.progress is not None, "transactions have rows of progress in them"
        writer = Transactional(task, seeker, pipe, target.progress)
    else:
        writer = Plain(task, seeker, pipe)
    try:
        tuples = _tuples(batches, target.plan, partition)
        for chunk in chunked(tuples, job.options.batch_rows, job.options.batch_bytes):
            writer.add(chunk)
        writer.end()
    finally:
        writer.close()
    return SinkMessage(
        job.app,
        job.batch,
        partition,
        writer.rows,
        writer.digest,
        is_transactional=target.is_transactional,
        engine=target.plan.space.engine,
        vclock=dict(writer.vclock) if isinstance(writer, Plain) else {},
        retries=writer.retries,
    )


def _tuples(batches: Iterator[pa.RecordBatch], plan: SinkPlan, partition: int) -> Iterator[Tuples]:
    row = 0
    for batch in batches:
        if batch.num_rows:
            yield plan.tuples(batch, row, partition)
            row += batch.num_rows
