"""What a server answers, as bytes (xrow.c, iproto_reply_*; struct iproto_header_bin).

Every reply of a session begins with the same 32 bytes: length, then a map of type, sync and schema version, each as
wide as it can be. Tuples are MessagePack already and are joined, never encoded again. Events have a header of their
own. Rows of replication have the compact header of `xrow.encode_packet` instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from headwater.errors import BoxError
from headwater.wire.auth import METHOD
from headwater.wire.constants import ERROR_BIT, FEATURES, PROTOCOL_VERSION, ExtType, Key, Type
from headwater.wire.mperror import pack_stack
from headwater.wire.mpwrite import pack_array_head, pack_ext, pack_map_head, pack_str, pack_text, pack_uint

HEADER_SIZE = 32
_HEADER = struct.Struct(">BIBBBIBBQBBQ")
_DATA = struct.Struct(">BBBI")


def header(type_: int, sync: int, schema_version: int, body_size: int) -> bytes:
    """The first 32 bytes of a reply."""
    return _HEADER.pack(
        0xCE,
        HEADER_SIZE - 5 + body_size,
        0x83,
        Key.REQUEST_TYPE,
        0xCE,
        type_,
        Key.SYNC,
        0xCF,
        sync,
        Key.SCHEMA_VERSION,
        0xCF,
        schema_version,
    )


def _reply(sync: int, schema_version: int, body: bytes, type_: int = Type.OK) -> bytes:
    return header(type_, sync, schema_version, len(body)) + body


def ok(sync: int, schema_version: int) -> bytes:
    """Done, and there is nothing to say: an empty map."""
    return _reply(sync, schema_version, b"\x80")


def data(
    sync: int,
    schema_version: int,
    tuples: Sequence[bytes],
    position: bytes | None = None,
    formats: Mapping[int, bytes] | None = None,
) -> bytes:
    """`tuples` are whole values. `position` is what the next page continues after. With `formats`, which a client
    that negotiated tuple extensions gets even if it is empty, tuples are what `tuple_as_ext` gives."""
    parts = [_data_head(1 + (formats is not None) + (position is not None), len(tuples)), *tuples]
    if formats is not None:
        parts.append(pack_uint(Key.TUPLE_FORMATS) + _formats(formats))
    if position is not None:
        parts.append(pack_uint(Key.POSITION) + pack_str(position))
    return _reply(sync, schema_version, b"".join(parts))


def tuple_as_ext(format_id: int, tuple_: bytes) -> bytes:
    """A tuple together with the number of its format (mp_tuple.c)."""
    return pack_ext(ExtType.TUPLE, pack_uint(format_id) + tuple_)


def _data_head(pairs: int, count: int) -> bytes:
    """Map head, key DATA, array head of always five bytes (struct iproto_body_bin)."""
    return _DATA.pack(0x80 | pairs, Key.DATA, 0xDD, count)


def _formats(formats: Mapping[int, bytes]) -> bytes:
    """Format clauses by number; a clause is the array of `_space.format` (tuple_format_map_to_mpstream)."""
    return pack_map_head(len(formats)) + b"".join(pack_uint(number) + clause for number, clause in formats.items())


def error(sync: int, schema_version: int, problem: BoxError) -> bytes:
    """Code in the type, text for old clients, and the whole stack, from which newer ones rebuild the class."""
    stack = pack_uint(Key.ERROR_24) + pack_text(problem.message) + pack_uint(Key.ERROR) + pack_stack(problem)
    return _reply(sync, schema_version, pack_map_head(2) + stack, ERROR_BIT | problem.code & (ERROR_BIT - 1))


def id_reply(
    sync: int,
    schema_version: int,
    version: int = PROTOCOL_VERSION,
    features: Iterable[int] = FEATURES,
    auth_type: str = METHOD,
) -> bytes:
    """Answer to ID: what we speak."""
    numbers = sorted(features)
    body = (
        pack_map_head(3)
        + pack_uint(Key.VERSION)
        + pack_uint(version)
        + pack_uint(Key.FEATURES)
        + pack_array_head(len(numbers))
        + b"".join(map(pack_uint, numbers))
        + pack_uint(Key.AUTH_TYPE)
        + pack_text(auth_type)
    )
    return _reply(sync, schema_version, body)


def body(sync: int, schema_version: int, packed: bytes) -> bytes:
    """OK with a body that is there already: a vclock, a ballot (`wire.replication`)."""
    return _reply(sync, schema_version, packed)


def chunk(sync: int, schema_version: int, value: bytes) -> bytes:
    """A message pushed before the final reply: one value (iproto_reply_chunk)."""
    return _reply(sync, schema_version, _data_head(1, 1) + value, Type.CHUNK)


def event(sync: int, key: str, value: bytes | None) -> bytes:
    """What became of a watched key; no value if it has none. The sync is that of the client's last WATCH of it, and
    is there even when it is 0 (iproto_send_event)."""
    head = (
        pack_map_head(2) + pack_uint(Key.REQUEST_TYPE) + pack_uint(Type.EVENT) + pack_uint(Key.SYNC) + pack_uint(sync)
    )
    packed = pack_map_head(1 if value is None else 2) + pack_uint(Key.EVENT_KEY) + pack_text(key)
    if value is not None:
        packed += pack_uint(Key.EVENT_DATA) + value
    return struct.pack(">BI", 0xCE, len(head) + len(packed)) + head + packed
