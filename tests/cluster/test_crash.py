"""Nodes that are killed while all of them write, and nodes that stand still for a while."""

from __future__ import annotations

import time

from tests.cluster.cases import cases
from tests.cluster.load import Load, others, wait_mesh, wait_noticed
from tests.replication.conftest import Clusters

STILL = 10.0
"""Seconds that a node is stopped for."""


@cases("hhh", "hth")
def test_each_node_killed_in_turn(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    with Load(cluster) as load:
        for node in cluster:
            load.wait_for_more(30)
            node.kill()
            load.wait_for_more(60, *others(node))
            node.start()
            wait_mesh(cluster)
        load.judge_healed()


@cases("hhh")
def test_killed_again_and_again_with_snapshots_between(clusters: Clusters, kinds: str) -> None:
    """Small journals: they rotate, are collected, and the peers' positions lie in older ones. Not with a 2.6.0, which
    forgets at each start who needs its files, and removes them (tarantool#5806, mended in 2.6.3)."""
    cluster = clusters(kinds, options={"wal_max_size": 1 << 16, "checkpoint_count": 1}).start()
    with Load(cluster) as load:
        for turn in range(2):
            for node in cluster:
                load.wait_for_more(20)
                other = others(node)[turn % 2]
                other.snapshot()
                node.kill()
                other.snapshot()
                node.start()
        load.judge_healed()


@cases("hhh", "hth", slow=["ttt"])
def test_node_stopped_for_ten_seconds(clusters: Clusters, kinds: str) -> None:
    """SIGSTOP, SIGCONT. Its peers notice, go on without it, and take it back; so does it with them."""
    cluster = clusters(kinds).start()
    still = cluster[1 if kinds == "hth" else 0]
    rest = others(still)
    with Load(cluster) as load:
        load.wait_for_more(30)
        load.traffic.hold(still)
        uuid = still.uuid
        begin = time.monotonic()
        still.pause()
        for node in rest:
            wait_noticed(cluster, node, uuid)
        load.wait_for_more(60, *rest)
        cluster.wait_caught_up(rest[0], rest[1])
        cluster.wait_caught_up(rest[1], rest[0])
        cluster.wait(lambda: time.monotonic() - begin >= STILL, "the end of the stop", STILL + 1)
        still.resume()
        load.traffic.go_on(still)
        load.judge_healed()
