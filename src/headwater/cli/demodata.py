"""What the nodes of the demo hold: a sample space, and if it is asked for a few writes a second."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from types import TracebackType
from typing import Any, Self

from headwater.client.link import ConnectionFailed, WireClient
from headwater.errors import BoxError
from headwater.uri import Uri
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack, unpack

SPACE = "rivers"
FORMAT = [
    {"name": "id", "type": "unsigned"},
    {"name": "name", "type": "string"},
    {"name": "km", "type": "unsigned"},
    {"name": "mouth", "type": "string", "is_nullable": True},
]
ROWS = [
    [1, "Nile", 6650, "Mediterranean Sea"],
    [2, "Amazon", 6400, "Atlantic Ocean"],
    [3, "Yangtze", 6300, "East China Sea"],
    [4, "Mississippi", 6275, "Gulf of Mexico"],
    [5, "Yenisei", 5539, "Kara Sea"],
    [6, "Danube", 2850, "Black Sea"],
    [7, "Okavango", 1700, None],
]
GAUGES = "gauges"
"""What the traffic writes into: the last levels that each node has read."""
GAUGE_FORMAT = [["node", "string"], ["number", "unsigned"], ["level", "unsigned"]]
KEPT = 100
"""Levels of each node."""
PAUSE_SECONDS = 0.1


def call(client: WireClient, name: str, *arguments: Any) -> Any:
    """The first value of what a procedure returns."""
    row = client.ask(Type.CALL, pack({Key.FUNCTION_NAME: name, Key.TUPLE: list(arguments)}))
    values = unpack(row.body).get(Key.DATA)
    return values[0] if values else None


def fill(uri: Uri) -> int:
    """Make the sample space where it is not there yet, and say how many tuples it has. A demo may be ended at any
    moment: what is made last says that all of it is there."""
    with closing(WireClient(uri)) as client:
        indexes = call(client, "box.space._space.index.name:get", SPACE)
        if indexes is None or not _has_index(client, indexes[0], "by_km"):
            _create(client, SPACE, FORMAT, "id", ["id"])
            _index(client, SPACE, "by_name", {"parts": ["name"]})
            for row in ROWS:
                call(client, f"box.space.{SPACE}:replace", row)
            _index(client, SPACE, "by_km", {"parts": ["km"], "unique": False})
        return int(call(client, f"box.space.{SPACE}:len"))


def _has_index(client: WireClient, space_id: int, name: str) -> bool:
    return call(client, "box.space._index.index.name:get", [space_id, name]) is not None


def _create(client: WireClient, name: str, format: Sequence[Any], index: str, parts: Sequence[str]) -> None:
    call(client, "box.schema.space.create", name, {"format": list(format), "if_not_exists": True})
    _index(client, name, index, {"parts": list(parts)})


def _index(client: WireClient, space: str, name: str, options: dict[str, Any]) -> None:
    call(client, f"box.space.{space}:create_index", name, {**options, "if_not_exists": True})


class Traffic:
    """One writer for each node; a node that is away is written to again when it is back."""

    def __init__(self, uris: Sequence[Uri]) -> None:
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(uri,), daemon=True) for uri in uris]
        if uris:
            with closing(WireClient(uris[0])) as client:
                _create(client, GAUGES, GAUGE_FORMAT, "id", ["node", "number"])

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self, uri: Uri) -> None:
        while not self._ended.is_set():
            try:
                with closing(WireClient(uri)) as client:
                    self._levels(client, uri.address)
            except (ConnectionFailed, BoxError):
                self._ended.wait(1.0)  # it is away, or does not take writes now

    def _levels(self, client: WireClient, node: str) -> None:
        level = 500
        for number in count():
            if self._ended.wait(PAUSE_SECONDS):
                return
            level = max(0, level + random.randint(-9, 9))
            call(client, f"box.space.{GAUGES}:replace", [node, number % KEPT, level])
