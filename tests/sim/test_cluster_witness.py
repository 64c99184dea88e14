"""The order of rows: what may not be in a journal is found there."""

from __future__ import annotations

import pytest

from headwater.sim.cluster.witness import Witness
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row


def rows(*those: tuple[int, int], text: str = "row") -> bytes:
    """By origin and LSN."""
    body = pack({0x10: 512, 0x21: [1, text]})
    return b"".join(
        encode_row(Row(Type.INSERT, replica_id=origin, lsn=lsn, tsn=lsn, timestamp=1.0, body=body))
        for origin, lsn in those
    )


@pytest.fixture
def witness() -> Witness:
    return Witness()


def words(witness: Witness) -> list[str]:
    return [str(violation) for violation in witness.violations]


def test_rows_in_order_are_right(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1), (1, 2), (2, 7)), {1: 2, 2: 7})
    witness.batch("n1", rows((1, 3), (2, 8)), {1: 3, 2: 8})
    witness.batch("n2", rows((2, 7)), {2: 7})
    assert witness.violations == []
    assert witness.count == 6


def test_gap_within_a_batch_is_found(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1), (1, 3)), {1: 3})
    assert words(witness) == ["order: n1 writes LSN 3 of 1 after 1"]


def test_gap_between_batches_is_found(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1), (2, 1)), {1: 1, 2: 1})
    witness.batch("n1", rows((2, 3)), {1: 1, 2: 3})
    assert words(witness) == ["order: n1 writes LSN 3 of 2 after 1"]


def test_row_written_twice_is_found(witness: Witness) -> None:
    witness.batch("n1", rows((2, 1)), {2: 1})
    witness.batch("n1", rows((2, 1)), {2: 1})
    assert words(witness) == ["order: n1 writes LSN 1 of 2 after 1"]


def test_first_row_of_an_origin_is_number_one(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1)), {1: 1})
    witness.batch("n1", rows((3, 2)), {1: 1, 3: 2})
    assert words(witness) == ["order: n1 writes LSN 2 of 3 after 0"]


def test_vclock_that_says_otherwise_than_its_rows_is_found(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1)), {1: 2})
    assert words(witness) == ["order: n1 has written LSN 1 of 1, and its vclock says 2"]


def test_other_row_under_the_same_lsn_is_found(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1)), {1: 1})
    witness.batch("n2", rows((1, 1), text="other"), {1: 1})
    assert len(witness.violations) == 1
    assert "LSN 1 of origin 1 is INSERT" in words(witness)[0]


def test_lsn_that_was_lost_may_be_given_again(witness: Witness) -> None:
    witness.batch("n1", rows((1, 1), (1, 2)), {1: 2})
    witness.lost(1, after=1)
    witness.batch("n2", rows((1, 1), (1, 2), text="row"), {1: 2})
    assert witness.violations == []


def test_local_rows_are_counted_but_not_compared(witness: Witness) -> None:
    local = [
        encode_row(Row(Type.INSERT, group_id=1, lsn=lsn, tsn=lsn, timestamp=1.0, body=pack({0x10: 512, 0x21: [name]})))
        for lsn, name in ((1, "a"), (2, "b"))
    ]
    witness.batch("n1", local[0], {0: 1})
    witness.batch("n2", local[0], {0: 1})
    witness.batch("n2", local[1], {0: 2})
    assert witness.violations == []


def test_vclock_that_goes_back_over_a_restart_is_found(witness: Witness) -> None:
    witness.came_back("n1", {1: 5, 2: 3}, {1: 5, 2: 4}, may_lose=False)
    witness.came_back("n1", {1: 5, 2: 3}, {1: 4, 2: 3}, may_lose=True)
    assert witness.violations == []
    witness.came_back("n1", {1: 5, 2: 3}, {1: 4, 2: 3}, may_lose=False)
    assert words(witness) == ["order: n1 had written {1: 5, 2: 3} and came back with {1: 4, 2: 3}"]
