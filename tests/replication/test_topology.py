"""Chains, rings and stars: a row goes on from every node that got it."""

from __future__ import annotations

from tests.replication.conftest import Clusters
from tests.replication.pairs import SPACE, fill, keys, pair, refused
from tests.support.cluster import Cluster, kinds, later_than_2_6
from tests.support.iproto import create_space
from tests.support.traffic import Traffic

TRIPLES = ("hht", "tth", "hth", "hhh")
READONLY = 7


def chain(clusters: Clusters, kinds: str) -> Cluster:
    """Each follows the one before it."""
    cluster, _, middle = pair(clusters, kinds[:2], later=kinds[2:])
    for kind in kinds[2:]:
        cluster.add(kind, middle).start()
        middle = cluster.nodes[-1]
    return cluster


@kinds(*TRIPLES)
def test_a_chain(clusters: Clusters, kinds: str) -> None:
    """The last one is registered by the middle one: the first does not know of it, and need not."""
    cluster = chain(clusters, kinds)
    first, middle, last = cluster
    fill(first, 0, 500)
    cluster.wait_caught_up(first)
    assert len(keys(last)) == 500
    assert "replication" in last.info()
    assert [row[0] for row in first.rows(320)] == [1, 2]
    middle.kill()
    fill(first, 500, 700)
    middle.start()
    cluster.wait_caught_up(first)
    cluster.wait_follow(last, middle)
    assert len(keys(last)) == 700
    last.kill()
    fill(first, 700, 900)
    last.start()
    cluster.wait_caught_up(first)
    cluster.settle(middle, last)


@kinds(*TRIPLES)
def test_a_ring(clusters: Clusters, kinds: str) -> None:
    """Each follows only the one before it, the first the last: a row ends where it began."""
    cluster = clusters(kinds, mesh=False)
    first, second, third = cluster
    first.start()
    for node in (second, third):
        node.follow(first).start()
    cluster.settle()
    for node, master in ((first, third), (third, second)):
        node.configure(replication=[master.uri()])
        node.follow(master)
    with Traffic(cluster) as traffic:
        traffic.wait_for_more(100)
        second.kill()
        traffic.wait_for_more(100, first, third)
        second.start()
        traffic.wait_for_more(50)
        traffic.finish()
    for node, master in ((first, third), (second, first), (third, second)):
        cluster.wait_follow(node, master)


@kinds("hht", "tth", "hhh")
def test_a_star(clusters: Clusters, kinds: str) -> None:
    """One that all follow and that follows all."""
    cluster = clusters(kinds, mesh=False)
    middle, *others = cluster
    middle.start()
    for node in others:
        node.follow(middle).start()
    middle.configure(replication=[node.uri() for node in others])
    cluster.settle()
    with Traffic(cluster) as traffic:
        traffic.wait_for_more(150)
        traffic.finish()


@kinds("ht", "th", "hh")
def test_a_node_that_may_not_be_written_to_applies_what_comes(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds)
    one, other = cluster
    cluster.start()
    create_space(one.conn, SPACE, "t")
    cluster.settle()
    other.configure(read_only=True)
    assert other.info()["ro"] is True
    code, message = refused(other, SPACE, [1])
    assert code == READONLY
    assert "read-only" in message
    if not other.is_old:
        assert other.info()["ro_reason"] == "config"
    fill(one, 0, 200)
    cluster.settle()
    assert len(keys(other)) == 200
    other.configure(read_only=False)
    other.conn.insert(SPACE, [1000])
    cluster.settle()


@kinds("hhh")
@later_than_2_6
def test_made_where_an_operator_says(clusters: Clusters, kinds: str) -> None:
    """`bootstrap_strategy: supervised`: told from the node's own machine, while it has neither data nor users."""
    cluster = clusters(kinds, options={"bootstrap_strategy": "supervised", "replication_connect_timeout": 30})
    chosen = cluster[1]
    cluster.spawn()

    def told() -> bool:
        with chosen.connect(2) as connection:
            connection.call("box.ctl.make_bootstrap_leader")
        return True

    cluster.wait(told, "it takes the order")
    cluster.wait_ready(cluster.nodes)
    cluster.settle()
    assert [node.id == 1 for node in cluster] == [False, True, False]
