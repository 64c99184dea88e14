"""In Spark's tasks: packets of a part to batches of Arrow, by the definitions that held where the part begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from headwater.pipeline.decode import Decoder, EnvelopeView, RowRange, TypedView
from headwater.pipeline.history import unpack_schema
from headwater.pipeline.ship import StreamPart
from headwater.vclock import VClock

TRUNCATE = "TRUNCATE"
View = EnvelopeView | TypedView


def read_part(view: View, part: StreamPart) -> Iterator[pa.RecordBatch]:
    view = replace(view, replicaset=part.replicaset)
    if isinstance(view, TypedView):
        view = replace(view, known=view.known | set(part.known))
    if part.is_truncate:
        yield truncate_row(view.schema, part.replicaset)
        return
    data = part.read()
    batches = _decoded(view, part, data)
    if part.first < 0 or lsn_column(view.schema) is None:
        yield from batches
        return
    numbers = _numbers(view, part, data)
    at = 0
    for batch in batches:
        yield _with_numbers(batch, numbers.slice(at, batch.num_rows), lsn_column(view.schema))
        at += batch.num_rows


def _decoded(view: View, part: StreamPart, data: bytes) -> Iterator[pa.RecordBatch]:
    low = None if part.low is None else VClock(part.low)
    high = None if part.high is None else VClock(part.high)
    decoder = Decoder(view, unpack_schema(part.schema), range=RowRange(low, high), is_snapshot=part.is_snapshot)
    decoder.where = f"Replica set {part.replicaset}"
    yield from decoder.feed_packets(data)
    yield from decoder.finish()


# ---- numbers of a snapshot's rows -----------------------------------------------------------------


def lsn_column(schema: spark.StructType) -> str | None:
    return next((name for name in ("lsn", "_lsn") if name in schema.names), None)


def _numbers(view: View, part: StreamPart, data: bytes) -> pa.Array:
    """Of the rows that the view keeps: rows of a spooled snapshot do not say theirs, so all of them are counted."""
    dictionary = unpack_schema(part.schema)
    wanted = view.wanted(dictionary)
    plain = EnvelopeView(columns=("space_id",))
    ids = pa.chunked_array([batch.column(0) for batch in _decoded(plain, part, data)], type=pa.int32()).combine_chunks()
    if wanted is None:
        kept = pa.array(np.arange(len(ids), dtype=np.int64))
    else:
        kept = pc.indices_nonzero(pc.is_in(ids, value_set=pa.array(wanted, pa.int32()))).cast(pa.int64())
    return pc.add(kept, part.first)


def _with_numbers(batch: pa.RecordBatch, numbers: pa.Array, name: str | None) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    arrays = batch.columns
    arrays[at] = numbers
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


# ---- the row before a snapshot that begins anew ---------------------------------------------------


def truncate_row(schema: spark.StructType, replicaset: str) -> pa.RecordBatch:
    """Nothing but what it is, and of which replica set."""
    told = {"op": TRUNCATE, "replicaset": replicaset, "replica_id": 0, "lsn": 0, "is_commit": True}
    told |= {f"_{name}": value for name, value in told.items()}
    arrow = to_arrow_schema(schema, timezone="UTC")
    arrays = [
        pa.array([told[field.name]], field.type) if field.name in told else pa.nulls(1, field.type) for field in arrow
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)
