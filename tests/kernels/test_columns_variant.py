"""MessagePack values as Spark's variants and back: pyspark's own reader is the judge, no JVM is started."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.types import VariantVal
from tests.kernels.batches import Variant, map_of, texts
from tests.kernels.packing import Raw, array_header, datetime_ext, ext, float32, pack

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import Utf8
from headwater.kernels.packplan import PackError

UUID_1 = UUID("11111111-2222-4333-8444-555555555555")
WIDE = [{str(number): number} for number in range(300)]
LONG = ["x" * 300, "y" * 70_000]


def variant(c: ModuleType, value: Any, utf8: int = 0, tagged: bool = False) -> Any:
    return Variant(*c.to_variant(pack(value), texts, utf8, tagged)).python


# ---- there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -1, 127, 128, -128, -129, 32767, -32769, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 1.5, "",
        "a", "é" * 31, "é" * 32, "x" * 63, "x" * 64, b"", b"\xff\0", [], {}, [1, "a", [None, [2.5]]],
        {"b": 1, "a": {"c": []}},
        list(range(255)), list(range(256)), list(range(70_000)), {str(number): number for number in range(300)},
        {f"key {number}": "v" * 90 for number in range(700)}, WIDE, LONG, {"a": LONG, "b": WIDE},
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_spark_reads_what_was_written(c: ModuleType, value: Any) -> None:
    assert variant(c, value) == value


def test_numbers_that_a_signed_one_does_not_hold(c: ModuleType) -> None:
    assert variant(c, 2**63) == Decimal(2**63)
    assert variant(c, 2**64 - 1) == Decimal(2**64 - 1)
    assert variant(c, Raw(b"\xd3" + (5).to_bytes(8, "big"))) == 5
    assert variant(c, float32(0.1)) == struct.unpack("<f", struct.pack("<f", 0.1))[0]


def test_extensions_become_text(c: ModuleType) -> None:
    assert variant(c, Decimal("-1.50")) == "-1.50"
    assert variant(c, UUID_1) == str(UUID_1)
    assert variant(c, ext(4, bytes(8))) == "<4 0000000000000000>"
    assert variant(c, ext(-1, b"x")) == "<-1 78>"


def test_tags_tell_texts_apart(c: ModuleType) -> None:
    value = [Decimal("1.50"), UUID_1, "!decimal 1", "plain", "!", {"!key": "!"}]
    assert variant(c, value, tagged=True) == [
        "!decimal 1.50", f"!uuid {UUID_1}", "!string !decimal 1", "plain", "!string !", {"!key": "!string !"},
    ]  # fmt: skip


def test_keys_that_are_no_strings_become_text(c: ModuleType) -> None:
    keys = [pack(key) for key in (1, -1, True, False, None, 1.5, b"ab")] + [pack([1]), map_of([]), pack(2**64 - 1)]
    found = variant(c, map_of([(key, pack(at)) for at, key in enumerate(keys)]))
    names = ["1", "-1", "true", "false", "null", "1.5", "0xc4026162", "0x9101", "0xde0000", "18446744073709551615"]
    assert found == {name: at for at, name in enumerate(names)}


def test_of_equal_keys_the_last_one_stays(c: ModuleType) -> None:
    assert variant(c, map_of([(pack("a"), pack("x" * 40)), (pack("b"), pack(2)), (pack("a"), pack(3))])) == {
        "a": 3,
        "b": 2,
    }
    assert variant(c, map_of([(pack(1), pack(1)), (pack("1"), pack(2))])) == {"1": 2}


def test_keys_are_in_the_order_that_spark_searches_by(c: ModuleType) -> None:
    """Java compares strings as UTF-16: what lies above U+FFFF comes before U+E000."""
    names = ["\uffff", "\ue000", "\U0001f600", "\U00010000", "z", "\u00e9", "zz", ""]
    value, metadata = c.to_variant(map_of([(pack(name), pack(1)) for name in names]), texts, 0, False)
    found = list(VariantVal(value, metadata).toPython())
    assert found == sorted(names, key=lambda name: name.encode("utf-16-be"))


def test_many_keys_are_sorted_too(c: ModuleType) -> None:
    value = {f"{number * 7919 % 1000:03}": number for number in range(1000)}
    assert list(variant(c, value)) == sorted(value)
    assert variant(c, [value, value]) == [value, value]


def test_bytes_that_are_no_text(c: ModuleType) -> None:
    bad, key = Raw(b"\xa3a\xffb"), map_of([(Raw(b"\xa1\xff"), pack(1))])
    for value in (bad, key):
        with pytest.raises(UnicodeError):
            variant(c, value, Utf8.FAIL)
    assert variant(c, bad, Utf8.REPLACE) == "a�b"
    assert variant(c, bad, Utf8.BINARY) == b"a\xffb"
    assert variant(c, key, Utf8.REPLACE) == variant(c, key, Utf8.BINARY) == {"�": 1}


@pytest.mark.parametrize("bad", ["ed a0 80", "c0 80", "f4 90 80 80", "e0 80 80", "80", "c3", "f0 9f 98", "ff"])
def test_what_utf8_is(c: ModuleType, bad: str) -> None:
    """Surrogates, longer forms than needed, above U+10FFFF, cut off; at every place of an eight-byte word."""
    for before in range(9):
        raw = b"a" * before + bytes.fromhex(bad)
        with pytest.raises(UnicodeError):
            variant(c, Raw(bytes([0xA0 | len(raw)]) + raw))
        text = "a" * before + "\u00e9\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
        assert variant(c, text) == text


def test_values_deep_in_one_another(c: ModuleType) -> None:
    """Deeper than Python's own stack reaches: 1,000 containers is what the checker lets through."""
    arrays = Raw(b"\x91" * 999 + b"\x90")
    maps = Raw(b"\x81\xa1k" * 999 + b"\x80")
    for value in (arrays, maps):
        there = c.to_variant(bytes(value), texts, 0, False)
        assert c.from_variant(*there) == value
    with pytest.raises(MsgPackError):
        c.to_variant(b"\x91" * 1001 + b"\x90", texts, 0, False)


def test_what_is_not_one_value_is_refused(c: ModuleType) -> None:
    for data in (b"", b"\xc1", b"\x91", b"\x01\x02"):
        with pytest.raises(MsgPackError):
            c.to_variant(data, texts, 0, False)


def test_value_that_spark_would_not_take_is_refused(both_columns: tuple[ModuleType, ModuleType]) -> None:
    for c in both_columns:
        with pytest.raises(ValueError, match="128 MiB"):
            c.to_variant(b"\xc6" + (128 << 20).to_bytes(4, "big") + bytes(128 << 20), texts, 0, False)


# ---- back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -33, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1.5, "x" * 100, "!x", b"\xff", [], [[{"a": None}]],
        Decimal("1.50"), Decimal("-1E+30"), UUID_1, {"a": "!uuid", "b": [Decimal(0)]}, LONG, WIDE,
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_tagged_values_come_back_as_they_were(c: ModuleType, value: Any) -> None:
    packed = pack(value)
    assert c.from_variant(*c.to_variant(packed, texts, 0, True), tagged=True) == packed


def test_other_extensions_come_back_by_a_callable(c: ModuleType) -> None:
    def tag(kind: int, contents: bytes) -> str:
        return f"!ext {kind} {contents.hex()}"

    def untag(text: str) -> bytes:
        _, kind, contents = text.split(" ")
        return bytes(ext(int(kind), bytes.fromhex(contents)))

    value = pack([datetime_ext(5, 6), ext(-1, b"x"), "!string"])
    there = c.to_variant(value, tag, 0, True)
    assert c.from_variant(*there, tagged=True, untag=untag) == value
    assert c.from_variant(*there, tagged=True) == pack(
        ["!ext 4 05000000000000000600000000000000", "!ext -1 78", "!string"]
    )
    with pytest.raises(PackError, match="mark"):
        c.from_variant(*c.to_variant(value, lambda *_: "!bad", 0, True), tagged=True, untag=untag)
    with pytest.raises(PackError, match="mark"):
        c.from_variant(*there, tagged=True, untag=lambda _: b"\x91")
    with pytest.raises(KeyError):
        c.from_variant(*there, tagged=True, untag=lambda text: {}[text])
    with pytest.raises(TypeError):
        c.from_variant(*there, tagged=True, untag=lambda text: text)


@pytest.mark.parametrize("text", ["!decimal x", "!decimal 1.2.3", "!decimal 1e", "!uuid 1", "!uuid " + "g" * 36])
def test_tags_that_lie_are_refused(c: ModuleType, text: str) -> None:
    there = c.to_variant(pack(text), texts, 0, False)
    with pytest.raises(PackError, match="mark"):
        c.from_variant(*there, tagged=True)
    assert c.from_variant(*there) == pack(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"b": [1, -2, 3000000000], "a": {"x": null, "y": true}}',
            {"b": [1, -2, 3_000_000_000], "a": {"x": None, "y": True}},
        ),
        ("1.50", Decimal("1.50")),
        ("-12345678901234567.5", Decimal("-12345678901234567.5")),
        ("1.5e300", 1.5e300),
        ("123456789012345678901234567890", Decimal("123456789012345678901234567890")),
        (json.dumps("é" * 200), "é" * 200),
    ],
)
def test_what_pyspark_made_of_json(c: ModuleType, text: str, expected: Any) -> None:
    made = VariantVal.parseJson(text)
    packed = c.from_variant(made.value, made.metadata)
    if isinstance(expected, dict):
        assert c.to_variant(packed, texts, 0, False)
        expected = dict(sorted(expected.items()))
    assert packed == pack(expected)


META = b"\x01\0\0"


def primitive(type: int, contents: bytes) -> bytes:
    return bytes((type << 2,)) + contents


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (primitive(8, b"\x02" + struct.pack("<i", -150)), Decimal("-1.50")),
        (primitive(9, b"\x00" + struct.pack("<q", 5)), Decimal(5)),
        (primitive(10, b"\x26" + (10**38 - 1).to_bytes(16, "little")), Decimal("0." + "9" * 38)),
        (primitive(11, struct.pack("<i", -1)), datetime_ext(-86_400)),
        (primitive(12, struct.pack("<q", -1)), datetime_ext(-1, 999_999_000)),
        (primitive(13, struct.pack("<q", 1_500_000)), datetime_ext(1, 500_000_000)),
        (primitive(14, struct.pack("<f", 1.5)), float32(1.5)),
        (primitive(20, UUID_1.bytes), UUID_1),
    ],
)
def test_types_that_only_spark_writes(c: ModuleType, value: bytes, expected: Any) -> None:
    assert c.from_variant(value, META) == pack(expected)


def test_moments_are_those_that_pyspark_reads(c: ModuleType) -> None:
    value = primitive(12, struct.pack("<q", 1_700_000_000_123_456))
    assert VariantVal(value, META).toPython() == dt.datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=dt.UTC)
    assert c.from_variant(value, META) == pack(datetime_ext(1_700_000_000, 123_456_000))


@pytest.mark.parametrize(
    ("value", "metadata"),
    [
        (b"", META),
        (b"\x00", b""),
        (b"\x00", b"\x02\0\0"),
        (b"\x00", b"\x01\x05\0"),
        (b"\x00", b"\xc1\xff\xff\xff\xff"),
        (b"\x0c", META),
        (b"\x09a", META),
        (primitive(16, b"\xff\xff\xff\xff"), META),
        (primitive(15, b"\x05\0\0\0abc"), META),
        (primitive(17, bytes(8)), META),
        (primitive(8, b"\x27" + bytes(4)), META),
        (primitive(10, b"\0" + b"\xff" * 15 + b"\x7f"), META),
        (b"\x03\x02\x00\x01\x02", META),
        (b"\x03\x01\x50\x51", META),
        (b"\x13\xff\xff\xff\xff", META),
        (b"\x02\x01\x00\x00\x01\x00", META),
        (b"\x02\x01\x05\x00\x01\x00", b"\x01\x01\x00\x01a"),
        (b"\x02\x01\x00\x00\x01\x00", b"\x01\x01\x01\x00a"),
        (b"\x02\x01\x00\x00\x01\x00", b"\x01\x01\x00\x01\xff"),
        (b"\x05\xff", META),
    ],
)
def test_bytes_that_are_no_variant_are_refused(c: ModuleType, value: bytes, metadata: bytes) -> None:
    with pytest.raises(PackError):
        c.from_variant(value, metadata)


def test_value_that_refers_to_itself_again_and_again_is_refused(c: ModuleType) -> None:
    """Two elements that lie at one place, on every level: 2^60 values in 300 bytes."""
    value = b"\x00"
    for _ in range(60):
        value = b"\x03\x02\x00\x00" + bytes([min(len(value), 255)]) + value
    with pytest.raises(PackError):
        c.from_variant(value, META)


def test_arrays_of_every_width(c: ModuleType) -> None:
    for size in (0, 1, 255, 256, 300, 70_000, 17_000_000):
        value = Raw(array_header(2) + b"\xc6" + size.to_bytes(4, "big") + bytes(size) + pack("end"))
        there = c.to_variant(bytes(value), texts, 0, False)
        again = c.from_variant(*there)
        assert again[-4:] == pack("end")
        assert len(again) == len(pack(bytes(size))) + 5
