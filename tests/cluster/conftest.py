"""Replica sets of real processes under faults. A test that fails shows the ends of all logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.replication.conftest import Clusters, clusters, pytest_runtest_makereport
from tests.support.firewall import Firewall
from tests.support.network import Cuts, Network, NetworkCluster

__all__ = ["clusters", "filtered", "linked", "pytest_runtest_makereport"]


class NetworkClusters(Clusters):
    """Sets whose nodes have namespaces of their own."""

    def __init__(self, directory: Path, network: Cuts) -> None:
        super().__init__(directory)
        self.network = network

    def __call__(self, kinds: str, **options: Any) -> NetworkCluster:
        cluster = self.network.cluster(self.directory / f"set{len(self.made) + 1}", kinds, **options)
        self.made.append(cluster)
        return cluster


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[NetworkClusters]:
    """On links in user space, that can be slow and lossy, too."""
    with Network() as network:
        made = NetworkClusters(tmp_path, network)
        yield made
        made.end()


@pytest.fixture
def filtered(tmp_path: Path) -> Iterator[NetworkClusters]:
    """On links of the kernel's, that iptables cuts."""
    with Firewall() as network:
        made = NetworkClusters(tmp_path, network)
        yield made
        made.end()
