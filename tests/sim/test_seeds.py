"""Lives of a node from seeds: 200 of its storage and 40 of the whole of it here, the full counts in the soak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.sim.node import run_node_seed
from headwater.sim.run import Report, run_seed

CHUNK = 20


def judged(seed: int, *, whole: bool = False) -> Report:
    report = run_node_seed(seed) if whole else run_seed(seed)
    command = f"headwater sim --seed {seed}" + ("" if whole else " --storage")
    assert not report.violation, f"{command}: {report.violation}\n" + "\n".join(report.last[-40:])
    return report


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_seeds_keep_every_promise(first: int) -> None:
    reports = [judged(seed) for seed in range(first, first + CHUNK)]
    # A run in which nothing happens proves nothing.
    assert sum(report.crashes for report in reports) > CHUNK
    assert sum(report.power_cuts for report in reports) > CHUNK // 2
    assert sum(report.acknowledged for report in reports) > 100 * CHUNK
    assert sum(report.refused for report in reports) > CHUNK
    assert sum(report.checkpoints for report in reports) > CHUNK
    assert sum(report.injected for report in reports) > CHUNK


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_seeds_of_the_whole_node_keep_every_promise(first: int) -> None:
    reports = [judged(seed, whole=True) for seed in range(first, first + 10)]
    assert sum(report.crashes for report in reports) > 10
    assert sum(report.power_cuts for report in reports) > 5
    assert sum(report.acknowledged for report in reports) > 1000
    assert sum(report.refused for report in reports) > 10
    assert sum(report.checkpoints for report in reports) > 10


@pytest.mark.soak
@pytest.mark.parametrize("first", range(40, 2_000, 40))
def test_many_seeds_of_the_whole_node(first: int) -> None:
    for seed in range(first, first + 40):
        judged(seed, whole=True)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(200, 10_000, 200))
def test_many_seeds(first: int) -> None:
    for seed in range(first, first + 200):
        judged(seed)


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        (54, "a log whose sync had failed was closed as if it were whole"),
        (170, "a sync that had failed in the run before was not told again"),
        (332, "as 54, with the sync after a failed append"),
        (339, "as 170, with no room for a copy"),
        (597, "a power cut took rows that an earlier life had already shown"),
    ],
)
def test_seed_that_once_failed(seed: int, found: str) -> None:
    judged(seed)


def digest_in_another_process(seed: int, hash_seed: str, pure: str, function: str = "run.run_seed") -> str:
    module, name = function.split(".")
    code = f"from headwater.sim.{module} import {name}; report = {name}({seed}); print(report.digest, report.violation)"
    src = Path(__file__).parents[2] / "src"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(src), "PYTHONHASHSEED": hash_seed, "HEADWATER_PURE": pure},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_one_seed_is_one_run_in_any_process_and_with_either_kernel() -> None:
    seed = 7
    digests = {
        digest_in_another_process(seed, hash_seed, pure)
        for hash_seed, pure in (("0", "0"), ("12345", "0"), ("random", "1"))
    }
    assert digests == {judged(seed).digest}
    assert judged(seed + 1).digest not in digests


def test_one_seed_of_the_whole_node_is_one_run_in_any_process() -> None:
    digests = {digest_in_another_process(3, hash_seed, "0", "node.run_node_seed") for hash_seed in ("0", "77")}
    assert digests == {judged(3, whole=True).digest}
