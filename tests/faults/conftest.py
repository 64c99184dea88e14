"""Faults: what a node does when it is killed, when its disk lies or fills up, when its clients are slow or hostile."""

from __future__ import annotations

from tests.support.fixtures import module_servers, servers

__all__ = ["module_servers", "servers"]
