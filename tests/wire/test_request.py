"""What a malformed request is answered: code and text of 3.x, and the sync that was read before the fault.

Texts were read in iproto.cc and xrow.c (functions named in headwater.wire.request)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BoxError, Er
from headwater.wire import request
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import Ext, pack
from headwater.wire.request import Request
from headwater.wire.xrow import Row

SYNC = 77


def decode(header: object, body: bytes = b"") -> Request:
    data = (header if isinstance(header, bytes) else pack(header)) + body
    return request.decode(b"junk before" + data + b"junk behind", 11, 11 + len(data))


def head(type_: int, **more: Any) -> dict[int, Any]:
    keys: dict[int, Any] = {Key[name.upper()]: value for name, value in more.items()}
    return {Key.REQUEST_TYPE: type_, Key.SYNC: SYNC, **keys}


def refused(header: object, body: bytes = b"") -> BoxError:
    found = decode(header, body)
    assert found.error is not None, found
    return found.error


# ---- lengths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "length", [b"\x05", b"\xcc\x05", b"\xcd\x00\x05", b"\xce\0\0\0\x05", b"\xcf\0\0\0\0\0\0\0\x05"]
)
def test_length_of_any_width_is_taken(length: bytes) -> None:
    data = b"??" + length + b"12345" + b"next"
    assert request.split(data, 2, len(data)) == (2 + len(length), 2 + len(length) + 5)


@pytest.mark.parametrize("have", range(10))
def test_incomplete_packet_waits(have: int) -> None:
    data = b"\xce\0\0\0\x05" + b"12345"
    assert request.split(data[:have], 0, have) is None
    assert request.split(data, 0, have) is None


@pytest.mark.parametrize("first", [0x80, 0x90, 0xA0, 0xC0, 0xC1, 0xCA, 0xCB, 0xD0, 0xD3, 0xDC, 0xFF])
def test_length_that_is_no_unsigned_integer(first: int) -> None:
    with pytest.raises(BoxError, match=r"^Invalid MsgPack - packet length$") as caught:
        request.split(bytes((first,)) * 9, 0, 9)
    assert caught.value.code == Er.INVALID_MSGPACK


def test_length_above_the_limit() -> None:
    with pytest.raises(BoxError, match=r"^Invalid MsgPack - too big packet size in the header: 65537$"):
        request.split(b"\xce\x00\x01\x00\x01", 0, 5, limit=65536)
    assert request.split(b"\xce\x00\x01\x00\x00", 0, 5, limit=65536) is None
    with pytest.raises(BoxError, match=r"header: 18446744073709551615$"):
        request.split(b"\xcf" + b"\xff" * 8, 0, 9)


# ---- headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"\x90",
        b"\x81",
        b"\x81\x00",
        b"\x81\xa1a\x01",
        b"\x81\xc0\x01",
        pack({Key.REQUEST_TYPE: "1"}),
        pack({Key.SYNC: -1}),
        pack({Key.TIMESTAMP: 1}),
        b"\x81\x04\xca\0\0\0\0",
        pack({0x0C: 1}),
        pack({0x16: 1}),
        pack({Key.SPACE_ID: "x"}),
        b"\xc1",
        b"\xdf\xff\xff\xff\xff\x00",
    ],
)
def test_header_that_is_malformed(header: bytes) -> None:
    error = refused(header)
    assert (error.code, error.message) == (Er.INVALID_MSGPACK, "Invalid MsgPack - packet header")


def test_sync_read_before_the_fault_is_kept() -> None:
    found = decode({Key.SYNC: SYNC, Key.REQUEST_TYPE: "no"})
    assert found.sync == SYNC
    assert found.error is not None


def test_keys_from_0x65_on_are_skipped_in_headers() -> None:
    found = decode({Key.REQUEST_TYPE: Type.PING, 0x65: "x", 1 << 40: [1, {2: 3}], Key.SYNC: SYNC})
    assert found.error is None
    assert found.sync == SYNC


def test_known_key_that_no_header_has_is_skipped() -> None:
    assert decode({Key.REQUEST_TYPE: Type.PING, Key.SPACE_ID: 1, Key.TUPLE: [1], Key.EVENT_DATA: None}).error is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x92\x01", ["truncated input"]),
        (b"\x91\xc1", ["illegal code"]),
        (b"\x91\xd4\x01\x00", ["invalid extension", "cannot unpack decimal"]),
        (b"\x91\xd5\x02\x00\x00", ["invalid extension", "cannot unpack uuid"]),
    ],
)
def test_body_that_is_no_messagepack_names_body_and_cause(body: bytes, words: list[str]) -> None:
    error = refused(head(Type.PING), body)
    assert [one.message for one in error.stack()] == [f"Invalid MsgPack - {text}" for text in ("packet body", *words)]
    assert {one.code for one in error.stack()} == {Er.INVALID_MSGPACK}


def test_junk_behind_the_body() -> None:
    error = refused(head(Type.PING), b"\x80\x80")
    assert error.message == "Invalid MsgPack - packet body"
    assert error.cause is not None
    assert error.cause.message == "Invalid MsgPack - junk after input"


def test_nop_with_a_body() -> None:
    assert refused(head(Type.NOP), b"\x80").message == "Invalid MsgPack - junk after packet body"


@pytest.mark.parametrize(
    "type_", [0, 12, 18, 19, 25, 30, 31, 32, 40, 41, 71, 72, 76, 78, 100, 127, 128, 0x8000, 2**32 - 1]
)
def test_unknown_type(type_: int) -> None:
    error = refused(head(type_))
    assert (error.code, error.message) == (Er.UNKNOWN_REQUEST_TYPE, f"Unknown request type {type_}")


# ---- streams and threads --------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [Type.BEGIN, Type.COMMIT, Type.ROLLBACK])
def test_transaction_control_needs_a_stream(type_: Type) -> None:
    error = refused(head(type_))
    assert error.code == Er.UNABLE_TO_PROCESS_OUT_OF_STREAM
    assert error.message == f"Unable to process {type_.name} request out of stream"
    assert decode(head(type_, stream_id=1)).error is None


@pytest.mark.parametrize(
    ("type_", "name"),
    [(Type.AUTH, "AUTH"), (Type.ID, "ID"), (Type.WATCH, "WATCH"), (Type.JOIN, "JOIN"), (90, "(null)"), (20, "(null)")],
)
def test_some_types_may_not_stand_in_a_stream(type_: int, name: str) -> None:
    error = refused(head(type_, stream_id=5))
    assert error.code == Er.UNABLE_TO_PROCESS_IN_STREAM
    assert error.message == f"Unable to process {name} request in stream"


def test_ping_may_stand_in_a_stream() -> None:
    assert decode(head(Type.PING, stream_id=5)).error is None


def test_thread_that_does_not_exist() -> None:
    error = refused(head(Type.PING, thread_id=1))
    assert (error.code, error.message) == (Er.NO_SUCH_THREAD, "Thread does not exist")
    assert error.fields["thread_id"] == 1
    assert decode(head(Type.PING, thread_id=0)).error is None


# ---- DML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "body", "field"),
    [
        (Type.SELECT, {}, "SPACE_ID"),
        (Type.SELECT, {Key.SPACE_ID: 1, Key.KEY: []}, "LIMIT"),
        (Type.SELECT, {Key.SPACE_ID: 1, Key.LIMIT: 1}, "KEY"),
        (Type.SELECT, {Key.SPACE_NAME: "s", Key.LIMIT: 1}, "KEY"),
        (Type.INSERT, {Key.SPACE_ID: 1}, "TUPLE"),
        (Type.REPLACE, {Key.TUPLE: [1]}, "SPACE_ID"),
        (Type.UPDATE, {Key.SPACE_ID: 1, Key.TUPLE: []}, "KEY"),
        (Type.UPDATE, {Key.SPACE_ID: 1, Key.KEY: []}, "TUPLE"),
        (Type.DELETE, {Key.SPACE_ID: 1}, "KEY"),
        (Type.UPSERT, {Key.SPACE_ID: 1}, "TUPLE"),
        (Type.UPSERT, {Key.SPACE_ID: 1, Key.TUPLE: []}, "OPS"),
        (Type.INSERT_ARROW, {Key.SPACE_ID: 1}, "ARROW"),
    ],
)
def test_mandatory_field_is_missing(type_: Type, body: dict[int, Any], field: str) -> None:
    error = refused(head(type_), pack(body))
    assert (error.code, error.message) == (Er.MISSING_REQUEST_FIELD, f"Missing mandatory field '{field}' in request")


@pytest.mark.parametrize("type_", [Type.SELECT, Type.INSERT, Type.UPSERT])
def test_no_body_is_a_missing_space(type_: Type) -> None:
    assert refused(head(type_)).message == "Missing mandatory field 'SPACE_ID' in request"


@pytest.mark.parametrize(
    "body",
    [
        [],
        {Key.SPACE_ID: "1"},
        {Key.SPACE_ID: -1},
        {Key.TUPLE: {}},
        {Key.KEY: 1},
        {Key.LIMIT: 1.5},
        {Key.FETCH_POSITION: 1},
        {Key.AFTER_POSITION: None},
        {Key.SPACE_NAME: b"x"},
        {Key.TIMEOUT: 1},
        {0x0C: 1},
        {Key.EVENT_DATA: 1},
        {Key.ARROW: Ext(9, b"x")},
    ],
)
def test_body_with_a_value_of_a_wrong_type(body: object) -> None:
    assert refused(head(Type.SELECT), pack(body)).message == "Invalid MsgPack - packet body"


def test_keys_that_are_no_unsigned_integers_and_unknown_ones_are_skipped() -> None:
    body = {"a": [1], -1: {}, None: 2, 0x65: "x", 2**63: 1, Key.SPACE_ID: 5, Key.KEY: [1], Key.LIMIT: 9}
    found = decode(head(Type.SELECT), pack(body))
    assert found.error is None
    assert (found.space_id, found.key, found.limit) == (5, b"\x91\x01", 9)


def test_everything_of_a_select() -> None:
    body = {
        Key.SPACE_NAME: "space",
        Key.INDEX_NAME: "index",
        Key.INDEX_ID: 3,
        Key.LIMIT: 0xFFFFFFFF,
        Key.OFFSET: 7,
        Key.ITERATOR: 5,
        Key.KEY: [1, "é"],
        Key.FETCH_POSITION: True,
        Key.AFTER_POSITION: "pos",
        Key.AFTER_TUPLE: [9],
    }
    found = decode(head(Type.SELECT, stream_id=4), pack(body))
    assert found.error is None
    assert (found.space_name, found.index_name, found.index_id) == ("space", "index", 3)
    assert (found.limit, found.offset, found.iterator) == (0xFFFFFFFF, 7, 5)
    assert (found.key, found.fetch_position) == (pack([1, "é"]), True)
    assert (found.after_position, found.after_tuple) == (b"pos", b"\x91\x09")
    assert (found.type, found.sync, found.stream_id) == (Type.SELECT, SYNC, 4)


def test_last_one_of_a_key_that_comes_twice_counts() -> None:
    body = b"\x84" + bytes((Key.SPACE_ID,)) + b"\x01" + bytes((Key.KEY,)) + b"\x90"
    body += bytes((Key.SPACE_ID,)) + b"\x02" + bytes((Key.KEY,)) + b"\x91\x05"
    found = decode(head(Type.DELETE), body)
    assert (found.error, found.space_id, found.key) == (None, 2, b"\x91\x05")


def test_row_of_a_log_is_no_client_request() -> None:
    """There a space has an id, and NOP and DELETE_RANGE exist."""
    named = Row(Type.DELETE, body=pack({Key.SPACE_NAME: "s", Key.KEY: []}))
    with pytest.raises(BoxError, match="Missing mandatory field 'SPACE_ID' in request"):
        request.of_row(named)
    body = {Key.SPACE_ID: 1, Key.BEGIN_KEY: [1], Key.END_KEY: [2]}
    found = request.of_row(Row(Type.DELETE_RANGE, body=pack(body)))
    assert (found.begin_key, found.end_key) == (b"\x91\x01", b"\x91\x02")
    assert request.of_row(Row(Type.NOP)).error is None
    with pytest.raises(BoxError, match="Unknown request type 64"):
        request.of_row(Row(Type.PING))


# ---- the others -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "body", "text"),
    [
        (Type.CALL, None, "Invalid MsgPack - missing request body"),
        (Type.CALL, [], "Invalid MsgPack - packet body"),
        (Type.CALL, {"a": 1}, "Invalid MsgPack - packet body"),
        (Type.CALL, {Key.FUNCTION_NAME: 1}, "Invalid MsgPack - packet body"),
        (Type.CALL, {Key.FUNCTION_NAME: "f", Key.TUPLE: 1}, "Invalid MsgPack - packet body"),
        (Type.CALL_16, {Key.EXPR: "f"}, "Missing mandatory field 'FUNCTION_NAME' in request"),
        (Type.EVAL, {Key.FUNCTION_NAME: "f"}, "Missing mandatory field 'EXPR' in request"),
        (Type.AUTH, None, "Invalid MsgPack - missing request body"),
        (Type.AUTH, {Key.USER_NAME: 1}, "Invalid MsgPack - packet body"),
        (Type.AUTH, {Key.TUPLE: []}, "Missing mandatory field 'USER_NAME' in request"),
        (Type.AUTH, {Key.USER_NAME: "u"}, "Missing mandatory field 'TUPLE' in request"),
        (Type.ID, None, "Invalid MsgPack - request body"),
        (Type.ID, {"a": 1}, "Invalid MsgPack - request body"),
        (Type.ID, {Key.VERSION: "1"}, "Invalid MsgPack - request body"),
        (Type.ID, {Key.FEATURES: [0, "x"]}, "Invalid MsgPack - request body"),
        (Type.WATCH, None, "Invalid MsgPack - missing request body"),
        (Type.WATCH, {Key.EVENT_KEY: 1}, "Invalid MsgPack - packet body"),
        (Type.UNWATCH, {}, "Missing mandatory field 'EVENT_KEY' in request"),
        (Type.WATCH_ONCE, {Key.SPACE_ID: "x", Key.EVENT_KEY: "k"}, "Invalid MsgPack - packet body"),
        (Type.EXECUTE, None, "Invalid MsgPack - missing request body"),
        (Type.EXECUTE, {}, "Missing mandatory field 'SQL_TEXT or STMT_ID' in request"),
        (
            Type.PREPARE,
            {Key.SQL_TEXT: "", Key.STMT_ID: 1},
            "Invalid MsgPack - SQL text and statement id are incompatible options in one request: choose one",
        ),
    ],
)
def test_other_requests_refused(type_: Type, body: object, text: str) -> None:
    assert refused(head(type_), b"" if body is None else pack(body)).message == text


@pytest.mark.parametrize(
    ("type_", "body", "code", "text"),
    [
        (Type.BEGIN, [], Er.INVALID_MSGPACK, "Invalid MsgPack - request body"),
        (Type.BEGIN, {Key.TIMEOUT: 1}, Er.INVALID_MSGPACK, "Invalid MsgPack - request body"),
        (Type.BEGIN, {Key.TXN_ISOLATION: -1}, Er.INVALID_MSGPACK, "Invalid MsgPack - request body"),
        (Type.COMMIT, {Key.IS_SYNC: False}, Er.ILLEGAL_PARAMS, "is_sync can only be true"),
        (Type.BEGIN, {Key.IS_SYNC: False, "a": 1}, Er.ILLEGAL_PARAMS, "is_sync can only be true"),
    ],
)
def test_transaction_control_refused(type_: Type, body: object, code: Er, text: str) -> None:
    error = refused(head(type_, stream_id=1), pack(body))
    assert (error.code, error.message) == (code, text)


def test_transaction_control_with_options() -> None:
    body = pack({Key.TIMEOUT: 1.5, Key.TXN_ISOLATION: 4, Key.IS_SYNC: True, 0x70: 1})
    found = decode(head(Type.BEGIN, stream_id=1), body)
    assert (found.error, found.timeout, found.isolation, found.is_sync) == (None, 1.5, 4, True)


def test_call_without_arguments_has_none() -> None:
    assert decode(head(Type.CALL), pack({Key.FUNCTION_NAME: "f"})).args == b"\x90"
    found = decode(head(Type.CALL), pack({Key.FUNCTION_NAME: "f", Key.TUPLE: [1], Key.TUPLE_FORMATS: {}}))
    assert (found.function, found.args, found.tuple_formats) == ("f", b"\x91\x01", b"\x80")


def test_watch_takes_data_of_any_type() -> None:
    found = decode(head(Type.WATCH), pack({Key.EVENT_DATA: [1], 0x0C: "any", Key.EVENT_KEY: "k"}))
    assert (found.error, found.event_key, found.event_data) == (None, "k", b"\x91\x01")


def test_id_with_features_of_the_future() -> None:
    found = decode(head(Type.ID), pack({Key.VERSION: 99, Key.FEATURES: [0, 3, 1000], 0x70: 1}))
    assert (found.error, found.version, found.features) == (None, 99, frozenset((0, 3, 1000)))


def test_auth_keeps_name_and_scramble() -> None:
    found = decode(head(Type.AUTH), pack({Key.USER_NAME: "u", Key.TUPLE: ["chap-sha1", "x"]}))
    assert (found.user, found.tuple) == ("u", pack(["chap-sha1", "x"]))


def test_client_packet_is_read_back() -> None:
    packet = request.encode(Type.DELETE, SYNC, pack({Key.SPACE_ID: 1, Key.KEY: [1]}), stream_id=3)
    found = request.split(packet, 0, len(packet))
    assert found == (5, len(packet))
    decoded = request.decode(packet, *found)
    assert (decoded.error, decoded.sync, decoded.stream_id, decoded.key) == (None, SYNC, 3, b"\x91\x01")


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused_by_name(data: bytes) -> None:
    found = request.decode(data, 0, len(data))
    assert found.error is None or isinstance(found.error, BoxError)
