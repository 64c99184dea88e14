"""A full disk on one node, and journals that end in the middle of a block, while all write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.cases import cases
from tests.cluster.load import Load, others, wait_mesh
from tests.replication.conftest import Clusters
from tests.support.cluster import Node
from tests.support.disks import small_tmpfs
from tests.support.ledger import WAL_IO

ROOM = 64 << 10
"""Bytes that are left of the small disk."""

MAGIC = (bytes.fromhex("d5ba0bab"), bytes.fromhex("d5ba0bba"))
"""How a block begins, plain and compressed."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_tmpfs(tmp_path / "small", 16) as path:
        yield path


@cases("hhh", slow=["hth"])
def test_full_disk_on_one_node(clusters: Clusters, kinds: str, small: Path) -> None:
    """It refuses writes and cannot take those of its peers; they go on. Then there is room again: that is all."""
    cluster = clusters(kinds)
    node = cluster[0]
    (small / "data").mkdir()
    node.options.update(wal_dir=str(small / "data"), memtx_dir=str(small / "data"))
    cluster.start()
    filler = small / "filler"
    with Load(cluster, spared=[node]) as load:
        load.wait_for_more(30)
        fill(filler, shutil.disk_usage(small).free - ROOM)
        load.ledger.wait_refused(node, WAL_IO, 3)
        load.wait_for_more(60, *others(node))
        assert "No space left on device" in node.log
        filler.unlink()
        wait_mesh(cluster)
        load.judge_healed()


def fill(path: Path, size: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


@cases("hhh", slow=["hth"])
def test_journal_that_ends_with_half_a_block(clusters: Clusters, kinds: str) -> None:
    """As a kill in the middle of a write leaves it."""
    cluster = clusters(kinds).start()
    with Load(cluster) as load:
        node = cluster[0]
        load.wait_for_more(30)
        node.kill()
        with journal(node).open("r+b") as file:
            data = file.read()
            last = data[max(data.rfind(magic) for magic in MAGIC) :]
            file.write(last[: len(last) // 2])
        load.wait_for_more(30, *others(node))
        node.start()
        wait_mesh(cluster)
        load.judge_healed()


@cases("hth", slow=["hhh"])
def test_journal_that_lost_its_end(clusters: Clusters, kinds: str) -> None:
    """The node gets its own rows back from its peers before it writes new ones under their numbers."""
    cluster = clusters(kinds).start()
    node = cluster[0]
    with Load(cluster) as load:
        load.wait_for_more(60)
        load.traffic.hold(node)
        node.configure(read_only=True)
        before = node.vclock()[node.id]
        own_id = node.id
        for peer in others(node):
            cluster.wait_caught_up(node, peer)
        node.kill()
        path = journal(node)
        os.truncate(path, path.stat().st_size - (4 << 10))
        load.wait_for_more(30, *others(node))
        node.start()
        wait_mesh(cluster)
        cluster.wait(lambda: node.vclock()[own_id] >= before, "its own rows are back")
        load.traffic.go_on(node)
        load.judge_healed()


def journal(node: Node) -> Path:
    """The one that it writes."""
    return node.files(".xlog")[-1]
