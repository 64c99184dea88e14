"""Carries out a plan of faults. It looks at nothing that clients do, and judges nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from headwater.sim.cluster.faults import Fault, Kind
from headwater.sim.cluster.member import Member
from headwater.sim.cluster.plan import address
from headwater.sim.net import BETWEEN, Way
from headwater.sim.world import Simulation

_LASTING_ON_DISK = {Kind.EIO: "eio", Kind.SHORT: "short", Kind.DIE: "die"}


class Operator(Protocol):
    """Whom the plan lets talk to nodes."""

    def configure(self, member: Member, changes: Mapping[str, Any]) -> None:
        """`box.cfg`, again and again until it is done or the node is dead: its next life has the options anyway."""

    def snapshot(self, member: Member) -> None: ...

    async def expel(self, member: Member, seconds: float, comes_back: int) -> None: ...

    async def cut_power(self, member: Member, back_at: float) -> None:
        """Of a node that may lose what it acknowledged."""


class Nemesis:
    def __init__(self, simulation: Simulation, members: Mapping[str, Member], operator: Operator) -> None:
        self.struck: dict[Kind, int] = {}
        """How many faults of each kind there were."""
        self.waiting: dict[tuple[str, tuple[str, ...]], None] = {}
        """Who is to follow whom once these have joined."""
        self._simulation = simulation
        self._members = members
        self._operator = operator
        self._fabric = simulation.fabric
        self._ends: dict[int, tuple[asyncio.TimerHandle, Callable[[], object]]] = {}
        """How what lasts is to be ended, by number."""
        self._count = 0

    async def run(self, faults: Iterable[Fault]) -> None:
        """All of them, each in its time; `at` counts from now."""
        begin = self._simulation.loop.now
        for fault in faults:
            await asyncio.sleep(max(0.0, begin + fault.at - self._simulation.loop.now))
            self._simulation.note("nemesis", str(fault))
            self.struck[fault.kind] = self.struck.get(fault.kind, 0) + 1
            await self._strike(fault)

    def heal(self) -> None:
        """End everything, at once. Dead nodes are started."""
        ends, self._ends = self._ends, {}
        for timer, end in ends.values():
            timer.cancel()
            end()
        self._fabric.heal()
        for member in self._members.values():
            member.machine.go_on()
            member.machine.platter.capacity = None
            member.machine.disk_slowness = 1.0
            member.machine.set_clock()
            if not member.machine.is_running and member.lives:
                member.boot_at(self._simulation.loop.now)

    def calm_disks(self) -> None:
        for member in self._members.values():
            member.faults.die = member.faults.eio = member.faults.short = 0.0

    def _later(self, seconds: float, end: Callable[[], object]) -> None:
        self._count += 1
        number = self._count

        def due() -> None:
            if self._ends.pop(number, None) is not None:
                end()

        self._ends[number] = (self._simulation.loop.call_later(seconds, due), end)

    async def _strike(self, fault: Fault) -> None:
        for name in fault.nodes:
            member = self._members[name]
            match fault.kind:
                case Kind.KILL | Kind.END | Kind.POWER_CUT:
                    await self._take_away(fault, member)
                case Kind.STOP:
                    member.machine.stop()
                    self._later(fault.seconds, member.machine.go_on)
                case Kind.SLOW_DISK | Kind.FULL_DISK | Kind.EIO | Kind.SHORT | Kind.DIE:
                    self._spoil_disk(fault, member)
                case Kind.JUMP:
                    member.machine.jump(fault.amount)
                case Kind.DRIFT:
                    member.machine.drift(fault.amount)
                    self._later(fault.seconds, lambda member=member: member.machine.drift(1.0))  # type: ignore[misc]
                case Kind.CFG | Kind.FOLLOW | Kind.FOLLOW_ONLY | Kind.UNFOLLOW:
                    self._configure(fault, member)
                case Kind.EXPEL:
                    await self._operator.expel(member, fault.seconds, int(fault.amount))
                case Kind.SNAPSHOT:
                    self._operator.snapshot(member)
                case _:
                    self._spoil_ways(fault, name)

    # ---- processes

    async def _take_away(self, fault: Fault, member: Member) -> None:
        back_at = self._simulation.loop.now + fault.seconds
        if not member.lives:
            return
        if fault.kind is Kind.POWER_CUT and member.plan.may_lose:
            await self._operator.cut_power(member, back_at)
            return
        member.values.update(fault.options)
        if fault.kind is Kind.KILL:
            member.machine.kill()
        elif fault.kind is Kind.POWER_CUT:
            member.power_cut()
        else:
            self._simulation.spawn(member.end(), f"{member.name} ends")
        member.boot_at(back_at)

    # ---- disks

    def _spoil_disk(self, fault: Fault, member: Member) -> None:
        if (name := _LASTING_ON_DISK.get(fault.kind)) is not None:
            setattr(member.faults, name, fault.amount)
            self._later(fault.seconds, lambda: setattr(member.faults, name, 0.0))
        elif fault.kind is Kind.SLOW_DISK:
            member.machine.disk_slowness = fault.amount
            self._later(fault.seconds, lambda: setattr(member.machine, "disk_slowness", 1.0))
        else:
            platter = member.machine.platter
            platter.capacity = platter.used() + int(fault.amount)
            self._later(fault.seconds, lambda: setattr(platter, "capacity", None))

    # ---- ways

    def _spoil_ways(self, fault: Fault, name: str) -> None:
        """From one node to each of the others; all but CUT both ways."""
        for other in fault.others:
            if fault.kind is Kind.RESET:
                self._fabric.reset(name, other)
                continue
            ways = [(name, other)] if fault.kind is Kind.CUT else [(name, other), (other, name)]
            for source, target in ways:
                self._spoil(fault, source, target)

    def _spoil(self, fault: Fault, source: str, target: str) -> None:
        way = self._fabric.way(source, target)
        match fault.kind:
            case Kind.CUT | Kind.PART:
                self._fabric.cut(source, target)
                self._later(fault.seconds, lambda: self._fabric.mend(source, target))
            case Kind.DELAY:
                way.delay = (BETWEEN[0], fault.amount)
                self._later(fault.seconds, lambda: _set(way, "delay", BETWEEN))
            case Kind.LOSS:
                way.loss = fault.amount
                self._later(fault.seconds, lambda: _set(way, "loss", 0.0))
            case Kind.NARROW:
                way.bandwidth = fault.amount
                self._later(fault.seconds, lambda: _set(way, "bandwidth", None))

    # ---- options

    def _configure(self, fault: Fault, member: Member) -> None:
        if fault.kind is Kind.FOLLOW and not self._may_follow(member, fault.others):
            self.waiting[member.name, fault.others] = None
            self._simulation.loop.call_later(1.0, self._configure, fault, member)
        elif fault.kind is Kind.FOLLOW:
            self.waiting.pop((member.name, fault.others), None)
            member.peers += [address(name) for name in fault.others if address(name) not in member.peers]
            self._tell_peers(member)
        elif fault.kind is Kind.FOLLOW_ONLY:
            member.peers = [address(name) for name in fault.others]
            self._tell_peers(member)
        elif fault.kind is Kind.UNFOLLOW:
            member.unfollowed += fault.others
            self._tell_peers(member)
            self._later(fault.seconds, lambda: self._follow_again(member, fault.others))
        else:
            before = {name: member.plan.options.get(name, False) for name in fault.options}
            self._operator.configure(member, fault.options)
            if fault.seconds:
                self._later(fault.seconds, lambda: self._operator.configure(member, before))

    def _may_follow(self, member: Member, names: Iterable[str]) -> bool:
        """`legacy` makes an orphan of whoever is told to follow somebody without data; and whoever has none cannot join
        orphans. So it is told of a newcomer once that one has joined."""
        if member.values.get("bootstrap_strategy") != "legacy":
            return True
        return all(self._members[name].was_up for name in names)

    def _follow_again(self, member: Member, names: Iterable[str]) -> None:
        for name in names:
            member.unfollowed.remove(name)
        self._tell_peers(member)

    def _tell_peers(self, member: Member) -> None:
        self._operator.configure(member, {"replication": member.following})


def _set(way: Way, name: str, value: object) -> None:
    setattr(way, name, value)
