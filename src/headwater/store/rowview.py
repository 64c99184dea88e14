"""Fields of a tuple of a system space, read with the checks and the errors of tuple.h (tuple_field_u32 and kin).

The format of the space has checked most of it before. It has not while a snapshot of an old release is loaded:
then the first rows come before their format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, cast
from uuid import UUID

from headwater.errors import Er, er
from headwater.kernels import mp_array_fields, mp_next
from headwater.store.options import INT64_MAX, UINT32_MAX
from headwater.wire.mpread import KIND
from headwater.wire.msgpack import unpack

_NAMES = ("nil", "unsigned", "integer", "string", "blob", "array", "map", "boolean", "float", "double", "extension")
"""field_def.c, mp_type_strs: by msgpuck's mp_type."""


def mp_type_name(first_byte: int) -> str:
    """The name of a value's type by its first byte."""
    return _NAMES[KIND[first_byte]]


class Row:
    """A tuple and where its fields lie. Field numbers count from 0, those in errors from 1."""

    __slots__ = ("_ends", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._ends = mp_array_fields(data)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def raw(self, field: int) -> bytes:
        """The MessagePack of a field that is there."""
        return self.data[self._ends[field] : self._ends[field + 1]]

    def type(self, field: int) -> str | None:
        """The name of the field's type, None if the tuple ends before it."""
        return mp_type_name(self.data[self._ends[field]]) if field < len(self) else None

    def types(self) -> list[str]:
        return [mp_type_name(self.data[offset]) for offset in self._ends[:-1]]

    def value(self, field: int) -> object:
        return unpack(self.raw(field))

    def _typed(self, field: int, expected: str) -> object:
        got = self.type(field)
        if got is None:
            raise er(Er.NO_SUCH_FIELD_NO, field + 1)
        if got != expected:
            self._mismatch(field, expected, got)
        return self.value(field)

    def _mismatch(self, field: int, expected: str, got: str) -> NoReturn:
        raise er(Er.FIELD_TYPE, str(field + 1), expected, got)

    def u64(self, field: int) -> int:
        return cast(int, self._typed(field, "unsigned"))

    def u32(self, field: int) -> int:
        value = self.u64(field)
        if value > UINT32_MAX:
            self._mismatch(field, "uint32_t", "uint64_t")
        return value

    def i64(self, field: int) -> int:
        got = self.type(field)
        if got is None:
            raise er(Er.NO_SUCH_FIELD_NO, field)
        if got not in ("unsigned", "integer"):
            self._mismatch(field, "integer", got)
        value = cast(int, self.value(field))
        if value > INT64_MAX:
            self._mismatch(field, "integer", got)
        return value

    def boolean(self, field: int) -> bool:
        return cast(bool, self._typed(field, "boolean"))

    def string(self, field: int) -> str:
        return cast(str, self._typed(field, "string"))

    def map(self, field: int) -> Mapping[object, object]:
        return cast("Mapping[object, object]", self._typed(field, "map"))

    def array(self, field: int) -> Sequence[object]:
        return cast("Sequence[object]", self._typed(field, "array"))

    def uuid(self, field: int) -> UUID:
        """A UUID written as its 36 characters (tuple_field_uuid)."""
        text = self.string(field)
        uuid = parse_uuid(text)
        if uuid is None:
            raise er(Er.INVALID_UUID, text)
        return uuid


def parse_uuid(text: str) -> UUID | None:
    """36 characters with dashes in their places and nothing else (tt_uuid_from_string)."""
    if len(text) != 36:
        return None
    try:
        uuid = UUID(text)
    except ValueError:
        return None
    return uuid if str(uuid) == text.lower() else None


def map_slices(data: bytes) -> dict[str, bytes]:
    """The values of a map with string keys, as their own MessagePack."""
    offset = 1 if data[0] < 0xDE else 3 if data[0] == 0xDE else 5
    out: dict[str, bytes] = {}
    while offset < len(data):
        middle = mp_next(data, offset)
        end = mp_next(data, middle)
        out[str(unpack(data[offset:middle]))] = data[middle:end]
        offset = end
    return out
