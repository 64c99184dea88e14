"""One seed: a machine, several lives of its node, and a judgement after each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from headwater.errors import BoxError
from headwater.journal import Settings, WalMode
from headwater.sim.check import Ledger, Violation
from headwater.sim.faults import FaultPlan
from headwater.sim.process import Crashed
from headwater.sim.storage import Storage
from headwater.sim.workload import Workload
from headwater.sim.world import Simulation, SimWorld

STEPS = 60
LIVES = 7
START_TRIES = 50
"""A machine may be unlucky while it starts, but not for ever."""


@dataclass(slots=True)
class Report:
    """What became of a seed."""

    seed: int
    wal_mode: str
    lives: int = 0
    crashes: int = 0
    power_cuts: int = 0
    acknowledged: int = 0
    refused: int = 0
    checkpoints: int = 0
    injected: int = 0
    digest: str = ""
    violation: str = ""
    last: list[str] = field(default_factory=list)
    """The end of the trace, if there was a violation."""


class Run:
    """The storage side of one node, from a seed."""

    def __init__(self, seed: int, *, steps: int = STEPS, node: type[Storage] = Storage) -> None:
        self.simulation = Simulation(seed)
        self.dice = self.simulation.dice("run")
        self.settings = draw_settings(self.dice)
        self.machine = self.simulation.machine("node")
        self.ledger = Ledger()
        self.report = Report(seed, self.settings.wal_mode.value)
        self._steps = steps
        self._node = node

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
            self.report.acknowledged = self.ledger.acknowledged
            self.report.refused = self.ledger.refused
            self.report.digest = self.simulation.trace.digest()
            self.simulation.close()
        return self.report

    async def _main(self) -> None:
        for number in range(LIVES):
            await self._life(quiet=number == LIVES - 1)

    async def _life(self, *, quiet: bool) -> None:
        """Start, work, end. `quiet`: nothing goes wrong, everything must succeed."""
        self.report.lives += 1
        self.machine.platter.capacity = None
        world, node, plan = await self._start(quiet)
        if not quiet and self.dice.random() < 0.25:
            self.machine.platter.capacity = self.machine.platter.used() + self.dice.randrange(20_000)
        work = Workload(world, node, self.ledger, self.dice, self._steps)
        try:
            await world.live(self._work(node, work, quiet))
        except Crashed:
            self._crashed()
        finally:
            self.report.checkpoints += work.checkpoints
            self.report.injected += plan.injected

    async def _work(self, node: Storage, work: Workload, quiet: bool) -> None:
        if not quiet and self.dice.random() < 0.5:
            node.world.tasks.later(self.dice.uniform(0.001, 2.0), self.machine.kill)
        await work.run()
        if quiet:
            await self._must_work(node)
        await node.stop()
        self.machine.kill()
        self.simulation.note("node", "stopped")

    async def _must_work(self, node: Storage) -> None:
        """After all that was, a quiet node takes writes and makes snapshots."""
        before = self.ledger.acknowledged
        await Workload(node.world, node, self.ledger, self.dice, self._steps).run()
        if self.ledger.refused and self.ledger.acknowledged == before:
            raise Violation("a node with room and a sound disk refuses writes")
        self.ledger.snapshot_made(await node.checkpointer.make())

    def _crashed(self) -> None:
        self.report.crashes += 1
        self.machine.kill()
        if self.dice.random() < 0.5:
            self.report.power_cuts += 1
            self.power_was_cut = True
            self.machine.power_cut()

    async def _start(self, quiet: bool) -> tuple[SimWorld, Storage, FaultPlan]:
        """A node that has come up, and was judged. Crashes on the way are part of it."""
        for attempt in range(START_TRIES):
            calm = quiet or attempt > START_TRIES // 2
            plan = draw_faults(self.dice, calm=calm)
            world = self.machine.boot(plan)
            node = self._node(world, self.settings)
            try:
                await world.live(node.start())
            except Crashed:
                self._crashed()
            except BoxError as error:
                self.machine.kill()
                self.simulation.note("node", f"did not start: {error.message}")
                if not plan.injected:
                    raise Violation(f"the node does not start: {error.message}") from None
            else:
                self._judge(node)
                return world, node, plan
        raise Violation(f"the node did not start in {START_TRIES} tries")

    power_was_cut = False

    def _judge(self, node: Storage) -> None:
        keeps = self.settings.wal_mode is WalMode.FSYNC or (
            self.settings.wal_mode is WalMode.WRITE and not self.power_was_cut
        )
        self.simulation.note("check", f"recovered {node.vclock()}")
        self.ledger.check_recovered(node.state(), node.vclock(), keeps_acknowledged=keeps, only_snapshot=node.forgets)
        self.power_was_cut = False


def draw_settings(dice: random.Random) -> Settings:
    return Settings(
        wal_dir="/data/wal" if dice.random() < 0.3 else "/data",
        memtx_dir="/data",
        wal_mode=dice.choice((WalMode.WRITE, WalMode.WRITE, WalMode.FSYNC, WalMode.FSYNC, WalMode.NONE)),
        wal_max_size=dice.choice((500, 3_000, 20_000, 1 << 20)),
        checkpoint_count=dice.choice((1, 2, 3)),
        snap_io_rate_limit=dice.choice((None, None, 0.05)),
    )


def draw_faults(dice: random.Random, *, calm: bool) -> FaultPlan:
    plan = FaultPlan(dice)
    if calm:
        return plan
    if dice.random() < 0.6:
        plan.die = dice.choice((0.001, 0.01, 0.05))
    if dice.random() < 0.4:
        plan.eio = dice.choice((0.002, 0.02, 0.1))
    if dice.random() < 0.3:
        plan.short = dice.choice((0.01, 0.1))
    if dice.random() < 0.1:
        plan.read_eio = 0.01
    return plan


def run_seed(seed: int, *, steps: int = STEPS, node: type[Storage] = Storage) -> Report:
    return Run(seed, steps=steps, node=node).run()
