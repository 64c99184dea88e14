"""An instance for the server: a real ordinary path and a real compiled one, a journal that a test writes by hand, and
connections whose bytes a test sees."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.txn.node import Node

from headwater.box.events import Events
from headwater.box.watchers import Watchers
from headwater.errors import BoxError, Er, er
from headwater.kernels import Memtx
from headwater.replication.channel import Channel
from headwater.server.iproto import IprotoServer
from headwater.server.session import Session
from headwater.sim import Simulation, SimWorld
from headwater.store.privileges import Priv
from headwater.store.users import User
from headwater.wire import greeting
from headwater.wire.ballot import Ballot
from headwater.wire.constants import GREETING_SIZE, Key, Type
from headwater.wire.mpwrite import pack_map_head, pack_uint
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request, encode
from headwater.wire.xrow import decode_row

UUID_1 = UUID("11111111-1111-4111-8111-111111111111")
Waiter = Callable[[BoxError | None], object]


class HandJournal:
    """Writes when it is told to; until then everything waits, unless there is nothing to write."""

    def __init__(self, memtx: Memtx) -> None:
        self.full = False
        self.is_automatic = False
        """Write at once."""
        self.on_written: Callable[[], object] = lambda: None
        self.on_undone: Callable[[], object] = lambda: None
        """Before anybody is told."""
        self._memtx = memtx
        self._written = memtx.undo_end
        self._lsn = memtx.vclock
        self._waiters: list[Waiter] = []
        self._room: list[Callable[[], object]] = []

    def settle(self, waiter: Waiter) -> None:
        if not self._waiters and (self.is_automatic or not self._memtx.rows_pending):
            self._confirm()
            waiter(None)
        else:
            self._waiters.append(waiter)

    def when_room(self, call: Callable[[], object]) -> None:
        self._room.append(call)

    def make_room(self) -> None:
        self.full = False
        for call in self._room:
            call()
        self._room.clear()

    def write(self) -> None:
        self._confirm()
        self._tell(None)

    def fail(self) -> None:
        self._memtx.take_rows()
        self._memtx.rollback_to(self._written)
        for id, lsn in enumerate(self._lsn):
            self._memtx.set_lsn(id, lsn)
        self.on_undone()
        self._tell(er(Er.WAL_IO))

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def _confirm(self) -> None:
        self._memtx.take_rows()
        self._written = self._memtx.undo_end
        self._memtx.confirm_to(self._written)
        self._lsn = self._memtx.vclock
        self.on_written()

    def _tell(self, error: BoxError | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(error)


Procedure = Callable[..., Any]
PeerService = Callable[[Request, User, Channel], Coroutine[Any, Any, None]]


class HandProcedures:
    """Procedures of a test: plain functions and coroutines of (session, txn, *args)."""

    def __init__(self) -> None:
        self.named: dict[str, Procedure] = {}

    def call(self, request: Request, session: Any, txn: Any = None) -> list[bytes] | Coroutine[Any, Any, list[bytes]]:
        procedure = self.named.get(request.function)
        if procedure is None:
            raise er(Er.NO_SUCH_PROC, request.function)
        value = procedure(session, txn, *unpack(request.args))
        if hasattr(value, "__await__"):
            return self._later(value)
        return [pack(value)]

    async def _later(self, value: Any) -> list[bytes]:
        return [pack(await value)]


class Box(Node):
    """Everything `server.host.Instance` asks for, and a space `t` that guest may read and write."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world.tasks)
        self.world = world
        self.journal = HandJournal(self.memtx)
        self.procedures = HandProcedures()
        self.watchers = Watchers(world.tasks)
        self.events = Events(self.watchers)
        self.uuid = UUID_1
        self.is_ready = True
        self.peer_service: PeerService | None = None
        """What serves requests of replication."""
        fields = [{"name": name, "type": kind} for name, kind in (("id", "unsigned"), ("name", "string"))]
        self.make_space(512, "t", fields)
        self.make_index(512, 0, "pk", [[0, "unsigned"]])
        self.make_index(512, 1, "name", [[1, "string"]])
        self.grant_guest(512, Priv.READ | Priv.WRITE)
        self.journal.write()
        self.server = IprotoServer(self)

    def grant_guest(self, space: int, bits: int) -> None:
        self.insert(312, 1, 0, "space", space, int(bits))

    def ballot(self) -> Ballot:
        return Ballot(vclock={1: 7})

    def serve_peer(self, request: Request, user: User, channel: Channel) -> Coroutine[Any, Any, None]:
        assert self.peer_service is not None
        return self.peer_service(request, user, channel)

    def connect(self) -> Client:
        return Client(self)


@dataclass
class Reply:
    type: int
    sync: int
    body: dict[int, Any]
    schema_version: int
    raw: bytes

    @property
    def code(self) -> int | None:
        """Of an error."""
        return self.type & 0x7FFF if self.type & 0x8000 else None

    @property
    def data(self) -> Any:
        return self.body[Key.DATA]

    @property
    def message(self) -> str:
        return str(self.body[Key.ERROR_24])


class HandLink:
    """What a session says, in the chunks in which it says it."""

    peer = "127.0.0.1:5"

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.pending = 0
        self.is_paused = False
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed, "said after the end"
        self.chunks.append(bytes(data))

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Client:
    """One connection to a box, without a network between."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.link = HandLink()
        self.session = Session(box.server)
        self.session.opened(self.link)
        self._seen = 0
        self._sync = 0
        self.greeting = greeting.decode(b"".join(self.link.chunks)[:GREETING_SIZE]) if self.link.chunks else None
        self._seen = len(self.link.chunks)

    # ---- saying ----------------------------------------------------------------------------------------

    def packet(self, type: int, body: dict[int, Any] | None = None, stream: int = 0, sync: int | None = None) -> bytes:
        if sync is None:
            self._sync += 1
            sync = self._sync
        packed = b"" if body is None else pack_map(body)
        return encode(type, sync, packed, stream)

    def say(self, *packets: bytes) -> None:
        self.session.received(b"".join(packets))

    def send(self, type: int, body: dict[int, Any] | None = None, stream: int = 0) -> None:
        self.say(self.packet(type, body, stream))

    def ask(self, type: int, body: dict[int, Any] | None = None, stream: int = 0) -> Reply:
        """Send, and take the one reply that is there at once."""
        self.send(type, body, stream)
        (reply,) = self.replies()
        return reply

    def insert(self, id: int, name: str, stream: int = 0) -> None:
        self.send(Type.INSERT, {Key.SPACE_ID: 512, Key.TUPLE: [id, name]}, stream)

    def replace(self, id: int, name: str, stream: int = 0) -> None:
        self.send(Type.REPLACE, {Key.SPACE_ID: 512, Key.TUPLE: [id, name]}, stream)

    def select(self, *key: Any, stream: int = 0, **more: Any) -> None:
        self.send(Type.SELECT, {Key.SPACE_ID: 512, Key.LIMIT: 100, Key.KEY: list(key)}, stream)

    def disconnect(self) -> None:
        self.session.closed(None)

    # ---- hearing ---------------------------------------------------------------------------------------

    def replies(self) -> list[Reply]:
        """What came since the last look."""
        data = b"".join(self.link.chunks[self._seen :])
        self._seen = len(self.link.chunks)
        found = []
        at = 0
        while at < len(data):
            assert data[at] == 0xCE
            end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
            row, _ = decode_row(data, at + 5, end)
            found.append(Reply(row.type, row.sync, unpack(row.body), row.schema_version, data[at:end]))
            at = end
        return found


def pack_map(body: dict[int, Any]) -> bytes:
    return pack_map_head(len(body)) + b"".join(pack_uint(key) + pack(value) for key, value in body.items())


def in_simulation(test: Callable[[Box], Coroutine[Any, Any, None]]) -> None:
    """Run a test that waits, on virtual time."""
    simulation = Simulation(1)
    try:
        simulation.run(test(Box(simulation.machine("node").boot())))
        assert not simulation.errors, simulation.errors
    finally:
        simulation.close()
