"""Writers on every node of a cluster at once, and the judgement that nothing acknowledged is lost anywhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Self

from tests.faults.workload import RefusedError, SingleRows, Transactions, Writer, count_replies
from tests.support.cluster import Cluster, Node
from tests.support.iproto import CALL, EVAL, EXPR, FUNCTION_NAME, TUPLE, ClosedError, Connection, create_space
from tests.support.subjects import speaks_lua

FIRST_SPACE = 700
READONLY, ACCESS_DENIED, LOADING = 7, 42, 116


class _NodeTraffic(threading.Thread):
    """Writes to one node, in spaces that nobody else writes; goes on when the node comes back.

    One burst after the other and a pause between them: a writer that never pauses is faster than any replica, and
    what is then tested is the queue.
    """

    def __init__(self, node: Node, writers: Sequence[Writer], burst: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.writers = writers
        self.burst = burst
        self.pause = pause
        self.wanted = threading.Event()
        self.idle = threading.Event()
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                if not self.wanted.is_set():
                    self.idle.set()
                    self.wanted.wait(0.02)
                    continue
                self.idle.clear()
                with contextlib.suppress(OSError):
                    if self._is_writable():
                        self._write()
                        continue
                self.ended.wait(0.02)
        except BaseException as error:
            self.error = error
        finally:
            self.idle.set()

    def _is_writable(self) -> bool:
        """Recovered, and lets clients write; what it kept of the requests in flight is then known."""
        with self.node.connect(5) as connection:
            if self.node.kind == "t":
                reply = connection.ask(EVAL, {EXPR: "return box.info()", TUPLE: []})
            else:
                reply = connection.ask(CALL, {FUNCTION_NAME: "box.info", TUPLE: []})
            if reply.code in (ACCESS_DENIED, LOADING):
                return False  # 2.6.0 answers in the midst of its recovery, before it knows what guest may do
            info = reply.data[0]
            if info["status"] != "running" or info["ro"]:
                return False
            for writer in self.writers:
                if writer.unacked:
                    writer.judge(connection.select(writer.space))
        return True

    def _write(self) -> None:
        """Bursts until nobody wants them any more; OSError when the node is gone."""
        with contextlib.ExitStack() as connections:
            lines = [(writer, connections.enter_context(self.node.connect(10))) for writer in self.writers]
            for writer, connection in lines:
                writer.lua = speaks_lua(connection)
            try:
                while self.wanted.is_set() and not self.ended.is_set():
                    for writer, connection in lines:
                        connection.send(writer.more(self.burst))
                    for writer, connection in lines:
                        self._take_replies(writer, connection)
                    self.ended.wait(self.pause)
            except RefusedError as error:
                if error.code not in (READONLY, LOADING):
                    raise

    @staticmethod
    def _take_replies(writer: Writer, connection: Connection) -> None:
        data = bytearray()
        while writer.unacked:
            chunk = connection.socket.recv(1 << 16)
            if not chunk:
                raise ClosedError("the node closed the connection")
            data += chunk
            count_replies(data, writer.replied)


class Traffic:
    """Load on nodes of a cluster. A node that dies is written to again when it is back: nothing need be said.

    One that is paused must not be written to (`hold` it before): what a paused node has in its socket it does later,
    when nobody knows any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        nodes: Sequence[Node] | None = None,
        *,
        seed: int = 1,
        burst: int = 8,
        pause: float = 0.02,
    ) -> None:
        self.cluster = cluster
        self.lines: dict[str, _NodeTraffic] = {}
        for number, node in enumerate(nodes or cluster.nodes):
            first = FIRST_SPACE + 2 * number
            writers = [SingleRows(first, seed * 100 + number), Transactions(first + 1, seed * 100 + 50 + number)]
            self.lines[node.name] = _NodeTraffic(node, writers, burst, pause)

    @property
    def writers(self) -> list[Writer]:
        return [writer for line in self.lines.values() for writer in line.writers]

    @property
    def acked(self) -> int:
        """Operations so far, of all nodes."""
        return sum(writer.acked for writer in self.writers)

    def create_spaces(self) -> None:
        """On the first node that is written to; everybody has them on return."""
        connection = next(iter(self.lines.values())).node.conn
        for line in self.lines.values():
            single, groups = line.writers
            create_space(connection, single.space, f"single_{line.node.name}")
            create_space(connection, groups.space, f"groups_{line.node.name}", parts=[[0, "unsigned"], [1, "unsigned"]])
        self.cluster.settle()

    def start(self) -> None:
        for line in self.lines.values():
            line.wanted.set()
            line.start()

    def hold(self, *nodes: Node) -> None:
        """No more writes to these nodes; none is in flight on return."""
        for node in nodes:
            self.lines[node.name].wanted.clear()
        for node in nodes:
            assert self.lines[node.name].idle.wait(20), f"writes to {node} do not end"
        self._check()

    def go_on(self, *nodes: Node) -> None:
        for node in nodes:
            self.lines[node.name].wanted.set()

    def wait_for_more(self, count: int, *nodes: Node, timeout: float = 30.0) -> None:
        """Until so many more operations were acknowledged by each of the nodes."""
        lines = [self.lines[node.name] for node in nodes] or list(self.lines.values())
        goals = [(line, sum(writer.acked for writer in line.writers) + count) for line in lines]

        def there() -> bool:
            self._check()
            return all(sum(writer.acked for writer in line.writers) >= goal for line, goal in goals)

        self.cluster.wait(there, f"{count} more writes", timeout)

    def stop(self) -> None:
        """End it; raises what went wrong in it."""
        self._end()
        self._check()

    def _end(self) -> None:
        for line in self.lines.values():
            line.ended.set()
        for line in self.lines.values():
            if line.ident is not None:
                line.join(30)

    def _check(self) -> None:
        for line in self.lines.values():
            if line.error is not None:
                raise AssertionError(f"writing to {line.node}: {line.error}\n{self.cluster.report()}") from line.error

    def judge(self, *nodes: Node) -> None:
        """On each node, every writer's space is what its writer made it; call it after `stop`."""
        for node in nodes or self.cluster.running:
            with node.connect() as connection:
                for writer in self.writers:
                    try:
                        writer.judge(connection.select(writer.space))
                    except AssertionError as error:
                        raise AssertionError(f"on {node}: {error}\n{self.cluster.report()}") from None

    def finish(self) -> None:
        """Stop, let all nodes become equal, and judge each of them."""
        self.stop()
        self.cluster.settle()
        self.judge()

    def __enter__(self) -> Self:
        self.create_spaces()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
