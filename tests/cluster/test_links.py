"""Links that are cut while all nodes write: one way, both ways, one node from all others, in a ring.

A link that is cut one way carries no connection: no ACK of TCP comes back. Rows go around by the third node, if there
is a way. All nodes go on taking writes, and come together when the links are whole again.
"""

from __future__ import annotations

from tests.cluster.cases import cases
from tests.cluster.conftest import NetworkClusters
from tests.cluster.load import Load, others, wait_noticed
from tests.support.network import NetworkCluster


def rows_reach_all(cluster: NetworkCluster) -> None:
    """What each node has now comes to every other one."""
    for node in cluster:
        cluster.wait_caught_up(node)


@cases(("hhh", 0, 1), ("hth", 0, 1), ("hth", 1, 0), names="kinds, source, target")
def test_link_cut_one_way(linked: NetworkClusters, kinds: str, source: int, target: int) -> None:
    cluster = linked(kinds).start()
    one, other = cluster[source], cluster[target]
    with Load(cluster) as load:
        load.wait_for_more(30)
        cluster.network.cut(one, other)
        wait_noticed(cluster, one, other)
        wait_noticed(cluster, other, one)
        load.wait_for_more(60)
        rows_reach_all(cluster)
        cluster.network.heal()
        load.judge_healed()


@cases("hth", slow=["hhh"])
def test_link_cut_both_ways(linked: NetworkClusters, kinds: str) -> None:
    cluster = linked(kinds).start()
    with Load(cluster) as load:
        load.wait_for_more(30)
        cluster.network.part(cluster[0], cluster[1])
        wait_noticed(cluster, cluster[0], cluster[1])
        wait_noticed(cluster, cluster[1], cluster[0])
        load.wait_for_more(60)
        rows_reach_all(cluster)
        cluster.network.heal()
        load.judge_healed()


@cases(("hhh", 0), ("hth", 1), slow=[("hth", 0), ("hhh", 1)], names="kinds, which")
def test_one_node_cut_from_all_others(linked: NetworkClusters, kinds: str, which: int) -> None:
    cluster = linked(kinds).start()
    alone = cluster[which]
    rest = others(alone)
    with Load(cluster) as load:
        load.wait_for_more(30)
        cluster.network.isolate(alone)
        wait_noticed(cluster, alone, *rest)
        for node in rest:
            wait_noticed(cluster, node, alone)
        load.wait_for_more(60)
        cluster.wait_caught_up(rest[0], rest[1])
        cluster.wait_caught_up(rest[1], rest[0])
        cluster.network.heal()
        load.judge_healed()


@cases("hth", slow=["hhh"])
def test_ring_of_links_cut_one_way(linked: NetworkClusters, kinds: str) -> None:
    """Nobody is left with a whole link."""
    cluster = linked(kinds).start()
    with Load(cluster) as load:
        load.wait_for_more(30)
        for number, node in enumerate(cluster):
            cluster.network.cut(node, cluster[(number + 1) % len(cluster.nodes)])
        for node in cluster:
            wait_noticed(cluster, node, *others(node))
        load.wait_for_more(60)
        cluster.network.heal()
        load.judge_healed()


@cases(slow=["hhhhh", "hthth"])
def test_ring_of_majorities(linked: NetworkClusters, kinds: str) -> None:
    """Each of five nodes sees its two neighbours only: each has another majority, and rows go around."""
    cluster = linked(kinds).start()
    count = len(cluster.nodes)
    with Load(cluster) as load:
        load.wait_for_more(30)
        far = [(node, cluster[(number + 2) % count]) for number, node in enumerate(cluster)]
        for one, other in far:
            cluster.network.part(one, other)
        for one, other in far:
            wait_noticed(cluster, one, other)
            wait_noticed(cluster, other, one)
        load.wait_for_more(60)
        rows_reach_all(cluster)
        cluster.network.heal()
        load.judge_healed()
