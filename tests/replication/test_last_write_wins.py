"""`last_write_wins`: nodes that write the same keys behind partitions, with clocks that disagree, end with the same."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.box.sets import SPACE, Peer, ReplicaSet

from headwater.box.credentials import context_of_node
from headwater.errors import BoxError
from headwater.replication.states import ApplierState
from headwater.sim.process import Crashed
from headwater.store import system
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack

KEYS, VALUES = 6, 8
OPTIONS = {
    "replication_conflict": "last_write_wins",
    "replication_reconnect_timeout": 0.2,
    "replication_sync_lag": 1000,
}
"""The clocks of the nodes disagree by more than a row takes."""


class Masters:
    """Nodes that all follow each other, with one space."""

    def __init__(self, seed: int, count: int, *, unique: bool) -> None:
        self.dice = random.Random(f"last write wins {seed}")
        self.set = ReplicaSet(seed)
        names = [f"n{number}" for number in range(1, count + 1)]
        self.nodes = [self.set.peer(name, *names, **OPTIONS) for name in names]
        self.unique = unique
        self.written = self.refused = 0

    async def begin(self) -> None:
        await self.set.together(*self.nodes)
        first = self.nodes[0]
        await first.make_space()
        if self.unique:
            row = [SPACE, 1, "sk", "tree", {"unique": True}, [[1, "unsigned"]]]
            context_of_node(first.box).insert(system.INDEX, row)
            await first.do(first.box.settled())
        await self.set.equal(*self.nodes)

    # ---- work

    async def work(self, steps: int) -> None:
        for _ in range(steps):
            node = self.dice.choice(self.nodes)
            if node.machine.is_running and node.box.is_ready and not node.box.is_read_only:
                self._write(node)
            await self._mischief()
            await asyncio.sleep(self.dice.choice((0, 0, 0.001, 0.01, 0.3)))

    def _write(self, node: Peer) -> None:
        context = context_of_node(node.box)
        try:
            with context.atomic():
                for _ in range(self.dice.choice((1, 1, 1, 2, 3))):
                    self._statement(context)
        except BoxError:
            self.refused += 1
        else:
            self.written += 1
        node.box.journal.settle(lambda error: None)

    def _statement(self, context: Any) -> None:
        key, value, number = self.dice.randrange(KEYS), self.dice.randrange(VALUES), self.dice.randrange(1000)
        match self.dice.randrange(8):
            case 0:
                context.insert(SPACE, [key, value, number])
            case 1 | 2 | 3:
                context.replace(SPACE, [key, value, number])
            case 4:
                context.update(SPACE, [key], [["+", 2, 1]])
            case 5:
                context.change(Type.UPSERT, SPACE, tuple=pack([key, value, 0]), ops=pack([["+", 2, number]]))
            case _:
                context.delete(SPACE, [key])

    async def _mischief(self) -> None:
        dice, one = self.dice, self.dice.choice(self.nodes)
        match dice.randrange(40):
            case 0 | 1 | 2:
                others = [node.machine.name for node in self.nodes if node is not one]
                self.set.simulation.fabric.part([one.machine.name], others)
            case 3 | 4:
                self.set.simulation.fabric.heal()
            case 5:
                one.machine.jump(dice.choice((-30.0, -2.0, 2.0, 30.0)))
            case 6 if one.machine.is_running:
                one.machine.kill()
                self.set.simulation.spawn(self._come_back(one), f"{one.machine.name} comes back")

    async def _come_back(self, node: Peer) -> None:
        await asyncio.sleep(self.dice.uniform(0.1, 3.0))
        try:
            await node.start()
        except Crashed:
            """It was killed once more while it came."""

    # ---- judgement

    async def agree(self) -> None:
        self.set.simulation.fabric.heal()
        await self.set.until(lambda: all(n.machine.is_running and n.box.is_ready for n in self.nodes), "all are up")
        await self.set.until(self._is_well, "all follow each other", 120.0)
        contents = [self.rows(node) for node in self.nodes]
        assert all(rows == contents[0] for rows in contents), contents
        stamps = [self.rows(node, system.CONFLICT_STAMPS) for node in self.nodes]
        assert all(rows == stamps[0] for rows in stamps), stamps

    def _is_well(self) -> bool:
        for node in self.nodes:
            for replica in node.box.replicaset:
                applier = replica.applier
                if applier is not None and not replica.is_self:
                    assert applier.state is not ApplierState.STOPPED, f"{node.machine.name}: {applier.error}"
                    if applier.state is not ApplierState.FOLLOW:
                        return False
        prepared = [node.box.memtx.vclock[1:] for node in self.nodes]
        written = [node.box.journal.vclock.as_dict(ignore0=True) for node in self.nodes]
        return all(p == prepared[0] for p in prepared) and all(w == written[0] for w in written)

    @staticmethod
    def rows(node: Peer, space: int = SPACE) -> list[Any]:
        return context_of_node(node.box).select(space)


@pytest.mark.parametrize("unique", [False, True], ids=["primary", "secondary"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(1, 7))
def test_nodes_that_write_the_same_keys_end_with_the_same(seed: int, count: int, unique: bool) -> None:
    masters = Masters(seed, count, unique=unique)

    async def test() -> None:
        await masters.begin()
        for _ in range(3):
            await masters.work(120)
            await masters.agree()
        assert masters.written > 100, "there was work"

    masters.set.run(test)
