"""What a tuple of a space must look like: `_space.format` and the parts of all indexes merged (tuple_format.c).

The kernel checks tuples by the merged fields (`TupleFormat`); the rules by which they are merged, and by which one
format takes in the tuples of another without a look at them, are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.errors import Er, er
from headwater.kernels import TupleFormat
from headwater.store.definitions import FieldDef, PartDef
from headwater.store.fields import contains, type_name
from headwater.typing import FieldType


@dataclass(slots=True)
class Field:
    """One merged field."""

    type: FieldType = FieldType.ANY
    action: str = "none"
    """nullable_action: 'none' says that nil is welcome and the field may be missing."""
    is_key_part: bool = False
    default: bytes | None = None

    @property
    def nullable(self) -> bool:
        return self.action == "none"


@dataclass(frozen=True, slots=True)
class Format:
    """All fields that the format or an index speaks of, and how many fields a tuple must have (0: any number)."""

    fields: tuple[Field, ...]
    exact_field_count: int
    names: tuple[str, ...]

    @property
    def min_field_count(self) -> int:
        """A tuple has at least so many fields (tuple_format_min_field_count)."""
        return max((number + 1 for number, field in enumerate(self.fields) if not field.nullable), default=0)

    def kernel(self) -> TupleFormat:
        """A nil is let pass where it is replaced by a default (tuple_field_validate, allow_null)."""
        fields = [(int(field.type), field.nullable or field.default is not None) for field in self.fields]
        return TupleFormat(fields, self.exact_field_count)

    def path(self, field: int) -> str:
        return field_path(field, self.names)

    def can_store(self, other: Format) -> bool:
        """Does every tuple of `other` fit, so that none must be looked at (tuple_format1_can_store_format2_tuples)?"""
        if self.exact_field_count != other.exact_field_count:
            return False
        for number, field in enumerate(self.fields):
            if number >= len(other.fields):
                if field.type is FieldType.ANY and field.nullable:
                    continue
                return False
            old = other.fields[number]
            if not contains(field.type, old.type) or (old.nullable and not field.nullable):
                return False
        return True


def field_path(field: int, names: Sequence[str]) -> str:
    """A field as errors name it: `2 (age)`, or `2` where it has no name (tuple_field_path)."""
    return f"{field + 1} ({names[field]})" if field < len(names) else str(field + 1)


def merge(fields: Sequence[FieldDef], keys: Iterable[Sequence[PartDef]], exact_field_count: int) -> Format:
    """Format and keys in one, refused where they contradict each other (tuple_format_create)."""
    names = tuple(field.name for field in fields)
    for number, name in enumerate(names):
        if name in names[:number]:
            raise er(Er.SPACE_FIELD_IS_DUPLICATE, name)
    merged = [_from_format(field, number, names) for number, field in enumerate(fields)]
    for parts in keys:
        for part in parts:
            while len(merged) <= part.field:
                merged.append(Field())
            _use_part(merged[part.field], part, len(fields), names)
    return Format(tuple(merged), exact_field_count, names)


def _from_format(field: FieldDef, number: int, names: Sequence[str]) -> Field:
    if field.default is not None:
        got = _kind_unfit(field.type, field.default)
        if got is not None:
            raise er(Er.DEFAULT_VALUE_TYPE, field_path(number, names), type_name(field.type), got)
    return Field(field.type, field.action, default=field.default)


def _kind_unfit(type: FieldType, value: bytes) -> str | None:
    """The kind of a value that a field of this type cannot hold, else None."""
    from headwater.kernels import FormatViolation

    try:
        TupleFormat([(int(type), False)]).check(b"\x91" + value)
    except FormatViolation as error:
        return str(error.got)
    return None


def _use_part(field: Field, part: PartDef, field_count: int, names: Sequence[str]) -> None:
    """tuple_format_use_key_part: the stricter of two actions and of two types, if they go together at all."""
    if part.field >= field_count and not field.is_key_part:
        field.action = part.action
    if field.action == "default":
        if part.action != "none":
            field.action = part.action
    elif part.action == "default":
        if field.action == "none":
            field.action = part.action
    elif field.action != part.action:
        raise er(Er.ACTION_MISMATCH, field_path(part.field, names), field.action, part.action)
    if contains(field.type, part.type):
        field.type = part.type
    elif not contains(part.type, field.type):
        code = Er.INDEX_PART_TYPE_MISMATCH if field.is_key_part else Er.FORMAT_MISMATCH_INDEX_PART
        raise er(code, field_path(part.field, names), type_name(field.type), type_name(part.type))
    field.is_key_part = True


def apply_defaults(format: Format, tuple: bytes, ends: Sequence[int]) -> bytes:
    """The tuple with defaults in place of nil and missing fields (tuple_format_apply_defaults). `ends` as
    mp_array_fields gives them."""
    count = max((number + 1 for number, field in enumerate(format.fields) if field.default is not None), default=0)
    given = len(ends) - 1
    values: list[bytes] = []
    changed = False
    for number in range(count):
        value = tuple[ends[number] : ends[number + 1]] if number < given else b"\xc0"
        default = format.fields[number].default
        if value == b"\xc0" and default is not None:
            value, changed = default, True
        values.append(value)
    if not changed:
        return tuple
    rest = tuple[ends[count] : ends[-1]] if given > count else b""
    return array_header(max(count, given)) + b"".join(values) + rest


def array_header(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")
