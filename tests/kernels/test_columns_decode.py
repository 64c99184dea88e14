"""Rows into Arrow buffers, told by values."""

from __future__ import annotations

from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from tests.kernels.batches import (
    DELETE,
    ENVELOPE,
    INSERT,
    NOP,
    RAFT,
    SPACE,
    UPDATE,
    UPSERT,
    body_of,
    columns,
    frame,
    of_fields,
    replace,
    row,
    typed,
    values,
)
from tests.kernels.packing import Raw, datetime_ext, ext, float32, pack

from headwater.kernels.columnplan import Kind, RowError, Source, Utf8

NAMES = [source.name.lower() for source, _ in ENVELOPE]
UUID_1 = UUID("11111111-2222-4333-8444-555555555555")


def envelope(c: ModuleType, data: bytes, **more: Any) -> list[dict[str, Any]]:
    batch = columns(c, **more)
    batch.set_spaces({SPACE: "test"}, {SPACE: [0]}, None)
    assert batch.decode(data, 0) == len(data)
    return [dict(zip(NAMES, one, strict=True)) for one in zip(*values(batch), strict=True)]


def lsns(batch: Any) -> list[int]:
    found: list[int] = values(batch)[NAMES.index("lsn")]
    return found


# ---- parts of rows --------------------------------------------------------------------------------


def test_insert_shows_every_part(c: ModuleType) -> None:
    body = body_of(SPACE, tuple=[1, "a", {"b": [None, True]}])
    data = row(INSERT, body, lsn=7, replica=2, time=1_700_000_000.25)
    (found,) = envelope(c, data)
    assert found == {
        "op": "INSERT", "space_id": SPACE, "space": "test", "key": [1], "before": None,
        "after": [1, "a", {"b": [None, True]}], "replica_id": 2, "lsn": 7, "tsn": 7, "is_commit": True,
        "timestamp": 1_700_000_000_250_000, "ops": None, "index_id": 0, "group_id": 0, "flags": 1, "body": None,
        "request": data[data.index(b"\x82\x10") :], "index_base": None,
    }  # fmt: skip


def test_update_shows_its_key_and_operations_and_the_images_that_it_brings(c: ModuleType) -> None:
    body = {0x10: SPACE, 0x11: 3, 0x15: 1, 0x20: ["k"], 0x21: [["=", 1, 5]], 0x2C: [1, 4], 0x2D: [1, 5]}
    (found,) = envelope(c, row(UPDATE, body))
    assert (found["key"], found["ops"], found["before"], found["after"]) == (["k"], [["=", 1, 5]], [1, 4], [1, 5])
    assert (found["op"], found["index_id"], found["index_base"]) == ("UPDATE", 3, 1)


def test_update_without_images_shows_no_tuple(c: ModuleType) -> None:
    (found,) = envelope(c, row(UPDATE, body_of(SPACE, key=[1], tuple=[["=", 1, 5]])))
    assert (found["before"], found["after"], found["ops"]) == (None, None, [["=", 1, 5]])


def test_delete_and_upsert(c: ModuleType) -> None:
    data = row(DELETE, body_of(SPACE, key=[1])) + row(UPSERT, body_of(SPACE, tuple=[2, 3], ops=[["+", 1, 1]]))
    deleted, upserted = envelope(c, data)
    assert (deleted["key"], deleted["after"]) == ([1], None)
    assert (upserted["key"], upserted["after"], upserted["ops"]) == ([2], [2, 3], [["+", 1, 1]])


def test_rows_that_change_no_space(c: ModuleType) -> None:
    data = row(NOP, lsn=1, replica=1) + row(RAFT, {0: 2, 1: 1}, lsn=2, group=1) + row(99, {5: "x"}, lsn=3)
    nop, raft, unknown = envelope(c, data)
    assert (nop["op"], nop["space_id"], nop["space"], nop["body"], nop["request"]) == ("NOP", None, None, None, None)
    assert (raft["op"], raft["body"], raft["group_id"], raft["replica_id"]) == ("RAFT", {"0": 2, "1": 1}, 1, 0)
    assert (unknown["op"], unknown["body"]) == ("99", {"5": "x"})


def test_transaction_of_several_rows(c: ModuleType) -> None:
    data = (
        replace(1, lsn=5, tsn_distance=0)
        + replace(2, lsn=6, tsn_distance=1)
        + replace(3, lsn=7, tsn_distance=2, flags=1)
    )
    found = envelope(c, data)
    assert [(one["tsn"], one["is_commit"]) for one in found] == [(5, False), (5, False), (5, True)]


def test_absent_numbers_are_zero_and_an_absent_time_is_null(c: ModuleType) -> None:
    body = pack({0x10: SPACE, 0x21: [1]})
    (found,) = envelope(c, b"\x81\x00\x02" + body)
    assert (found["lsn"], found["replica_id"], found["tsn"], found["timestamp"]) == (0, 0, 0, None)


def test_unknown_space_has_no_name_and_no_key(c: ModuleType) -> None:
    (found,) = envelope(c, replace(1, space=700))
    assert (found["space_id"], found["space"], found["key"], found["after"]) == (700, None, None, [1])


def test_key_of_several_fields_in_any_order(c: ModuleType) -> None:
    batch = columns(c, (Source.KEY, Kind.VARIANT), (Source.KEY, Kind.BINARY))
    batch.set_spaces({}, {SPACE: [3, 0, 3]}, None)
    batch.decode(replace("a", 1, 2, "d") + replace("a", 1), 0)
    assert values(batch, (Source.KEY, Kind.VARIANT), (Source.KEY, Kind.BINARY)) == [
        [["d", "a", "d"], None],
        [pack(["d", "a", "d"]), None],
    ]


def test_parts_as_the_messagepack_that_they_are(c: ModuleType) -> None:
    sources = (Source.KEY, Source.BEFORE, Source.AFTER, Source.OPS, Source.BODY)
    parts = [(source, Kind.BINARY) for source in sources]
    batch = columns(c, *parts)
    batch.decode(
        row(UPDATE, {0x10: SPACE, 0x20: [1], 0x21: [["=", 1, 5]], 0x2C: [1, 4], 0x2D: [1, 5]}) + row(RAFT, {0: 2}), 0
    )
    assert values(batch, *parts) == [
        [pack([1]), None],
        [pack([1, 4]), None],
        [pack([1, 5]), None],
        [pack([["=", 1, 5]]), None],
        [None, b"\x81\0\x02"],
    ]


# ---- fields ---------------------------------------------------------------------------------------

MOMENT = datetime_ext(1_700_000_000, 123_456_789, 180, 5)
INTERVAL = ext(6, b"\x03\x00\x01\x03\xd0\x9c\x08\x01")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Kind.BOOL, True, True),
        (Kind.INT8, -128, -128),
        (Kind.INT16, 32767, 32767),
        (Kind.INT32, Raw(b"\xd3" + (5).to_bytes(8, "big")), 5),
        (Kind.INT64, 2**63 - 1, 2**63 - 1),
        (Kind.FLOAT, float32(1.5), 1.5),
        (Kind.DOUBLE, 3, 3.0),
        (Kind.DOUBLE, float32(1.5), 1.5),
        (Kind.DOUBLE, Decimal("-1.25"), -1.25),
        ((Kind.DECIMAL, 20, 0), 2**64 - 1, Decimal(2**64 - 1)),
        ((Kind.DECIMAL, 5, 2), Decimal("-1.5"), Decimal("-1.50")),
        ((Kind.DECIMAL, 5, 2), Decimal("1.50000"), Decimal("1.50")),
        ((Kind.DECIMAL, 38, 10), -3, Decimal(-3)),
        (Kind.TIMESTAMP, MOMENT, 1_700_000_000_123_456),
        (Kind.TIMESTAMP, datetime_ext(-1, 999_999_999), -1),
        (Kind.STRING, "é", "é"),
        (Kind.BINARY, b"\xff", b"\xff"),
        (Kind.BINARY, Raw(b"\xa1\xff"), b"\xff"),
        (Kind.UUID, UUID_1, str(UUID_1)),
        (Kind.UUID_BYTES, UUID_1, UUID_1.bytes),
        (Kind.DECIMAL_TEXT, Decimal("1E+5"), "1E+5"),
        (Kind.DECIMAL_TEXT, Decimal("-0.000"), "-0.000"),
        (Kind.DECIMAL_TEXT, Decimal("0.0000001"), "1E-7"),
        ((Kind.EXT_TEXT, 42), ext(42, b"ab"), "<42 6162>"),
        ((Kind.EXT_TEXT, -1), ext(-1, b"ab"), "<-1 6162>"),
        ((Kind.DATETIME_PART, 0), MOMENT, 1_700_000_000),
        ((Kind.DATETIME_PART, 1), MOMENT, 123_456_789),
        ((Kind.DATETIME_PART, 2), MOMENT, 180),
        ((Kind.DATETIME_PART, 3), MOMENT, 5),
        ((Kind.DATETIME_PART, 2), datetime_ext(5), 0),
        ((Kind.INTERVAL_PART, 0), INTERVAL, 1),
        ((Kind.INTERVAL_PART, 3), INTERVAL, -100),
        ((Kind.INTERVAL_PART, 5), INTERVAL, 0),
        ((Kind.INTERVAL_PART, 8), INTERVAL, 1),
        (Kind.VARIANT, [1, "a"], [1, "a"]),
        (Kind.VARIANT, UUID_1, str(UUID_1)),
    ],
)
def test_value_in_its_column(c: ModuleType, kind: Any, value: Any, expected: Any) -> None:
    batch = typed(c, kind)
    batch.decode(replace(value) + replace(None), 0)
    (found,), (nil,) = of_fields(batch, kind)
    assert found == expected
    assert (nil.python if kind is Kind.VARIANT else nil) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.BOOL, 1),
        (Kind.INT8, 128),
        (Kind.INT16, -32769),
        (Kind.INT32, 2**31),
        (Kind.INT64, 2**63),
        (Kind.INT64, 1.0),
        (Kind.DOUBLE, "1"),
        ((Kind.DECIMAL, 19, 0), 2**64 - 1),
        ((Kind.DECIMAL, 5, 2), Decimal("1.501")),
        ((Kind.DECIMAL, 5, 2), Decimal("1000")),
        ((Kind.DECIMAL, 5, 2), Decimal("1E-30")),
        (Kind.TIMESTAMP, datetime_ext(9_223_372_036_854)),
        (Kind.STRING, b"x"),
        (Kind.STRING, Raw(b"\xa1\xff")),
        (Kind.BINARY, 1),
        (Kind.UUID, "x"),
        (Kind.UUID, Decimal(1)),
        ((Kind.EXT_TEXT, 42), ext(43, b"ab")),
        ((Kind.INTERVAL_PART, 0), MOMENT),
    ],
)
def test_value_without_a_place_is_an_error_or_absent(c: ModuleType, kind: Any, value: Any) -> None:
    data = replace(value, lsn=9)
    with pytest.raises(RowError) as info:
        typed(c, kind).decode(data, 0)
    assert (info.value.offset, info.value.lsn, info.value.column, info.value.end) == (0, 9, 0, len(data))
    batch = typed(c, kind, strict=False)
    batch.decode(data, 0)
    assert batch.misfits == 1
    assert of_fields(batch, kind) == [(None,)]


def test_zero_fits_whatever_its_scale(c: ModuleType) -> None:
    batch = typed(c, (Kind.DECIMAL, 3, 1))
    batch.decode(replace(Decimal("0E-20")) + replace(Decimal("0E+20")) + replace(0), 0)
    assert of_fields(batch, (Kind.DECIMAL, 3, 1)) == [(Decimal("0.0"),)] * 3


def test_strings_that_are_not_utf8_may_be_replaced(c: ModuleType) -> None:
    batch = typed(c, Kind.STRING, utf8=Utf8.REPLACE)
    batch.decode(replace(Raw(b"\xa3a\xffb")), 0)
    assert of_fields(batch, Kind.STRING) == [("a�b",)]


def test_numbers_become_floats_by_the_way_of_doubles(c: ModuleType) -> None:
    batch = typed(c, Kind.FLOAT)
    batch.decode(replace(2**24 + 1) + replace(-(2**63)) + replace(1e300) + replace(-1e300), 0)
    assert of_fields(batch, Kind.FLOAT) == [(2.0**24,), (-(2.0**63),), (float("inf"),), (float("-inf"),)]


def test_nil_may_be_absent_or_a_null_inside_a_variant(c: ModuleType) -> None:
    for absent in (0, 1):
        batch = typed(c, (Kind.VARIANT, absent))
        batch.decode(replace(None) + replace(), 0)
        nil, none = of_fields(batch, (Kind.VARIANT, absent))
        assert none == (None,)
        assert (nil[0] is None) == bool(absent)


def test_fields_that_are_not_there_are_null_and_more_of_them_are_left_out(c: ModuleType) -> None:
    batch = typed(c, Kind.INT64, Kind.STRING)
    batch.decode(replace(1) + replace(2, "b", 3.5), 0)
    assert of_fields(batch, Kind.INT64, Kind.STRING) == [(1, None), (2, "b")]


def test_row_without_a_tuple_shows_the_fields_of_its_key(c: ModuleType) -> None:
    batch = typed(c, Kind.INT64, Kind.STRING, Kind.INT64)
    batch.set_spaces({}, {SPACE: [2, 0]}, None)
    batch.decode(row(DELETE, body_of(SPACE, key=[7, 8])) + row(DELETE, body_of(SPACE, key=[7, 8], index=1)), 0)
    assert of_fields(batch, Kind.INT64, Kind.STRING, Kind.INT64) == [(8, None, 7), (None, None, None)]


def test_deleted_tuple_shows_its_fields_where_the_row_brings_it(c: ModuleType) -> None:
    batch = typed(c, Kind.INT64, Kind.STRING)
    batch.decode(row(DELETE, body_of(SPACE, key=[1], old=[1, "gone"])), 0)
    assert of_fields(batch, Kind.INT64, Kind.STRING) == [(1, "gone")]


def test_what_has_no_place_is_rescued_by_name(c: ModuleType) -> None:
    parts = ((Source.FIELD, Kind.INT8), (Source.FIELD, Kind.STRING), (Source.RESCUED, Kind.VARIANT))
    batch = columns(c, *parts, strict=False)
    batch.set_fields([0, -1, 1], ["id", "left out", "name"])
    batch.decode(replace(1, 2, "c") + replace(300, None, "c", 4.5, [1]), 0)
    small, name, rescued = values(batch, *parts)
    assert (small, name) == ([1, None], ["c", "c"])
    assert rescued == [{"left out": 2}, {"id": 300, "left out": None, "4": 4.5, "5": [1]}]


@pytest.mark.parametrize(
    ("fields", "names"), [([0], []), ([1], ["a"]), ([9], ["a"]), ([0, 0], ["a", "b"]), ([0, 1], ["a", "b"])]
)
def test_fields_without_a_column_of_their_own_are_refused(c: ModuleType, fields: list[int], names: list[str]) -> None:
    batch = columns(c, (Source.FIELD, Kind.INT64), (Source.LSN, Kind.INT64))
    with pytest.raises(ValueError):
        batch.set_fields(fields, names)


# ---- which rows -----------------------------------------------------------------------------------


def test_rows_of_wanted_spaces_only(c: ModuleType) -> None:
    batch = columns(c)
    batch.set_spaces({}, {}, [SPACE])
    batch.decode(replace(1, lsn=1) + replace(1, space=700, lsn=2) + row(NOP, lsn=3) + replace(2, lsn=4), 0)
    assert lsns(batch) == [1, 4]
    assert batch.read == 4


def test_rows_of_a_range_of_types_and_of_times(c: ModuleType) -> None:
    data = b"".join(replace(n, lsn=n, replica=n % 2 + 1, time=float(n)) for n in range(1, 9)) + row(
        NOP, lsn=9, time=5.0
    )
    data += replace(1, lsn=3, replica=40)
    batch = columns(c)
    low, high = [0] * 32, [0] * 32
    low[1], high[1], low[2], high[2] = 2, 6, 0, 3
    batch.set_range(low, high)
    batch.decode(data, 0)
    assert lsns(batch) == [1, 3, 4, 6]
    batch = columns(c)
    batch.set_times(3.0, 6.0)
    batch.set_types([NOP])
    batch.decode(data, 0)
    assert lsns(batch) == [9]


def test_bad_filters_are_refused(c: ModuleType) -> None:
    batch = columns(c)
    with pytest.raises(ValueError):
        batch.set_range([0], [0])
    with pytest.raises(ValueError):
        batch.set_types([64])
    with pytest.raises(ValueError):
        batch.set_spaces({}, {1: [0] * 300}, None)
    with pytest.raises(ValueError):
        batch.set_spaces({}, {1: [-1]}, None)


def test_decoding_stops_before_a_watched_space(c: ModuleType) -> None:
    data = replace(1, lsn=1) + replace(1, space=280, lsn=2) + replace(2, lsn=3)
    batch = columns(c)
    batch.set_watched([280])
    at = batch.decode(data, 0)
    assert (at, batch.watched) == (len(replace(1)), True)
    assert batch.decode(data, at, pass_watched=True) == len(data)
    assert not batch.watched
    assert lsns(batch) == [1, 2, 3]


def test_decoding_stops_at_the_limits_and_goes_on(c: ModuleType) -> None:
    data = b"".join(replace(n, "x" * 50, lsn=n) for n in range(1, 11))
    for limits in ({"row_limit": 3}, {"byte_limit": 300}):
        batch = columns(c, **limits)
        at, found = 0, []
        while at < len(data):
            at = batch.decode(data, at)
            assert 0 < batch.rows <= 3
            assert batch.size > 0
            found += lsns(batch)
            assert (batch.rows, batch.size) == (0, 0)
        assert found == list(range(1, 11))


def test_decoding_stops_at_the_end_of_a_transaction(c: ModuleType) -> None:
    first = replace(1, lsn=1, tsn_distance=0) + replace(2, lsn=2, tsn_distance=1, flags=1)
    data = first + replace(3, lsn=3)
    batch = columns(c)
    assert batch.decode(data, 0, to_commit=True) == len(first)
    assert not batch.open
    batch = columns(c, row_limit=1)
    assert batch.decode(data, 0) == len(replace(1, lsn=1, tsn_distance=0))
    assert batch.open
    batch.take()
    batch.skip = True
    assert batch.decode(data, len(replace(1, lsn=1, tsn_distance=0))) == len(data)
    assert lsns(batch) == [3]


# ---- packets --------------------------------------------------------------------------------------


def test_packets_are_rows_as_far_as_they_are_whole(c: ModuleType) -> None:
    rows = [replace(n, lsn=n, sync=9) for n in range(1, 4)] + [row(NOP, lsn=4, sync=9), row(RAFT, lsn=5)]
    data = b"".join(map(frame, rows))
    for cut in range(len(frame(rows[-1])) + 1):
        batch = columns(c)
        end = len(data) if cut == 0 else len(data) - len(frame(rows[-1]))
        assert batch.decode(data[: len(data) - cut], 0, framed=True) == end
        assert lsns(batch) == [1, 2, 3, 4, 5][: 5 if cut == 0 else 4]


@pytest.mark.parametrize(
    "data",
    [b"\xa1x", frame(b""), frame(b"\x80\x80\x80"), frame(b"\x81\x00"), frame(row(NOP) + b"\x80"), frame(b"\x01")],
)
def test_packets_that_are_no_rows_are_refused(c: ModuleType, data: bytes) -> None:
    with pytest.raises(RowError) as info:
        columns(c).decode(frame(replace(1)) + data, 0, framed=True)
    assert info.value.offset == len(frame(replace(1)))
    with pytest.raises(RowError):
        c.unframe(data, 0, len(data))


def test_watched_packet_is_where_decoding_stops(c: ModuleType) -> None:
    batch = columns(c)
    batch.set_watched([280])
    data = frame(replace(1)) + frame(replace(1, space=280))
    assert batch.decode(data, 0, framed=True) == len(frame(replace(1)))
    assert batch.watched


# ---- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        b"\xc1",
        b"\x81",
        b"\x90\x80",
        b"\x81\xa1x\x01\x80",
        b"\x81\x00\xa1x\x80",
        b"\x81\x04\x01\x80",
        row(3),
        row(3) + b"\x90",
        row(3, {0x10: "x", 0x21: [1]}),
        row(3, {0x10: SPACE, 0x21: 5}),
        row(3)[:-1],
    ],
)
def test_bytes_that_are_no_row_are_refused_and_what_came_before_stays(c: ModuleType, bad: bytes) -> None:
    good = replace(1, lsn=1)
    batch = columns(c)
    with pytest.raises(RowError) as info:
        batch.decode(good + bad, 0)
    assert info.value.offset == len(good)
    assert lsns(batch) == [1]


def test_row_that_is_refused_leaves_nothing_behind(c: ModuleType) -> None:
    """Strings are long, so that what stayed of a refused row would be seen in its successor."""
    kinds = (Kind.STRING, Kind.VARIANT, Kind.INT64, (Kind.VARIANT, 1))
    batch = typed(c, *kinds)
    one, two, three = (
        replace("first", {"a": 1}, 1, 5),
        replace("second" * 9, ["x" * 99], None),
        replace("third", "y", 3),
    )
    broken = replace("spoilt" * 9, {"name": ["z" * 99]}, None, [1, Raw(b"\xa1\xff")])
    misfit = replace("spoilt" * 9, None, "no number")
    for bad in (broken, misfit):
        data = one + bad + two + bad + three
        with pytest.raises(RowError) as info:
            batch.decode(data, 0)
        assert (info.value.offset, info.value.end) == (len(one), len(one + bad))
        with pytest.raises(RowError) as again:
            batch.decode(data, len(one + bad))
        assert batch.decode(data, again.value.end) == len(data)
        assert of_fields(batch, *kinds) == [
            ("first", {"a": 1}, 1, 5), ("second" * 9, ["x" * 99], None, None), ("third", "y", 3, None),
        ]  # fmt: skip


def test_error_of_a_callable_is_handed_on_and_leaves_nothing_behind(c: ModuleType) -> None:
    def fail(kind: int, contents: bytes) -> str:
        raise KeyError(kind)

    batch = c.Columns([(Source.FIELD, Kind.STRING, 0, 0), (Source.FIELD, Kind.VARIANT, 0, 0)], {}, fail, 10, 1 << 20)
    batch.set_fields([0, 1], ["a", "b"])
    with pytest.raises(KeyError):
        batch.decode(replace("x" * 50, ext(42, b"x")), 0)
    batch.decode(replace("y", 1), 0)
    assert of_fields(batch, Kind.STRING, Kind.VARIANT) == [("y", 1)]


def test_batch_without_measure_is_refused(c: ModuleType) -> None:
    for limits in ({"row_limit": 0}, {"byte_limit": 0}, {"row_limit": 2**31}):
        with pytest.raises(ValueError):
            columns(c, **limits)
    with pytest.raises(TypeError):
        columns(c).decode(bytearray(b"\x80"), 0)
    with pytest.raises(ValueError):
        columns(c).decode(b"\x80", 2)


def test_empty_batch(c: ModuleType) -> None:
    assert values(columns(c)) == [[] for _ in ENVELOPE]


def test_parts_of_one_value_go_into_columns_side_by_side(c: ModuleType) -> None:
    kinds = [*((Kind.DATETIME_PART, part) for part in range(4)), *((Kind.INTERVAL_PART, part) for part in (0, 3, 8))]
    parts = [(Source.FIELD, *kind) for kind in kinds]
    batch = columns(c, *parts, strict=False)
    batch.set_fields([0, 4], ["moment", "interval"])
    batch.decode(replace(MOMENT, INTERVAL) + replace(None) + replace(1, INTERVAL) + replace(datetime_ext(7)), 0)
    assert list(zip(*values(batch, *parts), strict=True)) == [
        (1_700_000_000, 123_456_789, 180, 5, 1, -100, 1),
        (None,) * 7,
        (None, None, None, None, 1, -100, 1),
        (7, 0, 0, 0, None, None, None),
    ]


def test_part_with_a_field_of_its_own_shows_that_field(c: ModuleType) -> None:
    parts = [(Source.FIELD, Kind.DATETIME_PART, part) for part in (0, 1, 0)]
    batch = columns(c, *parts)
    batch.set_fields([0, 1, 2], ["a", "b", "c"])
    batch.decode(replace(MOMENT, datetime_ext(5, 6), datetime_ext(8)), 0)
    assert values(batch, *parts) == [[1_700_000_000], [6], [8]]
