"""A transaction whose statements come one by one while others go on: over a stream, or from an asynchronous procedure.

Its writes stay in an overlay until it commits; its reads are remembered, so that a commit of somebody else that
changes what it has read is noticed at once (memtx_tx.c). Then it can no longer be ordered after that commit:
if it has only read, it goes on with the picture from before (a read view), and otherwise it is doomed.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.kernels import DuplicateKey, KeyDef
from headwater.store.space import Space
from headwater.txn.base import PRIMARY, Change, RowDraft, index_of, kernel_of, take_out
from headwater.txn.isolation import Isolation
from headwater.txn.overlay import Overlay, Scratch, has_nil
from headwater.txn.reads import Reads, Stretch, is_full_key
from headwater.txn.tracker import Tracker, View
from headwater.typing import IndexId, IteratorType, SpaceId
from headwater.world import Timer

if TYPE_CHECKING:
    from headwater.txn.manager import Txns


class Status(Enum):
    IN_PROGRESS = auto()
    IN_READ_VIEW = auto()
    """It sees what was there before a certain commit, and may only read."""
    ABORTED = auto()
    """`abort_code` says why; only COMMIT (which fails) and ROLLBACK are left."""
    COMMITTED = auto()
    ROLLED_BACK = auto()


class _Part:
    """What a transaction has to do with one space."""

    __slots__ = ("_overlay", "_scratch", "_view", "format", "reads", "space", "tracker")

    def __init__(self, scratch: Scratch, space: Space, tracker: Tracker) -> None:
        self.space = space
        self.tracker = tracker
        self.format = space.format.kernel()
        self.reads = Reads(scratch, tracker.kernel, tracker.indexes)
        self._scratch = scratch
        self._overlay: Overlay | None = None
        self._view: View | None = None

    @property
    def overlay(self) -> Overlay:
        """The transaction's own writes."""
        if self._overlay is None:
            self._overlay = Overlay(self._scratch, self.tracker.kernel, self.tracker.indexes)
        return self._overlay

    def order(self, index_id: IndexId) -> KeyDef:
        return index_of(self.tracker.kernel, index_id).key_def

    def select(
        self, index_id: IndexId, iterator: int, key: bytes, offset: int, limit: int, after: bytes | None
    ) -> list[bytes]:
        if self._overlay is not None:
            return self._overlay.select(index_id, iterator, key, offset, limit, after)
        return index_of(self.tracker.kernel, index_id).select(iterator, key, offset, limit, after)

    def get(self, index_id: IndexId, key: bytes) -> bytes | None:
        if self._overlay is not None:
            return self._overlay.get(index_id, key)
        return index_of(self.tracker.kernel, index_id).get(key)

    def is_own(self, index_id: IndexId, key: bytes) -> bool:
        """Is what this key finds the transaction's own work, whatever others do?"""
        return (
            self._overlay is not None
            and is_full_key(self.tracker.indexes[index_id], key)
            and not has_nil(key)
            and self._overlay.decides(index_id, key)
        )

    def forget_past(self) -> None:
        self._view = None

    def past(self, psn: int) -> Overlay:
        """The space as it was before the transaction `psn`."""
        if self._view is None:
            self._view = View(self.tracker, self._scratch, psn)
        return self._view.refresh()


class InteractiveTxn:
    """See `Transaction` for the statements. `Txns` begins and ends it."""

    interactive = True

    def __init__(self, manager: Txns, id: int, isolation: Isolation) -> None:
        self.id = id
        self.isolation = isolation
        self.status = Status.IN_PROGRESS
        self.abort_code = Er.UNKNOWN
        self.timer: Timer | None = None
        """Calls `expire` when its time is over."""
        self.is_sync = False
        """It asked to wait for the quorum of a synchronous commit."""
        self.must_settle = isolation is Isolation.READ_CONFIRMED
        """What it has been told rests on something that the journal may still lose: wait before answering."""
        self.has_seen_unclean = False
        """It has read in a space where something prepared before tracking may still be lost."""
        self.view_psn = 0
        """In a read view: it sees what was there before this transaction was prepared."""
        self.changes: list[Change] = []
        self.rows: list[RowDraft] = []
        self._written_after = 0
        """A statement that writes has looked at what was prepared up to here."""
        self.parts: dict[SpaceId, _Part] = {}
        self._manager = manager
        self._scratch = Scratch()

    # ---- state ---------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        return bool(self.changes or self.rows)

    @property
    def is_over(self) -> bool:
        return self.status in (Status.COMMITTED, Status.ROLLED_BACK)

    @property
    def is_alive(self) -> bool:
        return self.status in (Status.IN_PROGRESS, Status.IN_READ_VIEW)

    @property
    def needs_history(self) -> bool:
        """May it have to look behind changes that others make from now on?"""
        return self.status is Status.IN_READ_VIEW or (self.is_alive and self.isolation is Isolation.READ_CONFIRMED)

    def check_can_continue(self) -> None:
        if self.status is Status.ABORTED:
            raise er(self.abort_code)
        self.check_can_complete()

    def check_can_complete(self) -> None:
        """txn.h, txn_check_can_complete."""
        if self.status is Status.ROLLED_BACK:
            raise er(Er.TXN_ROLLBACK)
        if self.status is Status.COMMITTED:
            raise er(Er.TXN_COMMIT)

    def abort(self, code: Er) -> None:
        """It can only be rolled back from now on. What it held is let go."""
        if self.is_alive:
            self.status = Status.ABORTED
            self.abort_code = code
            self.drop()
            self._manager.let_go(self)

    def expire(self) -> None:
        """Its time is over (txn.c, txn_on_timeout)."""
        self.abort(Er.TRANSACTION_TIMEOUT)

    def drop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.changes.clear()
        self.rows.clear()
        self.parts.clear()
        self._scratch = Scratch()

    def meets(self, space_id: SpaceId, old: bytes | None, new: bytes | None) -> bool:
        """Would it have read something else after this change?"""
        part = self.parts.get(space_id)
        return part is not None and self.status is Status.IN_PROGRESS and part.reads.touched_by(old, new)

    def overtaken(self, psn: int) -> None:
        """Transaction `psn` changes what this one has read (txn.c, txn_send_to_read_view)."""
        if self.has_changes or self._written_after >= psn:
            self.abort(Er.TRANSACTION_CONFLICT)
            return
        if self.status is Status.IN_PROGRESS:
            self._manager.keep_history(self)
            self.status = Status.IN_READ_VIEW
        self.view_psn = psn
        for part in self.parts.values():
            part.forget_past()

    # ---- reading -------------------------------------------------------------------------------------

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
        self.check_can_continue()
        if space.is_system:
            self.must_settle |= self.isolation is Isolation.BEST_EFFORT
            return index_of(kernel_of(space), index_id).select(iterator, key, offset, limit, after)
        part = self._part(space)
        while True:
            found = self._scan(part, index_id, iterator, key, offset, limit, after)
            if limit == 0:
                return found
            until = found[-1] if len(found) == limit else None
            if not self._ignores_prepared(part, Stretch(part.order(index_id), iterator, key, after, until)):
                break
        if self.status is Status.IN_PROGRESS and (iterator != IteratorType.EQ or not part.is_own(index_id, key)):
            part.reads.add_stretch(index_id, iterator, key, after, until)
        self._depend_on(part)
        return found

    def get(self, space: Space, index_id: IndexId, key: bytes) -> bytes | None:
        """For a statement that writes: what is prepared, at every level (memtx_space.c reads it `is_rw`)."""
        self.check_can_continue()
        self._become_writer()
        part = self._part(space)
        found = part.get(index_id, key)
        if not part.is_own(index_id, key):
            part.reads.add_point(index_id, key)
        self._written_after = max(self._written_after, part.tracker.last_psn)
        self._depend_on(part)
        return found

    def count(self, space: Space, index_id: IndexId, iterator: int, key: bytes) -> int:
        return len(self.select(space, index_id, iterator, key))

    # ---- writing -------------------------------------------------------------------------------------

    def insert(self, space: Space, new: bytes) -> None:
        part = self._part_to_write(space, new)
        key = part.order(PRIMARY).extract(new)
        old = self.get(space, PRIMARY, key)
        if old is not None:
            raise DuplicateKey(PRIMARY, old, new)
        self._put(part, None, new)

    def replace(self, space: Space, new: bytes, *, observe_old: bool) -> bytes | None:
        part = self._part_to_write(space, new)
        key = part.order(PRIMARY).extract(new)
        old = self.get(space, PRIMARY, key) if observe_old else part.get(PRIMARY, key)
        self._put(part, old, new)
        return old

    def update(self, space: Space, old: bytes, new: bytes) -> None:
        self._put(self._part_to_write(space, new), old, new)

    def delete(self, space: Space, old: bytes) -> None:
        part = self._part_to_write(space, None)
        part.overlay.remove(old)
        self.changes.append(Change(space, old, None))

    def add_row(self, row: RowDraft) -> None:
        self.check_can_continue()
        self._become_writer()
        self.rows.append(row)

    def remove_row(self, row: RowDraft) -> None:
        take_out(self.rows, row)

    def mark(self) -> tuple[int, int, int]:
        return self._scratch.memtx.undo_end, len(self.changes), len(self.rows)

    def rollback_to(self, mark: object) -> None:
        if not self.is_alive:
            return
        assert isinstance(mark, tuple)
        position, changes, rows = mark
        self._scratch.memtx.rollback_to(position)
        del self.changes[changes:]
        del self.rows[rows:]

    # ---- inside --------------------------------------------------------------------------------------

    def _part(self, space: Space) -> _Part:
        part = self.parts.get(space.id)
        if part is None:
            part = self.parts[space.id] = _Part(self._scratch, space, self._manager.track(space, self))
        return part

    def _part_to_write(self, space: Space, new: bytes | None) -> _Part:
        """Where to write `new`, which fits the format."""
        self.check_can_continue()
        if space.is_system:
            self.abort(Er.TRANSACTION_YIELD)
            raise er(Er.UNSUPPORTED, "Interactive transaction", "changes of the schema; make them outside of it")
        self._become_writer()
        part = self._part(space)
        if new is not None:
            part.format.check(new)
        return part

    def _become_writer(self) -> None:
        """txn.c, txn_begin_stmt: who looks at the past cannot write."""
        if self.status is Status.IN_READ_VIEW:
            self.abort(Er.TRANSACTION_CONFLICT)
            raise er(Er.TRANSACTION_CONFLICT)

    def _put(self, part: _Part, old: bytes | None, new: bytes) -> None:
        overlay = part.overlay
        duplicate = overlay.duplicate(new)
        if duplicate is not None:
            index_id = IndexId(duplicate.index_id)
            part.reads.add_point(index_id, part.order(index_id).extract(new))
            self._written_after = max(self._written_after, part.tracker.last_psn)
            self._depend_on(part)
            raise duplicate
        for index_id, key_def in overlay.unique_secondary:
            if not has_nil(key_def.extract(new)):
                part.reads.add_guard(index_id, new)
        overlay.put(new)
        self.changes.append(Change(part.space, old, new))

    def _scan(
        self, part: _Part, index_id: IndexId, iterator: int, key: bytes, offset: int, limit: int, after: bytes | None
    ) -> list[bytes]:
        if self.status is Status.IN_READ_VIEW:
            return part.past(self.view_psn).select(index_id, iterator, key, offset, limit, after)
        return part.select(index_id, iterator, key, offset, limit, after)

    def _ignores_prepared(self, part: _Part, stretch: Stretch) -> bool:
        """At read-confirmed: does this scan meet a change that is not confirmed? Then the transaction is put before it
        (memtx_tx.c, memtx_tx_story_clarify_impl), and has to look again."""
        if self.isolation is not Isolation.READ_CONFIRMED:
            return False
        history = part.tracker.history
        for past in history[part.tracker.first_from(self._manager.confirmed + 1) :]:
            if self.status is Status.IN_READ_VIEW and past.psn >= self.view_psn:
                break
            if stretch.touched_by_change(past.old, past.new):
                self.overtaken(past.psn)
                self.check_can_continue()
                return True
        return False

    def _depend_on(self, part: _Part) -> None:
        """What was just read may still be lost."""
        if not part.tracker.clean and self._manager.watch_unclean(part.tracker):
            self.has_seen_unclean = True
        if self.isolation is Isolation.BEST_EFFORT and part.tracker.is_dirty(self._manager.confirmed):
            self.must_settle = True
