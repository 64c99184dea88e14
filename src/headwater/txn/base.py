"""What a statement asks of a transaction, and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.kernels import MemtxIndex, MemtxSpace
from headwater.store.space import Space
from headwater.typing import IndexId

PRIMARY = IndexId(0)


def kernel_of(space: Space) -> MemtxSpace:
    """The tuples of a space that has some of its own."""
    assert space.kernel is not None, "views are read without a transaction"
    return space.kernel


def index_of(kernel: MemtxSpace, index_id: IndexId) -> MemtxIndex:
    index = kernel.index(index_id)
    assert index is not None, "the caller has looked the index up"
    return index


@dataclass(slots=True)
class RowDraft:
    """A row of the journal before it has a place in it."""

    type: int
    group_id: int
    """1 for a local space: the row gets the next LSN of component 0."""
    body: bytes
    replica_id: int = 0
    """Origin of a row that came from a peer; 0 for a row of our own."""
    lsn: int = 0
    """As the peer numbered it; 0 for a row of our own."""
    timestamp: float = 0.0
    flags: int = 0
    """As the peer set them: whether the transaction waits for a quorum stands in its last row."""


def take_out(rows: list[RowDraft], row: RowDraft) -> None:
    """Remove this very row, not one like it."""
    for at in range(len(rows) - 1, -1, -1):
        if rows[at] is row:
            del rows[at]
            return


@dataclass(slots=True)
class Change:
    """What one statement did to one tuple."""

    space: Space
    old: bytes | None
    new: bytes | None


class Transaction(Protocol):
    """Where a statement reads and writes. Reads see what the transaction has written before."""

    interactive: bool
    """Other transactions may commit between its statements."""

    @property
    def has_changes(self) -> bool:
        """Has a statement of it written anything?"""

    def check_can_continue(self) -> None:
        """BoxError if it was aborted meanwhile, before another statement (txn.h, txn_check_can_continue)."""

    def get(self, space: Space, index_id: IndexId, key: bytes) -> bytes | None:
        """The tuple with a full key of a unique index."""

    def select(
        self,
        space: Space,
        index_id: IndexId,
        iterator: int,
        key: bytes,
        offset: int = 0,
        limit: int = 0xFFFFFFFF,
        after: bytes | None = None,
    ) -> list[bytes]: ...

    def insert(self, space: Space, new: bytes) -> None:
        """FormatViolation or DuplicateKey, and nothing is changed."""

    def replace(self, space: Space, new: bytes, *, observe_old: bool) -> bytes | None:
        """Returns the tuple whose place it took. `observe_old`: somebody looks at that tuple, so it counts as read."""

    def update(self, space: Space, old: bytes, new: bytes) -> None:
        """`old` is what `get` has just returned; the primary key is the same."""

    def delete(self, space: Space, old: bytes) -> None: ...

    def add_row(self, row: RowDraft) -> None: ...

    def remove_row(self, row: RowDraft) -> None:
        """It was added a moment ago, and does not go into the journal after all."""

    def mark(self) -> object:
        """A place to roll back to."""

    def rollback_to(self, mark: object) -> None: ...
