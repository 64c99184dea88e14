"""Requests of clients, decoded the way 3.x does it: same order of checks, same codes, same texts
(iproto.cc iproto_msg_prepare and iproto_msg_decode; xrow.c xrow_decode_dml_internal and kin).

`split` finds a packet in what was read, `decode` makes a `Request` of it. Keys, tuples and operations stay bytes.
A request that cannot be served has an `error`; whatever was good before it, `sync` above all, is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headwater.errors import BoxError, Er, IllegalParams, er
from headwater.kernels import mp_next
from headwater.wire.constants import (
    DML_TYPES,
    KEY_MAX,
    KEY_TYPE,
    PACKET_SIZE_MAX,
    TYPE_STAT_MAX,
    UNSPECIFIED_THREAD,
    ExtType,
    Key,
    MpType,
    Type,
    key_name,
    type_name,
)
from headwater.wire.mpread import KIND, read_bytes, read_double, read_ext, read_length, read_text, read_uint
from headwater.wire.mpwrite import pack_map_head, pack_uint
from headwater.wire.xrow import Row, decode_into

_U32 = (1 << 32) - 1
_UINT = int(MpType.UINT)


@dataclass(slots=True)
class Request:
    """One request. A field that the client did not send has its default. Raw slices are whole MessagePack values."""

    row: Row
    """Header and body as they came. Replication requests are decoded from it (`wire.replication`)."""
    error: BoxError | None = None
    """Why it cannot be served, if it cannot."""

    # SELECT, INSERT, REPLACE, UPDATE, DELETE, UPSERT, and rows of the log
    space_id: int = 0
    index_id: int = 0
    space_name: str | None = None
    """Given instead of `space_id`; it has preference."""
    index_name: str | None = None
    key: bytes | None = None
    tuple: bytes | None = None
    """The tuple; the operations of an UPDATE; the scramble of AUTH."""
    ops: bytes | None = None
    """Operations of an UPSERT."""
    index_base: int = 0
    """Number of the first field in operations: 0 or 1."""
    iterator: int = 0
    offset: int = 0
    limit: int = 0
    fetch_position: bool = False
    after_position: bytes | None = None
    """Contents of the string."""
    after_tuple: bytes | None = None
    tuple_meta: bytes | None = None
    old_tuple: bytes | None = None
    new_tuple: bytes | None = None
    arrow: bytes | None = None
    """Payload of the extension."""
    begin_key: bytes | None = None
    end_key: bytes | None = None

    # CALL, EVAL
    function: str = ""
    expr: str = ""
    args: bytes = b"\x90"
    tuple_formats: bytes | None = None

    # AUTH, ID, streams, watchers, SQL
    user: str = ""
    version: int = 0
    features: frozenset[int] = field(default_factory=frozenset)
    timeout: float = 0.0
    isolation: int = 0
    is_sync: bool = False
    event_key: str = ""
    event_data: bytes | None = None
    sql_text: bytes | None = None
    sql_bind: bytes | None = None
    stmt_id: bytes | None = None

    @property
    def type(self) -> int:
        return self.row.type

    @property
    def sync(self) -> int:
        return self.row.sync

    @property
    def stream_id(self) -> int:
        return self.row.stream_id


# ---- packets --------------------------------------------------------------------------------------


def split(data: bytes, offset: int, end: int, limit: int = PACKET_SIZE_MAX) -> tuple[int, int] | None:
    """Where header and body of the packet at `offset` begin and end, None if it is not complete yet. BoxError
    INVALID_MSGPACK, after which nothing more can be read, for a length that is no unsigned integer or above `limit`
    (iproto_enqueue_batch)."""
    if offset >= end:
        return None
    code = data[offset]
    if KIND[code] != _UINT:
        raise er(Er.INVALID_MSGPACK, "packet length")
    start = offset + 1 if code <= 0x7F else offset + 1 + (1 << (code - 0xCC))
    if start > end:
        return None
    length, _ = read_uint(data, offset)
    if length > limit:
        raise er(Er.INVALID_MSGPACK, f"too big packet size in the header: {length}")
    return (start, start + length) if start + length <= end else None


def decode(data: bytes, offset: int, end: int) -> Request:
    """The request in data[offset:end], which is a packet without its length."""
    request = Request(Row(0))
    try:
        decode_into(request.row, data, offset, end, exact=True)
        _check_route(request.row)
        _DECODERS.get(request.row.type, _unknown)(request)
    except BoxError as error:
        request.error = error
    return request


def _check_route(row: Row) -> None:
    """May this type be asked of that thread, and inside or outside of a stream? (iproto_msg_prepare; one thread)"""
    if row.thread_id not in (0, UNSPECIFIED_THREAD):
        raise er(Er.NO_SUCH_THREAD, row.thread_id)
    only_in_stream = row.type in (Type.BEGIN, Type.COMMIT, Type.ROLLBACK)
    never_in_stream = row.type == Type.AUTH or (row.type > TYPE_STAT_MAX and row.type != Type.PING)
    name = type_name(row.type) or "(null)"
    if row.stream_id and never_in_stream:
        raise er(Er.UNABLE_TO_PROCESS_IN_STREAM, name)
    if not row.stream_id and only_in_stream:
        raise er(Er.UNABLE_TO_PROCESS_OUT_OF_STREAM, name)


def _unknown(request: Request) -> None:
    raise er(Er.UNKNOWN_REQUEST_TYPE, request.type)


def _nothing(request: Request) -> None:
    """No body is needed, or the replication code reads it."""


def encode(type_: int, sync: int, body: bytes = b"", stream_id: int = 0) -> bytes:
    """A client's packet, with the header's keys in the order of net.box (net_box.c, netbox_begin_encode)."""
    pairs = [pack_uint(Key.SYNC) + pack_uint(sync)] if sync else []
    pairs.append(pack_uint(Key.REQUEST_TYPE) + pack_uint(type_))
    if stream_id:
        pairs.append(pack_uint(Key.STREAM_ID) + pack_uint(stream_id))
    packet = pack_map_head(len(pairs)) + b"".join(pairs) + body
    return b"\xce" + len(packet).to_bytes(4, "big") + packet


# ---- DML ------------------------------------------------------------------------------------------

_MANDATORY: dict[int, tuple[Key, ...]] = {
    Type.SELECT: (Key.SPACE_ID, Key.LIMIT, Key.KEY),
    Type.INSERT: (Key.SPACE_ID, Key.TUPLE),
    Type.REPLACE: (Key.SPACE_ID, Key.TUPLE),
    Type.UPDATE: (Key.SPACE_ID, Key.KEY, Key.TUPLE),
    Type.DELETE: (Key.SPACE_ID, Key.KEY),
    Type.UPSERT: (Key.SPACE_ID, Key.TUPLE, Key.OPS),
    Type.NOP: (),
    Type.INSERT_ARROW: (Key.SPACE_ID, Key.ARROW),
    Type.DELETE_RANGE: (Key.SPACE_ID, Key.BEGIN_KEY, Key.END_KEY),
}
"""iproto_body_key_map; the lowest missing key is the one that the error names."""

_NUMBERS = {
    Key.SPACE_ID: "space_id",
    Key.INDEX_ID: "index_id",
    Key.LIMIT: "limit",
    Key.OFFSET: "offset",
    Key.ITERATOR: "iterator",
    Key.INDEX_BASE: "index_base",
}
_SLICES = {
    Key.KEY: "key",
    Key.TUPLE: "tuple",
    Key.OPS: "ops",
    Key.TUPLE_META: "tuple_meta",
    Key.OLD_TUPLE: "old_tuple",
    Key.NEW_TUPLE: "new_tuple",
    Key.AFTER_TUPLE: "after_tuple",
    Key.BEGIN_KEY: "begin_key",
    Key.END_KEY: "end_key",
}
_NAMES = {Key.SPACE_NAME: "space_name", Key.INDEX_NAME: "index_name"}


def of_row(row: Row) -> Request:
    """A DML row of a log, a snapshot or a peer as a request. BoxError in 3.x's words: UNKNOWN_REQUEST_TYPE for a row
    that is none, MISSING_REQUEST_FIELD, INVALID_MSGPACK (xrow_decode_dml)."""
    request = Request(row)
    if row.type not in DML_TYPES:
        raise er(Er.UNKNOWN_REQUEST_TYPE, row.type)
    _decode_dml(request, accept_space_name=False)
    return request


def _client_dml(request: Request) -> None:
    _decode_dml(request, accept_space_name=True)


def _decode_dml(request: Request, *, accept_space_name: bool) -> None:
    body = request.row.body
    missing: set[int] = set(_MANDATORY[request.type])
    if body:
        _read_dml(request, body, missing)
    if accept_space_name and request.space_name is not None:
        missing.discard(Key.SPACE_ID)
    if missing:
        raise _missing(Key(min(missing)))


def _read_dml(request: Request, body: bytes, missing: set[int]) -> None:
    """xrow_decode_dml_internal: keys that are no unsigned integers are skipped, known keys have their type."""
    count, at = _map(body, "packet body")
    for _ in range(count):
        if KIND[body[at]] != _UINT:
            at = mp_next(body, mp_next(body, at))
            continue
        key, at = read_uint(body, at)
        end = mp_next(body, at)
        if key < KEY_MAX:
            if KIND[body[at]] != KEY_TYPE[key]:
                raise _invalid("packet body")
            missing.discard(key)
            _set_dml(request, body, key, at, end)
        at = end


def _set_dml(request: Request, body: bytes, key: int, at: int, end: int) -> None:
    if key in _SLICES:
        setattr(request, _SLICES[key], body[at:end])  # type: ignore[index]
    elif key in _NUMBERS:
        setattr(request, _NUMBERS[key], read_uint(body, at)[0] & _U32)  # type: ignore[index]
    elif key in _NAMES:
        setattr(request, _NAMES[key], read_text(body, at)[0])  # type: ignore[index]
    elif key == Key.FETCH_POSITION:
        request.fetch_position = body[at] == 0xC3
    elif key == Key.AFTER_POSITION:
        request.after_position = read_bytes(body, at)[0]
    elif key == Key.ARROW:
        kind, payload, _ = read_ext(body, at)
        if kind != ExtType.ARROW:
            raise _invalid("packet body")
        request.arrow = payload


# ---- the other requests ---------------------------------------------------------------------------


_CALL_KEYS = (Key.FUNCTION_NAME, Key.EXPR, Key.TUPLE, Key.TUPLE_FORMATS)


def _decode_call(request: Request) -> None:
    """xrow_decode_call: CALL, CALL_16 and EVAL."""
    seen = set()
    for key, kind, at, end in _fields(request.row.body, "missing request body", "packet body"):
        if key not in _CALL_KEYS:
            continue
        if kind != KEY_TYPE[key]:
            raise _invalid("packet body")
        seen.add(key)
        body = request.row.body
        if key == Key.FUNCTION_NAME:
            request.function = read_text(body, at)[0]
        elif key == Key.EXPR:
            request.expr = read_text(body, at)[0]
        elif key == Key.TUPLE:
            request.args = body[at:end]
        else:
            request.tuple_formats = body[at:end]
    needed = Key.EXPR if request.type == Type.EVAL else Key.FUNCTION_NAME
    if needed not in seen:
        raise _missing(needed)


def _decode_auth(request: Request) -> None:
    """xrow_decode_auth; the scramble is judged later, by the method that it names."""
    has_user = False
    for key, kind, at, end in _fields(request.row.body, "missing request body", "packet body"):
        if key == Key.USER_NAME:
            if kind != MpType.STR:
                raise _invalid("packet body")
            request.user, has_user = read_text(request.row.body, at)[0], True
        elif key == Key.TUPLE:
            if kind != MpType.ARRAY:
                raise _invalid("packet body")
            request.tuple = request.row.body[at:end]
    if not has_user:
        raise _missing(Key.USER_NAME)
    if request.tuple is None:
        raise _missing(Key.TUPLE)


def _decode_id(request: Request) -> None:
    """xrow_decode_id. Features that we do not know are not an error."""
    body = request.row.body
    for key, kind, at, _ in _fields(body, "request body", "request body"):
        if key < KEY_MAX and kind != KEY_TYPE[key]:
            raise _invalid("request body")
        if key == Key.VERSION:
            request.version = read_uint(body, at)[0]
        elif key == Key.FEATURES:
            request.features |= _features(body, at)


def _features(body: bytes, at: int) -> frozenset[int]:
    count, at = read_length(body, at)
    found = set()
    for _ in range(count):
        if KIND[body[at]] != _UINT:
            raise _invalid("request body")
        feature, at = read_uint(body, at)
        found.add(feature)
    return frozenset(found)


def _decode_watch(request: Request) -> None:
    """xrow_decode_watch. Only here a key that is declared without a type may have any."""
    body = request.row.body
    has_key = False
    for key, kind, at, end in _fields(body, "missing request body", "packet body"):
        if key < KEY_MAX and KEY_TYPE[key] not in (MpType.NIL, kind):
            raise _invalid("packet body")
        if key == Key.EVENT_KEY:
            request.event_key, has_key = read_text(body, at)[0], True
        elif key == Key.EVENT_DATA:
            request.event_data = body[at:end]
    if not has_key:
        raise _missing(Key.EVENT_KEY)


def _decode_transaction(request: Request) -> None:
    """xrow_decode_begin and xrow_decode_commit: both take no body, too."""
    body = request.row.body
    if not body:
        return
    for key, kind, at, _ in _fields(body, "request body", "request body"):
        if key < KEY_MAX and kind != KEY_TYPE[key]:
            raise _invalid("request body")
        if key == Key.IS_SYNC:
            if body[at] != 0xC3:
                raise IllegalParams("is_sync can only be true")
            request.is_sync = True
        elif request.type == Type.BEGIN and key == Key.TIMEOUT:
            request.timeout = read_double(body, at)[0]
        elif request.type == Type.BEGIN and key == Key.TXN_ISOLATION:
            request.isolation = read_uint(body, at)[0] & _U32


def _decode_sql(request: Request) -> None:
    """xrow_decode_sql, which looks at the first byte of a key only."""
    body = request.row.body
    if not body:
        raise _invalid("missing request body")
    count, at = _map(body, "packet body")
    for _ in range(count):
        key = body[at]
        at = mp_next(body, at)
        end = mp_next(body, at)
        if key == Key.SQL_TEXT:
            request.sql_text = body[at:end]
        elif key == Key.SQL_BIND:
            request.sql_bind = body[at:end]
        elif key == Key.STMT_ID:
            request.stmt_id = body[at:end]
        at = end
    if request.sql_text is not None and request.stmt_id is not None:
        raise _invalid("SQL text and statement id are incompatible options in one request: choose one")
    if request.sql_text is None and request.stmt_id is None:
        raise er(Er.MISSING_REQUEST_FIELD, f"{Key.SQL_TEXT.name} or {Key.STMT_ID.name}")


_DECODERS: dict[int, Callable[[Request], None]] = {
    Type.SELECT: _client_dml,
    Type.INSERT: _client_dml,
    Type.REPLACE: _client_dml,
    Type.UPDATE: _client_dml,
    Type.DELETE: _client_dml,
    Type.UPSERT: _client_dml,
    Type.INSERT_ARROW: _client_dml,
    Type.CALL: _decode_call,
    Type.CALL_16: _decode_call,
    Type.EVAL: _decode_call,
    Type.AUTH: _decode_auth,
    Type.ID: _decode_id,
    Type.WATCH: _decode_watch,
    Type.UNWATCH: _decode_watch,
    Type.WATCH_ONCE: _decode_watch,
    Type.BEGIN: _decode_transaction,
    Type.COMMIT: _decode_transaction,
    Type.ROLLBACK: _nothing,
    Type.EXECUTE: _decode_sql,
    Type.PREPARE: _decode_sql,
    Type.PING: _nothing,
    Type.VOTE: _nothing,
    Type.VOTE_DEPRECATED: _nothing,
    Type.JOIN: _nothing,
    Type.SUBSCRIBE: _nothing,
    Type.FETCH_SNAPSHOT: _nothing,
    Type.REGISTER: _nothing,
}
"""What iproto_msg_decode knows. NOP and DELETE_RANGE come in logs and from peers only."""


# ---- pieces ---------------------------------------------------------------------------------------


def _fields(body: bytes, absent: str, malformed: str) -> Iterator[tuple[int, int, int, int]]:
    """(key, kind of the value, its offset, its end) for each pair of a body whose keys must be unsigned integers."""
    if not body:
        raise _invalid(absent)
    count, at = _map(body, malformed)
    for _ in range(count):
        if KIND[body[at]] != _UINT:
            raise _invalid(malformed)
        key, at = read_uint(body, at)
        end = mp_next(body, at)
        yield key, KIND[body[at]], at, end
        at = end


def _map(body: bytes, malformed: str) -> tuple[int, int]:
    if KIND[body[0]] != MpType.MAP:
        raise _invalid(malformed)
    return read_length(body, 0)


def _invalid(details: str) -> BoxError:
    return er(Er.INVALID_MSGPACK, details)


def _missing(key: Key) -> BoxError:
    return er(Er.MISSING_REQUEST_FIELD, key_name(key))
