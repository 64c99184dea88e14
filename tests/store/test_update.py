"""Operations on the fields of a tuple, by number and by name (xrow_update.c)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.store.updating import fault, update, update_bytes, upsert

from headwater.errors import BoxError, Er, IllegalParams, MsgPackError
from headwater.kernels import KeyDef, KeyPart
from headwater.store.update import apply_update, apply_upsert, check_ops, keeps_key
from headwater.typing import FieldType as T
from headwater.wire.msgpack import Float32, pack, unpack

ROW = [1, "abc", 10, None]


# ---- set, insert, delete ---------------------------------------------------------------------------------


def test_set_replaces_a_field() -> None:
    assert update(ROW, ["=", 1, {"x": [1]}]) == [1, {"x": [1]}, 10, None]
    assert update(ROW, ["=", 0, None]) == [None, "abc", 10, None]


def test_set_of_the_field_behind_the_last_appends() -> None:
    assert update([1], ["=", 1, "x"], ["=", 2, "y"]) == [1, "x", "y"]


def test_set_and_insert_beyond_the_end_fill_the_gap_with_nils() -> None:
    assert update([1], ["=", 4, "x"]) == [1, None, None, None, "x"]
    assert update([1], ["!", 3, "x"], ["=", 2, "y"]) == [1, None, "y", "x"]
    assert update([], ["=", 0, "x"]) == ["x"]


def test_a_gap_longer_than_any_tuple_is_refused() -> None:
    assert fault([1], ["=", 2**31 - 1, "x"])[0] == Er.MEMTX_MAX_TUPLE_SIZE
    assert fault([1], ["=", 2**20 + 1, "x"])[0] == Er.MEMTX_MAX_TUPLE_SIZE
    row = apply_update(pack([["=", 100, "x"]]), pack([1]), {}, 0, max_size=100)
    assert len(unpack(row)) == 101


def test_insert_moves_the_fields_behind() -> None:
    assert update(ROW, ["!", 1, "new"]) == [1, "new", "abc", 10, None]
    assert update(ROW, ["!", 4, "new"]) == [*ROW, "new"]
    assert update([], ["!", 0, "new"]) == ["new"]


def test_insert_by_a_negative_number_comes_behind_the_field() -> None:
    assert update(ROW, ["!", -1, "new"]) == [*ROW, "new"]
    assert update(ROW, ["!", -2, "new"]) == [1, "abc", 10, "new", None]
    assert update(ROW, ["!", -5, "new"]) == ["new", *ROW]


def test_delete_takes_as_many_fields_as_there_are() -> None:
    assert update(ROW, ["#", 1, 1]) == [1, 10, None]
    assert update(ROW, ["#", 1, 2]) == [1, None]
    assert update(ROW, ["#", 1, 2**32 - 1]) == [1]
    assert update(ROW, ["#", -1, 1]) == [1, "abc", 10]
    assert update(ROW, ["#", -2, 5]) == [1, "abc"]


def test_delete_beyond_the_end_is_done_already() -> None:
    assert update(ROW, ["#", 4, 1]) == ROW
    assert update(ROW, ["#", 400, 7]) == ROW


def test_later_operations_see_the_fields_where_they_are_now() -> None:
    assert update(ROW, ["#", 0, 1], ["=", 0, "first"]) == ["first", 10, None]
    assert update(ROW, ["!", 0, 0], ["+", 3, 1]) == [0, 1, "abc", 11, None]
    assert update(ROW, ["#", 0, 3], ["!", 1, 5], ["=", -1, 6]) == [None, 6]


def test_negative_numbers_count_from_the_end() -> None:
    assert update(ROW, ["=", -1, 5]) == [1, "abc", 10, 5]
    assert update(ROW, ["+", -2, 5]) == [1, "abc", 15, None]
    assert update(ROW, ["=", -4, 5]) == [5, "abc", 10, None]


def test_an_index_base_of_one_counts_fields_from_one() -> None:
    assert update(ROW, ["=", 1, 5], base=1) == [5, "abc", 10, None]
    assert update(ROW, ["+", 3, 5], ["=", -1, 7], base=1) == [1, "abc", 15, 7]
    assert fault(ROW, ["=", 0, 5], base=1) == (Er.NO_SUCH_FIELD_NO, "Field 0 was not found in the tuple")


def test_fields_that_are_not_there_are_named_from_one() -> None:
    assert fault(ROW, ["+", 4, 5]) == (Er.NO_SUCH_FIELD_NO, "Field 5 was not found in the tuple")
    assert fault(ROW, ["=", -5, 5]) == (Er.NO_SUCH_FIELD_NO, "Field -5 was not found in the tuple")
    assert fault(ROW, ["#", -5, 1]) == (Er.NO_SUCH_FIELD_NO, "Field -5 was not found in the tuple")
    assert fault(ROW, ["!", -6, 5]) == (Er.NO_SUCH_FIELD_NO, "Field -6 was not found in the tuple")
    assert fault(ROW, [":", 9, 0, 0, "x"]) == (Er.NO_SUCH_FIELD_NO, "Field 10 was not found in the tuple")


def test_fields_by_name() -> None:
    assert update(ROW, ["=", "name", "x"], ["+", "data", 1]) == [1, "x", 11, None]
    assert update([1], ["=", "data", 5]) == [1, None, 5]
    assert update(ROW, ["=", "a.b", 5]) == [1, "abc", 10, 5]
    assert fault(ROW, ["=", "nope", 1]) == (Er.NO_SUCH_FIELD_NAME, "Field 'nope' was not found in the tuple")
    assert fault(ROW, ["=", "", 1]) == (Er.NO_SUCH_FIELD_NAME, "Field '' was not found in the tuple")


def test_the_same_field_may_be_changed_again() -> None:
    assert update(ROW, ["+", 2, 1], ["+", 2, 1], ["-", 2, 5]) == [1, "abc", 7, None]
    assert update(ROW, ["=", 2, 1], ["+", 2, 1]) == [1, "abc", 2, None]
    assert update(ROW, ["+", 2, 1], ["=", 2, "x"], [":", 2, 1, 0, "y"]) == [1, "abc", "xy", None]
    assert update(ROW, [":", 1, 0, 1, "X"], [":", 1, -1, 0, "Y"]) == [1, "XbcY", 10, None]


def test_untouched_fields_keep_their_bytes() -> None:
    odd = (
        b"\xdc\x00\x05\xcf"
        + bytes(7)
        + b"\x01"
        + b"\xd9\x01a"
        + b"\xc8\x00\x01\x64x"
        + b"\xdf"
        + bytes(4)
        + b"\xd0\x05"
    )
    assert update_bytes(odd, ["=", 1, "b"]) == b"\x95\xcf" + bytes(7) + b"\x01\xa1b" + odd[15:]
    assert update_bytes(odd) == b"\x95" + odd[3:]
    assert update_bytes(odd, ["#", 0, 1]) == b"\x94" + odd[12:]
    value = b"\xdb\x00\x00\x00\x01a"
    ops = b"\x91\x93\xa1=\x00" + value
    assert apply_update(ops, b"\x92\x01\x02", {}, 0) == b"\x92" + value + b"\x02"


def test_a_long_tuple_gets_a_longer_head() -> None:
    row = list(range(15))
    assert update(row, ["!", 15, 15]) == list(range(16))
    row = list(range(65535))
    assert update(row, ["=", 65535, 1])[-1] == 1
    assert update(list(range(16)), ["#", 0, 1]) == list(range(1, 16))


# ---- arithmetic ----------------------------------------------------------------------------------------


def arithmetic(old: Any, code: str, operand: Any) -> Any:
    return update([0, old], [code, 1, operand])[1]


@pytest.mark.parametrize(
    ("old", "code", "operand", "new"),
    [
        (1, "+", 2, 3), (1, "-", 2, -1), (-1, "+", 1, 0), (0, "-", 2**63, -(2**63)), (2**64 - 2, "+", 1, 2**64 - 1),
        (2**64 - 1, "-", 2**64 - 1, 0), (-(2**63), "+", 2**64 - 1, 2**63 - 1), (-(2**63) + 1, "-", 1, -(2**63)),
        (5, "+", -7, -2), (5, "-", -7, 12),
    ],
)  # fmt: skip
def test_integers_stay_integers(old: int, code: str, operand: int, new: int) -> None:
    assert update_bytes(pack([0, old]), [code, 1, operand]) == pack([0, new])


@pytest.mark.parametrize(
    ("old", "code", "operand"), [(2**64 - 1, "+", 1), (-(2**63), "-", 1), (0, "-", 2**63 + 1), (2**63, "+", 2**63)]
)
def test_integers_overflow(old: int, code: str, operand: int) -> None:
    wanted = f"Integer overflow when performing '{code}' operation on field 2"
    assert fault([0, old], [code, 1, operand]) == (Er.UPDATE_INTEGER_OVERFLOW, wanted)


@pytest.mark.parametrize(
    ("old", "operand", "new"),
    [
        (1.5, 1, Float32(2.5)), (1, 1.5, Float32(2.5)), (0.1, 0.2, 0.1 + 0.2), (Float32(1.5), 1, Float32(2.5)),
        (Float32(1.5), 0.1, 1.6), (1e300, 1e300, 2e300), (float("inf"), 1, float("inf")),
        (2**53, 0.0, Float32(2.0**53)),
        (2**64 - 1, 0.0, Float32(2.0**64)), (3.5e38, 0.0, 3.5e38), (1e-50, 0, 1e-50),
    ],
)  # fmt: skip
def test_a_float_or_double_makes_the_smallest_of_both_that_is_exact(old: Any, operand: Any, new: Any) -> None:
    assert update_bytes(pack([0, old]), ["+", 1, operand]) == pack([0, new])


def test_nan_stays_a_double() -> None:
    assert update_bytes(pack([0, float("inf")]), ["-", 1, float("inf")])[2:3] == b"\xcb"


def test_the_type_of_the_field_says_float_or_double() -> None:
    row, op = pack([0, 1.5]), ["+", 1, 1.0]
    assert update_bytes(row, op) == pack([0, Float32(2.5)])
    assert update_bytes(row, op, types=[T.UNSIGNED, T.DOUBLE]) == pack([0, 2.5])
    assert update_bytes(row, op, types=[T.UNSIGNED, T.FLOAT64]) == pack([0, 2.5])
    assert update_bytes(row, op, types=[T.UNSIGNED, T.NUMBER]) == pack([0, Float32(2.5)])
    thirds = pack([0, 0.1])
    assert update_bytes(thirds, ["+", 1, 0.2], types=[T.UNSIGNED, T.FLOAT32]) == pack([0, Float32(0.1 + 0.2)])
    assert update_bytes(row, op, ["!", 0, 7], types=[T.ANY, T.ANY, T.DOUBLE]) == pack([7, 0, 2.5])


@pytest.mark.parametrize(
    ("old", "code", "operand", "new"),
    [
        (Decimal("1.5"), "+", 1, "2.5"), (1, "-", Decimal("0.25"), "0.75"),
        (Decimal("1.50"), "+", Decimal("0.5"), "2.00"),
        (0.1, "+", Decimal("0.2"), "0.3"), (Float32(1.5), "+", Decimal(1), "2.5"), (23.42, "+", Decimal(0), "23.42"),
        (Decimal("1E+3"), "+", 1, "1001"), (-5, "+", Decimal("5"), "0"), (2**64 - 1, "+", Decimal(1), str(2**64)),
        (Decimal("9" * 38), "+", Decimal(1), "1" + "0" * 38),
        (Decimal("9" * 76), "+", Decimal("0.5"), "1." + "0" * 75 + "E+76"),
    ],
)  # fmt: skip
def test_a_decimal_on_either_side_makes_a_decimal(old: Any, code: str, operand: Any, new: str) -> None:
    result = arithmetic(old, code, operand)
    assert isinstance(result, Decimal)
    assert result.as_tuple() == Decimal(new).as_tuple()


def test_decimals_overflow() -> None:
    greatest = Decimal("9" * 76 + "E+999924")
    wanted = (Er.UPDATE_DECIMAL_OVERFLOW, "Decimal overflow when performing operation '+' on field 2")
    assert fault([0, greatest], ["+", 1, greatest]) == wanted


def test_what_is_no_decimal_cannot_be_added_to_one() -> None:
    wanted = (
        "Argument type in operation '+' on field 2 does not match field type: expected a number convertible to decimal"
    )
    for value in (float("inf"), float("nan")):
        assert fault([0, value], ["+", 1, Decimal(1)]) == (Er.UPDATE_ARG_TYPE, wanted)
        assert fault([0, Decimal(1)], ["+", 1, value]) == (Er.UPDATE_ARG_TYPE, wanted)


@pytest.mark.parametrize("value", [None, True, "1", b"1", [1], {1: 1}])
def test_arithmetic_wants_numbers_on_both_sides(value: Any) -> None:
    for code in "+-":
        wanted = f"Argument type in operation '{code}' on field 2 does not match field type: expected a number"
        assert fault([0, value], [code, 1, 1]) == (Er.UPDATE_ARG_TYPE, wanted)
        assert fault([0, 1], [code, 1, value]) == (Er.UPDATE_ARG_TYPE, wanted)


# ---- bits ----------------------------------------------------------------------------------------------


def test_bits_of_unsigned_integers() -> None:
    assert arithmetic(0b1100, "&", 0b1010) == 0b1000
    assert arithmetic(0b1100, "|", 0b1010) == 0b1110
    assert arithmetic(0b1100, "^", 0b1010) == 0b0110
    assert arithmetic(2**64 - 1, "&", 2**63) == 2**63
    assert update(ROW, ["|", 2, 1], ["&", 2, 3], ["^", 2, 2]) == [1, "abc", 1, None]


@pytest.mark.parametrize("value", [-1, 1.0, "1", None, Decimal(1)])
def test_bits_want_unsigned_integers_on_both_sides(value: Any) -> None:
    for code in "&|^":
        wanted = (
            f"Argument type in operation '{code}' on field 2 does not match field type: expected a positive integer"
        )
        assert fault([0, value], [code, 1, 1]) == (Er.UPDATE_ARG_TYPE, wanted)
        assert fault([0, 1], [code, 1, value]) == (Er.UPDATE_ARG_TYPE, wanted)


# ---- splice --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "cut", "paste", "new"),
    [
        (0, 0, "X", "Xabcdef"), (1, 2, "X", "aXdef"), (6, 0, "X", "abcdefX"), (100, 5, "X", "abcdefX"),
        (2, 100, "X", "abX"), (2, 100, "", "ab"), (-1, 0, "X", "abcdefX"), (-2, 1, "X", "abcdeX"),
        (-7, 1, "X", "Xbcdef"), (1, -1, "X", "aXf"), (1, -5, "X", "aXbcdef"), (1, -6, "X", "aXbcdef"),
        (0, -6, "", "abcdef"),
    ],
)  # fmt: skip
def test_splice(offset: int, cut: int, paste: str, new: str) -> None:
    assert update([0, "abcdef"], [":", 1, offset, cut, paste]) == [0, new]
    assert update([0, b"abcdef"], [":", 1, offset, cut, paste.encode()]) == [0, new.encode()]


def test_splice_keeps_the_type_of_the_field() -> None:
    assert update([0, "ab"], [":", 1, 1, 0, b"X"]) == [0, "aXb"]
    assert update([0, b"ab"], [":", 1, 1, 0, "X"]) == [0, b"aXb"]


def test_splice_counts_from_the_index_base() -> None:
    assert update([0, "abc"], [":", 2, 2, 1, "X"], base=1) == [0, "aXc"]
    assert update([0, "abc"], [":", 2, -2, 1, "X"], base=1) == [0, "abX"]
    wanted = (Er.UPDATE_SPLICE, "SPLICE error on field 2: offset is out of bound")
    assert fault([0, "abc"], [":", 2, 0, 1, "X"], base=1) == wanted
    assert fault([0, "abc"], [":", 2, -5, 1, "X"], base=1) == wanted


def test_splice_counts_bytes() -> None:
    assert update_bytes(pack([0, "äb"]), [":", 1, 1, 1, b"\xb6"]) == pack([0, "öb"])[:3] + "öb".encode()


@pytest.mark.parametrize("value", [None, 1, 1.5, [1], {}, Decimal(1)])
def test_splice_wants_strings_on_both_sides(value: Any) -> None:
    text = "Argument type in operation ':' on field 2 does not match field type: expected "
    assert fault([0, value], [":", 1, 0, 0, "x"]) == (Er.UPDATE_ARG_TYPE, text + "a string or varbinary")
    assert fault([0, "x"], [":", 1, 0, 0, value]) == (Er.UPDATE_ARG_TYPE, text + "a string or varbinary")


@pytest.mark.parametrize("value", ["1", None, 1.0, 2**31, -(2**31) - 1])
def test_splice_wants_int32_bounds(value: Any) -> None:
    wanted = "Argument type in operation ':' on field 2 does not match field type: expected an integer"
    assert fault([0, "x"], [":", 1, value, 0, "x"]) == (Er.UPDATE_ARG_TYPE, wanted)
    assert fault([0, "x"], [":", 1, 0, value, "x"]) == (Er.UPDATE_ARG_TYPE, wanted)


# ---- what is wrong whatever the tuple is -----------------------------------------------------------------

MALFORMED: list[tuple[Any, Er, str]] = [
    (5, Er.ILLEGAL_PARAMS, "update operation must be an array {op,..}"),
    ({}, Er.ILLEGAL_PARAMS, "update operation must be an array {op,..}"),
    ([], Er.ILLEGAL_PARAMS, "update operation must be an array {op,..}, got empty array"),
    ([1, 2, 3], Er.ILLEGAL_PARAMS, "update operation name must be a string"),
    ([b"=", 2, 3], Er.ILLEGAL_PARAMS, "update operation name must be a string"),
    (["=", None, 3], Er.ILLEGAL_PARAMS, "field id must be a number or a string"),
    (["=", 1.0, 3], Er.ILLEGAL_PARAMS, "field id must be a number or a string"),
    (["?", 1, 3], Er.UNKNOWN_UPDATE_OP, 'Unknown UPDATE operation #1: "?"'),
    (["", 1, 3], Er.UNKNOWN_UPDATE_OP, 'Unknown UPDATE operation #1: ""'),
    (["==", 1, 3], Er.UNKNOWN_UPDATE_OP, 'Unknown UPDATE operation #1: "=="'),
    (["="], Er.UNKNOWN_UPDATE_OP, "Unknown UPDATE operation #1: wrong number of arguments, expected 3, got 1"),
    (["=", 1], Er.UNKNOWN_UPDATE_OP, "Unknown UPDATE operation #1: wrong number of arguments, expected 3, got 2"),
    (["+", 1, 2, 3], Er.UNKNOWN_UPDATE_OP, "Unknown UPDATE operation #1: wrong number of arguments, expected 3, got 4"),
    ([":", 1, 2, 3], Er.UNKNOWN_UPDATE_OP, "Unknown UPDATE operation #1: wrong number of arguments, expected 5, got 4"),
    (
        ["=", 2**31, 1],
        Er.UPDATE_ARG_TYPE,
        "Argument type in operation '=' on field 1 does not match field type: expected an integer",
    ),
    (["#", 1, 0], Er.UPDATE_FIELD, "Field 2 UPDATE error: cannot delete 0 fields"),
    (["#", 1, 2**32], Er.UPDATE_FIELD, "Field 2 UPDATE error: cannot delete 0 fields"),
    (
        ["#", 1, -1],
        Er.UPDATE_ARG_TYPE,
        "Argument type in operation '#' on field 2 does not match field type: expected a positive integer",
    ),
]


@pytest.mark.parametrize(("op", "code", "message"), MALFORMED)
def test_malformed_operations_are_refused_by_all(op: Any, code: Er, message: str) -> None:
    assert fault(ROW, op) == (code, message)
    for call in (
        lambda: apply_upsert(pack([op]), pack(ROW), {}, 0),
        lambda: check_ops(pack([op]), {}, 0),
    ):
        with pytest.raises(BoxError) as caught:
            call()
        assert (caught.value.code, caught.value.message) == (code, message)


def test_the_number_of_a_malformed_operation_counts_from_one() -> None:
    assert fault(ROW, ["=", 1, 1], ["=", 1])[1].startswith("Unknown UPDATE operation #2: ")


def test_nothing_is_done_before_all_operations_are_read() -> None:
    assert fault(ROW, ["+", 1, 1], ["?", 1, 1])[0] == Er.UNKNOWN_UPDATE_OP


def test_four_thousand_operations_are_the_last_accepted() -> None:
    assert update([0], *[["+", 0, 1]] * 4000) == [4000]
    with pytest.raises(IllegalParams, match="too many operations for update"):
        update([0], *[["+", 0, 1]] * 4001)


def test_operations_must_be_one_array() -> None:
    for ops in (b"", b"\x01", b"\x80", b"\x91", b"\x90\x90", b"\x91\x93\xa1=\x00", b"\xc1"):
        with pytest.raises(MsgPackError):
            apply_update(ops, pack(ROW), {}, 0)


def test_no_operations_leave_the_tuple_as_it_is() -> None:
    assert update(ROW) == ROW


# ---- upsert --------------------------------------------------------------------------------------------


def test_upsert_skips_operations_that_do_not_suit_the_tuple() -> None:
    row, skipped = upsert(ROW, ["+", 1, 1], ["+", 2, 1], ["=", -9, 1], [":", 2, 0, 0, "x"], ["=", 3, "end"])
    assert row == [1, "abc", 11, "end"]
    assert skipped == [Er.UPDATE_ARG_TYPE, Er.NO_SUCH_FIELD_NO, Er.UPDATE_ARG_TYPE]


def test_upsert_skips_an_overflow_and_keeps_what_was_before() -> None:
    assert upsert([0, 2**64 - 2], ["+", 1, 1], ["+", 1, 1], ["-", 1, 5]) == (
        [0, 2**64 - 6],
        [Er.UPDATE_INTEGER_OVERFLOW],
    )


def test_upsert_without_operations_is_nothing() -> None:
    assert upsert(ROW) == (ROW, [])


def test_check_ops_looks_at_names_and_numbers() -> None:
    check_ops(pack([["=", "name", 1], ["+", 100, 1]]), {"name": 1}, 0)
    with pytest.raises(BoxError) as caught:
        check_ops(pack([["=", "nope", 1]]), {"name": 1}, 0)
    assert caught.value.code == Er.NO_SUCH_FIELD_NAME


def test_keeps_key_looks_at_the_primary_key_alone() -> None:
    primary = KeyDef([KeyPart(0, T.NUMBER), KeyPart(1, T.STRING)])
    old = pack([1, "a", "x"])
    assert keeps_key(primary, old, pack([1.0, "a", "y", 5]))
    assert not keeps_key(primary, old, pack([1, "b", "x"]))
    assert not keeps_key(primary, old, pack([2, "a", "x"]))
