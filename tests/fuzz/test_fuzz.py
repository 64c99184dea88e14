"""A bounded run over every decoder: no input raises what is not named, hangs, or takes memory without measure.

`python -m tests.fuzz TARGET` goes on for as long as it is let (docs/hacking.md).
"""

from __future__ import annotations

import importlib.util
import random
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.mutate import INTERESTING, mutate
from tests.fuzz.targets import TARGETS, Target

COUNT = 1500
SECONDS = 0.5
"""A target stops at what comes first."""
SLOW_SECONDS = 0.05
MEMORY_FACTOR = 200
"""Python objects for a byte of input: a list of small values is some 60 bytes for each."""
MEMORY_BASE = 2 << 20

NAMES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name == "update" and importlib.util.find_spec("headwater.store.update") is None,
            reason="update operations are not there",
        ),
    )
    for name in TARGETS
]


def check(target: Target, data: bytes) -> bool:
    """Run one input; True if it was taken, False if it was refused by name."""
    try:
        target.run(data)
    except target.refusals:
        return False
    return True


def cost(target: Target, data: bytes) -> float:
    begin = time.process_time()
    check(target, data)
    return time.process_time() - begin


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_taken(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    if not seeds:
        pytest.skip("the recordings are absent")
    taken = [check(target, seed) for seed in seeds]
    assert any(taken), "no seed reaches the inside of the decoder"


@pytest.mark.parametrize("name", NAMES)
def test_mutations_are_taken_or_refused_by_name(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    deadline = time.monotonic() + SECONDS
    for number in range(COUNT):
        if time.monotonic() > deadline:
            break
        data = mutate(random.Random(f"{name} {number}"), seeds)
        try:
            spent = cost(target, data)
        except Exception as error:
            pytest.fail(f"{name}, input {number}: {error!r} for {data.hex()}")
        if spent > SLOW_SECONDS:
            spent = min(cost(target, data) for _ in range(3))
            assert spent <= SLOW_SECONDS, f"{name}, input {number}: {spent:.3f} s for {data.hex()}"


@pytest.mark.parametrize("name", NAMES)
def test_memory_follows_the_size_of_the_input(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    bombs = [piece * 500 for piece in INTERESTING if len(piece) < 20]
    inputs = [mutate(random.Random(f"{name} memory {number}"), seeds) for number in range(60)] + bombs
    for data in inputs:
        tracemalloc.start()
        try:
            check(target, data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_BASE + MEMORY_FACTOR * len(data), (
            f"{name}: {peak} bytes for {len(data)}: {data[:200].hex()}"
        )


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(name: str) -> None:
    """Hypothesis looks for a small counterexample."""
    target = TARGETS[name]

    @settings(max_examples=40, deadline=None, database=None)
    @given(st.binary(max_size=60) | st.sampled_from(INTERESTING))
    def run(data: bytes) -> None:
        check(target, data)

    run()
