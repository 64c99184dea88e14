"""Silver against the server that the change log is from: random writes and changes of the schema, batches cut anywhere,
crashes at any commit. DuckDB reads the tables."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.lakes import Workload, assert_equal, catch_up, fill, log_of
from tests.support.fixtures import Servers, servers
from tests.support.iproto import Connection

from headwater.pipeline.lake import silver as silver_module
from headwater.pipeline.lake import table as table_module
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.state import State

__all__ = ["servers"]

SERVERS = ["headwater", "tarantool"]


def start(servers: Servers, kind: str) -> tuple[Connection, Path]:
    server = servers.subject() if kind == "headwater" else servers.tarantool()
    server.start()
    return Connection(*server.address), server.work_dir


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_writes_and_changes_of_the_schema(servers: Servers, tmp_path: Path, kind: str, seed: int) -> None:
    connection, directory = start(servers, kind)
    Workload(connection, seed).write(600, ddl=0.04)
    lake, chance = Lake(tmp_path / "lake"), random.Random(seed)
    charter = lake.found(system=False)
    rows = log_of(directory)
    fill(lake, charter, rows, [chance.randrange(len(rows)) for _ in range(chance.choice([1, 5, 30]))])
    catch_up(lake, charter, chance.choice([1, 300, 1_000_000]))
    assert_equal(lake, connection)


class CrashError(Exception):
    """The process ends here."""


def crashing(chance: random.Random, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if chance.random() < 0.15:
            raise CrashError
        result = real(*args, **kwargs)
        if chance.random() < 0.15:
            raise CrashError
        return result

    return call


@pytest.mark.parametrize("seed", [1, 17])
def test_crashes_at_any_commit_leave_no_trace(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    connection, directory = start(servers, "headwater")
    Workload(connection, seed).write(500, ddl=0.04)
    lake, chance = Lake(tmp_path / "lake"), random.Random(seed)
    charter = lake.found(system=False)
    rows = log_of(directory)
    fill(lake, charter, rows, [chance.randrange(len(rows)) for _ in range(12)])
    for module, name in (
        (table_module, "commit"),
        (table_module, "replace"),
        (silver_module, "append"),
        (State, "save"),
    ):
        monkeypatch.setattr(module, name, crashing(chance, getattr(module, name)))
    crashes = 0
    while True:
        try:
            catch_up(lake, charter, chance.choice([1, 100]))
            break
        except CrashError:
            crashes += 1
    assert crashes
    assert_equal(lake, connection)
