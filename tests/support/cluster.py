"""A replica set of real processes: Headwater nodes ("h"), Tarantool 2.6.0 nodes ("t"), or both.

    with Cluster(directory, "hth") as cluster:      # a full mesh, all started at one instant
        cluster.start()
        cluster[0].conn.insert(600, [1])
        cluster.settle()                            # every vclock equal, then every space, tuple by tuple

Nothing is done by one kind alone: DDL is written as rows of the system spaces, users by procedures that both have.
`HARNESS_SUBJECT=tarantool` makes every "h" a "t", which is how these tests are proved on a replica set that is right.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgpack
import pytest
from tests.support import iproto
from tests.support.compare import difference
from tests.support.headwater import HeadwaterServer
from tests.support.iproto import Connection
from tests.support.process import Server, ServerDiedError
from tests.support.subjects import STAND_IN, old_tarantool
from tests.support.tarantool import EXECUTABLE, TarantoolServer

T = TypeVar("T")

USER, PASSWORD = "replicator", "secret"
ADMIN_PASSWORD = "boss"
LOGIN = f"{USER}:{PASSWORD}"
REPLICATION_TIMEOUT = 0.2
"""Of every node, unless a test says otherwise: heartbeats this often, dead after four of them."""

BLESSING = f"""
if box.info.id == 1 and not box.info.ro then
    box.schema.user.grant('guest', 'super', nil, nil, {{if_not_exists = true}})
    box.schema.user.passwd('admin', '{ADMIN_PASSWORD}')
    box.schema.user.create('{USER}', {{password = '{PASSWORD}', if_not_exists = true}})
    box.schema.user.grant('{USER}', 'replication', nil, nil, {{if_not_exists = true}})
end
"""
"""What the node that makes the replica set does first; its peers get it by replication."""


later_than_2_6 = pytest.mark.skipif(STAND_IN and old_tarantool(), reason="a Tarantool 2.6.0 cannot do this")


def kinds(*wanted: str) -> pytest.MarkDecorator:
    """Parametrizes a test over replica sets, one letter a node; without a tarantool those that need one are skipped."""
    sets = dict.fromkeys(each.replace("h", "t") if STAND_IN else each for each in wanted)
    no_tarantool = pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
    return pytest.mark.parametrize(
        "kinds", [pytest.param(each, marks=[no_tarantool] if "t" in each else []) for each in sets]
    )


def as_map(value: Any) -> dict[int, Any]:
    """A Lua table with integer keys, whichever way it was sent."""
    if isinstance(value, list):
        return {number: item for number, item in enumerate(value, 1) if item is not None}
    return dict(value)


class Node:
    """One member, running or not."""

    def __init__(self, cluster: Cluster, kind: str, server: Server, host: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.server = server
        self.host = host
        self.name = server.work_dir.name
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.host}:{self.server.port}>"

    @property
    def is_old(self) -> bool:
        """Does it lack what came after 2.6.0?"""
        return self.kind == "t" and old_tarantool()

    # ---- life

    @property
    def options(self) -> dict[str, Any]:
        """What it is started with the next time."""
        options: dict[str, Any] = self.server.options  # type: ignore[attr-defined]
        return options

    def follow(self, *masters: Node | str, login: str | None = None) -> Self:
        """Whom it replicates from when it is started the next time."""
        self.options["replication"] = [each if isinstance(each, str) else each.uri(login) for each in masters]
        return self

    def uri(self, login: str | None = None) -> str:
        login = self.cluster.login if login is None else login
        return f"{login}@{self.host}:{self.server.port}" if login else f"{self.host}:{self.server.port}"

    def start(self, timeout: float = 30.0) -> Self:
        """Start it alone and wait until it takes requests."""
        self.server.spawn()
        self.cluster.wait_ready([self], timeout)
        return self

    def kill(self) -> None:
        self._forget()
        self.server.kill()

    def stop(self) -> None:
        self._forget()
        self.server.stop()

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def pause(self) -> None:
        self.server.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.server.signal(signal.SIGCONT)

    @property
    def is_ready(self) -> bool:
        """Did it say so since its last start? ServerDiedError if it ended instead."""
        output = self.server.output
        if output is None:
            return False
        if any(line.rstrip().endswith(("ready to accept requests", "harness: ready")) for line in output.lines):
            return self.kind == "h" or any(line.endswith("harness: ready") for line in output.lines)
        if not self.server.running:
            raise ServerDiedError(f"{self.name} ended:\n{output.tail()}")
        return False

    # ---- connections

    def connect(self, timeout: float = 20.0) -> Connection:
        return self.cluster.connect(self, timeout)

    @property
    def conn(self) -> Connection:
        """One connection, kept; made again after the node was down."""
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _fresh_on_failure(self) -> Iterator[Connection]:
        try:
            yield self.conn
        except (OSError, AssertionError) as error:
            if not isinstance(error, iproto.ServerError):
                self._forget()
            raise

    # ---- what both kinds can do

    def call(self, name: str, *arguments: object) -> Any:
        """A procedure of `box`; its first value."""
        with self._fresh_on_failure() as conn:
            values = conn.call(name, *arguments) if self.kind == "h" else conn.eval(f"return {name}(...)", *arguments)
            return values[0] if values else None

    def do(self, name: str, *arguments: object) -> None:
        """A procedure of `box` for its effect: what it gives may be what no connection can carry."""
        with self._fresh_on_failure() as conn:
            if self.kind == "h":
                conn.call(name, *arguments)
            else:
                conn.eval(f"{name}(...)", *arguments)

    def rule(self, name: str, *arguments: object) -> None:
        """`do` as admin: what even a super user may not, to grant a role that is not its own."""
        with self.connect() as conn:
            assert not conn.auth("admin", ADMIN_PASSWORD).failed
            if self.kind == "h":
                conn.call(name, *arguments)
            else:
                conn.eval(f"{name}(...)", *arguments)

    def configure(self, **options: object) -> None:
        """`box.cfg` at run time."""
        self.do("box.cfg", options)

    def snapshot(self) -> None:
        self.do("box.snapshot")

    def info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.call("box.info")
        for name in ("vclock", "replication"):
            info[name] = as_map(info[name])
        return info

    def vclock(self) -> dict[int, int]:
        """Without component 0, which is each node's own."""
        return {id: lsn for id, lsn in self.info()["vclock"].items() if id and lsn}

    @property
    def uuid(self) -> str:
        return str(self.info()["uuid"])

    @property
    def id(self) -> int:
        return int(self.info()["id"])

    def upstream(self, of: Node | str) -> dict[str, Any]:
        """What it says of the applier that brings the rows of a member; {} if it has none."""
        return self._member(of).get("upstream") or {}

    def downstream(self, of: Node | str) -> dict[str, Any]:
        return self._member(of).get("downstream") or {}

    def _member(self, of: Node | str) -> dict[str, Any]:
        uuid = of.uuid if isinstance(of, Node) else of
        members = [each for each in self.info()["replication"].values() if each["uuid"] == uuid]
        return members[0] if members else {}

    def rows(self, space: int) -> list[Any]:
        with self._fresh_on_failure() as conn:
            return conn.select(space)

    def raw_rows(self, space: int) -> bytes:
        """The whole space as the bytes of one reply's body."""
        with self._fresh_on_failure() as conn:
            body = {iproto.SPACE_ID: space, iproto.INDEX_ID: 0, iproto.ITERATOR: iproto.ALL, iproto.KEY: []}
            reply = conn.ask(iproto.SELECT, {**body, iproto.LIMIT: 0xFFFFFFFF, iproto.OFFSET: 0})
        assert reply.data is not None
        unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
        unpacker.feed(reply.raw[5:])
        unpacker.skip()
        return reply.raw[5 + unpacker.tell() :]

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.server.work_dir.glob(f"*{suffix}"))

    @property
    def log(self) -> str:
        """Of the present or last run."""
        return self.server.log


class Cluster:
    """Nodes that know each other's addresses from the beginning. Without further words: a full mesh."""

    def __init__(
        self,
        directory: Path,
        kinds: str,
        *,
        options: Mapping[str, object] | None = None,
        login: str = LOGIN,
        mesh: bool = True,
        later: str = "",
    ) -> None:
        """`later`: kinds of nodes that will be added."""
        if STAND_IN:
            kinds = kinds.replace("h", "t")
        if "t" in kinds and EXECUTABLE is None:
            pytest.skip("no tarantool is installed")
        self.directory = directory
        self.login = login
        self.schema = "2.3.1" if "t" in kinds + later and old_tarantool() else None
        self.shared_options = dict(options or {})
        self.is_mesh = mesh
        self.nodes: list[Node] = []
        for kind in kinds:
            self.add(kind)
        if mesh and len(kinds) > 1:
            for node in self.nodes:
                node.follow(*self.nodes)

    def __getitem__(self, index: int) -> Node:
        return self.nodes[index]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def add(self, kind: str, *masters: Node, **options: object) -> Node:
        """One more, not started."""
        if STAND_IN:
            kind = "t"
        return self.attach(kind, self._server(kind, options), "127.0.0.1").follow(*masters)

    def _server(self, kind: str, options: Mapping[str, object], work_dir: Path | None = None) -> Server:
        work_dir = work_dir or self.directory / f"{kind}{len(self.nodes) + 1}"
        common: dict[str, object] = {
            "replication_timeout": REPLICATION_TIMEOUT,
            "replication_connect_timeout": 20,
            "replication_sync_timeout": 20,
            **self.shared_options,
            **options,
        }
        is_old = kind == "t" and old_tarantool()
        if not is_old and (not self.is_mesh or "replication_connect_quorum" in common):
            # By the strategy `auto` a newcomer must follow every member, and a quorum may not be asked for.
            common.setdefault("bootstrap_strategy", "legacy")
        if kind == "t":
            server = TarantoolServer(work_dir, options={"memtx_memory": 128 << 20, **common}, setup=BLESSING)
            server.ready_pattern = r"harness: ready$"
            return server
        if self.schema is not None:
            common.setdefault("schema_version", self.schema)
        return HeadwaterServer(work_dir, options=common)

    def attach(self, kind: str, server: Server, host: str) -> Node:
        """A node of a server that was made elsewhere."""
        node = Node(self, kind, server, host)
        self.nodes.append(node)
        return node

    def connect(self, node: Node, timeout: float) -> Connection:
        """A connection of a client to a node."""
        return Connection(node.host, node.server.port, timeout)

    # ---- life

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.server.running]

    def spawn(self, *nodes: Node) -> None:
        """Start at one instant; return at once."""
        for node in nodes or self.nodes:
            node.server.spawn()

    def start(self, *nodes: Node, timeout: float = 40.0) -> Self:
        """Start at one instant, wait for all, and until they hold the same."""
        self.spawn(*nodes)
        self.wait_ready(nodes or self.nodes, timeout)
        self.settle()
        return self

    def wait_ready(self, nodes: Iterable[Node], timeout: float = 40.0) -> None:
        """Until all of them take requests. The node that makes the set is blessed meanwhile: others wait for that."""
        waiting = list(nodes)
        news = threading.Event()
        deadline = time.monotonic() + timeout
        while waiting:
            try:
                waiting = [node for node in waiting if not self._is_up(node)]
            except ServerDiedError as error:
                raise ServerDiedError(f"{error}\n{self.report()}") from None
            if waiting and time.monotonic() > deadline:
                raise AssertionError(f"not ready within {timeout} s: {waiting}\n{self.report()}")
            if waiting:
                news.wait(0.02)

    def _is_up(self, node: Node) -> bool:
        if not node.is_ready:
            return False
        if node.kind == "h":
            self._bless(node)
        return True

    @staticmethod
    def _bless(node: Node) -> None:
        """BLESSING, on a node that has no Lua."""
        info = node.info()
        if info["id"] != 1 or info["ro"]:
            return
        if any(row[2] == USER for row in node.rows(304)):
            return
        node.call("box.schema.user.grant", "guest", "super", None, None, {"if_not_exists": True})
        node.call("box.schema.user.passwd", "admin", ADMIN_PASSWORD)
        node.call("box.schema.user.create", USER, {"password": PASSWORD})
        node.call("box.schema.user.grant", USER, "replication", None, None, {"grantor": "admin"})

    def end(self) -> None:
        for node in self.nodes:
            node.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    # ---- conditions

    def wait(self, condition: Callable[[], T], what: str, timeout: float = 20.0, interval: float = 0.02) -> T:
        """The first true value; errors on the way count as not yet. In the end, what all the nodes said."""
        pause = threading.Event()
        deadline = time.monotonic() + timeout
        while True:
            problem: object = None
            try:
                value = condition()
                if value:
                    return value
            except (OSError, AssertionError) as error:
                if isinstance(error, ServerDiedError):
                    raise
                problem = f"{type(error).__name__}: {error}"
            if time.monotonic() >= deadline:
                because = f" ({problem})" if problem else ""
                raise AssertionError(f"{what}: not within {timeout} s{because}\n{self.report()}")
            pause.wait(interval)

    def wait_vclock_equal(self, *nodes: Node, timeout: float = 20.0) -> dict[int, int]:
        """Until every running node has written the same."""

        def equal() -> dict[int, int] | None:
            vclocks = [node.vclock() for node in nodes or self.running]
            return vclocks[0] if all(each == vclocks[0] for each in vclocks) else None

        return self.wait(equal, "equal vclocks", timeout)

    def wait_caught_up(self, node: Node, *others: Node, timeout: float = 20.0) -> None:
        """Until the others have all that this node has now; it may be written to meanwhile."""
        position = node.vclock()

        def has_it(other: Node) -> bool:
            vclock = other.vclock()
            return all(vclock.get(id, 0) >= lsn for id, lsn in position.items())

        for other in others or self.running:
            if other is not node:
                self.wait(lambda other=other: has_it(other), f"{other} has what {node} had", timeout)

    def assert_equal_data(self, *nodes: Node) -> None:
        """Every space that is replicated, the system's and the users', byte by byte."""
        first, *others = nodes or self.running
        for other in others:
            differences = difference(first, other)
            assert not differences, f"{first} and {other}:\n" + "\n".join(differences) + "\n" + self.report()

    def settle(self, *nodes: Node, timeout: float = 20.0) -> dict[int, int]:
        """Equal vclocks and equal data of nodes that nobody writes to any more."""
        vclock = self.wait_vclock_equal(*nodes, timeout=timeout)
        self.assert_equal_data(*nodes)
        return vclock

    def wait_follow(self, node: Node, *masters: Node, timeout: float = 20.0) -> None:
        """Until its appliers of these masters follow."""
        for master in masters:
            self.wait(
                lambda master=master: node.upstream(master).get("status") == "follow",
                f"{node} follows {master}",
                timeout,
            )

    def wait_upstream(
        self, node: Node, of: Node | str, status: str | Sequence[str], message: str = "", timeout: float = 20.0
    ) -> str:
        """Until the applier of a member is in this state, with this in its message; the whole message."""
        wanted = (status,) if isinstance(status, str) else tuple(status)

        def there() -> tuple[str] | None:
            upstream = node.upstream(of)
            text = str(upstream.get("message", ""))
            return (text,) if upstream.get("status") in wanted and message in text else None

        return self.wait(there, f"upstream of {of} at {node} is {status} {message!r}", timeout)[0]

    def wait_log(self, node: Node, pattern: str, timeout: float = 20.0, start: int = 0) -> str:
        """Until it has logged a line that matches."""
        assert node.server.output is not None
        line = node.server.output.wait_for(pattern, timeout, start)
        assert line is not None, f"{node} did not log {pattern!r} within {timeout} s\n{self.report()}"
        return line

    # ---- what to read when a test failed

    def report(self, lines: int = 40) -> str:
        """What every node says of itself, and the ends of their logs."""
        return "\n".join(self._report_of(node, lines) for node in self.nodes)

    def _report_of(self, node: Node, lines: int) -> str:
        state = "down"
        if node.server.running:
            try:
                with self.connect(node, 2.0) as conn:
                    reply = (
                        conn.ask(iproto.CALL, {iproto.FUNCTION_NAME: "box.info", iproto.TUPLE: []})
                        if node.kind == "h"
                        else conn.ask(iproto.EVAL, {iproto.EXPR: "return box.info()", iproto.TUPLE: []})
                    )
                info = reply.data[0]
                keys = ("id", "uuid", "status", "ro", "ro_reason", "vclock", "replication")
                state = str({key: info[key] for key in keys if key in info})
            except (OSError, AssertionError) as error:
                state = f"does not answer: {error}"
        tail = node.server.output.tail(lines) if node.server.output else "(never started)"
        return f"======== {node}: {state}\n{tail}"
