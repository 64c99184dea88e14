"""The procedures in docs/procedures.md work, and it names every built-in one."""

from __future__ import annotations

import re
from pathlib import Path

from tests.procedures.node import CallNode

from headwater.box.procedures import builtin, registry

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "procedures.md").read_text(encoding="utf-8")


def bank(directory: Path) -> CallNode:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    (directory / "bank.py").write_text(found[1])
    node = CallNode(registry.load([str(directory / "bank.py")]))
    node.call("box.schema.space.create", "accounts", {"format": [["number", "unsigned"], ["balance", "integer"]]})
    node.call("box.space.accounts:create_index", "pk")
    return node


def test_the_bank(tmp_path: Path) -> None:
    node = bank(tmp_path)
    assert [node.value("accounts.open", number) for number in (1, 2, 1)] == [True, True, False]
    node.call("box.space.accounts:update", 1, [["=", "balance", 100]])
    assert node.value("transfer", 1, 2, 30) == 70
    assert node.fails("transfer", 1, 2, 71).message == "transfer: ValueError: account 1 has not that much"
    assert node.value("box.space.accounts:select") == [[1, 70], [2, 30]]
    for number in range(3, 2100):
        node.insert(512, number, 1)
    assert node.call("total") == [2099, 100 + 2097]


def test_every_built_in_is_named() -> None:
    for name in builtin.PROCEDURES:
        method = name.rpartition(".")[2]
        assert f"`{name}`" in PAGE or re.search(rf"[` .]{method}[` ,]", PAGE), name
    for methods in (builtin.SPACE_METHODS, builtin.INDEX_METHODS, builtin.SEQUENCE_METHODS):
        for method in methods:
            assert re.search(rf"[` ]{method}[` ]", PAGE), method
