"""Links over real sockets."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from headwater.env import run
from headwater.env.net import HIGH_MARK, TcpAddress, UnixAddress, parse_address
from headwater.world import Event, Link, World


class Recorder:
    """A handler that keeps what it is told; `echo` sends it back."""

    def __init__(self, world: World, echo: bool = False) -> None:
        self.echo = echo
        self.link: Link | None = None
        self.data = bytearray()
        self.drains = 0
        self.error: BaseException | None = None
        self.changed: Event = world.tasks.event()
        self.is_closed = False

    def opened(self, link: Link) -> None:
        self.link = link
        self.changed.set()

    def received(self, data: bytes) -> None:
        self.data += data
        if self.echo and self.link is not None:
            self.link.write(data)
        self.changed.set()

    def drained(self) -> None:
        self.drains += 1
        self.changed.set()

    def closed(self, error: BaseException | None) -> None:
        self.is_closed = True
        self.error = error
        self.changed.set()

    async def until(self, condition: object) -> None:
        assert callable(condition)
        while not condition():
            self.changed.clear()
            await self.changed.wait()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_bytes_go_there_and_back(kind: str, tmp_path: Path) -> None:
    async def main(world: World) -> tuple[bytes, bool, str]:
        servers: list[Recorder] = []

        def accept() -> Recorder:
            servers.append(Recorder(world, echo=True))
            return servers[-1]

        listener = await world.net.listen("127.0.0.1:0" if kind == "tcp" else f"unix/:{tmp_path}/s", accept)
        client = Recorder(world)
        async with world.tasks.timeout(10):
            link = await world.net.connect(listener.address, client)
            link.write(b"ping ")
            link.write(bytearray(b"pong"))
            await client.until(lambda: len(client.data) == 9)
            link.close()
            await servers[0].until(lambda: servers[0].is_closed)
            await client.until(lambda: client.is_closed)
        listener.close()
        return bytes(client.data), servers[0].error is None, link.peer

    data, clean, peer = run(main)
    assert data == b"ping pong"
    assert clean
    assert peer.startswith("127.0.0.1:" if kind == "tcp" else "unix/:")


def test_slow_reader_raises_pending_and_drained_tells_when_it_fell() -> None:
    async def main(world: World) -> None:
        server = Recorder(world)
        listener = await world.net.listen("127.0.0.1:0", lambda: server)
        client = Recorder(world)
        async with world.tasks.timeout(20):
            link = await world.net.connect(listener.address, client)
            await server.until(lambda: server.link is not None)
            assert server.link is not None
            server.link.pause_reading()
            total = 0
            while link.pending <= HIGH_MARK:
                link.write(b"x" * 100_000)
                total += 100_000
                await world.tasks.sleep(0)
            assert client.drains == 0
            server.link.resume_reading()
            await client.until(lambda: client.drains == 1)
            await server.until(lambda: len(server.data) == total)
        listener.close()

    run(main)


def test_connection_refused_is_an_oserror() -> None:
    async def main(world: World) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await world.net.connect(f"127.0.0.1:{port}", Recorder(world))

    run(main)


def test_abort_is_told_to_both_sides() -> None:
    async def main(world: World) -> None:
        server = Recorder(world)
        listener = await world.net.listen("127.0.0.1:0", lambda: server)
        client = Recorder(world)
        async with world.tasks.timeout(10):
            link = await world.net.connect(listener.address, client)
            link.abort()
            await client.until(lambda: client.is_closed)
            await server.until(lambda: server.is_closed)
        link.write(b"into the void")
        listener.close()

    run(main)


def test_socket_file_of_a_dead_process_is_replaced_and_a_living_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async def main(world: World) -> None:
        listener = await world.net.listen(f"unix/:{path}", lambda: Recorder(world))
        with pytest.raises(OSError, match="another process listens here"):
            await world.net.listen(f"unix/:{path}", lambda: Recorder(world))
        listener.close()
        path.write_text("not a socket")
        with pytest.raises(OSError, match="not a socket"):
            await world.net.listen(f"unix/:{path}", lambda: Recorder(world))

    run(main)
    assert path.read_text() == "not a socket"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:3301", TcpAddress("127.0.0.1", 3301)),
        ("3301", TcpAddress("", 3301)),
        ("*:3301", TcpAddress("", 3301)),
        ("[::1]:3301", TcpAddress("::1", 3301)),
        ("unix/:/tmp/a b", UnixAddress("/tmp/a b")),
        ("./sock", UnixAddress("./sock")),
    ],
)
def test_addresses(text: str, parsed: object) -> None:
    assert parse_address(text) == parsed


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "host:-1"])
def test_wrong_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        parse_address(text)


def test_fiber_that_fails_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main(world: World) -> None:
        async def broken() -> None:
            raise ValueError("oops")

        world.tasks.spawn(broken(), "gc")
        await world.tasks.sleep(0)
        await world.tasks.sleep(0)

    run(main)
    assert "fiber 'gc' failed: ValueError: oops" in caplog.text


def test_run_ends_fibers_that_still_wait() -> None:
    ended: list[str] = []

    async def main(world: World) -> None:
        async def forever() -> None:
            try:
                await world.tasks.event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        world.tasks.spawn(forever(), "relay")
        await world.tasks.sleep(0)

    run(main)
    assert ended == ["cancelled"]
