"""Log files that replicas still need: how long they are kept, and who gives them up (gc.c)."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest
from tests.box.sets import Peer, ReplicaSet

from headwater.errors import BoxError, Er


async def pair(nodes: ReplicaSet, **options: object) -> tuple[Peer, Peer]:
    """A master that needs one snapshot and no old log itself, and one that follows it."""
    master = nodes.peer("m", checkpoint_count=1)
    replica = nodes.peer("r", "m", **options)
    await master.start()
    await master.make_space()
    await replica.start()
    await nodes.equal(master, replica)
    return master, replica


async def write_files(master: Peer, count: int) -> None:
    """So many log files, each closed by a snapshot."""
    for number in range(count):
        await master.put(*range(100 * number, 100 * number + 50))
        await master.do(master.box.checkpoint())


def consumers(master: Peer) -> dict[str, bool]:
    return {one.name: one.active for one in master.box.gc.consumers}


def test_files_of_a_replica_that_is_given_up_go() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes)
        uuid = replica.box.uuid
        await replica.stop()
        await write_files(master, 3)
        held = len(master.files(".xlog"))
        assert held >= 3
        await master.do(master.box.forget_replica(uuid))
        assert consumers(master) == {}
        await nodes.until(lambda: len(master.files(".xlog")) < held, "nobody needs them")
        assert [one.uuid for one in master.box.facts().members if one.id] == [str(master.box.uuid), str(uuid)]
        await master.stop()
        await master.start()
        assert consumers(master) == {}, "it is written that nobody needs them"
        await replica.start()
        await nodes.equal(master, replica)
        assert consumers(master) == {f"replica {uuid}": True}

    nodes.run(test)


def test_an_anonymous_replica_that_is_given_up_is_forgotten() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes, replication_anon=True, read_only=True)
        uuid = replica.box.uuid
        with pytest.raises(BoxError, match="Cannot clean up replica's resources") as caught:
            await master.do(master.box.forget_replica(uuid))
        assert caught.value.code == Er.REPLICA_GC
        assert caught.value.fields["details"] == "Replica is connected"
        await replica.stop()
        await nodes.until(lambda: master.box.replicaset.find(uuid).guest is None, "it is away")
        assert consumers(master) == {f"replica {uuid}": True}
        await master.do(master.box.forget_replica(uuid))
        assert consumers(master) == {}
        assert master.box.replicaset.find(uuid) is None
        await replica.start()
        await nodes.equal(master, replica)

    nodes.run(test)


def test_the_ballot_tells_at_once_what_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """A master that is idle writes nothing else that would make it tell its ballot."""
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes)
        await replica.stop()
        await write_files(master, 3)
        await nodes.until(lambda: master.box.tell._told == master.vclock, "the vclock is told")
        await master.do(master.box.forget_replica(replica.box.uuid))
        await nodes.until(lambda: len(master.files(".xlog")) <= 1, "nobody needs them")
        await replica.start()
        await nodes.equal(master, replica)
        assert "initiating rebootstrap" in caplog.text

    nodes.run(test)


@pytest.mark.parametrize("who", ["self", "nobody"])
def test_there_is_nothing_to_give_up(who: str) -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master = nodes.peer("m")
        await master.start()
        uuid = master.box.uuid if who == "self" else UUID(int=7)
        with pytest.raises(BoxError) as caught:
            await master.do(master.box.forget_replica(uuid))
        assert caught.value.code == Er.REPLICA_GC
        words = {"self": "Cannot clean up self", "nobody": "Replica does not exist"}
        assert caught.value.fields == {**caught.value.fields, "uuid": str(uuid), "details": words[who]}

    nodes.run(test)


def test_a_full_disk_takes_the_files_of_who_is_away_and_it_joins_anew(caplog: pytest.LogCaptureFixture) -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes)
        name = f"replica {replica.box.uuid}"
        await replica.stop()
        await write_files(master, 4)
        platter = master.machine.platter
        platter.capacity = platter.used() + 100
        held = master.files(".xlog")
        await master.put(*range(1000, 1020))
        assert held[0] not in master.files(".xlog")
        assert consumers(master) == {name: False}
        assert f"deactivated WAL consumer {name}" in caplog.text
        platter.capacity = None
        await replica.start()
        await nodes.equal(master, replica)
        assert "initiating rebootstrap" in caplog.text
        assert consumers(master) == {name: True}, "files are kept for it again"
        await replica.stop()
        await write_files(master, 3)
        await replica.start()
        await nodes.equal(master, replica)
        assert caplog.text.count("initiating rebootstrap") == 1

    nodes.run(test)


def test_who_needs_rows_that_are_gone_holds_nothing() -> None:
    """Also after a restart: what is stored of it is below everything there is."""
    nodes = ReplicaSet()

    async def test() -> None:
        master, replica = await pair(nodes)
        name = f"replica {replica.box.uuid}"
        await replica.stop()
        await write_files(master, 4)
        platter = master.machine.platter
        platter.capacity = platter.used() + 100
        await master.put(*range(1000, 1020))
        platter.capacity = None
        assert consumers(master) == {name: False}
        await master.stop()
        await master.start()
        assert consumers(master) == {name: False}
        await write_files(master, 3)
        await nodes.until(lambda: len(master.files(".xlog")) <= 1, "nothing is held for it")

    nodes.run(test)


def test_after_a_restart_files_wait_for_members_that_are_not_back(caplog: pytest.LogCaptureFixture) -> None:
    """wal_cleanup_delay. Schema 2.11.5 has no `_gc_consumers` that would tell how far they are."""
    caplog.set_level(logging.INFO)
    nodes = ReplicaSet()

    async def test() -> None:
        master = nodes.peer("m", checkpoint_count=1, schema_version="2.11.5", wal_cleanup_delay=60)
        replica = nodes.peer("r", "m")
        await master.start()
        await master.make_space()
        await replica.start()
        await nodes.equal(master, replica)
        await replica.stop()
        await master.stop()
        await master.start()
        await write_files(master, 3)
        assert master.box.facts().is_gc_paused
        assert len(master.files(".snap")) >= 3
        await nodes.until(lambda: not master.box.facts().is_gc_paused, "the time is up", seconds=70)
        await nodes.until(lambda: len(master.files(".snap")) == 1, "then they go")
        assert "resumed due to timeout expiration" in caplog.text
        await master.stop()
        await master.start()
        await replica.start()
        await nodes.until(lambda: not master.box.facts().is_gc_paused, "all are back", seconds=5)

    nodes.run(test)


def test_no_delay_at_all() -> None:
    nodes = ReplicaSet()

    async def test() -> None:
        master = nodes.peer("m", checkpoint_count=1, schema_version="2.11.5", wal_cleanup_delay=0)
        replica = nodes.peer("r", "m")
        await master.start()
        await replica.start()
        await replica.stop()
        await master.stop()
        await master.start()
        await nodes.until(lambda: not master.box.facts().is_gc_paused, "nobody is waited for", seconds=1)

    nodes.run(test)


@pytest.mark.parametrize("restarted", [False, True])
def test_files_of_before_a_rebootstrap_lead_nowhere(restarted: bool) -> None:
    """They stay while removal is paused. Whoever stands in them lacks the rows that the new snapshot brought. A node
    that is killed before it writes anything finds out by itself that they end too early."""
    nodes = ReplicaSet()

    async def test() -> None:
        options = {"bootstrap_strategy": "legacy", "checkpoint_count": 1}
        master = nodes.peer("m", **options)
        middle = nodes.peer("r", "m", **options)
        last = nodes.peer("l", "m", **options)
        await master.start()
        await master.make_space()
        await middle.start()
        await last.start()
        await last.configure(replication=["r:3301"])
        last.options["replication"] = ["r:3301"]
        await master.put(1)
        await nodes.equal(master, middle, last)
        await middle.stop()
        for peer in (middle, last):
            known = master.box.replicaset.find(peer.box.uuid)
            assert known is not None
            await nodes.until(lambda known=known: known.guest is None, "it is gone")
            await master.do(master.box.forget_replica(known.uuid))
        await write_files(master, 3)
        await middle.start()
        if restarted:
            middle.machine.kill()
            await middle.start()
        await master.put(1000)
        await nodes.equal(master, middle)
        assert len(middle.files(".xlog")) > 1, "those of before are there"
        upstream = last.upstream(middle)
        await nodes.until(lambda: "Missing .xlog" in last.upstream(middle).message, f"a gap: {upstream}")
        assert last.keys == [1], "it gets nothing from behind the gap"
        await last.stop()
        await last.start()
        await nodes.equal(master, middle, last)

    nodes.run(test)


def test_a_log_whose_end_is_lost_and_in_the_snapshot_leads_nowhere() -> None:
    """wal_mode write: a power cut took its last blocks, and not the snapshot that was made behind them."""
    nodes = ReplicaSet()

    async def test() -> None:
        options = {"bootstrap_strategy": "legacy", "checkpoint_count": 1}
        master = nodes.peer("m", **options)
        replica = nodes.peer("r", "m", **options)
        await master.start()
        await master.make_space()
        await replica.start()
        await master.put(1)
        await nodes.equal(master, replica)
        await replica.stop()
        await master.put(*range(2, 50))
        await master.do(master.box.checkpoint())
        path = f"/m/{master.files('.xlog')[-1]}"
        await master.stop()
        data = master.machine.platter.names[path].data
        del data[len(data) * 3 // 4 :]
        await master.start()
        await master.put(1000)
        await replica.start()
        await nodes.until(lambda: replica.keys == master.keys, "it has joined anew, or been told of a gap")

    nodes.run(test)
