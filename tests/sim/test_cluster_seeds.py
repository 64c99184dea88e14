"""Replica sets from seeds: 100 of three to five nodes here, 2,000 in the soak."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.soak import Record

from headwater.sim.cluster import ClusterReport, ClusterRun
from headwater.sim.cluster.shrink import Recipe

CHUNK = 10
COUNT = 100
SOAK_COUNT = 2_000


def recipe(seed: int) -> Recipe:
    return Recipe(seed, nodes=3 + seed % 3, steps=24)


def judged(recipe: Recipe) -> ClusterReport:
    report = ClusterRun(recipe.plan()).run()
    assert not report.violation, "\n".join([recipe.command(), report.violation, *report.last[-40:]])
    return report


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_sets_keep_every_promise(first: int) -> None:
    reports = [judged(recipe(seed)) for seed in range(first, first + CHUNK)]
    # A run in which nothing happens proves nothing.
    assert sum(report.faults for report in reports) > 5 * CHUNK
    assert sum(report.lives - report.nodes for report in reports) > CHUNK // 2
    assert sum(report.acknowledged for report in reports) > 300 * CHUNK
    assert sum(report.refused + report.unanswered for report in reports) > CHUNK
    assert sum(report.reads for report in reports) > 100 * CHUNK


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        (276, "with ids of its own, an anonymous replica was refused its registration before it had asked for it"),
        (298, "as 276; and asked again for the id that it had got meanwhile, it stopped following"),
        (475, "rows behind one that could not be written came with a registration, and were written with a gap"),
        (648, "with ids of its own, a node that died before its first snapshot had a log and nothing to begin it with"),
        (
            724,
            "who could not get the rows was registered all the same, came to another master, and was given an id twice",
        ),
        (769, "a newcomer whose connection was lost amid the rows was not started again"),
        (942, "with ids of its own, one that had lost its peers' numbers could not tell that it came too late"),
        (1105, "users of the options that a disk had not taken were not written later"),
        (1128, "logs of before a rebootstrap were followed by the new ones as if nothing were missing in between"),
        (811, "the simulator gave a process that went on the newest bytes before those that had waited for it"),
        (855, "a reader was told that a space is not there which a power cut had taken, as wal_mode write may"),
        (383, "an operator made a ring before all had the rows that only the first one keeps"),
    ],
)
def test_set_that_once_failed(seed: int, found: str) -> None:
    judged(recipe(seed))


@pytest.mark.soak
def test_many_sets() -> None:
    record = Record("sim-cluster")
    while (done := record.total("seeds")) < SOAK_COUNT:
        begin = time.monotonic()
        first = COUNT + done
        reports = [judged(recipe(seed)) for seed in range(first, first + 50)]
        record.add(
            first=first,
            seeds=len(reports),
            faults=sum(report.faults for report in reports),
            lives=sum(report.lives for report in reports),
            acknowledged=sum(report.acknowledged for report in reports),
            rows=sum(report.rows for report in reports),
            rejoins=sum(report.rejoins for report in reports),
            virtual_hours=round(sum(report.seconds for report in reports) / 3600, 2),
            minutes=round((time.monotonic() - begin) / 60, 1),
            broken=0,
        )


def printed_by_another_process(recipe: Recipe, hash_seed: str) -> str:
    words = recipe.command().split()[1:]
    ran = subprocess.run(
        [sys.executable, "-m", "headwater.cli", *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize("seed", [3, 5])
def test_one_seed_of_a_set_is_one_run_in_any_process(seed: int) -> None:
    digest = judged(recipe(seed)).digest
    for hash_seed in ("0", "77"):
        assert printed_by_another_process(recipe(seed), hash_seed).endswith(f"trace {digest}")
