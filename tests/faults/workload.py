"""Writers whose effect is known exactly, and the judgement of what is there after a crash.

Each writer has one connection and a numbered sequence of operations, decided by a seed alone. The server executes
the operations of one connection in order, so that whatever survives must be the state after n of them, for some n
between the last acknowledged and the last sent one. Anything else is a lost write, a half transaction, or data that
nobody wrote.
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support import iproto
from tests.support.subjects import speaks_lua

KEYS = 300
"""Keys a writer of single rows uses: few, so that states stay small and keys are written again."""
GROUPS = 40
GROUP_ROWS = 6
WINDOW = 64

State = dict[tuple[int, ...], list[object]]
"""Primary key -> whole tuple."""


class LostWriteError(AssertionError):
    """What is there is not the state after any allowed number of operations."""


@dataclass(slots=True)
class Operation:
    """One operation: packets to send, replies to expect, and its effect."""

    packets: bytes
    replies: int
    effect: dict[tuple[int, ...], list[object] | None]


class Writer:
    """Base: the bookkeeping. A subclass says what operation n is."""

    def __init__(self, space: int, seed: int) -> None:
        self.space = space
        self.seed = seed
        self.state: State = {}
        """After `acked` operations."""
        self.unacked: list[Operation] = []
        """Sent, not yet acknowledged, oldest first."""
        self.acked = 0
        self.sent = 0
        self.lua = False
        """The server is a 2.6.0, which has no streams."""
        self._replies_left = 0

    def operation(self, n: int, state: State) -> Operation:
        raise NotImplementedError

    # ---- while the server lives

    def more(self, window: int) -> bytes:
        """Packets of as many new operations as the window has room for."""
        out = bytearray()
        expected = dict(self.state)
        for operation in self.unacked:
            _apply(expected, operation)
        while len(self.unacked) < window:
            operation = self.operation(self.sent, expected)
            _apply(expected, operation)
            self.sent += 1
            self.unacked.append(operation)
            out += operation.packets
        return bytes(out)

    def replied(self) -> None:
        """One more reply came, and it was no error."""
        if not self._replies_left:
            self._replies_left = self.unacked[0].replies
        self._replies_left -= 1
        if not self._replies_left:
            _apply(self.state, self.unacked.pop(0))
            self.acked += 1

    # ---- after a crash

    def judge(self, rows: Sequence[list[object]]) -> int:
        """Accept what the server has now as the new state; how many unacknowledged operations survived."""
        there = {self.key(row): row for row in rows}
        if len(there) != len(rows):
            raise LostWriteError(f"space {self.space}: a primary key appears twice")
        expected = dict(self.state)
        for survived in range(len(self.unacked) + 1):
            if expected == there:
                self.state = expected
                self.acked += survived
                self.sent = self.acked
                self.unacked.clear()
                self._replies_left = 0
                return survived
            if survived < len(self.unacked):
                _apply(expected, self.unacked[survived])
        raise LostWriteError(self._explain(there))

    def key(self, row: Sequence[object]) -> tuple[int, ...]:
        raise NotImplementedError

    def _explain(self, there: State) -> str:
        missing = [key for key in self.state if key not in there]
        changed = [(key, row, there[key]) for key, row in self.state.items() if key in there and there[key] != row]
        foreign = [row for key, row in there.items() if key not in self.state]
        return (
            f"space {self.space}, seed {self.seed}, {self.acked} acknowledged, {len(self.unacked)} in flight: "
            f"missing {missing[:5]} ({len(missing)}), changed {changed[:3]} ({len(changed)}), "
            f"not expected {foreign[:3]} ({len(foreign)})"
        )


def _apply(state: State, operation: Operation) -> None:
    for key, row in operation.effect.items():
        if row is None:
            state.pop(key, None)
        else:
            state[key] = row


class SingleRows(Writer):
    """REPLACE, INSERT, UPDATE, UPSERT and DELETE of rows `[key, n, text]`, each a transaction of its own."""

    def key(self, row: Sequence[object]) -> tuple[int, ...]:
        return (int(row[0]),)  # type: ignore[call-overload]

    def operation(self, n: int, state: State) -> Operation:
        dice = random.Random(self.seed * 1_000_003 + n)
        key = dice.randrange(KEYS)
        old = state.get((key,))
        text = "x" * dice.choice((0, 1, 30, 300))
        kind = dice.choice(("replace", "replace", "insert", "update", "upsert", "delete"))
        space = {iproto.SPACE_ID: self.space}
        new: list[object] | None = [key, n, text]
        if kind == "insert" and old is None:
            type_, body = iproto.INSERT, {**space, iproto.TUPLE: new}
        elif kind == "update" and old is not None:
            new = [key, n, old[2]]
            type_, body = iproto.UPDATE, {**space, iproto.KEY: [key], iproto.TUPLE: [["=", 1, n]]}
        elif kind == "upsert":
            new = [key, n, text if old is None else old[2]]
            type_, body = iproto.UPSERT, {**space, iproto.TUPLE: [key, n, text], iproto.OPS: [["=", 1, n]]}
        elif kind == "delete":
            new = None
            type_, body = iproto.DELETE, {**space, iproto.KEY: [key]}
        else:
            type_, body = iproto.REPLACE, {**space, iproto.TUPLE: new}
        return Operation(iproto.request(type_, body, n + 1), 1, {(key,): new})


class Transactions(Writer):
    """Transactions of several rows `[group, i, n]`, over one stream, whose requests are done in order; all rows of a
    group carry one n, always."""

    def key(self, row: Sequence[object]) -> tuple[int, ...]:
        return int(row[0]), int(row[1])  # type: ignore[call-overload]

    def operation(self, n: int, state: State) -> Operation:
        dice = random.Random(self.seed * 1_000_003 + n)
        group = dice.randrange(GROUPS)
        rows: list[list[object]] = [[group, i, n] for i in range(GROUP_ROWS)]
        effect: dict[tuple[int, ...], list[object] | None] = {(group, i): row for i, row in enumerate(rows)}
        if self.lua:
            text = "local s, rows = ... box.begin() for _, r in pairs(rows) do box.space[s]:replace(r) end box.commit()"
            body = {iproto.EXPR: text, iproto.TUPLE: [self.space, rows]}
            return Operation(iproto.request(iproto.EVAL, body, n + 1), 1, effect)
        stream = 1
        packets = iproto.request(iproto.BEGIN, {}, n + 1, stream)
        for row in rows:
            packets += iproto.request(iproto.REPLACE, {iproto.SPACE_ID: self.space, iproto.TUPLE: row}, n + 1, stream)
        packets += iproto.request(iproto.COMMIT, {}, n + 1, stream)
        return Operation(packets, len(rows) + 2, effect)


@dataclass(slots=True)
class _Line:
    """One writer's connection while the load runs."""

    writer: Writer
    socket: socket.socket
    incoming: bytearray = field(default_factory=bytearray)
    outgoing: bytearray = field(default_factory=bytearray)


class RefusedError(AssertionError):
    """A write was refused, with this code and text."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Load:
    """Runs writers against one server until something ends it."""

    def __init__(self, address: tuple[str, int], writers: Sequence[Writer], window: int = WINDOW) -> None:
        self.window = window
        self.lines: list[_Line] = []
        for writer in writers:
            connection = iproto.Connection(*address)
            writer.lua = speaks_lua(connection)
            connection.socket.setblocking(False)
            self.lines.append(_Line(writer, connection.socket))

    def run(self, seconds: float, at_end: Callable[[], object] | None = None, *, is_deaf: bool = False) -> bool:
        """Write for so long, then call `at_end` in the middle of it and drain what still arrives; a write that is
        refused from then on ends its line. False if the server closed a connection before the time was over.
        `is_deaf`: nothing that arrives from `at_end` on counts."""
        deadline = time.monotonic() + seconds
        alive = True
        with selectors.DefaultSelector() as selector:
            for line in self.lines:
                selector.register(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
            while alive and time.monotonic() < deadline:
                alive = self._turn(selector, deadline)
        if at_end is not None:
            at_end()
        for line in () if is_deaf else self.lines:
            with contextlib.suppress(*([RefusedError] if at_end is not None else [])):
                self._drain(line)
        self.close()
        return alive

    def _turn(self, selector: selectors.BaseSelector, deadline: float) -> bool:
        for key, events in selector.select(max(0.0, deadline - time.monotonic())):
            line: _Line = key.data
            try:
                if events & selectors.EVENT_READ and not self._receive(line):
                    return False
                if not line.outgoing:
                    line.outgoing += line.writer.more(self.window)
                if events & selectors.EVENT_WRITE and line.outgoing:
                    del line.outgoing[: line.socket.send(line.outgoing)]
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.outgoing else 0)
                selector.modify(line.socket, wanted, line)
            except BlockingIOError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                return False
        return True

    @staticmethod
    def _receive(line: _Line) -> bool:
        chunk = line.socket.recv(1 << 16)
        if not chunk:
            return False
        line.incoming += chunk
        count_replies(line.incoming, line.writer.replied)
        return True

    def _drain(self, line: _Line) -> None:
        """Send what is half sent, then take the replies that are on their way; of a dead server, what arrived."""
        line.socket.settimeout(2.0)
        try:
            line.socket.sendall(line.outgoing)
            while line.writer.unacked and self._receive(line):
                pass
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass

    def close(self) -> None:
        for line in self.lines:
            line.socket.close()


def count_replies(data: bytearray, replied: Callable[[], None]) -> None:
    """Take whole frames from the front of `data`; an error among them is raised."""
    position = 0
    while len(data) - position >= 5:
        (size,) = struct.unpack_from(">I", data, position + 1)
        end = position + 5 + size
        if end > len(data):
            break
        if data[position + 5 : position + 8] == b"\x83\x00\xce":
            (code,) = struct.unpack_from(">I", data, position + 8)
        else:
            code = iproto.unpack_all(bytes(data[position + 5 : end]))[0][0]
        if code:
            body = iproto.unpack_all(bytes(data[position + 5 : end]))[1]
            del data[:end]
            raise RefusedError(code & 0x7FFF, body.get(iproto.ERROR_24, ""))
        replied()
        position = end
    del data[:position]


SINGLE_SPACE, GROUP_SPACE, OTHER_SPACE = 600, 601, 602


def make_writers(seed: int) -> list[Writer]:
    return [SingleRows(SINGLE_SPACE, seed), Transactions(GROUP_SPACE, seed + 1), SingleRows(OTHER_SPACE, seed + 2)]


def create_spaces(address: tuple[str, int]) -> None:
    with iproto.Connection(*address) as connection:
        iproto.create_space(connection, SINGLE_SPACE, "single")
        second = ["by_n", "tree", {"unique": False}, [[1, "unsigned"]]]
        iproto.create_space(
            connection,
            OTHER_SPACE,
            "other",
            indexes=[["primary", "tree", {"unique": True}, [[0, "unsigned"]]], second],
        )
        iproto.create_space(connection, GROUP_SPACE, "groups", parts=[[0, "unsigned"], [1, "unsigned"]])


def judge(address: tuple[str, int], writers: Sequence[Writer]) -> int:
    """Compare every space with its writer; how many unacknowledged operations survived in all."""
    survived = 0
    with iproto.Connection(*address) as connection:
        for writer in writers:
            rows = connection.select(writer.space)
            survived += writer.judge(rows)
            if writer.space == OTHER_SPACE:
                secondary = connection.select(writer.space, index=1)
                assert sorted(rows, key=lambda row: (row[1], row[0])) == secondary, "the secondary index disagrees"
    return survived
