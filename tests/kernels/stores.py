"""Small stores for the tests."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from headwater.typing import FieldType as T

SPACE = 512
BOTH = 3
"""Privileges to read and to write."""


def memtx(k: ModuleType) -> Any:
    """A node with id 1 and one space: [unsigned, string, …], by field 0."""
    node = k.Memtx()
    node.replica_id = 1
    node.timestamp = 1.5
    node.schema_version = 80
    add_space(k, node)
    return node


def add_space(k: ModuleType, node: Any, space_id: int = SPACE, **options: bool) -> Any:
    space = node.add_space(space_id, **options)
    space.set_format(k.TupleFormat([(T.UNSIGNED, False), (T.STRING, False)]))
    space.add_index(0, k.KeyDef([k.KeyPart(0, T.UNSIGNED)]), True)
    space.set_access(0, BOTH)
    space.fast = True
    return space


def primary(k: ModuleType, field: int = 0, type: int = T.UNSIGNED) -> Any:
    return k.KeyDef([k.KeyPart(field, type)])
