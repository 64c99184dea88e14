"""Values to bytes and back: every type of MessagePack and of Tarantool's extensions."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import AccessDenied, BoxError, Er, MsgPackError, Packed, XlogGapError, er
from headwater.wire.msgpack import Datetime, Ext, Float32, Interval, pack, unpack, unpack_from
from headwater.wire.values import parse_datetime

decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(map(int, digits)), exponent)),
    st.integers(0, 1),
    st.integers(0, 10**76 - 1).map(str),
    st.integers(-200, 200),
)
datetimes = st.builds(
    Datetime,
    st.integers(-185604722870400, 185480451417600 - 1),
    st.integers(0, 999_999_999),
    st.integers(-720, 840),
    st.integers(0, 1024),
)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
intervals = st.builds(Interval, int32, int32, int32, int64, int64, int64, int64, int32, st.integers(0, 2))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(Float32),
    st.text(),
    st.binary(),
    st.uuids(),
    decimals,
    datetimes,
    intervals,
    st.builds(Ext, st.sampled_from((-128, -1, 0, 5, 8, 9, 127)), st.binary(max_size=20)),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(values)
def test_value_comes_back_and_so_do_its_bytes(value: object) -> None:
    data = pack(value)
    found, end = unpack_from(b"??" + data + b"!!", 2)
    assert end == 2 + len(data)
    assert same(found, value)
    assert pack(found) == data


def same(left: object, right: object) -> bool:
    """Equal, and of the same type: 1, 1.0 and true are not the same, nor are 1 and 1.00."""
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right and str(left) == str(right)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "cc80"),
        (2**64 - 1, "cfffffffffffffffff"),
        (-1, "ff"),
        (-32, "e0"),
        (-33, "d0df"),
        (-(2**63), "d38000000000000000"),
        (1.5, "cb3ff8000000000000"),
        (Float32(1.5), "ca3fc00000"),
        ("é", "a2c3a9"),
        (b"\xff", "c401ff"),
        ((1, 2), "920102"),
        ({1: "a"}, "8101a161"),
        (Decimal("-1.23"), "c70301 02 123d"),
        (Decimal("12.34"), "d601 02 01234c"),
        (Decimal("1E+2"), "d501fe1c"),
        (Decimal(0), "d501000c"),
        (UUID(int=1), "d802" + "00" * 15 + "01"),
        (Datetime(1), "d7040100000000000000"),
        (Datetime(1, 2, 180), "d804" + "0100000000000000" + "02000000" + "b400" + "0000"),
        (Interval(month=1, day=-1), "c70506020101" + "03ff"),
        (Interval(), "d40600"),
        (Ext(-1, b"abcd"), "d6ff61626364"),
        (Ext(9, b"abc"), "c70309616263"),
        ("\udcff", "a1ff"),
    ],
    ids=repr,
)
def test_known_bytes(value: object, text: str) -> None:
    assert pack(value).hex() == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c7030102123d", Decimal("-1.23")),
        ("c7030102123b", Decimal("-1.23")),
        ("c7030102123a", Decimal("1.23")),
        ("c7030102123e", Decimal("1.23")),
        ("c7030102123f", Decimal("1.23")),
        ("c70401cc02123c", Decimal("1.23")),
        ("d9016b", "k"),
        ("de00010102", {1: 2}),
        ("cf0000000000000005", 5),
        ("d3ffffffffffffffff", -1),
    ],
)
def test_longer_or_other_forms_are_read(text: str, value: object) -> None:
    assert unpack(bytes.fromhex(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "c1",
        "91",
        "92 01",
        "81 01",
        "a2 61",
        "c4 02 61",
        "cb 00 00",
        "d9",
        "dd ff ff ff ff",
        "df ff ff ff ff 01",
        "db ff ff ff ff 61",
        "c9 ff ff ff ff 01",
        "01 01",
        "d4 01 00",
        "d5 01 00 11",
        "d5 01 00 1a 1c",
        "d5 02 00 00",
        "d5 04 00 00",
        "d7 04 ff ff ff ff ff ff ff 7f",
        "d8 04 00 00 00 00 00 00 00 00 ff ff ff ff 00 00 00 00",
        "d4 06 01",
        "c7 03 06 01 09 01",
        "c7 03 06 01 08 03",
        "c7 04 06 02 00 01 00",
        "d4 03 80",
        "d4 03 90",
        "c7 04 03 81 00 91 01",
    ],
)
def test_malformed_bytes_are_an_error_with_a_name(text: str) -> None:
    with pytest.raises(MsgPackError):
        unpack(bytes.fromhex(text))


def test_counts_and_depth_are_bounded_by_the_input() -> None:
    """A few bytes that claim to be billions of items, and arrays in arrays, cost neither memory nor stack."""
    for bomb in (b"\xdd\xff\xff\xff\xff" * 100, b"\xdd\x00\x0f\xff\xff" * 900 + b"\x01" * 1000, b"\x91" * 100_000):
        with pytest.raises(MsgPackError):
            unpack(bomb)
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    assert unpack(pack(deep)) == deep
    for _ in range(200):
        deep = [deep]
    with pytest.raises(MsgPackError):
        pack(deep)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, object(), {1, 2}, Decimal("NaN"), Decimal("1" * 77), "\ud800"])
def test_value_without_a_form_is_refused(value: object) -> None:
    with pytest.raises(MsgPackError):
        pack(value)


def test_kinds_of_float_are_kept() -> None:
    data = pack([1.1, Float32(0.5), {"k": Float32(2)}])
    found = unpack(data)
    assert [type(item) for item in found[:2]] == [float, Float32]
    assert pack(found) == data
    nan = unpack(pack(Float32(math.nan)))
    assert isinstance(nan, Float32)
    assert math.isnan(nan)


def test_subclasses_are_packed_as_what_they_are() -> None:
    class Number(IntEnum):
        ONE = 1

    class Pair(NamedTuple):
        left: int
        right: str

    assert pack([Number.ONE, Pair(1, "x"), {Number.ONE: True}]) == pack([1, [1, "x"], {1: True}])


def test_packed_value_is_put_in_as_it_is() -> None:
    inner = b"\xcd\x00\x01"
    assert pack([1, Packed(inner), {"k": Packed(inner)}]) == b"\x93\x01" + inner + b"\x81\xa1k" + inner


def test_maps_with_keys_of_any_kind() -> None:
    data = bytes.fromhex("83 920102 01 8101a161 02 c0 03")
    found = unpack(data)
    assert list(found.values()) == [1, 2, 3]
    assert pack(found) == data


def test_keys_are_not_nested_without_end() -> None:
    """Found by fuzzing: a key of a thousand arrays went as deep in Python's stack."""
    data = b"\x82" + (b"\x91" * 30 + b"\x01\x01") * 2
    assert len(unpack(data)) == 1
    with pytest.raises(MsgPackError, match="the key of a map is nested deeper than 32"):
        unpack(b"\x82" + (b"\x91" * 900 + b"\x01\x01") * 2)


def test_python_datetime_is_taken() -> None:
    zone = dt.timezone(dt.timedelta(hours=3))
    moment = dt.datetime(2026, 2, 2, 4, 0, 0, 1, tzinfo=zone)
    found = unpack(pack(moment))
    assert found == Datetime(1769994000, 1000, 180)
    assert str(found) == "2026-02-02T04:00:00.000001+0300"
    assert parse_datetime(str(found)) == found
    assert unpack(pack(dt.datetime(1970, 1, 1))) == Datetime(0)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (Datetime(0), "1970-01-01T00:00:00Z"),
        (Datetime(-1, 500_000_000), "1969-12-31T23:59:59.500Z"),
        (Datetime(951782400, 1), "2000-02-29T00:00:00.000000001Z"),
        (Datetime(0, 0, -90), "1969-12-31T22:30:00-0130"),
        (Datetime(-185604722870400), "-5879610-06-22T00:00:00Z"),
        (Datetime(185480451417600 - 86400), "5879611-07-10T00:00:00Z"),
    ],
)
def test_text_of_moments(moment: Datetime, text: str) -> None:
    assert str(moment) == text


@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), timezones=st.just(dt.UTC)))
def test_calendar_is_that_of_python(moment: dt.datetime) -> None:
    assert str(Datetime.of(moment))[:19] == moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(), "+0 seconds"),
        (Interval(month=1, day=1), "+1 months, 1 days"),
        (Interval(year=-1, second=-5, nsec=7), "-1 years, -5 seconds, 7 nanoseconds"),
    ],
)
def test_text_of_intervals(interval: Interval, text: str) -> None:
    assert str(interval) == text


# ---- errors as values -----------------------------------------------------------------------------


def test_error_stack_comes_back_with_classes_and_causes() -> None:
    error = er(Er.SPLIT_BRAIN, "why", cause=XlogGapError.between(1, "{1: 1}", 2, "{1: 2}"))
    found = unpack(pack([error]))[0]
    assert isinstance(found, BoxError)
    assert (found.code, found.message, found.type_name) == (
        Er.SPLIT_BRAIN,
        "Split-Brain discovered: why",
        "ClientError",
    )
    assert found.fields == {"name": "SPLIT_BRAIN", "details": "why"}
    assert isinstance(found.cause, XlogGapError)
    assert found.cause.code == Er.XLOG_GAP
    assert pack(found) == pack(error)


def test_error_of_an_unknown_type_is_a_client_error() -> None:
    stack = {0: [{0: "Strange", 1: "f.c", 2: 7, 3: "text", 4: 0, 5: 9, 6: {"a": [1], "b": "x"}, 99: [1]}], 5: None}
    found = unpack(pack(Ext(3, pack(stack))))
    assert (found.type_name, found.code, found.message, found.location()) == ("ClientError", 9, "text", ("f.c", 7))
    assert found.fields == {"a": Packed(b"\x91\x01"), "b": "x"}


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ([], "error data must be MP_MAP"),
        ({"a": 1}, "error data key must be MP_UINT"),
        ({}, "MP_ERROR_STACK is missing"),
        ({0: 1}, "MP_ERROR_STACK value must be MP_ARRAY"),
        ({0: []}, "MP_ERROR_STACK is missing"),
        ({0: [1]}, "MP_ERROR_STACK array entry must be MP_MAP"),
        ({0: [{"a": 1}]}, "error field key must be MP_UINT"),
        ({0: [{0: 1}]}, "MP_ERROR_TYPE value must be MP_STR"),
        ({0: [{2: "x"}]}, "MP_ERROR_LINE value must be MP_UINT"),
        ({0: [{6: 1}]}, "MP_ERROR_FIELDS value must be MP_MAP"),
        ({0: [{6: {1: 1}}]}, "error payload field name must be MP_STR"),
        ({0: [{1: "f", 3: "m"}]}, "MP_ERROR_TYPE is missing"),
        ({0: [{0: "t", 1: "f"}]}, "MP_ERROR_MESSAGE is missing"),
        ({0: [{0: "t", 3: "m"}]}, "MP_ERROR_FILE is missing"),
    ],
)
def test_stack_that_is_none(stack: object, words: str) -> None:
    from headwater.wire.mperror import unpack_stack

    with pytest.raises(BoxError, match=f"Invalid MsgPack - {words}"):
        unpack_stack(pack(stack), 0)


def test_access_denied_says_what_was_denied() -> None:
    error = AccessDenied("Read", "space", "t", "guest")
    assert error.message == "Read access to space 't' is denied for user 'guest'"
    assert unpack(pack(error)).fields == {
        "object_type": "space",
        "object_name": "t",
        "access_type": "Read",
        "user": "guest",
    }


@given(st.binary(max_size=100))
def test_any_bytes_are_a_value_or_refused_by_name(data: bytes) -> None:
    try:
        value, end = unpack_from(data)
    except MsgPackError:
        return
    assert 0 < end <= len(data)
    assert len(pack(value)) <= end


def test_float32_keeps_its_value() -> None:
    value = struct.unpack(">f", struct.pack(">f", 0.1))[0]
    assert unpack(pack(Float32(value))) == value
