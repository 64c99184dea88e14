"""Sockets: asyncio protocols that speak `world.Link` and `world.LinkHandler`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from headwater.errors import system_words
from headwater.world import Link, LinkHandler, Listener

HIGH_MARK = 1 << 20
"""Queued bytes above which a writer should wait for `drained`."""
LOW_MARK = 256 << 10
"""Queued bytes below which `drained` is called."""
BACKLOG = 1024

_UNIX = "unix/:"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: str

    def __str__(self) -> str:
        return _UNIX + self.path


def parse_address(address: str) -> TcpAddress | UnixAddress:
    """`host:port`, `[ipv6]:port`, `port` alone (all interfaces to listen on, loopback to connect to),
    `unix/:path` or `/path`."""
    if address.startswith(_UNIX):
        return UnixAddress(address[len(_UNIX) :])
    if address.startswith(("/", "./")):
        return UnixAddress(address)
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"address '{address}': expected host:port or unix/:path")
    return TcpAddress("" if host == "*" else host, int(port))


class SocketLink(asyncio.Protocol):
    """One connection. It is its own asyncio protocol: a read goes to the handler in one call."""

    def __init__(self, handler: LinkHandler, local: str) -> None:
        self._handler = handler
        self._local = local
        """Address it was accepted at: the only name that a client of a unix socket has."""
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self.peer = ""

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)  # uvloop's do not inherit from asyncio's
        stream.set_write_buffer_limits(HIGH_MARK, LOW_MARK)
        self.peer = _peer_name(stream, self._local)
        self._handler.opened(self)

    def data_received(self, data: bytes) -> None:
        self._handler.received(data)

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes once what is queued has left."""

    def resume_writing(self) -> None:
        self._handler.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None  # uvloop's refuse every call from now on
        self._handler.closed(exc)

    # the node's side

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._transport is not None:
            self._transport.write(data)

    @property
    def pending(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _peer_name(transport: asyncio.Transport, local: str) -> str:
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple) and len(name) >= 2:
        return str(TcpAddress(name[0], name[1]))
    return _UNIX + name if isinstance(name, str) and name else local


class SocketListener:
    """A listening socket; closing it leaves accepted links alone."""

    def __init__(self, server: asyncio.AbstractServer, address: str, unlink: str = "") -> None:
        self.address = address
        self._server = server
        self._unlink = unlink

    def close(self) -> None:
        self._server.close()
        if self._unlink:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._unlink)
            self._unlink = ""


class RealNet:
    """`world.Net` over TCP and unix sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def listen(self, address: str, factory: Callable[[], LinkHandler]) -> Listener:
        parsed = parse_address(address)

        def accept() -> SocketLink:
            return SocketLink(factory(), str(parsed))

        try:
            if isinstance(parsed, UnixAddress):
                _remove_dead_socket(parsed.path)
                server = await self._loop.create_unix_server(accept, parsed.path, backlog=BACKLOG)
                return SocketListener(server, str(parsed), parsed.path)
            server = await self._loop.create_server(accept, parsed.host or None, parsed.port, backlog=BACKLOG)
        except OSError as error:
            words = error.strerror if error.filename else system_words(error)
            raise OSError(error.errno, f"cannot listen at {parsed}: {words}") from error
        bound = server.sockets[0].getsockname()
        return SocketListener(server, str(TcpAddress(parsed.host or bound[0], bound[1])))

    async def connect(self, address: str, handler: LinkHandler) -> Link:
        parsed = parse_address(address)

        def make() -> SocketLink:
            return SocketLink(handler, str(parsed))

        link: SocketLink
        if isinstance(parsed, UnixAddress):
            _, link = await self._loop.create_unix_connection(make, parsed.path)
        else:
            _, link = await self._loop.create_connection(make, parsed.host or "localhost", parsed.port)
        return link


def _remove_dead_socket(path: str) -> None:
    """A socket file that nobody answers at is what a killed process left; a living one is refused."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise OSError(errno.EADDRINUSE, "the path is taken by a file that is not a socket", path)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, "another process listens here", path)
