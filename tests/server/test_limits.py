"""What stops reading and what starts it again, what is closed and when, how a node takes leave of its clients."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.box import Box, Client, in_simulation

from headwater.errors import Er
from headwater.server.session import OUTPUT_MAX, TURN_BYTES, TURN_REQUESTS
from headwater.wire.constants import Key, Type


def test_a_client_that_does_not_take_its_replies_is_not_served() -> None:
    async def test(box: Box) -> None:
        box.replace("t", 1, "x" * 100_000)
        box.journal.write()
        client = box.connect()
        packet = client.packet(Type.SELECT, {Key.SPACE_ID: 512, Key.LIMIT: 1, Key.KEY: [1]})
        client.link.pending = OUTPUT_MAX + 1
        client.say(packet * 10)
        assert client.link.is_paused
        assert client.replies() == []
        client.say(packet)
        client.link.pending = 0
        client.session.drained()
        assert len(client.replies()) == 11
        assert not client.link.is_paused

    in_simulation(test)


def test_one_read_makes_no_more_than_bounded_output() -> None:
    async def test(box: Box) -> None:
        box.replace("t", 1, "x" * 1_000_000)
        box.replace("t", 2, "unwritten")
        client = box.connect()
        packet = client.packet(Type.SELECT, {Key.SPACE_ID: 512, Key.LIMIT: 1, Key.KEY: [1]})
        client.say(packet * 200)
        assert client.link.is_paused
        assert client.session.outbox.size < 2.5 * OUTPUT_MAX
        rounds = 0
        answered = 0
        while answered < 200:
            rounds += 1
            assert rounds < 50
            box.journal.write()
            await box.world.tasks.sleep(0)
            answered += len(client.replies())
        assert answered == 200
        assert not client.link.is_paused

    in_simulation(test)


def test_too_many_requests_in_flight_stop_reading_in_turn() -> None:
    async def test(box: Box) -> None:
        box.options.assign({"net_msg_max": 2})
        events = [box.world.tasks.event() for _ in range(8)]

        async def wait(session: Any, txn: Any, number: int) -> int:
            await events[number].wait()
            return number

        box.procedures.named["wait"] = wait
        one, two = box.connect(), box.connect()
        one.say(*[one.packet(Type.CALL, {Key.FUNCTION_NAME: "wait", Key.TUPLE: [n]}) for n in range(5)])
        two.say(two.packet(Type.CALL, {Key.FUNCTION_NAME: "wait", Key.TUPLE: [5]}))
        assert box.server.in_flight == 3
        assert one.link.is_paused
        assert two.link.is_paused
        for event in events:
            event.set()
            await box.world.tasks.sleep(0.01)
        assert [reply.data for reply in one.replies()] == [[n] for n in range(5)]
        assert [reply.data for reply in two.replies()] == [[5]]
        assert box.server.in_flight == 0
        assert not one.link.is_paused
        assert not two.link.is_paused

    in_simulation(test)


def test_all_that_stopped_go_on_even_if_they_ask_for_nothing_that_counts() -> None:
    """More connections were stopped than requests come to an end: each wakes the next one."""

    async def test(box: Box) -> None:
        box.options.assign({"net_msg_max": 2})
        event = box.world.tasks.event()

        async def wait(session: Any, txn: Any) -> None:
            await event.wait()

        box.procedures.named["wait"] = wait
        busy = box.connect()
        others = [box.connect() for _ in range(20)]
        gone = box.connect()
        busy.say(*[busy.packet(Type.CALL, {Key.FUNCTION_NAME: "wait", Key.TUPLE: []}) for _ in range(3)])
        for client in (gone, *others):
            client.send(Type.PING)
            client.session.drained()
            assert client.link.is_paused
        gone.disconnect()
        event.set()
        await box.world.tasks.sleep(0.1)
        assert len(busy.replies()) == 3
        assert [len(client.replies()) for client in others] == [1] * 20
        assert not any(client.link.is_paused for client in others)

    in_simulation(test)


def test_who_asks_much_at_once_gives_way_to_others() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        client.say(*[client.packet(Type.WATCH_ONCE, {Key.EVENT_KEY: "k"}) for _ in range(1000)])
        answered = client.replies()
        assert len(answered) == TURN_REQUESTS
        assert client.link.is_paused
        while client.link.is_paused:
            await box.world.tasks.sleep(0)
            more = client.replies()
            assert len(more) <= TURN_REQUESTS
            answered += more
        assert [reply.sync for reply in answered] == list(range(1, 1001))

    in_simulation(test)


def test_who_sends_much_at_once_gives_way_to_others() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        client.say(client.packet(Type.PING) * (TURN_BYTES // 5))
        assert len(client.replies()) == TURN_BYTES // 5
        assert client.link.is_paused
        await box.world.tasks.sleep(0)
        assert not client.link.is_paused

    in_simulation(test)


def test_a_stream_that_waits_stops_reading_when_enough_has_come() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        put = {Key.SPACE_ID: 512, Key.TUPLE: [1, "x" * 1000]}
        packets = [client.packet(Type.REPLACE, put, stream=1) for _ in range(100)]
        for packet in packets:
            client.say(packet)
        assert client.link.is_paused
        assert client.session.stream_bytes < 2 * box.options.readahead + 2000
        answered = 0
        for _ in range(1000):
            box.journal.write()
            await box.world.tasks.sleep(0)
            answered += len(client.replies())
            if answered == 100:
                break
        assert answered == 100
        assert client.session.stream_bytes == 0
        assert not client.link.is_paused

    in_simulation(test)


def test_a_journal_that_does_not_keep_up_stops_reading() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        box.journal.full = True
        client.send(Type.PING)
        assert client.replies() == []
        assert client.link.is_paused
        box.journal.make_room()
        await box.world.tasks.sleep(0)
        assert len(client.replies()) == 1
        assert not client.link.is_paused

    in_simulation(test)


def test_a_large_packet_is_put_together_once(client: Client) -> None:
    packet = client.packet(Type.REPLACE, {Key.SPACE_ID: 512, Key.TUPLE: [1, "x" * 900_000]})
    for start in range(0, len(packet), 1000):
        client.say(packet[start : start + 1000])
        assert len(client.session.inbox.pieces) <= start // 1000 + 1
    client.box.journal.write()
    assert client.replies()[0].code is None


def test_the_compiled_path_keeps_to_the_limits_of_the_store(client: Client) -> None:
    box = client.box
    box.options.assign({"memtx_max_tuple_size": 1000})
    client.insert(1, "x" * 2000)
    assert client.replies()[0].code == Er.MEMTX_MAX_TUPLE_SIZE
    client.insert(1, "x" * 500)
    box.journal.write()
    assert client.replies()[0].code is None
    box.options.assign({"memtx_memory": box.memtx.bytes_used - 1})
    client.insert(2, "y")
    assert client.replies()[0].code == Er.MEMORY_ISSUE
    client.send(Type.DELETE, {Key.SPACE_ID: 512, Key.KEY: [1]})
    box.journal.write()
    client.insert(2, "y")
    box.journal.write()
    assert [reply.code for reply in client.replies()] == [None, None]


# ---- time ------------------------------------------------------------------------------------------------


async def _connected(box: Box) -> Client:
    await box.server.listen(["node:0"])
    return box.connect()


def test_who_says_nothing_whole_is_closed_after_the_login_timeout() -> None:
    async def test(box: Box) -> None:
        box.options.assign({"login_timeout": 3.0})
        silent = await _connected(box)
        slow, quick = box.connect(), box.connect()
        quick.send(Type.PING)
        for _ in range(6):
            slow.say(b"\xce") if not slow.session.inbox else slow.say(b"\x00")
            await box.world.tasks.sleep(1)
            if slow.link.is_closed:
                break
        assert silent.link.is_closed
        assert slow.link.is_closed
        assert not quick.link.is_closed

    in_simulation(test)


def test_who_is_silent_is_closed_after_the_idle_timeout_unless_he_waits() -> None:
    async def test(box: Box) -> None:
        box.options.assign({"idle_timeout": 3.0})
        idle = await _connected(box)
        waiting, talking = box.connect(), box.connect()
        waiting.insert(1, "a")
        for _ in range(8):
            talking.send(Type.PING)
            await box.world.tasks.sleep(1)
        assert idle.link.is_closed
        assert not waiting.link.is_closed
        assert not talking.link.is_closed

    in_simulation(test)


def test_there_are_not_more_connections_than_allowed(box: Box, caplog: pytest.LogCaptureFixture) -> None:
    box.options.assign({"max_connections": 2})
    clients = [box.connect() for _ in range(3)]
    assert [client.link.is_closed for client in clients] == [False, False, True]
    assert clients[2].greeting is None
    clients[0].disconnect()
    assert not box.connect().link.is_closed


# ---- the end -----------------------------------------------------------------------------------------------


def test_clients_that_watch_are_waited_for() -> None:
    async def test(box: Box) -> None:
        client, other = await _connected(box), box.connect()
        client.send(Type.WATCH, {Key.EVENT_KEY: "box.shutdown"})
        await box.world.tasks.sleep(0.01)
        client.replies()
        client.send(Type.WATCH, {Key.EVENT_KEY: "box.shutdown"})
        ending = box.world.tasks.spawn(box.server.shutdown(), "shutdown")
        await box.world.tasks.sleep(0.01)
        (event,) = client.replies()
        assert event.body == {Key.EVENT_KEY: "box.shutdown", Key.EVENT_DATA: True}
        assert not other.link.is_closed
        client.select(1)
        assert client.replies()[0].code is None, "it may finish what it does"
        client.disconnect()
        await box.world.tasks.sleep(0.01)
        assert other.link.is_closed
        other.disconnect()
        await box.world.tasks.sleep(0.01)
        assert ending.done()
        assert box.connect().link.is_closed

    in_simulation(test)


def test_nobody_is_waited_for_longer_than_the_timeout() -> None:
    async def test(box: Box) -> None:
        async def forever(session: Any, txn: Any) -> None:
            await box.world.tasks.event().wait()

        box.procedures.named["forever"] = forever
        client = await _connected(box)
        client.send(Type.WATCH, {Key.EVENT_KEY: "box.shutdown"})
        client.send(Type.CALL, {Key.FUNCTION_NAME: "forever"})
        client.send(Type.CALL, {Key.FUNCTION_NAME: "forever"}, stream=1)
        client.insert(1, "a")
        before = box.world.clock.monotonic()
        ending = box.world.tasks.spawn(box.server.shutdown(2.0), "shutdown")
        await box.world.tasks.sleep(2.5)
        assert box.world.clock.monotonic() - before < 3
        assert ending.done()
        assert client.link.is_closed
        client.disconnect()
        assert box.server.in_flight == 0

    in_simulation(test)


def test_over_a_network(caplog: pytest.LogCaptureFixture) -> None:
    async def test(box: Box) -> None:
        box.journal.is_automatic = True
        await box.server.listen(["node:0"])
        (address,) = box.server.addresses
        heard: list[bytes] = []

        class Handler:
            def opened(self, link: Any) -> None:
                self.link = link

            def received(self, data: bytes) -> None:
                heard.append(data)

            def drained(self) -> None: ...

            def closed(self, error: BaseException | None) -> None:
                heard.append(b"closed")

        handler = Handler()
        await box.world.net.connect(address, handler)
        packet = box.connect().packet(Type.PING)
        handler.link.write(packet)
        await box.world.tasks.sleep(0.1)
        assert len(b"".join(heard)) == 128 + 33
        await box.server.shutdown(1)
        await box.world.tasks.sleep(0.1)
        assert heard[-1] == b"closed"
        with pytest.raises(ConnectionRefusedError):
            await box.world.net.connect(address, handler)

    in_simulation(test)


def test_errors_are_written_before_the_end(client: Client) -> None:
    client.say(client.packet(Type.PING), b"\xc1")
    assert [reply.code for reply in client.replies()] == [None, Er.INVALID_MSGPACK]
    assert client.link.is_closed
