"""Spaces made, altered, emptied and dropped while clients read, write and hold transactions in them, with snapshots and
failing writes in between: no mistake of the node's own, indexes that agree, and the same data after a crash."""

from __future__ import annotations

import collections
import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support import iproto, strace
from tests.support.fixtures import Servers
from tests.support.process import Server
from tests.support.subjects import STAND_IN, snapshot

pytestmark = pytest.mark.skipif(STAND_IN, reason="2.6.0 has no interactive transactions over the wire")

SPACES = (900, 901, 902)
SPACE, INDEX, TRUNCATE = 280, 288, 330
UNKNOWN = 0x8000
"""Of a reply: a mistake of the node's own."""
Ask = tuple[int, dict[int, Any]]

FORMATS: list[list[Any]] = [
    [],
    [{"name": "id", "type": "unsigned"}, {"name": "n", "type": "integer", "is_nullable": True}],
    [{"name": "id", "type": "scalar"}, {"name": "n", "type": "number"}, {"name": "s", "type": "string"}],
]
PRIMARY_PARTS = [[[0, "unsigned"]], [[0, "scalar"]], [[0, "unsigned"], [1, "integer"]], [[1, "number"]]]
SECONDARY: list[list[Any]] = [
    ["n", "tree", {"unique": False}, [{"field": 1, "type": "integer", "is_nullable": True}]],
    ["s", "tree", {"unique": True}, [[2, "string"]]],
    ["h", "hash", {"unique": True}, [[0, "unsigned"]]],
    ["m", "tree", {"unique": False}, [[2, "scalar"], [1, "number"]]],
]


def definitions(dice: random.Random) -> list[Ask]:
    """What some DDL of connectors comes down to."""
    space = dice.choice(SPACES)
    row = [space, 1, f"s{space}", "memtx", 0, dice.choice(({}, {}, {"group_id": 1}, {"temporary": True}))]
    create: Ask = (iproto.INSERT, {iproto.SPACE_ID: SPACE, iproto.TUPLE: [*row, dice.choice(FORMATS)]})
    primary = [space, 0, "pk", dice.choice(("tree", "tree", "hash")), {"unique": True}, dice.choice(PRIMARY_PARTS)]
    index_id = dice.randrange(1, 4)
    second = [space, index_id, *dice.choice(SECONDARY)]
    put = dice.choice((iproto.INSERT, iproto.REPLACE))
    drop: Ask = (iproto.DELETE, {iproto.SPACE_ID: INDEX, iproto.KEY: [space, index_id]})
    kinds: list[list[Ask]] = [
        [create, (iproto.INSERT, {iproto.SPACE_ID: INDEX, iproto.TUPLE: primary})],
        [(put, {iproto.SPACE_ID: INDEX, iproto.TUPLE: second})],
        [drop],
        [(iproto.REPLACE, {iproto.SPACE_ID: INDEX, iproto.TUPLE: primary})],
        [
            (
                iproto.UPDATE,
                {iproto.SPACE_ID: SPACE, iproto.KEY: [space], iproto.TUPLE: [["=", 6, dice.choice(FORMATS)]]},
            )
        ],
        [(iproto.UPSERT, {iproto.SPACE_ID: TRUNCATE, iproto.TUPLE: [space, 1], iproto.OPS: [["+", 1, 1]]})],
        [
            *((iproto.DELETE, {iproto.SPACE_ID: INDEX, iproto.KEY: [space, n]}) for n in (3, 2, 1, 0)),
            (iproto.DELETE, {iproto.SPACE_ID: TRUNCATE, iproto.KEY: [space]}),
            (iproto.DELETE, {iproto.SPACE_ID: SPACE, iproto.KEY: [space]}),
        ],
    ]
    return dice.choices(kinds, (5, 5, 2, 1, 3, 3, 1))[0]


def statement(dice: random.Random) -> Ask:
    space = {iproto.SPACE_ID: dice.choice(SPACES)}
    row = [dice.randrange(30), dice.choice((None, dice.randrange(9))), dice.choice(("a", "b", str(dice.random())))]
    kind = dice.randrange(7)
    if kind < 2:
        return iproto.REPLACE, {**space, iproto.TUPLE: row[: dice.choice((2, 3, 3, 3))]}
    if kind == 2:
        return iproto.INSERT, {**space, iproto.TUPLE: row}
    if kind == 3:
        return iproto.UPDATE, {**space, iproto.KEY: row[:1], iproto.TUPLE: [["=", 1, dice.randrange(9)]]}
    if kind == 4:
        return iproto.DELETE, {**space, iproto.INDEX_ID: dice.choice((0, 0, 3)), iproto.KEY: row[:1]}
    how = {iproto.INDEX_ID: dice.randrange(4), iproto.ITERATOR: dice.randrange(7), iproto.LIMIT: dice.choice((1, 99))}
    if dice.random() < 0.3:
        how[iproto.FETCH_POSITION] = True
    return iproto.SELECT, {**space, **how, iproto.KEY: []}


@dataclass(slots=True)
class Chaos:
    address: tuple[str, int]
    codes: collections.Counter[int] = field(default_factory=collections.Counter)
    faults: list[BaseException] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, seconds: float, seed: int) -> None:
        clients = [
            self._ddl,
            self._ddl,
            self._writer,
            self._writer,
            self._transactions,
            self._transactions,
            self._saver,
        ]
        threads = [
            threading.Thread(target=self._guard, args=(each, random.Random(seed + n))) for n, each in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.is_over.set()
        for thread in threads:
            thread.join()
        if self.faults:
            raise self.faults[0]

    def _guard(self, client: Callable[[iproto.Connection, random.Random], None], dice: random.Random) -> None:
        try:
            with iproto.Connection(*self.address) as connection:
                while not self.is_over.is_set():
                    client(connection, dice)
        except BaseException as fault:
            self.faults.append(fault)

    def _pipeline(self, connection: iproto.Connection, requests: list[Ask], stream: int = 0) -> None:
        """All at once; each has one reply."""
        syncs = [connection.next_sync() for _ in requests]
        packets = [iproto.request(*ask, sync, stream) for ask, sync in zip(requests, syncs, strict=True)]
        connection.send(b"".join(packets))
        replies = [connection.read_reply() for _ in syncs]
        assert [reply.sync for reply in replies] == syncs, "replies are not in the order of their requests"
        for reply, ask in zip(replies, requests, strict=True):
            assert reply.type != UNKNOWN, (ask, reply)
            self.codes[reply.code] += 1

    def _ddl(self, connection: iproto.Connection, dice: random.Random) -> None:
        requests = definitions(dice)
        for _ in range(dice.choice((0, 3))):
            requests.insert(dice.randrange(len(requests) + 1), statement(dice))
        self._pipeline(connection, requests)

    def _writer(self, connection: iproto.Connection, dice: random.Random) -> None:
        self._pipeline(connection, [statement(dice) for _ in range(dice.choice((1, 10, 50)))])

    def _transactions(self, connection: iproto.Connection, dice: random.Random) -> None:
        stream = dice.randrange(1, 5)
        begin: Ask = (iproto.BEGIN, {iproto.TXN_ISOLATION: dice.randrange(4)})
        end: Ask = (dice.choice((iproto.COMMIT, iproto.COMMIT, iproto.ROLLBACK)), {})
        self._pipeline(connection, [begin], stream)
        for _ in range(dice.randrange(6)):
            requests = [statement(dice)] if dice.random() < 0.9 else definitions(dice)
            self._pipeline(connection, requests, stream)
        self._pipeline(connection, [end], stream)

    def _saver(self, connection: iproto.Connection, dice: random.Random) -> None:
        with contextlib.suppress(iproto.ServerError):
            snapshot(connection)
        self.is_over.wait(0.3)


def contents(address: tuple[str, int]) -> dict[int, Any]:
    """Everything that a restart keeps; indexes agree with each other."""
    kept: dict[int, Any] = {}
    with iproto.Connection(*address) as connection:
        for space, _, _, _, _, options, _ in connection.select(SPACE, [SPACES[0]], iterator=iproto.GE):
            indexes = connection.select(INDEX, [space], iterator=iproto.EQ)
            rows = connection.select(space) if indexes else []
            for index in indexes:
                found = connection.select(space, index=index[1])
                assert sorted(found, key=repr) == sorted(rows, key=repr), index
            kept[space] = indexes, [] if options.get("temporary") else rows
        kept[SPACE] = connection.select(SPACE, [SPACES[0]], iterator=iproto.GE)
    return kept


def chaos(server: Server, seed: int, seconds: float) -> None:
    print(f"seed {seed}")
    server.start()
    made = Chaos(server.address)
    try:
        made.run(seconds, seed)
    finally:
        print(sorted(made.codes.items()))
    assert "Traceback" not in server.log, server.log[-5000:]
    before = contents(server.address)
    server.kill()
    server.wrapper = ()
    with server.start():
        assert contents(server.address) == before
    assert made.codes[0] > 100


def test_schema_changes_amid_everything(servers: Servers) -> None:
    chaos(servers.subject("chaos", wal_max_size=1 << 16), random.randrange(1 << 30), 3)


@pytest.mark.skipif(not strace.available(), reason="strace is absent or may not trace here")
def test_schema_changes_amid_everything_while_writes_fail(servers: Servers) -> None:
    seed = random.randrange(1 << 30)
    server = servers.subject("chaos")
    server.start()
    server.stop()
    server.wrapper = strace.wrapper(strace.inject("pwrite64", f"error=EIO:when=5+{3 + seed % 9}"))
    chaos(server, seed, 4)


@pytest.mark.soak
def test_schema_changes_amid_everything_soak(servers: Servers) -> None:
    for n in range(60):
        server = servers.subject(f"chaos-{n}", wal_max_size=1 << 16)
        server.start()
        server.stop()
        if n % 2 and strace.available():
            server.wrapper = strace.wrapper(strace.inject("pwrite64", f"error=EIO:when=5+{3 + n % 9}"))
        chaos(server, random.randrange(1 << 30), 10)
        server.kill()
