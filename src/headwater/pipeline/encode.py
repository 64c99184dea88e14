"""Arrow arrays as `kernels.columns.pack_tuples` takes them: no row in Python, no copy."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headwater.kernels.packplan import Form, PackColumn
from headwater.typing import FieldType

__all__ = ["field_kind", "form_of", "is_variant", "pack_column"]

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
