"""`box.cfg{replication = …}` on a node that runs, orphans, and logins."""

from __future__ import annotations

import pytest
from tests.replication.conftest import Clusters
from tests.replication.pairs import DIRECTIONS, SPACE, fill, keys, master_of, pair, refused
from tests.support import iproto
from tests.support.cluster import PASSWORD, USER, Cluster, Node, kinds, later_than_2_6
from tests.support.iproto import create_space
from tests.support.peers import Master, idle, replicaset_uuid
from tests.support.subjects import STAND_IN

READONLY, CFG = 7, 59


@kinds(*DIRECTIONS)
def test_to_stop_following_and_to_begin_again(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = pair(clusters, kinds)
    replica.configure(replication=[])
    assert replica.upstream(master) == {}
    cluster.wait(lambda: master.downstream(replica)["status"] == "stopped", "the relay has ended")
    fill(master, 0, 300)
    assert keys(replica) == []
    replica.configure(replication=[master.uri()])
    cluster.wait_follow(replica, master)
    cluster.settle()
    assert len(keys(replica)) == 300


@kinds("hht", "tth", "hhh")
def test_one_master_in_place_of_another(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    one, other, replica = cluster
    create_space(one.conn, SPACE, "t")
    cluster.settle()
    replica.configure(replication=[one.uri()])
    assert replica.upstream(other) == {}
    replica.configure(replication=[other.uri()])
    assert replica.upstream(one) == {}
    fill(one, 0, 100)
    cluster.settle()
    replica.configure(replication=[one.uri(), other.uri(), replica.uri()])
    cluster.wait_follow(replica, one, other)
    fill(other, 100, 200)
    cluster.settle()


@later_than_2_6
@kinds("h", "hh")
def test_a_healthy_connection_is_kept(clusters: Clusters, kinds: str) -> None:
    """A master that is only named beside others, or again, is not connected to anew."""
    cluster = clusters(kinds).start()
    node, *others = cluster
    uuid = replicaset_uuid(node)
    with Master(uuid, idle) as one, Master(uuid, idle, id=3) as two:
        for id, master in ((11, one), (12, two)):
            node.conn.insert(320, [id, master.uuid])
        mesh = [other.uri() for other in cluster] if others else []
        node.configure(replication=[*mesh, one.uri])
        cluster.wait_upstream(node, one.uuid, "follow")
        node.configure(replication=[one.uri, *mesh])
        node.configure(replication=[*mesh, one.uri, two.uri])
        cluster.wait_upstream(node, two.uuid, "follow")
        node.configure(replication=[*mesh, one.uri])
        assert node.upstream(two.uuid) == {}
        assert node.upstream(one.uuid)["status"] == "follow"
        assert len(one.asked(iproto.SUBSCRIBE)) == 1
        node.configure(replication=[])


@kinds("hh", "ht", "th")
def test_two_addresses_of_one_node(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = pair(clusters, kinds)
    with pytest.raises(iproto.ServerError, match="duplicate connection to the same replica") as caught:
        replica.configure(replication=[master.uri(), master.uri().replace("127.0.0.1", "localhost")])
    assert caught.value.code == CFG
    replica.configure(replication=[master.uri()])
    cluster.wait_follow(replica, master)


def lone_restart(cluster: Cluster, connect_timeout: float) -> tuple[Node, Node]:
    """Two that follow each other were both stopped; the first is started alone, and waits for so long."""
    one, other = cluster
    cluster.start()
    create_space(one.conn, SPACE, "t")
    cluster.settle()
    one.stop()
    other.stop()
    one.options["replication_connect_timeout"] = connect_timeout
    one.start()
    return one, other


@kinds("ht", "th", "hh")
def test_started_while_its_peer_is_down(clusters: Clusters, kinds: str) -> None:
    """With a quorum of connections that it cannot have it is an orphan, read-only, until the peer is back."""
    cluster = clusters(kinds, options={"replication_connect_quorum": 2})
    one, other = lone_restart(cluster, 0.5)
    info = one.info()
    assert (info["status"], info["ro"]) == ("orphan", True)
    if not one.is_old:
        assert info["ro_reason"] == "orphan"
    code, message = refused(one, SPACE, [1])
    assert (code, "read-only" in message) == (READONLY, True)
    assert keys(one) == [], "it may be read"
    other.start()
    cluster.wait(lambda: one.info()["status"] == "running", "an orphan no more")
    assert one.info()["ro"] is False
    one.conn.insert(SPACE, [1])
    cluster.settle()


@kinds("ht", "th", "hh")
def test_an_orphan_that_is_told_to_follow_nobody(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds, options={"replication_connect_quorum": 2})
    one, _ = lone_restart(cluster, 0.3)
    assert one.info()["status"] == "orphan"
    one.configure(replication=[])
    assert one.info()["status"] == "running"
    one.conn.insert(SPACE, [1])


@kinds("ht", "th", "hh")
def test_a_quorum_of_none_waits_for_nobody(clusters: Clusters, kinds: str) -> None:
    options = {"replication_connect_quorum": 0, "replication_connect_timeout": 100}
    cluster = clusters(kinds, mesh=False)
    one, other = cluster
    one.start()
    create_space(one.conn, SPACE, "t")
    other.follow(one).start()
    cluster.settle()
    for node in cluster:
        node.options.update(options | ({} if node.is_old else {"bootstrap_strategy": "legacy"}))
        node.follow(one, other)
        node.stop()
    one.start(timeout=20)
    assert (one.info()["status"], one.info()["ro"]) == ("running", False)
    one.conn.insert(SPACE, [1])
    other.start()
    cluster.wait_follow(one, other)
    cluster.settle()


@pytest.mark.skipif(STAND_IN, reason="a Tarantool waits replication_connect_timeout for them")
@kinds("hh", "hhh")
def test_by_default_no_restart_waits_for_peers_that_are_down(clusters: Clusters, kinds: str) -> None:
    """bootstrap_strategy 'auto': recovery needs no quorum."""
    cluster = clusters(kinds, options={"replication_connect_timeout": 100}).start()
    one, *others = cluster
    create_space(one.conn, SPACE, "t")
    cluster.settle()
    for node in cluster:
        node.stop()
    one.start(timeout=20)
    assert (one.info()["status"], one.info()["ro"]) == ("running", False)
    one.conn.insert(SPACE, [1])
    for node in others:
        node.start()
        cluster.wait_follow(one, node)
    cluster.settle()


# ---- logins


@kinds(*DIRECTIONS)
def test_a_wrong_password_is_tried_until_it_is_right(clusters: Clusters, kinds: str) -> None:
    """The replica waits in its start: an operator may set the password meanwhile."""
    cluster, master, replica = master_of(clusters, kinds)
    replica.follow(master.uri("joiner:first"))
    cluster.spawn(replica)
    cluster.wait_log(replica, r"(User|user).*(not found|incorrect|password)")
    master.do("box.schema.user.create", "joiner", {"password": "second"})
    cluster.wait_log(replica, r"(?i)(incorrect password|password.*incorrect|creds|User not found or supplied cred)")
    master.do("box.schema.user.passwd", "joiner", "first")
    master.rule("box.schema.user.grant", "joiner", "replication")
    cluster.wait_ready([replica])
    cluster.settle()
    cluster.wait_follow(replica, master)


@kinds(*DIRECTIONS)
def test_a_password_that_is_changed_does_no_harm_to_who_is_there(clusters: Clusters, kinds: str) -> None:
    """The next connection needs the new one; `box.cfg{replication = …}` gives it."""
    cluster, master, replica = pair(clusters, kinds)
    master.do("box.schema.user.passwd", USER, "other")
    fill(master, 0, 100)
    cluster.settle()
    master.kill()
    master.start()
    cluster.wait_upstream(replica, master, ("disconnected", "loading"), "password" if master.is_old else "credentials")
    fill(master, 100, 200)
    replica.configure(replication=[master.uri(f"{USER}:other")])
    cluster.wait_follow(replica, master)
    cluster.settle()
    master.do("box.schema.user.passwd", USER, PASSWORD)


@kinds(*DIRECTIONS)
def test_a_user_without_the_right_is_tried_until_it_has_it(clusters: Clusters, kinds: str) -> None:
    cluster, master, replica = master_of(clusters, kinds)
    master.do("box.schema.user.create", "weak", {"password": "weak"})
    replica.follow(master.uri("weak:weak"))
    cluster.spawn(replica)
    cluster.wait_log(replica, r"(?i)access.*denied for user 'weak'")
    master.rule("box.schema.user.grant", "weak", "replication")
    cluster.wait_ready([replica])
    cluster.settle()
