"""Random clients, a journal that writes and fails at random, packets cut anywhere: every request has one answer, what
was lost was never there, and nothing is left behind."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.box import Box, Client

from headwater.errors import Er
from headwater.sim import Simulation
from headwater.txn.base import kernel_of
from headwater.wire.constants import Key, Type

KINDS = [Type.REPLACE] * 4 + [Type.SELECT] * 4 + [Type.INSERT, Type.UPDATE, Type.DELETE, Type.UPSERT, Type.PING]
IN_STREAMS = [*KINDS, Type.BEGIN, Type.BEGIN, Type.COMMIT, Type.ROLLBACK]
EXPECTED = {
    None,
    Er.TUPLE_FOUND,
    Er.WAL_IO,
    Er.TRANSACTION_CONFLICT,
    Er.ACTIVE_TRANSACTION,
    Er.NO_SUCH_SPACE,
    Er.TXN_ROLLBACK,
}


class Traffic:
    def __init__(self, chance: random.Random, box: Box) -> None:
        self.chance = chance
        self.box = box
        self.clients = [box.connect() for _ in range(3)]
        self.cut: dict[int, bytes] = {}
        """Bytes of a packet that a client has not finished saying."""
        self.answers: Counter[tuple[int, int]] = Counter()
        self.safe = box.select("t")
        box.journal.on_written = self.keep
        box.journal.on_undone = self.check

    def keep(self) -> None:
        self.safe = self.box.select("t")

    def check(self) -> None:
        assert self.box.select("t") == self.safe

    def step(self) -> None:
        chance = self.chance
        if chance.random() < 0.15:
            self.box.journal.write()
        elif chance.random() < 0.06:
            self.box.journal.fail()
        else:
            number = chance.randrange(len(self.clients))
            self.say(number, b"".join(self.packet(self.clients[number]) for _ in range(chance.randrange(1, 5))))
        self.hear()

    def packet(self, client: Client) -> bytes:
        chance = self.chance
        stream = chance.choice([0, 0, 0, 1, 2])
        kind = chance.choice(IN_STREAMS if stream else KINDS)
        where: dict[int, Any] = {Key.SPACE_NAME: "t"} if chance.random() < 0.2 else {Key.SPACE_ID: 512}
        if chance.random() < 0.03:
            where = {Key.SPACE_ID: 999}
        id, name = chance.randrange(6), chance.choice("abcdefgh")
        body = {
            Type.SELECT: where | {Key.LIMIT: 3, Key.KEY: [id] if chance.random() < 0.7 else []},
            Type.UPDATE: where | {Key.KEY: [id], Key.TUPLE: [["=", 1, name]]},
            Type.DELETE: where | {Key.KEY: [id]},
            Type.UPSERT: where | {Key.TUPLE: [id, name], Key.OPS: [["=", 1, name]]},
            Type.BEGIN: {Key.TXN_ISOLATION: chance.randrange(4)},
        }.get(kind, where | {Key.TUPLE: [id, name]} if kind in (Type.REPLACE, Type.INSERT) else None)
        return client.packet(kind, body, stream)

    def say(self, number: int, data: bytes) -> None:
        data = self.cut.pop(number, b"") + data
        client = self.clients[number]
        at = 0
        while at < len(data):
            size = self.chance.choice([1, 20, 1000])
            if at + size >= len(data) and self.chance.random() < 0.3:
                self.cut[number] = data[at:]
                return
            client.say(data[at : at + size])
            at += size

    def hear(self) -> None:
        for number, client in enumerate(self.clients):
            for reply in client.replies():
                assert reply.code in EXPECTED, reply.message
                self.answers[number, reply.sync] += 1

    def finish(self) -> None:
        for number, rest in self.cut.items():
            self.clients[number].say(rest)
        for _ in range(200):
            self.box.journal.write()
        self.hear()
        for number, client in enumerate(self.clients):
            for sync in range(1, client._sync + 1):
                assert self.answers[number, sync] == 1, f"request {sync} of client {number}"
            client.disconnect()
        box = self.box
        assert not box.txns.open
        assert box.server.in_flight == 0
        assert kernel_of(box.schema.space("t")).fast
        assert box.journal.waiting == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_every_request_has_one_answer(seed: int) -> None:
    simulation = Simulation(1)
    box = Box(simulation.machine("node").boot())
    traffic = Traffic(random.Random(seed), box)
    for _ in range(60):
        traffic.step()
    traffic.finish()
    assert not simulation.errors
    simulation.close()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_bytes_that_nobody_meant(seed: int) -> None:
    """A connection that talks nonsense is answered or closed, and harms nobody else."""
    chance = random.Random(seed)
    simulation = Simulation(1)
    box = Box(simulation.machine("node").boot())
    box.journal.is_automatic = True
    traffic = Traffic(chance, box)
    good = box.connect()
    for _ in range(40):
        bad = box.connect()
        data = bytearray(b"".join(traffic.packet(bad) for _ in range(3)))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xCE, 0xDF, 0xFF])
        for at in range(0, len(data), 50):
            if not bad.link.is_closed:
                bad.say(bytes(data[at : at + 50]))
        bad.disconnect()
        assert good.ask(Type.PING).code is None
    assert not box.txns.open
    assert box.server.in_flight == 0
    assert not simulation.errors
    simulation.close()
