"""pyarrow's arrays as the kernels take them. Nothing else in this room knows pyarrow, and nothing here needs it before
it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headwater.kernels.packplan import Form, PackColumn, PackError
from headwater.typing import FieldType

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PLAIN = {
    "null": Form.NULL, "bool": Form.BOOL, "int8": Form.INT8, "int16": Form.INT16, "int32": Form.INT32,
    "int64": Form.INT64, "uint8": Form.UINT8, "uint16": Form.UINT16, "uint32": Form.UINT32, "uint64": Form.UINT64,
    "float": Form.FLOAT, "double": Form.DOUBLE, "date32[day]": Form.DATE, "string": Form.STRING,
    "large_string": Form.LARGE_STRING, "binary": Form.BINARY, "large_binary": Form.LARGE_BINARY,
}  # fmt: skip
_TO_A_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_RAW = {Form.BINARY: Form.RAW, Form.LARGE_BINARY: Form.LARGE_RAW}


def pack_column(name: str, kind: int, array: Any, raw: bool = False) -> PackColumn:
    """A `pyarrow.Array` as a column that becomes a field of type `kind` (FieldType). `raw`: its binary values are
    MessagePack already. A struct of `value` and `metadata`, both binary, is a variant. PackError for a type that has no
    form."""
    form, a = _form(name, array)
    if raw:
        if form not in _RAW:
            raise PackError(f"field {name!r}: a column of {array.type} does not hold MessagePack")
        form = _RAW[form]
    return PackColumn(
        name, kind, form, a, len(array), array.offset, array.buffers()[0] if form else None,
        _buffers(form, array), _children(form, array),
    )  # fmt: skip


def tuples_of(array: Any) -> tuple[Buffer, Buffer, int, int]:
    """(offsets, data, first, count) of a `pyarrow.BinaryArray`: tuples as the kernels take them."""
    _, offsets, data = array.buffers()
    return offsets if offsets is not None else bytes(4), data if data is not None else b"", array.offset, len(array)


def _form(name: str, array: Any) -> tuple[Form, int]:
    """And its parameter."""
    import pyarrow.types as types

    type_ = array.type
    plain = _PLAIN.get(str(type_))
    if plain is not None:
        return plain, 0
    if types.is_timestamp(type_):
        return Form.TIMESTAMP, _TO_A_SECOND[type_.unit]
    if types.is_decimal128(type_):
        return Form.DECIMAL, type_.scale
    if types.is_fixed_size_binary(type_):
        return Form.FIXED_BINARY, type_.byte_width
    if types.is_list(type_):
        return Form.LIST, 0
    if types.is_large_list(type_):
        return Form.LARGE_LIST, 0
    if types.is_map(type_):
        return Form.MAP, 0
    if types.is_struct(type_):
        return Form.VARIANT if _is_variant(type_) else Form.STRUCT, 0
    raise PackError(f"field {name!r}: a column of {type_} cannot be written: cast it first")


def _is_variant(type_: Any) -> bool:
    """As Spark hands it over: pyspark.sql.pandas.types, to_arrow_type."""
    import pyarrow.types as types

    return {field.name for field in type_} == {"value", "metadata"} and all(
        types.is_binary(field.type) or types.is_large_binary(field.type) for field in type_
    )


def _buffers(form: Form, array: Any) -> Sequence[Buffer | None]:
    if form in (Form.NULL, Form.STRUCT, Form.VARIANT):
        return ()
    buffers = array.buffers()
    if form in (Form.LIST, Form.LARGE_LIST, Form.MAP):
        return (buffers[1],)
    return tuple(buffers[1:])


def _children(form: Form, array: Any) -> Sequence[PackColumn]:
    """Those of lists as they are stored: a sliced array has offsets into all of them."""
    any_ = FieldType.ANY
    if form in (Form.LIST, Form.LARGE_LIST):
        return (pack_column("element", any_, array.values),)
    if form is Form.MAP:
        return pack_column("key", any_, array.keys), pack_column("value", any_, array.items)
    if form is Form.STRUCT:
        return [pack_column(field.name, any_, array.field(number)) for number, field in enumerate(array.type)]
    if form is Form.VARIANT:
        return pack_column("value", any_, array.field("value")), pack_column("metadata", any_, array.field("metadata"))
    return ()
