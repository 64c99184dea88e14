"""A replica that starts on an empty directory gets all there is, and goes on from there."""

from __future__ import annotations

import random

import pytest
from tests.replication.conftest import Clusters
from tests.replication.pairs import (
    DIRECTIONS,
    LOCAL_SPACE,
    OTHER_SPACE,
    SPACE,
    TEMPORARY_SPACE,
    fill,
    keys,
    master_of,
    pair,
    without_local,
)
from tests.support import iproto
from tests.support.cluster import USER, Node, kinds
from tests.support.iproto import create_space
from tests.support.peers import OK, VCLOCK, Replica, replicaset_uuid
from tests.support.process import ServerDiedError
from tests.support.subjects import transaction
from tests.support.traffic import Traffic


def some_of_everything(node: Node) -> None:
    """Every kind of definition and value that a 2.6.0 knows."""
    node.do("box.schema.space.create", "wide", {"id": OTHER_SPACE, "format": [["id", "unsigned"], ["k", "string"]]})
    node.do("box.space.wide:create_index", "pk", {"parts": [[2, "string"], [1, "unsigned"]]})
    node.do("box.space.wide:create_index", "hash", {"type": "hash", "parts": [[1, "unsigned"]]})
    node.do("box.schema.sequence.create", "steps", {"start": 5, "step": 3})
    assert node.call("box.sequence.steps:next") == 5
    node.do("box.schema.user.create", "reader", {"password": "read"})
    node.do("box.schema.user.grant", "reader", "read", "space", "wide")
    node.do("box.schema.role.create", "group")
    node.do("box.schema.user.grant", "reader", "group")
    node.do("box.schema.func.create", "nothing")
    dice = random.Random(3)
    for key in range(200):
        values = [key, f"k{key % 7}", None, True, -(2**63), 2**64 - 1, 1.5, dice.randbytes(dice.randrange(400))]
        node.conn.insert(OTHER_SPACE, [*values, {"map": [1, {"in": "it"}], 5: []}, "ж" * (key % 40)])


@kinds(*DIRECTIONS)
def test_a_new_replica_gets_all_there_is(clusters: Clusters, kinds: str) -> None:
    """Part of it lies in a snapshot, part in the journal; a part was deleted again."""
    cluster, master, replica = master_of(clusters, kinds)
    some_of_everything(master)
    fill(master, 0, 3000)
    master.snapshot()
    fill(master, 2500, 4000, "later ")
    for key in range(0, 4000, 10):
        master.conn.ask(iproto.DELETE, {iproto.SPACE_ID: SPACE, iproto.KEY: [key]})
    replica.start()
    cluster.settle()
    assert replica.id == 2
    assert len(keys(replica)) == 3600
    assert replica.call("box.sequence.steps:next") == 8
    with replica.connect() as conn:
        assert not conn.auth("reader", "read").failed
        assert len(conn.select(OTHER_SPACE)) == 200
    cluster.wait_follow(replica, master)
    fill(master, 4000, 4100)
    cluster.wait_caught_up(master)
    assert len(keys(replica)) == 3700


@kinds(*DIRECTIONS)
def test_a_replica_keeps_what_it_got(clusters: Clusters, kinds: str) -> None:
    """It has a snapshot of its own from the moment that it joined, and a journal: it starts without its master."""
    cluster, master, replica = master_of(clusters, kinds, options={"replication_connect_timeout": 0.5})
    fill(master, 0, 500)
    replica.start()
    cluster.settle()
    assert len(replica.files(".snap")) == 1
    fill(master, 500, 600)
    cluster.settle()
    replica.kill()
    fill(master, 600, 700)
    master.kill()
    replica.start()
    assert len(keys(replica)) == 600
    assert replica.id == 2
    master.start()
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert len(keys(replica)) == 700


@kinds(*DIRECTIONS)
def test_join_amid_writes(clusters: Clusters, kinds: str) -> None:
    """What is written between the snapshot and the last row of the join is neither lost nor done twice."""
    cluster, master, replica = master_of(clusters, kinds)
    fill(master, 0, 5000)
    with Traffic(cluster, [master], burst=20, pause=0.002) as traffic:
        traffic.wait_for_more(500)
        replica.start()
        traffic.wait_for_more(300)
        third = cluster.add(kinds[0], master)
        third.start()
        traffic.wait_for_more(300)
        traffic.finish()
    assert sorted(node.id for node in cluster) == [1, 2, 3]


@kinds(*DIRECTIONS)
def test_local_and_temporary_spaces_stay_at_home(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = master_of(clusters, kinds)
    iproto.create_space(master.conn, LOCAL_SPACE, "at_home", options={"group_id": 1})
    iproto.create_space(master.conn, TEMPORARY_SPACE, "brief", options={"temporary": True})
    for space in (SPACE, LOCAL_SPACE, TEMPORARY_SPACE):
        master.conn.insert(space, [1])
    replica.start()
    cluster.settle()
    for space in (SPACE, LOCAL_SPACE, TEMPORARY_SPACE):
        master.conn.insert(space, [2])
    cluster.settle()
    assert keys(replica) == [1, 2]
    assert keys(replica, LOCAL_SPACE) == keys(replica, TEMPORARY_SPACE) == []
    assert {row[2] for row in replica.rows(280)} >= {"at_home", "brief"}, "that they exist is known"
    replica.conn.insert(LOCAL_SPACE, [3])
    assert keys(master, LOCAL_SPACE) == [1, 2]
    cluster.settle()


@kinds(*DIRECTIONS)
def test_box_info_of_both_sides(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = pair(clusters, kinds)
    fill(master, 0, 100)
    cluster.settle()
    cluster.wait_follow(replica, master)
    cluster.wait(lambda: master.downstream(replica)["vclock"], "an acknowledgement")
    upstream, downstream = replica.upstream(master), master.downstream(replica)
    assert upstream["peer"] == master.uri(USER), "the address as it was configured, without the password"
    assert 0 <= upstream["idle"] < 5
    assert abs(upstream["lag"]) < 5
    assert "message" not in upstream
    assert downstream["status"] == "follow"
    assert 0 <= downstream["idle"] < 5
    cluster.wait(lambda: without_local(master.downstream(replica)["vclock"]) == master.vclock(), "all is acknowledged")
    info = master.info()
    assert info["replication"][2]["uuid"] == replica.uuid
    assert info["replication"][1]["lsn"] == info["lsn"] == master.vclock()[1]
    assert "upstream" not in info["replication"][2]
    assert "upstream" in replica.info()["replication"][1]
    assert replicaset_uuid(master) == replicaset_uuid(replica)
    uuid = replica.uuid
    replica.kill()
    cluster.wait(lambda: master.downstream(uuid)["status"] == "stopped", "the relay is gone")
    assert master.downstream(uuid)["message"]


@kinds("h", "t")
def test_what_a_join_sends(clusters: Clusters, kinds: str) -> None:
    """To an old replica: rows of the snapshot without LSN and without meta, then the registration as a row."""
    (master,) = clusters(kinds)
    if master.kind == "h":
        master.options["schema_version"] = "2.3.1"
    master.start()
    iproto.create_space(master.conn, SPACE, "t")
    fill(master, 0, 300)
    with Replica(master) as replica:
        snapshot, final = replica.join()
        assert {row.type for row in snapshot} == {iproto.INSERT}
        assert not any(row.header.get(iproto.LSN) for row in snapshot)
        spaces = [row.body[iproto.SPACE_ID] for row in snapshot]
        assert spaces == sorted(spaces), "a space is defined before its rows come"
        assert spaces.count(SPACE) == 300
        assert [row.body.get(iproto.TUPLE) for row in final] == [[2, replica.uuid]]
        assert replica.vclock == master.vclock()
        answer = replica.subscribe()
        assert answer.type == OK
        assert answer.header[iproto.REPLICA_ID] == 1
        assert {id: lsn for id, lsn in answer.body[VCLOCK].items() if id} == master.vclock()
        master.conn.insert(SPACE, [1000])
        assert replica.row().body[iproto.TUPLE] == [1000]


@pytest.mark.parametrize("size", [40, 5000])
@kinds(*DIRECTIONS)
def test_a_transaction_arrives_whole(clusters: Clusters, kinds: str, size: int) -> None:
    cluster, master, replica = pair(clusters, kinds)
    for round in range(3):
        body = [(iproto.REPLACE, {iproto.SPACE_ID: SPACE, iproto.TUPLE: [key, round]}) for key in range(size)]
        transaction(master.conn, body)
        seen = {row[1] for row in replica.rows(SPACE)}
        assert len(seen) <= 1, "half a transaction was visible"
    cluster.settle()
    assert {row[1] for row in replica.rows(SPACE)} == {2}
    replica.restart()
    assert {row[1] for row in replica.rows(SPACE)} == {2}


@kinds(*DIRECTIONS)
def test_large_tuples(clusters: Clusters, kinds: str) -> None:
    options = {"memtx_max_tuple_size": 12 << 20}
    cluster, master, replica = master_of(clusters, kinds, options=options)
    master.conn.insert(SPACE, [0, "a" * (10 << 20)])
    replica.start()
    cluster.settle()
    master.conn.insert(SPACE, [1, "b" * (10 << 20)])
    master.conn.insert(SPACE, [2, "c"])
    cluster.settle()
    replica.stop()
    master.conn.insert(SPACE, [3, "d" * (10 << 20)])
    replica.start()
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert [len(row[1]) for row in replica.rows(SPACE)] == [10 << 20, 10 << 20, 1, 10 << 20]


@kinds(*DIRECTIONS)
def test_far_behind_over_many_files(clusters: Clusters, kinds: str) -> None:
    """What the replica lacks lies in dozens of files of a master that was restarted amid them."""
    cluster, master, replica = pair(clusters, kinds, options={"wal_max_size": 64 << 10})
    replica.stop()
    fill(master, 0, 6000, noise=100)
    master.kill()
    master.start()
    fill(master, 3000, 9000, noise=100)
    assert len(master.files(".xlog")) > 5
    replica.start()
    cluster.wait_follow(replica, master)
    fill(master, 9000, 9100)
    cluster.settle()
    assert len(keys(replica)) == 9100


@kinds("th")
def test_a_master_with_a_space_of_an_engine_that_is_not_there(clusters: Clusters, kinds: str) -> None:
    """The newcomer ends and says which space it is; the master goes on."""
    cluster = clusters(kinds, mesh=False)
    master, replica = cluster
    master.start()
    master.do("box.schema.space.create", "old", {"engine": "vinyl"})
    replica.follow(master)
    with pytest.raises(ServerDiedError, match="Headwater does not support the engine 'vinyl' of space 'old'"):
        replica.start()
    create_space(master.conn, SPACE, "t")
