"""The lake of the demo: `headwater lake sync` as a child process on the demo's nodes. Without Java, or the extra
`spark`, the demo says so and goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.cli.demodata import SPACE
from headwater.cli.demoset import END_SECONDS, Child, Say, end_with_parent

READY = """
The lake {lake} holds all changes of the set (bronze), and each space as it is now (silver). Try:

  .venv/bin/headwater lake query {lake} 'select * from {space} order by km desc'
  .venv/bin/headwater lake query {lake} "select op, key, after, ts from bronze where space = '{space}'"
  .venv/bin/headwater lake status {lake} --hosts {hosts}
"""


class DemoLake:
    """Follows the demo's nodes until the `with` block ends. `look` is asked now and then."""

    def __init__(self, lake: Path, log: Path, children: list[Child], *, say: Say) -> None:
        self._lake = lake
        self._log = log
        self._hosts = ",".join(child.uri.address for child in children)
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False

    def __enter__(self) -> Self:
        why = why_not()
        if why is not None:
            self._say(f"No lake: {why}")
            return self
        self._log.parent.mkdir(parents=True, exist_ok=True)
        flags = ["--hosts", self._hosts, "--lake", str(self._lake), "--retention", "1h"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", "headwater.cli", "lake", "sync", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._say(f"Spark starts, to stream the set into the lake {self._lake}; a while, see {self._log}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # Spark's JVM too, if it is still there
        self._process.wait()

    def look(self) -> None:
        """Say when there is something to ask, and when it ends by itself."""
        if self._process is None:
            return
        code = self._process.poll()
        if code is not None:
            self._process = None
            self._say(f"The lake is written no more: {self.why() or f'the sync ended with {code}'}")
        elif not self._is_ready and (self._lake / "_headwater" / "state.json").exists():
            self._is_ready = True
            self._say(READY.format(lake=self._lake, space=SPACE, hosts=self._hosts))

    def why(self) -> str:
        """The last line of its log."""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
        except OSError as error:
            return str(error)
        return lines[-1].removeprefix("headwater lake sync: ")


def why_not() -> str | None:
    """What is missing for it, and how to get it."""
    from headwater.errors import HeadwaterError

    try:
        import deltalake  # noqa: F401

        from headwater.pipeline.session import check

        check()
    except ModuleNotFoundError as error:
        return f"the package '{error.name}' is not here; pip install 'headwater[spark]' brings it"
    except HeadwaterError as error:
        return str(error)
    return None
