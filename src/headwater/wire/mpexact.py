"""MessagePack value by value, for what the C codec of `msgpack` cannot carry over and back.

That is: floats of four bytes, extensions with negative types, values that are packed already, and maps whose keys
are arrays or maps. Nothing here recurses, so depth costs no stack.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from uuid import UUID

from headwater.errors import BoxError, MsgPackError, Packed
from headwater.wire.constants import ExtType, MpType
from headwater.wire.mperror import pack_stack
from headwater.wire.mpread import KIND, read_bytes, read_double, read_ext, read_length, read_text, read_uint
from headwater.wire.mpwrite import (
    pack_array_head,
    pack_bin,
    pack_bool,
    pack_double,
    pack_ext,
    pack_int,
    pack_map_head,
    pack_text,
)
from headwater.wire.values import (
    Datetime,
    Ext,
    Float32,
    FrozenMap,
    Interval,
    pack_datetime,
    pack_decimal,
    pack_interval,
)

DEPTH_MAX = 1000
"""Nesting that kernels and codec accept (`mp_next`)."""
KEY_DEPTH_MAX = 32
"""Nesting inside the key of a map: Python hashes and compares keys recursively."""

_FLOAT = struct.Struct(">Bf")


# ---- writing --------------------------------------------------------------------------------------


def pack_exact(value: object) -> bytes:
    """One value with everything in it."""
    out: list[bytes] = []
    stack: list[Iterator[object]] = [iter((value,))]
    while stack:
        item = next(stack[-1], stack)
        if item is stack:
            stack.pop()
            continue
        inside = _pack_one(item, out)
        if inside is not None:
            stack.append(inside)
            if len(stack) > DEPTH_MAX + 1:
                raise MsgPackError(f"values nested deeper than {DEPTH_MAX}")
    return b"".join(out)


def _pack_one(value: object, out: list[bytes]) -> Iterator[object] | None:
    """Append a value, or the head of a container whose items are returned."""
    if isinstance(value, (dict, FrozenMap)):
        pairs = value.items() if isinstance(value, dict) else value
        out.append(pack_map_head(len(value)))
        return (part for pair in pairs for part in pair)
    if isinstance(value, (list, tuple)) and not isinstance(value, Ext):
        out.append(pack_array_head(len(value)))
        return iter(value)
    out.append(_pack_scalar(value))
    return None


def _pack_scalar(value: object) -> bytes:
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return pack_bool(value)
    if isinstance(value, int):
        return pack_int(value)
    if isinstance(value, Float32):
        return _FLOAT.pack(0xCA, value)
    if isinstance(value, float):
        return pack_double(value)
    if isinstance(value, str):
        return pack_text(value)
    if isinstance(value, Packed):
        return bytes(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return pack_bin(bytes(value))
    extension = to_ext(value)
    return pack_ext(extension.type, extension.data)


def to_ext(value: object) -> Ext:
    """The extension that stands for a value; MsgPackError if MessagePack has none for its type."""
    if isinstance(value, Ext):
        return value
    if isinstance(value, Decimal):
        return Ext(ExtType.DECIMAL, pack_decimal(value))
    if isinstance(value, UUID):
        return Ext(ExtType.UUID, value.bytes)
    if isinstance(value, dt.datetime):
        value = Datetime.of(value)
    if isinstance(value, Datetime):
        return Ext(ExtType.DATETIME, pack_datetime(value))
    if isinstance(value, Interval):
        return Ext(ExtType.INTERVAL, pack_interval(value))
    if isinstance(value, BoxError):
        return Ext(ExtType.ERROR, pack_stack(value))
    raise MsgPackError(f"a value of type {type(value).__name__} has no form in MessagePack")


# ---- reading --------------------------------------------------------------------------------------


def unpack_exact(data: bytes, at: int, from_ext: Callable[[int, bytes], object]) -> tuple[object, int]:
    """The checked value at `at`, and the offset after it."""
    stack: list[tuple[MpType, int, list[object]]] = []
    while True:
        kind = MpType(KIND[data[at]])
        if kind in (MpType.ARRAY, MpType.MAP):
            count, at = read_length(data, at)
            items: list[object] = []
            stack.append((kind, count if kind is MpType.ARRAY else 2 * count, items))
            value: object = None
        else:
            value, at = _unpack_scalar(data, at, kind, from_ext)
            if not stack:
                return value, at
            stack[-1][2].append(value)
        while len(stack[-1][2]) == stack[-1][1]:
            kind, _, items = stack.pop()
            value = items if kind is MpType.ARRAY else _to_map(items)
            if not stack:
                return value, at
            stack[-1][2].append(value)


def _unpack_scalar(data: bytes, at: int, kind: MpType, from_ext: Callable[[int, bytes], object]) -> tuple[object, int]:
    if kind is MpType.NIL:
        return None, at + 1
    if kind is MpType.BOOL:
        return data[at] == 0xC3, at + 1
    if kind is MpType.UINT:
        return read_uint(data, at)
    if kind is MpType.INT:
        return _read_negative(data, at)
    if kind is MpType.STR:
        return read_text(data, at)
    if kind is MpType.BIN:
        return read_bytes(data, at)
    if kind is MpType.DOUBLE:
        return read_double(data, at)
    if kind is MpType.FLOAT:
        return Float32(_FLOAT.unpack_from(data, at)[1]), at + 5
    code, payload, end = read_ext(data, at)
    return from_ext(code, payload), end


def _read_negative(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    if code >= 0xE0:
        return code - 0x100, at + 1
    end = at + 1 + (1 << (code - 0xD0))
    return int.from_bytes(data[at + 1 : end], "big", signed=True), end


def _to_map(items: list[object]) -> dict[object, object]:
    return {_freeze(key): value for key, value in zip(items[::2], items[1::2], strict=True)}


def _freeze(key: object, depth: int = 0) -> object:
    """A hashable twin of an array or a map that is used as a key."""
    if not isinstance(key, (list, dict)):
        return key
    if depth == KEY_DEPTH_MAX:
        raise MsgPackError(f"the key of a map is nested deeper than {KEY_DEPTH_MAX}")
    if isinstance(key, list):
        return tuple(_freeze(item, depth + 1) for item in key)
    return FrozenMap((_freeze(name, depth + 1), _freeze(value, depth + 1)) for name, value in key.items())
