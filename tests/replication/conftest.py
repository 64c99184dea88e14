"""Replication. A test that fails with a cluster in hand shows the ends of all its logs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster
from tests.support.fixtures import module_servers, servers

__all__ = ["module_servers", "servers"]

MakeCluster = Callable[..., Cluster]


class Clusters:
    """Makes clusters below one directory and ends all of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made: list[Cluster] = []

    def __call__(self, kinds: str, **options: Any) -> Cluster:
        cluster = Cluster(self.directory / f"set{len(self.made) + 1}", kinds, **options)
        self.made.append(cluster)
        return cluster

    def end(self) -> None:
        for cluster in self.made:
            cluster.end()


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Clusters]:
    made = Clusters(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def module_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    made = Clusters(tmp_path_factory.mktemp("clusters"))
    yield made
    made.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed:
        for value in getattr(item, "funcargs", {}).values():
            made = value.made if isinstance(value, Clusters) else [value] if isinstance(value, Cluster) else []
            for cluster in made:
                report.sections.append((f"nodes of {cluster.directory}", cluster.report()))
    return report
