"""An anonymous replica of a live server, of each kind."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from tests.support.fixtures import Servers
from tests.support.iproto import REPLACE, SPACE_ID, TUPLE, Connection, create_space
from tests.support.process import Server
from tests.support.subjects import snapshot
from tests.support.tarantool import EXECUTABLE
from tests.support.waiting import wait_until

from headwater.client import AnonymousReplica, ConnectionFailed, Cursor, Cutter
from headwater.client.replica import is_gap, is_taken
from headwater.errors import BoxError, Er
from headwater.uri import parse_uri
from headwater.wire.constants import Key, version_id
from headwater.wire.greeting import encode as encode_greeting
from headwater.wire.msgpack import unpack
from headwater.wire.xrow import Row, decode_row

SPACE, SYNC_SPACE = 600, 601
KINDS = [
    "headwater",
    pytest.param("tarantool", marks=pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")),
]


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Server:
    options = {"replication_timeout": 0.2}
    made = servers.tarantool(options=options) if request.param == "tarantool" else servers.subject(**options)
    made.start()
    with Connection(*made.address) as connection:
        create_space(connection, SPACE, "t")
    return made


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., AnonymousReplica]]:
    made: list[AnonymousReplica] = []

    def connect(uuid: object = None) -> AnonymousReplica:
        replica = AnonymousReplica(parse_uri(f"127.0.0.1:{server.port}"), uuid or uuid4(), 10.0)  # type: ignore[arg-type]
        made.append(replica)
        return replica

    yield connect
    for replica in made:
        replica.close()


def write(server: Server, first: int, last: int, space: int = SPACE) -> None:
    with Connection(*server.address) as connection:
        rows = [(REPLACE, {SPACE_ID: space, TUPLE: [key, "x" * 20]}) for key in range(first, last)]
        assert all(reply.data for reply in connection.pipeline(rows))


def rows_in(data: bytes) -> list[Row]:
    found, at = [], 0
    while at < len(data):
        end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        found.append(decode_row(data, at + 5, end, exact=True)[0])
        at = end
    return found


def keys_in(data: bytes, space: int = SPACE) -> list[int]:
    bodies = [unpack(row.body) for row in rows_in(data)]
    return [body[Key.TUPLE][0] for body in bodies if body[Key.SPACE_ID] == space]


def read(replica: AnonymousReplica, cutter: Cutter, rows: int, space: int = SPACE) -> list[int]:
    """Keys of so many rows that come next."""
    found: list[int] = []
    while len(found) < rows:
        for segment in cutter.take(replica.receive()):
            found += keys_in(segment.data, space)
        replica.acknowledge(cutter.vclock, vclock_sync=cutter.vclock_sync)
    return found


def test_a_snapshot_and_the_changes_behind_it_are_everything_once(
    server: Server, connect: Callable[..., AnonymousReplica]
) -> None:
    write(server, 0, 5000)
    replica = connect()
    picture = replica.fetch_snapshot()
    write(server, 5000, 5100)
    parts = list(picture.parts(1000))
    assert [key for part in parts for key in keys_in(part.data)] == list(range(5000))
    assert max(part.rows for part in parts) == 1000
    assert parts[-1].number == picture.rows == sum(part.rows for part in parts)
    assert all(len(rows_in(part.data[part.last :])) == 1 for part in parts)
    vclock = {id: lsn for id, lsn in picture.vclock.items() if id}
    replica.subscribe(replica.replicaset_uuid(), vclock)
    cutter = Cutter(vclock)
    assert read(replica, cutter, 100) == list(range(5000, 5100))
    write(server, 5100, 5110)
    assert read(replica, cutter, 10) == list(range(5100, 5110))
    assert cutter.vclock == dict(connect().ballot().vclock)


def test_the_link_lives_while_nothing_is_read_as_long_as_it_is_acknowledged(
    server: Server, connect: Callable[..., AnonymousReplica]
) -> None:
    replica, silent = connect(), connect()
    for each in (replica, silent):
        each.subscribe(each.replicaset_uuid(), {})
    rows = 200_000
    with Connection(*server.address) as connection:
        wide = [(REPLACE, {SPACE_ID: SPACE, TUPLE: [key, "x" * 100]}) for key in range(1000)]
        for _ in range(rows // 1000):
            connection.pipeline(wide)
            replica.acknowledge({})

    def read_to_the_end() -> None:
        with pytest.raises(ConnectionFailed):  # noqa: PT012
            while True:
                silent.receive()

    thread = threading.Thread(target=read_to_the_end)
    thread.start()

    def silent_is_dropped() -> bool:
        replica.acknowledge({})
        return not thread.is_alive()

    wait_until(silent_is_dropped, 20, "who acknowledges nothing is dropped", 0.1)
    cutter, seen = Cutter({}), 0
    while seen < rows:
        seen += sum(len(keys_in(segment.data)) for segment in cutter.take(replica.receive()))
        replica.acknowledge({})


def test_a_second_connection_of_one_uuid_is_refused_by_a_name(
    server: Server, connect: Callable[..., AnonymousReplica]
) -> None:
    first = connect()
    first.subscribe(first.replicaset_uuid(), {})
    second = connect(first.uuid)
    with pytest.raises(BoxError) as caught:
        second.subscribe(second.replicaset_uuid(), {})
    assert is_taken(caught.value)
    first.close()

    def subscribed() -> bool:
        again = connect(first.uuid)
        with contextlib.suppress(BoxError):
            again.subscribe(again.replicaset_uuid(), {})
            return True
        return False

    wait_until(subscribed, 10, "its place is free once it is gone")


def test_files_that_are_gone_are_a_gap(server: Server, connect: Callable[..., AnonymousReplica]) -> None:
    with Connection(*server.address) as connection:
        for number in range(4):
            write(server, number * 10, number * 10 + 10)
            snapshot(connection)

    def oldest() -> dict[int, int]:
        return dict(connect().ballot().gc_vclock)

    wait_until(lambda: oldest().get(1, 0) > 0, 10, "the oldest log is removed")
    replica = connect()
    with pytest.raises(BoxError) as caught:  # noqa: PT012 - one server refuses, the other one's stream ends
        replica.subscribe(replica.replicaset_uuid(), {})
        cutter = Cutter({})
        while True:
            cutter.take(replica.receive())
    assert is_gap(caught.value)


def test_a_snapshot_goes_on_where_it_was_cut(servers: Servers) -> None:
    server = servers.subject().start()
    with Connection(*server.address) as connection:
        create_space(connection, SPACE, "t")
        write(server, 0, 30_000)
        snapshot(connection)
        write(server, 30_000, 30_010)
    uri, uuid = parse_uri(f"127.0.0.1:{server.port}"), uuid4()
    seen: list[int] = []
    numbers: list[int] = []
    vclock: dict[int, int] = {}
    for stop in (5, 3, None):
        replica = AnonymousReplica(uri, uuid, 10.0)
        assert replica.has_cursor
        cursor = Cursor(vclock, numbers[-1]) if numbers else None
        picture = replica.fetch_snapshot(cursor, from_disk=True)
        vclock = vclock or dict(picture.vclock)
        assert picture.vclock == vclock
        for count, part in enumerate(picture.parts(2000)):
            if count == stop:
                break
            seen += keys_in(part.data)
            assert rows_in(part.data)[-1].lsn == part.number - 1
            numbers.append(part.number)
        replica.close()
    assert picture.is_whole
    assert seen == list(range(30_000))


def test_what_a_quorum_confirms_appears_and_what_is_rolled_back_does_not(servers: Servers) -> None:
    """Of 2.6.0, whose rows do not say that they wait. Our acknowledgements make no quorum."""
    options = {"replication_synchro_quorum": 1, "replication_synchro_timeout": 0.3, "replication_timeout": 0.2}
    server = servers.tarantool(options=options).start()
    with Connection(*server.address) as connection:
        create_space(connection, SPACE, "t")
        create_space(connection, SYNC_SPACE, "s", options={"is_sync": True})
        replica = AnonymousReplica(parse_uri(f"127.0.0.1:{server.port}"), uuid4(), 10.0)
        replica.subscribe(replica.replicaset_uuid(), {})
        cutter = Cutter({}, sync_spaces=[] if replica.must_be_told_sync else None)
        connection.replace(SYNC_SPACE, [1])
        connection.eval("box.cfg{replication_synchro_quorum = 3}")
        refused = connection.ask(REPLACE, {SPACE_ID: SYNC_SPACE, TUPLE: [2]})
        assert refused.code == Er.SYNC_QUORUM_TIMEOUT
        connection.eval("box.cfg{replication_synchro_quorum = 1}")
        connection.replace(SYNC_SPACE, [3])
        connection.replace(SPACE, [4])
    found: list[int] = []
    while 4 not in found:
        for segment in cutter.take(replica.receive()):
            found += keys_in(segment.data, SYNC_SPACE) + keys_in(segment.data)
        replica.acknowledge(cutter.seen)
    replica.close()
    assert found == [1, 3, 4]
    assert cutter.pending == 0


def test_a_server_that_knows_no_anonymous_replicas_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            link, _ = listener.accept()
            with link:
                link.sendall(encode_greeting(version_id(1, 10, 15), uuid4(), bytes(32)))
                link.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(BoxError, match=r"following Tarantool 1\.10\.15 .* no anonymous replicas before 2\.3\.1"):
            AnonymousReplica(parse_uri(f"127.0.0.1:{listener.getsockname()[1]}"), uuid4(), 10.0)
        thread.join()
