"""One seed of a replica set: made, set upon for sixty seconds of virtual time, healed, judged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.sim.check import Violation
from headwater.sim.cluster.faults import Kind
from headwater.sim.cluster.member import Member
from headwater.sim.cluster.nemesis import Nemesis
from headwater.sim.cluster.operator import SetOperator
from headwater.sim.cluster.plan import STEPS, Plan, draw_plan
from headwater.sim.cluster.verdict import has_gap, judge, unhealed
from headwater.sim.cluster.witness import Witness
from headwater.sim.cluster.work import Ledgers, Work
from headwater.sim.world import Simulation

MAKING = 90.0
"""Virtual seconds in which a set must be made, whatever goes wrong on the way."""
HEALING = 90.0
"""Virtual seconds after the last fault in which all must follow each other again and hold the same."""
PATIENCE = 20.0
"""Virtual seconds until somebody looks after nodes that find no one who has the rows they need."""
AGAIN = 7.3
"""Virtual seconds until somebody looks after them again."""
WITHOUT_ROOM = frozenset({Kind.FULL_DISK, Kind.SHORT})
"""Faults in which a disk says that it is full."""
LOOK = 0.1
"""Virtual seconds between two looks."""


@dataclass(slots=True)
class ClusterReport:
    """What became of a seed."""

    seed: int
    nodes: int = 0
    topology: str = ""
    lives: int = 0
    faults: int = 0
    acknowledged: int = 0
    refused: int = 0
    unanswered: int = 0
    reads: int = 0
    rows: int = 0
    """Journaled, on all nodes."""
    rejoins: int = 0
    lost: int = 0
    injected: int = 0
    seconds: float = 0.0
    """Virtual ones, of the whole run."""
    healed_in: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)
    digest: str = ""
    violation: str = ""
    last: list[str] = field(default_factory=list)

    @property
    def promise(self) -> str:
        """Which kind of promise was broken: liveness, durability, order, convergence, or `unexpected`."""
        return self.violation.partition(":")[0]


class ClusterRun:
    """A plan, carried out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.simulation = Simulation(plan.seed)
        if plan.lateness:
            busy = self.simulation.dice("busy")
            self.simulation.loop.late = lambda: busy.choice((0.0, busy.uniform(0.0, plan.lateness)))
        differ = plan.names_differ
        self.witness = Witness(names_differ=differ)
        self.members = {
            node.name: Member(self.simulation, node, self.witness, names_differ=differ) for node in plan.nodes
        }
        self.ledgers = Ledgers(plan)
        self.clients = self.simulation.machine("clients").boot()
        self.operator = SetOperator(
            self.simulation, self.clients, self.members, self.ledgers, self.witness, self._make_well
        )
        self.nemesis = Nemesis(self.simulation, self.members, self.operator)
        self.work = Work(self.clients, self.simulation.dice, plan, self.ledgers)
        self.report = ClusterReport(plan.seed, len(plan.nodes), plan.topology)

    def run(self) -> ClusterReport:
        try:
            self.simulation.run(self._main())
        except Exception as error:
            # A fiber that is never woken, or an error that nobody expected, is as bad as lost data.
            self.report.violation = str(error) if isinstance(error, Violation) else f"unexpected: {error!r}"
            self.report.last = list(self.simulation.trace.last)
        finally:
            self._sum_up()
            self.simulation.close()
        return self.report

    async def _main(self) -> None:
        for name, member in self.members.items():
            self.simulation.spawn(member.supervise(), f"supervisor of {name}")
        await self._make_set()
        loop, plan = self.simulation.loop, self.plan
        begin = loop.now
        for node in plan.nodes:
            if node.starts_at:
                self.members[node.name].boot_at(begin + node.starts_at)
        self.work.start(self.members, begin + plan.seconds)
        # Moves are not among the faults: some of these wait until all is well, which may need a move.
        fibers = [
            self.simulation.spawn(self.nemesis.run(plan.faults), "nemesis"),
            self.simulation.spawn(self.nemesis.run(plan.later), "moves"),
        ]
        while loop.now < begin + plan.seconds or not all(fiber.done() for fiber in fibers):
            await asyncio.sleep(LOOK)
            self._check()
        await self._end_work()
        healed_from = loop.now
        await self._make_well(HEALING)
        self.report.healed_in = loop.now - healed_from
        self._check()
        judge(self._expected(), self.ledgers, names_differ=self.plan.names_differ)

    # ---- the parts of a run

    async def _make_set(self) -> None:
        """Founders start within a moment of each other."""
        dice = self.simulation.dice("founders")
        for node in self.plan.founders:
            self.members[node.name].boot_at(dice.choice((0.0, dice.uniform(0.0, 0.05), dice.uniform(0.0, 2.0))))
        nemesis = self.simulation.spawn(self.nemesis.run(self.plan.early), "nemesis of the beginning")
        await self._until(nemesis.done, lambda: "the nemesis is not done", MAKING)
        self.nemesis.heal()
        self.nemesis.calm_disks()
        founders = [self.members[node.name] for node in self.plan.founders]
        await self._until(lambda: all(each.is_up for each in founders), lambda: "not all founders are up", MAKING)
        # Rows that came while a member was away are in the first one's log alone: others have them from their JOIN.
        await self._make_well(MAKING)
        await self.nemesis.run(move for move in self.plan.moves if not move.at)
        await self._make_well(MAKING)
        first = next(iter(self.members.values()))
        await self.work.found(first)
        await self._make_well(MAKING)

    async def _end_work(self) -> None:
        self.simulation.note("run", "the work ends")
        self.nemesis.heal()
        self.nemesis.calm_disks()
        await self.work.end()
        self._check()

    def _expected(self) -> list[Member]:
        """Those that must be there by now."""
        there = [member for member in self.members.values() if member.lives or not member.plan.starts_at]
        return [member for member in there if not member.is_away]

    async def _make_well(self, seconds: float) -> None:
        """End every fault; then nobody lifts a hand, and all must be well in this time."""
        self.nemesis.heal()
        self.nemesis.calm_disks()
        self.simulation.note("run", "healed")
        helper = self.simulation.spawn(self._look_after_the_late(), "helper")
        try:
            await self._until(lambda: not self._problems(), lambda: "; ".join(self._problems()), seconds)
        finally:
            helper.cancel()
        self.simulation.note("run", f"all are well at {self._expected()[0].position}")

    async def _look_after_the_late(self) -> None:
        await asyncio.sleep(PATIENCE)
        while True:
            self._restart_the_late()
            await asyncio.sleep(AGAIN)

    def _restart_the_late(self) -> None:
        """A node whose disk was full has thrown away logs that others needed, as it says it does. Who finds them
        nowhere joins anew when it is started the next time, and not before: then it is restarted, by hand."""
        if not self.nemesis.struck.keys() & WITHOUT_ROOM:
            return
        for member in self._expected():
            if member.is_up and has_gap(member):
                self.simulation.note(member.name, "is restarted to join anew")
                self.simulation.spawn(member.end(), f"{member.name} ends")
                member.boot_at(self.simulation.loop.now + 0.5)

    def _problems(self) -> list[str]:
        members = self._expected()
        writable = {member.name: not member.values.get("read_only") for member in members}
        out = unhealed(members, is_writable=writable)
        out += [f"{name} waits for {', '.join(others)} to join" for name, others in self.nemesis.waiting]
        return out + [f"{name} has not taken what box.cfg told it" for name in self.operator.busy_with]

    async def _until(self, condition: Callable[[], bool], problem: Callable[[], str], seconds: float) -> None:
        end = self.simulation.loop.now + seconds
        while not condition():
            if self.simulation.loop.now > end:
                raise Violation(f"liveness: {seconds:g} s after everything was healed: {problem()}")
            await asyncio.sleep(LOOK)
            self._check()

    def _check(self) -> None:
        """Has anybody seen anything?"""
        if self.witness.violations:
            raise self.witness.violations[0]
        if self.work.failure is not None:
            raise self.work.failure
        if self.simulation.errors:
            raise Violation(f"unexpected: {self.simulation.errors[0]}")

    def _sum_up(self) -> None:
        report, ledgers, members = self.report, self.ledgers, self.members.values()
        report.lives = sum(member.lives for member in members)
        report.injected = sum(member.faults.injected for member in members)
        report.faults = sum(self.nemesis.struck.values())
        report.kinds = {kind.value: count for kind, count in self.nemesis.struck.items()}
        report.acknowledged, report.refused = ledgers.done, ledgers.refused
        report.unanswered, report.reads = ledgers.unanswered, ledgers.reads
        report.rows, report.rejoins, report.lost = self.witness.count, self.witness.rejoins, self.operator.lost
        report.seconds = self.simulation.loop.now
        report.digest = self.simulation.trace.digest()


def run_cluster_seed(seed: int, *, nodes: int = 3, steps: int = STEPS) -> ClusterReport:
    return ClusterRun(draw_plan(seed, nodes=nodes, steps=steps)).run()
