"""The real recovery of a whole node, in this process and without a socket: a case takes milliseconds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.iproto import unpack_all

from headwater.config import configure
from headwater.env import run
from headwater.errors import BoxError
from headwater.server.node import make_node
from headwater.typing import IteratorType
from headwater.world import World

EMPTY_KEY = b"\x90"


@dataclass(frozen=True, slots=True)
class Node:
    """What a node has after its start."""

    lsn: int
    rows: dict[int, list[Any]]


class Refused(Exception):  # noqa: N818
    """The node did not start, and said why."""


def start(directory: Path, spaces: list[int], wal_mode: str = "write") -> Node:
    """Start a node on the directory, look, stop. Refused if it would not start; any other exception is a fault."""
    flags = {"work_dir": str(directory), "wal_dir": str(directory), "memtx_dir": str(directory), "read_only": True}
    options = configure({**flags, "checkpoint_interval": 0, "wal_mode": wal_mode}, {}).options

    async def main(world: World) -> Node:
        box = make_node(world, options)
        try:
            await box.start()
        except BoxError as error:
            await box.stop()
            raise Refused(error.message) from error
        rows = {}
        for space in spaces:
            memtx = box.memtx.space(space)
            index = memtx.index(0) if memtx is not None else None
            found = index.select(IteratorType.ALL, EMPTY_KEY) if index is not None else []
            rows[space] = [unpack_all(row)[0] for row in found]
        lsn = box.memtx.vclock[1]
        await box.stop()
        return Node(lsn, rows)

    with quiet():
        return run(main)


@contextmanager
def quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
