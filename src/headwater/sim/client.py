"""A client of a simulated node: requests and replies over a link, many at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.kernels import frame_end
from headwater.wire.constants import ERROR_BIT, GREETING_SIZE, Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import encode
from headwater.wire.xrow import decode_row
from headwater.world import Event, Link, World


class Lost(Exception):  # noqa: N818
    """The connection ended before the answer came: what was asked may be done, or not."""


@dataclass(slots=True)
class Reply:
    code: int
    """0, or that of an error."""
    body: dict[int, Any]

    @property
    def rows(self) -> list[Any]:
        rows: list[Any] = self.body.get(Key.DATA, [])
        return rows

    @property
    def message(self) -> str:
        return str(self.body.get(Key.ERROR_24, ""))


@dataclass(slots=True, eq=False)
class Ticket:
    """A request on its way."""

    answered: Event
    reply: Reply | None = None
    sent_at: float = 0.0
    answered_at: float = field(default=0.0)

    async def wait(self) -> Reply:
        await self.answered.wait()
        if self.reply is None:
            raise Lost
        return self.reply


class Client:
    """One connection, as a `LinkHandler`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._link: Link | None = None
        self._buffer = b""
        self._greeted = False
        self._tickets: dict[int, Ticket] = {}
        self._sync = 0
        self._closed = False

    async def connect(self, address: str) -> None:
        try:
            await self._world.net.connect(address, self)
        except OSError:
            raise Lost from None

    def send(self, type_: int, body: Mapping[int, Any] | bytes = b"", stream_id: int = 0) -> Ticket:
        ticket = Ticket(self._world.tasks.event(), sent_at=self._world.clock.monotonic())
        if self._closed or self._link is None:
            ticket.answered.set()
            return ticket
        self._sync += 1
        self._tickets[self._sync] = ticket
        self._link.write(encode(type_, self._sync, body if isinstance(body, bytes) else pack(dict(body)), stream_id))
        return ticket

    async def ask(self, type_: int, body: Mapping[int, Any] | bytes = b"", stream_id: int = 0) -> Reply:
        return await self.send(type_, body, stream_id).wait()

    async def call(self, function: str, *args: Any) -> Reply:
        return await self.ask(Type.CALL, {Key.FUNCTION_NAME: function, Key.TUPLE: list(args)})

    async def all(self, space_id: int, index_id: int = 0) -> list[Any]:
        """Every tuple of a space. Lost if the node cannot be asked now."""
        body: dict[int, Any] = {
            Key.SPACE_ID: space_id,
            Key.INDEX_ID: index_id,
            Key.LIMIT: 1 << 31,
            Key.ITERATOR: 2,
            Key.KEY: [],
        }
        reply = await self.ask(Type.SELECT, body)
        if reply.code:
            raise AssertionError(f"SELECT of space {space_id}: {reply.message}")
        return reply.rows

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    # ---- LinkHandler

    def opened(self, link: Link) -> None:
        self._link = link

    def received(self, data: bytes) -> None:
        self._buffer += data
        if not self._greeted:
            if len(self._buffer) < GREETING_SIZE:
                return
            self._greeted = True
            self._buffer = self._buffer[GREETING_SIZE:]
        at = 0
        while (end := frame_end(self._buffer, at, len(self._buffer))) != 0:
            self._answer(self._buffer[at:end])
            at = end
        self._buffer = self._buffer[at:]

    def drained(self) -> None:
        pass

    def closed(self, error: BaseException | None) -> None:
        self._closed = True
        tickets, self._tickets = self._tickets, {}
        for ticket in tickets.values():
            ticket.answered.set()

    def _answer(self, packet: bytes) -> None:
        start = len(packet) - int.from_bytes(packet[1:5], "big")
        row, _ = decode_row(packet, start)
        ticket = self._tickets.pop(row.sync, None)
        if ticket is None:
            raise AssertionError(f"an answer of type {row.type} to sync {row.sync}, which nobody asked")
        code = row.type & ~ERROR_BIT if row.type & ERROR_BIT else 0
        ticket.reply = Reply(code, unpack(row.body) if row.body else {})
        ticket.answered_at = self._world.clock.monotonic()
        ticket.answered.set()
