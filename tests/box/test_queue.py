"""What CONFIRM, ROLLBACK, PROMOTE and DEMOTE of a journal do to the transactions before them (seed 002)."""

from __future__ import annotations

from headwater.limbo.queue import Entry, SyncQueue
from headwater.wire.constants import Type
from headwater.wire.synchro import Synchro


def queue(*entries: tuple[int, bool]) -> SyncQueue:
    """Owned by 1; the undo position of an entry is ten times its LSN."""
    made = SyncQueue(owner=1, term=2)
    for lsn, is_sync in entries:
        made.append(Entry(lsn, is_sync, 10 * lsn), 1)
    return made


def lsns(made: SyncQueue) -> list[int]:
    return [entry.lsn for entry in made.entries]


def test_confirm_takes_everything_up_to_its_lsn_and_what_only_waited_behind() -> None:
    made = queue((5, True), (6, False), (7, True), (8, False))
    assert made.process(Synchro(Type.RAFT_CONFIRM, 1, 5)) is None
    assert lsns(made) == [7, 8]
    assert made.process(Synchro(Type.RAFT_CONFIRM, 1, 7)) is None
    assert lsns(made) == []
    assert made.confirmed == {1: 7}


def test_rollback_takes_its_lsn_and_everything_after() -> None:
    made = queue((5, True), (6, False), (7, True), (8, False))
    assert made.process(Synchro(Type.RAFT_ROLLBACK, 1, 7)) == 70
    assert lsns(made) == [5, 6]
    assert made.process(Synchro(Type.RAFT_ROLLBACK, 1, 9)) is None
    assert lsns(made) == [5, 6]


def test_promote_confirms_up_to_its_lsn_takes_back_the_rest_and_changes_the_owner() -> None:
    made = queue((5, True), (7, True), (8, False))
    assert made.process(Synchro(Type.RAFT_PROMOTE, 1, 5, term=3, origin_id=2)) == 70
    assert lsns(made) == []
    assert (made.owner, made.term, made.confirmed) == (2, 3, {1: 5})


def test_demote_leaves_nobody() -> None:
    made = queue()
    assert made.process(Synchro(Type.RAFT_DEMOTE, 1, 9, term=4, origin_id=1)) is None
    assert (made.owner, made.term) == (0, 4)


def test_without_promote_the_first_writer_owns_the_queue() -> None:
    made = SyncQueue()
    made.append(Entry(4, True, 40), 3)
    assert made.owner == 3


def test_a_snapshot_keeps_the_state() -> None:
    made = queue()
    made.process(Synchro(Type.RAFT_CONFIRM, 1, 9))
    again = SyncQueue()
    again.restore(made.checkpoint())
    assert (again.owner, again.term, again.confirmed) == (1, 2, {1: 9})
