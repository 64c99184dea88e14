from __future__ import annotations

import pytest
from tests.procedures.node import CallNode


@pytest.fixture
def node() -> CallNode:
    return CallNode()


@pytest.fixture
def shop(node: CallNode) -> CallNode:
    """With a space `t`: id, name, n."""
    format = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}, ["n", "integer"]]
    node.call("box.schema.space.create", "t", {"format": format})
    node.call("box.space.t:create_index", "pk")
    node.call("box.space.t:create_index", "by_name", {"parts": ["name"], "unique": False})
    for row in ([1, "a", 10], [2, "b", 20], [3, "b", 30]):
        node.call("box.space.t:insert", row)
    return node
