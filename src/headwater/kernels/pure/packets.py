"""Maps of header and body as the fast path reads them: by key, or not at all."""

from __future__ import annotations

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp

Map = dict[int, tuple[int, int, int]]
"""Key -> (type of the value, offset of it, offset after it)."""

U32 = 0xFFFFFFFF


class OddError(Exception):
    """Not for the fast path. Never leaves the kernel."""


def read_map(data: bytes, offset: int, end: int) -> tuple[Map, int]:
    """The map at `offset`, and the offset after it; OddError if there is no such map before `end`. Map and keys must
    be in their shortest form, as every connector writes them."""
    if offset >= end or data[offset] & 0xF0 != 0x80:
        raise OddError
    out: Map = {}
    at = offset + 1
    try:
        for _ in range(data[offset] & 0x0F):
            after = mp.mp_next(data, at + 1)
            if after > end or data[at] >= 0x80:
                raise OddError
            out[data[at]] = mp.TYPE_OF[data[at + 1]], at + 1, after
            at = after
    except MsgPackError:
        raise OddError from None
    return out, at


def unsigned(data: bytes, fields: Map, key: int, default: int | None = None, limit: int = U32) -> int:
    """The unsigned integer under `key`; OddError if it is absent without a default, of another type or too great."""
    if key not in fields:
        if default is None:
            raise OddError
        return default
    kind, start, _ = fields[key]
    if kind != mp.UINT:
        raise OddError
    value = mp.integer(data, start)
    if value > limit:
        raise OddError
    return value


def array(data: bytes, fields: Map, key: int) -> bytes:
    """The bytes of the array under `key`."""
    if key not in fields or fields[key][0] != mp.ARRAY:
        raise OddError
    _, start, end = fields[key]
    return data[start:end]
