"""Clients that are slow, silent, many or hostile: the node stays up, its memory stays bounded, others are served."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import statistics
import struct
import time
from collections.abc import Iterator

import pytest
from tests.support import iproto
from tests.support.fixtures import Servers
from tests.support.process import Server
from tests.support.subjects import STAND_IN

SPACE = 600
MEGABYTE = 1 << 20

ours_only = pytest.mark.skipif(STAND_IN, reason="2.6.0 has no such limit")


@pytest.fixture
def server(servers: Servers) -> Iterator[Server]:
    with servers.subject().start() as made:
        with iproto.Connection(*made.address) as connection:
            iproto.create_space(connection, SPACE, "t")
            for n in range(200):
                connection.insert(SPACE, [n, "x" * 5000])
        yield made


@contextlib.contextmanager
def files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def latency(connection: iproto.Connection, count: int = 100) -> float:
    """Median seconds of a SELECT by key."""
    times = []
    for n in range(count):
        begin = time.monotonic()
        assert len(connection.select(SPACE, [n], iterator=iproto.EQ)) == 1
        times.append(time.monotonic() - begin)
    return statistics.median(times)


def test_slow_reader(server: Server) -> None:
    """It asks for a gigabyte and reads nothing: the server stops reading from it, and others do not feel it."""
    everything = {iproto.SPACE_ID: SPACE, iproto.ITERATOR: iproto.ALL, iproto.LIMIT: 0xFFFFFFFF, iproto.KEY: []}
    with iproto.Connection(*server.address) as good, iproto.Connection(*server.address) as slow:
        latency(good)
        before = server.rss()
        slow.socket.setblocking(False)
        packets = b"".join(iproto.request(iproto.SELECT, everything, n + 1) for n in range(1000))
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(packets):
                sent += slow.socket.send(packets[sent:])
        assert latency(good) < 0.1
        grown = server.rss() - before
        print(f"{grown / MEGABYTE:.1f} MB more for a reader that wants {1000 * 200 * 5000 / MEGABYTE:.0f} MB")
        if not STAND_IN:
            assert grown < 64 * MEGABYTE
        slow.socket.setblocking(True)
        slow.socket.settimeout(60)
        for n in range(3):
            reply = slow.read_reply()
            assert reply.sync == n + 1
            assert len(reply.data) == 200


@ours_only
def test_reader_that_never_reads_is_not_in_the_way_of_a_stop(server: Server) -> None:
    everything = {iproto.SPACE_ID: SPACE, iproto.ITERATOR: iproto.ALL, iproto.LIMIT: 0xFFFFFFFF, iproto.KEY: []}
    with iproto.Connection(*server.address) as slow:
        slow.send(b"".join(iproto.request(iproto.SELECT, everything, n + 1) for n in range(50)))
        assert server.stop(timeout=15) == 0


def test_thousand_idle_connections(server: Server) -> None:
    with files(1000), contextlib.ExitStack() as open_:
        before = server.rss()
        for _ in range(1000):
            open_.enter_context(iproto.Connection(*server.address))
        each = (server.rss() - before) / 1000
        print(f"{each / 1024:.1f} KiB a connection")
        assert each <= 20 * 1024
        with iproto.Connection(*server.address) as good:
            assert latency(good) < 0.05


@ours_only
def test_slow_loris(servers: Servers) -> None:
    """Half a header and then nothing: closed after login_timeout, while one that has asked something may be silent."""
    server = servers.subject("timeouts", login_timeout=1).start()
    with iproto.Connection(*server.address) as good, iproto.Connection(*server.address) as half:
        assert good.ask(iproto.PING).answer()[0] == "ok"
        half.send(b"\xce\x00\x00")
        half.socket.settimeout(15)
        begin = time.monotonic()
        half.read_to_end()
        assert 0.5 < time.monotonic() - begin < 10
        assert good.ask(iproto.PING).answer()[0] == "ok"


@ours_only
def test_packet_that_is_too_large_before_login(servers: Servers) -> None:
    server = servers.subject("closed")
    server.dev = False  # type: ignore[attr-defined]
    with server.start():
        before = server.rss()
        with iproto.Connection(*server.address) as connection:
            connection.send(struct.pack(">BI", 0xCE, 200 * MEGABYTE))
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    connection.send(b"\x00" * MEGABYTE)
            connection.read_to_end()
        assert server.rss() - before < 16 * MEGABYTE
        with iproto.Connection(*server.address) as connection:
            assert connection.ask(iproto.PING).answer()[0] == "ok"


@ours_only
def test_idle_connection_is_closed_when_asked(servers: Servers) -> None:
    with servers.subject("idle", idle_timeout=1).start() as server, iproto.Connection(*server.address) as connection:
        assert connection.ask(iproto.PING).answer()[0] == "ok"
        begin = time.monotonic()
        connection.read_to_end()
        assert 0.5 < time.monotonic() - begin < 15


@ours_only
def test_too_many_connections(servers: Servers) -> None:
    with servers.subject("few", max_connections=20).start() as server, contextlib.ExitStack() as open_:
        for _ in range(20):
            open_.enter_context(iproto.Connection(*server.address)).ask(iproto.PING)
        with pytest.raises(ConnectionError):
            open_.enter_context(iproto.Connection(*server.address)).ask(iproto.PING)


def gibberish(dice: random.Random) -> bytes:
    """Random bytes, a frame of random bytes, a request with some bytes changed, a deep nest."""
    kind = dice.randrange(4)
    noise = dice.randbytes(dice.randrange(1, 200))
    if kind == 0:
        return noise
    if kind == 1:
        return struct.pack(">BI", 0xCE, len(noise)) + noise
    if kind == 2:
        # A key that no change of three bytes makes one that something has: a DELETE is a request, too.
        packet = bytearray(iproto.request(dice.randrange(1, 80), {iproto.SPACE_ID: SPACE, iproto.KEY: ["nobody"]}, 7))
        for _ in range(dice.randrange(1, 4)):
            packet[dice.randrange(5, len(packet))] = dice.randrange(256)
        return bytes(packet)
    depth = dice.choice((10, 1000, 100_000))
    body = b"\x82\x10\xcd\x02\x58\x21" + b"\x91" * depth + b"\x01"
    head = iproto.pack({iproto.REQUEST_TYPE: iproto.INSERT, iproto.SYNC: 3})
    return struct.pack(">BI", 0xCE, len(head) + len(body)) + head + body


def test_gibberish(server: Server) -> None:
    """3,000 pieces of it: the server answers or closes; it stays up, keeps its data and does not grow."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with iproto.Connection(*server.address) as good:
        there = good.select(SPACE)
        before = server.rss()
        for _ in range(3000):
            with contextlib.suppress(ConnectionError, TimeoutError), iproto.Connection(*server.address) as bad:
                bad.send(gibberish(dice))
                bad.socket.shutdown(socket.SHUT_WR)
                bad.read_to_end()
        assert good.select(SPACE) == there
    assert server.running
    grown = server.rss() - before
    print(f"{grown / MEGABYTE:.1f} MB more")
    assert grown < 64 * MEGABYTE
    if server.name == "headwater":
        assert "Traceback" not in server.log, server.log[-4000:]


def test_connection_lost_in_the_middle_of_anything(server: Server) -> None:
    """Clients vanish in mid-request and with replies on the way."""
    everything = {iproto.SPACE_ID: SPACE, iproto.ITERATOR: iproto.ALL, iproto.LIMIT: 0xFFFFFFFF, iproto.KEY: []}
    packet = iproto.request(iproto.SELECT, everything, 1)
    for n in range(100):
        with iproto.Connection(*server.address) as connection:
            linger = struct.pack("ii", 1, 0)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.send(packet * 5 + packet[: n % len(packet)])
    with iproto.Connection(*server.address) as good:
        assert latency(good) < 0.1
    if server.name == "headwater":
        assert "Traceback" not in server.log, server.log[-4000:]
