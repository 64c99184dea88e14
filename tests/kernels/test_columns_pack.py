"""Arrow columns as tuples, told by values."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import struct
from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal
from tests.kernels.batches import pack_column, texts, variant_array
from tests.kernels.packing import datetime_ext, decimal_ext, ext, float32, pack

from headwater.kernels.packplan import Form, PackColumn, PackError
from headwater.typing import FieldType as T

UUID_1 = UUID("11111111-2222-4333-8444-555555555555")
DAY = 86_400


def packed(c: ModuleType, kind: T, array: pa.Array, **more: Any) -> list[bytes]:
    """What becomes of each value: the tuples have one field. Slices of the array give the same."""
    raw = more.pop("raw", False)

    def pieces(part: pa.Array) -> list[bytes]:
        offsets, data = c.pack_tuples([pack_column("f", kind, part, raw)], 0, len(part), **more)
        ends = struct.unpack(f"<{len(part) + 1}i", offsets)
        tuples = [data[begin:end] for begin, end in itertools.pairwise(ends)]
        assert all(one[0] == 0x91 for one in tuples)
        return [one[1:] for one in tuples]

    whole = pieces(array)
    for begin in range(1, len(array)):
        assert pieces(array.slice(begin)) == whole[begin:]
        assert pieces(array.slice(0, begin)) == whole[:begin]
    return whole


def expect(*values: Any) -> list[bytes]:
    return [bytes(pack(value)) for value in values]


# ---- numbers --------------------------------------------------------------------------------------

INTEGERS = [0, 1, -1, 127, 128, -32, -33, -128, 2**15, -(2**15), 2**31, -(2**31), 2**63 - 1, -(2**63), None]
WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("type", WIDTHS, ids=str)
def test_whole_numbers_of_every_width(c: ModuleType, type: pa.DataType) -> None:
    bits = type.bit_width
    low, high = (0, 2**bits - 1) if str(type).startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    values = [value for value in [*INTEGERS, 2**64 - 1, 255, 65535] if value is None or low <= value <= high]
    for kind in (T.INTEGER, T.NUMBER, T.ANY, T.SCALAR):
        assert packed(c, kind, pa.array(values, type)) == expect(*values)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (T.UNSIGNED, 0, 2**63 - 1), (T.INT8, -128, 127), (T.UINT8, 0, 255), (T.INT16, -32768, 32767),
        (T.UINT16, 0, 65535), (T.INT32, -(2**31), 2**31 - 1), (T.UINT32, 0, 2**32 - 1), (T.INT64, -(2**63), 2**63 - 1),
        (T.UINT64, 0, 2**63 - 1),
    ],
)  # fmt: skip
def test_bounds_of_fields(c: ModuleType, kind: T, low: int, high: int) -> None:
    assert packed(c, kind, pa.array([low, high])) == expect(low, high)
    for value in (low - 1, high + 1):
        if -(2**63) <= value < 2**63:
            with pytest.raises(PackError, match="out of its range") as info:
                packed(c, kind, pa.array([low, high, value]))
            assert (info.value.row, info.value.column) == (2, 0)


def test_whole_numbers_as_other_numbers(c: ModuleType) -> None:
    assert packed(c, T.DOUBLE, pa.array([3, -(2**53), 2**62, None])) == expect(3.0, -(2.0**53), 2.0**62, None)
    assert packed(c, T.FLOAT32, pa.array([3, -(2**24), 2**62])) == [float32(3), float32(-(2.0**24)), float32(2.0**62)]
    assert packed(c, T.DECIMAL, pa.array([0, -15, 2**64 - 1][:2])) == expect(Decimal(0), Decimal(-15))
    assert packed(c, T.DECIMAL, pa.array([2**64 - 1], pa.uint64())) == expect(Decimal(2**64 - 1))


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (T.DOUBLE, pa.array([2**53 + 1])),
        (T.DOUBLE, pa.array([2**63 - 1])),
        (T.DOUBLE, pa.array([2**64 - 1], pa.uint64())),
        (T.FLOAT32, pa.array([2**24 + 1])),
        (T.FLOAT32, pa.array([0.1])),
        (T.FLOAT32, pa.array([1e300])),
    ],
)
def test_numbers_that_would_lose_digits(c: ModuleType, kind: T, array: pa.Array) -> None:
    with pytest.raises(PackError, match="lose digits"):
        packed(c, kind, array)


def test_doubles_and_floats(c: ModuleType) -> None:
    values = [0.0, -0.0, 1.5, math.inf, -math.inf, 5e-324, None]
    for kind in (T.DOUBLE, T.FLOAT64, T.NUMBER, T.ANY):
        assert packed(c, kind, pa.array(values)) == expect(*values)
    assert packed(c, T.DOUBLE, pa.array([math.nan])) == [b"\xcb\x7f\xf8" + bytes(6)]
    narrow = pa.array([1.5, None, math.inf], pa.float32())
    assert packed(c, T.NUMBER, narrow) == packed(c, T.FLOAT32, narrow) == [float32(1.5), b"\xc0", float32(math.inf)]
    assert packed(c, T.DOUBLE, narrow) == expect(1.5, None, math.inf)
    assert packed(c, T.FLOAT32, pa.array([1.5, -math.inf])) == [float32(1.5), float32(-math.inf)]
    assert packed(c, T.FLOAT32, pa.array([math.nan]))[0][:1] == b"\xca"


def test_doubles_that_are_whole_become_integers(c: ModuleType) -> None:
    assert packed(c, T.INTEGER, pa.array([1.0, -5.0, -0.0, 2.0**63, -(2.0**63)])) == expect(1, -5, 0, 2**63, -(2**63))
    for value, words in (
        (1.5, "not whole"),
        (-0.5, "not whole"),
        (2.0**64, "range"),
        (math.nan, "range"),
        (-1.0, "range"),
    ):
        with pytest.raises(PackError, match=words):
            packed(c, T.UNSIGNED, pa.array([value]))


def test_decimals_lose_the_zeros_of_the_column(c: ModuleType) -> None:
    values = [Decimal(text) for text in ("1.50", "-0.01", "0.00", "100.00", "1234567890123456789012345678901234.56")]
    expected = [decimal_ext(Decimal(text)) for text in ("1.5", "-0.01", "0", "100", str(values[-1]))]
    array = pa.array([*values, None], pa.decimal128(38, 2))
    for kind in (T.DECIMAL, T.NUMBER, T.SCALAR, T.ANY):
        assert packed(c, kind, array) == [*expected, b"\xc0"]
    extremes = [10**38 - 1, -(10**38 - 1)]
    assert packed(c, T.DECIMAL, pa.array(list(map(Decimal, extremes)), pa.decimal128(38, 0))) == [
        decimal_ext(Decimal(value)) for value in extremes
    ]


def test_decimals_without_a_fraction_become_integers(c: ModuleType) -> None:
    def column(*texts_: str) -> pa.Array:
        return pa.array([Decimal(text) for text in texts_], pa.decimal128(30, 3))

    assert packed(c, T.UNSIGNED, column("18446744073709551615", "0", "5.000")) == expect(2**64 - 1, 0, 5)
    assert packed(c, T.INTEGER, column("-9223372036854775808", "-0.000")) == expect(-(2**63), 0)
    wide = pa.array([Decimal("12E+3")], pa.decimal128(5, -3))
    assert packed(c, T.UINT16, wide) == expect(12_000)
    for bad in ("18446744073709551616", "18446744073709551620", "184467440737095516150", "-1"):
        with pytest.raises(PackError, match="range"):
            packed(c, T.UNSIGNED, column(bad))
    for bad in ("-9223372036854775809", "99999999999999999999999999"):
        with pytest.raises(PackError, match="range"):
            packed(c, T.INTEGER, column(bad))
    with pytest.raises(PackError, match="not whole"):
        packed(c, T.INTEGER, column("1.001"))


def test_decimals_of_text(c: ModuleType) -> None:
    good = ["1.50", "-1.5", "+.5", "5.", "0.00", "-0", "00012", "1E+45", "1e-45", "9" * 76, "0." + "0" * 80 + "1"]
    assert packed(c, T.DECIMAL, pa.array(good)) == [decimal_ext(Decimal(text)) for text in good]
    for bad in (
        "",
        "+",
        ".",
        "1.2.3",
        "1e",
        "1e+",
        "x",
        "1 ",
        " 1",
        "NaN",
        "1" * 77,
        "1E+1000000",
        "1E99999999999",
        "١",
    ):
        with pytest.raises(PackError, match="not a decimal"):
            packed(c, T.DECIMAL, pa.array([bad]))


# ---- texts, bytes, moments ------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True])
def test_strings_of_every_length(c: ModuleType, large: bool) -> None:
    values = ["", "é", "x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 65_535, "x" * 65_536, None]
    assert packed(c, T.STRING, pa.array(values, pa.large_string() if large else pa.string())) == expect(*values)
    raw = [None if value is None else value.encode() for value in values]
    array = pa.array(raw, pa.large_binary() if large else pa.binary())
    assert packed(c, T.VARBINARY, array) == packed(c, T.ANY, array) == expect(*raw)
    assert packed(c, T.STRING, array) == expect(*values)


def test_string_that_is_not_utf8_is_refused_and_binary_is_written_as_it_is(c: ModuleType) -> None:
    array = pa.array([b"a\xff"])
    lie = pa.Array.from_buffers(pa.string(), 1, array.buffers())
    with pytest.raises(PackError, match="not UTF-8; make the column binary"):
        packed(c, T.STRING, lie)
    assert packed(c, T.STRING, array) == [b"\xa2a\xff"]


def test_uuids(c: ModuleType) -> None:
    expected = [b"\xd8\x02" + UUID_1.bytes]
    assert packed(c, T.UUID, pa.array([str(UUID_1)])) == packed(c, T.UUID, pa.array([str(UUID_1).upper()])) == expected
    assert packed(c, T.UUID, pa.array([UUID_1.bytes])) == expected
    assert packed(c, T.UUID, pa.array([UUID_1.bytes], pa.binary(16))) == expected
    for bad in ("", "x" * 36, UUID_1.hex, str(UUID_1)[:-1] + "g", str(UUID_1).replace("-", "+")):
        with pytest.raises(PackError, match="not a uuid"):
            packed(c, T.UUID, pa.array([bad]))
    with pytest.raises(PackError, match="not a uuid"):
        packed(c, T.UUID, pa.array([b"15 bytes of text"[:15]]))


def test_moments_of_every_unit(c: ModuleType) -> None:
    for unit, to_a_second in (("s", 1), ("ms", 1000), ("us", 1_000_000), ("ns", 1_000_000_000)):
        array = pa.array([0, 1, -1, None, 1_700_000_000], pa.timestamp(unit, "UTC" if unit == "us" else None))
        nsec = 1_000_000_000 // to_a_second
        late = divmod(1_700_000_000, to_a_second)
        assert packed(c, T.DATETIME, array) == [
            datetime_ext(0),
            datetime_ext(*((1, 0) if unit == "s" else (0, nsec))),
            datetime_ext(-1, 0 if unit == "s" else 1_000_000_000 - nsec),
            b"\xc0",
            datetime_ext(late[0], late[1] * nsec),
        ]
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=dt.UTC)
    assert packed(c, T.ANY, pa.array([moment])) == [datetime_ext(1_700_000_000, 123_456_000)]
    with pytest.raises(PackError, match="range of datetime"):
        packed(c, T.DATETIME, pa.array([2**62], pa.timestamp("s")))


def test_days(c: ModuleType) -> None:
    array = pa.array([dt.date(1970, 1, 2), dt.date(1969, 12, 31), dt.date(9999, 12, 31)])
    assert packed(c, T.DATETIME, array) == [datetime_ext(DAY), datetime_ext(-DAY), datetime_ext(2_932_896 * DAY)]


def test_datetime_of_its_parts(c: ModuleType) -> None:
    array = pa.array([{"a": 5, "b": 6, "c": -180, "d": 7}, None, {"a": -5, "b": None, "c": None, "d": None}])
    assert packed(c, T.DATETIME, array) == [datetime_ext(5, 6, -180, 7), b"\xc0", datetime_ext(-5)]
    assert packed(c, T.DATETIME, pa.array([{"a": 5}])) == [datetime_ext(5)]
    for bad in ({"a": 2**62}, {"a": 1, "b": -1}, {"a": 1, "b": 0, "c": 900}, {"a": 1, "b": 0, "c": 0, "d": 2000}):
        with pytest.raises(PackError, match="range of datetime"):
            packed(c, T.DATETIME, pa.array([bad]))
    with pytest.raises(PackError, match="another type"):
        packed(c, T.DATETIME, pa.array([{"a": "x"}]))


def test_interval_of_its_parts(c: ModuleType) -> None:
    names = ["year", "month", "week", "day", "hour", "min", "sec", "nsec", "adjust"]
    array = pa.array([dict(zip(names, [1, -2, 0, 2**40, None, 0, -1, 5, 2], strict=True)), dict.fromkeys(names), None])
    parts = [b"\x00\x01", b"\x01\xfe", b"\x03\xcf" + (2**40).to_bytes(8, "big"), b"\x06\xff", b"\x07\x05", b"\x08\x02"]
    assert packed(c, T.INTERVAL, array) == [ext(6, b"\x06" + b"".join(parts)), ext(6, b"\x00"), b"\xc0"]
    for bad in ({"year": 2**31}, dict.fromkeys(names, 3)):
        with pytest.raises(PackError, match="part of an interval"):
            packed(c, T.INTERVAL, pa.array([bad]))


def test_booleans_and_nothing(c: ModuleType) -> None:
    array = pa.array([True, False, None] * 7)
    assert packed(c, T.BOOLEAN, array) == expect(*array.to_pylist())
    assert packed(c, T.STRING, pa.nulls(3)) == expect(None, None, None)


# ---- values inside values -------------------------------------------------------------------------

NESTED = [[1, 2], None, [], [3, None], list(range(20))]


def test_lists(c: ModuleType) -> None:
    for type in (pa.list_(pa.int64()), pa.large_list(pa.int64())):
        assert packed(c, T.ARRAY, pa.array(NESTED, type)) == expect(*NESTED)
    deep = [[["a"], None, []], None, [[None, "b"]]]
    assert packed(c, T.ANY, pa.array(deep)) == expect(*deep)


def test_maps(c: ModuleType) -> None:
    values = [[("a", [1]), ("b", None)], None, [], [("c", [2, 3])]]
    array = pa.array(values, pa.map_(pa.string(), pa.list_(pa.int32())))
    expected = expect(*(None if value is None else dict(value) for value in values))
    assert packed(c, T.MAP, array) == packed(c, T.ANY, array) == expected
    numbers = pa.array([[(1, "x"), (-5, "y")]], pa.map_(pa.int64(), pa.string()))
    assert packed(c, T.MAP, numbers) == expect({1: "x", -5: "y"})


def test_key_of_a_map_that_is_null(c: ModuleType) -> None:
    keys = pa.array([None, "b"])
    array = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(["a", "b"]), pa.array([1, 2]))
    column = pack_column("f", T.MAP, array)
    children = (pack_column("key", T.ANY, keys), column.children[1])
    with pytest.raises(PackError, match="key of a map is null"):
        c.pack_tuples([column._replace(children=children)], 0, 1)


def test_structs_as_maps_and_as_arrays(c: ModuleType) -> None:
    values = [{"a": 1, "ключ": {"b": [None]}}, None, {"a": None, "ключ": None}]
    array = pa.array(values)
    assert packed(c, T.MAP, array) == packed(c, T.ANY, array) == expect(*values)
    assert packed(c, T.ARRAY, array) == expect([1, {"b": [None]}], None, [None, None])


def test_many_fields_and_none(c: ModuleType) -> None:
    columns = [pack_column(f"f{at}", T.UNSIGNED, pa.array([at, at])) for at in range(40)]
    offsets, data = c.pack_tuples(columns, 1, 1)
    assert (offsets, data) == (struct.pack("<2i", 0, len(data)), pack(list(range(40))))
    assert c.pack_tuples([], 0, 2) == (struct.pack("<3i", 0, 1, 2), b"\x90\x90")


# ---- variants and raw values ----------------------------------------------------------------------


def variants(*texts_: str | None) -> pa.Array:
    made = [None if text is None else VariantVal.parseJson(text) for text in texts_]
    parts = [(None, None) if one is None else (one.value, one.metadata) for one in made]
    return variant_array(parts, [one is None for one in made])


def test_variants(c: ModuleType) -> None:
    values = [{"a": [1, "x", None]}, None, [], "text", 1.5e300]
    array = variants(*("null" if value is None else json.dumps(value) for value in values))
    assert packed(c, T.ANY, array) == expect(*values)
    assert packed(c, T.ANY, variants("1", None)) == expect(1, None)
    assert packed(c, T.MAP, variants('{"a": 1}', "null")) == expect({"a": 1}, None)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (T.MAP, "[1]", "another type"),
        (T.ARRAY, "{}", "another type"),
        (T.STRING, "1", "another type"),
        (T.UNSIGNED, "-1", "range"),
        (T.INT8, "128", "range"),
        (T.UUID, '"x"', "another type"),
        (T.SCALAR, "[]", "another type"),
        (T.DECIMAL, "1", "another type"),
    ],
)
def test_variant_in_a_field_of_another_type(c: ModuleType, kind: T, text: str, words: str) -> None:
    with pytest.raises(PackError, match=words) as info:
        packed(c, kind, variants("null", text))
    assert (info.value.row, info.value.column) == (1, 0)


def test_tagged_variants_come_back(c: ModuleType) -> None:
    value = pack([Decimal("1.50"), UUID_1, "!x"])
    array = variant_array([c.to_variant(value, texts, 0, True)])
    assert packed(c, T.ARRAY, array, tagged=True) == [value]
    assert packed(c, T.ARRAY, array) == expect(["!decimal 1.50", f"!uuid {UUID_1}", "!string !x"])


def test_broken_variant_is_named(c: ModuleType) -> None:
    array = variant_array([(b"\xff", b"\x01\0\0")])
    with pytest.raises(PackError, match=r"field 'f' \(any\): the bytes of a variant cannot be read"):
        packed(c, T.ANY, array)
    half = variant_array([(None, b"\x01\0\0")])
    with pytest.raises(PackError, match="variant"):
        packed(c, T.ANY, half)


def test_values_that_are_messagepack_already(c: ModuleType) -> None:
    values = [1, None, [1, {"a": None}], Decimal("1.50")]
    for type in (pa.binary(), pa.large_binary()):
        array = pa.array([pack(value) for value in values], type)
        assert packed(c, T.ANY, array, raw=True) == expect(*values)
    assert packed(c, T.UNSIGNED, pa.array([b"\x01", None]), raw=True) == [b"\x01", b"\xc0"]
    signed = b"\xd1\x00\x05"
    assert packed(c, T.INTEGER, pa.array([signed]), raw=True) == [signed]
    for bad in (b"", b"\xc1", b"\x91", b"\x01\x02"):
        with pytest.raises(PackError, match="not one MessagePack value"):
            packed(c, T.ANY, pa.array([bad]), raw=True)
    for kind, value, words in (
        (T.STRING, b"\x01", "another type"),
        (T.UNSIGNED, signed, "range"),
        (T.INT8, b"\xd1\x7f\xff", "range"),
        (T.INT8, b"\xd1\x80\x00", "range"),
        (T.UINT8, b"\xcd\x01\x00", "range"),
        (T.DATETIME, pack(UUID_1), "another type"),
    ):
        with pytest.raises(PackError, match=words):
            packed(c, kind, pa.array([value]), raw=True)


# ---- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "array", "words"),
    [
        (T.STRING, pa.array([1]), "field 'f': a column of int64 cannot be written as string: cast it first"),
        (T.UNSIGNED, pa.array(["1"]), "string cannot be written as unsigned"),
        (T.MAP, pa.array([[1]]), "list cannot be written as map"),
        (T.SCALAR, pa.array([[1]]), "list cannot be written as scalar"),
        (T.BOOLEAN, pa.array([1]), "int64 cannot be written as boolean"),
        (T.DECIMAL, pa.array([1.5]), "double cannot be written as decimal"),
        (T.UNSIGNED, pa.array([dt.date.today()]), "date cannot be written as unsigned"),
    ],
)
def test_column_of_another_type_is_refused(c: ModuleType, kind: T, array: pa.Array, words: str) -> None:
    with pytest.raises(PackError, match=words) as info:
        packed(c, kind, array)
    assert (info.value.row, info.value.column) == (-1, 0)


def test_error_names_the_column_and_the_row(c: ModuleType) -> None:
    columns = [pack_column("id", T.UNSIGNED, pa.array([1, 2, 3])), pack_column("age", T.UINT8, pa.array([1, 2, 300]))]
    with pytest.raises(PackError, match=r"field 'age' \(uint8\): a number is out of its range") as info:
        c.pack_tuples(columns, 1, 2)
    assert (info.value.row, info.value.column) == (2, 1)
    assert c.pack_tuples(columns, 0, 2)[1] == pack([1, 1]) + pack([2, 2])


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, -1), (0, 4), (3, 1), (2**40, 1), (0, 2**40)])
def test_rows_outside_of_the_columns_are_refused(c: ModuleType, first: int, count: int) -> None:
    with pytest.raises(ValueError):
        c.pack_tuples([pack_column("f", T.ANY, pa.array([1, 2, 3]))], first, count)


INT64 = PackColumn("f", T.ANY, Form.INT64, 0, 3, 0, None, (bytes(24),), ())
TEXT = PackColumn("f", T.ANY, Form.STRING, 0, 1, 0, None, (struct.pack("<2i", 0, 1), b"x"), ())
LIST = PackColumn("f", T.ANY, Form.LIST, 0, 1, 0, None, (struct.pack("<2i", 0, 3),), (INT64,))


@pytest.mark.parametrize(
    "column",
    [
        INT64._replace(length=4),
        INT64._replace(offset=1),
        INT64._replace(offset=-1),
        INT64._replace(length=-1),
        INT64._replace(length=2**62),
        INT64._replace(buffers=()),
        INT64._replace(buffers=(None,)),
        INT64._replace(buffers=(bytes(24), b"")),
        INT64._replace(validity=b""),
        INT64._replace(children=(INT64,)),
        INT64._replace(form=Form.BOOL, length=193, offset=0),
        INT64._replace(form=Form.DECIMAL, a=39, length=1),
        INT64._replace(form=Form.TIMESTAMP, a=7),
        INT64._replace(form=Form.FIXED_BINARY, a=-1),
        INT64._replace(form=Form.FIXED_BINARY, a=9),
        TEXT._replace(length=2),
        LIST._replace(children=()),
        LIST._replace(form=Form.MAP),
        LIST._replace(form=Form.MAP, children=(INT64, INT64._replace(length=2))),
        LIST._replace(form=Form.STRUCT, buffers=(), length=4),
        LIST._replace(form=Form.VARIANT, buffers=(), children=(INT64, INT64)),
        INT64._replace(form=99),
        INT64._replace(kind=99),
    ],
)
def test_buffers_that_are_too_short_and_parts_that_do_not_fit(c: ModuleType, column: PackColumn) -> None:
    with pytest.raises(PackError) as info:
        c.pack_tuples([column], 0, 1)
    assert (info.value.row, info.value.column) == (-1, 0)


@pytest.mark.parametrize("offsets", [(0, 2), (-1, 0), (1, 0), (2**31 - 1, 2**31 - 1)])
def test_offsets_that_lie_are_refused(c: ModuleType, offsets: tuple[int, int]) -> None:
    with pytest.raises(PackError, match="offsets"):
        c.pack_tuples([TEXT._replace(buffers=(struct.pack("<2i", *offsets), b"x"))], 0, 1)
    wide = tuple(offset * 3 for offset in offsets)
    with pytest.raises(PackError, match="offsets"):
        c.pack_tuples([LIST._replace(form=Form.LARGE_LIST, buffers=(struct.pack("<2q", *wide),))], 0, 1)


def test_columns_deeper_than_any_table(c: ModuleType) -> None:
    column = INT64._replace(length=1)
    for _ in range(70):
        column = LIST._replace(buffers=(struct.pack("<2i", 0, 1),), children=(column,))
    with pytest.raises(PackError, match="inside one another"):
        c.pack_tuples([column], 0, 1)


def test_tuples_go_into_an_arrow_array_and_out_of_one(c: ModuleType) -> None:
    offsets, data = c.pack_tuples([pack_column("f", T.ANY, pa.array(["a", None, "c"]))], 0, 3)
    array = pa.Array.from_buffers(pa.binary(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    array.validate(full=True)
    assert array.to_pylist() == expect(["a"], [None], ["c"])
    _, ends, raw = array.slice(1).buffers()
    assert c.hash_tuples(ends, raw, 1, 2) == c.hash_tuples(offsets, data, 0, 3)[8:]
    assert c.hash_tuples(bytes(4), b"", 0, 0) == b""
