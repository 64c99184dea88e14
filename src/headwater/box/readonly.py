"""Why a node refuses writes, and the words in which it says so (box.cc: box_update_ro_summary, box_ro_state_msg).

Several reasons may hold at once; one is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import BoxError, Er, er


@dataclass(frozen=True, slots=True)
class ForeignQueue:
    """The queue of synchronous transactions belongs to another member: only that one may write."""

    words: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What the error tells beside them."""


class ReadOnly:
    """`active` is what the compiled path is told; the reasons are set by whoever knows them."""

    def __init__(self) -> None:
        self.active = False
        self.by_config = False
        """The option `read_only`."""
        self.is_orphan = False
        """It has not caught up with its replica set yet."""
        self.lost_rows = False
        """It waits for rows that it wrote itself and lost."""
        self.is_expelled = False
        """It is a member no longer: what it wrote would be nobody's, and reach nobody. Tarantool takes such writes."""
        self.queue: ForeignQueue | None = None
        """Who else owns the queue."""
        self.listeners: list[Callable[[bool], None]] = []
        """Called with the new state when it changes."""

    def update(
        self,
        *,
        by_config: bool | None = None,
        is_orphan: bool | None = None,
        lost_rows: bool | None = None,
        is_expelled: bool | None = None,
    ) -> None:
        """Set some of the reasons."""
        self.by_config = self.by_config if by_config is None else by_config
        self.is_orphan = self.is_orphan if is_orphan is None else is_orphan
        self.lost_rows = self.lost_rows if lost_rows is None else lost_rows
        self.is_expelled = self.is_expelled if is_expelled is None else is_expelled
        self._look()

    def set_queue(self, queue: ForeignQueue | None) -> None:
        """Another member owns the queue, or nobody, or we."""
        self.queue = queue
        self._look()

    def _look(self) -> None:
        own = self.by_config or self.is_orphan or self.lost_rows or self.is_expelled
        active = own or self.queue is not None
        if active != self.active:
            self.active = active
            for listener in self.listeners:
                listener(active)

    @property
    def reason(self) -> str | None:
        """box.info.ro_reason"""
        if self.is_expelled:
            return "expelled"
        if self.queue is not None:
            return "synchro"
        if self.by_config:
            return "config"
        if self.lost_rows:
            return "waiting to receive its own transactions back from the replicaset"
        return "orphan" if self.is_orphan else None

    def check(self) -> None:
        """READONLY if it is (box_check_writable)."""
        if self.active:
            raise self.error()

    def error(self) -> BoxError:
        plain = er(Er.READONLY)
        more = self.queue.fields if self.queue is not None else {}
        return BoxError(
            Er.READONLY, f"{plain.message} - {self.words}", fields={**plain.fields, "reason": self.reason, **more}
        )

    @property
    def words(self) -> str:
        """Of the reason that is told."""
        if self.is_expelled:
            return "it was removed from its replica set: start it on an empty directory to make it a member anew"
        if self.queue is not None:
            return self.queue.words
        if self.by_config:
            return "box.cfg.read_only is true"
        if self.lost_rows:
            return "it has lost some of its own transactions and is waiting to receive them back from the replicaset"
        return "it is an orphan"
