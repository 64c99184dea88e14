"""Who makes the replica set, by each `bootstrap_strategy`: whole nodes that have nothing yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.box.sets import Peer, ReplicaSet

from headwater.box.credentials import context_of_node
from headwater.errors import BoxError, Er
from headwater.replication.states import ApplierState
from headwater.replication.upstreams import Upstreams
from headwater.store import system
from headwater.wire.ballot import Ballot
from headwater.wire.greeting import NIL_UUID


def uuid(number: int) -> str:
    return str(UUID(int=number, version=4))


def peers(nodes: ReplicaSet, names: str, **options: Any) -> list[Peer]:
    """Each follows all; the first has the lowest UUID, and is chosen where nothing else counts."""
    return [nodes.peer(name, *names, instance_uuid=uuid(number), **options) for number, name in enumerate(names, 1)]


def leader(peer: Peer) -> UUID:
    """Who is member 1."""
    found = peer.box.schema.cluster.by_id(1)  # type: ignore[arg-type]
    assert found is not None
    return found.uuid


async def refused(peer: Peer) -> BoxError:
    with pytest.raises(BoxError) as caught:
        await peer.start()
    peer.machine.kill()
    return caught.value


# ---- auto ------------------------------------------------------------------------------------------------------


def test_auto_makes_one_set_of_all_that_start_together() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(nodes, "abc")
        await nodes.together(c, b, a)
        await nodes.equal(a, b, c)
        assert {leader(each) for each in (a, b, c)} == {a.box.uuid}

    nodes.run(test)


def test_auto_needs_more_than_half_of_those_it_is_told_of() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(nodes, "abc", replication_connect_timeout=2)
        error = await refused(a)
        assert error.code == Er.CFG
        assert "failed to connect to one or more replicas: b:3301: " in error.message
        assert "c:3301: " in error.message
        await nodes.together(a, b)
        await nodes.equal(a, b)
        await c.start()
        await nodes.equal(a, b, c)

    nodes.run(test)


def test_auto_is_not_unanimous() -> None:
    """A peer that sees more than the leader chose another one: two sets would be made."""
    nodes = ReplicaSet()

    async def test() -> None:
        first, second, third = (
            nodes.peer(name, *masters, instance_uuid=uuid(number), replication_connect_timeout=5)
            for number, name, masters in ((1, "a", "ab"), (2, "b", "bc"), (3, "c", "abc"))
        )
        starts = [asyncio.ensure_future(peer.start()) for peer in (first, second, third)]
        await nodes.until(lambda: any(start.done() for start in starts), "one of them is not made leader")
        (error,) = [start.exception() for start in starts if start.done()]
        assert isinstance(error, BoxError)
        assert error.code == Er.BOOTSTRAP_NOT_UNANIMOUS

    nodes.run(test)


def test_auto_joins_a_set_all_of_whose_members_it_is_told() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b = peers(nodes, "ab")
        c = nodes.peer("c", "a", instance_uuid=uuid(3))
        await nodes.together(a, b)
        error = await refused(c)
        assert error.code == Er.BOOTSTRAP_CONNECTION_NOT_TO_ALL
        c.options["replication"] = ["a:3301", "b:3301"]
        await c.start()
        await nodes.equal(a, b, c)

    nodes.run(test)


def test_auto_finds_out_that_a_peer_had_data_all_along() -> None:
    """Its ballot says so when it has recovered; by then the newcomer with the lowest UUID has chosen itself."""
    nodes = ReplicaSet()

    async def test() -> None:
        old = nodes.peer("c", "c", instance_uuid=uuid(3))
        await old.start()
        await old.make_space()
        await old.put(*range(100))
        await old.stop()
        old.options["replication"] = ["a:3301", "b:3301", "c:3301"]
        old.machine.disk_slowness = 1e6
        a = nodes.peer("a", *"abc", instance_uuid=uuid(1))
        b = nodes.peer("b", *"abc", instance_uuid=uuid(2))
        starts = [asyncio.ensure_future(peer.start()) for peer in (a, b, old)]
        await asyncio.sleep(0)
        await nodes.until(lambda: a.box.membership.leader_uuid == a.box.uuid, "the newcomer does not choose itself")
        old.machine.disk_slowness = 1.0
        await asyncio.gather(*starts)
        await nodes.equal(a, b, old)
        assert {leader(each) for each in (a, b, old)} == {old.box.uuid}

    nodes.run(test)


def test_whom_a_peer_with_data_chose_is_not_waited_for() -> None:
    """It chose nobody. Seen in the sample set: the third node waited for ever to hear whom the first one had chosen."""
    recovered = SimpleNamespace(
        uuid=UUID(uuid(3)), state=ApplierState.CONNECTED, ballot=Ballot(is_booted=True, bootstrap_leader_uuid=NIL_UUID)
    )
    upstreams: Any = SimpleNamespace(_news=asyncio.Event())

    async def test() -> None:
        await asyncio.wait_for(Upstreams.wait_chosen(upstreams, recovered), 5)  # type: ignore[arg-type]

    with pytest.raises(BoxError) as caught:
        asyncio.run(test())
    assert caught.value.code == Er.CANT_CHECK_BOOTSTRAP_LEADER


def test_a_node_without_peers_makes_its_own() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        alone = nodes.peer("a")
        await alone.start()
        assert leader(alone) == alone.box.uuid
        assert alone.box.status == "running"

    nodes.run(test)


# ---- config ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["c:3301", uuid(3), "third"])
def test_config_names_the_leader(named: str) -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(nodes, "abc", bootstrap_strategy="config", bootstrap_leader=named)
        for name, peer in zip(("first", "second", "third"), (a, b, c), strict=True):
            peer.options["instance_name"] = name
        await nodes.together(a, b, c)
        await nodes.equal(a, b, c)
        assert {leader(each) for each in (a, b, c)} == {c.box.uuid}

    nodes.run(test)


def test_config_waits_for_its_leader_alone() -> None:
    """And no longer than `replication_connect_timeout`."""
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(
            nodes, "abc", bootstrap_strategy="config", bootstrap_leader="b:3301", replication_connect_timeout=5
        )
        error = await refused(a)
        assert error.code == Er.CFG
        assert "failed to connect to the bootstrap leader" in error.message
        await nodes.together(a, b)
        assert leader(a) == b.box.uuid, "who is not there yet is not waited for"
        await c.start()
        await nodes.equal(a, b, c)

    nodes.run(test)


# ---- supervised ------------------------------------------------------------------------------------------------


def test_supervised_waits_until_somebody_is_told() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(nodes, "abc", bootstrap_strategy="supervised", replication_connect_timeout=30)
        starts = [asyncio.ensure_future(peer.start()) for peer in (a, b, c)]
        await asyncio.sleep(10)
        assert not any(start.done() for start in starts)
        await b.box.make_bootstrap_leader()
        await asyncio.gather(*starts)
        await nodes.equal(a, b, c)
        assert {leader(each) for each in (a, b, c)} == {b.box.uuid}

    nodes.run(test)


def test_supervised_tells_newcomers_whom_to_join() -> None:
    """By a row, so also after a restart. The last one that was told is joined."""
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(nodes, "abc", bootstrap_strategy="supervised", replication_connect_timeout=3)
        starts = [asyncio.ensure_future(peer.start()) for peer in (a, b)]
        await asyncio.sleep(0.1)
        await a.box.make_bootstrap_leader()
        await asyncio.gather(*starts)
        await nodes.equal(a, b)
        assert told(b) == str(a.box.uuid)
        await b.do(b.box.make_bootstrap_leader())
        await nodes.equal(a, b)
        assert told(a) == str(b.box.uuid)
        await a.stop()
        await a.start()
        await c.start()
        assert c.box.membership.leader_uuid == b.box.uuid
        await nodes.equal(a, b, c)

    nodes.run(test)


def told(peer: Peer) -> str | None:
    """Whom newcomers join, as its `_schema` has it."""
    row = context_of_node(peer.box).get(system.SCHEMA, ["bootstrap_leader_uuid"])
    return None if row is None else str(row[1])


def test_supervised_gracefully() -> None:
    """Only if no peer is the leader already: the same command may be given to all, one after the other."""
    nodes = ReplicaSet()

    async def test() -> None:
        a, b = peers(nodes, "ab", bootstrap_strategy="supervised", replication_connect_timeout=30)
        starts = [asyncio.ensure_future(peer.start()) for peer in (a, b)]
        await asyncio.sleep(0.1)
        await b.box.make_bootstrap_leader(graceful=True)
        await asyncio.gather(*starts)
        await a.do(a.box.make_bootstrap_leader(graceful=True))
        await nodes.equal(a, b)
        assert (leader(a), told(a)) == (b.box.uuid, str(b.box.uuid))

    nodes.run(test)


def test_nobody_is_made_leader_by_another_strategy() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        alone = nodes.peer("a")
        await alone.start()
        with pytest.raises(BoxError, match="bootstrap_strategy = 'auto' does not support promoting the bootstrap"):
            await alone.do(alone.box.make_bootstrap_leader())

    nodes.run(test)


# ---- legacy ----------------------------------------------------------------------------------------------------


def test_legacy_waits_for_its_quorum() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b, c = peers(nodes, "abc", bootstrap_strategy="legacy", replication_connect_timeout=3)
        error = await refused(a)
        assert error.code == Er.CFG
        for peer in (a, b, c):
            peer.options["replication_connect_quorum"] = 2
        await nodes.together(a, b)
        await c.start()
        await nodes.equal(a, b, c)

    nodes.run(test)


def test_legacy_leader_that_is_read_only_makes_no_set() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a = nodes.peer("a", "a", bootstrap_strategy="legacy", read_only=True)
        error = await refused(a)
        assert error.code == Er.BOOTSTRAP_READONLY

    nodes.run(test)
