"""Formats: which values a field type admits (field_def.c), and which fault is named first."""

from __future__ import annotations

from decimal import Decimal
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from tests.kernels.packing import ERROR, Raw, datetime_ext, ext, float32, pack

from headwater.errors import MsgPackError
from headwater.typing import FieldType as T

SAMPLES: dict[str, Any] = {
    "nil": None, "bool": True, "uint": 5, "int": -5, "int as uint": Raw(b"\xd0\x05"), "float": float32(1.5),
    "double": 1.5, "str": "a", "bin": b"a", "array": [1], "map": {1: 2}, "decimal": Decimal("1.5"), "uuid": UUID(int=1),
    "datetime": datetime_ext(1), "interval": ext(6, b"\x00"), "error": ext(3, ERROR),
    "unknown": ext(100, b"a"),
}  # fmt: skip

INTEGERS = {"uint", "int", "int as uint"}
NUMBERS = INTEGERS | {"float", "double"}
ADMITTED: dict[T, set[str]] = {
    T.ANY: set(SAMPLES),
    T.UNSIGNED: {"uint"},
    T.STRING: {"str"},
    T.NUMBER: NUMBERS | {"decimal"},
    T.DOUBLE: NUMBERS,
    T.INTEGER: INTEGERS,
    T.BOOLEAN: {"bool"},
    T.VARBINARY: {"bin"},
    T.SCALAR: NUMBERS | {"bool", "str", "bin", "decimal", "uuid", "datetime"},
    T.DECIMAL: {"decimal"},
    T.UUID: {"uuid"},
    T.DATETIME: {"datetime"},
    T.INTERVAL: {"interval"},
    T.ARRAY: {"array"},
    T.MAP: {"map"},
    T.INT8: INTEGERS, T.INT16: INTEGERS, T.INT32: INTEGERS, T.INT64: INTEGERS,
    T.UINT8: {"uint"}, T.UINT16: {"uint"}, T.UINT32: {"uint"}, T.UINT64: {"uint"},
    T.FLOAT32: {"float"},
    T.FLOAT64: {"double"},
}  # fmt: skip

WORDS = {
    "nil": "nil", "bool": "boolean", "uint": "unsigned", "int": "integer", "int as uint": "integer", "float": "float",
    "double": "double", "str": "string", "bin": "blob", "array": "array", "map": "map",
}  # fmt: skip
"""field_def.c, mp_type_strs; everything else is an extension."""


def violation(k: ModuleType, shape: Any, row: bytes) -> tuple[str, int, int, Any]:
    with pytest.raises(k.FormatViolation) as caught:
        shape.check(row)
    error = caught.value
    return error.kind, error.field, error.expected, error.got


def test_the_table_names_every_field_type() -> None:
    assert set(ADMITTED) == set(T)


@pytest.mark.parametrize("type", list(T), ids=lambda kind: kind.name.lower())
def test_every_type_admits_its_values_and_names_the_others(k: ModuleType, type: T) -> None:
    strict, nullable = k.TupleFormat([(type, False)]), k.TupleFormat([(type, True)])
    for name, value in SAMPLES.items():
        row = pack([value])
        if name in ADMITTED[type]:
            strict.check(row)
        else:
            assert violation(k, strict, row) == ("type", 0, type, WORDS.get(name, "extension")), name
        if name in ADMITTED[type] or name == "nil":
            nullable.check(row)
        else:
            assert violation(k, nullable, row)[0] == "type", name


def test_any_does_not_admit_extensions_below_one(k: ModuleType) -> None:
    """field_def.h, field_mp_type_is_compatible: type 0 is no extension of Tarantool's, negative ones are nobody's."""
    shape = k.TupleFormat([(T.ANY, False)])
    for kind in (0, -1, -128):
        assert violation(k, shape, pack([ext(kind, b"a")])) == ("type", 0, T.ANY, "extension")


RANGES = {
    T.INT8: (-(2**7), 2**7 - 1), T.INT16: (-(2**15), 2**15 - 1), T.INT32: (-(2**31), 2**31 - 1),
    T.INT64: (-(2**63), 2**63 - 1),
    T.UINT8: (0, 2**8 - 1), T.UINT16: (0, 2**16 - 1), T.UINT32: (0, 2**32 - 1), T.UINT64: (0, 2**64 - 1),
}  # fmt: skip


@pytest.mark.parametrize("type", list(RANGES), ids=lambda kind: kind.name.lower())
def test_sized_integers_keep_their_range(k: ModuleType, type: T) -> None:
    low, high = RANGES[type]
    shape = k.TupleFormat([(type, False)])
    shape.check(pack([low]))
    shape.check(pack([high]))
    if high < 2**64 - 1:
        kind, field, expected, _ = violation(k, shape, pack([high + 1]))
        assert (kind, field, expected) == ("range", 0, type)
    if -(2**63) < low < 0:
        assert violation(k, shape, pack([low - 1]))[0] == "range"


def test_count_is_checked_before_missing_and_missing_before_types(k: ModuleType) -> None:
    fields = [(T.UNSIGNED, False), (T.STRING, False), (T.UNSIGNED, False)]
    assert violation(k, k.TupleFormat(fields, 3), pack(["wrong"])) == ("count", 0, 3, 1)
    assert violation(k, k.TupleFormat(fields, 3), pack([1, "a", 2, 3])) == ("count", 0, 3, 4)
    assert violation(k, k.TupleFormat(fields), pack(["wrong"])) == ("missing", 1, T.STRING, "")
    assert violation(k, k.TupleFormat(fields), pack([1, 2, "c"])) == ("type", 1, T.STRING, "unsigned")


def test_nullable_fields_may_be_absent_at_the_end(k: ModuleType) -> None:
    shape = k.TupleFormat([(T.UNSIGNED, False), (T.STRING, True), (T.UNSIGNED, False), (T.STRING, True)])
    shape.check(pack([1, None, 2]))
    shape.check(pack([1, "a", 2, "b", "more"]))
    assert violation(k, shape, pack([1])) == ("missing", 2, T.UNSIGNED, "")


def test_fields_behind_the_format_are_free(k: ModuleType) -> None:
    k.TupleFormat([(T.UNSIGNED, False)]).check(pack([1, {}, [], ext(100, b"a")]))
    k.TupleFormat([]).check(b"\x90")


def test_a_tuple_must_be_one_whole_array(k: ModuleType) -> None:
    shape = k.TupleFormat([])
    for row in (b"", b"\x01", b"\x80", b"\x91", b"\x90\x01", b"\x91\xc1", b"\x91\x92\x01"):
        with pytest.raises(MsgPackError):
            shape.check(row)
