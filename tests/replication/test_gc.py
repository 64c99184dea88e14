"""Files that replicas still need, replicas that come too late, and what to do then."""

from __future__ import annotations

import pytest
from tests.replication.conftest import Clusters
from tests.replication.pairs import DIRECTIONS, SPACE, fill, keys, pair
from tests.support.cluster import Node, kinds
from tests.support.iproto import ServerError, create_space
from tests.support.peers import Replica
from tests.support.subjects import STAND_IN

XLOG_GAP = 219


def lose_old_files(node: Node) -> None:
    """It keeps what its newest snapshot needs: as gc leaves it once nobody needs more."""
    node.snapshot()
    node.stop()
    newest = max(path.stem for path in node.files(".snap"))
    for suffix in (".xlog", ".snap"):
        for path in node.files(suffix):
            if path.stem < newest:
                path.unlink()


@kinds(*DIRECTIONS)
def test_files_wait_for_a_replica_that_is_down(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = pair(clusters, kinds, options={"checkpoint_count": 1})
    cluster.wait_follow(replica, master)
    fill(master, 0, 100)
    cluster.settle()
    replica.stop()
    for turn in range(3):
        fill(master, 100 * turn, 100 * turn + 150)
        master.snapshot()
    held = len(master.files(".xlog"))
    assert held >= 3
    assert len(master.files(".snap")) == 1
    replica.start()
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert keys(replica) == list(range(350))
    assert "initiating rebootstrap" not in replica.log

    def released() -> bool:
        fill(master, 0, 1)
        master.snapshot()
        return len(master.files(".xlog")) < held

    cluster.wait(released, "files go when the replica has them", interval=0.3)


@kinds(*DIRECTIONS)
def test_expelling_a_replica_releases_its_files(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = pair(clusters, kinds, options={"checkpoint_count": 1})
    replica.stop()
    for turn in range(3):
        fill(master, 100 * turn, 100 * turn + 150)
        master.snapshot()
    assert len(master.files(".xlog")) >= 3
    master.do("box.space._cluster:delete", [2])
    cluster.wait(lambda: len(master.files(".xlog")) <= 1, "nobody needs them")
    assert [each["name"] for each in consumers(master)] == []


def consumers(node: Node) -> list[dict[str, object]]:
    found = node.call("box.info.gc")["consumers"]
    return list(found.values()) if isinstance(found, dict) else list(found)


@kinds(*DIRECTIONS)
def test_what_gc_tells(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = pair(clusters, kinds)
    cluster.wait(lambda: len(consumers(master)) == 1, "one consumer")
    (consumer,) = consumers(master)
    assert replica.uuid in str(consumer["name"])
    master.snapshot()
    told = master.call("box.info.gc")
    assert told["checkpoint_is_in_progress"] is False
    checkpoints = told["checkpoints"]
    assert [each["signature"] for each in checkpoints] == [int(path.stem) for path in master.files(".snap")]
    assert all(each["references"] in ([], {}) for each in checkpoints)


@kinds(*DIRECTIONS)
def test_a_replica_that_is_too_old_joins_anew(clusters: Clusters, kinds: str) -> None:
    """By itself, when it is started, and keeps its id."""
    cluster, master, replica = pair(clusters, kinds)
    fill(master, 0, 100)
    cluster.settle()
    uuid = replica.uuid
    replica.stop()
    fill(master, 50, 300)
    lose_old_files(master)
    master.start()
    replica.start()
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert "initiating rebootstrap" in replica.log
    assert (replica.id, replica.uuid) == (2, uuid)
    assert keys(replica) == list(range(300))
    replica.restart()
    fill(master, 300, 310)
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert keys(replica) == list(range(310))


@kinds(*DIRECTIONS)
def test_one_with_rows_of_its_own_does_not_join_anew(clusters: Clusters, kinds: str) -> None:
    """What only it has would be lost: it says what is missing and stays as it is."""
    cluster, master, replica = pair(clusters, kinds, options={"replication_sync_timeout": 0.5})
    replica.conn.insert(SPACE, [5000])
    cluster.wait(lambda: keys(replica) == [5000], "a row of its own")
    replica.stop()
    fill(master, 0, 100)
    lose_old_files(master)
    master.start()
    replica.start()
    message = cluster.wait_upstream(replica, master, ("stopped", "loading", "disconnected"), "issing")
    assert ".xlog" in message
    assert keys(replica) == [5000]
    assert "initiating rebootstrap" not in replica.log


@kinds("h", "t")
def test_a_subscription_from_what_is_no_more(clusters: Clusters, kinds: str) -> None:
    """The error has its class in its stack: without it old replicas stop for good."""
    (master,) = clusters(kinds)
    master.start()
    create_space(master.conn, SPACE, "t")
    with Replica(master) as replica:
        replica.join()
        start = dict(replica.vclock)
    fill(master, 0, 10)
    lose_old_files(master)
    master.start()
    with Replica(master, replica.uuid) as again:
        again.ask_subscribe(start)
        with pytest.raises(ServerError) as caught:
            again.row()
        reply = caught.value.reply
        assert reply.code == (32 if master.is_old else XLOG_GAP)
        assert reply.body[0x52][0][0][0] == "XlogGapError"
        assert "issing .xlog file between LSN" in reply.message


@pytest.mark.skipif(STAND_IN, reason="2.6.0 forgets who needs what; 3.9 keeps the files and denies it in its ballot")
@kinds("hh")
def test_files_wait_over_a_restart_of_the_master(clusters: Clusters, kinds: str) -> None:
    """Consumers are kept in `_gc_consumers`."""
    cluster, master, replica = pair(clusters, kinds, options={"checkpoint_count": 1})
    cluster.wait_follow(replica, master)
    replica.stop()
    fill(master, 0, 100)
    master.snapshot()
    master.kill()
    master.start()
    for turn in range(3):
        fill(master, 100 * turn, 100 * turn + 150)
        master.snapshot()
    replica.start()
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert "initiating rebootstrap" not in replica.log
