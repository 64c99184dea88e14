"""One space while a transaction depends on it: who, and what has changed meanwhile.

As long as a tracker exists, the space is served by the ordinary path alone, which tells it every change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.kernels import MemtxSpace
from headwater.store.definitions import IndexDef
from headwater.store.space import Space
from headwater.txn.base import kernel_of
from headwater.txn.overlay import Overlay, Scratch
from headwater.typing import IndexId

if TYPE_CHECKING:
    from headwater.txn.interactive import InteractiveTxn


@dataclass(slots=True, frozen=True)
class Past:
    """A change that somebody may have to see behind."""

    psn: int
    """Serial number of the transaction that made it."""
    old: bytes | None
    new: bytes | None


class Tracker:
    __slots__ = ("_space", "clean", "history", "indexes", "kernel", "last_psn", "users", "watched")

    def __init__(self, space: Space) -> None:
        self.kernel: MemtxSpace = kernel_of(space)
        self.indexes: Mapping[IndexId, IndexDef] = dict(space.indexes)
        self.history: list[Past] = []
        """Changes since tracking began, as long as a view may need them; oldest first."""
        self.last_psn = 0
        """The last transaction that changed the space while it was tracked."""
        self.users: dict[int, InteractiveTxn] = {}
        """Transactions that have read or written here, by id."""
        self.clean = not space.is_unconfirmed
        self.watched = False
        """What was prepared before tracking began is confirmed, or there was nothing."""
        self._space = space
        space.hold_fast()

    @property
    def is_settled(self) -> bool:
        """Nothing that is seen here can be lost."""
        return not self._space.is_unconfirmed

    def cleared(self) -> None:
        self.clean = True

    def release(self) -> None:
        self._space.release_fast()

    def add(self, psn: int, old: bytes | None, new: bytes | None) -> None:
        self.history.append(Past(psn, old, new))

    def take_back(self, psn: int) -> None:
        """The transaction `psn` and all after it were undone."""
        while self.history and self.history[-1].psn >= psn:
            self.history.pop()

    def forget_before(self, psn: int) -> None:
        del self.history[: self.first_from(psn)]

    def first_from(self, psn: int) -> int:
        return bisect_left(self.history, psn, key=lambda past: past.psn)

    def is_dirty(self, confirmed: int) -> bool:
        """May something that is seen here still be lost?"""
        return not self.clean or self.last_psn > confirmed


class View:
    """A space as it was just before the transaction `psn` was prepared."""

    __slots__ = ("_seen", "_tracker", "overlay")

    def __init__(self, tracker: Tracker, scratch: Scratch, psn: int) -> None:
        self._tracker = tracker
        self._seen = psn
        self.overlay = Overlay(scratch, tracker.kernel, tracker.indexes)

    def refresh(self) -> Overlay:
        """Take in what has changed since the last look."""
        history = self._tracker.history
        for past in history[self._tracker.first_from(self._seen) :]:
            self.overlay.keep(past.old, past.new)
            self._seen = past.psn + 1
        return self.overlay
