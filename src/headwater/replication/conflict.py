"""What to do when a row of a peer does not fit."""

from __future__ import annotations

from headwater.errors import BoxError, Er
from headwater.replication.host import Host
from headwater.store.space import Space
from headwater.wire.xrow import Row


class Judge:
    """Has a say about rows of peers."""

    sees_all = False
    """Every row must be shown to it; otherwise it is asked about refused ones only."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def sees(self, row: Row, space: Space, old: bytes | None, new: bytes | None) -> bytes | None:
        return new

    def skips(self, row: Row, error: BoxError) -> bool:
        """A row was refused: is a NOP to take its place?"""
        return self._host.options.replication_skip_conflict and error.code == Er.TUPLE_FOUND


def judge_of(host: Host) -> Judge:
    return Judge(host)
