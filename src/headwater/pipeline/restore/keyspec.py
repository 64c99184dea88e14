"""How a primary key orders tuples, in a form that travels to executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from headwater.errors import BoxError
from headwater.kernels import KeyDef, KeyPart, KeyViolation, TupleFormat
from headwater.pipeline.dictionary import SpaceFacts
from headwater.pipeline.restore.errors import Unfit
from headwater.store.collation import icu_sort_key, read_collation
from headwater.store.fields import type_by_name
from headwater.store.rowview import Row
from headwater.typing import FieldType

SplitPart = tuple[int, int, bool, Callable[[bytes], bytes] | None]


@dataclass(frozen=True, slots=True)
class KeySpecPart:
    field: int
    type: int
    """FieldType"""
    collation: bytes | None = None
    """The tuple of `_collation`, where the order is not bytewise."""


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A primary key."""

    parts: tuple[KeySpecPart, ...]
    is_ordered: bool
    """Is the index a tree, whose snapshots are in its order?"""

    @property
    def fields(self) -> tuple[int, ...]:
        return tuple(part.field for part in self.parts)

    def split_parts(self) -> list[SplitPart]:
        """As `Splitter.set_space` wants them."""
        return [(part.field, part.type, False, sort_key(part.collation)) for part in self.parts]

    def key_def(self) -> KeyDef:
        """Of tuples."""
        return KeyDef([KeyPart(field, kind, nullable, False, key) for field, kind, nullable, key in self.split_parts()])

    def format(self) -> TupleFormat:
        """What must be right for tuples to have an order."""
        fields = [(int(FieldType.ANY), True)] * (max(self.fields) + 1)
        for part in self.parts:
            fields[part.field] = (part.type, False)
        return TupleFormat(fields)

    def of_keys(self) -> KeyDef:
        """Of keys as arrays."""
        parts = enumerate(self.split_parts())
        return KeyDef([KeyPart(place, kind, False, False, key) for place, (_, kind, _, key) in parts])

    def order(self) -> Callable[[bytes], Any]:
        """A sort key for keys as arrays."""
        return cmp_to_key(self.of_keys().compare)

    def is_key(self, key: bytes) -> bool:
        """Has the array a value of the right type for each part?"""
        try:
            self.of_keys().check_key(key, True)
        except KeyViolation:
            return False
        return True


def sort_key(collation: bytes | None) -> Callable[[bytes], bytes] | None:
    """BoxError where a library is missing that knows the order."""
    if collation is None:
        return None
    read = read_collation(Row(collation))
    return None if read.type == "binary" else icu_sort_key(read)


def key_spec(facts: SpaceFacts, collations: Mapping[int, bytes]) -> KeySpec | None:
    """Of a space; None without a primary key. Unfit names what no order is known for."""
    primary = next((index for index in facts.indexes if index.id == 0), None)
    if primary is None:
        return None
    parts: list[KeySpecPart] = []
    for part in primary.parts:
        kind = type_by_name(part.type)
        if part.path is not None or kind is None:
            what = f"lies at the path '{part.path}'" if part.path is not None else f"has the type '{part.type}'"
            raise Unfit(f"The space '{facts.name}' cannot be built: a part of its primary key {what}.")
        collation = collations.get(part.collation) if part.collation is not None else None
        _check_collation(facts, collation)
        parts.append(KeySpecPart(part.field, int(kind), collation))
    return KeySpec(tuple(parts), primary.type == "tree")


def _check_collation(facts: SpaceFacts, collation: bytes | None) -> None:
    try:
        sort_key(collation)
    except BoxError as error:
        raise Unfit(f"The space '{facts.name}' cannot be built: {error.message}.") from None


def field_types(facts: SpaceFacts) -> Sequence[FieldType]:
    """Of all fields, for operations of UPDATE."""
    return [type_by_name(field.type) or FieldType.ANY for field in facts.fields]
