"""Stretches of an index: out of filters and options, compared with tuples, cut where a page leaves them.

The order is the server's. Where a string has a collation, or a part lies inside a field, this side does not know it:
then nothing is pushed down and nothing is split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyspark.sql import datasource as ds
from pyspark.sql import types as spark

from headwater.kernels import KeyDef, KeyPart
from headwater.kernels.packplan import RANGES
from headwater.pipeline.dictionary import IndexFacts, SpaceFacts
from headwater.pipeline.errors import OptionError
from headwater.typing import FieldType, IteratorType
from headwater.wire.msgpack import pack

__all__ = ["Cutter", "KeyRange", "Narrower", "Order", "option_range"]

_POINTS_MAX = 1000
"""So many values of one IN are asked for one by one; of more it is the stretch between the least and the greatest."""
_INTEGERS = frozenset(("unsigned", "integer", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"))


@dataclass(frozen=True, slots=True)
class KeyRange:
    """From a key to a key; keys may name the first parts only, and None is no bound."""

    begin: tuple[Any, ...] | None = None
    end: tuple[Any, ...] | None = None
    with_begin: bool = True
    with_end: bool = True
    """Are tuples with that very key (or beginning of a key) in it?"""

    @property
    def is_point(self) -> bool:
        return self.begin is not None and self.begin == self.end and self.with_begin and self.with_end

    @property
    def first_iterator(self) -> IteratorType:
        """How its first page is asked for."""
        if self.begin is None:
            return IteratorType.ALL
        if self.is_point:
            return IteratorType.EQ
        return IteratorType.GE if self.with_begin else IteratorType.GT

    @property
    def first_key(self) -> bytes:
        return pack(list(self.begin or ()))


@dataclass(frozen=True)
class Order:
    """What this side knows of an index. Picklable."""

    space: SpaceFacts
    index: IndexFacts
    parts: tuple[tuple[int, int, bool], ...] = field(init=False)
    """(field, FieldType, nullable)."""

    def __post_init__(self) -> None:
        fields = self.space.fields
        found = tuple(
            (
                part.field,
                int(FieldType.__members__.get(part.type.upper(), FieldType.SCALAR)),
                self.index.id != 0 and (part.field >= len(fields) or fields[part.field].nullable),
            )
            for part in self.index.parts
        )
        object.__setattr__(self, "parts", found)

    @property
    def is_tree(self) -> bool:
        return self.index.type == "tree"

    @property
    def is_plain(self) -> bool:
        """Are keys fields as they stand?"""
        return self.is_tree and all(part.path is None for part in self.index.parts)

    @property
    def is_known(self) -> bool:
        """Can this side compare keys?"""
        return self.is_plain and all(not part.collation for part in self.index.parts)

    @property
    def is_total(self) -> bool:
        """Does a key say which tuple it is?"""
        return self.is_plain and self.index.unique and not any(nullable for _, _, nullable in self.parts)

    def typed(self, range: KeyRange) -> KeyRange:
        """With keys out of JSON as the parts want them."""
        return replace(range, begin=self._typed(range.begin), end=self._typed(range.end))

    def _typed(self, key: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if key is None:
            return None
        if len(key) > len(self.parts):
            raise OptionError(
                f"The index '{self.index.name}' has {len(self.parts)} parts; a key of {len(key)} is given."
            )
        return tuple(_out_of_json(part.type, value) for part, value in zip(self.index.parts, key, strict=False))

    def key_def(self) -> KeyDef:
        return KeyDef([KeyPart(number, kind, nullable) for number, kind, nullable in self.parts])


class Cutter:
    """Finds where a page of tuples leaves a range."""

    def __init__(self, order: Order, range: KeyRange) -> None:
        self._key_def = order.key_def()
        self._end = None if range.end is None else pack(list(range.end))
        self._last = 0 if range.with_end else -1

    def inside(self, count: int, tuple_at: Callable[[int], bytes]) -> int:
        """How many of the first tuples of an ordered page are in the range."""
        if self._end is None or not count or self._is_inside(tuple_at(count - 1)):
            return count
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if self._is_inside(tuple_at(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_inside(self, packed: bytes) -> bool:
        assert self._end is not None
        return self._key_def.compare_with_key(packed, self._end) <= self._last


# ---- options --------------------------------------------------------------------------------------


def option_range(begin: object, end: object) -> KeyRange:
    """`keyFrom` and `keyTo`: from the first on, up to but without the second; each a value or a list of parts."""
    return KeyRange(_as_key("keyFrom", begin), _as_key("keyTo", end), with_end=False)


def _as_key(option: str, value: object) -> tuple[Any, ...] | None:
    if value is None:
        return None
    parts = tuple(value) if isinstance(value, list) else (value,)
    if not parts or not all(isinstance(part, str | int | float | bool) for part in parts):
        raise OptionError(
            f"The option '{option}' should be a value of the key in JSON, or a list of its parts: [7, \"a\"]."
        )
    return parts


def _out_of_json(type: str, value: Any) -> Any:
    """JSON has no uuids, no decimals, and writes 1.0 as 1."""
    try:
        if type == "uuid":
            return UUID(str(value))
        if type == "decimal":
            return Decimal(str(value))
        return float(value) if type in ("double", "float64") else value
    except (ArithmeticError, TypeError, ValueError):
        raise OptionError(f"'{value}' is no {type}, which this part of the key should be.") from None


# ---- filters --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bounds:
    """What filters say of one column."""

    values: list[Any] | None = None
    """It is one of these."""
    low: Any = None
    with_low: bool = True
    high: Any = None
    with_high: bool = True


class Narrower:
    """Filters of a query, as ranges of an index. Spark applies the filters again, so a range may be too wide, but never
    too narrow: what is not understood is left out."""

    def __init__(self, order: Order, schema: spark.StructType) -> None:
        self._order = order
        self._types = {column.name: column.dataType for column in schema}
        self._bounds: dict[str, _Bounds] = {}

    def push(self, each: ds.Filter) -> None:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        if len(path) != 1 or not self._order.is_known:
            return
        (name,) = path
        if isinstance(each, ds.EqualTo | ds.EqualNullSafe):
            self._one_of(name, [each.value])
        elif isinstance(each, ds.In):
            self._one_of(name, list(each.value))
        elif isinstance(each, ds.GreaterThan | ds.GreaterThanOrEqual):
            self._above(name, each.value, with_it=isinstance(each, ds.GreaterThanOrEqual))
        elif isinstance(each, ds.LessThan | ds.LessThanOrEqual):
            self._below(name, each.value, with_it=isinstance(each, ds.LessThanOrEqual))
        elif isinstance(each, ds.StringStartsWith) and each.value:
            self._above(name, each.value, with_it=True)

    def ranges(self, within: KeyRange) -> list[KeyRange]:
        """None of them lies outside of `within`, which is what options say; if both speak, the option does."""
        if within != option_range(None, None):
            return [within]
        names = self._part_names()
        prefix: list[Any] = []
        for depth, name in enumerate(names):
            bounds = self._bounds.get(name)
            if bounds is None:
                break
            if bounds.values is not None:
                if len(bounds.values) == 1:
                    prefix += bounds.values
                    continue
                return self._many(prefix, bounds.values, depth)
            return [self._stretch(prefix, bounds)]
        return [KeyRange(tuple(prefix), tuple(prefix))] if prefix else [KeyRange()]

    # ---- bounds

    def _one_of(self, name: str, values: list[Any]) -> None:
        found = [key for value in values if (key := self._key(name, value, exact=True)) is not None]
        if len(found) == len(values) and found:
            self._bounds.setdefault(name, _Bounds()).values = found

    def _above(self, name: str, value: Any, *, with_it: bool) -> None:
        key = self._key(name, value, exact=False)
        bounds = self._bounds.setdefault(name, _Bounds())
        if key is not None and (bounds.low is None or key > bounds.low or (key == bounds.low and not with_it)):
            bounds.low, bounds.with_low = key, with_it

    def _below(self, name: str, value: Any, *, with_it: bool) -> None:
        key = self._key(name, value, exact=False)
        bounds = self._bounds.setdefault(name, _Bounds())
        if key is not None and (bounds.high is None or key < bounds.high or (key == bounds.high and not with_it)):
            bounds.high, bounds.with_high = key, with_it

    def _part_names(self) -> list[str]:
        fields = self._order.space.fields
        return [fields[number].name if number < len(fields) else "" for number, _, _ in self._order.parts]

    def _key(self, name: str, value: Any, *, exact: bool) -> Any:
        """The value as a part of a key; None if the order of the column is not that of the index."""
        names = self._part_names()
        if name not in names or name not in self._types:
            return None
        part = self._order.index.parts[names.index(name)]
        return _key_value(part.type, self._types[name], value, exact=exact)

    # ---- ranges

    def _many(self, prefix: Sequence[Any], values: list[Any], depth: int) -> list[KeyRange]:
        keys = sorted({(*prefix, value) for value in values})
        if len(keys) <= _POINTS_MAX:
            return [KeyRange(key, key) for key in keys]
        return [KeyRange(keys[0], keys[-1])]

    @staticmethod
    def _stretch(prefix: Sequence[Any], bounds: _Bounds) -> KeyRange:
        low, high = bounds.low, bounds.high
        begin = (*prefix, low) if low is not None else tuple(prefix) or None
        end = (*prefix, high) if high is not None else tuple(prefix) or None
        return KeyRange(
            begin,
            end,
            with_begin=bounds.with_low if low is not None else True,
            with_end=bounds.with_high if high is not None else True,
        )


def _key_value(field_type: str, column: spark.DataType, value: Any, *, exact: bool) -> Any:
    """Only where Spark and the server order such values alike; `exact`: equality is enough."""
    if field_type in _INTEGERS and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _integer(field_type, value)
    if field_type == "string" and isinstance(value, str) and isinstance(column, spark.StringType):
        return value
    if field_type == "boolean" and isinstance(value, bool):
        return value
    if field_type == "varbinary" and isinstance(value, bytes | bytearray):
        return bytes(value)
    if field_type in ("double", "float64") and isinstance(value, float) and value == value:
        return value
    if field_type == "uuid" and exact and isinstance(value, str):
        try:
            return UUID(value) if len(value) == len(str(UUID(int=0))) else None
        except ValueError:
            return None
    return None


def _integer(field_type: str, value: int | Decimal) -> int | None:
    if value != int(value):
        return None
    number = int(value)
    low, high = RANGES[FieldType[field_type.upper()]]
    return number if low <= number <= high else None
