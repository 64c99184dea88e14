"""What the connectors' suites start under the name `tarantool`: Headwater with their fixtures, and a text console.

tarantool -V
tarantool init.lua     as asynctnt's TarantoolInstance does: addresses stand in the file
tarantool box.lua      as tarantool-python's TarantoolServer does: addresses stand in LISTEN and ADMIN
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
from pathlib import Path

from tests.interop.suites.console import Console, Node
from tests.interop.suites.fixtures import ADMIN_PASSWORD
from tests.support import iproto
from tests.support.headwater import HeadwaterServer

VERSION = os.environ.get("LAUNCHER_VERSION", "3.8.0-0-gheadwater")
HERE = Path(__file__).parent


class Settings:
    """Where to listen, read from the script or the environment."""

    def __init__(self, script: Path) -> None:
        text = script.read_text()
        self.asynctnt = "slab_alloc_arena" in text
        if self.asynctnt:
            self.listen = re.findall(r'listen = "([^"]*)"', text)[0]
            self.console = re.findall(r'listen\("([^"]*)"\)', text)[0]
            self.work_dir = Path(re.findall(r'work_dir = "([^"]*)"', text)[0])
            self.options = dict(re.findall(r'(wal_mode) = "([^"]*)"', text))
        else:
            self.listen, self.console = os.environ["LISTEN"], os.environ["ADMIN"]
            self.work_dir = Path.cwd()
            self.options = {}


class SuiteServer(HeadwaterServer):
    """Headwater as the suites want it: the address as it is given, procedures of the fixtures."""

    def __init__(self, settings: Settings) -> None:
        procedures = {"procedures": str(HERE / "procedures.py")}
        super().__init__(settings.work_dir, options={**settings.options, **procedures}, dev=False)
        self.listen = address_of(settings.listen)
        self.options["listen"] = self.listen
        self.start_timeout = 20.0

    def connect(self) -> iproto.Connection:
        if "/" in self.listen:
            return iproto.Connection(self.listen.removeprefix("unix/:"), 0)
        return iproto.Connection("127.0.0.1", int(self.listen.rsplit(":", 1)[1]))


def address_of(listen: str) -> str:
    """As `--listen` takes it: a port alone means every address, a path a unix socket."""
    if listen.isdigit():
        return f"127.0.0.1:{listen}"
    return f"unix/:{listen}" if listen.startswith("/") else listen


def admin(server: SuiteServer) -> iproto.Connection:
    """A connection with all privileges, which the template gave a password."""
    connection = server.connect()
    assert not connection.auth("admin", ADMIN_PASSWORD).failed
    return connection


def begin(settings: Settings) -> None:
    """A first start begins with a copy of the suite's template (fixtures.py), so that it is quick. The empty file by
    which the suite has reserved the name of a unix socket goes: Headwater takes no path from a file."""
    if settings.listen.startswith("/"):
        Path(settings.listen).unlink(missing_ok=True)
    if not any(settings.work_dir.glob("*.snap")):
        name = "asynctnt" if settings.asynctnt else "tarantool-python"
        for path in (Path(os.environ["LAUNCHER_TEMPLATES"]) / name).glob("*.[sx]*"):
            shutil.copy(path, settings.work_dir)


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-V", "-v", "--version"):
        print(f"Tarantool {VERSION}")
        return 0
    settings = Settings(Path(sys.argv[1]))
    suite = os.getppid()
    server = SuiteServer(settings)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    begin(settings)
    node = Node(lambda: admin(server), VERSION)
    host, _, port = settings.console.rpartition(":")
    with Console((host or "0.0.0.0", int(port)), node) as console:
        threading.Thread(target=console.serve_forever, daemon=True).start()
        server.start()
        node.ready.set()
        # A suite does not end every server that it starts: those end with it.
        while server.running and os.getppid() == suite and not ended.wait(0.5):
            pass
        server.stop()
        console.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
