"""Primary keys as bytes: equal bytes for keys that Tarantool finds equal.

Where a key consists of integers, strings without collation, booleans, varbinaries and uuids, Spark's variant encoding
is such a form: the kernel makes it for all rows at once, whatever the widths in which a client wrote its integers.
Where equal values may look different (numbers of several kinds, decimals, collated strings, parts inside a field),
each key is brought into a form of its own, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.kernels.columns import Columns, Kind, Source, Utf8
from headwater.pipeline.dictionary import IndexFacts, SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake.bodies import as_rows, part
from headwater.pipeline.types import ext_text
from headwater.store.collation import SortKey
from headwater.store.update_path import Lexer, TokenKind
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import Datetime, pack, unpack

_PLAIN_INTEGERS = frozenset(
    ("unsigned", "integer", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
)
PLAIN = _PLAIN_INTEGERS | {"string", "boolean", "varbinary", "uuid"}
_BY_KEY = (int(Type.UPDATE), int(Type.DELETE))
"""UPDATE and DELETE name their row by its key alone."""


@dataclass(frozen=True)
class KeyPlan:
    """How the keys of one space are made, under one definition of its primary index."""

    space_id: int
    name: str
    parts: tuple[tuple[int, str, str | None, SortKey | None], ...]
    """Field, type, path, and the order of a collation."""

    @property
    def is_plain(self) -> bool:
        return all(type in PLAIN and path is None and order is None for _, type, path, order in self.parts)

    @property
    def hint(self) -> pa.DataType | None:
        """Type of the first part as a value by which files can be told apart; None if it has no such order."""
        if not self.is_plain:
            return None
        type = self.parts[0][1]
        return pa.int64() if type in _PLAIN_INTEGERS else None

    def keys(self, types: pa.Array, bodies: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The key of each row as binary, and the hint (int64, null where there is none)."""
        if self.is_plain:
            return self._fast(types, bodies)
        slow = [self._slow(kind, body) for kind, body in zip(types.to_pylist(), bodies.to_pylist(), strict=True)]
        return pa.array(slow, pa.binary()), pa.nulls(len(bodies), pa.int64())

    def _fast(self, types: pa.Array, bodies: pa.Array) -> tuple[pa.Array, pa.Array]:
        rows = as_rows(types, bodies)
        plan = [(int(Source.KEY), int(Kind.VARIANT), 1, 0)]
        if self.hint is not None:
            plan.append((int(Source.FIELD), int(Kind.INT64), 0, 0))
        columns = Columns(plan, {}, ext_text, len(bodies) + 1, 1 << 31, int(Utf8.BINARY), False, False)
        columns.set_spaces({self.space_id: self.name}, {self.space_id: [field for field, *_ in self.parts]}, None)
        if self.hint is not None:
            first = self.parts[0][0]
            columns.set_fields([-1] * first + [1], [""] * (first + 1))
        end = columns.decode(rows, 0)
        count, taken = columns.take()
        if end != len(rows) or count != len(bodies) or taken[0][0]:
            raise PipelineError(f"Rows of space '{self.name}' in the change log have no key that can be read.")
        offsets, values = taken[0][2][:2]
        keys = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])
        if self.hint is None:
            return keys, pa.nulls(count, pa.int64())
        nulls, valid, buffers = taken[1]
        bitmap = None if valid is None else pa.py_buffer(valid)
        return keys, pa.Array.from_buffers(pa.int64(), count, [bitmap, pa.py_buffer(buffers[0])], nulls)

    def _slow(self, kind: int, body: bytes) -> bytes:
        if kind in _BY_KEY:
            values = unpack(part(body, Key.KEY) or b"\x90")
        else:
            row = unpack(part(body, Key.TUPLE) or b"\x90")
            values = [_inside(row, field, path) for field, _, path, _ in self.parts]
        if len(values) != len(self.parts):
            raise PipelineError(f"A row of space '{self.name}' in the change log has a key of {len(values)} parts.")
        return pack([canonical(value, order) for value, (*_, order) in zip(values, self.parts, strict=True)])

    def of_tuple(self, tuple: bytes) -> bytes:
        """One key, by the way that `keys` takes."""
        if not self.is_plain:
            row = unpack(tuple)
            return pack([canonical(_inside(row, field, path), order) for field, _, path, order in self.parts])
        body = b"\x82" + pack({int(Key.SPACE_ID): self.space_id, int(Key.TUPLE): 0})[1:-1] + tuple
        found: bytes = self._fast(pa.array([2], pa.int32()), pa.array([body], pa.binary()))[0][0].as_py()
        return found


def key_plan(space: SpaceFacts, orders: Mapping[int, SortKey | None]) -> KeyPlan | None:
    """None for a space without primary key: it has no rows. `orders` are the collations that its parts name."""
    primary = primary_of(space)
    if primary is None:
        return None
    parts = tuple((each.field, each.type, each.path, orders.get(each.collation or 0)) for each in primary.parts)
    return KeyPlan(space.id, space.name, parts)


def primary_of(space: SpaceFacts) -> IndexFacts | None:
    return next((index for index in space.indexes if index.id == 0 and index.parts), None)


def canonical(value: Any, order: SortKey | None = None) -> Any:
    """Equal for values that are equal as parts of a key (tuple_compare.cc, mp_compare_scalar)."""
    if isinstance(value, bool) or value is None:
        return ["b", value]
    if isinstance(value, int | float | Decimal):
        return ["n", _number(value)]
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        return ["s", data if order is None else order(data)]
    if isinstance(value, Datetime):
        return ["t", value.seconds, value.nsec]
    return ["x", value]


def _number(value: float | Decimal) -> str:
    """A float that is not whole equals the shortest decimal that reads back as it (kernels: mp_compare)."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return repr(value)
        value = int(value) if value.is_integer() else Decimal(repr(float(value)))
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return str(int(value))
        return str(value.normalize())
    return str(value)


def _inside(row: Sequence[Any], field: int, path: str | None) -> Any:
    value: Any = row[field] if field < len(row) else None
    if path is None:
        return value
    lexer = Lexer(path.encode())
    while not lexer.is_eof:
        token = lexer.next_token()
        if token.kind == TokenKind.NUM and isinstance(value, list):
            value = value[token.num] if token.num < len(value) else None
        elif token.kind == TokenKind.STR and isinstance(value, Mapping):
            value = value.get(token.key.decode("utf-8", "surrogateescape"))
        else:
            return None
    return value


def spread(hints: pa.Array) -> tuple[int, int] | None:
    """Least and greatest hint; None if one of them is unknown."""
    if not len(hints) or hints.null_count:
        return None
    found = pc.min_max(hints).as_py()
    return found["min"], found["max"]
