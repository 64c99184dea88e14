"""FETCH_SNAPSHOT of a snapshot on the disk: from the beginning, from some row on, after a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from tests.replication.feeding import DATA, LOCAL, REPLICA, Master, Peer, feed, ids, reach

from headwater.errors import Er
from headwater.vclock import VClock
from headwater.wire.constants import VERSION_ID, Feature, Key, Type
from headwater.wire.msgpack import unpack
from headwater.wire.replication import (
    FetchSnapshot,
    decode_error,
    decode_vclock,
    encode_fetch_snapshot,
    encode_id,
)
from headwater.wire.synchro import decode_raft
from headwater.wire.xrow import Row
from headwater.xlog import SNAP, file_name

META = [Type.OK, Type.JOIN_META, Type.RAFT, Type.RAFT_PROMOTE, Type.JOIN_SNAPSHOT]
NIL = UUID(int=0)
MANY = [[key, "x" * 400] for key in range(2000)]
"""Several blocks."""


def request(vclock: Mapping[int, int] | None = None, lsn: int = 0, *, sync: int = 0, **more: Any) -> Row:
    values: dict[str, Any] = {"version_id": VERSION_ID, "instance_uuid": REPLICA, **more}
    row = encode_fetch_snapshot(
        FetchSnapshot(is_checkpoint_join=True, checkpoint_vclock=vclock, checkpoint_lsn=lsn, **values)
    )
    row.sync = sync
    return row


def whole_vclock(answer: Row) -> dict[int, int]:
    """With component 0."""
    return dict(unpack(answer.body)[Key.VCLOCK])


async def fetch(peer: Peer, *args: Any, **more: Any) -> list[Row]:
    """All packets, up to an error or the second OK."""
    peer.send(request(*args, **more))
    packets = [await peer.packet()]
    if not packets[0].is_error:
        packets += await peer.until(lambda row: row.type == Type.OK or row.is_error)
    return packets


def inserts(packets: list[Row]) -> list[Row]:
    return [row for row in packets if row.type == Type.INSERT]


async def snapshot(master: Master) -> VClock:
    """A new one, with a row of its own."""
    await master.write([1_000_000 + len(master.box.gc.checkpoints) + master.box.journal.vclock.get(1)])
    await master.box.checkpoint()
    return master.box.journal.vclock.copy()


def references(master: Master, vclock: VClock) -> tuple[str, ...]:
    """As `box.info.gc()` has them, of one snapshot."""
    found = [one.references for one in master.box.facts().checkpoints if one.vclock == vclock.as_dict()]
    return tuple(found[0]) if found else ()


def is_on_disk(master: Master, vclock: VClock) -> bool:
    return master.world.disk.exists(f"/data/{file_name(vclock.signature, SNAP)}")


async def break_off(master: Master) -> tuple[VClock, int]:
    """A replica fetches, and loses its connection in the middle; where it stood."""
    peer = await master.connect()
    peer.send(request())
    vclock = VClock(whole_vclock(await peer.packet()))
    row = (await peer.until(lambda row: row.type == Type.INSERT and row.lsn > 1000))[-1]
    peer.channel.abort("the cable was pulled")
    replica = master.box.replicaset.find(REPLICA)
    assert replica is not None
    await reach(lambda: replica.guest is None)
    return vclock, row.lsn + 1


def test_it_is_told_that_this_is_served() -> None:
    async def test(master: Master) -> None:
        answer = await (await master.connect()).ask(encode_id())
        assert Feature.FETCH_SNAPSHOT_CURSOR in unpack(answer.body)[Key.FEATURES]

    feed(test)


def test_the_newest_snapshot_with_the_numbers_of_its_rows() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.write([1], [2], space_id=LOCAL)
        await master.box.checkpoint()
        vclock = master.box.journal.vclock.copy()
        await master.write([5000])
        packets = await fetch(await master.connect())
        assert whole_vclock(packets[0]) == vclock.as_dict(), "with component 0: it names the file"
        assert [row.type for row in packets if row.type != Type.INSERT] == [*META, Type.OK]
        assert ids(packets) == [key for key, _ in MANY], "what came later is not in it"
        assert ids(packets, LOCAL) == []
        lsns = [row.lsn for row in inserts(packets)]
        assert lsns == sorted(set(lsns))
        assert decode_vclock(packets[-1]) == master.box.journal.vclock.as_dict(ignore0=True)

    feed(test)


def test_the_same_rows_as_a_picture_of_the_memory() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        peer = await master.connect()
        disk = inserts(await fetch(peer))
        memory = inserts(await peer.join())
        written = len(disk)  # the JOIN's last stage adds the new member
        assert [row.body for row in disk] == [row.body for row in memory][:written]

    feed(test)


@pytest.mark.parametrize("sync", [0, 7])
def test_from_any_row_on(sync: int) -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        vclock = (await snapshot(master)).as_dict()
        peer = await master.connect()
        whole = inserts(await fetch(peer))
        count = len(whole)
        for start in (0, 1, 2, 500, 777, count - 2, count - 1, count + 100, 1 << 40):
            rest = await fetch(peer, vclock, start, sync=sync)
            assert [(row.lsn, row.body) for row in inserts(rest)] == [
                (row.lsn, row.body) for row in whole if row.lsn >= start
            ]
            assert [row.type for row in rest if row.type != Type.INSERT] == [*META, Type.OK]
            assert {row.sync for row in rest} == {sync}

    feed(test)


def test_term_and_queue_are_those_of_the_file() -> None:
    async def test(master: Master) -> None:
        await master.box.checkpoint()
        packets = await fetch(await master.connect())
        assert decode_raft(packets[2]).term == 1
        assert decode_raft(packets[2]).state == 0

    feed(test)


def test_a_file_without_term_and_queue() -> None:
    async def test(master: Master) -> None:
        await snapshot(master)
        packets = await fetch(await master.connect())
        assert [row.type for row in packets if row.type != Type.INSERT] == [Type.OK, Type.OK]

    feed(test, schema_version="2.3.1")


@pytest.mark.parametrize("vclock", [{1: 12345}, {}])
def test_a_snapshot_that_is_not_there_is_missed(vclock: dict[int, int]) -> None:
    async def test(master: Master) -> None:
        await snapshot(master)
        await snapshot(master)
        (refusal,) = await fetch(await master.connect(), vclock)
        assert decode_error(refusal).code == Er.MISSING_SNAPSHOT

    feed(test, checkpoint_count=1)


def test_a_file_that_is_damaged_in_the_middle_is_told_as_such() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        vclock = await snapshot(master)
        path = f"/data/{file_name(vclock.signature, SNAP)}"
        damage(master, path)
        packets = await fetch(await master.connect())
        error = decode_error(packets[-1])
        assert packets[-1].is_error
        assert (error.type_name, path in error.message) == ("XlogError", True)
        assert not (await (await master.connect()).join())[-1].is_error, "memory is whole"

    feed(test)


def damage(master: Master, path: str) -> None:
    data = master.machine.platter.names[path].data
    data[len(data) // 2] ^= 0xFF


# ---- a connection that is lost ---------------------------------------------------------------------------------


def test_the_snapshot_stays_until_the_replica_has_the_rest() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        whole = inserts(await fetch(await master.connect()))
        vclock, lsn = await break_off(master)
        for _ in range(3):
            await snapshot(master)
        assert is_on_disk(master, vclock)
        assert references(master, vclock) == (f"checkpoint join of replica {REPLICA}",)
        peer = await master.connect()
        rest = await fetch(peer, vclock.as_dict(), lsn)
        assert [row.body for row in inserts(rest)] == [row.body for row in whole if row.lsn >= lsn]
        answer = await peer.subscribe(vclock=vclock.as_dict(ignore0=True), is_anon=True)
        assert answer.type == Type.OK
        assert ids(await peer.rows(3)) != [], "the log leads on from it"
        await reach(lambda: not is_on_disk(master, vclock))
        assert references(master, vclock) == ()

    feed(test, checkpoint_count=1)


def test_the_server_is_killed_in_between() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        whole = inserts(await fetch(await master.connect()))
        vclock, lsn = await break_off(master)
        await snapshot(master)
        await master.restart()
        assert f"replica {REPLICA}" in [one.name for one in master.box.gc.consumers]
        peer = await master.connect()
        rest = await fetch(peer, vclock.as_dict(), lsn)
        assert [row.body for row in inserts(rest)] == [row.body for row in whole if row.lsn >= lsn]
        assert (await peer.subscribe(vclock=vclock.as_dict(ignore0=True), is_anon=True)).type == Type.OK
        assert ids(await peer.rows(1)) != []

    feed(test)


def test_what_it_fetches_anew_takes_the_place_of_what_it_left() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        vclock, _ = await break_off(master)
        newer = await snapshot(master)
        await fetch(await master.connect())
        assert references(master, newer) == (f"checkpoint join of replica {REPLICA}",)
        await reach(lambda: not is_on_disk(master, vclock))

    feed(test, checkpoint_count=1)


def test_a_refusal_keeps_what_is_kept() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        vclock, lsn = await break_off(master)
        (refusal,) = await fetch(await master.connect(), {1: 1})
        assert refusal.is_error
        await snapshot(master)
        assert lsn in [row.lsn for row in inserts(await fetch(await master.connect(), vclock.as_dict(), lsn))]

    feed(test, checkpoint_count=1)


def test_a_replica_that_does_not_come_back_is_forgotten_and_its_snapshot_with_it() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        vclock, _ = await break_off(master)
        await snapshot(master)
        await asyncio.sleep(30)
        assert is_on_disk(master, vclock)
        await reach(lambda: not is_on_disk(master, vclock), 60)
        assert master.box.replicaset.find(REPLICA) is None

    feed(test, checkpoint_count=1, replication_anon_ttl=60)


def test_a_replica_that_is_given_up_keeps_no_snapshot() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        await master.box.checkpoint()
        vclock, _ = await break_off(master)
        await snapshot(master)
        await master.box.forget_replica(REPLICA)
        await reach(lambda: not is_on_disk(master, vclock))

    feed(test, checkpoint_count=1)


def test_one_without_a_uuid_keeps_it_while_it_is_connected_only() -> None:
    async def test(master: Master) -> None:
        await master.write(*MANY)
        vclock = await snapshot(master)
        peer = await master.connect()
        await fetch(peer, version_id=0, instance_uuid=NIL)
        assert references(master, vclock) == ()
        assert ids(inserts(await fetch(peer)), DATA)

    feed(test, checkpoint_count=1)
