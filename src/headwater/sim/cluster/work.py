"""What clients do to a replica set: rows of their own on every node, transactions, numbers that all add to, transfers,
a schema that changes, reads everywhere. What they are told goes into ledgers; what they see is looked at at once.

Nothing here conflicts: keys have one origin, or the change commutes. That is what asynchronous replication asks for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

from headwater.errors import Er
from headwater.sim.check import Violation
from headwater.sim.client import Client, Lost, Reply, Ticket
from headwater.sim.cluster.ledger import TOTAL, Counter, Fate, Log, check_bank
from headwater.sim.cluster.member import Member
from headwater.sim.cluster.plan import Plan
from headwater.sim.history import Act, Rows, Sequence
from headwater.wire.constants import Key, Type
from headwater.world import World

LOG, DATA, COUNTER, BANK, CHURN = 512, 513, 514, 515, 520
SPACE, INDEX, TRUNCATE = 280, 288, 330
WRITERS = 2
"""Of each kind on a node."""
KEYS = 8
"""Of each writer of DATA."""
COUNTERS = 3
ACCOUNTS = 5
STREAM = 1
"""In which transactions run."""
PATIENCE = 12.0
"""Seconds until a client gives up a connection that says nothing."""

Body = dict[int, Any]

NOT_DONE = frozenset(
    {
        Er.WAL_IO,
        Er.CASCADE_ROLLBACK,
        Er.READONLY,
        Er.LOADING,
        Er.TRANSACTION_CONFLICT,
        Er.TRANSACTION_TIMEOUT,
        Er.SHUTDOWN,
    }
)
"""Answers that say: it is not done, and may be tried again."""
NOT_THERE = frozenset({Er.NO_SUCH_SPACE, Er.NO_SUCH_INDEX_ID, Er.ALTER_SPACE, Er.DROP_SPACE, Er.DROP_PRIMARY_KEY})
"""What a change of the schema needs is missing, for one before it was refused."""


def space(id: int, name: str) -> tuple[int, Body]:
    return Type.REPLACE, {Key.SPACE_ID: SPACE, Key.TUPLE: [id, 1, name, "memtx", 0, {}, []]}


def index(space_id: int, id: int, parts: list[list[Any]], *, unique: bool = True, kind: str = "tree") -> Any:
    tuple = [space_id, id, f"i{id}", kind, {"unique": unique}, parts]
    return Type.REPLACE, {Key.SPACE_ID: INDEX, Key.TUPLE: tuple}


def put(space_id: int, row: list[Any]) -> tuple[int, Body]:
    return Type.REPLACE, {Key.SPACE_ID: space_id, Key.TUPLE: row}


SCHEMA: list[tuple[int, Body]] = [
    space(LOG, "log"),
    index(LOG, 0, [[0, "unsigned"], [1, "unsigned"]]),
    space(DATA, "data"),
    index(DATA, 0, [[0, "unsigned"]]),
    index(DATA, 1, [[2, "unsigned"]], unique=False),
    space(COUNTER, "counter"),
    index(COUNTER, 0, [[0, "unsigned"]], kind="hash"),
    space(BANK, "bank"),
    index(BANK, 0, [[0, "unsigned"]]),
]


class Ledgers:
    """Of a whole run."""

    def __init__(self, plan: Plan) -> None:
        writable = [node for node in plan.nodes if node.is_writable]
        places = [(node.name, place * 10 + number) for place, node in enumerate(writable) for number in range(WRITERS)]
        self.logs = {writer: Log(writer, name) for name, writer in places}
        self.histories = {writer: Sequence(f"writer {writer} on {name}") for name, writer in places}
        self.counters = {key: Counter() for key in range(COUNTERS)}
        self.done = 0
        self.refused = 0
        self.unanswered = 0
        self.reads = 0
        self.ddl = 0

    def of(self, node: str) -> list[int]:
        """Writers whose rows are of this origin."""
        return [writer for writer, log in self.logs.items() if log.node == node]


class Work:
    """All clients. Each fiber goes on for its steps, connecting anew whenever it must."""

    def __init__(self, world: World, dice: Callable[[str], random.Random], plan: Plan, ledgers: Ledgers) -> None:
        self.failure: Violation | None = None
        self._world = world
        self._dice = dice
        self._plan = plan
        # A power cut may take the definition of a space, too, until it is back from the peers.
        self._not_done = NOT_DONE | ({Er.NO_SUCH_SPACE} if any(node.may_lose for node in plan.nodes) else set())
        self._ledgers = ledgers
        self._running = 0
        self._ended = world.tasks.event()
        self._members: dict[str, Member] = {}
        self._until = 0.0

    async def found(self, member: Member) -> None:
        """Make the spaces, on the node that alone changes the schema."""
        client = await self._connected(member)
        for type_, body in SCHEMA:
            self._must(await client.ask(type_, body))
        client.send(Type.BEGIN, {}, STREAM)
        for account in range(ACCOUNTS):
            client.send(*put(BANK, [account, TOTAL // ACCOUNTS]), STREAM)
        self._must(await client.ask(Type.COMMIT, {}, STREAM))
        client.close()

    def start(self, members: dict[str, Member], until: float) -> None:
        """`until`: nothing new is begun then."""
        self._members = members
        self._until = until
        for name, member in members.items():
            for writer in self._ledgers.of(name):
                self._spawn(f"log {writer}", member, self._log, writer)
                self._spawn(f"writer {writer}", member, self._write, writer)
            if member.plan.is_writable and not member.plan.may_lose:
                self._spawn(f"adder on {name}", member, self._add, 0)
            self._spawn(f"reader on {name}", member, self._read, 0)
        first = next(iter(members.values()))
        self._spawn("transfers", first, self._transfer, 0)
        self._spawn("schema", first, self._change_schema, 0)

    async def end(self) -> None:
        """Until every client has done what it had to do, or is out of time."""
        while self._running:
            self._ended.clear()
            await self._ended.wait()

    # ---- fibers

    def _spawn(self, name: str, member: Member, step: Step, writer: int) -> None:
        self._running += 1
        self._world.tasks.spawn(self._fiber(name, member, step, writer), name)

    async def _fiber(self, name: str, member: Member, step: Step, writer: int) -> None:
        """`step` again and again."""
        dice = self._dice(name)
        mean = self._plan.seconds / self._plan.steps
        client: Client | None = None
        try:
            while await self._pause(dice.expovariate(1 / mean)):
                try:
                    client = client or await self._connected(member)
                    await self._in_time(step(client, dice, member, writer))
                except (Lost, TimeoutError):
                    if client is not None:
                        client.close()
                    client = None
        except (Violation, AssertionError) as violation:
            self.failure = self.failure or Violation(str(violation))
        finally:
            if client is not None:
                client.close()
            self._running -= 1
            self._ended.set()

    async def _pause(self, seconds: float) -> bool:
        """False when it is time to end."""
        left = self._until - self._world.clock.monotonic()
        await self._world.tasks.sleep(max(0.0, min(seconds, left)))
        return self.failure is None and self._world.clock.monotonic() < self._until

    async def _in_time(self, step: Coroutine[Any, Any, None]) -> None:
        async with self._world.tasks.timeout(PATIENCE):
            await step

    async def _connected(self, member: Member) -> Client:
        client = Client(self._world)
        async with self._world.tasks.timeout(PATIENCE):
            await client.connect(member.address)
        return client

    # ---- answers

    def _must(self, reply: Reply) -> None:
        if reply.code:
            raise Violation(f"liveness: a set in which nothing goes wrong says {reply.code}: {reply.message}")

    def _is_done(self, reply: Reply, what: str) -> bool:
        if reply.code == 0:
            self._ledgers.done += 1
            return True
        if reply.code not in self._not_done:
            raise Violation(f"liveness: {what} was told {reply.code}: {reply.message}")
        self._ledgers.refused += 1
        return False

    async def _rows(self, client: Client, member: Member, space_id: int, index_id: int = 0) -> list[Any]:
        """Lost if the node has nothing to show yet: what a power cut took, the space itself among it, is not back."""
        body: Body = {Key.SPACE_ID: space_id, Key.INDEX_ID: index_id, Key.LIMIT: 1 << 31, Key.ITERATOR: 2, Key.KEY: []}
        reply = await client.ask(Type.SELECT, body)
        if reply.code in (Er.LOADING, Er.SHUTDOWN) or (reply.code in NOT_THERE and member.plan.may_lose):
            raise Lost
        if reply.code:
            raise Violation(f"liveness: SELECT of space {space_id} was told {reply.code}: {reply.message}")
        self._ledgers.reads += 1
        return reply.rows

    # ---- rows that are only added

    async def _log(self, client: Client, dice: random.Random, member: Member, writer: int) -> None:
        log = self._ledgers.logs[writer]
        number = log.ask()
        row = [writer, number, "x" * dice.choice((0, 10, 100, 1500))]
        body: Body = {Key.SPACE_ID: LOG, Key.TUPLE: row}
        reply = await client.ask(Type.INSERT, body)
        log.fates[number] = Fate.DONE if self._is_done(reply, f"row {number} of log {writer}") else Fate.REFUSED

    # ---- rows that change, in bursts and transactions

    async def _write(self, client: Client, dice: random.Random, member: Member, writer: int) -> None:
        history = self._ledgers.histories[writer]
        if any(act.done_at is None for act in history.acts):
            await self._settle(client, member, history, writer)
        if dice.random() < 0.6:
            await self._burst(client, dice, history, writer)
        else:
            await self._transaction(client, dice, history, writer)

    async def _burst(self, client: Client, dice: random.Random, history: Sequence, writer: int) -> None:
        """Requests one behind the other; they are done in this order."""
        sent: list[tuple[Act, Ticket]] = []
        for _ in range(dice.choice((1, 1, 2, 4))):
            type_, body, act = self._act(dice, history, writer)
            sent.append((act, client.send(type_, body)))
        for act, ticket in sent:
            self._judge(history, act, await ticket.wait())

    async def _transaction(self, client: Client, dice: random.Random, history: Sequence, writer: int) -> None:
        drafts = [self._act(dice, history, writer) for _ in range(dice.choice((2, 3, 6)))]
        acts = [act for _, _, act in drafts]
        for act in acts:
            history.drop(act)
        if not await self._statements(client, [(type_, body) for type_, body, _ in drafts]):
            return

        def all_of(rows: Rows) -> None:
            for act in acts:
                act.apply(rows)

        words = f"transaction of {', '.join(act.what for act in acts)}"
        whole = history.add(words, all_of, self._world.clock.monotonic())
        self._judge(history, whole, await client.ask(Type.COMMIT, {}, STREAM))

    async def _statements(self, client: Client, statements: list[tuple[int, Body]]) -> bool:
        """Of a new transaction, all of them; False if one was refused: then it is rolled back."""
        tickets = [client.send(Type.BEGIN, {}, STREAM)]
        tickets += [client.send(type_, body, STREAM) for type_, body in statements]
        replies = [await ticket.wait() for ticket in tickets]
        done = [self._is_done(reply, "a statement") for reply in replies]
        if all(done):
            return True
        # Where BEGIN was refused there is nothing to roll back; no answer of this matters.
        await client.ask(Type.ROLLBACK, {}, STREAM)
        return False

    def _judge(self, history: Sequence, act: Act, reply: Reply) -> None:
        if self._is_done(reply, act.what):
            act.done_at = self._world.clock.monotonic()
        else:
            history.drop(act)

    async def _settle(self, client: Client, member: Member, history: Sequence, writer: int) -> None:
        """Something was not answered: is it there?"""
        self._ledgers.unanswered += 1
        if not member.plan.may_lose:
            found = own_rows(await self._rows(client, member, DATA), writer)
            history.part(found)
            history.settle(found)

    def _act(self, dice: random.Random, history: Sequence, writer: int) -> tuple[int, Body, Act]:
        key = writer * 100 + dice.randrange(KEYS)
        mark = dice.randrange(1, 1000)
        kind = dice.choice((Type.REPLACE, Type.REPLACE, Type.DELETE, Type.UPDATE, Type.UPSERT))
        text = "y" * dice.choice((0, 10, 300))
        now = self._world.clock.monotonic()
        words = f"{kind.name} {key} #{mark}"
        if kind is Type.REPLACE:
            act = history.add(words, lambda rows: rows.__setitem__(key, (text, mark)), now)
            return (*put(DATA, [key, text, mark]), act)
        if kind is Type.DELETE:

            def remove(rows: Rows) -> None:
                rows.pop(key, None)

            return kind, {Key.SPACE_ID: DATA, Key.KEY: [key]}, history.add(words, remove, now)

        def add(rows: Rows) -> None:
            if key in rows:
                rows[key] = (rows[key][0], rows[key][1] + mark)
            elif kind is Type.UPSERT:
                rows[key] = (text, mark)

        ops = [["+", 2, mark]]
        act = history.add(words, add, now)
        if kind is Type.UPDATE:
            return kind, {Key.SPACE_ID: DATA, Key.KEY: [key], Key.TUPLE: ops}, act
        return kind, {Key.SPACE_ID: DATA, Key.TUPLE: [key, text, mark], Key.OPS: ops}, act

    # ---- what all share

    async def _add(self, client: Client, dice: random.Random, member: Member, writer: int) -> None:
        key = dice.randrange(COUNTERS)
        counter = self._ledgers.counters[key]
        counter.asked += 1
        body: Body = {Key.SPACE_ID: COUNTER, Key.TUPLE: [key, 1], Key.OPS: [["+", 1, 1]]}
        if self._is_done(await client.ask(Type.UPSERT, body), f"addition to {key}"):
            counter.done += 1
        else:
            counter.refused += 1

    async def _transfer(self, client: Client, dice: random.Random, member: Member, writer: int) -> None:
        source, target = dice.sample(range(ACCOUNTS), 2)
        amount = dice.randint(1, 9)
        ends = ((source, "-"), (target, "+"))
        steps: list[tuple[int, Body]] = [
            (Type.UPDATE, {Key.SPACE_ID: BANK, Key.KEY: [account], Key.TUPLE: [[sign, 1, amount]]})
            for account, sign in ends
        ]
        if await self._statements(client, steps):
            end = Type.COMMIT if dice.random() < 0.9 else Type.ROLLBACK
            self._is_done(await client.ask(end, {}, STREAM), "transfer")

    # ---- the schema

    async def _change_schema(self, client: Client, dice: random.Random, member: Member, writer: int) -> None:
        number = dice.choice((2, 3))
        id = CHURN + number
        steps: list[tuple[int, Body]] = [
            index(DATA, number, [[2, "unsigned"], [0, "unsigned"]], unique=dice.random() < 0.5),
            (Type.DELETE, {Key.SPACE_ID: INDEX, Key.KEY: [DATA, number]}),
            space(id, f"churn{number}"),
            index(id, 0, [[0, "unsigned"]], kind=dice.choice(("tree", "hash"))),
            put(id, [dice.randrange(10), "row"]),
            put(TRUNCATE, [id, dice.randrange(1, 1000)]),
            (Type.DELETE, {Key.SPACE_ID: INDEX, Key.KEY: [id, 0]}),
            (Type.DELETE, {Key.SPACE_ID: SPACE, Key.KEY: [id]}),
        ]
        for type_, body in steps[: dice.randint(1, len(steps))]:
            reply = await client.ask(type_, body)
            self._ledgers.ddl += reply.code == 0
            if reply.code in NOT_THERE or not self._is_done(
                reply, f"a change of the schema ({Type(type_).name} {body})"
            ):
                return

    # ---- reads

    async def _read(self, client: Client, dice: random.Random, member: Member, writer: int) -> None:
        if not member.was_up:
            return
        check_bank(member.name, await self._rows(client, member, BANK))
        look_at_log(self._ledgers, member.name, await self._rows(client, member, LOG))


Step = Callable[[Client, random.Random, Member, int], Coroutine[Any, Any, None]]


def look_at_log(ledgers: Ledgers, node: str, rows: list[Any]) -> None:
    found = by_writer(ledgers, rows)
    for writer, log in ledgers.logs.items():
        log.look(node, found[writer])


def by_writer(ledgers: Ledgers, rows: list[Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {writer: [] for writer in ledgers.logs}
    for row in rows:
        found[row[0]].append(row[1])
    return found


def own_rows(rows: list[Any], writer: int) -> Rows:
    return {row[0]: tuple(row[1:]) for row in rows if row[0] // 100 == writer}
