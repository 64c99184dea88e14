"""The work that is measured: each scene starts a server, does one thing and gives named figures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support import iproto
from tests.support.headwater import HeadwaterServer
from tests.support.process import Server
from tests.support.tarantool import GUEST_IS_SUPER, TarantoolServer

from bench.load import SPACE, Load
from bench.memory import warm

ROOM = 512
"""Bytes of warm memory for each tuple before a server starts: more than either of them takes."""
TRIES = 3
"""The least of so many is taken where one figure is told apart from another, or compared with it: what else runs on the
machine can only make it longer, and a difference of two would show nothing but that."""
OPTIONS: Mapping[str, object] = {"wal_mode": "write", "memtx_memory": 2 << 30}
OLD: Mapping[str, object] = {"schema_version": "2.3.1", "bootstrap_strategy": "legacy"}
"""What a Headwater is told so that it begins as the other one does."""

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how much."""

    directory: Path
    program: Path
    rows: int
    """Rows of the recovered files."""
    operations: int
    """Requests of each load."""
    followed: int
    """Rows that a replica has missed."""

    def data(self, name: str) -> Path:
        return self.directory / name


class Make(Protocol):
    """A server of one kind over a directory, with more options than the common ones."""

    def __call__(self, path: Path, **options: object) -> Server: ...


def tarantool(path: Path, **options: object) -> Server:
    setup = "" if options.get("read_only") else GUEST_IS_SUPER
    return TarantoolServer(path, options={**OPTIONS, **options}, setup=setup)


def headwater(path: Path, **options: object) -> Server:
    dev = not path.exists() or not any(path.iterdir())
    return HeadwaterServer(path, options={**OPTIONS, **OLD, **options}, dev=dev)


KINDS: dict[str, Make] = {"headwater": headwater, "tarantool": tarantool}


def snapshot(server: Server) -> float:
    """Make a snapshot; seconds."""
    with iproto.Connection(*server.address, timeout=600) as connection:
        begin = time.monotonic()
        if isinstance(server, TarantoolServer):
            connection.eval("box.snapshot()")
        else:
            connection.call("box.snapshot")
        return time.monotonic() - begin


def count(server: Server) -> int:
    with iproto.Connection(*server.address, timeout=600) as connection:
        return int(connection.call(f"box.space.{NAME}:len")[0])


NAME = "bench"


def fresh(bench: Bench, make: Make, name: str) -> Server:
    """A server on an empty directory, not started."""
    path = bench.data(name)
    shutil.rmtree(path, ignore_errors=True)
    return make(path)


def with_space(server: Server) -> None:
    with iproto.Connection(*server.address) as connection:
        iproto.create_space(connection, SPACE, NAME)


# ---- data


def prepare(bench: Bench) -> None:
    """Directories that a real Tarantool wrote: 3M rows in an xlog, the same in a snapshot, and a tenth of each."""
    for rows in (bench.rows, bench.rows // 10):
        if bench.data(f"snap-{rows}").exists():
            continue
        path = bench.data("making")
        shutil.rmtree(path, ignore_errors=True)
        with tarantool(path).start() as server:
            with_space(server)
            Load(bench.program, server.address).run("replace", operations=rows, keys=rows, order="seq")
            server.stop()
        shutil.copytree(path, bench.data(f"xlog-{rows}"))
        with tarantool(path).start() as server:
            snapshot(server)
            server.stop()
        path.rename(bench.data(f"snap-{rows}"))


def copy(bench: Bench, name: str) -> Path:
    """A copy of prepared data: every start sees the same bytes."""
    path = bench.data("copy")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(bench.data(name), path)
    return path


# ---- scenes


def starting(bench: Bench, make: Make) -> Figures:
    """Ready on an empty directory."""
    server = fresh(bench, make, "empty")
    warm(1 << 28)
    server.start()
    first = server.start_seconds
    server.stop()
    return {"ready on an empty directory": first}


def recovery(bench: Bench, make: Make) -> Figures:
    """Seconds to recover, the start told apart; a tenth of the rows too, for growth."""
    server = fresh(bench, make, "empty")
    server.start()
    server.stop()
    base = min(_start(server) for _ in range(TRIES))
    out: Figures = {}
    for kind, name in (("xlog", "recovery from an xlog"), ("snap", "recovery from a snapshot")):
        whole, tenth = (
            min(_recovered(bench, make, kind, rows) for _ in range(TRIES)) - base
            for rows in (bench.rows, bench.rows // 10)
        )
        out[name] = bench.rows / whole
        out[f"growth of {name}"] = whole / tenth
    return out


def _start(server: Server) -> float:
    """Seconds of a start that has nothing to recover."""
    warm(1 << 28)
    server.start()
    server.stop()
    return server.start_seconds


def _recovered(bench: Bench, make: Make, kind: str, rows: int) -> float:
    """Seconds until so many rows are there and the server is ready."""
    server = make(copy(bench, f"{kind}-{rows}"))
    warm(bench.rows * ROOM)
    server.start(timeout=600)
    there = count(server)
    if there != rows:
        raise RuntimeError(f"{server.name} recovered {there} of {rows} rows")
    server.kill()
    return server.start_seconds


def growing(bench: Bench, make: Make) -> Figures:
    """How much longer ten times as many new rows take, each over one connection into a fresh server."""
    n = bench.operations
    whole, tenth = (min(_inserted(bench, make, rows) for _ in range(TRIES)) for rows in (n, n // 10))
    return {"growth of inserting": whole / tenth}


def _inserted(bench: Bench, make: Make, rows: int) -> float:
    """Seconds."""
    server = fresh(bench, make, "growing")
    warm(bench.operations * ROOM)
    with server.start():
        with_space(server)
        load = Load(bench.program, server.address)
        load.run("replace", operations=1000, keys=1000, order="seq")
        return rows / load.run("replace", operations=rows, keys=rows, order="seq")


def writing(bench: Bench, make: Make) -> Figures:
    """Memory a tuple, pipelined requests, 64 connections, a snapshot of it all."""
    server = fresh(bench, make, "writing")
    n = bench.operations
    warm(n * ROOM)
    with server.start():
        with_space(server)
        load = Load(bench.program, server.address)
        load.run("replace", operations=1000, keys=1000, order="seq")
        empty = server.rss()
        load.run("replace", operations=n, keys=n, order="seq")
        memory = (server.rss() - empty) / n
        out = {
            "memory a tuple of 93 bytes": memory,
            "REPLACE, one connection": load.run("replace", operations=n, keys=n),
            "SELECT by key, one connection": load.run("select", operations=n, keys=n),
            "64 connections, both": load.run("mixed", operations=n, keys=n, connections=64, window=16),
        }
        out["snapshot writing"] = n / snapshot(server)
    return out


SCENES = {"starting": starting, "recovery": recovery, "writing": writing, "growing": growing}
