"""Arrow → tuples and requests, by columns (`kernels.columns.pack_tuples`), no row in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.kernels.columns import pack_requests, pack_tuples
from headwater.kernels.packplan import Form, PackColumn, PackError
from headwater.pipeline.errors import OptionError, ValueUnfit
from headwater.typing import FieldType

__all__ = ["Requests", "Tuples", "field_kind", "form_of", "pack_column", "tuples_of"]

_FORMS: Mapping[int, Form] = {
    pa.types.lib.Type_NA: Form.NULL,
    pa.types.lib.Type_BOOL: Form.BOOL,
    pa.types.lib.Type_INT8: Form.INT8,
    pa.types.lib.Type_INT16: Form.INT16,
    pa.types.lib.Type_INT32: Form.INT32,
    pa.types.lib.Type_INT64: Form.INT64,
    pa.types.lib.Type_UINT8: Form.UINT8,
    pa.types.lib.Type_UINT16: Form.UINT16,
    pa.types.lib.Type_UINT32: Form.UINT32,
    pa.types.lib.Type_UINT64: Form.UINT64,
    pa.types.lib.Type_FLOAT: Form.FLOAT,
    pa.types.lib.Type_DOUBLE: Form.DOUBLE,
    pa.types.lib.Type_DECIMAL128: Form.DECIMAL,
    pa.types.lib.Type_TIMESTAMP: Form.TIMESTAMP,
    pa.types.lib.Type_DATE32: Form.DATE,
    pa.types.lib.Type_STRING: Form.STRING,
    pa.types.lib.Type_LARGE_STRING: Form.LARGE_STRING,
    pa.types.lib.Type_BINARY: Form.BINARY,
    pa.types.lib.Type_LARGE_BINARY: Form.LARGE_BINARY,
    pa.types.lib.Type_FIXED_SIZE_BINARY: Form.FIXED_BINARY,
    pa.types.lib.Type_LIST: Form.LIST,
    pa.types.lib.Type_LARGE_LIST: Form.LARGE_LIST,
    pa.types.lib.Type_MAP: Form.MAP,
    pa.types.lib.Type_STRUCT: Form.STRUCT,
}
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_SHOWN_MAX = 60
"""Characters of a value in an error."""


def field_kind(type_name: str) -> FieldType:
    """Of a field of this type; `any` for types that only the server knows."""
    if type_name.startswith("decimal"):
        return FieldType.DECIMAL
    return FieldType.__members__.get(type_name.upper(), FieldType.ANY)


def is_variant(type: pa.DataType) -> bool:
    """Spark marks the second half of a variant."""
    if not pa.types.is_struct(type) or type.num_fields != 2:
        return False
    second = type.field(1)
    return second.name == "metadata" and (second.metadata or {}).get(b"variant") == b"true"


def form_of(type: pa.DataType) -> tuple[Form, int]:
    """What the buffers of such an array hold, and the parameter of the form. ValueError for a type that has none."""
    form = Form.VARIANT if is_variant(type) else _FORMS.get(type.id)
    if form is None:
        raise ValueError(f"Arrow's {type} cannot be written")
    if form is Form.DECIMAL:
        return form, type.scale
    if form is Form.TIMESTAMP:
        return form, _PER_SECOND[type.unit]
    return form, type.byte_width if form is Form.FIXED_BINARY else 0


def pack_column(name: str, kind: FieldType, array: pa.Array) -> PackColumn:
    """An array and its children for the kernel, without a copy."""
    form, a = form_of(array.type)
    buffers = array.buffers()
    own = buffers[1 : array.type.num_buffers] if form not in (Form.NULL, Form.STRUCT, Form.VARIANT) else []
    return PackColumn(
        name, kind, form, a, len(array), array.offset, buffers[0] if buffers else None, own, _children(form, array)
    )


def _children(form: Form, array: pa.Array) -> list[PackColumn]:
    """Of lists and maps whole, as their offsets count; of structs as far as the struct goes."""
    if form in (Form.LIST, Form.LARGE_LIST):
        return [pack_column("", FieldType.ANY, array.values)]
    if form is Form.MAP:
        return [pack_column("", FieldType.ANY, half) for half in (array.keys, array.items)]
    if form in (Form.STRUCT, Form.VARIANT):
        fields = (array.type.field(number).name for number in range(array.type.num_fields))
        return [pack_column(name, FieldType.ANY, array.field(number)) for number, name in enumerate(fields)]
    return []


@dataclass(frozen=True, slots=True)
class Requests:
    """What becomes of tuples: the same for all tasks of a query."""

    space_id: int
    type: int
    """Of the request, where the rows do not say it."""
    key_fields: tuple[int, ...]
    """Of the tuples as they are packed."""
    changes: tuple[tuple[str, int], ...] = ()
    """Operations of UPSERT: (operator, field of the tuple that is changed by its own value)."""
    ops_field: int = -1
    """Field of the tuple that holds the operations of UPSERT; it is the last one and does not go with the tuple."""


@dataclass(slots=True)
class Tuples:
    """Tuples of one Arrow batch, one after another."""

    offsets: bytes
    data: bytes
    count: int
    first_row: int
    """Number of the first in its partition."""
    types: bytes | None = None
    """Type of the request of each, if the rows say it."""

    def border(self, number: int) -> int:
        """Where tuple `number` begins, or the last one ends."""
        return int.from_bytes(self.offsets[4 * number : 4 * number + 4], "little")

    def bytes_of(self, first: int, count: int) -> memoryview:
        return memoryview(self.data)[self.border(first) : self.border(first + count)]

    def size(self, first: int, count: int) -> int:
        return self.border(first + count) - self.border(first)

    def fitting(self, first: int, rows: int, size: int) -> int:
        """How many tuples from `first` on are at most `rows` and `size` bytes; one at least."""
        low, high = 1, min(rows, self.count - first)
        while low < high:
            middle = (low + high + 1) // 2
            if self.size(first, middle) <= size:
                low = middle
            else:
                high = middle - 1
        return low

    def requests(self, made: Requests, first: int, count: int, sync: int, stream_id: int) -> bytes:
        types = None if self.types is None else memoryview(self.types)[first : first + count]
        return pack_requests(
            self.offsets,
            self.data,
            first,
            count,
            made.type,
            made.space_id,
            sync,
            stream_id,
            key_fields=made.key_fields,
            changes=made.changes,
            types=types,
            **({"ops_field": made.ops_field} if made.ops_field >= 0 else {}),
        )


def tuples_of(
    columns: Sequence[PackColumn],
    rows: int,
    first_row: int,
    sources: Sequence[tuple[str, pa.Array] | None],
    partition: int,
    *,
    tagged: bool = False,
) -> Tuples:
    """`sources`: name and values of the column that each is made of, for the words of an error."""
    try:
        offsets, data = pack_tuples(columns, 0, rows, tagged)
    except PackError as error:
        raise _unfit(error, first_row, sources, partition) from None
    return Tuples(offsets, data, rows, first_row)


def _unfit(
    error: PackError, first_row: int, sources: Sequence[tuple[str, pa.Array] | None], partition: int
) -> ValueUnfit | OptionError:
    if error.row < 0:
        return OptionError(f"Rows cannot be written: {error.reason}.")
    where = f"Row {first_row + error.row} of partition {partition}"
    source = sources[error.column] if 0 <= error.column < len(sources) else None
    if source is None:
        return ValueUnfit(f"{where}: {error.reason}.")
    name, array = source
    return ValueUnfit(f"{where}, column '{name}', {error.reason}. The value is {_shown(array, error.row)}.")


def _shown(array: pa.Array, row: int) -> str:
    try:
        text = repr(array[row].as_py())
    except (UnicodeDecodeError, ValueError):
        text = repr(array.cast(pa.binary())[row].as_py()) if pa.types.is_string(array.type) else "not printable"
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
