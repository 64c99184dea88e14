"""The lake of the demo: streamed by a child process, or not at all, for a reason that is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_demo import free_ports, is_running
from tests.support.headwater import ROOT
from tests.support.process import Output
from tests.support.waiting import wait_until

TIME = 300.0


def start(directory: Path, **env: str) -> tuple[subprocess.Popen[bytes], Output]:
    options = ["--port", str(free_ports(1)), "--nodes", "1", "--work-dir", "run", "--lake", "data/lake"]
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **env},
    )
    assert process.stdout is not None
    return process, Output(os.dup(process.stdout.fileno()))


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIME) == 0


def test_without_java_it_says_so_and_goes_on(tmp_path: Path) -> None:
    process, output = start(tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    try:
        assert output.wait_for("One node is ready", TIME), output.tail(50)
        assert output.wait_for("No lake: There is no Java here. Spark needs Java 17", TIME), output.tail(50)
        assert process.poll() is None
    finally:
        end(process)


@pytest.mark.slow
def test_its_rivers_are_in_the_lake_and_nothing_is_left_behind(tmp_path: Path) -> None:
    process, output = start(tmp_path)
    try:
        assert output.wait_for("The lake data/lake holds all changes", TIME), output.tail(50)
        [pid] = children_of(process.pid, "lake sync")
        lake = tmp_path / "data" / "lake"
        ask = [sys.executable, "-m", "headwater.cli", "lake", "query", str(lake), "--json"]
        rows = subprocess.run(
            [*ask, "select name from rivers where km > 6500"], capture_output=True, text=True, check=True
        )
        assert json.loads(rows.stdout) == {"name": "Nile"}
    finally:
        end(process)
    wait_until(lambda: not is_running(pid), TIME, "the sync has ended")


def children_of(parent: int, words: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            line = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent and words in line:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
