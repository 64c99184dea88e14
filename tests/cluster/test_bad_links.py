"""Links that are slow, lose packets, bring them twice and out of order, while all nodes write."""

from __future__ import annotations

from tests.cluster.cases import cases
from tests.cluster.conftest import NetworkClusters
from tests.cluster.load import Load

DELAY = {"delay": 0.03, "jitter": 0.04}
"""50 ms and 20 more or less, each way."""


@cases("hhh", "hth")
def test_delay_and_loss(linked: NetworkClusters, kinds: str) -> None:
    """Rows arrive all the while: nobody is so impatient that nothing gets through."""
    cluster = linked(kinds, options={"replication_timeout": 1}).start()
    network = cluster.network
    with Load(cluster) as load:
        load.wait_for_more(30)
        network.trouble(cluster, loss=0.1, **DELAY)
        for _ in range(3):
            load.wait_for_more(20)
            for node in cluster:
                cluster.wait_caught_up(node)
        network.heal()
        load.judge_healed()


@cases(slow=["hhh", "hth"])
def test_links_so_bad_that_connections_break(linked: NetworkClusters, kinds: str) -> None:
    """Every heartbeat is due in 0.2 s, and a third of the packets is lost: it goes forward by reconnecting."""
    cluster = linked(kinds).start()
    network = cluster.network
    with Load(cluster) as load:
        load.wait_for_more(30)
        network.trouble(cluster, loss=0.3, twice=0.1, **DELAY)
        for _ in range(5):
            load.wait_for_more(20)
            for node in cluster:
                cluster.wait_caught_up(node, timeout=120)
        network.heal()
        load.judge_healed()
