"""What the parts of this room know of a space, and what a statement asks of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headwater.kernels import MemtxSpace, TupleFormat
from headwater.store.definitions import IndexDef
from headwater.typing import IndexId, SpaceId


class SpaceLike(Protocol):
    """As much of `store.space.Space` as a transaction needs."""

    @property
    def id(self) -> SpaceId: ...

    @property
    def memtx(self) -> MemtxSpace: ...

    @property
    def format(self) -> TupleFormat: ...

    @property
    def indexes(self) -> Mapping[IndexId, IndexDef]: ...


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


@dataclass(slots=True)
class Change:
    """What one statement did to one tuple."""

    space: SpaceLike
    old: bytes | None
    new: bytes | None


class Transaction(Protocol):
    """Where a statement reads and writes. Reads see what the transaction has written before."""

    interactive: bool
    """Other transactions may commit between its statements."""

    def check_can_continue(self) -> None:
        """BoxError if it was aborted meanwhile, before another statement (txn.h, txn_check_can_continue)."""

    def get(self, space: SpaceLike, index_id: IndexId, key: bytes) -> bytes | None:
        """The tuple with a full key of a unique index."""

    def select(
        self,
        space: SpaceLike,
        index_id: IndexId,
        iterator: int,
        key: bytes,
        offset: int = 0,
        limit: int = 0xFFFFFFFF,
        after: bytes | None = None,
    ) -> list[bytes]: ...

    def insert(self, space: SpaceLike, new: bytes) -> None:
        """FormatViolation or DuplicateKey, and nothing is changed."""

    def replace(self, space: SpaceLike, new: bytes, *, observe_old: bool) -> bytes | None:
        """Returns the tuple whose place it took. `observe_old`: somebody looks at that tuple, so it counts as read."""

    def update(self, space: SpaceLike, old: bytes, new: bytes) -> None:
        """`old` is what `get` has just returned; the primary key is the same."""

    def delete(self, space: SpaceLike, old: bytes) -> None: ...

    def add_row(self, row: RowDraft) -> None: ...

    def mark(self) -> object:
        """A place to roll back to."""

    def rollback_to(self, mark: object) -> None: ...
