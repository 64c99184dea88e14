"""What a subscriber gets, when, and what becomes of one that is slow, silent, or there twice."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from tests.replication.feeding import (
    DATA,
    LOCAL,
    OLD,
    OTHER,
    REPLICA,
    TIMEOUT,
    Master,
    feed,
    ids,
    numbers,
    reach,
)

from headwater.errors import Er
from headwater.replication.channel import OUTPUT_MAX
from headwater.replication.peers import version_id
from headwater.replication.relay import Relay
from headwater.wire.constants import VERSION_ID, Flag, Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import decode_relay_heartbeat, decode_subscribe_reply
from headwater.wire.request import of_row
from headwater.wire.synchro import Synchro, decode_raft, encode_synchro
from headwater.wire.xrow import Row


def relay_of(master: Master, uuid: UUID = REPLICA) -> Relay:
    replica = master.box.replicaset.find(uuid)
    assert replica is not None
    assert replica.relay is not None
    return replica.relay


def is_heartbeat(row: Row) -> bool:
    return row.type == Type.OK and not row.lsn


# ---- the beginning ---------------------------------------------------------------------------------------------


def test_answer_then_raft_then_heartbeat_then_rows() -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.write([1], [2])
        vclock = master.box.journal.vclock
        peer = await master.connect()
        answer = await peer.subscribe(sync=7)
        assert (answer.type, answer.replica_id, answer.sync) == (Type.OK, 1, 7)
        reply = decode_subscribe_reply(answer)
        assert reply.replicaset_uuid == master.box.replicaset_uuid
        assert reply.vclock == vclock.as_dict(ignore0=True)
        raft = await peer.packet()
        assert (raft.type, raft.group_id, raft.sync, decode_raft(raft).term) == (Type.RAFT, 0, 0, 1)
        beat = await peer.packet()
        assert is_heartbeat(beat)
        assert (beat.replica_id, beat.sync, decode_relay_heartbeat(beat).vclock_sync) == (1, 7, 1)
        assert beat.timestamp > 0
        rows = await peer.rows(vclock.get(1))
        assert numbers(rows) == [(1, lsn) for lsn in range(1, vclock.get(1) + 1)]
        assert {row.sync for row in rows} == {7}
        assert ids(rows) == [1, 2]

    feed(test)


def test_a_peer_gets_what_it_lacks() -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.write(*([key] for key in range(10)))
        have = master.box.journal.vclock.get(1) - 3
        peer = await master.subscriber(vclock={1: have})
        assert ids(await peer.rows(3)) == [7, 8, 9]

    feed(test)


def test_new_rows_go_out_as_they_are_written() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        for key in range(5):
            await master.write([key, "x"])
            (row,) = await peer.rows(1)
            assert unpack(row.body) == {Key.SPACE_ID: DATA, Key.TUPLE: [key, "x"]}
        relay = relay_of(master)
        assert relay.sent_rows == 5
        assert relay.state == "follow"

    feed(test)


def test_nothing_goes_out_before_it_is_written() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        await peer.until(is_heartbeat)
        relay = relay_of(master)
        master.prepare(DATA, [1])
        sent = relay.sent_rows
        assert sent == 0
        await master.box.settled()
        assert relay.sent_rows == 1
        assert ids(await peer.rows(1)) == [1]

    feed(test)


def test_rows_of_local_spaces_stay() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        await master.write([1], space_id=LOCAL)
        await master.write([2])
        assert ids(await peer.rows(1)) == [2]

    feed(test)


# ---- heartbeats ------------------------------------------------------------------------------------------------


def test_heartbeats_while_nothing_happens() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        begin = asyncio.get_running_loop().time()
        counts = []
        for _ in range(6):
            beat = (await peer.until(is_heartbeat))[-1]
            counts.append(decode_relay_heartbeat(beat).vclock_sync)
            assert beat.timestamp > 0
            peer.ack({}, vclock_sync=counts[-1])
        assert counts == [1, 2, 3, 4, 5, 6]
        assert 4.5 * TIMEOUT < asyncio.get_running_loop().time() - begin < 5.5 * TIMEOUT
        assert relay_of(master).vclock_sync == 5

    feed(test)


def test_heartbeats_while_rows_flow_have_no_time_and_break_no_transaction() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        await peer.until(is_heartbeat)
        stop = asyncio.Event()

        async def write() -> None:
            key = 0
            while not stop.is_set():
                txn = master.box.statements.begin(interactive=False)
                for _ in range(3):
                    key += 1
                    body = pack({int(Key.SPACE_ID): DATA, int(Key.TUPLE): [key]})
                    request = of_row(Row(Type.REPLACE, body=body))
                    master.box.statements.execute(request, master.box.schema.users.admin, txn)
                master.box.statements.commit(txn)
                await master.box.settled()
                await asyncio.sleep(0.05)

        writing = master.world.tasks.spawn(write(), "writer")
        beats = []
        open_transaction = False
        last: dict[int, int] = {}
        while len(beats) < 3:
            row = await peer.packet()
            if is_heartbeat(row):
                assert not open_transaction
                beats.append(row)
                peer.ack(last)
            else:
                open_transaction = not row.is_commit
                last = {row.replica_id: row.lsn}
        stop.set()
        await writing
        assert [row.timestamp for row in beats] == [0.0, 0.0, 0.0]

    feed(test)


def test_a_peer_before_2_11_gets_heartbeats_without_a_body() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(version_id=version_id(2, 10, 7))
        assert (await peer.until(is_heartbeat))[-1].body == b""

    feed(test)


@pytest.mark.parametrize(("version", "is_told"), [((2, 6, 0), True), ((2, 8, 1), True), ((2, 8, 2), False)])
def test_a_peer_before_2_8_2_is_always_told_the_time(version: tuple[int, int, int], is_told: bool) -> None:
    """It would take no time for the year 1970, and lag by half a century (applier.cc, applier_read_tx_row)."""

    async def test(master: Master) -> None:
        await master.member()
        vclock = master.box.journal.vclock.as_dict()
        peer = await master.subscriber(vclock=vclock, version_id=version_id(*version))
        await peer.until(is_heartbeat)
        await master.write([1])
        rows = await peer.until(is_heartbeat)
        assert len(rows) > 1, "a row came before it"
        assert (rows[-1].timestamp > 0) == is_told

    feed(test)


def test_a_silent_peer_is_dropped() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber()
        begin = asyncio.get_running_loop().time()
        await peer.to_end()
        assert 4 * TIMEOUT <= asyncio.get_running_loop().time() - begin < 6 * TIMEOUT
        relay = relay_of(master)
        assert relay.state == "stopped"
        assert relay.error is not None
        assert relay.error.message == "timed out"

    feed(test)


def test_a_node_that_was_stopped_itself_does_not_blame_its_peers() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber()

        async def answer() -> None:
            while True:
                row = await peer.packet()
                if is_heartbeat(row):
                    peer.ack({})

        answering = master.peers_world.tasks.spawn(answer(), "peer")
        await asyncio.sleep(2 * TIMEOUT)
        master.machine.stop()
        await asyncio.sleep(10 * TIMEOUT)
        master.machine.go_on()
        await asyncio.sleep(3 * TIMEOUT)
        assert relay_of(master).state == "follow"
        answering.cancel()

    feed(test)


# ---- acknowledgements ------------------------------------------------------------------------------------------


def test_what_is_acknowledged_is_known_with_its_lag() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        told: list[tuple[int, dict[int, int], int]] = []
        master.box.ship.on_ack.append(lambda relay: told.append((relay.id, relay.vclock.as_dict(), relay.term)))
        await master.write([1])
        (row,) = await peer.rows(1)
        await asyncio.sleep(0.5)
        peer.ack({1: row.lsn}, row.timestamp, term=4)
        relay = relay_of(master)
        await reach(lambda: relay.vclock.get(1) == row.lsn)
        assert 0.4 < relay.lag < 0.7
        assert told[-1] == (2, {1: row.lsn}, 4)
        assert relay.idle < 1.5 * TIMEOUT

    feed(test)


@pytest.mark.parametrize("bad", [b"\xc1", b"\xce\x00\x00\x00\x03\x81\x00\xc0", b"\xce\x00\x00\x00\x04\x81\x00\x00\x90"])
def test_bad_bytes_end_the_relay_with_a_word_to_the_peer(bad: bytes) -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber()
        peer.channel.write(bad)
        error = (await peer.until(lambda row: row.is_error))[-1]
        assert error.type & 0x7FFF == Er.INVALID_MSGPACK
        await peer.to_end()
        assert relay_of(master).state == "stopped"
        await master.subscriber()

    feed(test)


# ---- filters ---------------------------------------------------------------------------------------------------


def test_rows_of_filtered_replicas_are_left_out() -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.member(OTHER)
        apply_row(master, 3, 1, 100)
        await master.write([1])
        apply_row(master, 3, 2, 101)
        await master.write([2])
        peer = await master.subscriber(id_filter=frozenset({3}))
        every = master.box.journal.vclock.get(1)
        assert ids(await peer.rows(every)) == [1, 2]

    feed(test)


def test_own_rows_go_back_only_if_they_were_there_at_the_subscription() -> None:
    async def test(master: Master) -> None:
        await master.member()
        apply_row(master, 2, 1, 100)
        await master.box.settled()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict() | {2: 0})
        assert numbers(await peer.rows(1)) == [(2, 1)]
        apply_row(master, 2, 2, 101)
        await master.write([1])
        assert ids(await peer.rows(1)) == [1]

    feed(test)


def test_flags_move_when_the_last_row_of_a_transaction_stays_here() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        statements = master.box.statements
        txn = statements.begin(interactive=False)
        for space_id, key in ((DATA, 1), (DATA, 2), (LOCAL, 3)):
            row = Row(Type.REPLACE, body=pack({int(Key.SPACE_ID): space_id, int(Key.TUPLE): [key]}))
            statements.execute(of_row(row), master.box.schema.users.admin, txn)
        statements.commit(txn)
        await master.box.settled()
        first, last = await peer.rows(2)
        assert ids([first, last]) == [1, 2]
        assert (first.is_commit, last.is_commit) == (False, True)
        assert first.tsn == last.tsn == first.lsn

    feed(test)


def apply_row(master: Master, replica_id: int, lsn: int, key: int) -> None:
    """A row of another replica, as an applier brings it."""
    body = pack({int(Key.SPACE_ID): DATA, int(Key.TUPLE): [key]})
    row = Row(Type.REPLACE, replica_id, 0, lsn, 1.0, lsn, Flag.COMMIT, body)
    master.box.statements.apply([row])


# ---- versions --------------------------------------------------------------------------------------------------


def promote(master: Master, term: int) -> None:
    row = encode_synchro(Synchro(Type.RAFT_PROMOTE, 0, 0, term))
    master.box.memtx.add_row(Type.RAFT_PROMOTE, 0, row.body)


def test_a_promote_comes_behind_a_raft_message_of_its_term() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        await peer.until(is_heartbeat)
        promote(master, 5)
        await master.write([1])
        rows = await peer.until(lambda row: row.type == Type.RAFT_PROMOTE)
        assert [row.type for row in rows if not is_heartbeat(row)] == [Type.RAFT, Type.RAFT_PROMOTE]
        assert decode_raft(rows[-2]).term == 5
        assert ids(await peer.rows(1)) == [1]

    feed(test)


def test_an_old_peer_gets_the_number_of_a_promote_alone() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict(), version_id=OLD)
        promote(master, 5)
        await master.write([1])
        nop, row = await peer.rows(2)
        assert (nop.type, nop.body, nop.lsn) == (Type.NOP, b"", row.lsn - 1)
        assert nop.replica_id == 1
        assert ids([row]) == [1]

    feed(test)


def test_below_schema_2_6_2_no_raft_and_no_promote_goes_out() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        assert is_heartbeat(await peer.packet())
        promote(master, 5)
        await master.write([1])
        assert [row.type for row in await peer.rows(2)] == [Type.NOP, Type.REPLACE]

    feed(test, schema_version="2.3.1")


@pytest.mark.parametrize(
    ("version", "group"),
    [
        (version_id(2, 6, 1), 1),
        (version_id(2, 11, 5), 1),
        (version_id(2, 11, 6), 0),
        (version_id(3, 2, 1), 1),
        (VERSION_ID, 0),
    ],
)
def test_the_group_of_raft_messages_goes_by_the_version(version: int, group: int) -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(version_id=version)
        raft = await peer.packet()
        assert (raft.type, raft.group_id) == (Type.RAFT, group)

    feed(test)


def test_an_anonymous_subscriber_gets_no_raft() -> None:
    async def test(master: Master) -> None:
        peer = await master.subscriber(is_anon=True)
        assert is_heartbeat(await peer.packet())
        replica = master.box.replicaset.find(REPLICA)
        assert replica is not None
        assert replica.is_anon
        assert [one.uuid for one in master.box.replicaset.anonymous] == [REPLICA]

    feed(test)


# ---- slow peers ------------------------------------------------------------------------------------------------


def test_a_slow_peer_costs_bounded_memory_and_slows_nobody() -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.member(OTHER)
        vclock = master.box.journal.vclock.as_dict()
        slow = await master.subscriber(vclock=vclock)
        quick = await master.subscriber(OTHER, vclock=vclock)
        await slow.until(is_heartbeat)
        assert slow.channel.link is not None
        slow.channel.link.pause_reading()
        payload = "x" * 200_000
        most = 0
        relay = relay_of(master)
        for key in range(200):
            await master.write([key, payload])
            most = max(most, relay._channel.pending)
            (row,) = await quick.rows(1)
            if key % 20 == 0:
                quick.ack({1: row.lsn})
                slow.ack({})
        assert most < OUTPUT_MAX + 3 * len(payload)
        assert master.box.ship.ring.size <= master.box.ship.ring.limit
        slow.channel.link.resume_reading()
        assert ids(await slow.rows(200)) == list(range(200))

    feed(test, replication_timeout=60.0, memtx_memory=1 << 30)


# ---- twice -----------------------------------------------------------------------------------------------------


def test_a_living_relay_refuses_a_second_connection() -> None:
    async def test(master: Master) -> None:
        await master.member()
        first = await master.subscriber()
        second = await master.connect()
        refusal = await second.subscribe()
        assert refusal.type & 0x7FFF == Er.CFG
        assert "duplicate connection with the same replica UUID" in unpack(refusal.body)[Key.ERROR_24]
        await second.to_end()
        await master.write([1])
        assert 1 in ids(await first.rows(master.box.journal.vclock.get(1)))

    feed(test)


def test_a_dead_relay_is_evicted_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.subscriber()
        await asyncio.sleep(2.5 * TIMEOUT)
        old = relay_of(master)
        assert old.state == "follow"
        second = await master.subscriber()
        assert old.state == "stopped"
        assert relay_of(master) is not old
        await second.rows(1)
        await reach(lambda: master.box.ship.relays == [relay_of(master)])

    with caplog.at_level("WARNING"):
        feed(test)
    assert "has connected anew" in caplog.text


def test_a_relay_whose_socket_is_gone_gives_way_at_once() -> None:
    async def test(master: Master) -> None:
        await master.member()
        first = await master.subscriber()
        first.channel.abort()
        await reach(lambda: relay_of(master).state == "stopped")
        await (await master.subscriber()).rows(1)

    feed(test)


# ---- the end ---------------------------------------------------------------------------------------------------


def test_a_node_that_stops_closes_its_relays() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict())
        await master.write([1])
        await master.stop()
        await peer.to_end()
        assert ids(peer.packets) == [1], "what was written has gone out"

    feed(test)


def test_the_relay_stays_for_who_asks_after_its_end() -> None:
    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber()
        peer.channel.close()
        relay = relay_of(master)
        await reach(lambda: relay.state == "stopped")
        assert relay_of(master) is relay
        assert relay.error is not None
        replica = master.box.replicaset.find(REPLICA)
        assert replica is not None
        assert replica.guest is None

    feed(test)
