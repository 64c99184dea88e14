"""What clients do to a whole node in a simulation: requests in bursts, transactions, transfers, schema changes,
snapshots. Each fiber ends when its connection does."""

from __future__ import annotations

import random
from typing import Any

from headwater.errors import Er
from headwater.sim.check import Violation
from headwater.sim.client import Client, Lost, Reply, Ticket
from headwater.sim.history import Act, Rows, Sequence
from headwater.wire.constants import Key, Type
from headwater.world import World

ADDRESS = "127.0.0.1:3301"
DATA = 512
BANK = 513
WRITERS = 3
KEYS = 10
"""Keys of each writer."""
ACCOUNTS = 5
TOTAL = 100
SPACE, INDEX = 280, 288

NOT_WRITTEN = frozenset({Er.WAL_IO, Er.CASCADE_ROLLBACK})
"""Answers that say: it is not done, and that is the disk's fault."""
CONFLICTS = frozenset({Er.TRANSACTION_CONFLICT, Er.TRANSACTION_TIMEOUT})


def insert(space_id: int, row: list[Any]) -> dict[int, Any]:
    return {Key.SPACE_ID: space_id, Key.TUPLE: row}


SCHEMA = [
    insert(SPACE, [DATA, 1, "data", "memtx", 0, {}, []]),
    insert(INDEX, [DATA, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]),
    insert(INDEX, [DATA, 1, "n", "tree", {"unique": False}, [[2, "unsigned"]]]),
    insert(SPACE, [BANK, 1, "bank", "memtx", 0, {}, []]),
    insert(INDEX, [BANK, 0, "pk", "hash", {"unique": True}, [[0, "unsigned"]]]),
]


def expect(reply: Reply, *allowed: frozenset[Er] | frozenset[int]) -> bool:
    """Done? False for one of the allowed errors; anything else is a violation."""
    if reply.code == 0:
        return True
    if any(reply.code in codes for codes in allowed):
        return False
    raise Violation(f"a client was told {reply.code}: {reply.message}")


class Traffic:
    """All clients of one life of a node."""

    def __init__(self, world: World, dice: random.Random, histories: dict[str, Sequence], steps: int) -> None:
        self.done = 0
        self.refused = 0
        """Not done: the disk's fault, or a conflict between transactions."""
        self.disk_errors = 0
        self.checkpoints = 0
        self.failure: Violation | None = None
        self._world = world
        self._dice = dice
        self._histories = histories
        self._steps = steps
        self._number = 0
        self._running = 0
        self._ended = world.tasks.event()

    async def run(self) -> None:
        """Until every client has done its steps or lost its connection."""
        fibers = [self._writer(number) for number in range(WRITERS)]
        fibers += [self._transfers(), self._transfers(), self._reader(), self._operator()]
        for fiber in fibers:
            self._running += 1
            self._world.tasks.spawn(self._guard(fiber), "client")
        while self._running:
            self._ended.clear()
            await self._ended.wait()
        if self.failure is not None:
            raise self.failure

    async def _guard(self, fiber: Any) -> None:
        try:
            await fiber
        except Lost:
            pass
        except (Violation, AssertionError) as violation:
            self.failure = self.failure or Violation(str(violation))
        finally:
            self._running -= 1
            self._ended.set()

    async def _connected(self) -> Client:
        client = Client(self._world)
        await client.connect(ADDRESS)
        return client

    async def _pause(self) -> None:
        await self._world.tasks.sleep(self._dice.choice((0.0, 0.0005, 0.005, 0.05)))

    # ---- writers with keys of their own

    async def _writer(self, number: int) -> None:
        client = await self._connected()
        history = self._histories[f"writer {number}"]
        for _ in range(self._steps):
            if self._dice.random() < 0.7:
                await self._burst(client, history, number)
            else:
                await self._transaction(client, history, number)
            if self._dice.random() < 0.3:
                history.check_live(own_rows(await client.all(DATA), number))
            await self._pause()
        history.check_live(own_rows(await client.all(DATA), number))

    async def _burst(self, client: Client, history: Sequence, number: int) -> None:
        """Requests one behind the other; they are done in this order."""
        sent: list[tuple[Act, Ticket]] = []
        for _ in range(self._dice.choice((1, 1, 2, 5, 20))):
            type_, body, act = self._act(history, number)
            sent.append((act, client.send(type_, body)))
        await self._collect(history, sent)

    async def _transaction(self, client: Client, history: Sequence, number: int) -> None:
        stream = self._dice.randrange(1, 4)
        client.send(Type.BEGIN, {}, stream)
        acts = []
        for _ in range(self._dice.choice((1, 2, 4))):
            type_, body, act = self._act(history, number)
            history.drop(act)
            acts.append(act)
            client.send(type_, body, stream)

        def all_of(rows: Rows) -> None:
            for act in acts:
                act.apply(rows)

        words = f"transaction of {', '.join(act.what for act in acts)}"
        whole = history.add(words, all_of, self._world.clock.monotonic())
        await self._collect(history, [(whole, client.send(Type.COMMIT, {}, stream))])

    async def _collect(self, history: Sequence, sent: list[tuple[Act, Ticket]]) -> None:
        for act, ticket in sent:
            reply = await ticket.wait()
            self.disk_errors += reply.code in NOT_WRITTEN
            if expect(reply, NOT_WRITTEN, CONFLICTS):
                act.done_at = ticket.answered_at
                self.done += 1
            else:
                history.drop(act)
                self.refused += 1

    def _act(self, history: Sequence, number: int) -> tuple[int, dict[int, Any], Act]:
        self._number += 1
        mark = self._number
        key = number * 100 + self._dice.randrange(KEYS)
        kind = self._dice.choice((Type.REPLACE, Type.REPLACE, Type.REPLACE, Type.DELETE, Type.UPDATE, Type.UPSERT))
        now = self._world.clock.monotonic()
        words = f"{kind.name} {key} #{mark}"
        if kind is Type.REPLACE:
            text = ("x" * self._dice.choice((0, 10, 200, 3000))) + str(mark)
            act = history.add(words, lambda rows: rows.__setitem__(key, (text, mark)), now)
            return kind, insert(DATA, [key, text, mark]), act
        if kind is Type.DELETE:

            def remove(rows: Rows) -> None:
                rows.pop(key, None)

            act = history.add(words, remove, now)
            return kind, {Key.SPACE_ID: DATA, Key.KEY: [key]}, act

        def add(rows: Rows) -> None:
            if key in rows:
                rows[key] = (rows[key][0], rows[key][1] + mark)
            elif kind is Type.UPSERT:
                rows[key] = ("new", mark)

        ops = [["+", 2, mark]]
        act = history.add(words, add, now)
        if kind is Type.UPDATE:
            return kind, {Key.SPACE_ID: DATA, Key.KEY: [key], Key.TUPLE: ops}, act
        return kind, {Key.SPACE_ID: DATA, Key.TUPLE: [key, "new", mark], Key.OPS: ops}, act

    # ---- transfers between accounts that everybody shares

    async def _transfers(self) -> None:
        client = await self._connected()
        for _ in range(self._steps):
            await self._transfer(client)
            await self._pause()

    async def _transfer(self, client: Client) -> None:
        source, target = self._dice.sample(range(ACCOUNTS), 2)
        amount = self._dice.randint(1, 9)
        stream = 7
        if not expect(await client.ask(Type.BEGIN, {}, stream), NOT_WRITTEN):
            return
        steps = [
            client.send(Type.UPDATE, {Key.SPACE_ID: BANK, Key.KEY: [source], Key.TUPLE: [["-", 1, amount]]}, stream),
            client.send(Type.UPDATE, {Key.SPACE_ID: BANK, Key.KEY: [target], Key.TUPLE: [["+", 1, amount]]}, stream),
            client.send(Type.COMMIT if self._dice.random() < 0.9 else Type.ROLLBACK, {}, stream),
        ]
        for step in steps:
            expect(await step.wait(), NOT_WRITTEN, CONFLICTS)

    async def _reader(self) -> None:
        client = await self._connected()
        for _ in range(self._steps):
            check_bank(await client.all(BANK))
            await self._pause()

    # ---- schema and snapshots

    async def _operator(self) -> None:
        client = await self._connected()
        for _ in range(self._steps):
            dice = self._dice.random()
            if dice < 0.3:
                reply = await client.call("box.snapshot")
                self.checkpoints += reply.code == 0
            elif dice < 0.6:
                await self._change_schema(client)
            await self._pause()

    async def _change_schema(self, client: Client) -> None:
        """Another index on the space that all write to, and a space that comes and goes."""
        number = self._dice.choice((2, 3))
        space_id = 600 + number
        steps: list[tuple[int, dict[int, Any]]] = [
            (Type.REPLACE, insert(INDEX, [DATA, number, f"i{number}", "tree", {"unique": False}, [[2, "unsigned"]]])),
            (Type.REPLACE, insert(SPACE, [space_id, 1, f"s{number}", "memtx", 0, {}, []])),
            (Type.REPLACE, insert(INDEX, [space_id, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])),
            (Type.REPLACE, insert(space_id, [self._dice.randrange(1000), "row"])),
            (Type.DELETE, {Key.SPACE_ID: INDEX, Key.KEY: [DATA, number]}),
        ]
        for type_, body in steps:
            if not expect(await client.ask(type_, body), NOT_WRITTEN, CONFLICTS):
                return
            await self._pause()


def own_rows(rows: list[Any], number: int) -> Rows:
    return {row[0]: tuple(row[1:]) for row in rows if row[0] // 100 == number}


def check_bank(rows: list[Any]) -> None:
    total = sum(row[1] for row in rows)
    if rows and total != TOTAL:
        raise Violation(f"the accounts hold {total}, not {TOTAL}: half a transfer, or one twice")
