"""Masters and replicas of one kind, and what is measured on them: the vclock, and how long a row takes to a replica."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.support import iproto
from tests.support.process import Server
from tests.support.tarantool import TarantoolServer

from bench.scenes import Make

PROBES = 513
"""Space of the rows whose way is timed."""
POLL = 0.005
PROBE_PAUSE = 0.02
LOOK_PAUSE = 0.0005


class Peer:
    """A server and one connection to it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = iproto.Connection(*server.address, timeout=600)

    def vclock(self) -> dict[int, int]:
        """Without component 0, which is each node's own."""
        if isinstance(self.server, TarantoolServer):
            found = self.connection.eval("return box.info.vclock")[0]
        else:
            found = self.connection.call("box.info")[0]["vclock"]
        pairs = enumerate(found, 1) if isinstance(found, list) else found.items()
        return {int(replica_id): lsn for replica_id, lsn in pairs if replica_id and lsn}

    def wait_vclock(self, wanted: dict[int, int], timeout: float = 600) -> None:
        """Until it has written all of this."""
        deadline = time.monotonic() + timeout
        while True:
            now = self.vclock()
            if all(now.get(replica_id, 0) >= lsn for replica_id, lsn in wanted.items()):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.server.name} is at {now} after {timeout} s, not at {wanted}")
            time.sleep(POLL)

    def follow(self, master: Server) -> None:
        """Begin to follow; returns at once. The answer comes when the replica is in sync, and nobody reads it."""
        uri = f"guest@127.0.0.1:{master.port}"
        changes = {"replication": [uri]}
        if isinstance(self.server, TarantoolServer):
            body: dict[int, object] = {iproto.EXPR: "box.cfg(...)", iproto.TUPLE: [changes]}
            self._send(iproto.EVAL, body)
        else:
            self._send(iproto.CALL, {iproto.FUNCTION_NAME: "box.cfg", iproto.TUPLE: [changes]})

    def _send(self, type_: int, body: dict[int, object]) -> None:
        other = iproto.Connection(*self.server.address, timeout=600)
        other.send(iproto.request(type_, body, other.next_sync()))
        self._waiting = other

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def empty(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return path


@contextmanager
def replica_set(make: Make, directory: Path, replicas: int) -> Iterator[tuple[Server, list[Server]]]:
    """A new master and new replicas that have joined it, with the schema that both kinds know."""
    master = make(empty(directory / "master"))
    members = [master]
    try:
        master.start()
        for number in range(replicas):
            replica = joining(make, empty(directory / f"replica{number + 1}"), master)
            members.append(replica)
            replica.start(timeout=600)
        yield master, members[1:]
    finally:
        for each in members:
            each.kill()


def joining(make: Make, path: Path, master: Server) -> Server:
    """A replica that joins when it is started."""
    return make(path, replication=[f"guest@127.0.0.1:{master.port}"], read_only=True)


class Prober:
    """Writes a row to the master now and then, and looks when the replica shows it: from the master's answer on."""

    def __init__(self, master: Server, replica: Server) -> None:
        self.lags: list[float] = []
        """Seconds."""
        self._master = iproto.Connection(*master.address, timeout=60)
        self._replica = iproto.Connection(*replica.address, timeout=60)
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        self._thread.join(60)
        self._master.close()
        self._replica.close()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        number = 0
        try:
            while not self._over.wait(PROBE_PAUSE):
                number += 1
                self._master.replace(PROBES, [0, number])
                written = time.monotonic()
                while not self._shows(number):
                    time.sleep(LOOK_PAUSE)
                self.lags.append(time.monotonic() - written)
        except BaseException as error:
            self._error = error

    def _shows(self, number: int) -> bool:
        found: list[Any] = self._replica.select(PROBES, [0], iterator=iproto.EQ)
        return bool(found) and found[0][1] >= number

    def worst(self) -> float:
        """What the lag is below for 99 of 100 moments. A long one lasts for as many moments."""
        left = sum(lag + PROBE_PAUSE for lag in self.lags) / 100
        for lag in sorted(self.lags, reverse=True):
            left -= lag + PROBE_PAUSE
            if left <= 0:
                return lag
        return float("inf")
