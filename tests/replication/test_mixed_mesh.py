"""Full meshes: writes on all sides at once, schema changes among them, nodes that die and come back."""

from __future__ import annotations

import random

import pytest
from tests.replication.conftest import Clusters
from tests.support import iproto
from tests.support.cluster import Cluster, kinds
from tests.support.subjects import transaction
from tests.support.traffic import Traffic

PAIRS = ("ht", "th", "hh")
TRIPLES = ("hht", "tth", "hhh")
SPACE = 600


@kinds(*PAIRS, *TRIPLES)
def test_writes_on_all_sides_converge(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    with Traffic(cluster) as traffic:
        traffic.wait_for_more(300)
        traffic.finish()
    for node in cluster:
        cluster.wait_follow(node, *(other for other in cluster if other is not node))


@kinds(*PAIRS, *TRIPLES)
def test_every_kind_of_statement_of_every_node_reaches_all(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    iproto.create_space(
        cluster[0].conn,
        SPACE,
        "t",
        indexes=[
            ["primary", "tree", {"unique": True}, [[0, "unsigned"], [1, "string"]]],
            ["second", "tree", {"unique": False}, [[2, "unsigned"]]],
            ["hashed", "hash", {"unique": True}, [[0, "unsigned"], [1, "string"], [2, "unsigned"]]],
        ],
        format=[{"name": "id", "type": "unsigned"}, {"name": "who", "type": "string"}],
    )
    cluster.settle()
    for node in cluster:
        conn, who = node.conn, node.name
        for key in range(20):
            conn.insert(SPACE, [key, who, key % 3, {"a": [1, -1, None, 1.5, True]}, b"\x00\xff"])
            conn.replace(SPACE, [key, who, key % 5, "x" * key, 2**64 - 1, -(2**63)])
        body = {iproto.SPACE_ID: SPACE, iproto.INDEX_ID: 0, iproto.INDEX_BASE: 0}
        operations = [["+", 2, 7], [":", 3, 0, 1, "yy"], ["!", 3, [1, [2]]], ["=", 5, -1.25], ["#", 6, 1]]
        assert conn.ask(iproto.UPDATE, {**body, iproto.KEY: [3, who], iproto.TUPLE: operations}).data
        upsert = {iproto.SPACE_ID: SPACE, iproto.INDEX_BASE: 0, iproto.TUPLE: [100, who, 1], iproto.OPS: [["+", 2, 5]]}
        for _ in range(3):
            assert conn.ask(iproto.UPSERT, upsert).data == []
        assert conn.ask(iproto.DELETE, {**body, iproto.KEY: [5, who]}).data
        assert conn.ask(iproto.DELETE, {**body, iproto.KEY: [999, who]}).data == [], "nothing there: still no error"
        rows = [(iproto.REPLACE, {iproto.SPACE_ID: SPACE, iproto.TUPLE: [1000 + n, who, n]}) for n in range(50)]
        transaction(conn, rows)
        conn.insert(SPACE, [2000, who, 1, random.Random(7).randbytes(600_000)])
    cluster.settle()
    for node in cluster:
        assert len(node.rows(SPACE)) == len(cluster.nodes) * (20 + 1 - 1 + 50 + 1)
        first = [node.name for node in cluster]
        assert [row[2] for row in node.rows(SPACE) if row[0] == 100] == [11] * len(first)


@kinds(*PAIRS, *TRIPLES)
def test_schema_changes_of_every_node_reach_all(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    for number, node in enumerate(cluster):
        name = f"made_by_{node.name}"
        node.do("box.schema.space.create", name, {"format": [["id", "unsigned"], ["text", "string"]]})
        cluster.wait_vclock_equal()
        node.do(f"box.space.{name}:create_index", "primary", {"parts": [[1, "unsigned"]]})
        node.do(f"box.space.{name}:create_index", "text", {"parts": [[2, "string"]], "unique": False})
        space = next(row[0] for row in node.rows(280) if row[2] == name)
        for key in range(5):
            node.conn.insert(space, [key, f"text {key}"])
        node.do(
            f"box.space.{name}:format",
            [["id", "unsigned"], ["text", "string"], {"name": "more", "type": "any", "is_nullable": True}],
        )
        node.do(f"box.space.{name}.index.text:alter", {"unique": True})
        node.do("box.schema.sequence.create", f"seq_{node.name}", {"start": 10, "step": 2})
        node.do("box.schema.user.create", f"user_{node.name}", {"password": "pass"})
        node.do("box.schema.user.grant", f"user_{node.name}", "read,write", "space", name)
        node.do("box.schema.role.create", f"role_{node.name}")
        node.do("box.schema.user.grant", f"user_{node.name}", f"role_{node.name}")
        cluster.settle()
        other = cluster[(number + 1) % len(cluster.nodes)]
        with other.connect() as conn:
            assert not conn.auth(f"user_{node.name}", "pass").failed, "a user of one node logs in on another"
            assert conn.select(space, [1], iterator=iproto.EQ) == [[1, "text 1"]]
        assert other.call(f"box.sequence.seq_{node.name}:next") == 10
        cluster.wait_vclock_equal()
        assert node.call(f"box.sequence.seq_{node.name}:next") == 12, "the other's step is known here"
        cluster.settle()
        other.do(f"box.space.{name}:truncate")
        cluster.settle()
        assert all(each.rows(space) == [] for each in cluster)
        other.do("box.schema.user.drop", f"user_{node.name}")
        other.do("box.schema.role.drop", f"role_{node.name}")
        other.do("box.schema.sequence.drop", f"seq_{node.name}")
        other.do(f"box.space.{name}:drop")
        cluster.settle()
        assert not any(row[2] == name for each in cluster for row in each.rows(280))


@kinds("hht", "tth", "hhh")
def test_schema_changes_amid_writes(clusters: Clusters, kinds: str) -> None:
    """Spaces come, change and go on one node while all of them write."""
    cluster = clusters(kinds).start()
    with Traffic(cluster) as traffic:
        for turn in range(6):
            node = cluster[turn % len(cluster.nodes)]
            name = f"brief_{turn}"
            node.do("box.schema.space.create", name)
            node.do(f"box.space.{name}:create_index", "primary")
            space = next(row[0] for row in node.rows(280) if row[2] == name)
            for key in range(50):
                node.conn.replace(space, [key, "x" * key])
            node.do(f"box.space.{name}:create_index", "text", {"parts": [[2, "string"]], "unique": False})
            node.do(f"box.space.{name}:truncate")
            node.conn.replace(space, [1, "after"])
            if turn % 2:
                node.do(f"box.space.{name}:drop")
            # The next space takes the id after the greatest one: whoever makes it must know of this one.
            position = node.vclock()
            for other in cluster:
                cluster.wait(
                    lambda other=other, position=position: all(
                        other.vclock().get(k, 0) >= v for k, v in position.items()
                    ),
                    f"{other} has the schema of {node}",
                )
        traffic.wait_for_more(50)
        traffic.finish()


@kinds("hht", "tth", "hhh")
def test_each_node_killed_and_restarted_under_load(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    with Traffic(cluster) as traffic:
        for node in cluster:
            traffic.wait_for_more(50)
            node.kill()
            others = [other for other in cluster if other is not node]
            traffic.wait_for_more(100, *others)
            node.start()
            cluster.wait_follow(node, *others)
            for other in others:
                cluster.wait_follow(other, node)
        traffic.wait_for_more(50)
        traffic.finish()


@kinds("ht", "hht", "tth", "hhh")
def test_all_killed_and_restarted(clusters: Clusters, kinds: str) -> None:
    cluster = clusters(kinds).start()
    with Traffic(cluster) as traffic:
        for _ in range(2):
            traffic.wait_for_more(50)
            for node in cluster:
                node.kill()
            cluster.spawn()
            cluster.wait_ready(cluster.nodes)
        traffic.wait_for_more(50)
        traffic.finish()


def one_set(cluster: Cluster) -> None:
    """All nodes are in one replica set, with ids of their own."""
    keys = ("cluster", "replicaset_uuid")
    sets = {next(row[1] for row in node.rows(272) if row[0] in keys) for node in cluster}
    assert len(sets) == 1, f"{sets}\n{cluster.report()}"
    assert sorted(node.id for node in cluster) == list(range(1, len(cluster.nodes) + 1)), cluster.report()


@pytest.mark.parametrize("time", range(3))
@kinds("hht", "tth", "hhh")
def test_started_at_one_instant_on_empty_directories(clusters: Clusters, kinds: str, time: int) -> None:
    cluster = clusters(kinds).start()
    one_set(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("time", range(30))
@kinds("hht", "tth", "hhh", "hhhhh", "htht")
def test_started_at_one_instant_many_times(clusters: Clusters, kinds: str, time: int) -> None:
    cluster = clusters(kinds).start()
    one_set(cluster)


@kinds("ht", "th", "hh", "hht")
def test_one_after_the_other_on_empty_directories(clusters: Clusters, kinds: str) -> None:
    """The first of them waits for the others that its list names: it must not make a set alone and forget them."""
    cluster = clusters(kinds)
    for node in cluster:
        cluster.spawn(node)
        cluster.wait_log(node, "connecting to")
    cluster.wait_ready(cluster.nodes)
    cluster.settle()
    one_set(cluster)
