"""Who belongs to a replica set: UUIDs, ids, names, and those that leave."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.replication.conftest import Clusters
from tests.replication.pairs import DIRECTIONS, SPACE, fill, keys, master_of, pair, refused
from tests.support.cluster import kinds, later_than_2_6
from tests.support.iproto import ServerError, create_space
from tests.support.peers import OK, Master, Replica, idle, replicaset_uuid
from tests.support.process import ServerDiedError

READONLY, CFG, REPLICA_MAX, DUPLICATE_KEY, REPLICASET_UUID_MISMATCH, READ_ONLY_ID = 7, 59, 73, 3, 63, 128


@kinds(*DIRECTIONS)
def test_nodes_of_two_sets_do_not_mix(clusters: Clusters, kinds: str) -> None:
    """It stops for good: no new connection would mend it."""
    cluster = clusters(kinds, mesh=False, options={"replication_sync_timeout": 0.5})
    one, other = cluster
    one.start()
    create_space(one.conn, SPACE, "t")
    fill(one, 0, 10)
    other.start()
    create_space(other.conn, SPACE, "t")
    other.configure(replication=[one.uri()])
    if one.is_old:
        cluster.wait_log(other, f"{other.uuid} is not registered with replica set {replicaset_uuid(one)}")
    else:
        expected, got = replicaset_uuid(one), replicaset_uuid(other)
        cluster.wait_log(other, f"UUID mismatch: expected {expected}, got {got}|expected {got}, got {expected}")
    assert keys(other) == []
    other.configure(replication=[])


@kinds(*DIRECTIONS)
def test_a_new_node_that_expects_another_set(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = master_of(clusters, kinds)
    wanted = str(uuid4())
    replica.options["replicaset_uuid"] = wanted
    cluster.spawn(replica)
    with pytest.raises(ServerDiedError, match="UUID mismatch") as caught:
        cluster.wait_ready([replica])
    assert replicaset_uuid(master) in str(caught.value)
    assert wanted in str(caught.value)


@kinds("h", "t")
def test_uuids_that_are_given(clusters: Clusters, kinds: str) -> None:
    (node,) = cluster = clusters(kinds)
    given = {"instance_uuid": str(uuid4()), "replicaset_uuid": str(uuid4())}
    node.options.update(given)
    node.start()
    assert (node.uuid, replicaset_uuid(node)) == tuple(given.values())
    node.stop()
    node.options["instance_uuid"] = str(uuid4())
    cluster.spawn()
    with pytest.raises(ServerDiedError, match=r"(?i)uuid mismatch"):
        cluster.wait_ready([node])


@kinds("h", "t")
def test_one_subscription_of_a_uuid_at_a_time(clusters: Clusters, kinds: str) -> None:
    """As long as the first is alive; when it is gone the second is welcome."""
    (master,) = cluster = clusters(kinds)
    master.start()
    with Replica(master) as first:
        first.join()
        first.subscribe()
        cluster.wait(lambda: master.downstream(first.uuid).get("status") == "follow", "it is fed")
        first.acknowledge()
        with Replica(master, first.uuid) as second:
            second.ask_subscribe(first.vclock)
            with pytest.raises(ServerError, match="duplicate connection with the same replica UUID") as caught:
                second.row()
            assert caught.value.code == CFG

    def is_welcome() -> bool:
        with Replica(master, first.uuid) as third:
            return third.subscribe(first.vclock).type == OK

    cluster.wait(is_welcome, "the place is free")


@kinds(*DIRECTIONS)
def test_the_row_of_a_member(clusters: Clusters, kinds: str) -> None:
    """The lowest free id; no UUID twice; nobody removes himself."""
    cluster, master, replica = pair(clusters, kinds)
    stranger = str(uuid4())
    with pytest.raises(ServerError) as caught:
        master.conn.insert(320, [5, replica.uuid])
    assert caught.value.code == DUPLICATE_KEY
    with pytest.raises(ServerError) as caught:
        master.do("box.space._cluster:delete", [master.id])
    assert caught.value.code == READ_ONLY_ID
    master.conn.insert(320, [3, stranger])
    third = cluster.add(kinds[1], master, replica)
    third.start()
    assert third.id == 4
    cluster.wait_caught_up(master)
    assert [row[:2] for row in replica.rows(320)] == [
        [1, master.uuid],
        [2, replica.uuid],
        [3, stranger],
        [4, third.uuid],
    ]
    with pytest.raises(ServerError) as caught:
        master.conn.insert(320, [32, str(uuid4())])
    assert caught.value.code == REPLICA_MAX


@kinds(*DIRECTIONS)
def test_a_full_set(clusters: Clusters, kinds: str) -> None:
    """31 members; the next one is refused, an anonymous one is not."""
    cluster, master, replica = master_of(clusters, kinds)
    for id in range(2, 32):
        master.conn.insert(320, [id, str(uuid4())])
    cluster.spawn(replica)
    cluster.wait_log(replica, r"(?i)replica count limit reached")
    replica.kill()
    for path in replica.files(""):
        if path.suffix in (".snap", ".xlog", ".inprogress"):
            path.unlink()
    replica.options.update({"read_only": True, "replication_anon": True})
    replica.start()
    fill(master, 0, 10)
    cluster.wait_caught_up(master)
    assert len(keys(replica)) == 10


@kinds(*DIRECTIONS)
def test_who_is_expelled_stops(clusters: Clusters, kinds: str) -> None:
    """gh_10088: it learns of it, follows nobody any more, and says why."""
    cluster, master, replica = pair(clusters, kinds)
    fill(master, 0, 10)
    cluster.settle()
    master.do("box.space._cluster:delete", [2])
    assert [row[0] for row in master.rows(320)] == [1]
    cluster.wait_upstream(replica, master, "stopped", "The local instance id 2 is read-only")
    fill(master, 10, 20)
    assert len(keys(replica)) == 10
    if not replica.is_old:
        assert not replica.info()["id"]
        assert [row[0] for row in replica.rows(320)] == [1]
    if replica.kind == "h":
        assert replica.info()["ro_reason"] == "expelled"
        code, message = refused(replica, SPACE, [1000])
        assert (code, "it was removed from its replica set" in message) == (READONLY, True)
    uuid = replica.uuid
    replica.stop()
    fresh = cluster.add(kinds[1], master)
    fresh.start()
    assert fresh.id == 2, "its id is free again"
    assert fresh.uuid != uuid
    fill(master, 20, 30)
    cluster.settle(master, fresh)
    fresh.conn.insert(SPACE, [1000])
    master.configure(replication=[fresh.uri()])
    cluster.settle(master, fresh)


@kinds(*DIRECTIONS)
def test_an_id_given_anew_goes_on_with_the_numbers_of_the_one_before(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    one, other = sorted(cluster, key=lambda node: node.id)
    create_space(one.conn, SPACE, "t")
    cluster.settle()
    for key in range(5):
        other.conn.insert(SPACE, [key])
    cluster.settle()
    other.stop()
    one.configure(replication=[])
    one.do("box.space._cluster:delete", [2])
    fresh = cluster.add(other.kind, one)
    fresh.start()
    assert fresh.id == 2
    cluster.settle(one, fresh)
    assert one.vclock()[2] == 5, "what the one before has written stays counted"
    one.configure(replication=[fresh.uri()])
    fresh.conn.insert(SPACE, [100])
    cluster.settle(one, fresh)
    assert one.vclock()[2] == 6
    assert keys(one) == [0, 1, 2, 3, 4, 100]


# ---- names


@later_than_2_6
@kinds("hh", "hhh")
def test_names(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds)
    for number, node in enumerate(cluster):
        names = {"instance_name": f"node-{number}", "replicaset_name": "set-a", "cluster_name": "all"}
        node.options.update(names)
    cluster.start()
    assert sorted(row[2] for row in cluster[0].rows(320)) == sorted(node.options["instance_name"] for node in cluster)
    settings = {row[0]: row[1] for row in cluster[1].rows(272)}
    assert (settings["replicaset_name"], settings["cluster_name"]) == ("set-a", "all")
    for node in cluster:
        info = node.info()
        assert info["name"] == node.options["instance_name"]
        assert info["replicaset"]["name"] == "set-a"
        assert info["cluster"]["name"] == "all"
        for member in info["replication"].values():
            assert member["name"] == next(row[2] for row in node.rows(320) if row[0] == member["id"])
    cluster[1].restart()
    cluster.settle()


@later_than_2_6
@kinds("hh")
def test_a_name_is_given_to_one_at_a_time(clusters: Clusters, kinds: str) -> None:
    """A newcomer takes the place of a member of its name, id and all, once that one is gone."""
    cluster, master, replica = master_of(clusters, kinds)
    replica.options["instance_name"] = "same"
    replica.start()
    first = replica.uuid
    cluster.wait(lambda: master.downstream(replica).get("status") == "follow", "it is fed")
    newcomer = cluster.add(kinds[1], master, instance_name="same")
    cluster.spawn(newcomer)
    cluster.wait_log(newcomer, r"(?i)duplicate replica name|name.*already|INSTANCE_NAME_DUPLICATE")
    newcomer.kill()
    replica.kill()
    cluster.wait(lambda: master.downstream(first).get("status") == "stopped", "it is gone")
    newcomer.start()
    assert newcomer.id == 2
    assert newcomer.uuid != first
    assert [row[:3] for row in master.rows(320)][1] == [2, newcomer.uuid, "same"]


@later_than_2_6
@kinds("hh")
def test_a_set_of_another_name(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds)
    one, other = cluster
    for node in cluster:
        node.options["replicaset_name"] = "right"
    cluster.start()
    other.stop()
    other.options["replicaset_name"] = "wrong"
    cluster.spawn(other)
    with pytest.raises(ServerDiedError, match=r"(?i)name mismatch"):
        cluster.wait_ready([other])
    assert one.info()["replicaset"]["name"] == "right"


@kinds("h", "t")
def test_a_master_that_is_of_another_set(clusters: Clusters, kinds: str) -> None:
    """Its answer to SUBSCRIBE tells it."""
    (node,) = cluster = clusters(kinds)
    node.start()
    foreign = str(uuid4())
    with Master(foreign, idle) as master:
        node.conn.insert(320, [2, master.uuid])
        node.configure(replication=[master.uri], replication_sync_timeout=0.3)
        message = cluster.wait_upstream(node, master.uuid, "stopped", "UUID mismatch")
        assert foreign in message
        node.configure(replication=[])
