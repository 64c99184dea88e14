"""Restores from the change log of a lake, and audits of its silver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.pipeline.restoring import History, check
from tests.support.fixtures import Servers, servers
from tests.support.headwater import HeadwaterServer
from tests.support.iproto import Connection

from headwater.pipeline.audit import AuditWish, audit
from headwater.pipeline.errors import NotThere
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.sync import Sync, SyncOptions
from headwater.pipeline.restore.build import Wish, restore
from headwater.pipeline.restore.errors import Unreachable
from headwater.pipeline.restore.lake import Run, Stretch, choose, stretches_of
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import LocalRunner, SparkRunner
from headwater.vclock import VClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["servers"]


def sync_once(spark: SparkSession, lake: Path, port: int) -> None:
    options = SyncOptions({"hosts": f"127.0.0.1:{port}"}, once=True, trigger="100 milliseconds")
    Sync(Lake(lake), options).run(spark)


def test_moments_come_back_out_of_a_lake_and_silver_is_what_the_server_has(
    spark: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    origin = HeadwaterServer(tmp_path / "origin")
    with origin, Connection("127.0.0.1", origin.port) as link:
        history = History(link, seed=3)
        for _ in range(300):
            history.step() if history.model.spaces else history.create()
        history.snapshot()  # which the stream begins with
        sync_once(spark, lake, origin.port)
        for number in range(2):
            while history.written < 800 + 300 * number:
                history.step()
            history.moment()
        while history.written < 1500:
            history.step()
        history.flush()
        sync_once(spark, lake, origin.port)
        found = audit(LocalRunner(), AuditWish((f"127.0.0.1:{origin.port}", str(lake), str(origin.work_dir))))
        assert found.is_same, [(space.name, space.rows, space.note) for space in found.spaces if not space.is_same]
        history.change(next(iter(history.model.spaces.values())))
        history.flush()
        later = audit(LocalRunner(), AuditWish((f"127.0.0.1:{origin.port}", str(lake))))
        assert later.is_same
        assert later.vclock.signature == found.vclock.signature + 1
    for number, moment in enumerate(history.moments):
        target = Target(time=moment.time) if number else Target(vclock=VClock(moment.vclock))
        to = tmp_path / f"moment{number}"
        runner = SparkRunner(spark) if number else LocalRunner()
        built = restore(runner, Wish((), target, str(to), lake=lake))
        assert built.vclock.as_dict(ignore0=True) == moment.vclock
        server = servers.subject(to)
        with server, Connection("127.0.0.1", server.port) as link:
            check(link, moment, f"moment {number} out of the lake")
    with pytest.raises(NotThere, match="Choose one with --replicaset"):
        restore(LocalRunner(), Wish((), Target(), str(tmp_path / "to"), lake=lake, replicaset="nobody"))
    with pytest.raises(Unreachable, match="is before that"):
        restore(LocalRunner(), Wish((), Target(vclock=VClock({1: 5})), str(tmp_path / "to"), lake=lake))


# ---- stretches -------------------------------------------------------------------------------------


def run(*, snapshot: bool, first: dict[int, int], last: dict[int, int], anew: bool = False, time: float = 1.0) -> Run:
    return Run(snapshot, anew, "", 0, 1, 1, first, last, time)


def snapshot(first: int, last: int, *, anew: bool = False) -> Run:
    return run(snapshot=True, first={0: first}, last={0: last}, anew=anew)


def changes(first: int, last: int, time: float = 1.0) -> Run:
    return run(snapshot=False, first={1: first}, last={1: last}, time=time)


@pytest.mark.parametrize(
    ("runs", "shapes"),
    [
        ([snapshot(0, 9), snapshot(10, 19), changes(5, 9)], [(2, 1)]),
        ([snapshot(0, 9), snapshot(0, 9, anew=True), changes(5, 9)], [(1, 0), (1, 1)]),
        ([snapshot(0, 9), snapshot(0, 9), changes(5, 9)], [(1, 0), (1, 1)]),
        ([snapshot(0, 9), changes(5, 9), changes(10, 11), snapshot(0, 4), changes(20, 21)], [(1, 2), (1, 1)]),
    ],
    ids=["in pieces", "announced anew", "counted anew", "after changes"],
)
def test_each_snapshot_begins_a_stretch(runs: Sequence[Run], shapes: Any) -> None:
    assert [(len(each.snapshot), len(each.changes)) for each in stretches_of(runs)] == shapes


def test_the_last_stretch_before_the_point_is_chosen(tmp_path: Path) -> None:
    stretches = [
        Stretch([snapshot(0, 9)], [changes(5, 9, 1.0)]),
        Stretch([snapshot(0, 9)], [changes(21, 29, 7.0)]),
    ]
    ends = [VClock({1: 9, 2: 4}), VClock({1: 29, 2: 4})]
    assert [each.vclock(end).as_dict() for each, end in zip(stretches, ends, strict=True)] == [
        {1: 4, 2: 4},
        {1: 20, 2: 4},
    ]
    for target, wanted in (
        (Target(), 1),
        (Target(vclock=VClock({1: 25, 2: 4})), 1),
        (Target(vclock=VClock({1: 15, 2: 4})), 0),
        (Target(time=6.0), 0),
        (Target(time=7.0), 1),
    ):
        assert choose(stretches, ends, target, Lake(tmp_path)) == wanted
