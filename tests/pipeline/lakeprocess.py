"""`headwater lake sync` as a process of its own, with all that it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from deltalake import DeltaTable
from tests.pipeline.conftest import QUICK_JVM
from tests.support.headwater import ROOT
from tests.support.process import Output
from tests.support.waiting import wait_until

from headwater.pipeline.lake.layout import Lake

LOG4J = ROOT / "src" / "headwater" / "pipeline" / "log4j2.properties"
TIME = 600.0


class SyncProcess:
    """Its process group is its own: `kill` ends the driver and Spark's JVM at once."""

    def __init__(self, lake: Lake, hosts: str, *args: str, conf: dict[str, str] | None = None) -> None:
        self.lake = lake
        settings = {
            "spark.driver.extraJavaOptions": f"{QUICK_JVM} -Dlog4j2.configurationFile={LOG4J.as_uri()}",
            "spark.driver.memory": "512m",
            "spark.local.dir": str(lake.root.parent / "local"),
            **(conf or {}),
        }
        flags = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [sys.executable, "-m", "headwater.cli", "lake", "sync", "--hosts", hosts, "--lake", str(lake), *args]
        self.process = subprocess.Popen(
            [*command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.output = Output(os.dup(self.process.stdout.fileno()))

    def until_committed(self, version: int) -> None:
        """Until bronze has this version."""
        wait_until(
            lambda: self._check() or bronze_version(self.lake) >= version, TIME, f"version {version} of bronze", 0.05
        )

    def _check(self) -> bool:
        code = self.process.poll()
        assert code is None, f"the sync ended with {code}:\n{self.output.tail(60)}"
        return False

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def command_lines(self) -> list[str]:
        """Of all processes in its session: the driver, the JVM, the workers in Python."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if os.getsid(int(path.parent.name)) == self.process.pid:
                    found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    def wait(self) -> str:
        """Until it ends by itself, well; what it printed."""
        code = self.process.wait(TIME)
        text = self.output.tail(1000)
        assert code == 0, text
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *rest: object) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


def bronze_version(lake: Lake) -> int:
    """-1 while there is none."""
    return DeltaTable(str(lake.bronze)).version() if (lake.bronze / "_delta_log").is_dir() else -1
