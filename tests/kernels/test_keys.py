"""Keys: what an index takes from a tuple, how it compares, and which keys it refuses."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.numbers import rank, scalars
from tests.kernels.packing import pack

from headwater.errors import MsgPackError
from headwater.typing import FieldType as T


def sign(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


def test_extract_copies_the_bytes_of_the_parts(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(2, T.STRING), k.KeyPart(0, T.UNSIGNED)])
    assert key_def.part_count == 2
    row = b"\x94\xcf\x00\x00\x00\x00\x00\x00\x00\x05\xc0\xd9\x02ab\x91\x01"
    assert key_def.extract(row) == b"\x92\xd9\x02ab\xcf\x00\x00\x00\x00\x00\x00\x00\x05"


def test_extract_gives_nil_for_a_missing_field(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED), k.KeyPart(5, T.STRING, True)])
    assert key_def.extract(pack([7, 8])) == b"\x92\x07\xc0"


def test_extract_ignores_the_tail(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(1, T.STRING)], [k.KeyPart(0, T.UNSIGNED)])
    assert key_def.part_count == 1
    assert key_def.extract(pack([7, "a"])) == pack(["a"])


def test_compare_goes_part_by_part_and_then_by_the_tail(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(1, T.STRING)], [k.KeyPart(0, T.UNSIGNED)])
    ascending = [pack(row) for row in ([9, "a"], [1, "b"], [2, "b"], [0, "c"])]
    for at, low in enumerate(ascending):
        assert key_def.compare(low, low) == 0
        for high in ascending[at + 1 :]:
            assert key_def.compare(low, high) == -1
            assert key_def.compare(high, low) == 1


def test_fields_outside_the_parts_do_not_matter(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED)])
    assert key_def.compare(pack([1, "a", 2]), pack([1])) == 0


def test_nil_and_missing_are_equal_and_less_than_everything(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(1, T.UNSIGNED, True)])
    assert key_def.compare(pack([1]), pack([2, None])) == 0
    assert key_def.compare(pack([1]), pack([2, 0])) == -1
    assert key_def.compare_with_key(pack([1]), pack([None])) == 0
    assert key_def.compare_with_key(pack([1, 0]), pack([None])) == 1


def test_compare_with_a_partial_key_looks_at_its_parts_alone(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED), k.KeyPart(1, T.STRING)], [k.KeyPart(2, T.UNSIGNED)])
    row = pack([5, "m", 1])
    assert key_def.compare_with_key(row, b"\x90") == 0
    assert key_def.compare_with_key(row, pack([5])) == 0
    assert key_def.compare_with_key(row, pack([4])) == 1
    assert key_def.compare_with_key(row, pack([6])) == -1
    assert key_def.compare_with_key(row, pack([5, "m"])) == 0
    assert key_def.compare_with_key(row, pack([5, "l"])) == 1
    assert key_def.compare_with_key(row, pack([5, "ma"])) == -1


def test_a_sort_key_orders_strings_and_only_strings(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.SCALAR, True, False, bytes.lower)])
    assert key_def.compare(pack(["ABC"]), pack(["abc"])) == 0
    assert key_def.compare(pack(["B"]), pack(["a"])) == 1
    assert key_def.compare(pack([b"B"]), pack([b"a"])) == -1
    assert key_def.compare(pack([None]), pack(["a"])) == -1
    assert key_def.compare_with_key(pack(["ABC"]), pack(["aBc"])) == 0


@given(rows=st.lists(st.tuples(scalars, scalars), min_size=2, max_size=2))
def test_two_parts_compare_as_pairs_do(k: ModuleType, rows: list[tuple[Any, Any]]) -> None:
    key_def = k.KeyDef([k.KeyPart(1, T.SCALAR, True), k.KeyPart(0, T.SCALAR, True)])
    a, b = rows
    expected = sign((rank(a[1]), rank(a[0])), (rank(b[1]), rank(b[0])))
    assert key_def.compare(pack(a), pack(b)) == expected
    assert key_def.compare_with_key(pack(a), pack([b[1], b[0]])) == expected


def violation(k: ModuleType, key_def: Any, key: Any, exact: bool) -> tuple[str, int, int, int]:
    with pytest.raises(k.KeyViolation) as caught:
        key_def.check_key(pack(key), exact)
    error = caught.value
    return error.kind, error.part, error.expected, error.given


def test_check_key_counts_parts(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED), k.KeyPart(1, T.STRING)])
    for key in ([], [1], [1, "a"]):
        key_def.check_key(pack(key), False)
    key_def.check_key(pack([1, "a"]), True)
    assert violation(k, key_def, [1, "a", 2], False) == ("count", 0, 2, 3)
    assert violation(k, key_def, [1, "a", 2], True) == ("count", 0, 2, 3)
    assert violation(k, key_def, [1], True) == ("count", 0, 2, 1)
    assert violation(k, key_def, [], True) == ("count", 0, 2, 0)


def test_check_key_names_the_first_part_of_a_wrong_type(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED), k.KeyPart(1, T.STRING)])
    assert violation(k, key_def, ["a", "a"], True) == ("type", 0, T.UNSIGNED, 2)
    assert violation(k, key_def, [-1], False) == ("type", 0, T.UNSIGNED, 1)
    assert violation(k, key_def, [1, 2], False) == ("type", 1, T.STRING, 2)
    assert violation(k, key_def, [1, b"bin"], False) == ("type", 1, T.STRING, 2)


def test_check_key_of_a_sized_integer_names_the_range(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.INT8)])
    key_def.check_key(pack([-128]), True)
    key_def.check_key(pack([127]), True)
    assert violation(k, key_def, [128], True) == ("range", 0, T.INT8, 1)
    assert violation(k, key_def, [-129], False) == ("range", 0, T.INT8, 1)
    assert violation(k, key_def, [1.0], False) == ("type", 0, T.INT8, 1)


def test_nil_is_a_search_key_for_a_nullable_part_only(k: ModuleType) -> None:
    nullable = k.KeyDef([k.KeyPart(0, T.UNSIGNED, True)])
    nullable.check_key(pack([None]), False)
    assert violation(k, nullable, [None], True) == ("type", 0, T.UNSIGNED, 1)
    strict = k.KeyDef([k.KeyPart(0, T.UNSIGNED)])
    assert violation(k, strict, [None], False) == ("type", 0, T.UNSIGNED, 1)


def test_check_key_refuses_what_is_no_array(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED)])
    for key in (b"", b"\x01", b"\x80", b"\x91", b"\x91\x01\x01", b"\x91\xc1"):
        with pytest.raises(MsgPackError):
            key_def.check_key(key, False)


def test_a_key_def_refuses_tuples_that_are_no_arrays(k: ModuleType) -> None:
    key_def = k.KeyDef([k.KeyPart(0, T.UNSIGNED)])
    for row in (b"", b"\x01", b"\x91", b"\x92\x01"):
        with pytest.raises(MsgPackError):
            key_def.extract(row)
        with pytest.raises(MsgPackError):
            key_def.compare(row, b"\x91\x01")
