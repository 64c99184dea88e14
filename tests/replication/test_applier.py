"""The applier against a master made of a test: missions, states, errors, acknowledgements."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.replication.applierhost import SELF, SET, SmallHost
from tests.replication.fakemaster import (
    ADDRESS,
    MASTER,
    Stage,
    Visit,
    event,
    insert,
    loading,
    refusal,
    replace,
    snapshot_row,
    vclock,
)

from headwater.errors import BoxError, Er, XlogGapError, er
from headwater.replication.applier import Applier
from headwater.replication.intake import Intake
from headwater.replication.states import ApplierState, Mission
from headwater.store.bootstrap import bootstrap_rows, master_rows
from headwater.uri import parse_uri
from headwater.wire.ballot import Ballot
from headwater.wire.constants import Flag, Key, Type, version_id
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import (
    RelayHeartbeat,
    decode_subscribe,
    encode_relay_heartbeat,
    encode_type,
)
from headwater.wire.synchro import RaftMessage, Synchro, encode_raft, encode_synchro
from headwater.wire.xrow import Row, encode_packet

S = ApplierState
SPACE = 600
V260 = version_id(2, 6, 0)


def heartbeat(number: int = 0, timestamp: float = 1_700_000_000.0, id: int = 1) -> Row:
    return encode_relay_heartbeat(RelayHeartbeat(number), id, timestamp)


def make_space(host: SmallHost, *, is_sync: bool = False, secondary: bool = False) -> None:
    """A space of a user, as the snapshot had it."""
    options = {"is_sync": True} if is_sync else {}
    host.load(280, [SPACE, 1, "t", "memtx", 0, options, []])
    host.load(288, [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
    if secondary:
        host.load(288, [SPACE, 1, "sk", "tree", {"unique": True}, [[1, "unsigned"]]])
    host.memtx.confirm_to(host.memtx.undo_end)


def ready(stage: Stage, *, own_id: int = 3, version: tuple[int, int, int] = (2, 3, 1), **space: Any) -> Applier:
    """A node that has data, up to {1: 10}, and its applier, not yet started."""
    stage.host.fill(version, own_id)
    make_space(stage.host, **space)
    stage.host.memtx.set_lsn(1, 10)
    stage.host.open()
    return stage.host.applier(ADDRESS)


def follower(*streams: list[Row]) -> Any:
    """A script: the n-th SUBSCRIBE is answered with the n-th of these; the last one again and again."""

    async def script(visit: Visit) -> None:
        if visit.got[-1].type != Type.SUBSCRIBE:
            return
        asked = sum(one.types().count(Type.SUBSCRIBE) for one in visit.master.visits)
        visit.say(visit.master.subscribed({1: 10}), *streams[min(asked, len(streams)) - 1])

    return script


# ---- joining ----------------------------------------------------------------------------------------


def joined_rows(version: tuple[int, int, int] = (2, 3, 1)) -> list[Row]:
    """A snapshot as JOIN sends it: a set of one member, a space with three tuples."""
    rows = [snapshot_row(space, unpack(data)) for space, data in bootstrap_rows(version)]
    rows += [snapshot_row(space, unpack(data)) for space, data in master_rows(version, MASTER, SET)]
    rows.append(snapshot_row(280, [SPACE, 1, "t", "memtx", 0, {}, []]))
    rows.append(snapshot_row(288, [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]))
    rows.append(snapshot_row(288, [SPACE, 1, "sk", "tree", {"unique": False}, [[1, "unsigned"]]]))
    return rows + [snapshot_row(SPACE, [number, number % 2]) for number in range(3)]


def final_rows() -> list[Row]:
    """Written since: the joiner's row, a transaction, an update, a NOP."""
    body = {int(Key.SPACE_ID): SPACE, int(Key.INDEX_BASE): 0, int(Key.KEY): [1], int(Key.TUPLE): [["=", 1, 9]]}
    return [
        insert(320, 11, [3, str(SELF)]),
        replace(SPACE, 12, [7, 7], tsn=12, last=False),
        replace(SPACE, 13, [8, 8], tsn=12),
        Row(Type.UPDATE, 1, 0, 14, 1.0, 14, 1, pack(body)),
        Row(Type.NOP, 1, 0, 15, 1.0, 15, 1),
    ]


def joining(*, meta: list[Row], version: tuple[int, int, int] = (2, 3, 1)) -> Any:
    async def script(visit: Visit) -> None:
        match visit.got[-1].type:
            case Type.JOIN:
                snapshot = [vclock({0: 4, 1: 10}), *meta, *joined_rows(version), vclock({1: 15})]
                visit.say(*snapshot, *final_rows(), vclock({1: 15}))
            case Type.SUBSCRIBE:
                visit.say(visit.master.subscribed({1: 15}), heartbeat(1))

    return script


def test_a_node_joins_and_then_follows_over_the_same_connection() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = joining(meta=[])
        host, applier = stage.host, stage.host.applier(ADDRESS)
        applier.start()
        await host.reach(applier, S.CONNECTED)
        assert applier.ballot == stage.master.ballot
        applier.release(Mission.JOIN)
        await host.reach(applier, S.JOINED)
        assert host.memtx.vclock[:3] == [0, 15, 0], "component 0 of the master is its own"
        assert host.memtx.replica_id == 3
        assert host.replicaset_uuid == SET
        assert host.rows("t") == [[0, 0], [1, 9], [2, 0], [7, 7], [8, 8]]
        host.open()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW)
        first, watcher = stage.master.visits
        assert [row.type for row in first.requests()] == [Type.ID, Type.JOIN, Type.SUBSCRIBE]
        assert set(watcher.types()) == {Type.WATCH}
        assert watcher.channel.is_closed
        assert host.journal.queued == 0
        subscribe = decode_subscribe(first.requests()[-1])
        assert (subscribe.vclock, subscribe.id_filter, subscribe.is_anon) == ({1: 15}, frozenset((3,)), False)
        assert host.states_of(applier) == [
            S.CONNECT, S.CONNECTED, S.READY, S.WAIT_SNAPSHOT, S.FETCH_SNAPSHOT, S.FINAL_JOIN, S.JOINED, S.READY, S.SYNC,
            S.FOLLOW,
        ]  # fmt: skip

    stage.run(main)


def test_meta_of_a_join_is_the_state_of_election_and_queue() -> None:
    meta = [
        encode_type(Type.JOIN_META),
        encode_raft(RaftMessage(7, vote=1, leader_id=1)),
        encode_synchro(Synchro(Type.RAFT_PROMOTE, 1, 5, 7, {1: 9}, origin_id=1)),
        encode_type(Type.JOIN_SNAPSHOT),
    ]
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = joining(meta=meta, version=(3, 8, 0))
        host, applier = stage.host, stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        await host.reach(applier, S.JOINED)
        assert (host.election.term, host.election.vote) == (7, 1)
        assert (host.queue.owner, host.queue.term, host.queue.confirmed) == (1, 7, {1: 9})

    stage.run(main)


def test_an_anonymous_node_fetches_a_snapshot() -> None:
    stage = Stage(replication_anon=True, read_only=True)

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.FETCH_SNAPSHOT:
            visit.say(vclock({0: 4, 1: 10}), *joined_rows(), vclock({1: 10}))
        elif visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(visit.master.subscribed({1: 10}), heartbeat(1))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        host, applier = stage.host, stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        await host.reach(applier, S.FETCHED_SNAPSHOT)
        assert host.memtx.vclock[:2] == [0, 10]
        host.open()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW)
        subscribe = decode_subscribe(stage.master.visits[0].requests()[-1])
        assert (subscribe.is_anon, subscribe.id_filter) == (True, frozenset((0,)))

    stage.run(main)


def test_an_anonymous_node_becomes_a_member_over_register() -> None:
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.REGISTER:
            visit.say(replace(SPACE, 11, [1]), insert(320, 12, [4, str(SELF)]), vclock({1: 12}))
        elif visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(visit.master.subscribed({1: 12}), heartbeat(1))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier, host = ready(stage, own_id=0), stage.host
        applier.start()
        applier.release(Mission.REGISTER)
        await host.reach(applier, S.REGISTERED)
        assert host.memtx.replica_id == 4
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW)
        assert host.vclock == {1: 12}, "the rows are in the journal"
        assert host.rows("t") == [[1]]
        register, subscribe = stage.master.visits[0].requests()[-2:]
        assert unpack(register.body) == {Key.INSTANCE_UUID: str(SELF), Key.VCLOCK: {1: 10}}
        assert decode_subscribe(subscribe).is_anon is False
        assert host.states_of(applier)[3:5] == [S.REGISTER, S.REGISTERED]

    stage.run(main)


def test_a_registration_that_cannot_be_written_brings_no_row_behind_the_gap() -> None:
    """Rows that come while the failed ones are undone would be written with those missing in between."""
    stage = Stage()
    asked: list[dict[int, int]] = []

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.REGISTER:
            asked.append(unpack(visit.got[-1].body)[Key.VCLOCK])
            (have,) = asked[-1].values()
            for lsn in range(have + 1, 21):
                visit.say(replace(SPACE, lsn, [lsn]))
                await visit.master.world.tasks.sleep(0.01)
            visit.say(insert(320, 21, [4, str(SELF)]), vclock({1: 21}))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier, host = ready(stage, own_id=0), stage.host
        stage.node_machine.platter.capacity = stage.node_machine.platter.used()
        host.journal.on_rollback.append(lambda: setattr(stage.node_machine.platter, "capacity", None))
        applier.start()
        applier.release(Mission.REGISTER)
        await host.reach(applier, S.DISCONNECTED)
        assert applier.error is not None
        assert applier.error.code == Er.WAL_IO
        assert host.vclock == {1: 10}
        await host.reach(applier, S.CONNECTED)
        applier.release(Mission.REGISTER)
        await host.reach(applier, S.REGISTERED)
        assert asked == [{1: 10}, {1: 10}]
        assert host.vclock == {1: 21}, "REGISTERED: all of it is written"
        assert [row[0] for row in host.rows("t")] == list(range(11, 21))

    stage.run(main)


def test_an_old_master_is_asked_for_a_join_in_its_own_words() -> None:
    stage = Stage(instance_name="node-3")

    async def main(stage: Stage) -> None:
        stage.master.version = V260
        stage.master.script = joining(meta=[])
        host, applier = stage.host, stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        await host.reach(applier, S.JOINED)
        host.open()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW)
        (visit,) = stage.master.visits
        vote, join, subscribe = visit.requests()
        assert (vote.type, vote.body) == (Type.VOTE, b"")
        assert unpack(join.body) == {Key.INSTANCE_UUID: str(SELF)}
        assert set(unpack(subscribe.body)) == {
            Key.REPLICASET_UUID, Key.INSTANCE_UUID, Key.VCLOCK, Key.SERVER_VERSION, Key.REPLICA_ANON, Key.ID_FILTER,
        }  # fmt: skip
        assert visit.acknowledgements() == [] or visit.acknowledgements()[0] == {Key.VCLOCK: {1: 15}}

    stage.run(main)


def test_a_refused_join_is_tried_again_only_when_told() -> None:
    """Whoever chooses the leader chooses anew; the applier reconnects, and waits."""
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.JOIN:
            visit.say(loading())

    async def main(stage: Stage) -> None:
        stage.master.script = script
        host, applier = stage.host, stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        await host.reach(applier, S.LOADING)
        assert applier.error is not None
        assert applier.error.code == Er.LOADING
        await host.reach(applier, S.CONNECTED)
        await stage.world.tasks.sleep(30)
        assert applier.state is S.CONNECTED
        assert sum(visit.types().count(Type.JOIN) for visit in stage.master.visits) == 1

    stage.run(main)


def test_a_read_only_master_stops_a_join() -> None:
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.JOIN:
            visit.say(refusal(er(Er.READONLY)))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier = stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        await stage.host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert applier.error.code == Er.READONLY

    stage.run(main)


@pytest.mark.parametrize("rows", [0, 5])
def test_a_join_that_breaks_off_in_the_snapshot_stops_once_there_are_rows(rows: int) -> None:
    """A part of a snapshot must never be taken for the whole of it."""
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.JOIN:
            visit.say(vclock({1: 10}), *joined_rows()[:rows])
            visit.channel.close()

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier = stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        state = await stage.host.reach(applier, S.STOPPED, S.DISCONNECTED)
        assert state is (S.STOPPED if rows else S.DISCONNECTED)

    stage.run(main)


def test_a_master_that_falls_silent_in_a_join_is_given_up() -> None:
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.JOIN:
            visit.say(vclock({1: 10}))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier = stage.host.applier(ADDRESS)
        applier.start()
        applier.release(Mission.JOIN)
        await stage.host.reach(applier, S.DISCONNECTED)
        assert applier.error is not None
        assert applier.error.type_name == "TimedOut"

    stage.run(main)


# ---- following --------------------------------------------------------------------------------------


def test_rows_are_written_and_acknowledged_in_one_batch() -> None:
    rows = [replace(SPACE, 10 + number, [number]) for number in range(1, 101)]
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 110})
        visit = stage.master.visits[0]
        await stage.master.wait(lambda: {Key.VCLOCK: {1: 110}, Key.TERM: 1} in visit.acknowledgements())
        assert visit.got[-1].timestamp == rows[-1].timestamp, "when the last row was written"
        assert len(host.outcomes) <= 2, "one batch for each piece of what came"
        assert len(visit.acknowledgements()) <= 2
        assert [row[0] for row in host.rows("t")] == list(range(1, 101))

    stage.run(main)


def test_acknowledgements_to_an_old_master_have_the_vclock_alone() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.version = V260
        stage.master.script = follower([replace(SPACE, 11, [1])])
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        visits = stage.master.visits
        await stage.master.wait(lambda: bool(visits) and bool(visits[0].acknowledgements()))
        assert visits[0].acknowledgements()[0] == {Key.VCLOCK: {1: 11}}

    stage.run(main)


def test_a_heartbeat_is_echoed_with_its_number() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([heartbeat(1), heartbeat(7)])
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        visits = stage.master.visits
        await stage.master.wait(lambda: bool(visits) and bool(visits[0].acknowledgements()))
        assert visits[0].acknowledgements()[0] == {Key.VCLOCK: {1: 10}, Key.TERM: 1, Key.VCLOCK_SYNC: 7}
        assert applier.state is S.FOLLOW

    stage.run(main)


def test_numbers_of_heartbeats_that_go_back_stop_it() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([heartbeat(7), heartbeat(0), heartbeat(6)])
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        await stage.host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert applier.error.message == "Non-monotonic vclock sync value. Old: 7, new: 6"

    stage.run(main)


def test_a_silent_node_says_something_every_replication_timeout() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([])
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        await stage.host.reach(applier, S.DISCONNECTED)
        assert len(stage.master.visits[0].acknowledgements()) in (3, 4)

    stage.run(main)


def test_four_timeouts_of_silence_end_a_connection_and_it_comes_again() -> None:
    stage = Stage(replication_reconnect_timeout=5)

    async def main(stage: Stage) -> None:
        stage.master.script = follower([])
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.SYNC)
        since = stage.world.clock.monotonic()
        await host.reach(applier, S.DISCONNECTED)
        assert 4 <= stage.world.clock.monotonic() - since < 4.1
        assert applier.error is not None
        assert applier.error.type_name == "TimedOut"
        await host.reach(applier, S.CONNECT)
        assert 9 <= stage.world.clock.monotonic() - since < 9.1
        await host.reach(applier, S.SYNC)
        assert applier.error is None, "forgotten with the new greeting"

    stage.run(main)


def test_a_row_that_comes_in_drops_is_a_sign_of_life() -> None:
    """A large row over a slow link takes longer than the patience for silence."""
    stage = Stage()
    large = replace(SPACE, 11, [1, "x" * 100_000])

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(visit.master.subscribed({1: 10}))
            data = encode_packet(large)
            for at in range(0, len(data), 10_000):
                visit.channel.write(data[at : at + 10_000])
                await visit.master.world.tasks.sleep(1)

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 11})
        assert S.DISCONNECTED not in host.states_of(applier)

    stage.run(main)


def test_sync_becomes_follow_when_the_masters_vclock_is_reached_with_little_lag() -> None:
    stage = Stage()
    old = replace(SPACE, 11, [1])
    old.timestamp = 1.0

    async def script(visit: Visit) -> None:
        if visit.got[-1].type != Type.SUBSCRIBE:
            return
        now = visit.master.world.clock.time
        sleep = visit.master.world.tasks.sleep
        visit.say(visit.master.subscribed({1: 12}), heartbeat(1, timestamp=now()))
        await sleep(1)
        assert applier.state is S.SYNC, "rows are missing"
        visit.say(replace(SPACE, 12, [2]))
        late = replace(SPACE, 13, [3])
        late.timestamp = 1.0
        visit.say(late)
        await sleep(1)
        assert applier.state is S.SYNC, "all is there, and it is old"
        assert applier.lag > 1e9
        visit.say(heartbeat(2, timestamp=now()))

    async def main(stage: Stage) -> None:
        nonlocal applier
        stage.master.script = script
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        await stage.host.reach(applier, S.FOLLOW)
        assert applier.lag < 1

    applier: Any = None
    stage.run(main)


def test_two_masters_that_bring_the_same_rows_need_no_latch() -> None:
    """Each transaction is applied once, whoever brings it first, and the rows of each origin are in order."""
    rows = [replace(SPACE, 11 + number, [number, number]) for number in range(50)]
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type != Type.SUBSCRIBE:
            return
        visit.say(visit.master.subscribed({1: 10}))
        for row in rows:
            visit.say(row)
            if row.lsn % 7 == visit.number % 7:
                await visit.master.world.tasks.sleep(0.01)

    async def main(stage: Stage) -> None:
        stage.master.script = script
        one, host = ready(stage), stage.host
        other = host.applier(ADDRESS)
        for applier in (one, other):
            applier.start()
            applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 60})
        assert [row[0] for row in host.rows("t")] == list(range(50))
        assert not host.errors()
        assert {one.state, other.state} <= {S.SYNC, S.FOLLOW}

    stage.run(main)


def test_conflict_stops_and_what_came_before_is_written() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([insert(SPACE, 11, [1]), insert(SPACE, 12, [1]), insert(SPACE, 13, [2])])
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert applier.error.code == Er.TUPLE_FOUND
        await host.wait(lambda: host.vclock == {1: 11})
        assert host.rows("t") == [[1]]

    stage.run(main)


def test_skip_conflict_writes_a_nop_in_the_place_of_the_row() -> None:
    stage = Stage(replication_skip_conflict=True)
    rows = [
        insert(SPACE, 11, [1, "first"]),
        insert(SPACE, 12, [2], tsn=12, last=False),
        insert(SPACE, 13, [1, "again"], tsn=12, last=False),
        insert(SPACE, 14, [3], tsn=12),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 14})
        assert host.rows("t") == [[1, "first"], [2], [3]]
        assert applier.state is not S.STOPPED

    stage.run(main)


def test_a_failed_write_brings_every_applier_back_to_what_is_written() -> None:
    """Rows that one applier brought and that are undone were passed over as known by the other one: both start anew."""
    stage = Stage()
    asked: list[dict[int, int]] = []

    async def script(visit: Visit) -> None:
        if visit.got[-1].type != Type.SUBSCRIBE:
            return
        have = decode_subscribe(visit.got[-1]).vclock
        asked.append(dict(have))
        visit.say(visit.master.subscribed({1: 30}))
        visit.say(*[replace(SPACE, lsn, [lsn]) for lsn in range(have[1] + 1, 31)])
        while not visit.channel.is_closed:
            visit.say(heartbeat(0, timestamp=visit.master.world.clock.time()))
            await visit.master.world.tasks.sleep(1)

    async def main(stage: Stage) -> None:
        stage.master.script = script
        one, host = ready(stage), stage.host
        other = host.applier(ADDRESS)
        stage.node_machine.platter.capacity = stage.node_machine.platter.used()
        for applier in (one, other):
            applier.start()
            applier.release(Mission.FOLLOW)
        await host.wait(lambda: bool(host.errors()))
        await host.wait(lambda: one.state is S.DISCONNECTED and other.state is S.DISCONNECTED)
        for applier in (one, other):
            assert applier.error is not None
            assert applier.error.code == Er.WAL_IO
        assert host.rows("t") == [], "undone"
        assert host.memtx.vclock[1] == 10
        stage.node_machine.platter.capacity = None
        await host.wait(lambda: host.vclock == {1: 30})
        await host.wait(lambda: one.state is S.FOLLOW and other.state is S.FOLLOW)
        assert [row[0] for row in host.rows("t")] == list(range(11, 31))
        assert set(map(tuple, (sorted(have.items()) for have in asked))) <= {((1, 10),), ((1, 30),)}

    stage.run(main)


def test_bytes_that_come_behind_a_rollback_are_not_applied() -> None:
    """They had come before the connection was ended for it; what they follow is undone."""
    stage = Stage()

    def packets(*lsns: int) -> bytes:
        return b"".join(encode_packet(replace(SPACE, lsn, [lsn])) for lsn in lsns)

    async def main(stage: Stage) -> None:
        ready(stage)
        host, platter = stage.host, stage.node_machine.platter
        intake = Intake(host, lambda timestamp: None, lambda row: False)
        platter.capacity = platter.used()
        await intake.digest(packets(11, 12))
        await host.wait(lambda: bool(host.errors()))
        platter.capacity = None
        with pytest.raises(BoxError) as caught:
            await intake.digest(packets(13, 14))
        assert caught.value.code == Er.WAL_IO
        assert (host.memtx.vclock[1], host.rows("t")) == (10, [])
        await Intake(host, lambda timestamp: None, lambda row: False).digest(packets(11, 12, 13, 14))
        await host.wait(lambda: host.vclock == {1: 14})

    stage.run(main)


def test_reading_pauses_while_the_journal_is_full() -> None:
    stage = Stage(wal_queue_max_size=1000)
    rows = [replace(SPACE, 11 + number, [number, "x" * 300]) for number in range(100)]

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(visit.master.subscribed({1: 10}))
            for at in range(0, 100, 5):
                visit.say(*rows[at : at + 5])
                await visit.master.world.tasks.sleep(0.02)

    async def main(stage: Stage) -> None:
        stage.master.script = script
        stage.node_machine.disk_slowness = 20
        applier, host = ready(stage), stage.host
        story = ""

        def settle(waiter: Any, settle: Any = host.journal.settle) -> None:
            nonlocal story
            story += "read "
            settle(waiter)

        def written(batch: object) -> None:
            nonlocal story
            story += "written "

        host.journal.settle = settle  # type: ignore[method-assign]
        host.journal.on_written.append(written)
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 110})
        assert "read read" not in story
        assert story.count("read") > 2

    stage.run(main)


def test_a_transaction_in_many_pieces_is_applied_whole() -> None:
    stage = Stage()
    rows = [replace(SPACE, 11 + n, [n, "x" * 1000], tsn=11, last=n == 999) for n in range(1000)]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        seen: set[int] = set()
        host.journal.on_written.append(lambda batch: seen.add(len(host.rows("t"))))
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 1010})
        assert seen == {1000}

    stage.run(main)


def test_a_transaction_that_is_larger_than_memory_should_hold_twice_is_applied_whole() -> None:
    stage = Stage()
    rows = [replace(SPACE, 11 + n, [n, "x" * 50_000], tsn=11, last=n == 119) for n in range(120)]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 130})
        assert len(host.rows("t")) == 120

    stage.run(main)


def test_part_of_a_transaction_that_is_known_is_left_out() -> None:
    """It came before from a peer that does not know where transactions end."""
    stage = Stage()
    rows = [replace(SPACE, lsn, [lsn], tsn=9, last=lsn == 12) for lsn in range(9, 13)]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 12})
        assert host.rows("t") == [[11], [12]]

    stage.run(main)


def test_schema_changes_upserts_and_rows_of_others_come_in_order() -> None:
    stage = Stage()
    upsert = {int(Key.SPACE_ID): 601, int(Key.INDEX_BASE): 0, int(Key.TUPLE): [1, 1], int(Key.OPS): [["+", 1, 5]]}
    rows = [
        replace(SPACE, 11, [1]),
        insert(280, 12, [601, 1, "u", "memtx", 0, {}, []]),
        insert(288, 13, [601, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]),
        Row(Type.UPSERT, 1, 0, 14, 1.0, 14, 1, pack(upsert)),
        Row(Type.UPSERT, 2, 0, 1, 1.0, 1, 1, pack(upsert)),
        replace(SPACE, 2, [2], id=2),
        heartbeat(1),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 14, 2: 2})
        assert host.rows("u") == [[1, 6]]
        assert host.rows("t") == [[1], [2]]

    stage.run(main)


def test_no_rows_of_another_set_are_taken() -> None:
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(visit.master.subscribed({1: 11}, set_uuid=UUID(int=5)), replace(SPACE, 11, [1]))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert applier.error.code == Er.REPLICASET_UUID_MISMATCH
        assert host.rows("t") == []

    stage.run(main)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (er(Er.TOO_EARLY_SUBSCRIBE, "x"), S.LOADING),
        (XlogGapError.between(1, "{1: 1}", 5, "{1: 5}"), S.LOADING),
        (er(Er.SYSTEM, "disk"), S.DISCONNECTED),
        (er(Er.UNKNOWN_REPLICA, "a", "b"), S.STOPPED),
    ],
)
def test_refused_subscribe(error: Any, state: ApplierState) -> None:
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(refusal(error))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        assert await stage.host.reach(applier, S.LOADING, S.DISCONNECTED, S.STOPPED) is state
        assert applier.error is not None
        assert applier.error.message == error.message
        if state is not S.STOPPED:
            await stage.master.wait(lambda: sum(v.types().count(Type.SUBSCRIBE) for v in stage.master.visits) > 1)

    stage.run(main)


def test_a_node_that_misses_its_own_rows_asks_for_them() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([replace(SPACE, 1, [1], id=3), heartbeat(1)])
        applier, host = ready(stage), stage.host
        host.needs_own_rows = True
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 10, 3: 1})
        assert decode_subscribe(stage.master.visits[0].requests()[-1]).id_filter == frozenset()

    stage.run(main)


# ---- agreement --------------------------------------------------------------------------------------


def sync_row(lsn: int, key: int, flags: int) -> Row:
    row = replace(SPACE, lsn, [key])
    row.flags |= flags
    return row


def synchro(type: Type, lsn: int, upto: int, term: int = 0) -> Row:
    row = encode_synchro(Synchro(type, 1, upto, term, origin_id=1))
    row.lsn, row.tsn, row.flags, row.timestamp = lsn, lsn, int(Flag.COMMIT), 1.0
    return row


def test_a_raft_message_raises_the_term_that_is_acknowledged() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([encode_raft(RaftMessage(5, state=3, leader_id=1)), heartbeat(1)])
        applier, host = ready(stage, version=(3, 8, 0)), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        visits = stage.master.visits
        await stage.master.wait(lambda: any(ack.get(Key.TERM) == 5 for one in visits for ack in one.acknowledgements()))
        assert applier.raft == RaftMessage(5, state=3, leader_id=1)
        assert applier.instance_id == 1
        assert [row.replica_id for row in host.raft] == [1]

    stage.run(main)


def test_a_raft_message_of_nobody_stops_it() -> None:
    stage = Stage()

    async def script(visit: Visit) -> None:
        if visit.got[-1].type == Type.SUBSCRIBE:
            visit.say(visit.master.subscribed({}, replica_id=0), encode_raft(RaftMessage(5, state=1)))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier = ready(stage)
        applier.start()
        applier.release(Mission.FOLLOW)
        await stage.host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert applier.error.message == "Can't apply a Raft request from an instance without an ID"

    stage.run(main)


def test_synchronous_rows_wait_for_their_confirm() -> None:
    waits = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)
    stage = Stage()
    rows = [sync_row(11, 1, waits), sync_row(12, 2, int(Flag.WAIT_SYNC)), sync_row(13, 3, waits)]

    async def main(stage: Stage) -> None:
        stage.master.script = follower([*rows, synchro(Type.RAFT_CONFIRM, 14, 12)])
        applier, host = ready(stage, version=(3, 8, 0)), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 14})
        assert [entry.lsn for entry in host.queue.entries] == [13]
        assert host.rows("t") == [[1], [2], [3]]

    stage.run(main)


def test_a_rollback_takes_back_what_waits_even_when_written() -> None:
    waits = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)
    stage = Stage()

    async def main(stage: Stage) -> None:
        rows = [sync_row(11, 1, waits), sync_row(12, 2, waits), sync_row(13, 3, int(Flag.WAIT_SYNC))]
        stage.master.script = follower([*rows, synchro(Type.RAFT_ROLLBACK, 14, 12), replace(SPACE, 15, [9])])
        applier, host = ready(stage, version=(3, 8, 0)), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 15})
        assert host.rows("t") == [[1], [9]]
        assert [entry.lsn for entry in host.queue.entries] == [11]

    stage.run(main)


def test_before_2_6_2_the_space_says_that_a_row_is_synchronous() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.version = V260
        stage.master.script = follower([replace(SPACE, 11, [1]), synchro(Type.RAFT_ROLLBACK, 12, 11)])
        applier, host = ready(stage, is_sync=True), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.wait(lambda: host.vclock == {1: 12})
        assert host.rows("t") == []

    stage.run(main)


# ---- being told -------------------------------------------------------------------------------------


def test_stop_ends_it_at_once_and_start_begins_anew() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([heartbeat(1)])
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW)
        applier.stop()
        assert applier.state is S.OFF
        await stage.master.wait(lambda: all(visit.channel.is_closed for visit in stage.master.visits))
        applier.start()
        await host.reach(applier, S.FOLLOW)

    stage.run(main)


@pytest.mark.parametrize("when", list(S))
def test_a_listener_may_stop_it_in_any_state(when: ApplierState) -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = joining(meta=[])
        host = stage.host
        stops = 0

        def listener(applier: Applier) -> None:
            nonlocal stops
            if applier.state is when and not stops:
                stops += 1
                applier.stop()

        applier = Applier(host, parse_uri(f"user:secret@{ADDRESS}"), listener)
        applier.start()
        applier.release(Mission.JOIN)
        await stage.world.tasks.sleep(20)
        if not stops:
            applier.stop()
        await stage.world.tasks.sleep(20)
        assert applier.state is S.OFF
        assert all(visit.channel.is_closed for visit in stage.master.visits)

    stage.run(main)


def test_end_stops_it_for_good_with_the_error() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        applier, host = ready(stage), stage.host
        applier.start()
        await host.reach(applier, S.CONNECTED)
        error = er(Er.CFG, "replication", "duplicate connection to the same replica")
        applier.end(error)
        assert (applier.state, applier.error) == (S.STOPPED, error)
        await stage.world.tasks.sleep(60)
        assert applier.state is S.STOPPED
        assert len(stage.master.visits) == 2

    stage.run(main)


def test_an_address_that_leads_to_ourselves_is_left_alone() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.uuid = SELF
        applier = ready(stage)
        applier.start()
        await stage.host.reach(applier, S.OFF)
        assert (applier.uuid, applier.error) == (SELF, None)
        await stage.world.tasks.sleep(60)
        assert len(stage.master.visits) == 1

    stage.run(main)


def test_a_peer_that_goes_away_while_nobody_asks_it_anything_is_noticed() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        applier = stage.host.applier(ADDRESS)
        applier.start()
        await stage.host.reach(applier, S.CONNECTED)
        stage.master.visits[0].channel.close()
        await stage.host.reach(applier, S.DISCONNECTED)
        await stage.host.reach(applier, S.CONNECTED)

    stage.run(main)


def test_the_ballot_is_watched_until_this_node_subscribes() -> None:
    stage = Stage()
    later = Ballot(is_ro=True, vclock={1: 99})

    async def watch(visit: Visit) -> None:
        number = visit.types().count(Type.WATCH)
        if number == 1:
            visit.say(event(Ballot(is_booted=False, is_ro=False)))
        elif number == 2:
            visit.say(event(stage.master.ballot))
        elif number == 3:
            await visit.master.world.tasks.sleep(5)
            visit.say(event(later))

    async def main(stage: Stage) -> None:
        stage.master.answers[Type.WATCH] = watch
        stage.master.script = follower([heartbeat(1)])
        applier, host = ready(stage), stage.host
        applier.start()
        await host.reach(applier, S.CONNECTED)
        assert applier.ballot == stage.master.ballot, "one that is neither booted nor read-only was passed over"
        await host.wait(lambda: applier.ballot == later)
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.FOLLOW)
        await stage.master.wait(lambda: stage.master.visits[1].channel.is_closed)

    stage.run(main)


def test_errors_in_the_code_are_told_and_stop_it() -> None:
    """Nothing is swallowed: the state says so, and the fiber's error is in the log."""
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([replace(SPACE, 11, [1])])
        applier, host = ready(stage), stage.host
        host.followed = None  # type: ignore[assignment]
        host.statements.apply = None  # type: ignore[assignment,method-assign]
        host.memtx.space(SPACE).fast = False  # type: ignore[union-attr]
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert "TypeError" in applier.error.message

    stage.run(main, errors=True)
    assert any("TypeError" in error for error in stage.simulation.errors)


def test_the_password_is_in_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    stage = Stage()

    async def refuse(visit: Visit) -> None:
        visit.say(refusal(er(Er.CREDS_MISMATCH)))

    async def main(stage: Stage) -> None:
        stage.master.answers[Type.AUTH] = refuse
        applier = stage.host.applier(f"user:secret@{ADDRESS}")
        applier.start()
        applier.release(Mission.FOLLOW)
        await stage.host.reach(applier, S.LOADING)
        stage.master.answers[Type.AUTH] = stage.master.accept
        await stage.host.reach(applier, S.READY)
        applier.end(er(Er.CFG, "replication", "x"))

    stage.run(main)
    assert "failed to authenticate" in caplog.text
    assert "authenticated" in caplog.text
    assert "will retry every 1.00 second" in caplog.text
    assert "secret" not in caplog.text


def test_an_error_is_logged_once_until_something_else_happens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    stage = Stage()

    async def main(stage: Stage) -> None:
        applier = stage.host.applier("nobody:1")
        applier.start()
        for _ in range(3):
            await stage.host.reach(applier, S.DISCONNECTED)
            await stage.host.reach(applier, S.CONNECT)

    stage.run(main)
    assert caplog.text.count("can't connect to master") == 1
