"""Attacks: hostile bytes, histories of many clients, faults in the middle of them."""

from __future__ import annotations

from tests.server.conftest import box
from tests.support.fixtures import module_servers, servers

__all__ = ["box", "module_servers", "servers"]
