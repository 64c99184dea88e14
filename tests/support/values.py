"""Decimals and uuids as MessagePack extensions (mp_decimal.c, mp_uuid.c), for the raw client."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack

DECIMAL, UUID_, ERROR, DATETIME, INTERVAL = 1, 2, 3, 4, 6


def pack_decimal(value: Decimal) -> bytes:
    """Scale as a MessagePack integer, then BCD digits with the sign in the last half byte."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "not a finite number"
    text = "".join(map(str, digits)) + ("d" if sign else "c")
    if len(text) % 2:
        text = "0" + text
    scale: bytes = msgpack.packb(-exponent)
    return scale + bytes.fromhex(text)


def unpack_decimal(data: bytes) -> Decimal:
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    scale = unpacker.unpack()
    digits = data[unpacker.tell() :].hex()
    sign = 1 if digits[-1] in "bd" else 0
    return Decimal((sign, tuple(map(int, digits[:-1].lstrip("0") or "0")), -scale))


def default(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(DECIMAL, pack_decimal(value))
    if isinstance(value, UUID):
        return msgpack.ExtType(UUID_, value.bytes)
    raise TypeError(f"no MessagePack for {type(value).__name__}")


def ext_hook(code: int, data: bytes) -> Any:
    if code == DECIMAL:
        return unpack_decimal(data)
    if code == UUID_:
        return UUID(bytes=data)
    return msgpack.ExtType(code, data)
