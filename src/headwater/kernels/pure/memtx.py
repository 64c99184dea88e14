"""Every tuple of one node, its undo log, its LSNs and the rows on their way to the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.kernels.pure.heads import Head
from headwater.kernels.pure.recover import apply_rows
from headwater.kernels.pure.requests import serve
from headwater.kernels.pure.rows import COMMIT, Pending, header
from headwater.kernels.pure.space import MemtxSpace
from headwater.kernels.pure.stream import apply_frames, load_frames
from headwater.kernels.pure.undo import Undo
from headwater.kernels.pure.view import ReadView
from headwater.typing import VCLOCK_MAX

_GROUP_LOCAL = 1


class Memtx:
    """The store of one node."""

    def __init__(self) -> None:
        self.replica_id = 0
        self.timestamp = 0.0
        self.schema_version = 0
        self.rows_enabled = True
        self.undo_enabled = True
        self._vclock = [0] * VCLOCK_MAX
        self._spaces: dict[int, MemtxSpace] = {}
        self._undo = Undo()
        self._pending = Pending()
        self._served = [0] * 8
        """Requests that `run` served, by type."""

    @property
    def vclock(self) -> list[int]:
        return self._vclock.copy()

    def lsn(self, replica_id: int) -> int:
        return self._vclock[replica_id]

    def set_lsn(self, replica_id: int, lsn: int) -> None:
        self._vclock[replica_id] = lsn

    def next_lsn(self, replica_id: int) -> int:
        """Count one up and return it."""
        self._vclock[replica_id] += 1
        return self._vclock[replica_id]

    # ---- spaces --------------------------------------------------------------------------------------

    def add_space(self, space_id: int, local: bool = False, temporary: bool = False) -> MemtxSpace:
        if space_id in self._spaces:
            raise ValueError(f"space {space_id} is already there")
        space = MemtxSpace(space_id, local, temporary, self._record)
        self._spaces[space_id] = space
        return space

    def remove_space(self, space_id: int) -> MemtxSpace:
        return self._spaces.pop(space_id)

    def restore_space(self, space: MemtxSpace) -> None:
        if space.id in self._spaces:
            raise ValueError(f"space {space.id} is already there")
        self._spaces[space.id] = space

    def space(self, space_id: int) -> MemtxSpace | None:
        return self._spaces.get(space_id)

    @property
    def bytes_used(self) -> int:
        return sum(space.bsize + space.index_bsize for space in self._spaces.values())

    def open_view(self, space_ids: Sequence[int]) -> ReadView:
        return ReadView([self._spaces[space_id] for space_id in space_ids])

    # ---- undo ----------------------------------------------------------------------------------------

    def _record(self, space: MemtxSpace, old: bytes | None, new: bytes | None) -> None:
        if self.undo_enabled:
            self._undo.add_change(space, old, new)
        elif space.unconfirmed:
            raise ValueError(f"space {space.id} is written without undo while changes of it are not yet confirmed")

    @property
    def undo_end(self) -> int:
        return self._undo.end

    def push_undo(self, rollback: Callable[[], None], confirm: Callable[[], None] | None = None) -> None:
        if self.undo_enabled:
            self._undo.add_calls(rollback, confirm)
        elif confirm is not None:
            confirm()

    @property
    def has_pending_calls(self) -> bool:
        """May something that a call would take back still be lost?"""
        return self._undo.calls > 0

    def rollback_to(self, position: int) -> None:
        self._undo.rollback_to(position)

    def confirm_to(self, position: int) -> None:
        self._undo.confirm_to(position)

    # ---- rows ----------------------------------------------------------------------------------------

    def add_row(
        self,
        type: int,
        group_id: int,
        body: bytes,
        tsn: int = 0,
        flags: int = 0,
        replica_id: int = -1,
        lsn: int = 0,
        timestamp: float = 0.0,
    ) -> int:
        """Append one encoded row and return its LSN."""
        if replica_id < 0:
            replica_id = 0 if group_id == _GROUP_LOCAL else self.replica_id
        if lsn:
            self._vclock[replica_id] = lsn
        else:
            replica_id = 0 if group_id == _GROUP_LOCAL else replica_id
            lsn = self.next_lsn(replica_id)
        if self.rows_enabled:
            row = header(type, replica_id, group_id, lsn, timestamp or self.timestamp, tsn, flags) + body
            self._pending.add(row, tsn == 0 or bool(flags & COMMIT))
        return lsn

    def add_foreign(self, head: Head, body: bytes) -> None:
        """A row of a peer, numbered as its origin did."""
        self._vclock[head.replica_id] = head.lsn
        if self.rows_enabled:
            self._pending.add(head.encode(head.flags, 0) + body, head.is_last)

    def mark(self) -> tuple[int, list[int], tuple[int, int, int]]:
        """Where undo, vclock and rows stand, for `back`."""
        return self._undo.end, self._vclock.copy(), self._pending.mark()

    def back(self, mark: tuple[int, list[int], tuple[int, int, int]]) -> None:
        """Take back all changes and rows since `mark`."""
        position, self._vclock, rows = mark
        self._undo.rollback_to(position)
        self._pending.back(rows)

    @property
    def rows_pending(self) -> int:
        return len(self._pending.data)

    def take_rows(self, apart: int = 0) -> tuple[bytes, list[int], int]:
        taken, self._pending = self._pending, Pending()
        return taken.take(apart)

    # ---- the fast path -------------------------------------------------------------------------------

    def run(self, data: bytes, offset: int, end: int, token: int, read_only: bool) -> tuple[int, bytes, int, bool]:
        """Serve whole requests as far as this path goes."""
        return serve(self, data, offset, end, token, read_only)

    def count_served(self, type: int) -> None:
        self._served[type & 7] += 1

    def take_served(self) -> tuple[int, int, int, int]:
        """How many SELECT, INSERT, REPLACE and DELETE `run` served since the last call."""
        counts, self._served = self._served, [0] * 8
        return counts[1], counts[2], counts[3], counts[5]

    def apply(self, data: bytes, offset: int, end: int, snapshot: bool) -> tuple[int, int]:
        """Recovery: apply rows of an xlog or snapshot block."""
        return apply_rows(self, data, offset, end, snapshot)

    # ---- replication ---------------------------------------------------------------------------------

    def apply_frames(self, data: bytes, offset: int, end: int) -> tuple[int, int, float]:
        """Apply whole transactions of a master's stream."""
        return apply_frames(self, data, offset, end)

    def load_frames(self, data: bytes, offset: int, end: int) -> tuple[int, int]:
        """Take what a JOIN brings first."""
        return load_frames(self, data, offset, end)
