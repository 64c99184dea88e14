"""Where values end: every first byte, every way to be cut short, foreign bytes, depth."""

from __future__ import annotations

import struct
from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import ERROR, Raw, array_header, datetime_ext, decimal_ext, ext, pack

from headwater.errors import MsgPackError

VALUES: list[Any] = [
    None, True, False, 0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1,
    -1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63),
    1.5, "", "a" * 31, "a" * 32, "a" * 255, "a" * 256, "a" * 65536,
    b"", b"x" * 255, b"x" * 256, b"x" * 65536,
    [], [1] * 15, [1] * 16, [[[]]], {}, {"a": [1, {"b": 2}]}, dict.fromkeys(range(20), 0),
    Decimal("0"), Decimal("-12.345"), Decimal("1E+10"), UUID(int=7),
    datetime_ext(0), datetime_ext(-5, 1, -60, 3), ext(6, b"\x00"), ext(6, b"\x02\x00\x01\x06\xd0\xf0"),
    ext(100, b"abc"), ext(-1, b"x" * 16), Raw(b"\xc9\x00\x00\x00\x02\x64ab"), Raw(b"\xc8\x00\x02\x64ab"),
    ext(3, ERROR), ext(7, b"\x05\x92\x01\x02"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_next_gives_the_end_of_every_kind_of_value(k: ModuleType, value: Any) -> None:
    data = pack(value)
    assert k.mp_next(data) == len(data)
    assert k.mp_next(b"\x01" + data + b"\x02", 1) == 1 + len(data)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_next_refuses_every_truncation(k: ModuleType, value: Any) -> None:
    data = pack(value)
    for size in {*range(min(len(data), 40)), len(data) - 1}:
        with pytest.raises(MsgPackError):
            k.mp_next(data[:size])


def test_next_accepts_forms_that_are_longer_than_needed(k: ModuleType) -> None:
    for data in (b"\xcf" + bytes(8), b"\xd3" + bytes(8), b"\xdb\x00\x00\x00\x01a", b"\xdd\x00\x00\x00\x01\xc0",
                 b"\xdf\x00\x00\x00\x01\xc0\xc0"):  # fmt: skip
        assert k.mp_next(data) == len(data)


def test_next_refuses_the_code_that_is_never_used(k: ModuleType) -> None:
    for data in (b"\xc1", b"\x92\x01\xc1", b"\x81\xa1a\xc1"):
        with pytest.raises(MsgPackError):
            k.mp_next(data)


def test_next_refuses_offsets_outside(k: ModuleType) -> None:
    for offset in (1, 2, 100):
        with pytest.raises(MsgPackError):
            k.mp_next(b"\x01", offset)


@pytest.mark.parametrize("header", [b"\x91", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01", b"\x81\x01"])
def test_depth_of_a_thousand_is_the_last_one_accepted(k: ModuleType, header: bytes) -> None:
    data = header * 1000 + b"\x01"
    assert k.mp_next(data) == len(data)
    with pytest.raises(MsgPackError):
        k.mp_next(header * 1001 + b"\x01")


def test_depth_of_a_million_is_refused_and_costs_no_stack(k: ModuleType) -> None:
    with pytest.raises(MsgPackError):
        k.mp_next(b"\x91" * 1_000_000 + b"\x01")
    with pytest.raises(MsgPackError):
        k.mp_next(b"\x91" * 1_000_000)


def test_counts_that_promise_more_than_there_is_are_refused_at_once(k: ModuleType) -> None:
    for data in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff\x01", b"\xdb\xff\xff\xff\xff",
                 b"\xc6\xff\xff\xff\xffx", b"\xc9\xff\xff\xff\xff\x01"):  # fmt: skip
        with pytest.raises(MsgPackError):
            k.mp_next(data)


BAD_EXTENSIONS = {
    "decimal without digits": ext(1, b"\x00"),
    "decimal that is empty": Raw(b"\xc7\x00\x01"),
    "decimal with a scale that is a string": ext(1, b"\xa1a\x1c"),
    "decimal with a cut scale": ext(1, b"\xcd\x01"),
    "decimal without a sign": ext(1, b"\x00\x11"),
    "decimal with a sign in the middle": ext(1, b"\x00\x1c\x1c"),
    "decimal of 77 digits": ext(1, b"\x00" + bytes.fromhex("1" * 77 + "c")),
    "decimal with an exponent above a million": decimal_ext(Decimal("1E+1000000")),
    "decimal with too many digits for its exponent": decimal_ext(Decimal("12E-1000075")),
    "decimal with an exponent below all": decimal_ext(Decimal("1E-1000075")),
    "uuid of 15 bytes": ext(2, bytes(15)),
    "uuid of 17 bytes": ext(2, bytes(17)),
    "error that is no map": ext(3, b"\x01"),
    "error without a stack": ext(3, b"\x80"),
    "error with an empty stack": ext(3, b"\x81\x00\x90"),
    "error with junk behind it": ext(3, ERROR + b"\x00"),
    "error with two stacks": ext(3, b"\x82" + ERROR[1:] + ERROR[1:]),
    "error with a string for a key": ext(3, b"\x82\xa1a\x00" + ERROR[1:]),
    "error without a message": ext(3, b"\x81\x00\x91\x82\x00\xa1t\x01\xa1f"),
    "error whose line is a string": ext(3, b"\x81\x00\x91\x84\x02\xa1l\x00\xa1t\x01\xa1f\x03\xa1m"),
    "error whose fields have numbers for keys": ext(3, b"\x81\x00\x91\x84\x06\x81\x01\x01\x00\xa1t\x01\xa1f\x03\xa1m"),
    "datetime of 9 bytes": ext(4, bytes(9)),
    "datetime beyond its years": datetime_ext(2**60),
    "datetime with two seconds of nanoseconds": datetime_ext(0, 2_000_000_000),
    "datetime with negative nanoseconds": datetime_ext(0, -1),
    "datetime west of the date line": datetime_ext(0, 0, -721),
    "datetime east of the date line": datetime_ext(0, 0, 841),
    "datetime in zone 1025": datetime_ext(0, 0, 0, 1025),
    "interval that is empty": Raw(b"\xc7\x00\x06"),
    "interval with fewer fields than it says": ext(6, b"\x02\x00\x01"),
    "interval with more fields than it says": ext(6, b"\x00\x00\x01"),
    "interval with field 9": ext(6, b"\x01\x09\x01"),
    "interval with a string": ext(6, b"\x01\x00\xa1a"),
    "interval of too many years": ext(6, b"\x01\x00\xce\x80\x00\x00\x00"),
    "interval with adjustment 3": ext(6, b"\x01\x08\x03"),
    "tuple without an id": ext(7, b"\x90"),
    "tuple that is no array": ext(7, b"\x01\x80"),
    "tuple with only an id": ext(7, b"\x01"),
}


@pytest.mark.parametrize("name", BAD_EXTENSIONS)
def test_extensions_with_wrong_contents_are_refused(k: ModuleType, name: str) -> None:
    with pytest.raises(MsgPackError):
        k.mp_next(BAD_EXTENSIONS[name])
    with pytest.raises(MsgPackError):
        k.mp_next(b"\x91" + BAD_EXTENSIONS[name])


GOOD_EXTENSIONS = {
    "decimal of 76 digits": ext(1, b"\x00" + bytes.fromhex("0" + "1" * 76 + "c")),
    "decimal with leading zeros": ext(1, b"\x00" + bytes.fromhex("0" * 76 + "1c")),
    "decimal with the other plus sign": ext(1, b"\x01\x1f"),
    "decimal with the other minus sign": ext(1, b"\x01\x1b"),
    "decimal with the greatest exponent": decimal_ext(Decimal("1E+999999")),
    "decimal with the least exponent": decimal_ext(Decimal("1E-999999")),
    "error with all its fields": ext(
        3, b"\x82\x05\xc0\x00\x91\x87\x00\xa1t\x01\xa1f\x02\x01\x03\xa1m\x04\x01\x05\x01\x06\x81\xa1k\xc0"
    ),
    "decimal below the least exponent": decimal_ext(Decimal("1E-1000074")),
    "datetime at the end": datetime_ext((2**31 - 1 - 719163) * 86400),
    "datetime at the beginning": datetime_ext((-(2**31) - 719163) * 86400),
    "datetime with all fields at their ends": datetime_ext(0, 1_999_999_999, 840, 1024),
    "interval with all its fields": ext(
        6, b"\x09" + b"".join(bytes([field]) + msgpack.packb(-7 if field < 8 else 2) for field in range(9))
    ),
}


@pytest.mark.parametrize("name", GOOD_EXTENSIONS)
def test_extensions_at_their_limits_are_accepted(k: ModuleType, name: str) -> None:
    assert k.mp_next(GOOD_EXTENSIONS[name]) == len(GOOD_EXTENSIONS[name])


def _nested_tuple(depth: int) -> bytes:
    data = b"\x01"
    for _ in range(depth):
        body = b"\x00\x91" + data
        data = b"\xc8" + struct.pack(">H", len(body)) + b"\x07" + body
    return data


def test_fifteen_extensions_inside_one_another_are_the_last_accepted(k: ModuleType) -> None:
    data = _nested_tuple(15)
    assert k.mp_next(data) == len(data)
    for depth in (16, 1000):
        with pytest.raises(MsgPackError):
            k.mp_next(_nested_tuple(depth))


def test_check_all_counts_values_that_fill_a_range(k: ModuleType) -> None:
    data = pack(1) + pack("abc") + pack([1, 2, [3]])
    assert k.mp_check_all(data, 0, len(data)) == 3
    assert k.mp_check_all(data, 1, len(data)) == 2
    assert k.mp_check_all(data, 1, 1) == 0
    assert k.mp_check_all(b"\x05" + data + b"\xc1", 1, 1 + len(data)) == 3


def test_check_all_refuses_values_that_do_not_end_where_the_range_does(k: ModuleType) -> None:
    data = pack([1, 2]) + pack("abc")
    for end in (1, 2, 4, 6):
        with pytest.raises(MsgPackError):
            k.mp_check_all(data, 0, end)
    with pytest.raises(MsgPackError):
        k.mp_check_all(data, 0, len(data) + 1)
    with pytest.raises(MsgPackError):
        k.mp_check_all(data + b"\xc1", 0, len(data) + 1)


def test_array_fields_gives_offsets_and_the_end(k: ModuleType) -> None:
    assert k.mp_array_fields(b"\x90") == [1]
    assert k.mp_array_fields(b"\x93\x01\xa2ab\x91\x02") == [1, 2, 5, 7]
    assert k.mp_array_fields(b"\xc0\x93\x01\xa2ab\x91\x02\xc0", 1) == [2, 3, 6, 8]
    wide = array_header(300) + b"\x01" * 300
    assert k.mp_array_fields(wide) == list(range(3, 304))


def test_array_fields_refuses_what_is_no_whole_array(k: ModuleType) -> None:
    for data in (
        b"",
        b"\x01",
        b"\x80",
        b"\xa1a",
        b"\x91",
        b"\x92\x01",
        b"\xdc\x00",
        b"\xdd\xff\xff\xff\xff",
        b"\x91\xc1",
    ):
        with pytest.raises(MsgPackError):
            k.mp_array_fields(data)


def test_frame_end_waits_for_the_whole_packet(k: ModuleType) -> None:
    data = b"\xce\x00\x00\x00\x03abc" + b"\x02xy"
    for end in range(8):
        assert k.frame_end(data, 0, end) == 0
    assert k.frame_end(data, 0, 8) == 8
    assert k.frame_end(data, 0, len(data)) == 8
    assert k.frame_end(data, 8, 10) == 0
    assert k.frame_end(data, 8, 11) == 11


def test_frame_end_accepts_every_form_of_an_unsigned_length(k: ModuleType) -> None:
    for head in (b"\x03", b"\xcc\x03", b"\xcd\x00\x03", b"\xce\x00\x00\x00\x03", b"\xcf" + bytes(7) + b"\x03"):
        assert k.frame_end(head + b"abc", 0, len(head) + 3) == len(head) + 3
        assert k.frame_end(head + b"abc", 0, len(head) + 2) == 0


def test_frame_end_of_a_huge_length_is_not_complete(k: ModuleType) -> None:
    assert k.frame_end(b"\xcf" + b"\xff" * 8 + b"abc", 0, 12) == 0
    assert k.frame_end(b"\xce" + b"\xff" * 4 + b"abc", 0, 8) == 0


def test_frame_end_refuses_a_length_of_another_type(k: ModuleType) -> None:
    for code in (b"\xd2\x00\x00\x00\x03", b"\xff", b"\xa3", b"\x80", b"\xc1", b"\xca\x00\x00\x00\x00"):
        with pytest.raises(MsgPackError):
            k.frame_end(code + b"abc", 0, len(code) + 3)


@given(data=st.binary(max_size=200))
def test_foreign_bytes_give_an_end_or_an_error(k: ModuleType, data: bytes) -> None:
    try:
        end = k.mp_next(data)
    except MsgPackError:
        return
    assert 0 < end <= len(data)
    assert k.mp_check_all(data, 0, end) == 1


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=5), inner, max_size=20)),
    max_leaves=40,
)


@given(value=documents, cut=st.integers(0, 10_000), before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_any_document_ends_where_it_was_packed_to(
    k: ModuleType, value: Any, cut: int, before: bytes, after: bytes
) -> None:
    data = pack(value)
    assert k.mp_next(before + data + after, len(before)) == len(before) + len(data)
    with pytest.raises(MsgPackError):
        k.mp_next(data[: cut % len(data)])
