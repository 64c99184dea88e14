"""The one script that every driver runs against both servers.

A call is data: an operation and its arguments. A driver (drivers.py) knows how its connector says it. A call that a
connector cannot say is skipped for that connector; the raw driver can say all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.interop.script import dictionary, reads, types, updates
from tests.interop.script.calls import Call
from tests.interop.script.schema import SCHEMA

__all__ = ["SCHEMA", "Call", "script"]


def script() -> Iterator[Call]:
    """All calls in order. Names are unique."""
    for part in (reads, types, updates, dictionary):
        for calls in part.PARTS:
            yield from calls()
