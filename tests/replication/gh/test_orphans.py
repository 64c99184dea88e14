"""Orphans, quorums and lost rows: scenarios of Tarantool's bugs, under their numbers."""

from __future__ import annotations

from tests.replication.feeding import Master, feed
from tests.replication.gh.simset import SPACE, SimNode, SimSet, play

from headwater.errors import Er
from headwater.replication.states import ApplierState
from headwater.wire.constants import Key, Type


def test_gh_10760_a_peer_that_has_nothing_yet_is_no_one_to_catch_up_with() -> None:
    """A master that was told of a newcomer counted it among those to be in sync with, became read-only, and so could
    not let the newcomer join: both waited for each other."""

    async def test(sims: SimSet) -> None:
        master = sims.add("master", "master", replication_connect_timeout=1000)
        replica = sims.add("replica", "master", "replica", replication_connect_timeout=1000)
        await sims.start(master)
        sims.simulation.fabric.cut("replica", "master")
        replica.spawn()
        told = sims.simulation.spawn(master.configure(replication=["master:3301", "replica:3301"]), "box.cfg")
        await sims.pass_time(5)
        sims.simulation.fabric.mend("replica", "master")
        await sims.until(lambda: replica.is_up, "it has joined")
        await told
        await sims.follows(replica, master)
        await sims.follows(master, replica)
        assert master.box.status == replica.box.status == "running"
        assert not master.box.is_read_only

    play(test)


def test_gh_11156_a_newcomer_with_a_named_leader_waits_for_all_who_have_data() -> None:
    """With the strategies config and supervised a newcomer took itself for in sync with the leader alone, whoever else
    it was told to follow."""

    async def test(sims: SimSet) -> None:
        master, one, two, three = await half_joined(sims, ("master", "one", "two", "three"))
        assert one.box.membership.upstreams.sync_quorum >= 3
        assert one.box.status == "orphan"
        assert one.box.is_read_only
        two.free_disk()
        three.free_disk()
        await sims.until(lambda: one.box.status == "running", "an orphan no more")
        await sims.follows(one, master, two, three)
        assert await one.keys() == [2, 3]

    play(test)


def test_gh_11157_a_newcomer_is_not_in_sync_with_itself_in_place_of_another() -> None:
    """A newcomer that was listed among its own peers counted itself as one that it is in sync with, but not as one of
    the quorum, so that one real peer could be missing."""

    async def test(sims: SimSet) -> None:
        _, one, two = await half_joined(sims, ("master", "one", "two"))
        assert one.box.status == "orphan", "it follows the master only, and one peer is missing"
        two.free_disk()
        await sims.until(lambda: one.box.status == "running", "an orphan no more")
        assert await one.keys() == [2]

    play(test)


async def half_joined(sims: SimSet, names: tuple[str, ...]) -> list[SimNode]:
    """The second one has just joined and follows the first; the others have a row each that they cannot send, for want
    of a disk that reads."""
    options = {"bootstrap_strategy": "config", "bootstrap_leader": "master:3301"}
    options |= {"replication_timeout": 100, "replication_reconnect_timeout": 1}
    nodes = [sims.add(name, *names, **options) for name in names]
    master, one, *others = nodes
    await sims.start(master, *others)
    await master.configure(replication=[])
    for number, peer in enumerate(others, 2):
        await peer.write([number])
    for peer in others:
        peer.options["replication"] = ["master:3301"]
        await peer.restart()
        peer.block_disk()
    # The leader is the last one that it can connect to.
    sims.simulation.fabric.part(["master"], ["one"])
    one.options["replication_sync_timeout"] = 0.1
    one.spawn()
    for peer in others:
        await sims.until(lambda peer=peer: states(one, peer) == [ApplierState.CONNECTED], "it has connected")
    sims.simulation.fabric.heal()
    await sims.until(lambda: one.is_up, "it has joined")
    await sims.follows(one, master)
    return nodes


def test_gh_12025_the_first_heartbeat_tells_the_time_though_a_raft_message_went_before() -> None:
    """A RAFT message before the first heartbeat took its timestamp away, and a replica without any lag stayed in sync
    for a whole replication_timeout."""

    async def test(master: Master) -> None:
        await master.member()
        peer = await master.subscriber(vclock=master.box.journal.vclock.as_dict(ignore0=True))
        packets = await peer.until(lambda row: row.type == Type.OK)
        assert [row.type for row in packets] == [Type.RAFT, Type.OK]
        assert packets[-1].timestamp > 0

    feed(test, replication_timeout=10_000)


def test_gh_12025_two_that_follow_each_other_with_a_huge_timeout() -> None:
    """Nodes with a long replication_timeout stayed in sync, read-only, until the second heartbeat."""

    async def test(sims: SimSet) -> None:
        options = {"replication_timeout": 10_000, "replication_reconnect_timeout": 0.1}
        one, two = sims.add("one", **options), sims.add("two", "one", **options)
        await sims.start(one)
        await two.start()
        peers = ["one:3301", "two:3301"]
        await one.configure(replication=peers)
        await two.configure(replication=peers)
        await sims.follows(one, two, patience=60)
        await sims.follows(two, one, patience=60)
        assert one.box.status == two.box.status == "running"

    play(test)


def test_gh_10592_a_master_that_lost_its_log_waits_for_its_own_rows() -> None:
    """A master whose logs were lost asked its replicas to leave out its own rows, never got them back, and gave their
    numbers to other rows."""

    async def test(sims: SimSet) -> None:
        master, replica = sims.mesh(2, replication_sync_timeout=0.1)
        await sims.start()
        await lose_log(sims, master, replica)
        master.spawn()
        await sims.until(lambda: master.is_up, "it serves reads")
        info = await master.info()
        assert (info["ro"], info["status"]) == (True, "waiting_for_own_rows")
        refusal = await master.ask(Type.INSERT, {Key.SPACE_ID: SPACE, Key.TUPLE: [2]})
        assert refusal.code == Er.READONLY, "no number is given twice"
        replica.free_disk()
        await sims.until(lambda: not master.box.is_read_only, "its rows are back")
        assert await master.keys() == [1]
        await master.write([2])
        await sims.follows(replica, master)
        await sims.caught_up()

    play(test)


async def lose_log(sims: SimSet, master: SimNode, *replicas: SimNode) -> None:
    """The master wrote [1], is down now and has it no more; replicas have it, and disks that do not read yet."""
    await master.call("box.snapshot")
    await master.write([1])
    await sims.caught_up()
    await master.stop()
    assert master.wipe(".xlog")
    for replica in replicas:
        await replica.restart()
        replica.block_disk()


def test_gh_10592_a_peer_that_is_met_later_may_have_more_of_our_rows() -> None:
    """A node that waited for its own rows asked for those that the peers it had met first knew of, and did not look at
    one that came later with more of them."""

    async def test(sims: SimSet) -> None:
        master, one, two = sims.mesh(3, replication_connect_timeout=2, replication_sync_timeout=0.1)
        await sims.start()
        await master.call("box.snapshot")
        await master.write([1])
        await sims.caught_up()
        await one.configure(replication=[])
        await master.write([2])
        await sims.caught_up(master, two)
        one.options["replication"] = []
        await master.stop()
        master.wipe(".xlog")
        for peer in (one, two):
            await peer.restart()
            peer.block_disk()
        sims.simulation.fabric.part(["a"], ["c"])
        master.spawn()
        await sims.until(lambda: master.is_up and master.box.read_only.lost_rows, "it knows that a row is missing")
        sims.simulation.fabric.heal()
        await sims.until(lambda: states(master, two) == [ApplierState.SYNC], "it meets both")
        one.free_disk()
        await sims.until(lambda: master.vclock == one.vclock, "it has what the first one has")
        assert master.box.is_read_only, "there is one more row of ours"
        two.free_disk()
        await sims.until(lambda: not master.box.is_read_only, "its rows are back")
        assert await master.keys() == [1, 2]
        await one.configure(replication=[node.address for node in (master, one, two)])
        await master.write([3])
        await sims.caught_up()

    play(test)


def states(node: SimNode, master: SimNode) -> list[ApplierState]:
    """Of the applier of a master."""
    return [each.state for each in node.box.membership.upstreams.appliers if each.uuid == master.box.uuid]
