"""A node that has not caught up with its replica set takes no writes, and says so (replication.cc, replicaset_sync)."""

from __future__ import annotations

from tests.box.sets import Peer, ReplicaSet

from headwater.box.info import box_info
from headwater.errors import BoxError, Er


async def mesh(nodes: ReplicaSet, count: int = 2, **options: object) -> list[Peer]:
    """All follow all, themselves included, as one configuration for everybody has it."""
    names = [f"n{number}" for number in range(1, count + 1)]
    peers = [nodes.peer(name, *names, **options) for name in names]
    await nodes.together(*peers)
    leader = next(peer for peer in peers if peer.box.membership.is_leader)
    await leader.make_space()
    await nodes.equal(*peers)
    return [leader, *(peer for peer in peers if peer is not leader)]


def test_its_own_address_is_nobody_to_catch_up_with() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        a, b = await mesh(nodes)
        await b.stop()
        await a.put(*range(50))
        nodes.simulation.fabric.way(a.machine.name, b.machine.name).delay = (0.3, 0.3)
        box = b.boot()
        seen = []
        box.read_only.listeners.append(lambda active: seen.append((active, b.keys)))
        await b.do(box.start())
        assert b.keys == list(range(50))
        assert (True, []) in seen
        assert (False, []) not in seen

    nodes.run(test)


async def pair(nodes: ReplicaSet, **options: object) -> tuple[Peer, Peer]:
    """A master, and one that follows it."""
    master, replica = nodes.peer("m"), nodes.peer("r", "m", **options)
    await master.start()
    await master.make_space()
    await replica.start()
    await nodes.equal(master, replica)
    return master, replica


def refusal(peer: Peer) -> BoxError | None:
    """What a client is told that writes."""
    try:
        peer.box.check_writable()
    except BoxError as error:
        return error
    return None


def test_box_cfg_returns_when_the_time_is_up_and_the_node_is_an_orphan() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes, replication_sync_timeout=0)
        await replica.stop()
        await master.put(*range(50))
        nodes.simulation.fabric.way("m", "r").delay = (0.3, 0.3)
        await replica.start()
        readiness = box_info(replica.box)["health"]["readiness"]
        assert readiness == {"status": False, "checks": {"box": {"status": "not_ready", "reason": "orphan"}}}
        assert replica.box.status == "orphan"
        assert replica.box.facts().ro_reason == "orphan"
        error = refusal(replica)
        assert error is not None
        assert error.code == Er.READONLY
        assert error.message.endswith("it is an orphan")
        await nodes.until(lambda: replica.box.status == "running", "it leaves by itself")
        assert replica.keys == master.keys
        assert refusal(replica) is None

    nodes.run(test)


def test_rows_are_applied_while_it_is_an_orphan() -> None:
    """replication_sync_lag: it has all rows, and they are too old to count."""
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes, replication_sync_timeout=0, replication_sync_lag=0.5)
        await replica.stop()
        replica.machine.jump(60)
        await replica.start()
        await master.put(*range(50))
        await nodes.until(lambda: replica.keys == master.keys, "an orphan follows")
        assert replica.box.status == "orphan"
        assert replica.upstream(master).status == "sync"
        assert replica.upstream(master).lag > 50
        await replica.configure(replication_sync_lag=100)
        await nodes.until(lambda: replica.box.status == "running", "little enough now")

    nodes.run(test)


def test_a_peer_that_is_away_is_not_waited_for() -> None:
    """Otherwise no restart of a set in which one is down would end."""
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes)
        await replica.stop()
        await master.stop()
        await replica.start()
        assert refusal(replica) is None
        assert replica.upstream(master) is None, "nobody has told its UUID yet"
        await master.start()
        await nodes.until(lambda: replica.upstream(master) is not None, "it is tried again and again")

    nodes.run(test)


def test_the_legacy_quorum_is_waited_for() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes, bootstrap_strategy="legacy", replication_connect_timeout=1)
        await replica.stop()
        await master.stop()
        await replica.start()
        assert replica.box.status == "orphan"
        await master.start()
        await nodes.until(lambda: replica.box.status == "running", "the quorum is there")
        await replica.stop()
        await master.stop()
        replica.options["replication_connect_quorum"] = 0
        await replica.start()
        assert replica.box.status == "running"

    nodes.run(test)


def test_another_list_of_peers_is_caught_up_with_before_box_cfg_returns() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes)
        await replica.configure(replication=[])
        await master.put(*range(30))
        nodes.simulation.fabric.way("m", "r").delay = (0.3, 0.3)
        await replica.configure(replication=["m:3301"])
        assert replica.keys == master.keys
        assert replica.upstream(master).status == "follow"

    nodes.run(test)
