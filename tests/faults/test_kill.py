"""SIGKILL at random instants under load: every acknowledged write is there afterwards, no half transaction."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.faults.workload import Load, Writer, create_spaces, judge, make_writers
from tests.support import iproto
from tests.support.fixtures import Servers
from tests.support.process import Server
from tests.support.soak import Record
from tests.support.subjects import snapshot

CYCLES = 100
SOAK_CYCLES = 2000


@dataclass(slots=True)
class Tally:
    cycles: int = 0
    acked: int = 0
    survived: int = 0
    restart_seconds: float = 0.0
    worst_restart: float = 0.0


def cycle(server: Server, writers: list[Writer], dice: random.Random, tally: Tally) -> None:
    """Start, judge what the last crash left, write for a moment, kill."""
    server.start()
    tally.restart_seconds += server.start_seconds
    tally.worst_restart = max(tally.worst_restart, server.start_seconds)
    tally.survived += judge(server.address, writers)
    before = sum(writer.acked for writer in writers)
    if dice.random() < 0.2:
        with iproto.Connection(*server.address) as connection:
            snapshot(connection)
    Load(server.address, writers).run(dice.uniform(0.0, 0.15), at_end=server.kill)
    tally.acked += sum(writer.acked for writer in writers) - before
    tally.cycles += 1


def run_cycles(servers: Servers, name: str, seed: int, count: int, seconds: float) -> Tally:
    """`count` cycles on one directory, with small journals so that they rotate."""
    dice = random.Random(seed)
    tally = Tally()
    writers = make_writers(seed)
    server = servers.subject(name, wal_max_size=1 << 18, checkpoint_count=2)
    with server.start():
        create_spaces(server.address)
    deadline = time.monotonic() + seconds
    while tally.cycles < count and time.monotonic() < deadline:
        cycle(server, writers, dice, tally)
    server.start()
    judge(server.address, writers)
    server.stop()
    return tally


def test_kill_at_random_instants(servers: Servers) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    tally = run_cycles(servers, "killed", seed, CYCLES, seconds=240)
    print(f"{tally}, mean restart {tally.restart_seconds / tally.cycles:.3f} s")
    assert tally.cycles == CYCLES, f"only {tally.cycles} cycles in the time"
    assert tally.acked > 20 * CYCLES, "hardly anything was written: the run proves nothing"


@pytest.mark.soak
def test_kill_soak(servers: Servers, tmp_path: Path) -> None:
    record = Record("kill")
    while (done := record.total("cycles")) < SOAK_CYCLES:
        seed = random.randrange(1 << 30)
        tally = run_cycles(servers, f"killed-{seed}", seed, min(100, SOAK_CYCLES - done), seconds=3600)
        record.add(
            seed=seed,
            cycles=tally.cycles,
            acked=tally.acked,
            survived=tally.survived,
            lost=0,
            mean_restart=round(tally.restart_seconds / tally.cycles, 3),
            worst_restart=round(tally.worst_restart, 3),
        )
