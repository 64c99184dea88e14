"""The same cuts made by the kernel: a namespace for each node, and `iptables … DROP`."""

from __future__ import annotations

from tests.cluster.cases import cases
from tests.cluster.conftest import NetworkClusters
from tests.cluster.load import Load, others, wait_noticed


@cases("hth", slow=["hhh"])
def test_packets_dropped_one_way_and_then_all(filtered: NetworkClusters, kinds: str) -> None:
    cluster = filtered(kinds).start()
    one, other, third = cluster
    with Load(cluster) as load:
        load.wait_for_more(30)
        cluster.network.cut(one, other)
        wait_noticed(cluster, one, other)
        wait_noticed(cluster, other, one)
        load.wait_for_more(60)
        for node in cluster:
            cluster.wait_caught_up(node)
        cluster.network.isolate(third)
        wait_noticed(cluster, third, *others(third))
        load.wait_for_more(60)
        cluster.network.heal()
        load.judge_healed()
