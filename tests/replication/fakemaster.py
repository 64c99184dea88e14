"""A master that is made of a test: it answers as it is told, on the simulated network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from uuid import UUID

from tests.replication.applierhost import SET, SmallHost

from headwater.errors import BoxError, Er, er
from headwater.replication.channel import Channel, ChannelClosed
from headwater.sim import Simulation, SimWorld
from headwater.wire import greeting
from headwater.wire.ballot import Ballot, encode_ballot
from headwater.wire.constants import ERROR_BIT, FEATURES, PROTOCOL_VERSION, VERSION_ID, Feature, Key, Type
from headwater.wire.mperror import pack_stack
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import SubscribeReply, encode_subscribe_reply, encode_vclock
from headwater.wire.xrow import Row, encode_packet
from headwater.world import Link

ADDRESS = "master:3301"
MASTER = UUID("00000000-0000-4000-8000-000000000001")
SALT = bytes(range(32))


class Visit:
    """One connection, as the master has it."""

    def __init__(self, master: FakeMaster, channel: Channel, number: int) -> None:
        self.master = master
        self.channel = channel
        self.number = number
        """Of the connections to this master, from 1."""
        self.got: list[Row] = []
        """All that came."""

    async def next(self) -> Row:
        row = await self.channel.packet()
        self.got.append(row)
        self.master.news.set()
        return row

    def say(self, *rows: Row) -> None:
        """In one piece."""
        self.channel.write(b"".join(map(encode_packet, rows)))

    def types(self) -> list[int]:
        return [row.type for row in self.got]

    def requests(self) -> list[Row]:
        """Without the acknowledgements."""
        return [row for row in self.got if row.type != Type.OK]

    def acknowledgements(self) -> list[dict[int, Any]]:
        return [unpack(row.body) for row in self.got if row.type == Type.OK]


Script = Callable[[Visit], Awaitable[None]]


class FakeMaster:
    """What it says on its own: greeting, ID, ballots, AUTH. The rest is `script`, told of each request that it does not
    know, in `Visit.got[-1]`."""

    def __init__(self, world: SimWorld, script: Script | None = None) -> None:
        self.world = world
        self.version = VERSION_ID
        self.uuid = MASTER
        self.ballot = Ballot(vclock={1: 1})
        self.visits: list[Visit] = []
        self.answers: dict[int, Script] = {
            Type.ID: self.identify,
            Type.VOTE: self.vote,
            Type.WATCH: self.watch,
            Type.AUTH: self.accept,
        }
        """By type of the request; a test puts its own there."""
        self.greeting: Callable[[Visit], bytes] = lambda visit: greeting.encode(self.version, self.uuid, SALT)
        self.script = script or self.ignore
        self.news = world.tasks.event()

    async def listen(self, address: str = ADDRESS) -> None:
        await self.world.net.listen(address, lambda: _Door(self))

    async def wait(self, is_so: Callable[[], bool]) -> None:
        """Until it is so; looked at whenever something comes."""
        async with self.world.tasks.timeout(600):
            while not is_so():
                self.news.clear()
                await self.news.wait()

    async def serve(self, visit: Visit) -> None:
        try:
            visit.channel.write(self.greeting(visit))
            while True:
                row = await visit.next()
                await self.answers.get(row.type, self.script)(visit)
        except ChannelClosed:
            self.news.set()

    # ---- answers --------------------------------------------------------------------------------------

    async def identify(self, visit: Visit) -> None:
        body = {Key.VERSION: PROTOCOL_VERSION, Key.FEATURES: sorted(FEATURES), Key.AUTH_TYPE: "chap-sha1"}
        visit.say(Row(Type.OK, body=pack(body), schema_version=7))

    async def vote(self, visit: Visit) -> None:
        visit.say(Row(Type.OK, body=encode_ballot(self.ballot)))

    async def watch(self, visit: Visit) -> None:
        """The first time at once, then no more: nothing changes."""
        if visit.types().count(Type.WATCH) == 1:
            visit.say(event(self.ballot))

    async def accept(self, visit: Visit) -> None:
        visit.say(ok())

    async def ignore(self, visit: Visit) -> None: ...

    def subscribed(self, vclock: dict[int, int], replica_id: int = 1, set_uuid: UUID = SET) -> Row:
        return encode_subscribe_reply(SubscribeReply(set_uuid, "", vclock), replica_id)


class _Door:
    """Makes a visit of a new connection."""

    def __init__(self, master: FakeMaster) -> None:
        self._master = master
        self._channel = Channel(master.world.tasks)

    def opened(self, link: Link) -> None:
        master = self._master
        self._channel.opened(link)
        visit = Visit(master, self._channel, len(master.visits) + 1)
        master.visits.append(visit)
        master.world.tasks.spawn(master.serve(visit), f"visit {visit.number}")

    def received(self, data: bytes) -> None:
        self._channel.received(data)

    def drained(self) -> None:
        self._channel.drained()

    def closed(self, error: BaseException | None) -> None:
        self._channel.closed(error)
        self._master.news.set()


# ---- packets ----------------------------------------------------------------------------------------


def ok() -> Row:
    return Row(Type.OK, body=b"\x80")


def vclock(components: dict[int, int]) -> Row:
    return encode_vclock(components, ignore0=False)


def event(ballot: Ballot | None, *, key: str = "internal.ballot", body: bytes | None = None) -> Row:
    value = body if body is not None else b"" if ballot is None else encode_ballot(ballot)
    pairs = pack({int(Key.EVENT_KEY): key})[1:]
    if value:
        pairs += pack(int(Key.EVENT_DATA)) + value
    return Row(Type.EVENT, body=bytes((0x82 if value else 0x81,)) + pairs)


def refusal(error: BoxError) -> Row:
    body = {int(Key.ERROR_24): error.message}
    packed = pack(body)[1:] + pack(int(Key.ERROR)) + pack_stack(error)
    return Row(ERROR_BIT | error.code, body=b"\x82" + packed)


def loading() -> Row:
    return refusal(er(Er.LOADING))


def dml(
    type: int, space: int, lsn: int, body: dict[int, object], *, id: int = 1, tsn: int = 0, last: bool = True
) -> Row:
    """A row of a stream; `tsn` with `last` for one of several."""
    packed = pack({int(Key.SPACE_ID): space, **body})
    return Row(type, id, 0, lsn, 1_700_000_000.0 + lsn / 1000, tsn or lsn, 1 if last else 0, packed)


def insert(space: int, lsn: int, tuple_: list[object], **more: Any) -> Row:
    return dml(Type.INSERT, space, lsn, {int(Key.TUPLE): tuple_}, **more)


def replace(space: int, lsn: int, tuple_: list[object], **more: Any) -> Row:
    return dml(Type.REPLACE, space, lsn, {int(Key.TUPLE): tuple_}, **more)


def snapshot_row(space: int, tuple_: list[object]) -> Row:
    return Row(Type.INSERT, body=pack({int(Key.SPACE_ID): space, int(Key.TUPLE): tuple_}))


# ---- a run ------------------------------------------------------------------------------------------


class Stage:
    """A master and a node that follows it, in a simulation."""

    def __init__(self, seed: int = 1, **options: Any) -> None:
        self.simulation = Simulation(seed)
        self.master_machine = self.simulation.machine("master")
        self.node_machine = self.simulation.machine("node")
        self.master = FakeMaster(self.master_machine.boot())
        self.world = self.node_machine.boot()
        self.host = SmallHost(self.world, "/data", **options)

    def run(self, main: Callable[[Stage], Coroutine[Any, Any, None]], *, errors: bool = False) -> None:
        """`errors`: fibers may fail in it."""
        try:
            self.simulation.run(self._main(main))
            assert errors or self.simulation.errors == []
        finally:
            self.simulation.close()

    async def _main(self, main: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
        await self.master.listen()
        await main(self)


def features_without(*missing: Feature) -> list[int]:
    return sorted(FEATURES - set(missing))
