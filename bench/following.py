"""Replication, measured: a master and its replicas of one kind. What ends is told by vclocks."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tests.support import iproto
from tests.support.process import Server

from bench.load import Load
from bench.memory import warm
from bench.replicas import PROBES, Peer, Prober, empty, joining, replica_set
from bench.scenes import KINDS, NAME, ROOM, Bench, Figures, Make, with_space

LAG = 0.1
"""Seconds that a replica may be behind, for 99 of 100 rows, while a rate counts as followed."""
SLOWER = 0.85
"""How much less is asked for when it was not."""
TRIES = 12
CLIENTS = 64
TRANSACTION = 1000
PACE = 40_000
"""Rows a second while the processor time of a master is measured: all of its replicas keep up on two cores."""

_WRITE = f"""
local rows, many = ...
local text = require('digest').urandom(43 * many):hex()
for first = 0, rows - 1, many do
    box.begin()
    for key = first, first + many - 1 do
        local at = (key * 7919) % (#text - 85)
        box.space.{NAME}:replace({{key, text:sub(at + 1, at + 85)}})
    end
    box.commit()
end
"""


# ---- data


def prepare(bench: Bench) -> None:
    """A master with rows in its log, and a replica that has none of them: what a real Tarantool wrote. Once in
    transactions of many rows, once in single ones."""
    for name, many in (("many", TRANSACTION), ("single", 1)):
        path = bench.data(f"{name}-{bench.followed}")
        if not path.exists():
            _make(bench, bench.data("making"), many)
            bench.data("making").rename(path)


def _make(bench: Bench, path: Path, many: int) -> None:
    tarantool = KINDS["tarantool"]
    with tarantool(empty(path) / "master") as master:
        with_space(master)
        with joining(tarantool, path / "replica", master) as replica:
            replica.stop()
        if many == 1:
            Load(bench.program, master.address).run(
                "replace", operations=bench.followed, keys=bench.followed, order="seq"
            )
        else:
            with iproto.Connection(*master.address, timeout=600) as connection:
                connection.eval(_WRITE, bench.followed, many)
        master.stop()


def _copies(bench: Bench, name: str) -> Path:
    path = empty(bench.data("copy"))
    shutil.copytree(bench.data(f"{name}-{bench.followed}"), path)
    return path


# ---- what has been missed


def _missed(bench: Bench, make: Make, name: str) -> float:
    """Rows a second of a replica that missed all of them. The master was started anew: it has to read its files."""
    path = _copies(bench, name)
    warm(2 * bench.followed * ROOM)
    with (
        make(path / "master").start(timeout=600) as master,
        make(path / "replica", read_only=True) as replica,
        Peer(master) as source,
        Peer(replica) as peer,
    ):
        wanted = source.vclock()
        begin = time.monotonic()
        peer.follow(master)
        peer.wait_vclock(wanted)
        return bench.followed / (time.monotonic() - begin)


def catching_up(bench: Bench, make: Make) -> Figures:
    return {"catching up, transactions of 1,000": _missed(bench, make, "many")}


def far_behind(bench: Bench, make: Make) -> Figures:
    return {"far behind, single rows from files": _missed(bench, make, "single")}


def joined(bench: Bench, make: Make) -> Figures:
    """JOIN of a full master, less the time of a JOIN that has nothing to bring."""
    path = _copies(bench, "single")
    warm(2 * bench.followed * ROOM)
    with make(path / "master").start(timeout=600) as master:
        seconds = _join(make, bench.data("joined"), master)
    with make(empty(path / "none")) as master:
        with_space(master)
        nothing = _join(make, bench.data("joined"), master)
    return {"JOIN": bench.followed / (seconds - nothing)}


def _join(make: Make, path: Path, master: Server) -> float:
    """From the start of the process until the replica has all, and has it on its disk."""
    with Peer(master) as source:
        wanted = source.vclock()
        begin = time.monotonic()
        with joining(make, empty(path), master).start(timeout=600) as replica, Peer(replica) as peer:
            peer.wait_vclock(wanted)
            return time.monotonic() - begin


# ---- what is followed live


def live(bench: Bench, make: Make) -> Figures:
    """The rate that a replica follows with little lag, one row a transaction, from many clients that wait for each
    answer, and from many that have 16 requests on their way."""
    return {
        "followed live, 64 clients": _sustained(bench, make, window=1),
        "followed live, 64 clients, 16 requests each": _sustained(bench, make, window=16),
    }


def _sustained(bench: Bench, make: Make, window: int) -> float:
    rate = 0.0
    for _ in range(TRIES):
        reached, lag = _followed(bench, make, window, rate)
        print(f"      {reached:,.0f} rows/s, lag {lag * 1000:.1f} ms for 99 of 100")
        if lag <= LAG:
            return reached
        rate = (min(rate, reached) if rate else reached) * SLOWER
    raise RuntimeError(f"no rate down to {rate:,.0f} rows/s is followed with a lag below {LAG} s")


def _followed(bench: Bench, make: Make, window: int, rate: float) -> tuple[float, float]:
    """Rows a second written, and the lag meanwhile. A rate for which the replica is longer at work than the master does
    not pass: its last probes show that."""
    warm(2 * bench.operations * ROOM)
    with replica_set(make, bench.data("live"), 1) as (master, [replica]):
        with_space(master)
        with iproto.Connection(*master.address) as connection:
            iproto.create_space(connection, PROBES, "probes")
        with Peer(master) as source, Peer(replica) as peer:
            peer.wait_vclock(source.vclock())
            load = Load(bench.program, master.address)
            n = bench.operations
            with Prober(master, replica) as prober:
                reached = load.run(
                    "replace", operations=n, keys=n, connections=CLIENTS, window=window, order="seq", rate=rate
                )
            peer.wait_vclock(source.vclock())
            return reached, prober.worst()


def sharing(bench: Bench, make: Make) -> Figures:
    """Processor time of a master for each row, with one replica and with three."""
    one, three = (_cost(bench, make, replicas) for replicas in (1, 3))
    return {"master's time a row, 1 replica": one, "master's time a row, 3 replicas ÷ 1": three / one}


def _cost(bench: Bench, make: Make, replicas: int) -> float:
    """Microseconds."""
    n = bench.operations // 4
    with replica_set(make, bench.data("sharing"), replicas) as (master, others):
        with_space(master)
        with Peer(master) as source:
            peers = [Peer(each) for each in others]
            before = master.cpu_seconds()
            Load(bench.program, master.address).run(
                "replace", operations=n, keys=n, connections=CLIENTS, window=16, order="seq", rate=PACE
            )
            wanted = source.vclock()
            for peer in peers:
                peer.wait_vclock(wanted)
                peer.close()
            return (master.cpu_seconds() - before) / n * 1e6


SCENES = {
    "catching": catching_up,
    "files": far_behind,
    "joining": joined,
    "live": live,
    "sharing": sharing,
}
