"""A wall clock of one node that is set back and forth while all write. Nothing depends on it but what is told."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.cases import cases
from tests.cluster.load import Load, command, others, wait_mesh
from tests.replication.conftest import Clusters
from tests.support.clocks import MovedClock

HOUR = 3600.0


@cases("hhh", "hth")
def test_clock_set_back_and_forward(clusters: Clusters, kinds: str, tmp_path: Path) -> None:
    cluster = clusters(kinds)
    node = cluster[0]
    clock = MovedClock(node, tmp_path)
    cluster.start()
    with Load(cluster) as load:
        load.wait_for_more(30)
        for shift in (-HOUR, HOUR):
            clock.move(shift)
            load.wait_for_more(60)
            for each in cluster:
                cluster.wait_caught_up(each)
            wait_mesh(cluster)
            for other in others(node):
                cluster.wait(
                    lambda other=other, shift=shift: abs(other.upstream(node)["lag"] + shift) < 60,
                    f"{other} sees that the clock of {node} is wrong",
                )
        clock.move(0)
        load.judge_healed()


@cases("hhh")
def test_status_names_the_node_with_the_wrong_clock(clusters: Clusters, kinds: str, tmp_path: Path) -> None:
    cluster = clusters(kinds)
    node = cluster[0]
    clock = MovedClock(node, tmp_path)
    cluster.start()
    with Load(cluster) as load:
        clock.move(-HOUR)
        load.wait_for_more(30)
        address = f"{node.host}:{node.server.port}"

        def told() -> bool:
            text, _ = command(cluster, "status", address).communicate(timeout=60)
            return f"follows {address} with a lag of 3" in text

        cluster.wait(told, "headwater status names it", interval=0.2)
        clock.move(0)
        load.judge_healed()
