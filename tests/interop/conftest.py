"""Interoperability: the same bytes, files and answers as a real Tarantool's."""

from __future__ import annotations

import pytest
from tests.support.fixtures import module_servers, servers

__all__ = ["module_servers", "servers"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop/" in item.path.as_posix():
            item.add_marker(pytest.mark.interop)
