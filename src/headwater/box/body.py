"""The body of a row as the journal keeps it (xrow.c, xrow_encode_dml): which keys, in which order."""

from __future__ import annotations

from headwater.wire.constants import ExtType, Key
from headwater.wire.mpwrite import pack_ext, pack_map_head, pack_uint
from headwater.wire.request import Request


def dml_body(request: Request) -> bytes:
    """What of a request goes into the journal. Zero and absent are not written."""
    out = [
        _head(Key.SPACE_ID) + pack_uint(request.space_id) if request.space_id else b"",
        _head(Key.INDEX_ID) + pack_uint(request.index_id) if request.index_id else b"",
        _head(Key.INDEX_BASE) + pack_uint(request.index_base) if request.index_base else b"",
        _value(Key.KEY, request.key),
        _value(Key.OPS, request.ops),
        _value(Key.TUPLE_META, request.tuple_meta),
        _value(Key.TUPLE, request.tuple),
        _value(Key.OLD_TUPLE, request.old_tuple),
        _value(Key.NEW_TUPLE, request.new_tuple),
        _value(Key.ARROW, None if request.arrow is None else pack_ext(ExtType.ARROW, request.arrow)),
        _value(Key.BEGIN_KEY, request.begin_key),
        _value(Key.END_KEY, request.end_key),
    ]
    present = [part for part in out if part]
    return pack_map_head(len(present)) + b"".join(present) if present else b""


def tuple_body(space_id: int, tuple: bytes) -> bytes:
    """Of an INSERT or a REPLACE."""
    return b"\x82\x10" + pack_uint(space_id) + b"\x21" + tuple


def key_body(space_id: int, key: bytes) -> bytes:
    """Of a DELETE by the primary key."""
    return b"\x82\x10" + pack_uint(space_id) + b"\x20" + key


def _head(key: Key) -> bytes:
    return bytes((key,))


def _value(key: Key, value: bytes | None) -> bytes:
    return b"" if value is None else _head(key) + value
