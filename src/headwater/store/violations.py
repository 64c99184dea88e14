"""What a kernel raises, worded as an error of 3.x (tuple_format.c, key_def.c, index.cc, memtx_space.c)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import BoxError, Er, er
from headwater.kernels import DuplicateKey, FormatViolation, KeyViolation, mp_array_fields
from headwater.store.fields import FIXED_RANGES, type_name
from headwater.store.format import field_path
from headwater.store.text import tuple_text
from headwater.typing import FieldType
from headwater.wire.msgpack import pack, unpack


def format_error(violation: FormatViolation, names: Sequence[str], tuple: bytes) -> BoxError:
    """A tuple that does not look as its space wants it. `names` are those of the format's fields."""
    if violation.kind == "count":
        return er(Er.EXACT_FIELD_COUNT, violation.got, violation.expected)
    path = field_path(violation.field, names)
    if violation.kind == "missing":
        return er(Er.FIELD_MISSING, path)
    kind = FieldType(violation.expected)
    if violation.kind == "range":
        low, high = FIXED_RANGES[kind]
        value = _field(tuple, violation.field)
        details = f"expected [{low}..{high}], got {unpack(value)}"
        return er(Er.FIELD_VALUE_OUT_OF_RANGE, path, type_name(kind), details, value, pack(low), pack(high))
    return er(Er.FIELD_TYPE, path, type_name(kind), violation.got)


def _field(array: bytes, number: int) -> bytes:
    ends = mp_array_fields(array)
    return array[ends[number] : ends[number + 1]]


def key_error(violation: KeyViolation, key: bytes, *, exact: bool) -> BoxError:
    """A key that does not fit the index (key_validate, exact_key_validate)."""
    if violation.kind == "count":
        code = Er.EXACT_MATCH if exact else Er.KEY_PART_COUNT
        return er(code, violation.expected, violation.given)
    kind = FieldType(violation.expected)
    if violation.kind == "range":
        low, high = FIXED_RANGES[kind]
        value = _field(key, violation.part)
        return er(Er.KEY_PART_VALUE_OUT_OF_RANGE, violation.part, type_name(kind), value, pack(low), pack(high))
    return er(Er.KEY_PART_TYPE, violation.part, type_name(kind))


def duplicate_error(duplicate: DuplicateKey, index: str, space: str) -> BoxError:
    """A unique index has another tuple with this key."""
    old, new = duplicate.old, duplicate.new
    return er(Er.TUPLE_FOUND, index, space, tuple_text(old), tuple_text(new), old, new)
