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
    """The map of unsigned keys at `offset`, and the offset after it; OddError if there is no such map before `end`."""
    if offset >= end or mp.TYPE_OF[data[offset]] != mp.MAP:
        raise OddError
    try:
        after = mp.mp_next(data, offset)
        if after > end:
            raise OddError
        count, at = mp.container(data, offset)
        out: Map = {}
        for _ in range(count):
            if mp.TYPE_OF[data[at]] != mp.UINT:
                raise OddError
            key = mp.integer(data, at)
            start = mp.mp_next(data, at)
            at = mp.mp_next(data, start)
            out[key] = mp.TYPE_OF[data[start]], start, at
    except MsgPackError:
        raise OddError from None
    return out, after


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
