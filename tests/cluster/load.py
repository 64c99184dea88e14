"""What every test of a set under faults does: writes on all nodes that go on through the fault, and in the end the
judgement.

    with Load(cluster) as load:
        load.wait_for_more(100)
        ...                         # the fault, and its end
        load.judge_healed()
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Self

from tests.support.cluster import Cluster, Node
from tests.support.headwater import ROOT
from tests.support.ledger import Ledger
from tests.support.traffic import Traffic


class Load:
    """Bursts and transactions (`traffic`), and single writes of which each answer is kept (`ledger`)."""

    def __init__(self, cluster: Cluster, *, spared: Sequence[Node] = (), seed: int = 1) -> None:
        """`spared` get no bursts: who refuses one of many writes in flight cannot be judged by them."""
        self.cluster = cluster
        self.traffic = Traffic(cluster, [node for node in cluster if node not in spared], seed=seed)
        self.ledger = Ledger(cluster)

    def __enter__(self) -> Self:
        self.ledger.create_space()
        self.traffic.create_spaces()
        self.ledger.start()
        self.traffic.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.traffic.__exit__()
        self.ledger.__exit__()

    def wait_for_more(self, count: int, *nodes: Node, timeout: float = 30.0) -> None:
        """Until each of the nodes has acknowledged so many more bursts' writes, and one of the others."""
        wanted = [node for node in nodes or self.cluster if node.name in self.traffic.lines]
        self.traffic.wait_for_more(count, *wanted, timeout=timeout)
        self.ledger.wait_for_more(1, *(nodes or self.cluster), timeout=timeout)

    def judge_healed(self, timeout: float = 30.0) -> None:
        """The set has come to itself: everybody follows everybody while writes go on, and after them all nodes hold the
        same, all that was acknowledged and nothing that was refused. Nobody does anything for it."""
        wait_mesh(self.cluster, timeout=timeout)
        self.wait_for_more(20)
        self.traffic.stop()
        self.ledger.stop()
        self.cluster.settle(timeout=timeout)
        self.traffic.judge()
        self.ledger.judge()
        ask_operators_commands(self.cluster)


def others(node: Node) -> list[Node]:
    return [other for other in node.cluster if other is not node]


def wait_mesh(cluster: Cluster, *nodes: Node, timeout: float = 30.0) -> None:
    """Until each of the nodes follows each other one."""
    chosen = nodes or cluster.nodes
    for node in chosen:
        cluster.wait_follow(node, *(other for other in chosen if other is not node), timeout=timeout)


def wait_noticed(cluster: Cluster, node: Node, *peers: Node | str, timeout: float = 20.0) -> None:
    """Until the node knows that nothing comes from these peers any more. Who cannot be asked is named by its UUID."""
    for peer in peers:
        cluster.wait(
            lambda peer=peer: node.upstream(peer).get("status") not in ("follow", "sync"),
            f"{node} misses {peer}",
            timeout,
        )


def command(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    """`headwater …`, from where the first node is."""
    return subprocess.Popen(
        [*cluster[0].server.wrapper, sys.executable, "-m", "headwater.cli", *words],
        cwd=ROOT,
        env={**cluster[0].server.env(), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ask_operators_commands(cluster: Cluster) -> None:
    """`headwater diff` finds no difference between the first node and any other, `headwater status` no trouble."""
    addresses = [f"{node.host}:{node.server.port}" for node in cluster]
    asked = [command(cluster, "diff", addresses[0], other) for other in addresses[1:]]
    asked.append(command(cluster, "status", addresses[0]))
    for process in asked:
        text, _ = process.communicate(timeout=60)
        assert process.returncode == 0, f"{process.args}:\n{text}\n{cluster.report()}"
        last = text.rstrip().splitlines()[-1]
        assert last.startswith("same: ") or last == "healthy", text
