"""Who takes writes goes away in the middle of a batch: the other one goes on, and no row is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.pipeline.sinks import COUNTERS, batches_of, begin, counters, options, rows_of, stream_job, write, write_batch
from tests.support.cluster import Cluster, kinds

from headwater.pipeline import sinkend, sinktask
from headwater.pipeline.errors import DataLost, NotThere


@pytest.fixture
def pair(tmp_path: Path, kinds: str) -> Iterator[Cluster]:
    """Two members; the first one takes writes."""
    with Cluster(tmp_path, kinds, options={"replication_connect_quorum": 1}) as made:
        made[1].options["read_only"] = True
        made.start()
        yield made


def to(pair: Cluster, **more: object) -> dict[str, str]:
    servers = [node.server for node in pair]
    return options(*servers[::-1], space="books", primaryKey="id", batchSize=100, retryTimeout="20s", **more)


def during(rows: list[tuple[int, int]], at: int, event: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches_of(COUNTERS, rows, 130)):
        if number == at:
            event()
        yield batch


def change_over(pair: Cluster) -> None:
    """As an operator does it, after the machine is gone."""
    pair[0].kill()
    pair[1].configure(read_only=False)


@kinds("hh", "tt")
def test_the_leader_is_killed_in_the_middle_of_a_batch(pair: Cluster) -> None:
    is_old = pair[0].is_old
    job = stream_job(to(pair) if is_old else to(pair, operation="upsert", upsertOps="+n"))
    write_batch(job, 0, counters(0, 10), query="q")
    pair.settle()
    rows = counters(10, 3000)
    message = sinktask.write_of_stream(job, during(rows, 12, lambda: change_over(pair)), 0, "q", 1)
    assert message.retries > 0
    write_batch(job, 1, rows, query="q")
    assert Counter(row[1] for row in rows_of(pair[1].server, "books")) == {1: 3010}


@kinds("hh", "tt")
def test_the_leader_is_asked_to_step_down_in_the_middle_of_a_batch(pair: Cluster) -> None:
    """It answers READONLY from then on, and is still there."""

    def swap() -> None:
        pair[0].configure(read_only=True)
        pair[1].configure(read_only=False)

    job = begin(to(pair))
    pair.settle()
    message = sinktask.write(job, during(counters(0, 2000), 7, swap), 0)
    sinkend.commit(job, [message])
    pair.settle()
    for node in pair:
        assert [row[0] for row in rows_of(node.server, "books")] == list(range(2000))


@kinds("hh", "tt")
def test_rows_that_were_acknowledged_and_did_not_reach_the_next_leader_are_missed(pair: Cluster) -> None:
    """Asynchronous replication lost them: the write fails by name, and the same write again brings them."""
    given = to(pair, txnAppId="lost", txnVersion=1)
    write(to(pair), counters(0, 10))
    pair.settle()
    pair[1].configure(replication=[])
    job = begin(given)
    message = sinktask.write(job, batches_of(COUNTERS, counters(10, 500)), 0)
    change_over(pair)
    with pytest.raises(DataLost, match="has not got all 500 rows of partition 0"):
        sinkend.commit(job, [message])
    assert len(rows_of(pair[1].server, "books")) == 10
    write(given, counters(10, 500))
    assert len(rows_of(pair[1].server, "books")) == 510


@kinds("hh")
def test_a_lost_part_of_a_batch_is_sent_again_to_the_next_leader(pair: Cluster) -> None:
    write(to(pair), counters(0, 10))
    pair.settle()
    job = stream_job(to(pair, operation="insert"))

    def cut_off() -> None:
        pair[1].configure(replication=[])

    def both() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches_of(COUNTERS, counters(10, 2600), 130)):
            if number == 5:
                cut_off()
            if number == 15:
                change_over(pair)
            yield batch

    message = sinktask.write_of_stream(job, both(), 0, "q", 0)
    assert message.retries > 0
    assert [row[0] for row in rows_of(pair[1].server, "books")] == list(range(2610))


@kinds("h")
def test_nobody_takes_writes(pair_of_one: Cluster) -> None:
    node = pair_of_one[0]
    node.configure(read_only=True)
    given = options(node.server, space="books", primaryKey="id", retryTimeout="300ms")
    with pytest.raises(
        NotThere, match=f"No member of the replica set 127.0.0.1:{node.server.port} takes writes.*read-only"
    ):
        begin(given)
    node.kill()
    with pytest.raises(NotThere, match=r"takes writes.*[Cc]onnection refused"):
        begin(given)


@pytest.fixture
def pair_of_one(tmp_path: Path, kinds: str) -> Iterator[Cluster]:
    with Cluster(tmp_path, kinds) as made:
        made.start()
        yield made
