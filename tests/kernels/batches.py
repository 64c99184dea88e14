"""Rows for the tests of columns, and what `Columns.take` gives as Python values."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal
from tests.kernels.packing import Raw, array_header, datetime_ext, decimal_ext, ext, pack, pack_map

from headwater.kernels.columnplan import Kind, Source
from headwater.kernels.packplan import Form, PackColumn
from headwater.pipeline import encode
from headwater.typing import FieldType

INSERT, REPLACE, UPDATE, DELETE, UPSERT, NOP, RAFT = 2, 3, 4, 5, 9, 12, 30
NAMES = {2: "INSERT", 3: "REPLACE", 4: "UPDATE", 5: "DELETE", 9: "UPSERT", 12: "NOP", 30: "RAFT"}
SPACE = 512

ENVELOPE: Sequence[tuple[Source, Kind]] = (
    (Source.OP, Kind.STRING),
    (Source.SPACE_ID, Kind.INT32),
    (Source.SPACE, Kind.STRING),
    (Source.KEY, Kind.VARIANT),
    (Source.BEFORE, Kind.VARIANT),
    (Source.AFTER, Kind.VARIANT),
    (Source.REPLICA_ID, Kind.INT32),
    (Source.LSN, Kind.INT64),
    (Source.TSN, Kind.INT64),
    (Source.IS_COMMIT, Kind.BOOL),
    (Source.TIMESTAMP, Kind.TIMESTAMP),
    (Source.OPS, Kind.VARIANT),
    (Source.INDEX_ID, Kind.INT32),
    (Source.GROUP_ID, Kind.INT32),
    (Source.FLAGS, Kind.INT32),
    (Source.BODY, Kind.VARIANT),
    (Source.REQUEST, Kind.BINARY),
    (Source.INDEX_BASE, Kind.INT32),
)
"""Every part of a row that is no field."""

_ARROW = {
    Kind.BOOL: pa.bool_(), Kind.INT8: pa.int8(), Kind.INT16: pa.int16(), Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.TIMESTAMP: pa.int64(),
    Kind.BINARY: pa.binary(), Kind.UUID_BYTES: pa.binary(), Kind.DATETIME_PART: pa.int64(),
    Kind.INTERVAL_PART: pa.int64(),
}  # fmt: skip
"""Strings for the others."""


def texts(kind: int, contents: bytes) -> str:
    return f"<{kind} {contents.hex()}>"


def body_of(space: int, **parts: Any) -> dict[int, Any]:
    keys = {"index": 0x11, "key": 0x20, "tuple": 0x21, "ops": 0x28, "old": 0x2C, "new": 0x2D}
    return {0x10: space, **{keys[name]: value for name, value in parts.items()}}


def row(type: int, body: Mapping[int, Any] | None = None, /, lsn: int = 1, **head: Any) -> bytes:
    """A row as a file has it."""
    keys = {"replica": 2, "time": 4, "group": 7, "tsn_distance": 8, "flags": 9, "sync": 1}
    fields = {0: type, 3: lsn, **{keys[name]: value for name, value in head.items()}}
    return pack_map(fields) + (b"" if body is None else pack_map(body))


def replace(*fields: Any, space: int = SPACE, **head: Any) -> bytes:
    return row(REPLACE, body_of(space, tuple=list(fields)), **head)


def frame(data: bytes) -> bytes:
    return b"\xce" + len(data).to_bytes(4, "big") + data


def plan(*columns: Sequence[int]) -> list[tuple[int, int, int, int]]:
    return [(*column, 0, 0)[:4] for column in columns]  # type: ignore[misc]


def columns(
    c: ModuleType, *wanted: Sequence[int], row_limit: int = 1000, byte_limit: int = 1 << 20, **more: Any
) -> Any:
    """A batch; without `wanted` the envelope."""
    return c.Columns(plan(*(wanted or ENVELOPE)), NAMES, texts, row_limit, byte_limit, **more)


def typed(c: ModuleType, *kinds: Sequence[int] | int, **more: Any) -> Any:
    """A batch with a column for each field of the tuple."""
    parts = [(Source.FIELD, *(kind if isinstance(kind, Sequence) else (kind,))) for kind in kinds]
    batch = columns(c, *parts, **more)
    batch.set_fields(list(range(len(kinds))), [f"f{number}" for number in range(len(kinds))])
    return batch


def values(batch: Any, *wanted: Sequence[int]) -> list[list[Any]]:
    """What it holds, column by column; Arrow looks at every buffer."""
    rows, taken = batch.take()
    return [_column(rows, column, found) for column, found in zip(plan(*(wanted or ENVELOPE)), taken, strict=True)]


def of_fields(batch: Any, *kinds: Sequence[int] | int) -> list[tuple[Any, ...]]:
    """What a batch of `typed` holds, row by row."""
    parts = [(Source.FIELD, *(kind if isinstance(kind, Sequence) else (kind,))) for kind in kinds]
    return list(zip(*values(batch, *parts), strict=True))


def _column(rows: int, column: tuple[int, int, int, int], found: tuple[int, bytes | None, list[bytes]]) -> list[Any]:
    nulls, valid, buffers = found
    assert (valid is None) == (nulls == 0)
    validity = None if valid is None else pa.py_buffer(valid)
    kind = Kind(column[1])
    if kind is not Kind.VARIANT:
        type = pa.decimal128(column[2], column[3]) if kind is Kind.DECIMAL else _ARROW.get(kind, pa.string())
        return _arrow(type, rows, validity, buffers, nulls).to_pylist()  # type: ignore[no-any-return]
    value = _arrow(pa.binary(), rows, validity, buffers[:2], nulls).to_pylist()
    metadata = _arrow(pa.binary(), rows, validity, buffers[2:], nulls).to_pylist()
    return [None if one is None else Variant(one, other) for one, other in zip(value, metadata, strict=True)]


def _arrow(type: Any, rows: int, validity: Any, buffers: Sequence[bytes], nulls: int) -> Any:
    array = pa.Array.from_buffers(type, rows, [validity, *map(pa.py_buffer, buffers)], nulls)
    array.validate(full=True)
    assert array.null_count == nulls
    return array


class Variant:
    """Compares as what Spark's own reader makes of it. A null inside is not the absence of a variant."""

    def __init__(self, value: bytes, metadata: bytes) -> None:
        self.parts = value, metadata

    @cached_property
    def python(self) -> Any:
        return VariantVal(*self.parts).toPython()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Variant):
            return self.parts == other.parts
        return other is not None and type(self.python) is type(other) and bool(self.python == other)

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"Variant({self.python!r})"


def pack_column(name: str, kind: FieldType, array: pa.Array, raw: bool = False) -> PackColumn:
    """An array as the kernels take it. `raw`: its binary values are MessagePack already."""
    column = encode.pack_column(name, kind, array)
    return column._replace(form=Form.LARGE_RAW if column.form == Form.LARGE_BINARY else Form.RAW) if raw else column


def variant_array(parts: Sequence[tuple[bytes | None, bytes | None]], mask: Sequence[bool] | None = None) -> pa.Array:
    """Variants as Spark hands them over."""
    fields = [pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={b"variant": b"true"})]
    halves = [pa.array([part[half] for part in parts], pa.binary()) for half in (0, 1)]
    return pa.StructArray.from_arrays(halves, fields=fields, mask=None if mask is None else pa.array(mask))


# ---- any values -----------------------------------------------------------------------------------


def map_of(pairs: Sequence[tuple[bytes, bytes]]) -> Raw:
    """Keys may be anything, and come twice."""
    return Raw(b"\xde" + len(pairs).to_bytes(2, "big") + b"".join(key + value for key, value in pairs))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-300, 300),
    st.floats(width=64),
    st.text(max_size=80),
    st.sampled_from(["!", "!decimal 1", "!string x", "é", "\U0001f600", "￿"]),
    st.binary(max_size=80),
).map(lambda value: Raw(pack(value)))
odd = st.one_of(
    st.binary(max_size=5).map(lambda raw: Raw(bytes([0xA0 | len(raw)]) + raw)),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=3).map(
        decimal_ext
    ),
    st.binary(min_size=16, max_size=16).map(lambda raw: ext(2, raw)),
    st.builds(datetime_ext, st.integers(-(2**40), 2**40), st.integers(0, 999_999_999), st.integers(-720, 840)),
    st.binary(max_size=20).map(lambda raw: ext(42, raw)),
    st.floats(width=32).map(lambda value: Raw(b"\xca" + struct.pack(">f", value))),
)
"""Strings that may not be UTF-8, and extensions."""
packed = st.recursive(
    scalars | odd,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(lambda items: Raw(array_header(len(items)) + b"".join(items))),
        st.lists(st.tuples(scalars | odd, inner), max_size=5).map(map_of),
    ),
    max_leaves=12,
)
"""The bytes of any MessagePack value."""
