"""One master and one replica of it, which most scenarios need."""

from __future__ import annotations

import random
from typing import Any

from tests.replication.conftest import Clusters
from tests.support import iproto
from tests.support.cluster import Cluster, Node, as_map

SPACE, OTHER_SPACE, LOCAL_SPACE, TEMPORARY_SPACE = 600, 601, 602, 603

DIRECTIONS = ("ht", "th", "hh")
"""Master, then replica."""


def master_of(clusters: Clusters, kinds: str, **options: Any) -> tuple[Cluster, Node, Node]:
    """The master runs and has an empty SPACE, the replica is not started yet."""
    cluster = clusters(kinds, mesh=False, **options)
    master, replica = cluster
    master.start()
    iproto.create_space(master.conn, SPACE, "t")
    return cluster, master, replica.follow(master)


def pair(clusters: Clusters, kinds: str, **options: Any) -> tuple[Cluster, Node, Node]:
    """Both run, and the replica has all there is."""
    cluster, master, replica = master_of(clusters, kinds, **options)
    replica.start()
    cluster.settle()
    return cluster, master, replica


def fill(node: Node, first: int, last: int, text: str = "", noise: int = 0) -> None:
    """Rows first … last - 1 into SPACE. `noise`: so many characters of each that no file can compress away."""
    dice = random.Random(first)
    rows = [[key, f"{text}{key}{dice.randbytes(noise // 2).hex()}"] for key in range(first, last)]
    requests = [(iproto.REPLACE, {iproto.SPACE_ID: SPACE, iproto.TUPLE: row}) for row in rows]
    for start in range(0, len(requests), 500):
        for reply in node.conn.pipeline(requests[start : start + 500]):
            assert reply.data, reply.message


def keys(node: Node, space: int = SPACE) -> list[int]:
    return [row[0] for row in node.rows(space)]


def refused(node: Node, space: int, row: list[object]) -> tuple[int, str]:
    """Code and text of the error that an INSERT gives."""
    reply = node.conn.ask(iproto.INSERT, {iproto.SPACE_ID: space, iproto.TUPLE: row})
    assert reply.failed, f"{node} took {row}"
    return reply.code, reply.message


def without_local(vclock: object) -> dict[int, int]:
    """A vclock of a reply without component 0."""
    return {id: lsn for id, lsn in as_map(vclock).items() if id}
