"""The client's tests talk to servers of both kinds."""

from __future__ import annotations

from tests.support.fixtures import module_servers, servers

__all__ = ["module_servers", "servers"]
