"""A replica set of unmodified nodes in one simulation: virtual time, disks and ways that a test spoils, and the clients
that tests are made of."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from headwater.box.credentials import context_of_node
from headwater.box.instance import Box
from headwater.errors import BoxError
from headwater.options import Options
from headwater.server.node import make_node
from headwater.sim.client import Client, Lost, Reply
from headwater.sim.faults import Die, DiskOp, Fail
from headwater.sim.process import Crashed
from headwater.sim.world import Simulation, SimWorld

SPACE, LOCAL, TEMPORARY = 600, 601, 602
TIMEOUT = 1.0
"""replication_timeout of every node, unless a test says otherwise."""
PATIENCE = 120.0
"""Virtual seconds."""
GUEST_IS_SUPER = {"users": {"guest": {"roles": ["super"]}}}


class Disk:
    """What goes wrong on the disk of one node, as long as a test wants it."""

    def __init__(self) -> None:
        self.fails: Callable[[DiskOp], bool] = lambda op: False
        """Calls for which this holds give EIO."""

    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        return Fail(errno.EIO) if self.fails(op) else None


def writes(op: DiskOp) -> bool:
    """Calls that write a log, whatever it was called when it was made."""
    return op.name == "append" and ".xlog" in op.path


class SimNode:
    """One member, in whichever life."""

    def __init__(self, sims: SimSet, name: str, options: dict[str, Any]) -> None:
        self.sims = sims
        self.name = name
        self.address = f"{name}:3301"
        self.machine = sims.simulation.machine(name)
        self.disk = Disk()
        self.options = options
        """Of its next life."""
        self.box: Box
        self.error: BoxError | None = None
        """Why it did not start."""
        self.is_up = False
        self._world: SimWorld
        self._client: Client | None = None

    def __repr__(self) -> str:
        return self.name

    # ---- life

    def spawn(self) -> asyncio.Task[None]:
        """Start it and wait for nothing."""
        self.error, self.is_up = None, False
        self._world = self.machine.boot(self.disk)
        self.box = make_node(self._world, Options.load(self.options))
        self.box.credentials = GUEST_IS_SUPER
        return self.sims.simulation.spawn(self._start(), f"start of {self.name}")

    async def _start(self) -> None:
        try:
            await self._world.live(self.box.start())
        except Crashed:
            return
        except BoxError as error:
            self.error = error
            self.machine.kill()
        else:
            self.is_up = True

    async def start(self) -> None:
        """Until it takes requests. What keeps it from that is raised."""
        await self.spawn()
        if self.error is not None:
            raise self.error

    async def stop(self) -> None:
        self.is_up = False
        await self._world.live(self.box.stop())
        self.kill()

    def kill(self) -> None:
        self.is_up = False
        self.machine.kill()
        self._client = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def wipe(self, suffix: str = "") -> list[str]:
        """Remove its files that end so; which they were."""
        names = self.files(suffix)
        for path in names:
            del self.machine.platter.names[path]
        return names

    def files(self, suffix: str) -> list[str]:
        return sorted(path for path in self.machine.platter.names if path.endswith(suffix))

    def block_disk(self) -> None:
        """Until `free_disk` each call of the writer takes five seconds, and its answer as long."""
        self.machine.disk_slowness = 1e9

    def free_disk(self) -> None:
        self.machine.disk_slowness = 1.0

    # ---- as a client

    async def ask(self, type_: int, body: dict[int, Any], stream: int = 0) -> Reply:
        return await (await self._connected()).ask(type_, body, stream)

    async def _connected(self) -> Client:
        if self._client is None:
            client = Client(self.sims.clients)
            await client.connect(self.address)
            self._client = client
        return self._client

    async def try_call(self, name: str, *arguments: Any) -> Reply:
        """Over a connection of its own: it may wait for long."""
        client = Client(self.sims.clients)
        await client.connect(self.address)
        try:
            return await client.call(name, *arguments)
        finally:
            client.close()

    async def call(self, name: str, *arguments: Any) -> Any:
        reply = await self.try_call(name, *arguments)
        assert not reply.code, f"{name} on {self}: {reply.message}"
        return reply.rows[0] if reply.rows else None

    async def configure(self, **options: Any) -> None:
        await self.call("box.cfg", options)

    async def info(self) -> dict[str, Any]:
        """Links are dropped with a node that is dead: then there is another one."""
        try:
            info: dict[str, Any] = await self.call("box.info")
        except Lost:
            self._client = None
            info = await self.call("box.info")
        return info

    async def member(self, of: SimNode) -> dict[str, Any]:
        """What box.info.replication says of another one; {} if nothing."""
        replication = (await self.info())["replication"]
        values = replication.values() if isinstance(replication, dict) else replication
        return next((each for each in values if each and each["uuid"] == str(of.box.uuid)), {})

    async def upstream(self, of: SimNode) -> dict[str, Any]:
        return (await self.member(of)).get("upstream") or {}

    async def downstream(self, of: SimNode) -> dict[str, Any]:
        return (await self.member(of)).get("downstream") or {}

    async def rows(self, space: int = SPACE) -> list[Any]:
        return await (await self._connected()).all(space)

    async def keys(self, space: int = SPACE) -> list[int]:
        return [row[0] for row in await self.rows(space)]

    # ---- as the node itself

    def prepare(self, *tuples: list[Any], space: int = SPACE) -> None:
        """One transaction each, not written yet."""
        context = context_of_node(self.box)
        for each in tuples:
            context.replace(space, each)

    async def write(self, *tuples: list[Any], space: int = SPACE) -> None:
        self.prepare(*tuples, space=space)
        await self.box.settled()

    def mixed(self, *changes: tuple[int, list[Any]]) -> None:
        """One transaction over several spaces, not written yet."""
        context = context_of_node(self.box)
        context.begin()
        for space, row in changes:
            context.replace(space, row)
        context.commit()

    async def make_spaces(self) -> None:
        """SPACE, LOCAL and TEMPORARY."""
        context = context_of_node(self.box)
        for id, name, opts in (
            (SPACE, "t", {}),
            (LOCAL, "loc", {"group_id": 1}),
            (TEMPORARY, "tmp", {"temporary": True}),
        ):
            context.insert(280, [id, 1, name, "memtx", 0, opts, []])
            context.insert(288, [id, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
        await self.box.settled()

    @property
    def vclock(self) -> dict[int, int]:
        """What is written, without component 0."""
        return self.box.journal.vclock.as_dict(ignore0=True)

    @property
    def id(self) -> int:
        return self.box.memtx.replica_id

    @property
    def members(self) -> list[int]:
        """Ids in `_cluster`."""
        return [int(row[0]) for row in context_of_node(self.box).select(320)]


class SimSet:
    """All nodes of a test."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)
        self.clients = self.simulation.machine("clients").boot()
        self.nodes: list[SimNode] = []

    def add(self, name: str, *masters: str, **options: Any) -> SimNode:
        """Not started. `masters` are names, its own may be among them."""
        values: dict[str, Any] = {
            "listen": f"{name}:3301",
            "instance_uuid": f"00000000-0000-4000-8000-{len(self.nodes) + 1:012}",
            "wal_dir": "/data",
            "memtx_dir": "/data",
            "replication_timeout": TIMEOUT,
            "replication_sync_timeout": 30,
            "replication": [f"{master}:3301" for master in masters],
            **options,
        }
        node = SimNode(self, name, values)
        self.nodes.append(node)
        return node

    def mesh(self, count: int, **options: Any) -> list[SimNode]:
        """a, b, c, …: each follows all."""
        names = "abcdefghij"[:count]
        return [self.add(name, *names, **options) for name in names]

    async def start(self, *nodes: SimNode) -> None:
        """At one instant, and SPACE, LOCAL and TEMPORARY on the one that may be written to."""
        for node in nodes or self.nodes:
            node.spawn()
        await self.until(lambda: all(node.is_up for node in nodes or self.nodes), "all are up")
        first = next(node for node in nodes or self.nodes if not node.box.is_read_only)
        await first.make_spaces()
        await self.caught_up()

    async def pair(self, **options: Any) -> tuple[SimNode, SimNode]:
        """A master with spaces, and who follows it; `options` are the follower's."""
        master, replica = self.add("master"), self.add("replica", "master", **options)
        await self.start(master)
        await replica.start()
        await self.caught_up()
        return master, replica

    # ---- conditions

    async def until(self, is_so: Callable[[], Any], what: str, patience: float = PATIENCE) -> None:
        """Virtual time passes meanwhile. A coroutine is awaited each time; one that a dead node ends is not yet."""
        deadline = self.simulation.loop.now + patience
        while True:
            try:
                value = is_so()
                if asyncio.iscoroutine(value):
                    value = await value
                if value:
                    return
            except Lost:
                value = None
            assert self.simulation.loop.now < deadline, f"not within {patience} s: {what}\n{self.report()}"
            await asyncio.sleep(0.05)

    async def caught_up(self, *nodes: SimNode, patience: float = PATIENCE) -> None:
        """Equal vclocks of all that run, and the same tuples in what is replicated."""
        there = [node for node in nodes or self.nodes if node.is_up]
        await self.until(lambda: all(node.vclock == there[0].vclock for node in there), "equal vclocks", patience)
        spaces = [280, 288, 320] + [SPACE] * all(node.box.schema.find_space(SPACE) is not None for node in there)
        for space in spaces:
            rows = [context_of_node(node.box).select(space) for node in there]
            assert all(each == rows[0] for each in rows), f"space {space} differs: {rows}"

    async def follows(self, node: SimNode, *masters: SimNode, patience: float = PATIENCE) -> None:
        for master in masters:
            await self.reaches(node, master, "follow", patience=patience)

    async def reaches(
        self, node: SimNode, master: SimNode, *states: str, message: str = "", patience: float = PATIENCE
    ) -> None:
        """The applier of a master is in one of these states, with these words in its message."""

        async def is_there() -> bool:
            upstream = await node.upstream(master)
            return upstream.get("status") in states and message in str(upstream.get("message", ""))

        await self.until(is_there, f"{node} is {states} {message!r} with {master}", patience)

    async def pass_time(self, seconds: float) -> None:
        """Virtual seconds, in which something must not happen."""
        await asyncio.sleep(seconds)

    def report(self) -> str:
        lines = list(self.simulation.trace.last)[-8:]
        return "\n".join(
            [f"{node}: {node.error or (node.vclock if node.is_up else 'down')}" for node in self.nodes] + lines
        )


Test = Callable[[SimSet], Coroutine[Any, Any, None]]


def play(test: Test, *, seed: int = 1, errors: Iterable[str] = ()) -> None:
    """Run a test to its end in virtual time. A fiber that fails fails the test."""
    sims = SimSet(seed)

    async def life() -> None:
        async with asyncio.timeout(36_000):
            await test(sims)

    try:
        sims.simulation.run(life())
        strange = [each for each in sims.simulation.errors if not any(words in each for words in errors)]
        assert not strange, strange
    finally:
        sims.simulation.close()
