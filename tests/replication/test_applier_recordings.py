"""What a real 3.9 master said, said again to our applier; what the applier says must be what a real replica said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.replication.applierhost import SmallHost
from tests.replication.fakemaster import ADDRESS
from tests.wire.golden import GOLDEN, needs_golden

from headwater.errors import Er
from headwater.replication.applier import Applier
from headwater.replication.channel import Channel, ChannelClosed, packet_at
from headwater.replication.load import Load
from headwater.replication.states import ApplierState, Mission
from headwater.sim import Simulation, SimWorld
from headwater.vclock import VClock
from headwater.wire.constants import ERROR_BIT, GREETING_SIZE, Key, Type
from headwater.wire.msgpack import unpack
from headwater.wire.replication import decode_vclock
from headwater.wire.xrow import Row
from headwater.world import Link

pytestmark = needs_golden

S = ApplierState
NODES = {number: UUID(f"00000000-0000-4000-8000-{number:012x}") for number in (1, 2, 3, 10)}


class Recording:
    """One recorded connection."""

    def __init__(self, name: str) -> None:
        lines = (GOLDEN / "wire" / f"{name}.jsonl").read_text().splitlines()
        self.chunks = [(said["t"], said["from"], bytes.fromhex(said["hex"])) for said in map(json.loads, lines)]

    def said(self, who: str) -> list[Row]:
        data = b"".join(chunk for _, one, chunk in self.chunks if one == who)
        return list(packets(data, GREETING_SIZE if who == "server" else 0))


def packets(data: bytes, at: int = 0) -> Iterator[Row]:
    while (found := packet_at(data, at)) is not None:
        row, at = found
        yield row


class Player:
    """The server of a recording. Until rows flow it waits for each request; then it speaks when it spoke."""

    def __init__(self, world: SimWorld, recording: Recording, watch: Recording) -> None:
        self.world = world
        self.got: list[Row] = []
        self.is_done = False
        self.close: Callable[[], object] = lambda: None
        """Listen no longer."""
        self.news = world.tasks.event()
        self._recordings = [recording, watch]
        self._visits = 0

    def accept(self) -> Channel:
        return _Door(self)

    async def play(self, channel: Channel) -> None:
        self._visits += 1
        recording, is_main = self._recordings[self._visits > 1], self._visits == 1
        got = self.got if is_main else []
        begin, t0 = self.world.clock.monotonic(), 0.0
        is_flowing = False
        for t, who, data in recording.chunks:
            if who == "server":
                late = begin + t - t0 - self.world.clock.monotonic()
                await self.world.tasks.sleep(max(0.0, late) if is_flowing else 0.0)
                channel.write(data)
                continue
            for row in packets(data):
                if row.type == Type.OK:
                    break
                got.append(await channel.packet())
                begin, t0 = self.world.clock.monotonic(), t
                if row.type == Type.SUBSCRIBE:
                    is_flowing = True
                    self.world.tasks.spawn(self._listen(channel), "acknowledgements")
        if is_main:
            await self.world.tasks.sleep(0.4)
            self.is_done = True
            self.news.set()

    async def _listen(self, channel: Channel) -> None:
        try:
            while True:
                self.got.append(await channel.packet())
        except ChannelClosed:
            self.news.set()


class _Door(Channel):
    def __init__(self, player: Player) -> None:
        super().__init__(player.world.tasks)
        self._player = player

    def opened(self, link: Link) -> None:
        super().opened(link)
        self._player.world.tasks.spawn(self._player.play(self), "recording")


class Replay:
    """A node, and one recording after another."""

    def __init__(self, number: int, **options: Any) -> None:
        self.simulation = Simulation(1)
        self.world = self.simulation.machine("node").boot()
        self.master = self.simulation.machine("master").boot()
        self.host = SmallHost(self.world, "/data", NODES[number], replication_timeout=0.5, **options)

    async def play(self, name: str, mission: Mission, until: tuple[ApplierState, ...]) -> tuple[Applier, Player]:
        """To the state `until`; FOLLOW: to the end of the recording."""
        player = Player(self.master, Recording(name), Recording("ballot-watch"))
        listener = await self.master.net.listen(ADDRESS, player.accept)
        player.close = listener.close
        applier = self.host.applier(f"replicator:secret@{ADDRESS}")
        applier.start()
        applier.release(mission)
        await self.host.reach(applier, *until)
        return applier, player

    async def finish(self, applier: Applier, player: Player) -> None:
        """To the end of the recording, without an error on the way."""
        while not player.is_done:
            player.news.clear()
            await player.news.wait()
        assert applier.error is None
        assert applier.state is S.FOLLOW
        applier.stop()
        player.close()

    def run(self, main: Any) -> None:
        try:
            self.simulation.run(main)
        finally:
            self.simulation.close()


def fields(row: Row) -> dict[str, Any]:
    """All of a packet but what tells the version of the server."""
    body = unpack(row.body) if row.body else {}
    body.pop(Key.SERVER_VERSION, None)
    header = {name: getattr(row, name) for name in ("type", "sync", "replica_id", "group_id", "lsn", "flags")}
    return header | {"timestamp": row.timestamp, "body": body}


def check_requests(name: str, player: Player) -> None:
    ours = [fields(row) for row in player.got if row.type != Type.OK]
    theirs = [fields(row) for row in Recording(name).said("client") if row.type != Type.OK]
    assert ours == theirs


def acknowledgements(rows: list[Row]) -> dict[int, dict[str, Any]]:
    """By the number of the heartbeat that they echo, the last one each: between two heartbeats it depends on the moment
    how many there are."""
    return {unpack(row.body).get(Key.VCLOCK_SYNC, 0): unpack(row.body) for row in rows if row.type == Type.OK}


def check_acknowledgements(name: str, player: Player, *, own_rows: bool = False) -> None:
    """The same answer to each heartbeat. `own_rows`: the recorded replica got rows in other ways, too."""
    ours = acknowledgements(player.got)
    theirs = acknowledgements(Recording(name).said("client"))
    assert ours.keys() - {0} == theirs.keys() - {0}
    for number in theirs.keys() - {0}:
        one, other = ours[number], theirs[number]
        assert one.keys() == other.keys()
        assert one[Key.TERM] == other[Key.TERM]
        assert VClock(other[Key.VCLOCK]).covers(VClock(one[Key.VCLOCK])), "it may be told earlier, not more"
    assert own_rows or ours[max(ours)] == theirs[max(theirs)]


def timestamps(rows: list[Row]) -> list[float]:
    return [row.timestamp for row in rows if row.type == Type.OK and row.timestamp]


def snapshot_of(name: str) -> tuple[dict[int, int], list[Row]]:
    """The vclock and the rows of the first stage of a recorded join, meta included."""
    rows = Recording(name).said("server")
    begin = next(place for place, row in enumerate(rows) if row.type == Type.JOIN_META)
    end = next(place for place in range(begin, len(rows)) if rows[place].type == Type.OK)
    return decode_vclock(rows[begin - 1]), rows[begin:end]


def become(host: SmallHost, members: dict[int, int]) -> None:
    """The node as it was after the join of all three: the recorded snapshot, and `_cluster` rows {1: 8} and {1: 9}."""
    vclock, rows = snapshot_of("join-subscribe-bulk")
    load = Load(host, vclock)
    is_meta = True
    for row in rows[1:]:
        if row.type == Type.JOIN_SNAPSHOT:
            is_meta = False
        elif is_meta:
            load.meta(row)
        else:
            load.snapshot_row(row)
    load.end_snapshot()
    for id, number in members.items():
        host.load(320, [id, str(NODES[number]), f"node-{number}"])
    host.memtx.set_lsn(1, 9)
    host.open()


def test_join_with_meta_then_thousands_of_rows() -> None:
    name = "join-subscribe-bulk"
    replay = Replay(3, instance_name="node-3", replicaset_name="golden")

    async def main() -> None:
        host = replay.host
        applier, player = await replay.play(name, Mission.JOIN, (S.JOINED,))
        assert (host.election.term, host.queue.owner, host.queue.term) == (2, 1, 2)
        assert (host.memtx.replica_id, host.memtx.vclock[:2]) == (2, [0, 8])
        host.open()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW, S.STOPPED)
        await replay.finish(applier, player)
        check_requests(name, player)
        check_acknowledgements(name, player)
        rows = [row for row in Recording(name).said("server") if row.lsn]
        assert host.vclock == {1: max(row.lsn for row in rows)}
        assert timestamps(player.got)[-1] == timestamps(Recording(name).said("client"))[-1] == rows[-1].timestamp
        assert not host.queue.entries, "everything that was synchronous is confirmed"

    replay.run(main())


def test_a_leader_dies_and_another_one_is_elected() -> None:
    name = "subscribe-failover"
    replay = Replay(2, instance_name="node-2", replicaset_name="golden")

    async def main() -> None:
        host = replay.host
        become(host, {2: 3, 3: 2})
        applier, player = await replay.play(name, Mission.FOLLOW, (S.FOLLOW, S.STOPPED))
        await replay.finish(applier, player)
        check_requests(name, player)
        check_acknowledgements(name, player, own_rows=True)
        assert (host.election.term, host.queue.owner, host.queue.term) == (3, 2, 3)
        assert not host.queue.entries

    replay.run(main())


def test_a_quiet_link_with_raft_messages() -> None:
    name = "subscribe-idle-raft"
    replay = Replay(1, instance_name="node-1", replicaset_name="golden")

    async def main() -> None:
        become(replay.host, {2: 3, 3: 2})
        applier, player = await replay.play(name, Mission.FOLLOW, (S.FOLLOW, S.STOPPED))
        await replay.finish(applier, player)
        check_requests(name, player)
        check_acknowledgements(name, player, own_rows=True)
        assert applier.raft is not None
        assert applier.instance_id == 3

    replay.run(main())


def test_an_anonymous_replica_and_its_registration_in_two_steps() -> None:
    replay = Replay(10, replication_anon=True, read_only=True)

    async def main() -> None:
        host = replay.host
        applier, player = await replay.play("anon-fetch-snapshot-subscribe", Mission.JOIN, (S.FETCHED_SNAPSHOT,))
        assert (host.memtx.replica_id, host.memtx.vclock[:3]) == (0, [0, 3416, 41])
        assert (host.queue.owner, host.queue.confirmed) == (2, {1: 3415, 2: 40})
        host.open()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW, S.STOPPED)
        await replay.finish(applier, player)
        check_requests("anon-fetch-snapshot-subscribe", player)
        check_acknowledgements("anon-fetch-snapshot-subscribe", player)

        host.options.assign({"replication_anon": False})
        for name, option in (("register-1", ""), ("register-2", "node-a")):
            host.options.assign({"instance_name": option})
            host.schema.identity.instance_name = option
            applier, player = await replay.play(name, Mission.REGISTER, (S.REGISTERED, S.STOPPED))
            assert host.memtx.replica_id == 4
            await host.journal.sync()
            applier.release(Mission.FOLLOW)
            await host.reach(applier, S.FOLLOW, S.STOPPED)
            await replay.finish(applier, player)
            check_requests(name, player)
            check_acknowledgements(name, player)
        assert host.rows("_cluster")[-1] == [4, str(NODES[10]), "node-a"]

    replay.run(main())


@pytest.mark.parametrize(
    ("name", "state", "code"), [("auth-refused", S.LOADING, Er.LOADING), ("join-refused", S.STOPPED, Er.READONLY)]
)
def test_refusals(name: str, state: ApplierState, code: Er) -> None:
    replay = Replay(3, instance_name="node-3", replicaset_name="golden")

    async def main() -> None:
        applier, player = await replay.play(name, Mission.JOIN, (S.LOADING, S.STOPPED, S.DISCONNECTED))
        assert applier.state is state
        assert applier.error is not None
        assert applier.error.code == code
        refusal = Recording(name).said("server")[-1]
        assert refusal.type == ERROR_BIT | code
        assert applier.error.message == unpack(refusal.body)[Key.ERROR_24]
        check_requests(name, player)

    replay.run(main())


@pytest.mark.parametrize("name", ["ballot-watch", "ballot-watch-2"])
def test_ballots(name: str) -> None:
    """The second connection: each event is answered with the next WATCH, and the ballot is the last one's."""
    replay = Replay(3)
    watched = Recording(name)

    async def main() -> None:
        player = Player(replay.master, Recording("join-subscribe-bulk"), watched)
        await replay.master.net.listen(ADDRESS, player.accept)
        applier = replay.host.applier(f"replicator:secret@{ADDRESS}")
        ballots = []
        replay.host._moved, moved = lambda one: (ballots.append(one.ballot), moved(one)), replay.host._moved  # type: ignore[method-assign,assignment,func-returns-value]
        applier._listener = replay.host._moved
        applier.start()
        await replay.host.reach(applier, S.CONNECTED)
        events = [row for row in watched.said("server") if row.type == Type.EVENT]
        asked = [row for row in watched.said("client") if row.type == Type.WATCH]
        last = unpack(events[min(len(asked), len(events)) - 1].body)[Key.EVENT_DATA][Key.BALLOT]
        await replay.host.wait(lambda: applier.ballot is not None and applier.ballot.vclock == last[2])
        assert applier.ballot is not None
        assert applier.ballot.is_ro == last[4]
        assert [str(uuid) for uuid in applier.ballot.registered_replica_uuids] == last[9]
        assert applier.ballot.instance_name == last[10]
        applier.stop()

    replay.run(main())
