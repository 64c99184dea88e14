"""UPSERT with operations of each row's own: packets joined out of columns, by Arrow.

`kernels.columns.pack_requests` makes the same operations for all rows; here each row brings an array of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.kernels.columns import pack_tuples
from headwater.kernels.packplan import Form, PackColumn
from headwater.pipeline.encode import pack_column
from headwater.typing import FieldType
from headwater.wire.constants import Key, Type
from headwater.wire.mpwrite import pack_map_head, pack_uint

__all__ = ["binary_of", "joined", "pack_ops", "upsert_packets"]

_RAW = {Form.BINARY: Form.RAW, Form.LARGE_BINARY: Form.LARGE_RAW}
_EMPTY, _NIL = b"\x90", b"\xc0"
_MOST = (1 << 31) - 1
_NOTHING = pa.scalar(b"", pa.binary())


def _ops_column(array: pa.Array) -> PackColumn:
    """Operations, as an array of [operator, field, value] each."""
    packed = pack_column("operations", FieldType.ARRAY, array)
    if packed.form in _RAW:
        return packed._replace(form=_RAW[Form(packed.form)])
    children = [child._replace(kind=FieldType.ARRAY) for child in packed.children if child.form == Form.STRUCT]
    return packed._replace(children=children) if children else packed


def pack_ops(array: pa.Array) -> pa.Array:
    """MessagePack of the operations of each row; null means none. PackError."""
    offsets, data = pack_tuples([_ops_column(array)], 0, len(array))
    # Each of these tuples is an array of one: its head is one byte.
    alone = pc.binary_slice(binary_of(offsets, data, len(array)), 1, _MOST)
    return pc.if_else(pc.equal(alone, pa.scalar(_NIL, pa.binary())), pa.scalar(_EMPTY, pa.binary()), alone)


def binary_of(offsets: bytes, data: bytes, count: int) -> pa.Array:
    """Tuples as Arrow has bytes."""
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def upsert_packets(tuples: pa.Array, ops: pa.Array, space_id: int, sync: int, stream_id: int) -> bytes:
    """As `pack_requests` makes them: the sync of the first, growing by one."""
    count = len(tuples)
    if not count:
        return b""
    begin, between = _frame(space_id, stream_id)
    syncs = _fixed(np.arange(sync, sync + count, dtype=">u8"), 8)
    bodies = pc.binary_join_element_wise(begin[0], syncs, begin[1], tuples, between, ops, _NOTHING)
    lengths = _fixed(pc.binary_length(bodies).to_numpy().astype(">u4"), 4)
    packets = pc.binary_join_element_wise(pa.scalar(b"\xce", pa.binary()), lengths, bodies, _NOTHING)
    return joined(packets)


def joined(array: pa.Array) -> bytes:
    """The values of an array of bytes, one after another."""
    _, offsets, data = array.buffers()
    borders = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    return b"" if data is None else bytes(memoryview(data)[borders[0] : borders[-1]])


def _frame(space_id: int, stream_id: int) -> tuple[tuple[pa.Scalar, pa.Scalar], pa.Scalar]:
    """What stands before the sync, behind it, and between tuple and operations."""
    pairs = 3 if stream_id else 2
    head = pack_map_head(pairs) + pack_uint(Key.REQUEST_TYPE) + pack_uint(Type.UPSERT) + pack_uint(Key.SYNC) + b"\xcf"
    rest = pack_uint(Key.STREAM_ID) + pack_uint(stream_id) if stream_id else b""
    rest += pack_map_head(4) + pack_uint(Key.SPACE_ID) + pack_uint(space_id) + pack_uint(Key.INDEX_BASE) + pack_uint(0)
    rest += pack_uint(Key.TUPLE)
    return (pa.scalar(head, pa.binary()), pa.scalar(rest, pa.binary())), pa.scalar(pack_uint(Key.OPS), pa.binary())


def _fixed(numbers: np.ndarray[tuple[int], np.dtype[np.unsignedinteger]], width: int) -> pa.Array:
    """Bytes of numbers of this width, each a value."""
    return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(numbers.tobytes())]).cast(
        pa.binary()
    )
