"""Bootstrap, JOIN and registration: scenarios of Tarantool's bugs, under their numbers."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.replication.feeding import OTHER, Master, feed, reach
from tests.replication.gh.simset import SPACE, SimNode, SimSet, play, writes

from headwater.box.credentials import context_of_node
from headwater.errors import BoxError, Er
from headwater.replication.peers import version_id
from headwater.replication.states import ApplierState
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import Subscribe, decode_error, decode_vclock, encode_subscribe
from headwater.wire.xrow import Row

FIRST = "00000000-0000-4000-8000-000000000000"
"""A lower UUID than that of any other node."""


def test_gh_5613_a_newcomer_prefers_who_has_data_though_all_of_them_are_read_only() -> None:
    """A newcomer that saw only read-only members chose itself, and made a second replica set."""

    async def test(sims: SimSet) -> None:
        master, replica = sims.add("master", "master", "replica"), sims.add("replica", "master", "replica")
        await sims.start()
        for node in (master, replica):
            await node.configure(read_only=True)
        fresh = sims.add("fresh", "master", "replica", "fresh", instance_uuid=FIRST)
        fresh.spawn()
        await sims.pass_time(20)
        assert not fresh.is_up
        assert fresh.box.replicaset_uuid.int == 0, "it makes no set of its own"
        assert fresh.files(".snap") == []
        await master.configure(read_only=False)
        await sims.until(lambda: fresh.is_up, "it has joined")
        assert fresh.box.replicaset_uuid == master.box.replicaset_uuid

    play(test)


def test_gh_6966_a_master_that_is_read_only_for_a_while_is_waited_for() -> None:
    """A newcomer ended at the first ER_READONLY, though the master became writable a moment later."""

    async def test(sims: SimSet) -> None:
        master = sims.add("master", "master")
        await sims.start(master)
        await master.configure(read_only=True)
        fresh = sims.add("fresh", "master", "fresh")
        fresh.spawn()
        await sims.pass_time(10)
        assert fresh.error is None
        assert fresh.machine.is_running
        assert master.members == [1], "no join while it is read-only"
        await master.configure(read_only=False)
        await sims.until(lambda: fresh.is_up, "it has joined")
        assert master.members == [1, 2]
        await sims.follows(fresh, master)

    play(test)


def test_gh_6126_a_newcomer_chooses_its_leader_anew_at_each_try() -> None:
    """Whom to join was chosen once: when that one could not register anybody, the newcomer ended, though another one
    could a moment later."""

    async def test(sims: SimSet) -> None:
        first = sims.add("first", "first")
        anon = sims.add("anon", "anon", "first", replication_anon=True, read_only=True)
        anon.options["instance_uuid"] = FIRST
        fresh = sims.add("fresh", "anon", "first", "fresh")
        await sims.start(first)
        await first.configure(read_only=True)
        await anon.start()
        fresh.spawn()
        await sims.pass_time(10)
        assert fresh.error is None
        assert fresh.machine.is_running
        assert first.members == [1]
        await first.configure(read_only=False)
        await first.write([1])
        await first.call("box.snapshot")
        await first.write([2])
        await sims.until(lambda: fresh.is_up, "it has joined")
        await sims.follows(fresh, first)
        await sims.caught_up()
        assert first.members == [1, 2]
        assert await fresh.keys() == await anon.keys() == [1, 2]

    play(test)


def test_gh_6127_a_newcomer_joins_who_may_write_and_not_who_has_the_least_uuid() -> None:
    """The one to join was chosen by configuration and UUID alone; a follower was chosen, which could not register
    anybody."""

    async def test(sims: SimSet) -> None:
        one, two = sims.mesh(2)
        await sims.start()
        await one.configure(read_only=True)
        fresh = sims.add("fresh", "a", "b", "fresh")
        await fresh.start()
        assert fresh.box.membership.leader_uuid == two.box.uuid
        await sims.caught_up()

    play(test)


def test_gh_3111_a_member_that_lost_everything_joins_a_read_only_master() -> None:
    """A replica with a known UUID could not be made anew from a read-only master, though nobody is to be registered."""

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair()
        await master.write([1])
        await replica.stop()
        replica.options["bootstrap_strategy"] = "legacy"
        assert replica.wipe()
        await master.configure(read_only=True)
        await replica.start()
        assert (replica.id, await replica.keys()) == (2, [1])
        await sims.follows(replica, master)

    play(test)


def test_gh_10737_a_join_that_breaks_off_among_the_rows_ends_the_newcomer() -> None:
    """A master that was restarted in the middle of a JOIN left its replica with a part of the data, which that took for
    all there is."""

    async def test(sims: SimSet) -> None:
        master = sims.add("master")
        await sims.start(master)
        await master.write(*([key, "x" * 1000] for key in range(2000)))
        replica = sims.add("replica", "master", bootstrap_strategy="legacy")
        sims.simulation.fabric.way("master", "replica").bandwidth = 200_000.0
        starting = replica.spawn()
        await sims.until(lambda: is_fetching(replica), "rows of the snapshot come")
        sims.simulation.fabric.reset("master", "replica")
        await master.restart()
        await starting
        assert not replica.is_up
        assert replica.error is not None
        assert replica.files(".snap") == [], "nothing is kept"
        sims.simulation.fabric.heal()
        await replica.start()
        assert len(await replica.keys()) == 2000

    play(test)


def test_gh_10737_a_rebootstrap_that_breaks_off_leaves_the_old_files_as_they_were() -> None:
    """A replica that was too old and joined anew took a part of a snapshot for the whole, when the master went away in
    the middle."""
    # It found this, too: the ballot told of removed rows only when others had been written since.

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair()
        await master.configure(checkpoint_count=1)
        await master.write(*([key, "x" * 1000] for key in range(2000)))
        await sims.caught_up()
        before = replica.vclock
        await replica.stop()
        files = replica.files("")
        forget(master, replica)
        await master.write([5000])
        await sims.pass_time(2)
        await master.call("box.snapshot")
        await sims.pass_time(2)
        assert not master.box.gc.vclock.as_dict(ignore0=True).items() <= before.items()
        sims.simulation.fabric.way("master", "replica").bandwidth = 200_000.0
        starting = replica.spawn()
        await sims.until(lambda: is_fetching(replica), "rows of the snapshot come")
        sims.simulation.fabric.reset("master", "replica")
        await master.restart()
        await starting
        assert not replica.is_up
        assert [name for name in files if name not in replica.files("")] == []
        sims.simulation.fabric.heal()
        await replica.start()
        assert replica.vclock[1] > before[1]
        await sims.follows(replica, master)
        assert len(await replica.keys()) == 2001

    play(test)


def is_fetching(replica: SimNode) -> bool:
    """It has some rows of a snapshot, and not all."""
    states = [applier.state for applier in replica.box.membership.upstreams.appliers]
    return states == [ApplierState.FETCH_SNAPSHOT] and replica.box.schema.find_space(SPACE) is not None


def forget(master: SimNode, replica: SimNode) -> None:
    """Nothing is kept for it any more."""
    master.box.consumers.forget(replica.box.uuid)


def test_gh_11028_eight_join_while_spaces_are_made_and_dropped() -> None:
    """Rows that were written while a JOIN was prepared were in neither its snapshot nor its last stage; the replica
    stopped at the first row that needed them."""

    async def test(sims: SimSet) -> None:
        master = sims.add("master", bootstrap_strategy="legacy")
        await sims.start(master)
        is_over = asyncio.Event()
        workers = [sims.simulation.spawn(make_and_drop(master, 700 + number, is_over), "DDL") for number in range(8)]
        replicas = [
            sims.add(f"replica{number}", "master", read_only=True, bootstrap_strategy="legacy") for number in range(8)
        ]
        for replica in replicas:
            replica.spawn()
        await sims.until(lambda: all(replica.is_up for replica in replicas), "all have joined")
        is_over.set()
        for worker in workers:
            await worker
        for replica in replicas:
            await sims.follows(replica, master)
        await sims.caught_up()

    play(test)


async def make_and_drop(node: SimNode, space: int, is_over: asyncio.Event) -> None:
    """A space with two indexes, again and again."""
    context = context_of_node(node.box)
    while not is_over.is_set():
        context.insert(280, [space, 1, f"test{space}", "memtx", 0, {}, []])
        context.insert(288, [space, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
        await node.box.settled()
        context.insert(288, [space, 1, "bucket", "tree", {"unique": False}, [[1, "unsigned"]]])
        await node.box.settled()
        for index in (1, 0):
            context.delete(288, [space, index])
        await node.box.settled()
        context.delete(280, [space])
        await node.box.settled()


@pytest.mark.parametrize("is_anon", [False, True])
def test_gh_11180_a_join_waits_for_rows_that_may_still_be_taken_back(is_anon: bool) -> None:
    """Rows that waited for the journal went into the read view of a JOIN, and stayed in the replica when their write
    failed."""

    async def test(sims: SimSet) -> None:
        options = {"replication_anon": True, "read_only": True} if is_anon else {}
        master, replica = sims.add("master"), sims.add("replica", "master", **options)
        await sims.start(master)
        await master.write([1])
        master.block_disk()
        master.prepare([2])
        failed = [sims.simulation.spawn(fails(master), "write")]
        replica.spawn()
        await sims.until(lambda: master.box.ship.relays or list(replica.box.membership.upstreams.appliers), "it comes")
        await sims.pass_time(1)
        master.prepare([3])
        master.disk.fails = writes
        await failed[0]
        master.disk.fails = lambda op: False
        master.free_disk()
        await sims.until(lambda: replica.is_up, "it has joined")
        assert await master.keys() == await replica.keys() == [1]
        await master.write([4])
        await sims.caught_up()

    play(test)


async def fails(node: SimNode) -> None:
    with pytest.raises(BoxError):
        await node.box.settled()


def test_gh_8757_a_peer_that_goes_away_before_it_has_chosen_is_no_crash() -> None:
    """A node that waited to hear whom a peer had chosen crashed when that peer went away. Tarantool ends then, with an
    error; we try again."""

    async def test(sims: SimSet) -> None:
        leader, second, third = sims.mesh(3)
        leader.spawn()
        second.spawn()
        await sims.until(lambda: leader.box.membership.upstreams.candidates(), "it sees somebody")
        await sims.pass_time(1)
        second.kill()
        third.spawn()
        await sims.pass_time(3)
        second.spawn()
        await sims.until(lambda: all(node.is_up for node in sims.nodes), "the set is made")
        assert len({node.box.replicaset_uuid for node in sims.nodes}) == 1

    play(test)


def test_gh_5287_an_anonymous_one_at_the_birth_of_the_set_is_not_registered() -> None:
    """Whoever makes a set registered all peers that it was connected to, anonymous ones too."""

    async def test(sims: SimSet) -> None:
        one = sims.add("one", "one", "anon")
        anon = sims.add("anon", "one", "anon", replication_anon=True, read_only=True)
        one.spawn()
        anon.spawn()
        await sims.until(lambda: one.is_up and anon.is_up, "both are there")
        await sims.follows(anon, one)
        assert one.members == [1]
        assert (await one.info())["replication_anon"]["count"] == 1
        assert [each.name for each in one.box.gc.consumers] != [], "files wait for it"

    play(test)


def test_gh_11938_an_anonymous_one_that_becomes_a_member_hears_of_the_election() -> None:
    """A replica that was registered at run time had no id in its own election, and the first RAFT message to it was a
    failed assertion."""

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair(replication_anon=True, read_only=True)
        (relay,) = master.box.ship.relays
        assert relay.is_anon
        await replica.configure(replication_anon=False)
        await sims.until(lambda: replica.id == 2, "it has an id")
        await sims.follows(replica, master)
        (applier,) = replica.box.membership.upstreams.appliers
        assert applier.raft is not None, "members are told of the election"
        await replica.configure(read_only=False)
        await replica.write([1])
        await master.configure(replication=[replica.address])
        await sims.caught_up()

    play(test)


def test_gh_11531_an_anonymous_subscriber_without_a_uuid_is_refused() -> None:
    """SUBSCRIBE of an anonymous replica that did not say who it is crashed the master."""

    async def test(master: Master) -> None:
        peer = await master.connect()
        body = {Key.REPLICASET_UUID: str(master.box.replicaset_uuid), Key.REPLICA_ANON: True}
        reply = await peer.ask(Row(Type.SUBSCRIBE, body=pack(body)))
        assert reply.is_error
        assert decode_error(reply).code in (Er.NIL_UUID, Er.MISSING_REQUEST_FIELD, Er.INVALID_MSGPACK)
        nil = Subscribe(instance_uuid=UUID(int=0), replicaset_uuid=master.box.replicaset_uuid, is_anon=True)
        peer = await master.connect()
        reply = await peer.ask(encode_subscribe(nil))
        assert decode_error(reply).code == Er.NIL_UUID
        assert not master.box.ship.relays

    feed(test)


@pytest.mark.parametrize("version", [(3, 2, 2), (2, 11, 6), (3, 2, 1), (2, 11, 5)])
def test_gh_10727_no_row_of_a_local_space_goes_out(version: tuple[int, int, int]) -> None:
    """Rows of group 1 were sent at JOIN and SUBSCRIBE. Only RAFT messages are of it, to versions that ask for that."""

    async def test(master: Master) -> None:
        await master.write([1, "data"], space_id=601)
        peer = await master.connect()
        joined = await peer.join(version=version_id(*version))
        vclock = decode_vclock(joined[-1])
        assert vclock == master.box.journal.vclock.as_dict(ignore0=True), "it has no component 0"
        await peer.subscribe(vclock=vclock, version_id=version_id(*version))
        master.prepare(601, [2, "data"])
        await master.write([1])
        await peer.rows(1)
        wants_group = version in ((3, 2, 1), (2, 11, 5))
        for row in peer.packets:
            assert row.group_id == (1 if row.type == Type.RAFT and wants_group else 0)

    feed(test)


def test_gh_7846_a_trigger_that_gives_a_newcomer_another_id() -> None:
    """A before_replace trigger on _cluster that changed the id of a newcomer crashed the master."""

    def trigger(space: object, old: bytes | None, new: bytes | None, ctx: object) -> bytes | None:
        if new is None:
            return None
        row: list[Any] = unpack(new)
        return pack([row[0] + 10, *row[1:]])

    async def test(master: Master) -> None:
        cluster = master.box.schema.space(320)
        cluster.before_replace.append(trigger)
        assert await master.member(OTHER) == 12
        cluster.before_replace.remove(trigger)
        assert [row[0] for row in context_of_node(master.box).select(320)] == [1, 12]
        peer = await master.subscriber(OTHER, vclock=master.box.journal.vclock.as_dict(ignore0=True))
        await master.write([1])
        await peer.rows(1)

    feed(test)


def test_gh_10520_a_member_is_deleted_where_the_schema_has_no_consumers_yet() -> None:
    """Deleting a row of _cluster on a schema of 2.11 crashed: there is no _gc_consumers."""

    async def test(master: Master) -> None:
        assert await master.member(OTHER) == 2
        assert master.box.schema.find_space(388) is None
        context_of_node(master.box).delete(320, [2])
        await master.box.settled()
        await reach(lambda: not [each for each in master.box.gc.consumers if str(OTHER) in each.name])
        assert await master.member(OTHER) == 2

    feed(test, schema_version="2.11.5")


def test_gh_10088_one_that_was_expelled_does_not_come_back_as_it_was() -> None:
    """The deletion of a replica did not reach that replica: it kept its id, and went on feeding and following."""

    async def test(sims: SimSet) -> None:
        master, replica = sims.mesh(2)
        await sims.start()
        context_of_node(master.box).delete(320, [2])
        await master.box.settled()
        await sims.until(lambda: replica.members == [1], "it has learned of it")
        assert (await replica.info())["id"] in (None, 0)
        assert not replica.box.ship.relays
        await replica.stop()
        starting = replica.spawn()
        await starting
        assert not replica.is_up, "neither a member nor anonymous"
        assert replica.error is not None

    play(test)
