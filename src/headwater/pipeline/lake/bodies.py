"""Bodies of requests, many at once: as rows for the kernel, and the tuples in them.

A body is a map; which keys it has and in which order is the client's affair. All bodies of one client begin alike, so
what stands before the tuple is looked for in one of them and then compared with all the others at once.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import MsgPackError
from headwater.pipeline.errors import PipelineError
from headwater.wire.body import fields, is_map
from headwater.wire.constants import Key, Type
from headwater.wire.mpread import read_length
from headwater.wire.mpwrite import pack_uint

TYPE_BY_NAME = {kind.name: int(kind) for kind in (Type.INSERT, Type.REPLACE, Type.UPDATE, Type.DELETE, Type.UPSERT)}
_HEADS = pa.array([b"\x81\x00" + pack_uint(kind) for kind in range(16)], pa.binary())
"""Headers of rows that only say of which type they are."""
_EMPTY = pa.array([b""], pa.binary())[0]
_GUESSES = 8
"""So many beginnings are tried; bodies that begin otherwise are read one by one."""


def as_rows(types: pa.Array, bodies: pa.Array) -> bytes:
    """Header and body of each row, one after another, as files have them."""
    joined = pc.binary_join_element_wise(_HEADS.take(types), bodies, _EMPTY)
    return contents(joined)


def contents(values: pa.Array) -> bytes:
    """All values of an array of binary, one after another."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return b""
    ends = memoryview(offsets).cast("i")
    begin, end = ends[values.offset], ends[values.offset + len(values)]
    return bytes(data.slice(begin, end - begin).to_pybytes())


def inserts(space_id: int, tuples: pa.Array) -> bytes:
    """Rows of INSERT, for the kernel to read tuples from."""
    head = b"\x81\x00\x02\x82" + pack_uint(Key.SPACE_ID) + pack_uint(space_id) + pack_uint(Key.TUPLE)
    return contents(pc.binary_join_element_wise(pa.scalar(head, pa.binary()), tuples, _EMPTY))


def tuples_of(bodies: pa.Array) -> pa.Array:
    """The tuple of each INSERT, REPLACE or UPSERT."""
    found = pa.nulls(len(bodies), pa.binary())
    missing = pc.is_valid(bodies)
    for _ in range(_GUESSES):
        at = pc.index(missing, True).as_py()
        if at < 0:
            return found
        head = _head(bodies[at].as_py())
        if head is None:
            break
        alike = pc.and_(missing, pc.starts_with(bodies, head))
        tuples = pc.binary_replace_slice(bodies.filter(alike), 0, len(head), b"")
        found = pc.replace_with_mask(found, alike, tuples)
        missing = pc.and_not(missing, alike)
    return _one_by_one(bodies, missing, found)


def _one_by_one(bodies: pa.Array, missing: pa.Array, found: pa.Array) -> pa.Array:
    numbers = pc.indices_nonzero(missing)
    if not len(numbers):
        return found
    read = pa.array([part(body, Key.TUPLE) for body in bodies.take(numbers).to_pylist()], pa.binary())
    return pc.replace_with_mask(found, missing, read)


def _head(body: bytes) -> bytes | None:
    """What stands before the tuple; None if something stands behind it. Bodies that begin with these bytes have as many
    pairs, so that the tuple is the last thing in them, too."""
    for key, _, at, end in _pairs(body):
        if key == Key.TUPLE:
            return body[:at] if end == len(body) and _is_last(body, at) else None
    raise _no_tuple(body)


def _is_last(body: bytes, tuple_at: int) -> bool:
    """Is the tuple the last pair by the count of pairs? A body is one whole map, but be sure."""
    count, _ = read_length(body, 0)
    pairs = list(_pairs(body))
    return len(pairs) == count and pairs[-1][2] == tuple_at


def part(body: bytes, key: int) -> bytes | None:
    """One value of a body."""
    found = None
    for name, _, at, end in _pairs(body):
        if name == key:
            found = body[at:end]
    return found


def _pairs(body: bytes) -> list[tuple[int, int, int, int]]:
    try:
        if not is_map(body):
            raise _no_tuple(body)
        return list(fields(body, 0))
    except MsgPackError as error:
        raise PipelineError(f"A request in the change log cannot be read ({error}): {body[:32].hex()}…") from None


def _no_tuple(body: bytes) -> PipelineError:
    return PipelineError(f"A request in the change log has no tuple: {body[:32].hex()}…")
