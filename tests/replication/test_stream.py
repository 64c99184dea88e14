"""Transactions out of rows."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headwater.errors import BoxError, Er, er
from headwater.replication.stream import Transactions, unseen
from headwater.wire.constants import ERROR_BIT, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, decode_row, encode_row

SET = UUID(int=7)


def row(lsn: int, tsn: int = 0, *, last: bool = True, id: int = 1, type: int = Type.REPLACE) -> Row:
    """As it comes from the wire: `tsn` 0 is a transaction of one row."""
    made = Row(type, id, 0, lsn, 1.0, tsn or lsn, 1 if last else 0, pack({16: 512, 33: [1]}))
    return decode_row(encode_row(made))[0]


def taken(*rows: Row) -> list[list[int]]:
    stream = Transactions(SET)
    found = [stream.take(one) for one in rows]
    assert not stream.is_inside
    return [[one.lsn for one in transaction] for transaction in found if transaction is not None]


def refused(*rows: Row) -> BoxError:
    stream = Transactions(SET)
    for one in rows[:-1]:
        stream.take(one)
    with pytest.raises(BoxError) as raised:
        stream.take(rows[-1])
    return raised.value


@given(some.lists(some.integers(1, 5), max_size=10))
def test_transactions_come_out_as_they_went_in(sizes: list[int]) -> None:
    rows: list[Row] = []
    wanted: list[list[int]] = []
    lsn = 0
    for size in sizes:
        first = lsn + 1
        wanted.append(list(range(first, first + size)))
        lsn = wanted[-1][-1]
        rows += [row(each, 0 if size == 1 else first, last=each == lsn) for each in wanted[-1]]
    assert taken(*rows) == wanted


def test_a_transaction_is_given_when_its_last_row_is_there() -> None:
    stream = Transactions(SET)
    assert stream.take(row(5, 5, last=False)) is None
    assert stream.is_inside
    assert stream.take(row(6, 5)) is not None
    assert not stream.is_inside


def test_heartbeats_and_raft_messages_are_transactions_of_one_row_without_lsn() -> None:
    assert taken(Row(Type.OK, 1, flags=1), Row(Type.RAFT, flags=1, body=b"\x80"), row(1)) == [[0], [0], [1]]


def test_gaps_between_and_inside_transactions_are_legal() -> None:
    assert taken(row(5), row(9, 9, last=False), row(12, 9), row(20)) == [[5], [9, 12], [20]]


def test_an_error_of_the_master_is_raised_as_it_is() -> None:
    stream = Transactions(SET)
    body = pack({49: "words"})
    with pytest.raises(BoxError, match="words") as raised:
        stream.take(Row(ERROR_BIT | Er.LOADING, flags=1, body=body))
    assert raised.value.code == Er.LOADING


def test_interleaving_transactions_are_refused() -> None:
    assert refused(row(5, 5, last=False), row(6)).code == Er.UNSUPPORTED
    assert refused(row(5, 5, last=False), row(7, 7, last=False)).code == Er.UNSUPPORTED


@pytest.mark.parametrize("type", [Type.OK, Type.RAFT])
def test_a_heartbeat_inside_a_transaction_is_refused(type: int) -> None:
    error = refused(row(5, 5, last=False), Row(type, 1, flags=1))
    assert error.message == er(Er.UNSUPPORTED, "replication", "interleaving transactions").message


def test_a_transaction_that_begins_in_its_middle_is_refused() -> None:
    assert refused(row(6, 5)).message == "Transaction id must be equal to LSN of the first row in the transaction."


def test_lsns_of_one_transaction_grow_and_are_of_one_origin() -> None:
    assert refused(row(5, 5, last=False), row(5, 5)).code == Er.PROTOCOL
    assert refused(row(5, 5, last=False), row(6, 5, last=False), row(6, 5)).code == Er.PROTOCOL
    assert refused(row(5, 5, last=False), row(6, 5, id=2)).code == Er.PROTOCOL


def test_ids_that_no_vclock_has_are_refused() -> None:
    error = refused(row(1, id=32))
    assert error.code == Er.UNKNOWN_REPLICA
    assert str(SET) in error.message
    assert refused(row(1, id=0)).code == Er.PROTOCOL


@pytest.mark.parametrize("type", [Type.SELECT, Type.CALL, Type.AUTH, 200])
def test_rows_of_other_types_are_refused(type: int) -> None:
    assert refused(row(1, type=type)).code == Er.UNKNOWN_REQUEST_TYPE


def test_a_row_without_lsn_and_a_heartbeat_with_one_are_refused() -> None:
    assert refused(Row(Type.REPLACE, 1, flags=1)).code == Er.PROTOCOL
    assert refused(row(5, type=Type.OK)).code == Er.PROTOCOL
    assert refused(row(2**63)).code == Er.PROTOCOL


@pytest.mark.parametrize("type", [Type.RAFT_CONFIRM, Type.RAFT_PROMOTE])
def test_words_about_the_queue_stand_alone(type: int) -> None:
    assert taken(row(5, type=type)) == [[5]]
    assert refused(row(5, 5, last=False), row(6, 5, type=type)).code == Er.PROTOCOL
    assert refused(row(5, 5, last=False, type=type), row(6, 5)).code == Er.PROTOCOL


def test_what_is_known_is_left_out() -> None:
    rows = [row(5, 5, last=False), row(6, 5, last=False), row(7, 5)]
    assert [one.lsn for one in unseen(rows, 5)] == [6, 7]
    assert unseen(rows, 7) == []
