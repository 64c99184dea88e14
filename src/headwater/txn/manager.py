"""All transactions of a node: who is open, who depends on which space, and what a commit means for the others.

A transaction gets a serial number (`psn`, as in txn.c) when it is prepared and touches a space that somebody tracks.
The undo queue tells in the same order which of them are confirmed, and newest first which are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from headwater.errors import Er, IllegalParams, er
from headwater.kernels import DuplicateKey, FormatViolation, Memtx
from headwater.store.space import Space
from headwater.txn.base import PRIMARY, Change, index_of, kernel_of
from headwater.txn.direct import DirectTxn
from headwater.txn.interactive import InteractiveTxn, Status
from headwater.txn.isolation import Isolation
from headwater.txn.rows import GROUP_LOCAL
from headwater.txn.tracker import Tracker
from headwater.typing import SpaceId


class Txns:
    """`spaces` gives the spaces of the node as they are now, `now` the time that is written into rows."""

    def __init__(self, memtx: Memtx, spaces: Callable[[], Iterable[Space]], now: Callable[[], float]) -> None:
        self.memtx = memtx
        self.now = now
        self.before_commit: list[Callable[[DirectTxn, float], object]] = []
        """Called with a transaction that is about to be prepared, and the time that its rows will have; what they add
        to it is a part of it."""
        self.confirmed = 0
        """The last psn that can no longer be lost."""
        self.open: dict[int, InteractiveTxn] = {}
        """Transactions that may still go on, by id."""
        self._spaces = spaces
        self._trackers: dict[SpaceId, Tracker] = {}
        self._historians: set[int] = set()
        """Ids of transactions that may look behind later changes, in any space; while there are some, all spaces are
        tracked and histories are kept."""
        self._psn = 0
        self._last_id = 0

    # ---- begin and end -------------------------------------------------------------------------------

    def begin(self, isolation: Isolation = Isolation.BEST_EFFORT) -> InteractiveTxn:
        """A transaction over many turns. If it says `must_settle`, its first statement has to wait."""
        if isolation is Isolation.LINEARIZABLE:
            raise er(Er.UNSUPPORTED, "Headwater", "linearizable transactions")
        self._last_id += 1
        txn = InteractiveTxn(self, self._last_id, isolation)
        self.open[txn.id] = txn
        if txn.needs_history:
            self.keep_history(txn)
        return txn

    def direct(self) -> DirectTxn:
        return DirectTxn(self)

    def commit(self, txn: InteractiveTxn) -> bool:
        """Prepared: what it wrote is there for everybody and on its way to the journal; False if it wrote nothing.
        BoxError if it was aborted; it is over in any case."""
        txn.check_can_complete()
        try:
            txn.check_can_continue()
            wrote = txn.has_changes
            if wrote:
                self._apply(txn)
        except BaseException:
            self._finish(txn, Status.ROLLED_BACK)
            raise
        self._finish(txn, Status.COMMITTED)
        return wrote

    def rollback(self, txn: InteractiveTxn) -> None:
        txn.check_can_complete()
        self._finish(txn, Status.ROLLED_BACK)

    def _apply(self, txn: InteractiveTxn) -> None:
        if txn.is_sync and txn.rows and all(row.group_id == GROUP_LOCAL for row in txn.rows):
            raise IllegalParams("An attempt to commit a fully local transaction synchronously")
        direct = self.direct()
        try:
            for change in txn.changes:
                _apply_change(direct, change)
        except (DuplicateKey, FormatViolation):
            direct.rollback()
            raise er(Er.TRANSACTION_CONFLICT) from None
        direct.rows = txn.rows
        direct.commit(txn)

    def _finish(self, txn: InteractiveTxn, status: Status) -> None:
        txn.drop()
        txn.status = status
        self.let_go(txn)

    # ---- tracking ------------------------------------------------------------------------------------

    def track(self, space: Space, txn: InteractiveTxn) -> Tracker:
        """`txn` reads or writes in `space` for the first time."""
        if txn.needs_history and space.id not in self._trackers:
            txn.abort(Er.TRANSACTION_CONFLICT)
            txn.check_can_continue()
        tracker = self._tracker(space)
        tracker.users[txn.id] = txn
        return tracker

    def keep_history(self, txn: InteractiveTxn) -> None:
        """`txn` may have to look behind changes from now on, wherever they are made."""
        self._historians.add(txn.id)
        for space in self._spaces():
            if space.kernel is not None and space.pk is not None and not space.is_system:
                self._tracker(space)

    def let_go(self, txn: InteractiveTxn) -> None:
        """`txn` will read nothing more."""
        self.open.pop(txn.id, None)
        self._historians.discard(txn.id)
        for tracker in self._trackers.values():
            tracker.users.pop(txn.id, None)
        self._forget_history()
        if not self._historians:
            self._release_unused()

    def schema_changes(self, space_id: SpaceId) -> None:
        """Before the definition of a space changes: nobody who has seen it can go on (memtx_tx.c,
        memtx_tx_invalidate_space). If the journal takes the change back, nor can who has seen what came of it."""
        self._nobody_goes_on(space_id)
        if self.memtx.undo_enabled:
            self.memtx.push_undo(partial(self._nobody_goes_on, space_id))

    def _nobody_goes_on(self, space_id: SpaceId) -> None:
        tracker = self._trackers.get(space_id)
        if tracker is None:
            return
        for txn in self._in_order(tracker.users.keys() | self._historians):
            txn.abort(Er.TRANSACTION_CONFLICT)
        if self._trackers.pop(space_id, None) is not None:
            tracker.release()

    def abort_writers(self, is_local: Callable[[Space], bool]) -> None:
        """The node became read-only (box.cc, box_update_ro_summary): who has written to a space that others share
        cannot commit."""
        for txn in self._in_order(self.open):
            if any(not is_local(change.space) for change in txn.changes):
                txn.abort(Er.READONLY)

    def _tracker(self, space: Space) -> Tracker:
        tracker = self._trackers.get(space.id)
        if tracker is None:
            tracker = self._trackers[space.id] = Tracker(space)
        return tracker

    def _forget_history(self) -> None:
        """Keep what a view still shows, and what is not confirmed while somebody ignores that."""
        oldest = self.confirmed + 1 if self._historians else self._psn + 1
        for txn in self._in_order(self._historians):
            if txn.status is Status.IN_READ_VIEW:
                oldest = min(oldest, txn.view_psn)
        for tracker in self._trackers.values():
            tracker.forget_before(oldest)

    def _release_unused(self) -> None:
        for space_id, tracker in list(self._trackers.items()):
            if not tracker.users:
                del self._trackers[space_id]
                tracker.release()

    def _in_order(self, ids: Iterable[int]) -> list[InteractiveTxn]:
        return [self.open[txn_id] for txn_id in sorted(ids) if txn_id in self.open]

    # ---- prepared, confirmed, lost -------------------------------------------------------------------

    def prepared(self, changes: Sequence[Change], by: InteractiveTxn | None) -> None:
        """A transaction has just changed the spaces."""
        if not any(change.space.id in self._trackers for change in changes):
            return
        self._psn += 1
        psn = self._psn
        for txn in self._readers(changes, by):
            txn.overtaken(psn)
        for change in changes:
            tracker = self._trackers.get(change.space.id)
            if tracker is not None:
                tracker.last_psn = psn
                if self._historians:
                    tracker.add(psn, change.old, change.new)
        self.memtx.push_undo(partial(self._lost, psn, changes), partial(self._confirm, psn))

    def _readers(self, changes: Sequence[Change], by: InteractiveTxn | None) -> list[InteractiveTxn]:
        """Open transactions that would have read something else after these changes."""
        readers: set[int] = set()
        for change in changes:
            tracker = self._trackers.get(change.space.id)
            for txn_id, txn in tracker.users.items() if tracker is not None else ():
                if txn_id not in readers and txn is not by and txn.meets(change.space.id, change.old, change.new):
                    readers.add(txn_id)
        return self._in_order(readers)

    def _confirm(self, psn: int) -> None:
        self.confirmed = psn
        if self._historians:
            self._forget_history()

    def watch_unclean(self, tracker: Tracker) -> bool:
        """Is something that was prepared before tracking began, and that the tracker did not see, not yet confirmed?
        Then a record in the undo queue, behind it, tells what becomes of it."""
        if tracker.is_settled:
            tracker.cleared()
        elif not tracker.watched:
            tracker.watched = True
            self.memtx.push_undo(partial(self._lost_before, tracker), tracker.cleared)
        return not tracker.clean

    def _lost_before(self, tracker: Tracker) -> None:
        """The journal failed, perhaps with a change of this space in it that the tracker did not see."""
        tracker.watched = False
        for txn in self._in_order(tracker.users):
            if txn.has_seen_unclean:
                txn.abort(Er.TRANSACTION_CONFLICT)

    def _lost(self, psn: int, changes: Sequence[Change]) -> None:
        """The journal failed: whoever has seen these changes has seen what never was."""
        for txn in self._in_order(self.open):
            if txn.status is Status.IN_READ_VIEW and txn.view_psn > psn:
                txn.abort(Er.TRANSACTION_CONFLICT)
        for txn in self._readers(changes, None):
            txn.abort(Er.TRANSACTION_CONFLICT)
        for tracker in self._trackers.values():
            tracker.take_back(psn)


def _apply_change(direct: DirectTxn, change: Change) -> None:
    if change.new is not None:
        direct.replace(change.space, change.new, observe_old=False)
    elif change.old is not None:
        key_def = index_of(kernel_of(change.space), PRIMARY).key_def
        there = direct.get(change.space, PRIMARY, key_def.extract(change.old))
        if there is not None:
            direct.delete(change.space, there)
