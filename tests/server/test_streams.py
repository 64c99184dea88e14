"""Streams: requests in order, transactions over them, what the end of a connection undoes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.box import Box, Client, in_simulation

from headwater.errors import Er
from headwater.txn.base import kernel_of
from headwater.wire.constants import Key, Type


def begin(client: Client, stream: int = 1, **options: Any) -> None:
    body = {Key[name.upper()]: value for name, value in options.items()}
    reply = client.ask(Type.BEGIN, body or None, stream)
    assert reply.code is None, reply.message


def test_a_transaction_is_seen_when_it_is_committed(box: Box) -> None:
    one, two = box.connect(), box.connect()
    begin(one)
    one.insert(1, "a", stream=1)
    assert one.replies()[0].data == [[1, "a"]], "statements that are not prepared wait for nobody"
    one.select(1, stream=1)
    assert one.replies()[0].data == [[1, "a"]]
    two.select(1)
    one.select(1)
    assert two.replies()[0].data == one.replies()[0].data == []
    one.send(Type.COMMIT, None, stream=1)
    assert one.replies() == []
    box.journal.write()
    assert one.replies()[0].body == {}
    two.select(1)
    assert two.replies()[0].data == [[1, "a"]]
    assert kernel_of(box.schema.space("t")).fast
    assert box.stats.net.shown(current=True)["STREAMS"]["current"] == 0


def test_pipelined_requests_of_a_stream_run_in_order(client: Client) -> None:
    client.say(
        client.packet(Type.BEGIN, None, 1),
        client.packet(Type.INSERT, {Key.SPACE_ID: 512, Key.TUPLE: [1, "a"]}, 1),
        client.packet(Type.COMMIT, None, 1),
        client.packet(Type.UPDATE, {Key.SPACE_ID: 512, Key.KEY: [1], Key.TUPLE: [["=", 1, "b"]]}, 1),
        client.packet(Type.SELECT, {Key.SPACE_ID: 512, Key.LIMIT: 9, Key.KEY: []}, 1),
        client.packet(Type.PING, None, 2),
    )
    assert [reply.sync for reply in client.replies()] == [1, 2, 6], "another stream does not wait"
    client.box.journal.write()
    assert [reply.sync for reply in client.replies()] == [3]
    client.box.journal.write()
    replies = client.replies()
    assert [reply.sync for reply in replies] == [4, 5]
    assert replies[1].data == [[1, "b"]]


def test_rollback_undoes(client: Client) -> None:
    begin(client)
    client.insert(1, "a", stream=1)
    client.send(Type.ROLLBACK, None, stream=1)
    assert [reply.code for reply in client.replies()] == [None, None]
    client.select(stream=1)
    assert client.replies()[0].data == []


def test_ends_without_a_beginning_do_nothing(client: Client) -> None:
    assert client.ask(Type.COMMIT, None, 1).code is None
    assert client.ask(Type.ROLLBACK, None, 1).code is None


def test_a_second_begin_is_refused(client: Client) -> None:
    begin(client)
    assert client.ask(Type.BEGIN, None, 1).code == Er.ACTIVE_TRANSACTION
    begin(client, stream=2)


def test_an_error_undoes_its_statement_alone(client: Client) -> None:
    begin(client)
    client.insert(1, "a", stream=1)
    client.insert(2, "a", stream=1)
    client.insert(3, "c", stream=1)
    assert [reply.code for reply in client.replies()] == [None, Er.TUPLE_FOUND, None]
    client.send(Type.COMMIT, None, stream=1)
    client.box.journal.write()
    client.select()
    assert client.replies()[-1].data == [[1, "a"], [3, "c"]]


def test_a_conflict_is_told_at_commit_and_ends_the_transaction(box: Box) -> None:
    box.replace("t", 1, "a")
    box.journal.write()
    one, two = box.connect(), box.connect()
    for client in (one, two):
        begin(client)
        client.select(1, stream=1)
        client.replace(1, "mine", stream=1)
        client.replies()
    one.send(Type.COMMIT, None, stream=1)
    box.journal.write()
    assert one.replies()[0].code is None
    two.select(1, stream=1)
    assert two.replies()[0].code == Er.TRANSACTION_CONFLICT
    assert two.ask(Type.COMMIT, None, 1).code == Er.TRANSACTION_CONFLICT
    assert two.ask(Type.COMMIT, None, 1).code is None
    begin(two)


def test_plain_writes_conflict_with_transactions_too(box: Box) -> None:
    box.replace("t", 1, "a")
    box.journal.write()
    one, two = box.connect(), box.connect()
    begin(one)
    one.select(1, stream=1)
    one.replace(2, "b", stream=1)
    one.replies()
    two.replace(1, "other")
    box.journal.write()
    assert one.ask(Type.COMMIT, None, 1).code == Er.TRANSACTION_CONFLICT


def test_when_the_journal_fails_commit_says_so_and_nothing_stays(box: Box) -> None:
    client, reader = box.connect(), box.connect()
    begin(client)
    client.insert(1, "a", stream=1)
    client.replies()
    client.send(Type.COMMIT, None, stream=1)
    begin(reader)
    reader.select(1, stream=1)
    assert reader.replies() == [], "at best effort the answer waits for the journal"
    box.journal.fail()
    assert client.replies()[0].code == Er.WAL_IO
    assert reader.replies()[0].code == Er.TRANSACTION_CONFLICT
    assert box.select("t") == []


def test_levels_of_isolation_over_streams(box: Box) -> None:
    writer = box.connect()
    clients = [box.connect() for _ in range(3)]
    for level, client in enumerate(clients, 1):
        begin(client, txn_isolation=level)
    writer.insert(1, "a")
    for client in clients:
        client.select(1, stream=1)
    committed, confirmed, best = clients
    assert committed.replies()[0].data == [[1, "a"]]
    assert confirmed.replies()[0].data == []
    assert best.replies() == []
    box.journal.write()
    assert best.replies()[0].data == [[1, "a"]]
    confirmed.select(1, stream=1)
    assert confirmed.replies()[0].data == []


def test_what_begin_refuses(client: Client) -> None:
    assert client.ask(Type.BEGIN, {Key.TXN_ISOLATION: 4}, 1).code == Er.UNSUPPORTED
    assert client.ask(Type.BEGIN, {Key.TXN_ISOLATION: 5}, 1).message == "unknown isolation level"
    assert client.ask(Type.BEGIN, {Key.TIMEOUT: -1.0}, 1).message == "timeout must be a number greater than 0"
    assert client.ask(Type.BEGIN, {Key.TIMEOUT: 1}, 1).code == Er.INVALID_MSGPACK
    begin(client)


def test_time_of_a_transaction_is_up() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        begin(client, timeout=1.5)
        client.insert(1, "a", stream=1)
        client.replies()
        await box.world.tasks.sleep(2)
        client.select(1, stream=1)
        assert client.replies()[0].code == Er.TRANSACTION_TIMEOUT
        assert client.ask(Type.COMMIT, None, 1).code == Er.TRANSACTION_TIMEOUT
        begin(client, timeout=1.5)
        assert client.ask(Type.ROLLBACK, None, 1).code is None

    in_simulation(test)


def test_the_end_of_a_connection_undoes_its_transactions(box: Box) -> None:
    client = box.connect()
    for stream in (1, 2):
        begin(client, stream)
        client.insert(stream, str(stream), stream=stream)
        client.replies()
    client.disconnect()
    assert not box.txns.open
    assert kernel_of(box.schema.space("t")).fast
    assert box.select("t") == []


def test_what_was_asked_before_the_end_of_a_connection_is_done(box: Box) -> None:
    client = box.connect()
    client.say(
        client.packet(Type.INSERT, {Key.SPACE_ID: 512, Key.TUPLE: [1, "a"]}, 1),
        client.packet(Type.BEGIN, None, 1),
        client.packet(Type.INSERT, {Key.SPACE_ID: 512, Key.TUPLE: [2, "b"]}, 1),
        client.packet(Type.COMMIT, None, 1),
        client.packet(Type.BEGIN, None, 1),
        client.packet(Type.INSERT, {Key.SPACE_ID: 512, Key.TUPLE: [3, "c"]}, 1),
    )
    client.disconnect()
    box.journal.write()
    box.journal.write()
    assert box.select("t") == [[1, "a"], [2, "b"]]
    assert not box.txns.open
    assert box.server.in_flight == 0


def test_a_quiet_stream_of_many_requests_does_not_nest() -> None:
    async def test(box: Box) -> None:
        box.journal.is_automatic = True
        client = box.connect()
        put = {Key.SPACE_ID: 512}
        client.say(*[client.packet(Type.REPLACE, {**put, Key.TUPLE: [n % 7, str(n % 7)]}, 1) for n in range(3000)])
        answered = client.replies()
        while client.link.is_paused:
            await box.world.tasks.sleep(0)
            answered += client.replies()
        assert [reply.sync for reply in answered] == list(range(1, 3001))

    in_simulation(test)


def test_calls_in_a_stream_are_part_of_its_transaction() -> None:
    async def test(box: Box) -> None:
        async def put(session: Any, txn: Any, id: int) -> str:
            await box.world.tasks.sleep(1)
            box.insert("t", id, str(id), txn=txn)
            return "done"

        box.procedures.named["put"] = put
        client = box.connect()
        begin(client)
        client.send(Type.CALL, {Key.FUNCTION_NAME: "put", Key.TUPLE: [1]}, 1)
        client.insert(2, "two", stream=1)
        client.send(Type.COMMIT, None, 1)
        assert client.replies() == []
        await box.world.tasks.sleep(2)
        assert [reply.sync for reply in client.replies()] == [2, 3]
        box.journal.write()
        assert client.replies()[0].code is None
        assert box.select("t") == [[1, "1"], [2, "two"]]

    in_simulation(test)


def test_a_read_outside_of_a_transaction_looks_again_when_the_journal_fails(box: Box) -> None:
    one, two = box.connect(), box.connect()
    one.insert(1, "a", stream=5)
    two.select(stream=5)
    assert two.replies() == []
    box.journal.fail()
    assert one.replies()[0].code == Er.WAL_IO
    assert two.replies()[0].data == []


def test_a_begin_that_waited_has_begun_when_the_journal_fails(box: Box) -> None:
    """At read-confirmed it waits for what it must not see; what was undone cannot be seen either."""
    box.insert(512, 1, "a")
    box.journal.write()
    one, two = box.connect(), box.connect()
    one.replace(1, "b")
    two.send(Type.BEGIN, {Key.TXN_ISOLATION: 2}, 1)
    assert two.replies() == []
    box.journal.fail()
    assert one.replies()[0].code == Er.WAL_IO
    assert two.replies()[0].code is None
    two.select(1, stream=1)
    assert two.replies()[0].data == [[1, "a"]]
    two.replace(1, "c", stream=1)
    two.send(Type.COMMIT, None, 1)
    box.journal.write()
    assert [reply.code for reply in two.replies()] == [None, None]


@pytest.mark.parametrize("kind", [Type.ID, Type.AUTH, Type.VOTE, Type.WATCH])
def test_requests_of_the_connection_are_refused_in_a_stream(client: Client, kind: Type) -> None:
    body = {Key.EVENT_KEY: "k"} if kind == Type.WATCH else {Key.VERSION: 1}
    assert client.ask(kind, body, 1).code == Er.UNABLE_TO_PROCESS_IN_STREAM
