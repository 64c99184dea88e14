"""Connections and `box.cfg{replication = …}`: scenarios of Tarantool's bugs, under their numbers."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest
from tests.replication.fakemaster import ADDRESS, FakeMaster, Stage, Visit, replace
from tests.replication.gh.simset import SPACE, SimNode, SimSet, play
from tests.replication.test_applier import heartbeat, ready

from headwater.errors import Er
from headwater.replication.applier import Applier
from headwater.replication.states import ApplierState, Mission
from headwater.wire import greeting
from headwater.wire.constants import Key, Type
from headwater.wire.replication import decode_subscribe

S = ApplierState


def test_gh_7204_a_master_that_accepts_and_never_greets_is_given_up() -> None:
    """An applier waited for a greeting without an end, so that a dead peer behind a living port hung it for ever."""
    stage = Stage(replication_timeout=0.1)

    async def main(stage: Stage) -> None:
        stage.master.greeting = lambda visit: b""
        applier = stage.host.applier(ADDRESS)
        begin = stage.world.clock.monotonic()
        applier.start()
        await stage.host.reach(applier, S.DISCONNECTED)
        assert applier.error is not None
        assert applier.error.type_name == "TimedOut"
        assert stage.world.clock.monotonic() - begin < 1.0
        stage.master.greeting = FakeMaster(stage.master.world).greeting
        await stage.host.reach(applier, S.CONNECTED)

    stage.run(main)


def test_gh_7294_an_address_that_swallows_packets_is_given_up_and_tried_again() -> None:
    """connect() to an address that nobody answers lasted as long as the system let it, and box.cfg with it."""

    async def test(sims: SimSet) -> None:
        node = sims.add("a")
        sims.add("silent")
        await sims.start(node)
        sims.simulation.fabric.part(["a"], ["silent"])
        await node.configure(replication_connect_timeout=2)
        begin = sims.simulation.loop.now
        await node.configure(replication=["silent:3301"])
        assert sims.simulation.loop.now - begin < 10
        (applier,) = node.box.membership.upstreams.appliers
        for _ in range(2):
            await sims.until(lambda: applier.state is S.CONNECT, "it tries again")
            await sims.until(lambda: applier.state is S.DISCONNECTED, "it gives up")
        assert applier.error is not None
        assert applier.error.type_name in ("TimedOut", "SocketError")
        assert node.box.status == "running"

    play(test)


def test_gh_8185_a_master_that_has_no_uuid_yet_is_not_taken_for_one() -> None:
    """The greeting of a node that was still starting had the nil UUID, and the applier went on with it."""
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.uuid = UUID(int=0)
        stage.master.greeting = lambda visit: greeting.encode(stage.master.version, stage.master.uuid, bytes(32))
        applier = stage.host.applier(ADDRESS)
        applier.start()
        await stage.host.reach(applier, S.DISCONNECTED)
        assert applier.error is not None
        assert applier.error.code == Er.NIL_UUID
        assert stage.master.visits[0].got == [], "nothing was asked of it"
        stage.master.uuid = UUID("00000000-0000-4000-8000-000000000001")
        await stage.host.reach(applier, S.CONNECTED)

    stage.run(main)


def test_gh_3637_a_user_that_is_made_later_and_gets_its_password_later_still() -> None:
    """A newcomer whose user did not exist or had another password ended instead of trying again."""

    async def test(sims: SimSet) -> None:
        master = sims.add("master")
        await sims.start(master)
        replica = sims.add("replica")
        replica.options["replication"] = ["cluster:pass@master:3301"]
        replica.spawn()
        seen = []
        (applier,) = await appliers_of(sims, replica)
        await sims.until(lambda: applier.error is not None and applier.error.code == Er.CREDS_MISMATCH, "no such user")
        seen.append(replica.machine.is_running)
        await master.call("box.schema.user.create", "cluster")
        await sims.pass_time(3)
        seen.append(replica.machine.is_running and not replica.is_up)
        await master.call("box.schema.user.passwd", "cluster", "pass")
        await master.call("box.schema.user.grant", "cluster", "replication")
        await sims.until(lambda: replica.is_up, "it has joined")
        assert seen == [True, True]
        await sims.caught_up()

    play(test)


async def appliers_of(sims: SimSet, node: SimNode) -> list[Applier]:
    await sims.until(lambda: node.box.membership.upstreams.appliers, f"{node} has appliers")
    return node.box.membership.upstreams.appliers


def test_gh_3610_two_addresses_of_one_master_that_is_away_are_found_when_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two addresses that led to one master ended in an assertion, at once or when the master came back."""
    caplog.set_level(logging.ERROR)

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair(replication_connect_timeout=1)
        master.options["listen"] = ["master:3301", "master:3302"]
        await master.stop()
        await replica.configure(replication=["master:3301", "master:3302"])
        await master.start()
        await sims.until(lambda: "duplicate connection to the same replica" in caplog.text, "it is told")
        states = {applier.state for applier in replica.box.membership.upstreams.appliers}
        await sims.follows(replica, master)
        assert S.STOPPED in states, "one of them is left alone for good"
        await master.write([1])
        await sims.caught_up()
        reply = await replica.try_call("box.cfg", {"replication": ["master:3301", "master:3302"]})
        assert reply.code in (0, Er.CFG)
        assert replica.box.membership.upstreams.appliers

    play(test)


def test_gh_3642_no_connection_is_left_behind_when_replication_is_set_again_and_again() -> None:
    """Each reconfiguration left a socket open, until there were no descriptors any more."""

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair()
        links = sims.simulation.fabric._links
        await sims.pass_time(2)
        before = len(links)
        for _ in range(64):
            await replica.configure(replication=[])
            await replica.configure(replication=[master.address])
            await sims.follows(replica, master)
        await sims.until(lambda: len(links) <= before, f"as many connections as before: {before}")
        assert len(master.box.ship.relays) == 1

    play(test)


def test_gh_3606_two_changes_of_replication_at_one_instant() -> None:
    """Two fibers in box.cfg{replication = …} at once crashed the node."""

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair(replication_connect_timeout=1)
        calls = [
            sims.simulation.spawn(replica.try_call("box.cfg", {"replication": peers}), "box.cfg")
            for peers in (["nobody:3301"], [master.address], ["nobody:3301", master.address])
        ]
        for call in calls:
            await call
        await replica.configure(replication=[master.address])
        await sims.follows(replica, master)
        appliers = replica.box.membership.upstreams.appliers
        assert [str(applier.uri) for applier in appliers] == [master.address]
        await sims.until(lambda: len(master.box.ship.relays) == 1, "one subscription")
        await master.write([1])
        await sims.caught_up()

    play(test)


def test_gh_3760_a_quorum_of_none_lets_box_cfg_return_at_once() -> None:
    """replication_connect_quorum = 0 was looked at too late, and box.cfg waited replication_connect_timeout."""

    async def test(sims: SimSet) -> None:
        node = sims.add("a", bootstrap_strategy="legacy")
        sims.add("silent")
        await sims.start(node)
        sims.simulation.fabric.part(["a"], ["silent"])
        await node.configure(replication_connect_quorum=0, replication_connect_timeout=1_000_000)
        begin = sims.simulation.loop.now
        await node.configure(replication=["silent:3301"])
        assert sims.simulation.loop.now - begin < 10
        assert (node.box.status, node.box.is_read_only) == ("running", False)

    play(test)


def test_gh_4669_a_connection_that_works_is_kept_when_others_come_and_go() -> None:
    """Adding an address to box.cfg.replication and removing it again broke the connections to all the others."""

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair()
        third = sims.add("third", "master", bootstrap_strategy="legacy")
        await third.start()
        await sims.caught_up()
        (relay,) = [each for each in master.box.ship.relays if each.uuid == replica.box.uuid]
        await replica.configure(replication=["replica:3301", "master:3301", "third:3301"])
        await sims.follows(replica, third)
        await replica.configure(replication=["master:3301"])
        assert relay in master.box.ship.relays
        assert (relay.state, relay.error) == ("follow", None)
        assert await replica.upstream(third) == {}

    play(test)


def test_gh_12728_another_login_for_the_same_address_is_used_at_once() -> None:
    """box.cfg{replication = …} with another user or parameter for a peer that was followed already changed nothing."""

    async def test(sims: SimSet) -> None:
        master, replica = await sims.pair()
        for user in ("first", "second"):
            await master.call("box.schema.user.create", user, {"password": "pass"})
            await master.call("box.schema.user.grant", user, "replication")
        await replica.configure(replication=["first:pass@master:3301"])
        await sims.follows(replica, master)
        (applier,) = replica.box.membership.upstreams.appliers
        await replica.configure(replication=["first:pass@master:3301"])
        assert replica.box.membership.upstreams.appliers == [applier], "the same login is the same connection"
        await replica.configure(replication=["second:pass@master:3301"])
        (other,) = replica.box.membership.upstreams.appliers
        assert other is not applier
        await sims.follows(replica, master)
        await replica.configure(replication=["second:wrong@master:3301"])
        await sims.reaches(replica, master, "loading", "disconnected", message="credentials")

    play(test)


def test_gh_12795_a_new_connection_says_nothing_that_the_one_before_had_left_unsaid() -> None:
    """The first acknowledgement after a reconnect was one that the old connection had not sent any more: less than
    SUBSCRIBE had just told, which brought the master down."""
    stage = Stage(replication_timeout=20.0, replication_reconnect_timeout=12.0, replication_sync_lag=1000)

    async def script(visit: Visit) -> None:
        if visit.got[-1].type != Type.SUBSCRIBE:
            return
        if visit.number == 1:
            visit.say(visit.master.subscribed({1: 21}), replace(SPACE, 11, [1]))
            stage.node_machine.disk_slowness = 1e9
            visit.master.world.tasks.later(0.5, visit.say, *(replace(SPACE, lsn, [1]) for lsn in range(12, 22)))
            visit.master.world.tasks.later(1.0, visit.channel.abort, "the master is gone")
        else:
            visit.say(visit.master.subscribed({1: 21}), heartbeat(1), heartbeat(2))

    async def main(stage: Stage) -> None:
        stage.master.script = script
        applier, host = ready(stage), stage.host
        applier.start()
        applier.release(Mission.FOLLOW)
        await host.reach(applier, S.DISCONNECTED)
        assert host.vclock == {1: 10}, "nothing was written while there was a connection"
        stage.node_machine.disk_slowness = 1.0
        await host.reach(applier, S.FOLLOW)
        visit = next(visit for visit in stage.master.visits[1:] if Type.SUBSCRIBE in visit.types())
        await stage.master.wait(lambda: len(visit.acknowledgements()) > 1)
        request = next(row for row in visit.got if row.type == Type.SUBSCRIBE)
        told = [decode_subscribe(request).vclock, *(each[Key.VCLOCK] for each in visit.acknowledgements())]
        assert [each[1] for each in told] == [21] * len(told), "acknowledgements do not go back"

    stage.run(main)
