"""A transaction that nobody can interrupt: its statements change the spaces at once.

Autocommit requests, synchronous procedures, schema changes and whole transactions of a peer are of this kind. The
undo queue of the node is what takes them back, before their rows are made or after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.store.space import Space
from headwater.txn.base import PRIMARY, Change, RowDraft, index_of, kernel_of, take_out
from headwater.txn.rows import write_rows
from headwater.typing import IndexId

if TYPE_CHECKING:
    from headwater.txn.interactive import InteractiveTxn
    from headwater.txn.manager import Txns


class DirectTxn:
    """Begin, some statements, then `commit` or `rollback`, all without letting anybody else run."""

    __slots__ = ("_manager", "_memtx", "_start", "changes", "rows")

    interactive = False

    def __init__(self, manager: Txns) -> None:
        self._manager = manager
        self._memtx = manager.memtx
        self._start = self._memtx.undo_end
        self.changes: list[Change] = []
        self.rows: list[RowDraft] = []

    @property
    def has_changes(self) -> bool:
        return bool(self.changes or self.rows)

    def check_can_continue(self) -> None:
        """Nobody can have aborted it."""

    # ---- statements ---------------------------------------------------------------------------------

    def get(self, space: Space, index_id: IndexId, key: bytes) -> bytes | None:
        return index_of(kernel_of(space), index_id).get(key)

    def select(
        self,
        space: Space,
        index_id: IndexId,
        iterator: int,
        key: bytes,
        offset: int = 0,
        limit: int = 0xFFFFFFFF,
        after: bytes | None = None,
    ) -> list[bytes]:
        return index_of(kernel_of(space), index_id).select(iterator, key, offset, limit, after)

    def count(self, space: Space, index_id: IndexId, iterator: int, key: bytes) -> int:
        return index_of(kernel_of(space), index_id).count(iterator, key)

    def insert(self, space: Space, new: bytes) -> None:
        kernel_of(space).insert(new)
        self.changes.append(Change(space, None, new))

    def replace(self, space: Space, new: bytes, *, observe_old: bool) -> bytes | None:
        old = kernel_of(space).replace(new)
        self.changes.append(Change(space, old, new))
        return old

    def update(self, space: Space, old: bytes, new: bytes) -> None:
        kernel_of(space).update(old, new)
        self.changes.append(Change(space, old, new))

    def delete(self, space: Space, old: bytes) -> None:
        kernel_of(space).delete(PRIMARY, index_of(kernel_of(space), PRIMARY).key_def.extract(old))
        self.changes.append(Change(space, old, None))

    def add_row(self, row: RowDraft) -> None:
        self.rows.append(row)

    def remove_row(self, row: RowDraft) -> None:
        take_out(self.rows, row)

    def mark(self) -> tuple[int, int, int]:
        return self._memtx.undo_end, len(self.changes), len(self.rows)

    def rollback_to(self, mark: object) -> None:
        assert isinstance(mark, tuple)
        position, changes, rows = mark
        self._memtx.rollback_to(position)
        del self.changes[changes:]
        del self.rows[rows:]

    # ---- the end -------------------------------------------------------------------------------------

    def commit(self, by: InteractiveTxn | None = None) -> None:
        """Prepared: everybody sees it, and its rows wait for the journal. `by`: whose statements these are."""
        manager = self._manager
        now = manager.now()
        for call in manager.before_commit:
            call(self, now)
        manager.prepared(self.changes, by)
        if self.rows:
            self._memtx.timestamp = now
            write_rows(self._memtx, self.rows)

    def rollback(self) -> None:
        self._memtx.rollback_to(self._start)
