"""One slow, careful writer on each node, that goes on through every fault and remembers what it was told of each write:
done, refused, or nothing at all. The judgement: what was done is everywhere, what was refused is nowhere.

    with Ledger(cluster) as ledger:
        ...                                        # faults
        ledger.stop()
        cluster.settle()
        ledger.judge()

Unlike `traffic`, it may write to a node that is paused, or whose disk is full: it waits for each answer, and knows
which of its writes nobody answered.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from tests.support.cluster import Cluster, Node
from tests.support.iproto import INSERT, SPACE_ID, TUPLE, Connection, create_space

SPACE = 790
PAUSE = 0.005
READONLY, NO_SUCH_SPACE, WAL_IO, ACCESS_DENIED, LOADING, CASCADE_ROLLBACK = 7, 36, 40, 42, 116, 134
REFUSALS = frozenset({READONLY, NO_SUCH_SPACE, WAL_IO, ACCESS_DENIED, LOADING, CASCADE_ROLLBACK})
"""A node in trouble may refuse so. In the midst of its recovery 2.6.0 knows neither spaces nor what guest may do."""


class BrokenPromiseError(AssertionError):
    """A write that was acknowledged is missing, or one that was refused is there."""


@dataclass(slots=True)
class Page:
    """What one node was asked to write, by number, and what it said."""

    done: set[int] = field(default_factory=set)
    refused: dict[int, int] = field(default_factory=dict)
    """Number -> code of the error."""
    unknown: set[int] = field(default_factory=set)
    """The connection broke, or nothing came in time: it may be there or not."""

    def judge(self, there: set[int]) -> None:
        """BrokenPromiseError unless `there` is what may be there."""
        if missing := self.done - there:
            raise BrokenPromiseError(f"{len(missing)} acknowledged writes are lost: {sorted(missing)[:10]}")
        if present := self.refused.keys() & there:
            codes = {self.refused[number] for number in present}
            raise BrokenPromiseError(f"{len(present)} refused writes ({codes}) are there: {sorted(present)[:10]}")
        if foreign := there - self.done - self.unknown:
            raise BrokenPromiseError(f"{len(foreign)} rows that nobody wrote: {sorted(foreign)[:10]}")


class _Line(threading.Thread):
    """Writes to one node, one row after the other."""

    def __init__(self, node: Node, number: int, timeout: float) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.number = number
        """First part of its keys."""
        self.page = Page()
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self._timeout = timeout
        self._next = 0

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                with contextlib.suppress(OSError), self.node.connect(self._timeout) as connection:
                    self._write(connection)
                self.ended.wait(4 * PAUSE)
        except BaseException as error:
            self.error = error

    def _write(self, connection: Connection) -> None:
        """Until nobody wants it any more; OSError when the node does not answer."""
        while not self.ended.is_set():
            number, self._next = self._next, self._next + 1
            self.page.unknown.add(number)
            reply = connection.ask(INSERT, {SPACE_ID: SPACE, TUPLE: [self.number, number]})
            if not reply.failed:
                self.page.done.add(number)
            elif reply.code in REFUSALS:
                self.page.refused[number] = reply.code
            else:
                raise AssertionError(f"row {number}: {reply.answer()}")
            self.page.unknown.discard(number)
            self.ended.wait(PAUSE)


class Ledger:
    """A page for each node."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Node] | None = None, *, timeout: float = 2.0) -> None:
        """`timeout`: how long a writer waits for one answer."""
        self.cluster = cluster
        self._lines = {node.name: _Line(node, number, timeout) for number, node in enumerate(nodes or cluster.nodes, 1)}

    def page(self, node: Node) -> Page:
        return self._lines[node.name].page

    def done(self, node: Node) -> int:
        return len(self.page(node).done)

    def wait_for_more(self, count: int, *nodes: Node, timeout: float = 30.0) -> None:
        """Until so many more writes are acknowledged by each of the nodes."""
        goals = [(node, self.done(node) + count) for node in nodes or self.cluster.nodes]
        self.cluster.wait(
            lambda: self._check() and all(self.done(node) >= goal for node, goal in goals),
            f"{count} more writes by {[node for node, _ in goals]}",
            timeout,
        )

    def wait_refused(self, node: Node, code: int, count: int = 1, timeout: float = 30.0) -> None:
        """Until so many more writes are refused with this code."""
        refused = self.page(node).refused

        def times() -> int:
            return collections.Counter(list(refused.values()))[code]

        goal = times() + count
        self.cluster.wait(lambda: self._check() and times() >= goal, f"{node} refuses with {code}", timeout)

    def _check(self) -> bool:
        for line in self._lines.values():
            if line.error is not None:
                raise AssertionError(f"writing to {line.node}: {line.error}") from line.error
        return True

    def stop(self) -> None:
        """End it; raises what went wrong in it."""
        self._end()
        self._check()

    def _end(self) -> None:
        for line in self._lines.values():
            line.ended.set()
        for line in self._lines.values():
            if line.ident is not None:
                line.join(30)

    def judge(self, nodes: Iterable[Node] | None = None) -> None:
        """Every page, on each of the nodes; call it after `stop`."""
        for node in nodes or self.cluster.running:
            rows = node.rows(SPACE)
            for line in self._lines.values():
                there = {row[1] for row in rows if row[0] == line.number}
                try:
                    line.page.judge(there)
                except BrokenPromiseError as error:
                    raise BrokenPromiseError(f"{line.node}, as {node} has it: {error}") from None

    def create_space(self) -> None:
        first = next(iter(self._lines.values())).node
        create_space(first.conn, SPACE, "ledger", parts=[[0, "unsigned"], [1, "unsigned"]])
        self.cluster.wait_caught_up(first)

    def start(self) -> None:
        for line in self._lines.values():
            line.start()

    def __enter__(self) -> Self:
        self.create_space()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
