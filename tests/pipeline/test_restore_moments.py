"""Ten thousand random writes with definitions among them, taken back to ten random moments."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.restoring import History, Moment, check, in_small_pieces
from tests.support.fixtures import Servers, servers
from tests.support.headwater import HeadwaterServer
from tests.support.iproto import Connection
from tests.support.process import Server
from tests.support.tarantool import EXECUTABLE

from headwater.pipeline.restore.build import Wish, restore
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import LocalRunner, Runner, SparkRunner
from headwater.vclock import VClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["servers"]
WRITES, MOMENTS, SNAPSHOTS = 10_000, 10, 3


def link(server: Server) -> Connection:
    return Connection("127.0.0.1", server.port)


def target_of(moment: Moment, number: int) -> Target:
    """By vclock, by time, and where there is one inside the transaction that followed."""
    if moment.inside is not None:
        return Target(vclock=VClock({1: moment.inside}))
    return Target(time=moment.time) if number % 2 else Target(vclock=VClock(moment.vclock))


def starts(servers: Servers, directory: Path, kinds: Sequence[str]) -> Iterator[Server]:
    """Each server, on a copy of its own: what starts writes."""
    for kind in kinds:
        if kind == "tarantool" and EXECUTABLE is None:
            continue
        own = directory.with_name(f"{directory.name}-{kind}")
        shutil.copytree(directory, own)
        yield servers.subject(own) if kind == "headwater" else servers.tarantool(own, setup="")


def restored_to(
    runner: Runner,
    origin: Path,
    moments: Sequence[Moment],
    servers: Servers,
    where: Path,
    kinds: Sequence[str] = ("headwater", "tarantool"),
) -> None:
    for number, moment in enumerate(moments):
        directory = where / f"moment{number}"
        target = target_of(moment, number)
        built = restore(runner, Wish((str(origin),), target, str(directory)))
        assert built.vclock.as_dict(ignore0=True) == moment.vclock, f"moment {number}, {target}"
        assert sorted(path.suffix for path in directory.iterdir()) == [".snap"]
        if moment.inside is not None:
            assert any("inside the transaction" in note for note in built.notes)
        for server in starts(servers, directory, kinds):
            with server, link(server) as connection:
                check(connection, moment, f"moment {number} ({target}), {server.name}")


def test_a_history_of_tarantool_is_taken_back_to_ten_moments(
    servers: Servers, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = servers.tarantool("origin", options={"checkpoint_count": 100, "wal_max_size": 200_000})
    with origin, link(origin) as connection:
        history = History(connection, seed=20_260_131)
        history.run(WRITES, MOMENTS, SNAPSHOTS)
    whole, pieces = history.moments[: MOMENTS // 2], history.moments[MOMENTS // 2 :]
    restored_to(SparkRunner(spark), origin.work_dir, whole, servers, tmp_path / "whole")
    in_small_pieces(monkeypatch)
    restored_to(SparkRunner(spark), origin.work_dir, pieces, servers, tmp_path / "pieces")


@pytest.mark.parametrize("schema", ["2.3.1", "3.8.0"])
def test_a_history_of_headwater_is_taken_back_to_moments(
    servers: Servers, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_pieces(monkeypatch)
    options = {"checkpoint_count": 100, "wal_max_size": 100_000, "schema_version": schema}
    history, origin = headwater_history(tmp_path / "origin", options, seed=7, writes=2000, moments=3)
    kinds = ("headwater", "tarantool") if schema == "2.3.1" else ("headwater",)
    restored_to(LocalRunner(), origin, history.moments, servers, tmp_path, kinds)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_histories_of_headwater_are_taken_back_to_moments(
    servers: Servers, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        in_small_pieces(monkeypatch)
    options = {"checkpoint_count": 100, "wal_max_size": 100_000, "schema_version": "2.3.1"}
    history, origin = headwater_history(tmp_path / "origin", options, seed=seed, writes=10_000, moments=10)
    restored_to(LocalRunner(), origin, history.moments, servers, tmp_path)


def headwater_history(
    path: Path, options: dict[str, object], *, seed: int, writes: int, moments: int
) -> tuple[History, Path]:
    server = HeadwaterServer(path, options=options)
    with server, link(server) as connection:
        history = History(connection, seed)
        history.run(writes, moments, max(1, moments // 3))
    return history, path
