"""One seed of a whole node: an unmodified `Box` with its server, and clients on another machine."""

from __future__ import annotations

import random
from typing import Any

from headwater.box.instance import Box
from headwater.errors import BoxError, Er
from headwater.options import Options
from headwater.server.node import make_node
from headwater.sim.check import Violation
from headwater.sim.client import Client, Lost
from headwater.sim.faults import FaultPlan
from headwater.sim.history import Rows, Sequence, check_recovered
from headwater.sim.process import Crashed
from headwater.sim.run import LIVES, START_TRIES, Report, draw_faults
from headwater.sim.traffic import ACCOUNTS, ADDRESS, BANK, DATA, SCHEMA, TOTAL, WRITERS, Traffic, check_bank, own_rows
from headwater.sim.world import Simulation, SimWorld
from headwater.wire.constants import Key, Type

STEPS = 12


class NodeRun:
    """A machine, several lives of its node, and a judgement after each."""

    def __init__(self, seed: int, *, steps: int = STEPS) -> None:
        self.simulation = Simulation(seed)
        self.dice = self.simulation.dice("run")
        self.values = draw_options(self.dice)
        self.machine = self.simulation.machine("node")
        self.clients = self.simulation.machine("clients").boot()
        self.histories = {f"writer {number}": Sequence(f"writer {number}") for number in range(WRITERS)}
        self.report = Report(seed, self.values["wal_mode"])
        self._steps = steps
        self._is_made = False
        """Are the spaces there, for certain?"""
        self._power_was_cut = False

    def run(self) -> Report:
        try:
            self.simulation.run(self._main())
            if self.simulation.errors:
                raise Violation(self.simulation.errors[0])
        except Exception as error:
            # A fiber that is never woken, or an error that the node did not expect, is as bad as lost data.
            self.report.violation = str(error) if isinstance(error, Violation) else f"unexpected {error!r}"
            self.report.last = list(self.simulation.trace.last)
        finally:
            self.report.digest = self.simulation.trace.digest()
            self.simulation.close()
        return self.report

    async def _main(self) -> None:
        for number in range(LIVES):
            await self._life(quiet=number == LIVES - 1)

    async def _life(self, *, quiet: bool) -> None:
        self.report.lives += 1
        self.machine.platter.capacity = None
        world, box, plan = await self._start(quiet)
        await self._judge()
        if not self._is_made and self.machine.is_running:
            self.machine.kill()
            return
        if not quiet and self.dice.random() < 0.2:
            self.machine.platter.capacity = self.machine.platter.used() + self.dice.randrange(30_000)
        traffic = Traffic(self.clients, self.dice, self.histories, self._steps)
        if not quiet and self.dice.random() < 0.5:
            world.tasks.later(self.dice.uniform(0.001, 3.0), self.machine.kill)
        try:
            await traffic.run()
            if quiet:
                await self._must_work(traffic)
            if self.machine.is_running:
                await self._end(world, box)
        finally:
            self.report.acknowledged += traffic.done
            self.report.refused += traffic.refused
            self.report.checkpoints += traffic.checkpoints
            self.report.injected += plan.injected
        if not self.machine.is_running:
            self._crashed()

    async def _must_work(self, traffic: Traffic) -> None:
        """After all that was, a node with room and a sound disk serves everybody and makes snapshots."""
        client = Client(self.clients)
        await client.connect(ADDRESS)
        while (reply := await client.call("box.snapshot")).code == Er.CHECKPOINT_IN_PROGRESS:
            await self.clients.tasks.sleep(0.1)
        client.close()
        if reply.code or traffic.disk_errors or not traffic.done:
            raise Violation(f"a node with room and a sound disk refuses: {reply.message}")

    async def _end(self, world: SimWorld, box: Box) -> None:
        """As by SIGTERM, or by SIGKILL while nobody asks for anything."""
        if self.dice.random() < 0.5:
            try:
                await world.live(box.stop())
            except Crashed:
                return
        self.machine.kill()

    def _crashed(self) -> None:
        self.report.crashes += 1
        self.machine.kill()
        if self.dice.random() < 0.5:
            self.report.power_cuts += 1
            self._power_was_cut = True
            self.machine.power_cut()

    # ---- start and judgement

    async def _start(self, quiet: bool) -> tuple[SimWorld, Box, FaultPlan]:
        for attempt in range(START_TRIES):
            plan = draw_faults(self.dice, calm=quiet or attempt > START_TRIES // 2)
            world = self.machine.boot(plan)
            box = make_node(world, Options.load(self.values))
            try:
                await world.live(box.start())
            except Crashed:
                self._crashed()
            except BoxError as error:
                self.machine.kill()
                self.simulation.note("node", f"did not start: {error.message}")
                if not plan.injected:
                    raise Violation(f"the node does not start: {error.message}") from None
            else:
                return world, box, plan
        raise Violation(f"the node did not start in {START_TRIES} tries")

    async def _judge(self) -> None:
        """What do clients see of the node that came back? It may die while they ask; then the next one is asked."""
        client = Client(self.clients)
        try:
            await client.connect(ADDRESS)
            if not self._is_made and not await self._make(client):
                return
            rows = await client.all(DATA)
            check_same(rows, await client.all(DATA, 1))
            check_bank(await client.all(BANK))
            found = self._check(rows)
            if (await client.call("box.snapshot")).code == 0:
                for name, history in self.histories.items():
                    history.settle(found[name])
        except Lost:
            return
        finally:
            client.close()

    def _check(self, rows: list[Any]) -> dict[str, Rows]:
        found: dict[str, Rows] = {f"writer {number}": own_rows(rows, number) for number in range(WRITERS)}
        keeps = self.values["wal_mode"] == "fsync" or not self._power_was_cut
        check_recovered(self.histories, found, keeps_done=keeps)
        self._power_was_cut = False
        return found

    async def _make(self, client: Client) -> bool:
        """The spaces and accounts, if they are not there yet. False if the disk did not let us."""
        for body in SCHEMA:
            if (await client.ask(Type.REPLACE, body)).code:
                return False
        client.send(Type.BEGIN, {}, 1)
        for account in range(ACCOUNTS):
            body = {Key.SPACE_ID: BANK, Key.TUPLE: [account, TOTAL // ACCOUNTS]}
            client.send(Type.REPLACE, body, 1)
        if (await client.ask(Type.COMMIT, {}, 1)).code:
            return False
        # Snapshots are forced whatever the mode of the journal is.
        self._is_made = (await client.call("box.snapshot")).code == 0
        return self._is_made


def check_same(by_pk: list[Any], by_other: list[Any]) -> None:
    """Every index holds what the primary one holds."""
    if sorted(by_pk) != sorted(by_other):
        raise Violation("a secondary index holds other tuples than the primary one")


def draw_options(dice: random.Random) -> dict[str, Any]:
    return {
        "listen": ADDRESS,
        "dev": True,
        "wal_dir": "/data/wal" if dice.random() < 0.3 else "/data",
        "memtx_dir": "/data",
        "wal_mode": dice.choice(("write", "fsync")),
        "wal_max_size": dice.choice((3_000, 20_000, 1 << 20)),
        "checkpoint_count": dice.choice((1, 2, 3)),
        "checkpoint_wal_threshold": dice.choice((5_000, 50_000, 10**18)),
    }


def run_node_seed(seed: int, *, steps: int = STEPS) -> Report:
    return NodeRun(seed, steps=steps).run()
