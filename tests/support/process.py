"""A database server as a child process: start, wait for a line of its log, stop, kill."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """A run of tests that is itself killed leaves no servers behind."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


GUARD = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Between a wrapper and the server: if strace is killed, what it traces goes with it."""


_given: set[int] = set()
FIRST_PORT, LAST_PORT = 10_000, 32_000


def _ports() -> tuple[int, int]:
    """Those of this process: tests that run side by side (pytest-xdist) share them out."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = (LAST_PORT - FIRST_PORT) // count
    return FIRST_PORT + number * each, FIRST_PORT + (number + 1) * each


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on just now, and that this process was not given before.

    Below the range that the kernel takes ports of outgoing connections from: nobody gets it by chance before the
    server binds it.
    """
    while True:
        port = random.SystemRandom().randrange(*_ports())
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port


class ServerDiedError(AssertionError):
    """The server ended before it was ready; the message carries the end of its log."""


class Output:
    """Lines that a process has printed so far, read by a thread so that its pipe never fills."""

    def __init__(self, fd: int) -> None:
        self.lines: list[str] = []
        self.ended = False
        self._news = threading.Condition()
        self._file = os.fdopen(fd, "r", errors="replace")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._file:
            for line in self._file:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self.ended = True
            self._news.notify_all()

    def wait_for(self, pattern: str, timeout: float, start: int = 0) -> str | None:
        """The first line from line `start` on that matches; None when the output ended or the time is over."""
        expression = re.compile(pattern)
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.lines[start:]:
                    if expression.search(line):
                        return line
                start = len(self.lines)
                left = deadline - time.monotonic()
                if self.ended or left <= 0:
                    return None
                self._news.wait(left)

    def join(self) -> None:
        self._thread.join(10)

    def tail(self, count: int = 30) -> str:
        return "\n".join(self.lines[-count:])


class Server:
    """Base of the two servers under test. A subclass gives `command` and `ready_pattern`."""

    name = "server"
    ready_pattern = ""
    start_timeout = 60.0

    def __init__(self, work_dir: Path, port: int | None = None) -> None:
        self.work_dir = work_dir
        self.port = port or free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.output: Output | None = None
        self.wrapper: Sequence[str] = ()
        """Put before the command: `strace …`, `ip netns exec …`."""
        self.environment: dict[str, str] = {}
        self.start_seconds = 0.0
        """How long the last start took until the server said that it is ready."""

    # ---- what a subclass says

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Called before every start."""

    def env(self) -> Mapping[str, str]:
        return {**os.environ, **self.environment}

    # ---- life

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not started"
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def log(self) -> str:
        return "\n".join(self.output.lines) if self.output else ""

    def spawn(self) -> Self:
        """Start the process and return at once."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.prepare()
        return self.spawn_in(self.work_dir)

    def spawn_in(self, directory: Path) -> Self:
        """The same from another directory, and without making the work directory."""
        assert self.process is None, f"{self.name} runs already"
        reading, writing = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*self.wrapper, *(GUARD if self.wrapper else ()), *self.command()],
                cwd=directory,
                env=dict(self.env()),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self.output = Output(reading)
        return self

    def start(self, timeout: float | None = None) -> Self:
        """Start and wait until it takes requests; ServerDiedError if it ends instead."""
        begin = time.monotonic()
        self.spawn()
        self.wait_ready(timeout)
        self.start_seconds = time.monotonic() - begin
        return self

    def wait_ready(self, timeout: float | None = None) -> None:
        assert self.output is not None
        if self.output.wait_for(self.ready_pattern, timeout or self.start_timeout) is None:
            code = self.process.poll() if self.process else None
            text = self.output.tail()
            self.kill()
            raise ServerDiedError(f"{self.name} did not become ready (exit code {code}):\n{text}")

    def wait_end(self, timeout: float = 30.0) -> int:
        """Wait for the process to end by itself; its exit code."""
        assert self.process is not None
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            text = self.output.tail() if self.output else ""
            self.kill()
            raise AssertionError(f"{self.name} did not end within {timeout} s:\n{text}") from None
        self._ended()
        return code

    def _ended(self) -> None:
        if self.output is not None:
            self.output.join()
        self.process = None

    def signal(self, number: int) -> None:
        """Send a signal to the server and to whatever wraps it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL: what a crash looks like to the files."""
        if self.process is None:
            return
        self.signal(signal.SIGKILL)
        self.process.wait()
        self._ended()

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM; the exit code."""
        if self.process is None:
            return 0
        self.signal(signal.SIGTERM)
        return self.wait_end(timeout)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def __enter__(self) -> Self:
        return self if self.process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # ---- what it looks like from outside

    def server_pid(self) -> int:
        """The pid of the server itself, below a wrapper such as strace."""
        if not self.wrapper:
            return self.pid
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0]) if children else self.pid

    def rss(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.server_pid()}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.server_pid()}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
