"""The sink: rows of a DataFrame, or of a streaming query, into a space of a live replica set.

    df.write.format("tarantool").option("hosts", "a:3301,b:3301").option("space", "books").mode("append").save()

docs/spark.md tells the options and what is promised. The modules: `sinkoptions`, `sinktarget` and `sinkplan` (the
space, columns to fields), `encode` and `chunks` (Arrow to requests), `sinkrows` (rows of progress), `sinktask`,
`sinkwrite` and `sinkplain` (a task), `sinkjob` and `sinkend` (the driver, before and after).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.pipeline import sinkend, sinkjob, sinktask
from headwater.pipeline.errors import OptionError
from headwater.pipeline.sinkjob import Job
from headwater.pipeline.sinkoptions import SinkOptions
from headwater.pipeline.sinktask import SinkMessage

__all__ = ["SinkStreamWriter", "SinkWriter", "stream_writer", "writer"]

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Where Spark tells tasks whose they are (StreamExecution.QUERY_ID_KEY, MicroBatchExecution.BATCH_ID_KEY)."""


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Called on the driver, once for each write that is carried out."""
    return SinkWriter(sinkjob.begin(SinkOptions.read(options), schema, overwrite=overwrite))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Called on the driver twice for each batch: before its tasks, and for its end."""
    read = SinkOptions.read(options)
    if overwrite:
        raise OptionError(
            "The output mode 'complete' would empty the space before each batch, and readers would see it empty. Use "
            "the mode 'update' with operation=replace: it leaves the same tuples in the space."
        )
    if read.version is not None:
        raise OptionError("The option 'txnVersion' is for writes of a DataFrame; the batches of a stream have numbers.")
    if read.save_mode != "append":
        raise OptionError("The option 'saveMode' is for writes of a DataFrame; a stream always appends.")
    return SinkStreamWriter(Job(read, schema, is_stream=True))


class SinkWriter(DataSourceArrowWriter):
    """Of one DataFrame."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return sinktask.write(self._job, iterator, _context().partitionId())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        sinkend.commit(self._job, _ours(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        sinkend.abort(self._job, _ours(messages))


class SinkStreamWriter(DataSourceStreamArrowWriter):
    """Of one streaming query."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query is not None, "a task of a streaming query knows whose it is"
        assert batch is not None, "a task of a streaming query knows its batch"
        return sinktask.write_of_stream(self._job, iterator, context.partitionId(), query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        sinkend.commit(self._of_batch(messages, batchId), _ours(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        sinkend.abort(self._of_batch(messages, batchId), _ours(messages))

    def _of_batch(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> Job:
        told = _ours(messages)
        app = self._job.options.app or (told[0].app if told else "")
        return replace(self._job, app=app, batch=batch)


def _context() -> TaskContext:
    found = TaskContext.get()
    assert found is not None, "rows are written by tasks"
    return found


def _ours(messages: Sequence[WriterCommitMessage | None]) -> list[SinkMessage]:
    return [message for message in messages if isinstance(message, SinkMessage)]
