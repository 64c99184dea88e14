"""The vector clock: order, text, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.vclock import Order, VClock, VClockError

components = st.dictionaries(st.integers(0, 31), st.integers(0, 6), max_size=4)
vclocks = components.map(VClock)


def test_empty() -> None:
    vclock = VClock()
    assert (str(vclock), vclock.signature, len(vclock), vclock.get(7)) == ("{}", 0, 0, 0)
    assert vclock


def test_follow_goes_forward_only() -> None:
    vclock = VClock()
    assert vclock.follow(1, 5) == 0
    assert vclock.follow(1, 7) == 5
    for lsn in (7, 6, 0, -1):
        with pytest.raises(VClockError, match=f"LSN {lsn} of replica 1 is not newer than 7"):
            vclock.follow(1, lsn)
    assert str(vclock) == "{1: 7}"


@pytest.mark.parametrize(("replica_id", "lsn"), [(-1, 1), (32, 1), (1, -1), (1, 2**63)])
def test_components_are_bounded(replica_id: int, lsn: int) -> None:
    with pytest.raises(VClockError):
        VClock().reset(replica_id, lsn)


@pytest.mark.parametrize(
    ("left", "right", "order", "order0"),
    [
        ({}, {}, Order.EQUAL, Order.EQUAL),
        ({1: 1}, {}, Order.GREATER, Order.GREATER),
        ({}, {1: 1}, Order.LESS, Order.LESS),
        ({1: 5, 2: 10}, {1: 7, 2: 3}, Order.CONCURRENT, Order.CONCURRENT),
        ({1: 1}, {2: 1}, Order.CONCURRENT, Order.CONCURRENT),
        ({0: 1, 1: 1}, {1: 1}, Order.GREATER, Order.EQUAL),
        ({0: 9, 1: 1}, {1: 2}, Order.CONCURRENT, Order.LESS),
        ({1: 0}, {}, Order.EQUAL, Order.EQUAL),
    ],
)
def test_order(left: dict[int, int], right: dict[int, int], order: Order, order0: Order) -> None:
    assert VClock(left).compare(VClock(right)) is order
    assert VClock(left).compare(VClock(right), ignore0=True) is order0


OPPOSITE = {
    Order.LESS: Order.GREATER,
    Order.GREATER: Order.LESS,
    Order.EQUAL: Order.EQUAL,
    Order.CONCURRENT: Order.CONCURRENT,
}


@given(vclocks, vclocks)
def test_order_is_a_partial_order(left: VClock, right: VClock) -> None:
    order = left.compare(right)
    assert right.compare(left) is OPPOSITE[order]
    assert (order is Order.EQUAL) == (left == right)
    assert left.covers(right) == all(left.get(id_) >= lsn for id_, lsn in right.items())
    if order is not Order.CONCURRENT:
        assert left.lex_compare(right) == order.value


@given(vclocks, vclocks)
def test_merge_and_minimum_are_bounds(left: VClock, right: VClock) -> None:
    upper, lower = left.copy(), left.copy()
    upper.merge(right)
    lower.minimum(right)
    for one in (left, right):
        assert upper.covers(one)
        assert one.covers(lower)
    assert upper.as_dict() == {i: max(left.get(i), right.get(i)) for i in range(32) if left.get(i) or right.get(i)}
    assert lower.as_dict() == {i: min(left.get(i), right.get(i)) for i in range(32) if left.get(i) and right.get(i)}


@given(vclocks, vclocks)
def test_component_0_stays_out_where_asked(left: VClock, right: VClock) -> None:
    upper, lower = left.copy(), left.copy()
    upper.merge(right, ignore0=True)
    lower.minimum(right, ignore0=True)
    assert upper.get(0) == lower.get(0) == left.get(0)
    assert left.copy(ignore0=True).as_dict() == left.as_dict(ignore0=True)


@given(vclocks)
def test_text_comes_back(vclock: VClock) -> None:
    assert VClock.parse(str(vclock)) == vclock
    assert vclock.signature == sum(lsn for _, lsn in vclock.items())


def test_copy_is_independent() -> None:
    one = VClock({1: 1})
    two = one.copy()
    two.follow(1, 2)
    assert str(one) == "{1: 1}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {}),
        ("  { } ", {}),
        ("{0: 1, 1: 21}", {0: 1, 1: 21}),
        ("\t{ 31 : 9223372036854775807 }", {31: 2**63 - 1}),
        ("{1:2,}", {1: 2}),
        ("{1: 2\n, 2: 3\n}", {1: 2, 2: 3}),
        ("{1: 0}", {}),
        ("{1: 0, 1: 5}", {1: 5}),
    ],
)
def test_text_with_blanks(text: str, expected: dict[int, int]) -> None:
    assert VClock.parse(text).as_dict() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}",
        "{1}",
        "{1:}",
        "{1: 2",
        "{1: 2 3: 4}",
        "{a: 1}",
        "{-1: 1}",
        "{1: -1}",
        "{32: 1}",
        "{1: 1, 1: 2}",
        "{1: 9223372036854775808}",
        "{}x",
        "x{}",
        "{1: 2}}",
        "{{1: 2}",
        "{99999999999: 1}",
        "\n{}",
        "{,}",
    ],
)
def test_text_that_is_no_vclock(text: str) -> None:
    with pytest.raises(VClockError):
        VClock.parse(text)


def test_quorums() -> None:
    vclock = VClock({1: 30, 2: 10, 3: 20})
    assert [vclock.nth_element(n) for n in range(4)] == [10, 20, 30, -1]
    assert [vclock.count_ge(lsn) for lsn in (1, 10, 11, 30, 31)] == [3, 3, 2, 1, 0]
