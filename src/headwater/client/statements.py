"""Bodies of requests, written out of keys and tuples that are MessagePack already."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.wire.constants import PROTOCOL_VERSION, Key
from headwater.wire.mpwrite import pack_array_head, pack_map_head, pack_uint

__all__ = ["EMPTY", "delete", "identify", "insert", "select", "update", "upsert"]

EMPTY = b"\x90"
"""A key without parts, or no operations."""


def _body(pairs: Sequence[tuple[int, bytes]]) -> bytes:
    return pack_map_head(len(pairs)) + b"".join(pack_uint(key) + value for key, value in pairs)


def select(
    space_id: int,
    index_id: int = 0,
    *,
    iterator: int = 0,
    key: bytes = EMPTY,
    limit: int = 0xFFFFFFFF,
    offset: int = 0,
    after: bytes | None = None,
) -> bytes:
    """`after`: a tuple; what comes behind it (servers from 2.11 on)."""
    pairs = [
        (Key.SPACE_ID, pack_uint(space_id)),
        (Key.INDEX_ID, pack_uint(index_id)),
        (Key.LIMIT, pack_uint(limit)),
        (Key.OFFSET, pack_uint(offset)),
        (Key.ITERATOR, pack_uint(iterator)),
        (Key.KEY, key),
    ]
    if after is not None:
        pairs.append((Key.AFTER_TUPLE, after))
    return _body(pairs)


def insert(space_id: int, tuple: bytes) -> bytes:
    """Of REPLACE too."""
    return _body([(Key.SPACE_ID, pack_uint(space_id)), (Key.TUPLE, tuple)])


def delete(space_id: int, key: bytes, index_id: int = 0) -> bytes:
    return _body([(Key.SPACE_ID, pack_uint(space_id)), (Key.INDEX_ID, pack_uint(index_id)), (Key.KEY, key)])


def update(space_id: int, key: bytes, ops: Sequence[bytes]) -> bytes:
    """Fields in operations count from 0."""
    operations = pack_array_head(len(ops)) + b"".join(ops)
    pairs = [(Key.SPACE_ID, pack_uint(space_id)), (Key.INDEX_ID, b"\0"), (Key.KEY, key), (Key.TUPLE, operations)]
    return _body(pairs)


def upsert(space_id: int, tuple: bytes, ops: Sequence[bytes]) -> bytes:
    """Fields in operations count from 0."""
    operations = pack_array_head(len(ops)) + b"".join(ops)
    return _body([(Key.SPACE_ID, pack_uint(space_id)), (Key.TUPLE, tuple), (Key.OPS, operations)])


def identify(features: Sequence[int]) -> bytes:
    """What the one who connects understands; the answer says what the server does."""
    numbers = pack_array_head(len(features)) + b"".join(map(pack_uint, features))
    return _body([(Key.VERSION, pack_uint(PROTOCOL_VERSION)), (Key.FEATURES, numbers)])
