"""Bytes for the tests, made without the kernels: tuples, keys, extensions, packets, rows."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack


def pack(value: Any) -> bytes:
    """MessagePack in its shortest forms; Decimal and UUID as Tarantool's extensions; Raw as it is."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, Decimal):
        return bytes(decimal_ext(value))
    if isinstance(value, UUID):
        return b"\xd8\x02" + value.bytes
    if isinstance(value, list | tuple):
        return array_header(len(value)) + b"".join(pack(item) for item in value)
    if isinstance(value, dict):
        return map_header(len(value)) + b"".join(pack(key) + pack(item) for key, item in value.items())
    out = msgpack.packb(value)
    assert isinstance(out, bytes)
    return out


ERROR = b"\x81\x00\x91\x83\x00\xa1t\x01\xa1f\x03\xa1m"
"""Contents of the least error there is: a stack of one with type, file and message."""


class Raw(bytes):
    """MessagePack that is ready."""


def array_header(count: int) -> bytes:
    return bytes([0x90 | count]) if count < 16 else _wide(0xDC, count)


def map_header(count: int) -> bytes:
    return bytes([0x80 | count]) if count < 16 else _wide(0xDE, count)


def _wide(code: int, count: int) -> bytes:
    return bytes([code]) + struct.pack(">H", count) if count < 65536 else bytes([code + 1]) + struct.pack(">I", count)


def float32(value: float) -> Raw:
    return Raw(b"\xca" + struct.pack(">f", value))


def float64_bits(bits: int) -> Raw:
    return Raw(b"\xcb" + bits.to_bytes(8, "big"))


def ext(kind: int, body: bytes) -> Raw:
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(body))
    if fixed is not None:
        return Raw(bytes([fixed, kind & 0xFF]) + body)
    return Raw(b"\xc7" + bytes([len(body), kind & 0xFF]) + body)


def decimal_ext(value: Decimal) -> Raw:
    """decimal.c, decimal_pack: scale, then packed digits and a sign."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + ("d" if sign else "c")
    body = msgpack.packb(-exponent) + bytes.fromhex(text.zfill(len(text) + len(text) % 2))
    return ext(1, body)


def datetime_ext(seconds: int, nsec: int = 0, offset: int = 0, zone: int = 0) -> Raw:
    body = struct.pack("<q", seconds)
    if nsec or offset or zone:
        body += struct.pack("<ihh", nsec, offset, zone)
    return ext(4, body)


def packet(header: Mapping[int, Any], body: Mapping[int, Any] | None = None) -> bytes:
    """An iproto packet; values of `body` may be Raw."""
    data = pack_map(header) + (b"" if body is None else pack_map(body))
    return b"\xce" + struct.pack(">I", len(data)) + data


def pack_map(fields: Mapping[int, Any]) -> bytes:
    assert len(fields) < 16
    return bytes([0x80 | len(fields)]) + b"".join(pack(key) + pack(value) for key, value in fields.items())


SELECT, INSERT, REPLACE, UPDATE, DELETE, UPSERT, PING = 1, 2, 3, 4, 5, 9, 0x40


def select(
    space: int, key: Sequence[Any], iterator: int = 0, index: int = 0, limit: int = 1000, offset: int = 0, sync: int = 1
) -> bytes:
    body = {0x10: space, 0x11: index, 0x12: limit, 0x13: offset, 0x14: iterator, 0x20: list(key)}
    return packet({0x00: SELECT, 0x01: sync}, body)


def insert(space: int, row: Sequence[Any], sync: int = 1) -> bytes:
    return packet({0x00: INSERT, 0x01: sync}, {0x10: space, 0x21: list(row)})


def replace(space: int, row: Sequence[Any], sync: int = 1) -> bytes:
    return packet({0x00: REPLACE, 0x01: sync}, {0x10: space, 0x21: list(row)})


def delete(space: int, key: Sequence[Any], index: int = 0, sync: int = 1) -> bytes:
    return packet({0x00: DELETE, 0x01: sync}, {0x10: space, 0x11: index, 0x20: list(key)})


def reply(sync: int, schema_version: int, tuples: Sequence[bytes]) -> bytes:
    """protocol.md §2.1: the fixed preamble and a DATA body."""
    body = b"\x81\x30\xdd" + struct.pack(">I", len(tuples)) + b"".join(tuples)
    return preamble(sync, schema_version, len(body)) + body


def preamble(sync: int, schema_version: int, body_size: int) -> bytes:
    head = b"\x83\x00\xce" + bytes(4) + b"\x01\xcf" + struct.pack(">Q", sync)
    head += b"\x05\xcf" + struct.pack(">Q", schema_version)
    return b"\xce" + struct.pack(">I", len(head) + body_size) + head
