"""MessagePack to Python and back, with Tarantool's extensions.

`unpack(pack(value)) == value`, and `pack(unpack(data)) == data` for bytes in their shortest form. Strings that are
not UTF-8 survive (surrogateescape). Values of MessagePack and Python:

    nil, boolean, integer, string, binary     None, bool, int, str, bytes
    double, float                             float, Float32
    array, map                                list (tuple to pack), dict (keys of any kind)
    decimal, uuid, datetime, interval, error  decimal.Decimal, uuid.UUID, Datetime, Interval, BoxError
    any other extension                       Ext(type, data), untouched

A map with keys that Python finds equal (1, 1.0 and true) keeps the last of them. Bytes are checked by the kernel
before anything is built, so that what is allocated is bounded by the length of the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import msgpack as _codec  # type: ignore[import-untyped]

from headwater.errors import BoxError, MsgPackError, Packed
from headwater.kernels import mp_next
from headwater.wire.constants import ExtType
from headwater.wire.mperror import unpack_stack
from headwater.wire.mpexact import pack_exact, to_ext, unpack_exact
from headwater.wire.values import (
    Datetime,
    Ext,
    Float32,
    FrozenMap,
    Interval,
    unpack_datetime,
    unpack_decimal,
    unpack_interval,
)

__all__ = ["Datetime", "Ext", "Float32", "FrozenMap", "Interval", "Packed", "pack", "unpack", "unpack_from"]


class _NeedsExact(Exception):  # noqa: N818
    """The C codec cannot write this value as it is."""


def pack(value: Any) -> bytes:
    """One value. MsgPackError for what has no form in MessagePack."""
    try:
        packed: bytes = _codec.packb(
            value, default=_default, strict_types=True, use_bin_type=True, unicode_errors="surrogateescape"
        )
    except (_NeedsExact, ValueError, OverflowError, TypeError, RecursionError):
        return pack_exact(value)
    return packed


def _default(value: object) -> object:
    """What strict_types leaves over: extensions for the codec, and what only the exact writer can do."""
    if isinstance(value, (Float32, Packed, FrozenMap)):
        raise _NeedsExact
    if isinstance(value, (bool, int, float, str, bytes, bytearray, memoryview, list, tuple, dict)) and not isinstance(
        value, Ext
    ):
        return _plain(value)
    extension = to_ext(value)
    if extension.type < 0:
        raise _NeedsExact
    return _codec.ExtType(extension.type, extension.data)


def _plain(value: object) -> object:
    """A subclass (an IntEnum, a NamedTuple) as the class that MessagePack knows."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return dict(value) if isinstance(value, dict) else list(cast(Iterable[object], value))


def unpack(data: bytes) -> Any:
    """The one value that fills `data`; MsgPackError if it is malformed or bytes are left over."""
    value, end = unpack_from(data)
    if end != len(data):
        raise MsgPackError(f"junk after input: {len(data) - end} bytes after a value of {end}")
    return value


def unpack_from(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """The value at `offset` of `data`, and the offset after it."""
    end = mp_next(data, offset)
    piece = data if offset == 0 and end == len(data) else data[offset:end]
    if b"\xca" in piece or b"\xff" in piece:
        return unpack_exact(piece, 0, from_ext)[0], end
    try:
        return _codec.unpackb(piece, ext_hook=from_ext, strict_map_key=False, unicode_errors="surrogateescape"), end
    except (ValueError, TypeError):
        return unpack_exact(piece, 0, from_ext)[0], end


def from_ext(kind: int, data: bytes) -> object:
    """The value behind an extension. Unknown types stay what they are."""
    if kind == ExtType.DECIMAL:
        return unpack_decimal(data)
    if kind == ExtType.UUID:
        if len(data) != 16:
            raise MsgPackError("cannot unpack uuid")
        return UUID(bytes=data)
    if kind == ExtType.DATETIME:
        return unpack_datetime(data)
    if kind == ExtType.INTERVAL:
        return unpack_interval(data)
    if kind == ExtType.ERROR:
        return _error(data)
    return Ext(kind, data)


def _error(data: bytes) -> object:
    try:
        if mp_next(data, 0) != len(data):
            raise MsgPackError("cannot unpack error")
        return unpack_stack(data, 0)[0]
    except BoxError as error:
        raise MsgPackError(f"cannot unpack error: {error}") from None
