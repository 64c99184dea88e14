"""A node that feeds, in the simulated world, and raw peers that it feeds: they say what a test tells them to, and keep
every packet that came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any
from uuid import UUID

from headwater.box.credentials import context_of_node
from headwater.box.instance import Box
from headwater.options import Options
from headwater.replication.channel import GREETING_SIZE, Channel, ChannelClosed
from headwater.server.node import make_node
from headwater.sim.world import Simulation, SimWorld
from headwater.wire.constants import VERSION_ID, Key, Type
from headwater.wire.msgpack import unpack
from headwater.wire.replication import (
    ApplierHeartbeat,
    Join,
    Subscribe,
    encode_applier_heartbeat,
    encode_join,
    encode_subscribe,
)
from headwater.wire.xrow import Row

ADDRESS = "master:3301"
MASTER = UUID("00000000-0000-4000-8000-000000000001")
REPLICA = UUID("00000000-0000-4000-8000-000000000002")
OTHER = UUID("00000000-0000-4000-8000-000000000003")
DATA = 600
LOCAL = 601
GUEST_IS_SUPER = {"users": {"guest": {"roles": ["super"]}}}
TIMEOUT = 1.0
"""replication_timeout of the node."""
OLD = 2 << 16 | 6 << 8
"""version_id of 2.6.0."""


class Master:
    """The node, and a second machine for its peers."""

    def __init__(self, simulation: Simulation, **options: Any) -> None:
        self.simulation = simulation
        self.machine = simulation.machine("master")
        self.elsewhere = simulation.machine("peers")
        self.values = {
            "listen": ADDRESS,
            "instance_uuid": str(MASTER),
            "schema_version": "3.8.0",
            "replication_timeout": TIMEOUT,
            "wal_dir": "/data",
            "memtx_dir": "/data",
            **options,
        }
        self.credentials: Mapping[str, Any] = GUEST_IS_SUPER
        self.box: Box
        self.world: SimWorld
        self.peers_world = self.elsewhere.boot()

    async def start(self) -> Box:
        self.world = self.machine.boot()
        self.box = make_node(self.world, Options.load(self.values))
        self.box.credentials = self.credentials
        await self.world.live(self.box.start())
        return self.box

    async def stop(self) -> None:
        await self.world.live(self.box.stop())
        self.machine.kill()

    async def restart(self) -> Box:
        self.machine.kill()
        return await self.start()

    # ---- data

    def prepare(self, space_id: int, *tuples: list[Any]) -> None:
        """One transaction for each tuple, not written yet."""
        context = context_of_node(self.box)
        for each in tuples:
            context.replace(space_id, each)

    async def write(self, *tuples: list[Any], space_id: int = DATA) -> None:
        self.prepare(space_id, *tuples)
        await self.box.settled()

    async def make_spaces(self) -> None:
        context = context_of_node(self.box)
        for id, name, opts in ((DATA, "data", {}), (LOCAL, "local", {"group_id": 1})):
            context.insert(280, [id, 1, name, "memtx", 0, opts, []])
            context.insert(288, [id, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
        await self.box.settled()

    # ---- peers

    async def connect(self) -> Peer:
        return await Peer(self).connect()

    async def member(self, uuid: UUID = REPLICA, **join: Any) -> int:
        """A peer that joins and leaves again; its id."""
        peer = await self.connect()
        await peer.join(uuid, **join)
        peer.channel.close()
        replica = self.box.replicaset.find(uuid)
        assert replica is not None
        return replica.id

    async def subscriber(self, uuid: UUID = REPLICA, **subscribe: Any) -> Peer:
        peer = await self.connect()
        reply = await peer.subscribe(uuid, **subscribe)
        assert not reply.is_error, unpack(reply.body)
        return peer


class Peer:
    """The other end of one connection."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self.channel = Channel(master.peers_world.tasks)
        self.packets: list[Row] = []
        """Everything that came and was read."""

    async def connect(self) -> Peer:
        await self.master.peers_world.net.connect(ADDRESS, self.channel)
        await self.channel.exactly(GREETING_SIZE)
        return self

    def send(self, row: Row) -> None:
        self.channel.send(row)

    async def packet(self) -> Row:
        row = await self.channel.packet()
        self.packets.append(row)
        return row

    async def ask(self, row: Row) -> Row:
        self.send(row)
        return await self.packet()

    async def until(self, is_it: Callable[[Row], bool]) -> list[Row]:
        """Packets up to the first that is it, that one included."""
        rows = [await self.packet()]
        while not is_it(rows[-1]):
            rows.append(await self.packet())
        return rows

    async def to_end(self) -> str:
        """Read until the connection is closed; why."""
        try:
            while True:
                await self.packet()
        except ChannelClosed as closed:
            return str(closed)

    # ---- requests

    async def join(self, uuid: UUID = REPLICA, version: int = VERSION_ID, name: str = "", sync: int = 0) -> list[Row]:
        """All packets of it, up to an error or the third OK."""
        row = encode_join(Join(uuid, name, version))
        row.sync = sync
        self.send(row)
        oks: list[Row] = []
        packets: list[Row] = []
        while len(oks) < 3:
            packet = await self.packet()
            packets.append(packet)
            if packet.is_error:
                break
            if packet.type == Type.OK:
                oks.append(packet)
        return packets

    async def subscribe(self, uuid: UUID = REPLICA, *, sync: int = 0, **more: Any) -> Row:
        """The answer."""
        values: dict[str, Any] = {"version_id": VERSION_ID, "replicaset_uuid": self.master.box.replicaset_uuid, **more}
        row = encode_subscribe(Subscribe(instance_uuid=uuid, **values))
        row.sync = sync
        return await self.ask(row)

    def ack(self, vclock: Mapping[int, int], timestamp: float = 0.0, term: int = 1, vclock_sync: int = 0) -> None:
        self.send(encode_applier_heartbeat(ApplierHeartbeat(vclock, term, vclock_sync), timestamp))

    async def rows(self, count: int) -> list[Row]:
        """So many rows of the log; heartbeats and messages are passed over."""
        found: list[Row] = []
        while len(found) < count:
            row = await self.packet()
            assert not row.is_error, unpack(row.body)
            if row.lsn:
                found.append(row)
        return found


def ids(rows: Iterable[Row], space_id: int = DATA) -> list[int]:
    """Keys of the tuples of one space among them."""
    found = []
    for row in rows:
        body = unpack(row.body) if row.body else {}
        if body.get(Key.SPACE_ID) == space_id and Key.TUPLE in body:
            found.append(body[Key.TUPLE][0])
    return found


def numbers(rows: Iterable[Row]) -> list[tuple[int, int]]:
    return [(row.replica_id, row.lsn) for row in rows]


Test = Callable[[Master], Coroutine[Any, Any, None]]


def feed(test: Test, *, seed: int = 1, credentials: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Run a test with a started node that has the spaces DATA and LOCAL."""
    simulation = Simulation(seed)
    master = Master(simulation, **options)
    if credentials is not None:
        master.credentials = credentials

    async def life() -> None:
        await master.start()
        await master.make_spaces()
        async with asyncio.timeout(3600):
            await test(master)

    try:
        simulation.run(life())
        assert not simulation.errors, simulation.errors
    finally:
        simulation.close()


async def reach(is_so: Callable[[], bool], patience: float = 60.0) -> None:
    """Wait for a condition, on virtual time."""
    async with asyncio.timeout(patience):
        while not is_so():
            await asyncio.sleep(0.01)
