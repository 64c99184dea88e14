"""What clients do to the node in a simulation."""

from __future__ import annotations

import random
from functools import partial

from headwater.errors import BoxError
from headwater.sim.check import Ledger, Transaction, Violation
from headwater.sim.storage import DATA, LOCAL, TEMPORARY, Change, Storage
from headwater.world import World

KEYS = 40
"""Few, so that transactions meet on them."""


class Workload:
    """Some clients that write, now and then a snapshot, for one life of a node."""

    def __init__(self, world: World, node: Storage, ledger: Ledger, dice: random.Random, steps: int) -> None:
        self.checkpoints = 0
        self._world = world
        self._node = node
        self._ledger = ledger
        self._dice = dice
        self._steps = steps
        self._open = 0
        """Transactions without an answer."""
        self._quiet = world.tasks.event()
        self._failure: Violation | None = None
        node.journal.on_rollback.append(self._rolled_back)

    async def run(self) -> None:
        """All steps, then wait for every answer."""
        for _ in range(self._steps):
            await self._step()
            self._fail_if_wrong()
        while self._open:
            self._quiet.clear()
            await self._quiet.wait()
        self._fail_if_wrong()
        self._ledger.check_live(self._node.state(), self._node.vclock())

    async def _step(self) -> None:
        dice = self._dice.random()
        if dice < 0.80:
            for _ in range(self._dice.choice((1, 1, 1, 2, 5, 20))):
                self._write()
        elif dice < 0.96:
            await self._world.tasks.sleep(self._dice.choice((0.0, 0.0001, 0.001, 0.01, 0.3)))
        else:
            await self._checkpoint()

    def _write(self) -> None:
        number = self._ledger.next_number()
        changes = [self._change(number) for _ in range(self._dice.choice((1, 1, 1, 1, 2, 3, 10)))]
        # Noted before it is handed over: its answer may come at once.
        transaction = self._ledger.prepared(number, changes)
        self._open += 1
        self._node.write(changes, partial(self._answered, transaction))
        transaction.after = self._node.vclock()

    def _change(self, number: int) -> Change:
        space_id = self._dice.choice((DATA, DATA, DATA, DATA, LOCAL, TEMPORARY))
        key = self._dice.randrange(KEYS)
        if self._dice.random() < 0.2:
            return Change(space_id, key, None, number)
        size = self._dice.choice((0, 3, 20, 100, 600, 3000))
        filler = self._dice.choice(("\0", "x", f"{number:04} "))
        return Change(space_id, key, (filler * size)[:size], number)

    def _answered(self, transaction: Transaction, error: BoxError | None) -> None:
        try:
            if error is None:
                self._ledger.written(transaction)
            else:
                self._ledger.told_refused(transaction)
        except Violation as violation:
            self._failure = self._failure or violation
        self._open -= 1
        if not self._open:
            self._quiet.set()

    def _rolled_back(self) -> None:
        try:
            self._ledger.rolled_back(self._node.vclock())
            self._ledger.check_live(self._node.state(), self._node.vclock())
        except Violation as violation:
            self._failure = self._failure or violation

    async def _checkpoint(self) -> None:
        self._ledger.snapshot_begun(self._node.vclock())
        try:
            vclock = await self._node.checkpointer.make()
        except BoxError:
            return
        self.checkpoints += 1
        self._ledger.snapshot_made(vclock)

    def _fail_if_wrong(self) -> None:
        if self._failure is not None:
            raise self._failure
