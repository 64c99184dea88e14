"""What is written together: everything that one turn of the loop prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.errors import BoxError
from headwater.kernels import Memtx
from headwater.vclock import VClock

Waiter = Callable[[BoxError | None], object]
"""Told None when what it waits for is written, an error when that was undone."""


@dataclass(frozen=True, slots=True)
class Place:
    """A spot in the log between two batches: what lies before it is written."""

    path: str
    offset: int


@dataclass(slots=True, eq=False)
class Batch:
    rows: bytes
    """As they stand in a file, one after another."""
    ends: Sequence[int]
    """Offsets into `rows` after transactions, as far apart as blocks are cut."""
    count: int
    """Number of rows."""
    lsns: Sequence[int]
    """The node's vclock once this is written, by replica id."""
    undo_begin: int
    """Undo records from here on belong to this batch and to later ones."""
    undo_end: int
    """Where those of the next batch begin. Moves while the batch is in flight, for changes that have no rows."""
    started: float
    """Monotonic time at which it was handed over."""
    waiters: list[Waiter] = field(default_factory=list)
    dead: bool = False
    """An earlier one failed: this one is undone already, whatever the worker says of it."""
    place: Place | None = None
    """Behind it, once it is written."""

    @property
    def vclock(self) -> VClock:
        """The node's once this is written."""
        return vclock_of(self.lsns)


def vclock_of(lsns: Sequence[int]) -> VClock:
    """A vclock from its components in order."""
    return VClock({replica_id: lsn for replica_id, lsn in enumerate(lsns) if lsn})


def prepared_vclock(memtx: Memtx) -> VClock:
    """The vclock with everything that is prepared, written or not."""
    return vclock_of(memtx.vclock)
