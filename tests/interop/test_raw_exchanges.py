"""Raw exchanges whose answers are known from Tarantool's own result file (test/box-py/iproto.result): invalid
lengths, missing keys, every width of a string, schema versions, syncs, wrong packets, ID, watchers, pagination.

The names of the tests tell which part of that file they stand for; JOIN and vinyl, which it also touches, are refused
by name here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import iproto
from tests.support.fixtures import Servers
from tests.support.process import Server
from tests.support.subjects import STAND_IN

only_3x = pytest.mark.skipif(STAND_IN, reason="2.6.0 knows no such request")

SPACE = 567


@pytest.fixture(scope="module")
def server(module_servers: Servers) -> Iterator[Server]:
    with module_servers.subject().start() as made:
        yield made


@pytest.fixture
def connection(server: Server) -> Iterator[iproto.Connection]:
    with iproto.Connection(*server.address) as made:
        yield made


@pytest.fixture
def hash_space(server: Server) -> Iterator[int]:
    yield from space(server, "hash", [[0, "unsigned"]])


@pytest.fixture
def string_space(server: Server) -> Iterator[int]:
    yield from space(server, "hash", [[0, "string"]])


@pytest.fixture
def tree_space(server: Server) -> Iterator[int]:
    yield from space(server, "tree", [[0, "unsigned"]])


def space(server: Server, kind: str, parts: list[Any]) -> Iterator[int]:
    with iproto.Connection(*server.address) as connection:
        iproto.create_space(connection, SPACE, "test", indexes=[["primary", kind, {"unique": True}, parts]])
        yield SPACE
        connection.ask(iproto.DELETE, {iproto.SPACE_ID: 288, iproto.KEY: [SPACE, 0]})
        connection.ask(iproto.DELETE, {iproto.SPACE_ID: 280, iproto.KEY: [SPACE]})


def alive(server: Server) -> bool:
    with iproto.Connection(*server.address) as connection:
        return connection.ask(iproto.PING).answer() == ("ok", None)


def test_bug_899343_invalid_length(server: Server, connection: iproto.Connection) -> None:
    connection.send(struct.pack("<LLL", 1, 4294967290, 1))
    assert alive(server)


MISSING = [
    (iproto.SELECT, {iproto.SPACE_ID: 280}),
    (iproto.DELETE, {iproto.SPACE_ID: 280}),
    (iproto.UPDATE, {iproto.SPACE_ID: 280}),
    (iproto.UPDATE, {iproto.SPACE_ID: 280, iproto.KEY: [1]}),
    (iproto.REPLACE, {iproto.SPACE_ID: 280}),
    (iproto.CALL, {}),
    (iproto.CALL, {iproto.KEY: ["procname"]}),
]


@pytest.mark.parametrize(("type_", "body"), MISSING)
def test_gh_206_missing_fields(server: Server, connection: iproto.Connection, type_: int, body: dict[int, Any]) -> None:
    reply = connection.ask(type_, body)
    if (type_, body) != MISSING[0]:  # a SELECT without key selects everything
        assert reply.failed
        assert reply.code in (69, 19, 20), reply.answer()
    assert alive(server)


@pytest.mark.usefixtures("hash_space")
def test_gh_434_requests_in_one_packet(connection: iproto.Connection) -> None:
    def insert(n: int, text: str) -> tuple[int, dict[int, Any]]:
        return iproto.INSERT, {iproto.SPACE_ID: SPACE, iproto.TUPLE: [n, text]}

    def select(n: int) -> tuple[int, dict[int, Any]]:
        key = {iproto.INDEX_ID: 0, iproto.KEY: [n], iproto.OFFSET: 0, iproto.LIMIT: 1, iproto.ITERATOR: 0}
        return iproto.SELECT, {iproto.SPACE_ID: SPACE, **key}

    pairs = [
        ([insert(1, "baobab"), insert(2, "obbaba")], [[1, "baobab"], [2, "obbaba"]]),
        ([insert(3, "occama"), select(1)], [[3, "occama"], [1, "baobab"]]),
        ([select(2), insert(4, "ockham")], [[2, "obbaba"], [4, "ockham"]]),
        ([select(1), select(2)], [[1, "baobab"], [2, "obbaba"]]),
    ]
    for requests, rows in pairs:
        assert [reply.data for reply in connection.pipeline(requests)] == [[row] for row in rows]


WIDTHS = [
    (1, b"\xa1", b"\xd9\x01", b"\xda\x00\x01", b"\xdb\x00\x00\x00\x01"),
    (31, b"\xbf", b"\xd9\x1f", b"\xda\x00\x1f", b"\xdb\x00\x00\x00\x1f"),
    (32, b"\xd9\x20", b"\xda\x00\x20", b"\xdb\x00\x00\x00\x20"),
    (255, b"\xd9\xff", b"\xda\x00\xff", b"\xdb\x00\x00\x00\xff"),
    (256, b"\xda\x01\x00", b"\xdb\x00\x00\x01\x00"),
    (65535, b"\xda\xff\xff", b"\xdb\x00\x00\xff\xff"),
    (65536, b"\xdb\x00\x01\x00\x00"),
]


@pytest.mark.usefixtures("string_space")
@pytest.mark.parametrize("widths", WIDTHS, ids=lambda widths: f"str{widths[0]}")
def test_gh_522_widths_of_strings(connection: iproto.Connection, widths: tuple[Any, ...]) -> None:
    """A string stored in any width of its length is found by every other."""
    size, *heads = widths
    text = b"*" * size
    for head in heads:
        body = b"\x82\x10" + iproto.pack(SPACE) + b"\x21\x91" + head + text
        assert connection.ask(iproto.INSERT, body).data == [[text.decode()]]
        for other in heads:
            body = b"\x83\x10" + iproto.pack(SPACE) + b"\x20\x91" + other + text + b"\x12\x64"
            assert connection.ask(iproto.SELECT, body).data == [[text.decode()]]
        assert connection.ask(iproto.DELETE, {iproto.SPACE_ID: SPACE, iproto.KEY: [text.decode()]}).data


@pytest.mark.usefixtures("string_space")
def test_schema_version_in_requests(connection: iproto.Connection) -> None:
    """0 or none is not checked; another one than the server's is an error that tells the right one."""
    body = {
        iproto.SPACE_ID: SPACE,
        iproto.INDEX_ID: 0,
        iproto.KEY: [],
        iproto.ITERATOR: 2,
        iproto.OFFSET: 0,
        iproto.LIMIT: 1,
    }

    def ask(version: int | None) -> iproto.Reply:
        header: dict[int, object] = {iproto.REQUEST_TYPE: iproto.SELECT}
        if version is not None:
            header[iproto.SCHEMA_VERSION] = version
        connection.send(iproto.frame(header, body))
        return connection.read_reply()

    first = ask(None)
    version = first.header[iproto.SCHEMA_VERSION]
    assert not first.failed
    assert version > 0
    for given, good in ((0, True), (version, True), (version + 1, False)):
        reply = ask(given)
        assert reply.failed is not good
        assert reply.header[iproto.SCHEMA_VERSION] == version
    assert ask(version + 1).code == 109
    iproto.create_space(connection, 568, "test2", indexes=[])
    changed = ask(version)
    assert changed.failed
    assert changed.header[iproto.SCHEMA_VERSION] != version
    connection.ask(iproto.DELETE, {iproto.SPACE_ID: 280, iproto.KEY: [568]})


def test_gh_2334_sync_in_the_answer_to_join(connection: iproto.Connection) -> None:
    """Also when it is refused."""
    connection.send(iproto.frame({iproto.REQUEST_TYPE: iproto.JOIN, iproto.SYNC: 2334}, {0x24: "unknown"}))
    reply = connection.read_reply()
    assert reply.failed
    assert reply.sync == 2334


def test_gh_272_gh_1654_wrong_packets_keep_the_connection(server: Server) -> None:
    connection = iproto.Connection(*server.address)
    with connection:
        connection.send(iproto.frame({"hello": "world"}, {"bug": 272}))  # type: ignore[dict-item]
        reply = connection.read_reply()
        assert (reply.sync, reply.code, reply.message) == (0, 20, "Invalid MsgPack - packet header")
        connection.send(iproto.frame({iproto.REQUEST_TYPE: iproto.SELECT, iproto.SYNC: 1234}, {"bug": 272}))  # type: ignore[dict-item]
        reply = connection.read_reply()
        assert reply.sync == 1234
        if not STAND_IN:
            assert reply.message == "Missing mandatory field 'SPACE_ID' in request"
        good = {iproto.SPACE_ID: 304, iproto.KEY: [], iproto.LIMIT: 1}
        connection.send(iproto.frame({iproto.REQUEST_TYPE: iproto.SELECT, iproto.SYNC: 5678}, good))
        reply = connection.read_reply()
        assert reply.sync == 5678
        assert len(reply.data) == 1


@pytest.mark.usefixtures("hash_space")
def test_index_base_of_update_and_upsert(connection: iproto.Connection) -> None:
    assert connection.insert(SPACE, [1, 0, 0, 0]) == [[1, 0, 0, 0]]
    ops = [["+", 2, 1], ["-", 3, 1]]
    key = {iproto.SPACE_ID: SPACE, iproto.INDEX_ID: 0}
    assert connection.ask(iproto.UPDATE, {**key, iproto.KEY: [1], iproto.TUPLE: ops}).data == [[1, 0, 1, -1]]
    upsert = {iproto.SPACE_ID: SPACE, iproto.TUPLE: [1, 0, 0, 0], iproto.OPS: ops}
    assert connection.ask(iproto.UPSERT, upsert).data == []
    assert connection.select(SPACE, [1], iterator=iproto.EQ) == [[1, 0, 2, -2]]


def test_gh_2619_call_without_arguments(connection: iproto.Connection) -> None:
    reply = connection.ask(iproto.CALL, {iproto.FUNCTION_NAME: "box.info"})
    assert not reply.failed
    assert isinstance(reply.data[0], dict)


@only_3x
@pytest.mark.parametrize(
    "body",
    [{iproto.VERSION: "abc"}, {iproto.FEATURES: ["abc"]}, {iproto.AUTH_TYPE: 123}],
    ids=["version", "features", "auth_type"],
)
def test_gh_6253_invalid_id(connection: iproto.Connection, body: dict[int, Any]) -> None:
    assert connection.ask(iproto.ID, body).answer() == ("error", 20, "Invalid MsgPack - request body")


@only_3x
@pytest.mark.parametrize("body", [{}, {iproto.VERSION: 99999999, iproto.FEATURES: [99999999]}, {0xDEAD: "foobar"}])
def test_gh_6253_id(connection: iproto.Connection, body: dict[int, Any]) -> None:
    reply = connection.ask(iproto.ID, body)
    assert reply.body == {
        iproto.VERSION: 10,
        iproto.FEATURES: list(range(13)),
        iproto.AUTH_TYPE: "chap-sha1",
    }


def watch(connection: iproto.Connection, key: str, sync: int) -> None:
    connection.send(iproto.request(iproto.WATCH, {iproto.EVENT_KEY: key}, sync))


def unwatch(connection: iproto.Connection, key: str) -> None:
    connection.send(iproto.request(iproto.UNWATCH, {iproto.EVENT_KEY: key}))


def event(connection: iproto.Connection) -> tuple[Any, ...]:
    reply = connection.read_reply()
    assert reply.type == iproto.EVENT, reply
    return reply.body[iproto.EVENT_KEY], reply.body.get(iproto.EVENT_DATA), reply.sync


def no_event(connection: iproto.Connection) -> None:
    """The next thing that comes is the answer to a ping."""
    assert connection.ask(iproto.PING).answer() == ("ok", None)


@only_3x
def test_gh_6257_watchers(server: Server, connection: iproto.Connection) -> None:
    assert connection.ask(iproto.WATCH, {}).answer() == ("error", 69, "Missing mandatory field 'EVENT_KEY' in request")
    assert connection.ask(iproto.WATCH, {iproto.EVENT_KEY: 123}).answer() == (
        "error",
        20,
        "Invalid MsgPack - packet body",
    )
    with iproto.Connection(*server.address) as admin:
        watch(connection, "foo", 1)
        assert event(connection) == ("foo", None, 1)
        watch(connection, "bar", 2)
        assert event(connection) == ("bar", None, 2)
        unwatch(connection, "bar")
        watch(connection, "bar", 3)
        assert event(connection) == ("bar", None, 3)
        admin.call("box.broadcast", "foo", [1, 2, 3])
        no_event(connection)
        watch(connection, "foo", 4)
        assert event(connection) == ("foo", [1, 2, 3], 4)
        watch(connection, "bar", 5)
        admin.call("box.broadcast", "bar", 123)
        assert event(connection) == ("bar", 123, 5)
        admin.call("box.broadcast", "bar", 456)
        unwatch(connection, "bar")
        no_event(connection)
        for key in ("foo", "bar"):
            admin.call("box.broadcast", key, None)


@only_3x
def test_gh_6493_watch_once(server: Server, connection: iproto.Connection) -> None:
    def ask(body: dict[int, Any], **more: int) -> iproto.Reply:
        header: dict[int, object] = {iproto.REQUEST_TYPE: iproto.WATCH_ONCE, iproto.SYNC: 1001}
        header |= {iproto.SCHEMA_VERSION: more["version"]} if "version" in more else {}
        header |= {iproto.STREAM_ID: more["stream"]} if "stream" in more else {}
        connection.send(iproto.frame(header, body))
        reply = connection.read_reply()
        assert reply.sync == 1001
        return reply

    foo = {iproto.EVENT_KEY: "foo"}
    wrong = ask(foo, version=9999)
    assert wrong.failed
    version = wrong.header[iproto.SCHEMA_VERSION]
    right = ask(foo, version=version)
    assert not right.failed
    assert right.header[iproto.SCHEMA_VERSION] == version
    assert ask(foo, stream=555).message == "Unable to process WATCH_ONCE request in stream"
    assert ask({}).message == "Missing mandatory field 'EVENT_KEY' in request"
    assert ask({iproto.EVENT_KEY: 123}).message == "Invalid MsgPack - packet body"
    assert ask(foo).data == []
    with iproto.Connection(*server.address) as admin:
        admin.call("box.broadcast", "foo", [1, 2, 3])
        assert ask(foo).data == [[1, 2, 3]]
        admin.call("box.broadcast", "foo", None)


@only_3x
@pytest.mark.usefixtures("tree_space")
def test_gh_7639_pagination(connection: iproto.Connection) -> None:
    for n in range(1, 11):
        connection.insert(SPACE, [n, 1])
    base = {iproto.SPACE_ID: SPACE, iproto.KEY: [1], iproto.LIMIT: 2, iproto.ITERATOR: iproto.GE}
    pages = [[[n, 1], [n + 1, 1]] for n in range(1, 11, 2)]
    position: bytes | str | None = None
    for page in pages:
        after = {iproto.AFTER_POSITION: position} if position is not None else {}
        reply = connection.ask(iproto.SELECT, {**base, iproto.FETCH_POSITION: True, **after})
        assert reply.data == page
        position = reply.body[iproto.POSITION]
    last = connection.ask(iproto.SELECT, {**base, iproto.FETCH_POSITION: True, iproto.AFTER_POSITION: position})
    assert last.data == []
    assert iproto.POSITION not in last.body
    row: list[int] | None = None
    for page in pages:
        after_tuple = {iproto.AFTER_TUPLE: row} if row is not None else {}
        reply = connection.ask(iproto.SELECT, {**base, iproto.FETCH_POSITION: False, **after_tuple})
        assert reply.data == page
        row = reply.data[1]
