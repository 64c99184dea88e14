"""The nodes of the demo as child processes: started together, watched, and ended together."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from headwater.cli.demodata import call
from headwater.cli.statusask import ask
from headwater.cli.statusjudge import FOLLOWING
from headwater.cli.statusnode import Node
from headwater.client.link import ConnectionFailed, WireClient
from headwater.env.disk import RealDisk
from headwater.errors import BoxError, HeadwaterError
from headwater.uri import Uri

START_SECONDS = 90.0
END_SECONDS = 30.0
LOOK_SECONDS = 0.1
ASK_SECONDS = 3.0
OF_A_NODE = ("*.snap", "*.xlog", "*.inprogress", "*.lost", "*.corrupted", "headwater.log")
PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


class DemoError(HeadwaterError):
    """Why there is no demo, in words."""


class Child:
    """One node."""

    def __init__(self, name: str, directory: Path, uri: Uri, peers: str) -> None:
        self.name = name
        self.directory = directory
        self.uri = uri
        self.peers = peers
        self.process: subprocess.Popen[bytes] | None = None
        self.ended_at: float | None = None
        """Since when it is away."""

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0

    @property
    def log(self) -> Path:
        return self.directory / "headwater.log"

    def start(self) -> None:
        """In a session of its own: a Ctrl-C is for the demo, which ends its nodes in order."""
        self.directory.mkdir(parents=True, exist_ok=True)
        options = {"work-dir": self.directory, "listen": self.uri, "replication": self.peers, "log": "headwater.log"}
        flags = [part for name, value in options.items() if value for part in (f"--{name}", str(value))]
        self.process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "headwater.cli", "node", "--dev", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        self.ended_at = None

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def ask(self) -> Node | None:
        """What it says of itself; None while it does not answer."""
        try:
            return ask(self.uri, ASK_SECONDS)
        except (ConnectionFailed, BoxError):
            return None

    def why(self) -> str:
        """The last line of its log, without the time."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
        except OSError as error:
            return str(error)
        return lines[-1].partition("> ")[2] or lines[-1]


class DemoSet:
    """All of them. Whatever ends the `with` block ends them, too."""

    def __init__(self, work_dir: Path, host: str, port: int, count: int, *, say: Say) -> None:
        self.work_dir = work_dir
        self._say = say
        self._ending = False
        uris = [Uri(host, str(port + number)) for number in range(count)]
        peers = ",".join(uri.address for uri in uris) if count > 1 else ""
        self.children = [
            Child(f"node{number}", work_dir / f"node{number}", uri, peers) for number, uri in enumerate(uris, 1)
        ]
        if not uris[0].is_loopback:
            raise DemoError(f"{host} is not a loopback address: everybody may do everything there")
        if port + count > 1 << 16:
            raise DemoError(f"there are no {count} ports from {port} on")

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._end()
        return kind is KeyboardInterrupt

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def start(self) -> None:
        """Until each follows the others. DemoError if one of them cannot."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self._take_over()
        for child in self.children:
            child.start()
        end = time.monotonic() + START_SECONDS
        while not self._are_ready():
            self._find_failed()
            if time.monotonic() > end:
                raise DemoError(f"the nodes did not find each other within {START_SECONDS:.0f} s; see their logs")
            time.sleep(LOOK_SECONDS)

    def name_all(self) -> None:
        """The names are for people: a directory that has none yet gets its own."""
        for child in self.children:
            node = child.ask()
            if node is not None and not node.name:
                with closing(WireClient(child.uri)) as client:
                    call(client, "box.cfg", {"instance_name": child.name})

    def run(self, revive_after: float, look: Callable[[], None]) -> None:
        """Until Ctrl-C. A node that ended is told of, and started again later. `look` is called now and then."""
        while True:
            for child in self.children:
                self._look_after(child, revive_after)
            look()
            time.sleep(LOOK_SECONDS)

    def _look_after(self, child: Child, revive_after: float) -> None:
        now = time.monotonic()
        if not child.has_ended():
            return
        if child.ended_at is None:
            child.ended_at = now
            self._say(f"{child.name} at {child.uri} has ended; it is started again in {revive_after:.0f} seconds")
        elif now - child.ended_at >= revive_after:
            child.start()
            self._say(f"{child.name} at {child.uri} is started again, process {child.pid}")

    def _are_ready(self) -> bool:
        return all(is_ready(child.ask(), len(self.children) - 1) for child in self.children)

    def _find_failed(self) -> None:
        for child in self.children:
            if child.has_ended():
                raise DemoError(
                    f"{child.name} at {child.uri} could not start: {child.why()}\n"
                    "Is it running already? A second one needs ports and directories of its own:\n"
                    "    make run ARGS='--port 3311 --work-dir var/run2 --lake data/lake2'"
                )

    def _end(self) -> None:
        """All at once, and wait for each."""
        with _no_interruption():
            running = [child.process for child in self.children if child.process is not None and not child.has_ended()]
            for process in running:
                process.terminate()
            end = time.monotonic() + END_SECONDS
            for process in running:
                try:
                    process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    # ---- the demo of one node, which was before this one

    def _take_over(self) -> None:
        """Its data lies in the work directory itself; it becomes the first node's."""
        found = [path for pattern in OF_A_NODE for path in sorted(self.work_dir.glob(pattern))]
        if not any(path.suffix == ".snap" for path in found):
            return
        first = self.children[0].directory
        if first.exists() and any(first.glob("*.snap")):
            raise DemoError(f"there is data of a node in {self.work_dir}, and in {first}, too: move one of them away")
        try:
            unlock = RealDisk().lock(str(self.work_dir))
        except BlockingIOError:
            raise DemoError(f"a node is running in {self.work_dir}: end it first") from None
        first.mkdir(exist_ok=True)
        for path in found:
            path.rename(first / path.name)
        unlock()
        self._say(f"The data of the node in {self.work_dir} is now in {first}; the other nodes join it.")


def is_ready(node: Node | None, peers: int) -> bool:
    """Does it take writes, and do its peers feed it?"""
    if node is None or node.status != "running" or node.ro:
        return False
    return sum(one.upstream is not None and one.upstream.status in FOLLOWING for one in node.members) >= peers


def end_with_parent() -> None:
    """A demo that is itself killed leaves no nodes behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _no_interruption() -> Iterator[None]:
    """A second Ctrl-C does not leave nodes behind."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
