"""Sets of whole nodes with `replica_ids: remap` (seed 004)."""

from __future__ import annotations

import errno
from copy import deepcopy
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.box.sets import SPACE, Peer, ReplicaSet

from headwater.box.credentials import context_of_node
from headwater.errors import BoxError
from headwater.options import Options
from headwater.sim.faults import DiskOp, Fail
from headwater.store import system
from headwater.typing import SpaceId
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack

REMAP: dict[str, Any] = {
    "replica_ids": "remap",
    "replication_connect_timeout": 2,
    "replication_connect_quorum": 0,
    "bootstrap_strategy": "legacy",
}


def names(*peers: Peer) -> dict[UUID, str]:
    return {peer.box.uuid: peer.machine.name for peer in peers}


def by_instance(peer: Peer, known: dict[UUID, str]) -> dict[str, int]:
    """Its vclock by the names of those that wrote the rows."""
    assert peer.box.ids is not None
    owners = peer.box.ids.registry
    return {known[owners.owner(id_) or UUID(int=0)]: lsn for id_, lsn in peer.vclock.items()}


def members(peer: Peer) -> dict[int, UUID]:
    return {int(member.id): member.uuid for member in peer.box.schema.cluster}


def follows(one: Peer, other: Peer) -> bool:
    return one is other or getattr(one.upstream(other), "status", "") == "follow"


async def agree(rs: ReplicaSet, *peers: Peer, known: dict[UUID, str] | None = None) -> dict[str, int]:
    """The same rows of the same writers everywhere."""
    known = known or names(*peers)

    def same() -> bool:
        return all(by_instance(peer, known) == by_instance(peers[0], known) for peer in peers)

    await rs.until(same, f"{[(peer.vclock, members(peer)) for peer in peers]}")
    for peer in peers:
        assert peer.keys == peers[0].keys
        assert set(members(peer).values()) == set(members(peers[0]).values())
    await rs.until(lambda: all(follows(one, other) for one in peers for other in peers), "everybody follows everybody")
    return by_instance(peers[0], known)


async def expel(at: Peer, who: UUID) -> None:
    (id_,) = (id_ for id_, uuid in members(at).items() if uuid == who)
    context_of_node(at.box).delete(system.CLUSTER, [id_])
    await at.do(at.box.settled())


def test_the_story_of_the_seed() -> None:
    """ "Background and motivation": a node is deleted, new ones take its place and, where nobody knew better, one id;
    the old one comes back."""
    rs = ReplicaSet()
    everybody = ("a", "b", "c", "d", "e")
    a, b, c, d, e = (rs.peer(name, *(each for each in everybody if each != name), **REMAP) for name in everybody)

    async def test() -> None:
        await a.start()
        await a.make_space()
        await rs.together(b, c)
        await c.put(1)
        known = names(a, b, c)
        await agree(rs, a, b, c)
        await c.stop()
        old = c.box.memtx.replica_id
        await b.stop()
        await expel(a, c.box.uuid)
        await d.start()
        await d.put(2)
        await rs.until(lambda: a.keys == [1, 2], "a has it")
        await d.stop()
        await a.stop()
        await b.start()
        await e.start()
        await e.put(3)
        assert d.box.memtx.replica_id == e.box.memtx.replica_id == 4, "cut off, they gave one id to two"
        await rs.together(a, d)
        known |= names(d, e)
        await agree(rs, a, b, d, e, known=known)
        await b.do(b.box.register(c.box.uuid, ""))
        await agree(rs, a, b, d, e, known=known)
        await c.start()
        await c.put(4)
        written = await agree(rs, a, b, c, d, e)
        assert (written["c"], written["d"], written["e"]) == (2, 1, 1)
        assert c.box.memtx.replica_id == old, "the same instance, the same id"
        assert (a.box.ids.give(d.box.uuid), a.box.ids.give(e.box.uuid)) == (4, 5)
        assert (e.box.ids.give(d.box.uuid), e.box.ids.give(e.box.uuid)) == (5, 4)
        everywhere = [peer.keys for peer in (a, b, c, d, e)]
        for peer in (a, b, c, d, e):
            await peer.stop()
        await rs.together(a, b, c, d, e)
        assert [peer.keys for peer in (a, b, c, d, e)] == everywhere == [[1, 2, 3, 4]] * 5
        assert await agree(rs, a, b, c, d, e) == written

    rs.run(test)


# ---- "Problems and ways to overcome them" ---------------------------------------------------------------


def test_problem_1_the_primary_key_of_a_member_is_another_here() -> None:
    """Rows of `_cluster` keep their key, the id: the row itself comes under another one, and no index is altered."""
    rs = ReplicaSet()
    a, b, c, d = (rs.peer(name, *(each for each in "abcd" if each != name), **REMAP) for name in "abcd")

    async def test() -> None:
        await a.start()
        await a.make_space()
        await b.start()
        await agree(rs, a, b)
        await b.stop()
        await c.start()
        await rs.until(lambda: c.box.memtx.replica_id == 3, "c is a member")
        await a.stop()
        await c.stop()
        await b.start()
        await d.start()
        await rs.until(lambda: d.box.memtx.replica_id == 3, "d is a member")
        await rs.together(a, c)
        await d.put(1)
        await agree(rs, a, b, c, d)
        assert members(a)[3] == members(c)[3] == c.box.uuid
        assert members(b)[3] == members(d)[3] == d.box.uuid
        for peer in (a, b, c, d):
            (index,) = [row for row in context_of_node(peer.box).select(system.INDEX) if row[:2] == [320, 0]]
            assert index[5] == [[0, "unsigned"]]
            assert [row[2:] for row in context_of_node(peer.box).select(system.CLUSTER)] == [[]] * 4, "no source in it"

    rs.run(test)


def test_problem_2_several_appliers_bring_one_member() -> None:
    rs = ReplicaSet()
    a, b, c, d = (rs.peer(name, *(each for each in "abcd" if each != name), **REMAP) for name in "abcd")

    async def test() -> None:
        await a.start()
        await a.make_space()
        await rs.together(b, c)
        await agree(rs, a, b, c)
        await d.start()
        await d.put(1)
        await agree(rs, a, b, c, d)
        for peer in (a, b, c, d):
            assert peer.box.ids is not None
            assert dict(peer.box.ids.registry) == members(peer), "each one id, and no other was used up"

    rs.run(test)


def test_problem_3_and_4_a_joined_node_goes_on_with_the_numbering_that_came_with_its_data() -> None:
    """Also of those that were expelled: their rows are in the data, and are not fetched once more under another id."""
    rs = ReplicaSet()
    a, b, c, d = (rs.peer(name, *(each for each in "abcd" if each != name), **REMAP) for name in "abcd")

    async def test() -> None:
        await a.start()
        await a.make_space()
        await rs.together(b, c)
        await c.put(1, 2)
        await agree(rs, a, b, c)
        gone = c.box.uuid
        await c.stop()
        await expel(a, gone)
        known = names(a, b) | {gone: "c"}
        await agree(rs, a, b, known=known)
        await a.put(1)
        await d.start()
        assert d.box.memtx.replica_id == 4
        known |= names(d)
        assert (await agree(rs, a, b, d, known=known))["c"] == 2
        assert d.box.ids is not None
        assert d.box.ids.registry.find(gone) == 3
        assert context_of_node(d.box).select(SPACE)[0] == [1, "a"], "the newer row stays"
        new = uuid4()
        await d.do(d.box.register(new, ""))
        assert members(d)[5] == new

    rs.run(test)


def test_problem_5_no_id_is_given_twice() -> None:
    """`RC = max(max_id, RC) + 1`, over deletions, restarts, and after the snapshot that let the rows go."""
    rs = ReplicaSet()
    a = rs.peer("a", **REMAP, checkpoint_count=1)
    given: list[int] = []

    async def register() -> UUID:
        new = uuid4()
        await a.do(a.box.register(new, ""))
        given.append(next(id_ for id_, uuid in members(a).items() if uuid == new))
        return new

    async def test() -> None:
        await a.start()
        await a.make_space()
        for _ in range(2):
            await expel(a, await register())
        await a.stop()
        await a.start()
        first = await register()
        await expel(a, first)
        await a.do(a.box.checkpoint())
        await a.put(1)
        await a.do(a.box.checkpoint())
        a.machine.kill()
        await a.start()
        assert list(members(a)) == [1]
        await register()
        assert given == [2, 3, 4, 5]
        await a.do(a.box.register(first, ""))
        assert members(a)[4] == first, "who comes back has its own"

    rs.run(test)


def test_problem_5_a_client_cannot_give_an_id_twice_either() -> None:
    rs = ReplicaSet()
    a = rs.peer("a", **REMAP)

    async def test() -> None:
        await a.start()
        one, other = uuid4(), uuid4()
        context = context_of_node(a.box)
        context.insert(system.CLUSTER, [7, str(one)])
        await a.do(a.box.settled())
        await expel(a, one)
        with pytest.raises(BoxError, match=f"does not support an id for the second time: 7 was given to {one} before"):
            context.insert(system.CLUSTER, [7, str(other)])
        with pytest.raises(BoxError, match=f"another id for replica {one}: it has the id 7 here, and keeps it"):
            context.insert(system.CLUSTER, [9, str(one)])
        with pytest.raises(BoxError, match="for the second time: 3 was given before"):
            context.insert(system.CLUSTER, [3, str(other)])
        await a.do(a.box.register(other, ""))
        assert members(a)[8] == other

    rs.run(test)


def test_problem_6_rows_of_an_unknown_source_are_skipped() -> None:
    """Its master has rows of an instance that its `_cluster` does not name; what comes behind them is taken."""
    rs = ReplicaSet()
    a, b = rs.peer("a", bootstrap_strategy="legacy"), rs.peer("b", "a", **REMAP)

    async def test() -> None:
        await a.start()
        await a.make_space()
        await a.put(1)
        await b.start()
        await rs.until(lambda: b.keys == [1], "it follows")
        for lsn in (1, 2):
            body = pack({int(Key.SPACE_ID): SPACE, int(Key.TUPLE): [10 + lsn, "x"]})
            a.box.memtx.add_row(Type.REPLACE, 0, body, replica_id=9, lsn=lsn, timestamp=1.0)
        await a.put(2)
        await rs.until(lambda: b.keys == [1, 2], "it goes on")
        assert 9 not in b.vclock
        assert 9 not in members(b)

    rs.run(test)


# ---- what is refused --------------------------------------------------------------------------------------


def test_elections_are_refused() -> None:
    options = Options()
    options.replica_ids, options.election_mode = "remap", "candidate"
    with pytest.raises(BoxError, match="'replica_ids': 'remap' does not go together with elections"):
        options.check({})
    for given in (
        {"replica_ids": "remap", "election_mode": "voter"},
        {"replica_ids": "remap", "election_mode": "manual"},
    ):
        with pytest.raises(BoxError, match="Incorrect value for option"):
            Options.load(given)
    with pytest.raises(BoxError, match="Can't set option 'replica_ids' dynamically"):
        Options().plan({"replica_ids": "remap"})


async def make_sync_space(peer: Peer) -> None:
    context = context_of_node(peer.box)
    context.insert(system.SPACE, [700, 1, "s", "memtx", 0, {"is_sync": True}, []])
    await peer.do(peer.box.settled())


def test_synchronous_spaces_of_clients_are_refused() -> None:
    rs = ReplicaSet()
    a = rs.peer("a", **REMAP)

    async def test() -> None:
        await a.start()
        await a.make_space()
        with pytest.raises(BoxError, match="replica_ids: remap does not support synchronous spaces"):
            await make_sync_space(a)
        with pytest.raises(BoxError, match="replica_ids: remap does not support synchronous spaces"):
            context_of_node(a.box).update(system.SPACE, [SPACE], [["=", 6, {"is_sync": True}]])
        await a.put(1)

    rs.run(test)


def test_a_peer_that_makes_a_synchronous_space_is_followed_no_more() -> None:
    rs = ReplicaSet()
    a, b = rs.peer("a", bootstrap_strategy="legacy"), rs.peer("b", "a", **REMAP)

    async def test() -> None:
        await a.start()
        await b.start()
        await make_sync_space(a)
        await rs.until(lambda: b.upstream(a).status == "stopped", "it stops")
        assert "replica_ids: remap does not support synchronous spaces" in b.upstream(a).message

    rs.run(test)


def test_a_directory_with_synchronous_spaces_is_not_opened() -> None:
    """From the journal and from a snapshot."""
    rs = ReplicaSet()
    a = rs.peer("a")

    async def test() -> None:
        await a.start()
        await make_sync_space(a)
        await a.stop()
        a.options |= REMAP
        with pytest.raises(BoxError, match="remap does not support synchronous spaces"):
            await a.start()
        a.machine.kill()
        a.options["replica_ids"] = "shared"
        await a.start()
        await a.do(a.box.checkpoint())
        await a.stop()
        a.options["replica_ids"] = "remap"
        with pytest.raises(BoxError, match="remap does not support synchronous spaces"):
            await a.start()

    rs.run(test)


# ---- one option and the other -------------------------------------------------------------------------------


def test_a_set_goes_over_to_remap_and_back() -> None:
    """One node after another; back as long as all of them still count alike."""
    rs = ReplicaSet()
    shared = {**REMAP, "replica_ids": "shared"}
    a, b, c = (rs.peer(name, *(each for each in "abc" if each != name), **shared) for name in "abc")

    async def test() -> None:
        await a.start()
        await a.make_space()
        await rs.together(b, c)
        key = 0
        for option in ("remap", "shared", "remap"):
            for peer in (a, b, c):
                await peer.stop()
                peer.options["replica_ids"] = option
                await peer.start()
                for writer in (a, b, c):
                    key += 1
                    await writer.put(key)
                await rs.equal(a, b, c)
        assert key == 27

    rs.run(test)


def test_numbers_that_differ_cannot_be_shared_again() -> None:
    rs = ReplicaSet()
    a, b, c, d = (rs.peer(name, *(each for each in "abcd" if each != name), **REMAP) for name in "abcd")

    async def test() -> None:
        await a.start()
        await b.start()
        await rs.until(lambda: a.box.ids is not None and a.box.ids.knows(b.box.uuid), "they know each other")
        await b.stop()
        await c.start()
        await a.stop()
        await c.stop()
        await b.start()
        await d.start()
        await a.start()
        await rs.until(lambda: len(members(a)) == len(members(b)) == 4, "all members")
        await a.stop()
        a.options["replica_ids"] = "shared"
        with pytest.raises(
            BoxError, match=r"'shared' would mix up rows: replica .* has the id 3 at .*, and another one here"
        ):
            await a.start()
        a.machine.kill()
        a.options["replica_ids"] = "remap"
        await a.start()

    rs.run(test)


def test_one_that_lost_nearly_everything_joins_anew() -> None:
    """Also what it knew of its peers' numbers, without which their ballots tell nothing: they are asked first."""
    rs = ReplicaSet()
    a, b, c = (rs.peer(name, *"abc", **REMAP) for name in "abc")

    async def test() -> None:
        await a.start()
        await a.stop()
        platter = deepcopy(a.machine.platter)
        await a.start()
        await a.make_space()
        await rs.together(b, c)
        await a.put(1)
        known = names(a, b, c)
        before = await agree(rs, a, b, c)
        await a.stop()
        await b.put(2)
        a.machine.platter = platter
        await a.start()
        assert a.box.membership.leader_uuid in (b.box.uuid, c.box.uuid), "the one that it joined"
        after = await agree(rs, a, b, c, known=known)
        assert (after["a"], after["b"]) == (before["a"], before.get("b", 0) + 1)

    rs.run(test)


def test_an_anonymous_replica_becomes_a_member() -> None:
    """Whose `_cluster` is downloaded first: it is not registered yet when it is logged in."""
    rs = ReplicaSet()
    a, b = (rs.peer(name, *"abc", **REMAP) for name in "ab")
    c = rs.peer("c", *"ab", **REMAP, replication_anon=True, read_only=True)

    async def test() -> None:
        await a.start()
        await a.make_space()
        await b.start()
        await c.start()
        await c.configure(replication_anon=False)
        await c.configure(read_only=False)
        await c.put(1)
        await rs.until(lambda: a.keys == b.keys == [1], "its rows come")
        assert by_instance(a, names(a, b, c)) == by_instance(c, names(a, b, c))

    rs.run(test)


# ---- the local space --------------------------------------------------------------------------------------


def test_the_space_of_ids_is_sent_to_nobody() -> None:
    rs = ReplicaSet()
    a = rs.peer("a", **REMAP)
    b = rs.peer("b", "a", bootstrap_strategy="legacy")
    c = rs.peer("c", "a", bootstrap_strategy="legacy", replication_anon=True, read_only=True)

    async def test() -> None:
        await a.start()
        await a.make_space()
        await b.start()
        await c.start()
        await a.put(500)
        await rs.until(lambda: b.keys == c.keys == [500], "they follow")
        for peer in (b, c):
            assert SpaceId(500) not in peer.box.schema.spaces
            context = context_of_node(peer.box)
            assert all(row[0] != 500 for row in (*context.select(system.SPACE), *context.select(system.INDEX)))
        assert len(context_of_node(a.box).select(system.REPLICA_IDS)) > 1

    rs.run(test)


def test_ids_that_could_not_be_written_are_written_later() -> None:
    """What is learned is true whether or not the disk takes it: the node goes on, and after a crash it is there."""
    rs = ReplicaSet()
    a, b = rs.peer("a", "b", **REMAP), rs.peer("b", "a", **REMAP)

    class FullJournal:
        full = False
        failed = 0

        def on_disk(self, op: DiskOp) -> Fail | None:
            if self.full and op.name == "append" and ".xlog" in op.path:
                self.failed += 1
                return Fail(errno.ENOSPC)
            return None

    faults = FullJournal()

    async def test() -> None:
        a.faults = faults
        await a.start()
        await a.make_space()
        await b.start()
        await agree(rs, a, b)
        new = uuid4()
        faults.full = True
        with pytest.raises(BoxError):
            await a.do(a.box.register(new, ""))
        assert faults.failed
        assert list(members(a)) == [1, 2]
        kept = context_of_node(a.box).select(system.REPLICA_IDS)
        faults.full = False
        await a.put(1)
        await agree(rs, a, b)
        assert ["", 3, 0, str(new)] in context_of_node(a.box).select(system.REPLICA_IDS), kept
        other = uuid4()
        await a.do(a.box.register(other, ""))
        assert members(a)[4] == other
        a.machine.kill()
        await a.start()
        assert a.box.ids is not None
        assert a.box.ids.give(new) == 3
        await a.do(a.box.register(new, ""))
        assert (members(a)[3], members(a)[4]) == (new, other)
        await agree(rs, a, b)

    rs.run(test)
