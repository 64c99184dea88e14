"""JOIN, FETCH_SNAPSHOT, REGISTER and the refusals, asked by a raw peer."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.replication.feeding import LOCAL, MASTER, OLD, OTHER, REPLICA, Master, Peer, feed, ids, reach

from headwater.errors import BoxError, Er
from headwater.limbo.queue import Entry
from headwater.replication.peers import version_id
from headwater.wire.constants import VERSION_ID, Key, Type
from headwater.wire.msgpack import unpack
from headwater.wire.replication import (
    FetchSnapshot,
    Register,
    decode_error,
    decode_vclock,
    encode_fetch_snapshot,
    encode_register,
)
from headwater.wire.synchro import Synchro, decode_raft, decode_synchro, encode_synchro
from headwater.wire.xrow import Row

NIL = UUID(int=0)
NOBODY: dict[str, Any] = {"users": {"guest": {}}}


def types(rows: list[Row]) -> list[int]:
    """Of what is no INSERT."""
    return [row.type for row in rows if row.type != Type.INSERT]


def failure(row: Row) -> BoxError:
    assert row.is_error
    return decode_error(row)


async def fetch(peer: Peer, **request: Any) -> list[Row]:
    """All packets of a FETCH_SNAPSHOT, up to an error or the second OK."""
    peer.send(encode_fetch_snapshot(FetchSnapshot(**request)))
    packets = [await peer.packet()]
    if not packets[0].is_error:
        packets += await peer.until(lambda row: row.type == Type.OK or row.is_error)
    return packets


async def register(peer: Peer, uuid: UUID = REPLICA, name: str = "", **request: Any) -> list[Row]:
    peer.send(encode_register(Register(uuid, name, **request)))
    return await peer.until(lambda row: row.type == Type.OK or row.is_error)


# ---- JOIN ------------------------------------------------------------------------------------------------------


def test_join_has_meta_snapshot_and_final_rows() -> None:
    async def test(master: Master) -> None:
        await master.write([1, "a"], [2, "b"])
        await master.write([9], space_id=LOCAL)
        start = master.box.journal.vclock
        local = start.get(0) + 1  # where the new replica stands is a row of a local space
        packets = await (await master.connect()).join(sync=5)
        assert {row.sync for row in packets} == {5}
        assert types(packets)[:5] == [Type.OK, Type.JOIN_META, Type.RAFT, Type.RAFT_PROMOTE, Type.JOIN_SNAPSHOT]
        assert unpack(packets[0].body) == {Key.VCLOCK: {0: local, 1: start.get(1)}}, "component 0 is told"
        assert decode_raft(packets[2]).term == 1
        assert decode_raft(packets[2]).state == 0
        assert decode_synchro(packets[3]).term == 1
        first, stop, last = (place for place, row in enumerate(packets) if row.type == Type.OK)
        assert first == 0
        snapshot, final = packets[5:stop], packets[stop + 1 : last]
        assert all(row.type == Type.INSERT and not row.lsn and not row.timestamp for row in snapshot)
        spaces = [unpack(row.body)[Key.SPACE_ID] for row in snapshot]
        assert spaces == sorted(spaces)
        assert 388 not in spaces
        assert LOCAL not in spaces
        assert ids(snapshot) == [1, 2]
        assert [unpack(row.body) for row in final] == [{Key.SPACE_ID: 320, Key.TUPLE: [2, str(REPLICA)]}]
        assert final[0].lsn == start.get(1) + 1
        assert decode_vclock(packets[stop]) == {1: start.get(1) + 1} == decode_vclock(packets[last])

    feed(test)


def test_the_connection_goes_on_after_a_join() -> None:
    async def test(master: Master) -> None:
        peer = await master.connect()
        packets = await peer.join()
        answer = await peer.subscribe(vclock=decode_vclock(packets[-1]))
        assert answer.type == Type.OK
        await master.write([1])
        assert ids(await peer.rows(1)) == [1]

    feed(test)


def test_a_peer_that_tells_no_version_gets_no_meta() -> None:
    async def test(master: Master) -> None:
        packets = await (await master.connect()).join(version=0)
        assert types(packets) == [Type.OK, Type.OK, Type.OK]
        assert 0 not in unpack(packets[0].body)[Key.VCLOCK]

    feed(test)


def test_below_schema_2_6_2_nobody_gets_meta() -> None:
    async def test(master: Master) -> None:
        assert types(await (await master.connect()).join()) == [Type.OK, Type.OK, Type.OK]

    feed(test, schema_version="2.3.1")


def test_what_is_written_during_the_join_comes_in_its_last_stage() -> None:
    async def test(master: Master) -> None:
        await master.write(*([key, "x" * 1000] for key in range(3000)))
        peer = await master.connect()
        joining = master.peers_world.tasks.spawn(peer.join(), "join")
        await reach(lambda: master.box.replicaset.find(REPLICA) is not None)
        for key in range(3000, 3010):
            await master.write([key])
        packets = await joining
        found = ids(packets)
        assert sorted(found) == list(range(len(found)))
        assert len(found) >= 3000
        stop = [decode_vclock(row) for row in packets if row.type == Type.OK][1]
        assert {1: packets[-2].lsn} == stop

    feed(test)


def test_a_join_sends_no_row_that_may_still_be_taken_back() -> None:
    async def test(master: Master) -> None:
        entry = Entry(5, True, master.box.memtx.undo_end)
        master.box.queue.append(entry, 1)
        peer = await master.connect()
        joining = master.peers_world.tasks.spawn(peer.join(version=0), "join")
        await asyncio.sleep(5)
        assert not peer.packets
        master.box.queue.entries.clear()
        await master.write([1])
        assert ids(await joining) == [1]

    feed(test)


def test_confirms_of_the_last_stage_are_numbers_alone_for_a_2_6_0() -> None:
    async def test(master: Master) -> None:
        for version, seen in ((0, Type.NOP), (VERSION_ID, Type.RAFT_CONFIRM)):
            uuid = REPLICA if version else OTHER
            peer = await master.connect()
            await master.write(*([key, "x" * 2000] for key in range(3000)))
            joining = master.peers_world.tasks.spawn(peer.join(uuid, version), "join")
            await reach(lambda peer=peer: len(peer.packets) > 100)  # type: ignore[misc]
            body = encode_synchro(Synchro(Type.RAFT_CONFIRM, 1, 1)).body
            master.box.memtx.add_row(Type.RAFT_CONFIRM, 0, body)
            await master.box.settled()
            final = [row for row in await joining if row.lsn]
            assert [row.type for row in final] == [seen, Type.INSERT]

    feed(test)


def test_a_member_that_joins_anew_keeps_its_id_and_gets_its_own_rows() -> None:
    async def test(master: Master) -> None:
        assert await master.member() == 2
        packets = await (await master.connect()).join()
        assert [row for row in packets if row.lsn] == []
        assert await master.member() == 2
        assert await master.member(OTHER) == 3

    feed(test)


def test_names_are_kept_where_the_schema_has_them() -> None:
    async def test(master: Master) -> None:
        packets = await (await master.connect()).join(name="node-b")
        (row,) = [row for row in packets if row.lsn]
        assert unpack(row.body)[Key.TUPLE] == [2, str(REPLICA), "node-b"]
        peer = await master.subscriber(instance_name="node-b")
        refused = await (await master.connect()).join(OTHER, name="node-b")
        error = failure(refused[-1])
        assert error.code == Er.INSTANCE_NAME_DUPLICATE
        assert str(REPLICA) in error.message
        peer.channel.close()

    feed(test)


def test_a_peer_that_leaves_in_the_middle_of_a_join_leaves_nothing_behind() -> None:
    async def test(master: Master) -> None:
        await master.write(*([key, "x" * 10_000] for key in range(2000)))
        peer = await master.connect()
        joining = master.peers_world.tasks.spawn(peer.join(), "join")
        await reach(lambda: len(peer.packets) > 700)
        joining.cancel()
        peer.channel.abort()
        replica = master.box.replicaset.find(REPLICA)
        assert replica is not None
        await reach(lambda: replica.guest is None)
        assert not replica.id
        assert not master.box.ship.relays
        assert len(master.box.ship.ring) == 0
        await master.member()

    feed(test, memtx_memory=1 << 30)


# ---- FETCH_SNAPSHOT --------------------------------------------------------------------------------------------


def test_fetch_snapshot_registers_nobody() -> None:
    async def test(master: Master) -> None:
        await master.write([1])
        packets = await fetch(await master.connect(), version_id=VERSION_ID, instance_uuid=REPLICA)
        assert types(packets) == [Type.OK, 71, Type.RAFT, Type.RAFT_PROMOTE, 72, Type.OK]
        assert ids(packets) == [1]
        assert decode_vclock(packets[-1]) == master.box.journal.vclock.as_dict(ignore0=True)
        assert [member.id for member in master.box.schema.cluster] == [1]
        assert f"replica {REPLICA}" in [one.name for one in master.box.gc.consumers]

    feed(test)


def test_fetch_snapshot_without_a_body() -> None:
    async def test(master: Master) -> None:
        peer = await master.connect()
        peer.send(Row(Type.FETCH_SNAPSHOT))
        packets = [await peer.packet(), *await peer.until(lambda row: row.type == Type.OK)]
        assert types(packets) == [Type.OK, Type.OK]
        assert not list(master.box.gc.consumers)

    feed(test, schema_version="2.3.1")


# ---- REGISTER --------------------------------------------------------------------------------------------------


def test_register_sends_the_rows_up_to_the_registration() -> None:
    async def test(master: Master) -> None:
        await master.write([1], [2])
        have = master.box.journal.vclock.get(1)
        peer = await master.connect()
        packets = await register(peer, vclock={1: have - 1})
        assert ids(packets) == [2]
        assert unpack(packets[-2].body) == {Key.SPACE_ID: 320, Key.TUPLE: [2, str(REPLICA)]}
        assert decode_vclock(packets[-1]) == {1: have + 1}
        assert (await peer.subscribe(vclock={1: have + 1})).type == Type.OK

    feed(test)


def test_who_came_too_late_for_the_rows_is_not_registered() -> None:
    async def test(master: Master) -> None:
        await master.write([1])
        await master.box.checkpoint()
        await master.write([2])
        await master.box.checkpoint()
        (refusal,) = await register(await master.connect(), vclock={1: 1})
        assert failure(refusal).type_name == "XlogGapError"
        assert [member.uuid for member in master.box.schema.cluster] == [MASTER]

    feed(test, checkpoint_count=1)


def test_register_is_answered_again_when_the_answer_was_lost() -> None:
    async def test(master: Master) -> None:
        have = master.box.journal.vclock.get(1)
        lost = await master.connect()
        await register(lost, vclock={1: have})
        lost.channel.abort("the cable was pulled")
        await master.write([1])
        packets = await register(await master.connect(), vclock={1: have})
        assert [row.type for row in packets] == [Type.INSERT, Type.REPLACE, Type.OK]
        assert decode_vclock(packets[-1]) == {1: have + 2}
        assert [member.uuid for member in master.box.schema.cluster] == [MASTER, REPLICA]

    feed(test)


def test_a_name_is_registered_later() -> None:
    async def test(master: Master) -> None:
        await master.member()
        have = master.box.journal.vclock.get(1)
        packets = await register(await master.connect(), name="late", vclock={1: have})
        assert [row.type for row in packets] == [Type.UPDATE, Type.OK]
        again = await register(await master.connect(), name="late", vclock={1: have + 1})
        assert failure(again[-1]).code == Er.REPLICA_NOT_ANON

    feed(test)


# ---- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("uuid", "code"), [(NIL, Er.NIL_UUID), (MASTER, Er.CONNECTION_TO_SELF)])
def test_who_asks_must_be_somebody_else(uuid: UUID, code: Er) -> None:
    async def test(master: Master) -> None:
        assert failure((await (await master.connect()).join(uuid))[-1]).code == code
        assert failure(await (await master.connect()).subscribe(uuid)).code == code
        assert failure((await register(await master.connect(), uuid))[-1]).code == code

    feed(test)


def test_privileges_are_asked_for() -> None:
    async def test(master: Master) -> None:
        peer = await master.connect()
        refusal = failure((await peer.join())[-1])
        assert refusal.code == Er.ACCESS_DENIED
        assert refusal.message == "Write access to space '_cluster' is denied for user 'guest'"
        refusal = failure((await fetch(peer, instance_uuid=REPLICA))[-1])
        assert refusal.message == "Read access to universe '' is denied for user 'guest'"
        refusal = failure(await peer.subscribe(is_anon=True))
        assert refusal.code == Er.ACCESS_DENIED
        await peer.to_end()

    feed(test, credentials=NOBODY)


def test_a_read_only_node_registers_nobody_and_feeds_everybody() -> None:
    async def test(master: Master) -> None:
        await master.member()
        master.box.read_only.update(by_config=True)
        assert failure((await (await master.connect()).join(OTHER))[-1]).code == Er.READONLY
        assert failure((await register(await master.connect(), OTHER))[-1]).code == Er.READONLY
        assert types(await (await master.connect()).join())[-1] == Type.OK
        await master.subscriber()

    feed(test)


def test_another_replica_set_is_refused() -> None:
    async def test(master: Master) -> None:
        await master.member()
        refusal = failure(await (await master.connect()).subscribe(replicaset_uuid=OTHER))
        assert refusal.code == Er.REPLICASET_UUID_MISMATCH
        ours = master.box.replicaset_uuid
        assert refusal.message == f"Replica set UUID mismatch: expected {ours}, got {OTHER}"

    feed(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [(VERSION_ID, Er.TOO_EARLY_SUBSCRIBE), (version_id(2, 6, 1), Er.TOO_EARLY_SUBSCRIBE), (OLD, Er.LOADING)],
)
def test_who_is_not_known_yet_shall_come_again(version: int, code: Er) -> None:
    async def test(master: Master) -> None:
        assert failure(await (await master.connect()).subscribe(version_id=version)).code == code

    feed(test)


def test_an_anonymous_subscriber_has_no_id() -> None:
    async def test(master: Master) -> None:
        await master.member()
        refusal = failure(await (await master.connect()).subscribe(is_anon=True))
        assert refusal.code == Er.PROTOCOL
        assert refusal.message == "Can't subscribe an anonymous replica having an ID assigned"

    feed(test)


def test_without_a_log_there_is_no_replication() -> None:
    async def test(master: Master) -> None:
        refusal = failure((await (await master.connect()).join())[-1])
        assert refusal.code == Er.UNSUPPORTED
        assert refusal.message == "Replication does not support wal_mode = 'none'"

    feed(test, wal_mode="none")


def test_a_gap_says_what_is_missing_and_what_to_do() -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.write([1])
        await master.box.checkpoint()
        await master.write([2])
        await master.box.checkpoint()
        await master.write([3])
        master.box.gc.unregister(f"replica {REPLICA}")
        await master.box.checkpoint()
        await master.write([4])
        oldest = master.box.journal.entries[0].vclock
        assert oldest.get(1) > 1
        peer = await master.subscriber(vclock={1: 1})
        error = failure((await peer.until(lambda row: row.is_error))[-1])
        assert (error.code, error.type_name) == (Er.XLOG_GAP, "XlogGapError")
        assert error.message.startswith("Missing .xlog file between LSN ")
        assert str(oldest) in error.message
        assert "joins anew" in error.message
        await peer.to_end()

    feed(test, checkpoint_count=1)
