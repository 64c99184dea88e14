"""What transactions see of each other, anomaly by anomaly."""

from __future__ import annotations

from typing import Any

import pytest
from tests.txn.store import PK, Store, client, pack

from headwater.errors import BoxError, Er, IllegalParams
from headwater.kernels import DuplicateKey, FormatViolation
from headwater.txn import Isolation, Status, isolation_of
from headwater.txn.base import kernel_of
from headwater.typing import IteratorType

LEVELS = [Isolation.READ_COMMITTED, Isolation.READ_CONFIRMED, Isolation.BEST_EFFORT]


@pytest.fixture
def store() -> Store:
    store = Store()
    store.put([1, "a", 10], [2, "b", 20], [3, "c", 30])
    store.written()
    return store


def conflicts(call: Any, *args: Any) -> None:
    with pytest.raises(BoxError) as caught:
        call(*args)
    assert caught.value.code == Er.TRANSACTION_CONFLICT


# ---- what a transaction does is its own until it commits ---------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_own_writes_are_seen_in_every_index_and_by_nobody_else(store: Store, level: Isolation) -> None:
    one, two = client(store, level), client(store, level)
    one.insert(4, "d", 5)
    one.update(2, "z", 40)
    one.delete(1)
    assert one.all() == [[2, "z", 40], [3, "c", 30], [4, "d", 5]]
    assert one.select(["z"], index=1) == [[2, "z", 40]]
    assert one.select(["b"], index=1) == []
    assert one.select([], IteratorType.ALL, index=2) == [[4, "d", 5], [3, "c", 30], [2, "z", 40]]
    assert one.select([], IteratorType.LE, index=2, limit=2, offset=1) == [[3, "c", 30], [4, "d", 5]]
    assert two.all() == [[1, "a", 10], [2, "b", 20], [3, "c", 30]]
    assert one.commit()
    assert store.rows() == [[2, "z", 40], [3, "c", 30], [4, "d", 5]]


def test_rolled_back_work_was_never_there(store: Store) -> None:
    one = client(store)
    one.replace(9, "i", 1)
    one.delete(1)
    one.rollback()
    assert store.rows() == [[1, "a", 10], [2, "b", 20], [3, "c", 30]]
    assert store.memtx.rows_pending == 0


@pytest.mark.parametrize("level", LEVELS)
def test_no_dirty_read_of_an_open_transaction(store: Store, level: Isolation) -> None:
    writer, reader = client(store, level), client(store, level)
    writer.update(1, "a", 99)
    assert reader.select([1]) == [[1, "a", 10]]
    writer.rollback()
    assert reader.select([1]) == [[1, "a", 10]]
    reader.commit()


# ---- anomalies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_lost_update_is_refused(store: Store, level: Isolation) -> None:
    one, two = client(store, level), client(store, level)
    (_, _, first), (_, _, second) = one.select([1])[0], two.select([1])[0]
    one.replace(1, "a", first + 1)
    two.replace(1, "a", second + 1)
    one.commit()
    conflicts(two.commit)
    assert store.rows()[0] == [1, "a", 11]


@pytest.mark.parametrize("level", LEVELS)
def test_write_skew_is_refused(store: Store, level: Isolation) -> None:
    one, two = client(store, level), client(store, level)
    assert len(one.select([1]) + one.select([2])) == len(two.select([1]) + two.select([2])) == 2
    one.replace(1, "a", 0)
    two.replace(2, "b", 0)
    one.commit()
    conflicts(two.commit)
    assert store.rows() == [[1, "a", 0], [2, "b", 20], [3, "c", 30]]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("index", "key", "iterator"), [(0, [], 2), (0, [1], 5), (2, [15], 5), (2, [25], 0), (1, ["q"], 0)]
)
def test_phantom_is_refused_in_every_index(
    store: Store, level: Isolation, index: int, key: list[Any], iterator: int
) -> None:
    one = client(store, level)
    before = one.select(key, iterator, index)
    store.put([4, "q", 25])
    store.written()
    one_again = one.select(key, iterator, index)
    assert one_again == before, "a transaction that has only read goes on seeing the same"
    conflicts(one.replace, 7, "x", 1)


def test_a_write_outside_what_was_read_is_no_conflict(store: Store) -> None:
    one = client(store)
    assert one.select([1], IteratorType.GE, limit=2) == [[1, "a", 10], [2, "b", 20]]
    store.put([3, "c", 31], [4, "d", 1])
    one.replace(7, "x", 1)
    assert one.txn.status is Status.IN_PROGRESS
    one.commit()


def test_a_scan_with_a_limit_is_read_up_to_its_last_tuple(store: Store) -> None:
    one = client(store)
    assert one.select([], IteratorType.LE, limit=1) == [[3, "c", 30]]
    store.put([2, "b", 21])
    assert one.txn.status is Status.IN_PROGRESS
    store.put([4, "d", 1])
    assert one.txn.status is Status.IN_READ_VIEW


def test_insert_of_a_key_that_somebody_inserts_first(store: Store) -> None:
    one, two = client(store), client(store)
    one.insert(7, "x", 1)
    two.insert(7, "y", 2)
    two.commit()
    conflicts(one.commit)
    assert store.rows()[-1] == [7, "y", 2]


def test_blind_replace_conflicts_with_nobody(store: Store) -> None:
    one, two = client(store), client(store)
    one.replace(1, "a", 11)
    two.replace(1, "a", 12)
    two.commit()
    one.commit()
    assert store.rows()[0] == [1, "a", 11]


def test_blind_replace_of_a_unique_name_that_somebody_takes(store: Store) -> None:
    one = client(store)
    one.replace(7, "x", 1)
    store.put([8, "x", 1])
    conflicts(one.commit)


def test_unique_names_within_a_transaction(store: Store) -> None:
    one = client(store)
    one.insert(7, "x", 1)
    with pytest.raises(DuplicateKey) as caught:
        one.insert(8, "x", 2)
    assert caught.value.index_id == 1
    with pytest.raises(DuplicateKey):
        one.insert(1, "y", 2)
    with pytest.raises(DuplicateKey):
        one.replace(9, "a", 2)
    one.delete(1)
    one.replace(9, "a", 2)
    one.insert(1, None, 0)
    one.insert(11, None, 0)
    one.commit()
    assert [row[:2] for row in store.rows()] == [[1, None], [2, "b"], [3, "c"], [7, "x"], [9, "a"], [11, None]]


def test_format_is_checked_at_the_statement(store: Store) -> None:
    with pytest.raises(FormatViolation):
        client(store).insert("not a number", "x", 1)


def test_equal_keys_in_other_encodings_are_the_same_key(store: Store) -> None:
    one = client(store)
    assert one.select([77]) == []
    direct = store.txns.direct()
    direct.replace(store.space, b"\x93\xcd\x00\x4d\xa1w\x01", observe_old=False)
    direct.commit()
    conflicts(one.replace, 1, "a", 1)


# ---- read views ----------------------------------------------------------------------------------------


def test_a_reader_goes_on_in_the_picture_from_before(store: Store) -> None:
    one = client(store)
    assert one.select([1]) == [[1, "a", 10]]
    store.put([1, "a", 11])
    store.put([2, "b", 21], [5, "e", 1])
    store.remove(3)
    store.written()
    assert one.all() == [[1, "a", 10], [2, "b", 20], [3, "c", 30]]
    assert one.select(["c"], index=1) == [[3, "c", 30]]
    assert one.select([], IteratorType.LE, index=2, limit=2) == [[3, "c", 30], [2, "b", 20]]
    store.put([2, "b", 22])
    assert one.select([2]) == [[2, "b", 20]]
    assert not one.commit()
    assert store.rows() == [[1, "a", 11], [2, "b", 22], [5, "e", 1]]


def test_a_read_view_covers_spaces_not_looked_at_before(store: Store) -> None:
    store.put([1, "x", 1], space=store.other)
    store.written()
    one = client(store)
    assert one.select([1])
    store.put([1, "a", 11])
    store.put([1, "x", 2], space=store.other)
    found = one.txn.select(store.other, PK, IteratorType.ALL, b"\x90")
    assert found == [pack([1, "x", 1])]


def test_one_commit_changes_two_spaces_and_the_view_is_before_both(store: Store) -> None:
    one, writer = client(store), client(store)
    assert one.select([1])
    writer.replace(1, "a", 11)
    writer.txn.replace(store.other, pack([5, "v", 5]), observe_old=False)
    writer.commit()
    assert one.txn.select(store.other, PK, IteratorType.ALL, b"\x90") == []
    assert one.select([1]) == [[1, "a", 10]]


# ---- what is not yet written ---------------------------------------------------------------------------


def test_read_committed_sees_prepared_changes_and_does_not_wait(store: Store) -> None:
    store.put([1, "a", 11])
    one = client(store, Isolation.READ_COMMITTED)
    assert one.select([1]) == [[1, "a", 11]]
    assert not one.txn.must_settle


def test_best_effort_sees_prepared_changes_and_waits(store: Store) -> None:
    store.put([1, "a", 11])
    one = client(store, Isolation.BEST_EFFORT)
    assert one.select([1]) == [[1, "a", 11]]
    assert one.txn.must_settle
    store.written()
    one.txn.must_settle = False
    assert one.select([2]) == [[2, "b", 20]]
    assert not one.txn.must_settle


def test_read_confirmed_does_not_see_what_may_be_lost(store: Store) -> None:
    one = client(store, Isolation.READ_CONFIRMED)
    assert one.txn.must_settle, "what was prepared before it began is waited for once"
    store.written()
    one.txn.must_settle = False
    mark = store.memtx.undo_end
    store.put([1, "a", 11])
    assert one.select([2]) == [[2, "b", 20]]
    assert one.txn.status is Status.IN_PROGRESS
    assert one.select([1]) == [[1, "a", 10]]
    assert one.txn.status is Status.IN_READ_VIEW
    assert not one.txn.must_settle
    store.lost_from(mark)
    assert one.all() == [[1, "a", 10], [2, "b", 20], [3, "c", 30]]
    one.commit()


def test_read_confirmed_sees_what_is_confirmed_meanwhile(store: Store) -> None:
    one = client(store, Isolation.READ_CONFIRMED)
    store.put([1, "a", 11])
    store.written()
    assert one.select([1]) == [[1, "a", 11]]
    one.replace(1, "a", 12)
    one.commit()


def test_a_writer_at_read_confirmed_cannot_ignore_a_prepared_change(store: Store) -> None:
    one = client(store, Isolation.READ_CONFIRMED)
    one.replace(9, "i", 1)
    store.put([1, "a", 11])
    conflicts(one.select, [1])
    conflicts(one.commit)


@pytest.mark.parametrize("level", [Isolation.READ_COMMITTED, Isolation.BEST_EFFORT])
def test_who_read_what_the_journal_lost_is_doomed(store: Store, level: Isolation) -> None:
    mark = store.memtx.undo_end
    store.put([1, "a", 11])
    reader, writer, bystander = client(store, level), client(store, level), client(store, level)
    reader.select([1])
    writer.select([1])
    writer.replace(2, "b", 0)
    bystander.txn.select(store.other, PK, IteratorType.ALL, pack([]))
    bystander.replace(3, "c", 0)
    store.lost_from(mark)
    conflicts(reader.commit)
    conflicts(writer.commit)
    assert bystander.commit()
    assert store.rows() == [[1, "a", 10], [2, "b", 20], [3, "c", 0]]


def test_a_view_that_shows_a_lost_change_is_doomed(store: Store) -> None:
    one = client(store, Isolation.READ_COMMITTED)
    mark = store.memtx.undo_end
    store.put([1, "a", 11])
    assert one.select([2])
    store.put([2, "b", 21])
    assert one.txn.status is Status.IN_READ_VIEW
    store.lost_from(mark)
    conflicts(one.select, [1])


def test_losing_the_newest_transactions_unwinds_all_of_them(store: Store) -> None:
    mark = store.memtx.undo_end
    one, two = client(store), client(store)
    one.replace(1, "a", 11)
    one.insert(4, "d", 1)
    one.commit()
    two.replace(1, "a", 12)
    two.delete(4)
    two.commit()
    store.lost_from(mark)
    assert store.rows() == [[1, "a", 10], [2, "b", 20], [3, "c", 30]]


# ---- the fast path ---------------------------------------------------------------------------------------


def test_a_space_is_slow_only_while_somebody_depends_on_it(store: Store) -> None:
    assert kernel_of(store.space).fast
    one = client(store)
    one.select([1])
    assert not kernel_of(store.space).fast
    assert kernel_of(store.other).fast
    one.commit()
    assert kernel_of(store.space).fast


def test_a_view_makes_all_spaces_slow_until_it_ends(store: Store) -> None:
    one = client(store)
    one.select([1])
    store.put([1, "a", 11])
    assert not kernel_of(store.other).fast
    one.rollback()
    assert kernel_of(store.other).fast
    assert kernel_of(store.space).fast


def test_a_doomed_transaction_holds_nothing(store: Store) -> None:
    one = client(store)
    one.select([1])
    one.replace(5, "e", 1)
    store.put([1, "a", 11])
    assert one.txn.status is Status.ABORTED
    assert kernel_of(store.space).fast


# ---- ends --------------------------------------------------------------------------------------------------


def test_time_is_over(store: Store) -> None:
    one = client(store)
    one.replace(5, "e", 1)
    one.txn.expire()
    for call in (lambda: one.select([1]), one.commit):
        with pytest.raises(BoxError) as caught:
            call()
        assert caught.value.code == Er.TRANSACTION_TIMEOUT
    with pytest.raises(BoxError) as caught:
        one.commit()
    assert caught.value.code == Er.TXN_ROLLBACK
    assert len(store.rows()) == 3


def test_schema_change_dooms_who_has_seen_the_space(store: Store) -> None:
    one, two = client(store), client(store)
    one.select([1])
    two.txn.select(store.other, PK, IteratorType.ALL, b"\x90")
    store.txns.schema_changes(store.space.id)
    conflicts(one.select, [2])
    two.commit()


def test_a_node_that_becomes_read_only_dooms_writers(store: Store) -> None:
    reader, writer = client(store), client(store)
    reader.select([1])
    writer.replace(5, "e", 1)
    store.txns.abort_writers(lambda space: False)
    reader.commit()
    with pytest.raises(BoxError) as caught:
        writer.commit()
    assert caught.value.code == Er.READONLY


def test_a_statement_is_taken_back_alone(store: Store) -> None:
    one = client(store)
    one.replace(5, "e", 1)
    mark = one.txn.mark()
    one.replace(6, "f", 1)
    one.delete(5)
    one.txn.rollback_to(mark)
    assert one.select([5], IteratorType.GE) == [[5, "e", 1]]
    one.commit()
    assert store.rows()[3:] == [[5, "e", 1]]


def test_schema_cannot_change_in_an_interactive_transaction(store: Store) -> None:
    one = client(store)
    system = store._space(300)
    with pytest.raises(BoxError) as caught:
        one.txn.replace(system, pack([1, "x", 1]), observe_old=False)
    assert caught.value.code == Er.UNSUPPORTED
    with pytest.raises(BoxError) as caught:
        one.commit()
    assert caught.value.code == Er.TRANSACTION_YIELD


def test_levels_by_number() -> None:
    assert isolation_of(2) is Isolation.READ_CONFIRMED
    with pytest.raises(IllegalParams, match="unknown isolation level"):
        isolation_of(5)


def test_linearizable_is_refused_by_name(store: Store) -> None:
    with pytest.raises(BoxError, match="linearizable"):
        store.begin(Isolation.LINEARIZABLE)
