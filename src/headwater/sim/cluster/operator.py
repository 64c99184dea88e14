"""Who talks to nodes on behalf of the plan: `box.cfg`, `box.snapshot`, and power cuts after which a node must get its
own rows back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from headwater.errors import Er
from headwater.sim.check import Violation
from headwater.sim.client import Client, Lost, Reply
from headwater.sim.cluster.ledger import Log
from headwater.sim.cluster.member import Member
from headwater.sim.cluster.verdict import rows
from headwater.sim.cluster.witness import Witness
from headwater.sim.cluster.work import DATA, LOG, Body, Ledgers, by_writer, own_rows
from headwater.sim.world import Simulation, SimWorld
from headwater.store import system
from headwater.wire.constants import Key, Type

PATIENCE = 60.0
ANOTHER = 2
"""An expelled member comes back as another instance."""


class SetOperator:
    def __init__(
        self,
        simulation: Simulation,
        clients: SimWorld,
        members: Mapping[str, Member],
        ledgers: Ledgers,
        witness: Witness,
        make_well: Callable[[float], Awaitable[None]],
    ) -> None:
        """`make_well`: end every fault, and wait until all follow each other, so many seconds at most."""
        self.snapshots = 0
        self.lost = 0
        """Acknowledged rows that power cuts took, as wal_mode write allows."""
        self._wanted: dict[tuple[str, int], dict[str, None]] = {}
        """By node and life: options that it was not told yet, or has not taken."""
        self._simulation = simulation
        self._clients = clients
        self._members = members
        self._ledgers = ledgers
        self._witness = witness
        self._make_well = make_well

    # ---- what runs beside everything else

    def configure(self, member: Member, changes: Mapping[str, Any]) -> None:
        """A node that is starting has read the options of before: it is told when it is up."""
        if changes == {"replication_anon": False}:
            member.wants_id = True
            self._simulation.spawn(self._register(member), f"{member.name} becomes a member")
            return
        member.values.update(changes)
        if not member.machine.is_running:
            return
        wanted = self._wanted.setdefault((member.name, member.lives), {})
        is_busy = bool(wanted)
        wanted.update(dict.fromkeys(changes))
        if not is_busy:
            self._simulation.spawn(self._configure(member, wanted), f"box.cfg on {member.name}")

    async def _configure(self, member: Member, wanted: dict[str, None]) -> None:
        """Until nothing is wanted any more. The next life begins with these options anyway."""
        life = member.lives
        while wanted and member.machine.is_running and member.lives == life:
            if not member.is_up:
                await asyncio.sleep(0.1)
                continue
            changes = {name: member.values[name] for name in wanted}
            reply = await self._call(member, "box.cfg", changes)
            if reply is not None:
                self._simulation.note(member.name, f"box.cfg {changes}: {reply.message or 'done'}")
            if reply is not None and reply.code == 0:
                for name, value in changes.items():
                    if member.values[name] == value:
                        wanted.pop(name, None)
            else:
                await asyncio.sleep(1.0)
        wanted.clear()

    async def _register(self, member: Member) -> None:
        """Until it has an id, in whatever life."""
        while member.wants_id:
            await asyncio.sleep(1.0)
            if not member.is_up:
                continue
            reply = await self._call(member, "box.cfg", {"replication_anon": False})
            if reply is not None:
                self._simulation.note(member.name, f"becomes a member: {reply.message or 'done'}")
                member.wants_id = reply.code != 0
                member.values["replication_anon"] = bool(reply.code) and bool(member.values["replication_anon"])

    @property
    def busy_with(self) -> list[str]:
        """Nodes that have not taken what they were told yet."""
        busy = [name for (name, _), wanted in self._wanted.items() if wanted]
        return busy + [member.name for member in self._members.values() if member.wants_id]

    def snapshot(self, member: Member) -> None:
        if member.is_up:
            self._simulation.spawn(self._snapshot(member), f"box.snapshot on {member.name}")

    async def _snapshot(self, member: Member) -> None:
        reply = await self._call(member, "box.snapshot")
        self.snapshots += reply is not None and reply.code == 0

    async def _call(self, member: Member, function: str, *args: Any) -> Reply | None:
        """None if there was no answer."""
        client = Client(self._clients)
        try:
            async with asyncio.timeout(PATIENCE):
                await client.connect(member.address)
                return await client.call(function, *args)
        except (Lost, TimeoutError):
            return None
        finally:
            client.close()

    # ---- what nothing else may run beside

    async def cut_power(self, member: Member, back_at: float) -> None:
        """What a node in wal_mode write loses with its power, it must get back from those who have it, before it takes
        writes again. It can know what it lost only from peers that it reaches; so all are well when it comes back."""
        await self._make_well(PATIENCE)
        others = [other for other in self._members.values() if other is not member and other.is_up]
        own = member.instance
        kept = max((other.position.get(own, 0) for other in others), default=0)
        self._simulation.note(member.name, f"had written {member.last}; others have its rows up to {kept}")
        member.power_cut()
        self._witness.lost(own, after=kept)
        for log in self._ledgers.logs.values():
            log.forget(member.name)
        member.boot_at(back_at)
        await asyncio.sleep(max(0.0, back_at - self._simulation.loop.now))
        await self._make_well(PATIENCE)
        self._judge(member, kept)

    def _judge(self, member: Member, kept: int) -> None:
        """Is everything back that anybody had? The rest is lost for good."""
        box = member.box
        assert box is not None
        if not member.id:
            return
        found = member.position.get(member.instance, 0)
        if found < kept:
            words = f"durability: {member.name} follows, and has its own rows up to {found}"
            raise Violation(f"{words}; others have them up to {kept}")
        logs = by_writer(self._ledgers, rows(box, LOG))
        for writer in self._ledgers.of(member.name):
            self._lose_tail(self._ledgers.logs[writer], logs[writer])
            history = self._ledgers.histories[writer]
            there = own_rows(rows(box, DATA), writer)
            history.keep(history.part(there))
            history.settle(there)

    async def expel(self, member: Member, seconds: float, comes_back: int) -> None:
        """An operator takes a member out: it writes nothing more, all have what it wrote, it ends, its row goes from
        `_cluster`. After `seconds` it is back; `comes_back`: see Kind.EXPEL."""
        first = next(iter(self._members.values()))
        if not member.was_up or member.is_anon or member is first:
            return
        writable = not member.values.get("read_only")
        self.configure(member, {"read_only": True})
        await self._make_well(PATIENCE)
        assert first.box is not None
        uuid, own = member.uuid, member.id
        await member.end()
        member.is_away = True
        member.boot_at(float("inf"))
        own = await self._strike_out(first, uuid)
        await asyncio.sleep(seconds)
        if comes_back:
            member.lose_data()
            for log in self._ledgers.logs.values():
                log.forget(member.name)
        else:
            await self._insist(first, Type.INSERT, {Key.SPACE_ID: system.CLUSTER, Key.TUPLE: [own, str(uuid)]})
        if comes_back == ANOTHER:
            member.values["instance_uuid"] = str(UUID(int=uuid.int ^ self._simulation.dice("uuid").getrandbits(48)))
        elif comes_back:
            member.values["instance_uuid"] = str(uuid)
        member.values["read_only"] = not writable
        member.is_away = False
        member.boot_at(self._simulation.loop.now)
        await self._make_well(PATIENCE)

    async def _strike_out(self, first: Member, uuid: UUID) -> int:
        """Delete the row of an instance. The id that it has on `first`."""
        box = first.box
        while box is None or not first.is_up or (found := box.schema.cluster.by_uuid(uuid)) is None:
            await asyncio.sleep(0.1)
            box = first.box
        await self._insist(first, Type.DELETE, {Key.SPACE_ID: system.CLUSTER, Key.KEY: [int(found.id)]})
        return int(found.id)

    async def _insist(self, member: Member, type_: int, body: Body) -> None:
        """Again and again until it is done."""
        while True:
            client = Client(self._clients)
            try:
                async with asyncio.timeout(PATIENCE):
                    await client.connect(member.address)
                    reply = await client.ask(type_, body)
            except (Lost, TimeoutError):
                pass
            else:
                self._simulation.note(member.name, f"_cluster is told {body}: {reply.message or 'done'}")
                if reply.code in (0, Er.TUPLE_FOUND):
                    return
            finally:
                client.close()
            await asyncio.sleep(0.5)

    def _lose_tail(self, log: Log, found: list[int]) -> None:
        self.lost += log.cut_tail(found)
