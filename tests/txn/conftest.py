from __future__ import annotations

import pytest
from tests.txn.node import Node

FIELDS = [{"name": name, "type": kind} for name, kind in (("id", "unsigned"), ("name", "string"), ("rank", "number"))]


@pytest.fixture
def node() -> Node:
    """A node with a space `t`: id, unique name, rank."""
    node = Node()
    node.make_space(512, "t", FIELDS)
    node.make_index(512, 0, "pk", [[0, "unsigned"]])
    node.make_index(512, 1, "name", [[1, "string"]])
    node.make_index(512, 2, "rank", [[2, "number"]], unique=False)
    node.rows()
    return node
