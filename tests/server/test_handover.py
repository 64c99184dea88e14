"""A connection that belongs to replication for a while, or until its end."""

from __future__ import annotations

import asyncio

from tests.server.box import Box, in_simulation

from headwater.errors import Er
from headwater.replication.channel import Channel, ChannelClosed
from headwater.store.users import User
from headwater.wire.constants import Key, Type
from headwater.wire.request import Request

BODY = {Key.INSTANCE_UUID: "22222222-2222-4222-8222-222222222222"}


class Peers:
    """Serves a request when the test lets it, and keeps what came meanwhile."""

    def __init__(self, box: Box) -> None:
        self.begun: list[tuple[int, str]] = []
        self.bytes = b""
        self.error: Exception | None = None
        self.channel: Channel | None = None
        self.go = box.world.tasks.event()
        self.takes = False
        """Take what comes, instead of leaving it to the session."""
        box.peer_service = self.serve

    async def serve(self, request: Request, user: User, channel: Channel) -> None:
        self.begun.append((request.type, user.name))
        self.channel = channel
        channel.write(b"\xce\x00\x00\x00\x04\x81\x00\x00\x80")
        try:
            if self.takes:
                self.bytes += await channel.take()
            else:
                await self.go.wait()
                channel.check()
        except ChannelClosed as error:
            self.error = error


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_request_of_replication_takes_the_connection() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        client.send(Type.JOIN, BODY)
        await turns()
        assert peers.begun == [(Type.JOIN, "guest")]
        client.send(Type.PING)
        assert [reply.type for reply in client.replies()] == [Type.OK], "only what replication says"
        assert client.session.is_busy
        assert box.stats.net.shown(current=True)["CONNECTIONS"]["current"] == 1

    in_simulation(test)


def test_what_came_meanwhile_is_served_afterwards() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        client.say(client.packet(Type.JOIN, BODY), client.packet(Type.PING))
        await turns()
        half = client.packet(Type.PING)
        client.say(client.packet(Type.PING), half[:3])
        client.replies()
        peers.go.set()
        await turns()
        assert [reply.sync for reply in client.replies()] == [2, 4]
        client.say(half[3:])
        assert [reply.sync for reply in client.replies()] == [3]
        assert not client.session.is_busy

    in_simulation(test)


def test_bytes_of_the_peer_reach_the_channel() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        peers.takes = True
        client.say(client.packet(Type.SUBSCRIBE, BODY))
        await turns()
        client.say(b"\x05hello")
        await turns()
        assert peers.bytes == b"\x05hello"

    in_simulation(test)


def test_refused_while_another_request_is_in_flight() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        client.insert(1, "a")
        reply_before = client.replies()
        client.send(Type.JOIN, BODY)
        box.journal.write()
        insert, join = client.replies()
        assert reply_before == []
        assert insert.type == Type.OK
        assert (join.code, join.sync) == (Er.PROTOCOL, 2)
        assert peers.begun == []

    in_simulation(test)


def test_refused_behind_a_request_of_the_same_read() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        client.say(client.packet(Type.PING), client.packet(Type.JOIN, BODY), client.packet(Type.PING))
        assert [reply.code for reply in client.replies()] == [None, Er.PROTOCOL, None]
        assert peers.begun == []

    in_simulation(test)


def test_loading_before_the_node_is_ready() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        box.is_ready = False
        assert client.ask(Type.JOIN, BODY).code == Er.LOADING
        assert peers.begun == []

    in_simulation(test)


def test_the_channel_learns_that_the_connection_is_lost() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        client.send(Type.SUBSCRIBE, BODY)
        await turns()
        client.session.closed(ConnectionResetError("reset by peer"))
        peers.go.set()
        await turns()
        assert isinstance(peers.error, ChannelClosed)
        assert str(peers.error) == "reset by peer"
        assert not box.server.sessions

    in_simulation(test)


def test_a_node_that_goes_ends_its_relays_at_once() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        peers.takes = True
        client.send(Type.SUBSCRIBE, BODY)
        await turns()
        down = box.world.tasks.spawn(box.server.shutdown(), "down")
        await turns()
        assert isinstance(peers.error, ChannelClosed)
        assert client.link.is_closed
        client.session.closed(None)
        await down

    in_simulation(test)


def test_a_mistake_of_ours_closes_this_connection_alone() -> None:
    async def test(box: Box) -> None:
        async def broken(request: Request, user: User, channel: Channel) -> None:
            raise ZeroDivisionError

        box.peer_service = broken
        client, other = box.connect(), box.connect()
        client.send(Type.JOIN, BODY)
        await turns()
        assert client.link.is_closed
        assert other.ask(Type.PING).code is None

    in_simulation(test)


def test_an_idle_subscriber_is_not_an_idle_connection() -> None:
    async def test(box: Box) -> None:
        peers, client = Peers(box), box.connect()
        box.options.idle_timeout = 1.0
        client.send(Type.SUBSCRIBE, BODY)
        await turns()
        for _ in range(5):
            box.server._tick()
        assert not client.link.is_closed
        assert peers.begun

    in_simulation(test)
