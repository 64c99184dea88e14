"""A module imports from its own room and from rooms above it, never from below (docs/architecture.md).

And nothing but the worlds and the faces reaches around `headwater.world`: no clock, no dice, no operating system.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "headwater"

ROOMS = [
    {"__init__"},
    {"errcodes", "errors", "typing", "uri", "options", "config"},
    {"world"},
    {"kernels"},
    {"wire"},
    {"vclock"},
    {"xlog"},
    {"store"},
    {"txn"},
    {"raft", "limbo"},
    {"journal"},
    {"replication"},
    {"box"},
    {"server"},
    {"env"},
    {"sim"},
    {"client"},
    {"pipeline"},
    {"cli", "web"},
]
"""From the top down, as docs/architecture.md lists them."""

FREE = {"env", "cli", "web", "sim", "client", "pipeline"}
"""Rooms that may touch the world themselves."""

WORLDLY = {"asyncio", "time", "random", "threading", "socket", "select", "subprocess", "secrets", "signal", "selectors"}
FORBIDDEN_CALLS = {"uuid4", "uuid1", "urandom", "datetime.now", "datetime.utcnow", "datetime.today"}

ALLOWED = {
    "errors": {"os.strerror"},
    "kernels/__init__": {"os.environ"},
    "journal/schedule": {"random"},
    "world/__init__": {"random"},
}
"""Module (without .py) → what it may use although it is worldly, because it is a constant or a type there."""


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def level(room: str) -> int:
    for number, rooms in enumerate(ROOMS):
        if room in rooms:
            return number
    raise AssertionError(f"room '{room}' is not in docs/architecture.md")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT).with_suffix(""))


def imports(tree: ast.Module, package: str) -> Iterator[tuple[str, list[str]]]:
    """(module, names) of every import, also inside functions; those for type checkers alone left out."""
    for node in walk_at_run_time(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{package}: relative import in line {node.lineno}"
            yield node.module or "", [alias.name for alias in node.names]


def walk_at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield from walk_at_run_time(other)
        else:
            yield from walk_at_run_time(child)


def rooms_imported(module: str, names: list[str]) -> Iterator[str]:
    if module == "headwater":
        yield from (name if (ROOT / name).exists() or (ROOT / f"{name}.py").exists() else "__init__" for name in names)
    elif module.startswith("headwater."):
        yield module.split(".")[1]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_upwards(path: Path) -> None:
    own = level(room_of(path))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for module, names in imports(tree, name_of(path)):
        for room in rooms_imported(module, names):
            assert level(room) <= own, f"{name_of(path)} imports {module}: '{room}' is below its room"


@pytest.mark.parametrize("path", [path for path in modules() if room_of(path) not in FREE], ids=name_of)
def test_nothing_reaches_around_the_world(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = ALLOWED.get(name_of(path), set())
    for module, _names in imports(tree, name_of(path)):
        assert module.split(".")[0] not in WORLDLY - allowed, f"{name_of(path)} imports {module}: ask headwater.world"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "_os"):
            used = f"os.{node.attr}"
            assert used in allowed | {"os.path", "os.fspath"}, f"{name_of(path)}:{node.lineno} uses {used}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert not any(called == name or called.endswith("." + name) for name in FORBIDDEN_CALLS) or (
                ".chance." in called or called.startswith("chance.")
            ), f"{name_of(path)}:{node.lineno} calls {called}: ask headwater.world"


def test_the_rooms_are_those_of_the_document() -> None:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    for path in modules():
        room = room_of(path)
        if room not in ("__init__", "errcodes", "uri", "config"):
            assert f"`{room}`" in text or f"`{room}/`" in text, f"docs/architecture.md does not name '{room}'"
