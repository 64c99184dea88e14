"""The text console that the suites talk to: reads a line of Lua, calls procedures of the node, answers in YAML."""

from __future__ import annotations

import socketserver
import sys
import threading
from collections.abc import Callable
from typing import Any

import yaml
from tests.interop.suites.lua import CallError, Path, Reader, UnsupportedError
from tests.support import iproto

GREETING = b"Tarantool 3.8.0 (Lua console)".ljust(63) + b"\n" + b"type 'help' for interactive help".ljust(63) + b"\n"
CONSTRAINTS = ("constraint", "foreign_key")


class Node:
    """What the console asks of the node."""

    def __init__(self, connect: Callable[[], iproto.Connection], version: str) -> None:
        self.connect = connect
        self.version = version
        self.ready = threading.Event()
        self._lock = threading.Lock()

    def call(self, name: str, arguments: list[Any]) -> list[Any]:
        aliases = {"box.schema.create_space": "box.schema.space.create"}
        with self._lock, self.connect() as connection:
            try:
                values = connection.call(aliases.get(name, name), *map(plain, arguments))
            except iproto.ServerError as error:
                raise CallError(error.message) from error
        return list(values or [])

    def variable(self, path: str) -> Any:
        """What a bare name shows."""
        if path == "ready":
            # The suite asks again at once: without waiting here it would leave no time for the start.
            return self.ready.wait(0.5)
        if path == "box.info.version":
            return self.version
        if path.startswith("box.info"):
            value: Any = self.call("box.info", [])[0]
            for step in path.split(".")[2:]:
                value = value.get(step) if isinstance(value, dict) else None
            return value
        return None


def plain(value: Any) -> Any:
    """A fixture's table as a client sends it. Constraints are left out: Headwater refuses them by name, and the
    fixtures that have them serve many tests that need none."""
    if isinstance(value, dict):
        return {"name" if key == 1 else key: plain(item) for key, item in value.items() if key not in CONSTRAINTS}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, Path) else value


class Session(socketserver.StreamRequestHandler):
    """One connection of the console."""

    def handle(self) -> None:
        self.wfile.write(GREETING)
        for line in self.rfile:
            try:
                self.wfile.write(answer(self.server.node, line.decode(), self.server.names))  # type: ignore[attr-defined]
            except (BrokenPipeError, ConnectionResetError):
                return


def answer(node: Node, text: str, names: dict[str, Any]) -> bytes:
    try:
        values = Reader(text, node.call, names).run()
    except (CallError, UnsupportedError, TypeError, ValueError, ArithmeticError) as error:
        print(f"console: {text.strip()[:300]}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return yaml_of([{"error": str(error)}])
    return yaml_of([node.variable(value.text) if isinstance(value, Path) else value for value in values])


def yaml_of(values: list[Any]) -> bytes:
    if not values or values == [None]:
        return b"---\n...\n"
    text = yaml.safe_dump([shown(value) for value in values], allow_unicode=True, sort_keys=False)
    return f"---\n{text}...\n".encode()


def shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {shown(key): shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    return value if isinstance(value, bool | int | float | str | bytes | None) else str(value)


class Console(socketserver.ThreadingTCPServer):
    """Listens until the launcher ends."""

    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, address: tuple[str, int], node: Node) -> None:
        super().__init__(address, Session)
        self.node = node
        self.names: dict[str, Any] = {}
