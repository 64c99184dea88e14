"""The server killed at any instant, by chance, and started again: each batch is in exactly once.

Two tasks write batch after batch. A batch that fails, or is said to have failed, is run again, as a restarted query
does it.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from dataclasses import replace

from tests.pipeline.sinks import COUNTERS, batches_of, counters, options, rows_of, stream_job
from tests.support.process import Server
from tests.support.soak import Record
from tests.support.subjects import subject

from headwater.errors import HeadwaterError
from headwater.pipeline import sinkend, sinktask
from headwater.pipeline.sinkjob import Job

ROWS = 800
QUERY = "chaos"


def write_until_it_is_in(job: Job, batch: int) -> int:
    """How often it had to be tried."""
    parts = [counters(0, ROWS), counters(ROWS, ROWS // 2)]
    deadline = time.monotonic() + 120
    for attempt in count():
        try:
            with ThreadPoolExecutor() as pool:
                tasks = [
                    pool.submit(sinktask.write_of_stream, job, batches_of(COUNTERS, rows), number, QUERY, batch)
                    for number, rows in enumerate(parts)
                ]
            sinkend.commit(replace(job, app=QUERY, batch=batch), [task.result() for task in tasks])
            return attempt
        except HeadwaterError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"batch {batch} was not written in {attempt + 1} attempts") from error
    raise AssertionError


def rounds(server: Server, times: int, seed: int) -> None:
    given = options(server, space="counted", primaryKey="id", operation="upsert", upsertOps="+n", batchSize=40)
    # Some attempts wait for the server to come back, others fail and are run again.
    patience = ["60s", "200ms"]
    jobs = [stream_job({**given, "retryTimeout": seconds}) for seconds in patience]
    write_until_it_is_in(jobs[0], 0)
    chance = random.Random(seed)
    with ThreadPoolExecutor(1) as pool:
        for number in range(1, times + 1):
            job = jobs[0] if number % 2 else chance.choice(jobs)
            writing = pool.submit(write_until_it_is_in, job, number)
            # In this thread: a server goes away with the thread that has started it.
            threading.Event().wait(chance.uniform(0.0, 0.15))
            server.kill()
            server.start()
            writing.result()
    found = Counter(row[1] for row in rows_of(server, "counted"))
    assert found == {times + 1: ROWS + ROWS // 2}, f"seed {seed}"


def test_the_server_is_killed_while_batches_are_written(tmp_path: Path) -> None:
    server = subject(tmp_path / "node", {}).start()
    try:
        rounds(server, 3, seed=20261119)
    finally:
        server.kill()


@pytest.mark.soak
def test_the_server_is_killed_many_times(tmp_path: Path) -> None:
    record = Record("sink")
    seed = random.SystemRandom().randrange(1 << 32)
    server = subject(tmp_path / "node", {}).start()
    try:
        rounds(server, 50, seed)
    finally:
        server.kill()
    record.add(rounds=50, seed=seed)
