"""SIGKILL to whoever has a part in a stream, at any moment: the driver with all its processes, a worker of an executor,
the server that is followed. Then nothing is missing and nothing is twice.

A few here; `make soak` does fifty for each kind of server.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.pipeline.streamcheck import Judge
from tests.pipeline.streams import content, hosts, make_space, set_of, vclock_of, write
from tests.pipeline.test_stream_live import KINDS, Writer, start
from tests.support.fixtures import Servers
from tests.support.headwater import ROOT
from tests.support.process import Output, Server
from tests.support.soak import Record
from tests.support.tarantool import EXECUTABLE
from tests.support.waiting import wait_until

START_SECONDS = 300.0
KILLS = 50
"""Of the long form."""


class Driver:
    """A process group with a Python driver and its JVM."""

    def __init__(self, directory: Path, options: dict[str, str]) -> None:
        told = {name: str(directory / name) for name in ("work", "sink", "checkpoint")}
        told["options"] = json.dumps(options)
        self._command = [sys.executable, "-m", "tests.pipeline.streamdriver", json.dumps(told)]
        self.sink = directory / "sink"
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Output | None = None

    def start(self) -> None:
        reading, writing = os.pipe()
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
        os.close(writing)
        self._output = Output(reading)

    def wait_for(self, pattern: str, timeout: float = START_SECONDS) -> str:
        assert self._output is not None
        begin = len(self._output.lines)
        line = self._output.wait_for(pattern + "|^ended", timeout, begin)
        assert line is not None, f"no {pattern} within {timeout} s:\n{self._output.tail()}"
        assert not line.startswith("ended"), line
        return line

    def wait_batches(self, count: int) -> None:
        for _ in range(count):
            self.wait_for("^batch ")

    def kill(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def kill_worker(self, dice: random.Random) -> bool:
        """One of those that read for tasks. False if there is none just now."""
        assert self._process is not None
        workers = sorted(pid for pid in descendants(self._process.pid) if is_worker(pid))
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(workers), signal.SIGKILL)
        return True

    def has(self, wanted: Mapping[str, int]) -> bool:
        """Has it done batches up to these LSNs of replica 1 of each set?"""
        assert self._output is not None
        assert not any(line.startswith("ended") for line in self._output.lines), self._output.tail()
        last = next((line for line in reversed(self._output.lines) if line.startswith("batch ")), None)
        if last is None:
            return False
        sets = json.loads(json.loads(last.split(" ", 3)[3]))["sets"]
        return all(sets.get(name, {}).get("vclock", {}).get("1", 0) >= lsn for name, lsn in wanted.items())


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from descendants(child)


def is_worker(pid: int) -> bool:
    """A fork of pyspark.daemon: its parent is one too."""

    def command(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""

    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return False
    return "pyspark.daemon" in command(pid) and "pyspark.daemon" in command(parent)


class Scene:
    """Servers under load, one stream of all of them."""

    def __init__(self, servers: Sequence[Server], directory: Path, seed: int) -> None:
        self.servers = servers
        self.dice = random.Random(seed)
        self.driver = Driver(
            directory,
            {
                "hosts": ";".join(map(hosts, servers)),
                "spoolDir": str(directory / "spool"),
                "maxRowsPerTrigger": "5000",
                "pollTimeout": "100ms",
            },
        )

    def kill(self, whom: str) -> None:
        """`driver`, `worker`, or the name of a server."""
        threading.Event().wait(self.dice.random())
        if whom == "driver":
            self.driver.kill()
            self.driver.start()
            self.driver.wait_for("^started")
        elif whom == "worker":
            wait_until(lambda: self.driver.kill_worker(self.dice), 60, "there is a worker")
        else:
            server = next(server for server in self.servers if server.name.startswith(whom))
            server.kill()
            threading.Event().wait(self.dice.random() / 2)
            server.start()

    def finish(self) -> None:
        wanted = {set_of(server): vclock_of(server)[1] for server in self.servers}
        wait_until(lambda: self.driver.has(wanted), START_SECONDS, "the stream has all")
        self.driver.kill()


def run(servers: Sequence[Server], directory: Path, kills: list[str], seed: int) -> int:
    """Rows of the logs that went through."""
    for server in servers:
        make_space(server)
        write(server, 0, 3000)
    scene = Scene(servers, directory, seed)
    try:
        scene.driver.start()
        scene.driver.wait_for("^started")
        with contextlib.ExitStack() as load:
            for server in servers:
                load.enter_context(Patient(server, pause=0.05))
            for whom in kills:
                scene.driver.wait_batches(scene.dice.randint(1, 3))
                scene.kill(whom)
            scene.driver.wait_batches(1)
        scene.finish()
    finally:
        scene.driver.kill()
    judge = Judge(scene.driver.sink, {set_of(server): content(server) for server in servers})
    judge.assert_exact()
    return int(judge.ask("select count(*) from change where replica_id > 0")[0][0])


class Patient(Writer):
    """Goes on when the server is back."""

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError, AssertionError):
                super().run()
            self._ended.wait(0.02)


def test_three_kills(servers: Servers, tmp_path: Path) -> None:
    """One stream of two replica sets, one of each kind."""
    kinds = ["headwater", "tarantool"] if EXECUTABLE is not None else ["headwater"]
    made = [start(servers, kind, kind) for kind in kinds]
    run(made, tmp_path, ["worker", *kinds, "driver"], seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_kills(kind: str, servers: Servers, tmp_path: Path) -> None:
    """Ten at a time."""
    record = Record(f"stream-kills-{kind}")
    while (done := record.total("kills")) < KILLS:
        seed = 1000 + done
        dice = random.Random(seed)
        kills = [dice.choice(["driver", "worker", kind]) for _ in range(10)]
        rows = run([start(servers, kind, f"{kind}-{seed}")], tmp_path / str(seed), kills, seed)
        record.add(seed=seed, kills=len(kills), rows=rows)
