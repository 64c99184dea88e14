"""A raw iproto client: sends what it is told, reads frames. Blocking, one socket, nothing of Headwater's own code."""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgpack
from tests.support.values import default, ext_hook

# Request types (iproto_constants.h).
SELECT, INSERT, REPLACE, UPDATE, DELETE, CALL_16, AUTH, EVAL, UPSERT, CALL, EXECUTE, NOP, PREPARE = range(1, 14)
BEGIN, COMMIT, ROLLBACK = 14, 15, 16
PING, JOIN, SUBSCRIBE, VOTE, FETCH_SNAPSHOT, REGISTER = 64, 65, 66, 68, 69, 70
ID, WATCH, UNWATCH, EVENT, WATCH_ONCE = 73, 74, 75, 76, 77
ERROR = 0x8000

# Header keys.
REQUEST_TYPE, SYNC, REPLICA_ID, LSN, TIMESTAMP, SCHEMA_VERSION = 0, 1, 2, 3, 4, 5
STREAM_ID = 0x0A

# Body keys.
SPACE_ID, INDEX_ID, LIMIT, OFFSET, ITERATOR, INDEX_BASE = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
FETCH_POSITION = 0x1F
KEY, TUPLE, FUNCTION_NAME, USER_NAME, EXPR, OPS = 0x20, 0x21, 0x22, 0x23, 0x27, 0x28
AFTER_POSITION, AFTER_TUPLE, DATA, ERROR_24, POSITION = 0x2E, 0x2F, 0x30, 0x31, 0x35
SQL_TEXT, SQL_BIND, STMT_ID = 0x40, 0x41, 0x43
ERROR_STACK = 0x52
VERSION, FEATURES, TIMEOUT, EVENT_KEY, EVENT_DATA, TXN_ISOLATION = 0x54, 0x55, 0x56, 0x57, 0x58, 0x59
AUTH_TYPE, SPACE_NAME, INDEX_NAME, TUPLE_FORMATS = 0x5B, 0x5E, 0x5F, 0x60

# Iterators.
EQ, REQ, ALL, LT, LE, GE, GT = range(7)


class ClosedError(ConnectionError):
    """The server closed the connection."""


def pack(value: object) -> bytes:
    out: bytes = msgpack.packb(value, use_bin_type=True, default=default)
    return out


def unpack_all(data: bytes) -> list[Any]:
    unpacker = msgpack.Unpacker(
        raw=False, strict_map_key=False, unicode_errors="surrogateescape", max_buffer_size=0, ext_hook=ext_hook
    )
    unpacker.feed(data)
    return list(unpacker)


def frame(header: Mapping[int, object], body: Mapping[int, object] | bytes | None = None) -> bytes:
    """One packet; `body` may be ready bytes, or None for a packet without one."""
    tail = b"" if body is None else body if isinstance(body, bytes) else pack(body)
    head = pack(header)
    return struct.pack(">BI", 0xCE, len(head) + len(tail)) + head + tail


def request(type_: int, body: Mapping[int, object] | bytes | None, sync: int = 0, stream: int = 0) -> bytes:
    header: dict[int, object] = {REQUEST_TYPE: type_, SYNC: sync}
    if stream:
        header[STREAM_ID] = stream
    return frame(header, body)


def scramble(password: str, salt: bytes) -> bytes:
    """chap-sha1 (scramble.c)."""
    first = hashlib.sha1(password.encode()).digest()
    third = hashlib.sha1(salt[:20] + hashlib.sha1(first).digest()).digest()
    return bytes(a ^ b for a, b in zip(first, third, strict=True))


class ServerError(AssertionError):
    """The server answered an error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.code}: {reply.message}")
        self.code = reply.code
        self.message = reply.message
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Reply:
    """One packet from the server."""

    header: dict[int, Any]
    body: dict[int, Any]
    raw: bytes

    @property
    def type(self) -> int:
        return int(self.header.get(REQUEST_TYPE, -1))

    @property
    def sync(self) -> int:
        return int(self.header.get(SYNC, 0))

    @property
    def failed(self) -> bool:
        return bool(self.type & ERROR)

    @property
    def code(self) -> int:
        """The number of the error, 0 if there is none."""
        return self.type & ~ERROR if self.failed else 0

    @property
    def message(self) -> str:
        return str(self.body.get(ERROR_24, ""))

    @property
    def data(self) -> Any:
        """Of a successful reply; raises what the server answered otherwise."""
        if self.failed:
            raise ServerError(self)
        return self.body.get(DATA)

    def answer(self) -> tuple[Any, ...]:
        """In a form that compares: ("ok", data) or ("error", code, message)."""
        return ("error", self.code, self.message) if self.failed else ("ok", self.body.get(DATA))


class Connection:
    """One connection. `sync` counts up from 1."""

    def __init__(self, host: str, port: int, timeout: float = 20.0, *, greet: bool = True) -> None:
        """A host that begins with a slash is the path of a unix socket."""
        if host.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(host)
        else:
            self.socket = socket.create_connection((host, port), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._sync = 0
        self.greeting = b""
        if greet:
            try:
                self.greeting = self.read(128)
            except BaseException:
                self.socket.close()
                raise

    @property
    def salt(self) -> bytes:
        return base64.b64decode(self.greeting[64:108])

    # ---- bytes

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _fill(self) -> None:
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ClosedError("the server closed the connection")
        self._buffer += chunk

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        out = bytes(self._buffer[:size])
        del self._buffer[:size]
        return out

    def read_reply(self) -> Reply:
        head = self.read(5)
        if head[0] != 0xCE:
            raise AssertionError(f"a frame of the server begins with {head.hex()}")
        payload = self.read(int.from_bytes(head[1:], "big"))
        parts = unpack_all(payload)
        if not 1 <= len(parts) <= 2:
            raise AssertionError(f"a frame holds {len(parts)} values")
        return Reply(parts[0], parts[1] if len(parts) == 2 else {}, head + payload)

    def read_to_end(self) -> bytes:
        """Everything until the server closes."""
        try:
            while True:
                self._fill()
        except (ClosedError, ConnectionResetError):
            pass
        out = bytes(self._buffer)
        self._buffer.clear()
        return out

    # ---- requests

    def next_sync(self) -> int:
        self._sync += 1
        return self._sync

    def ask(self, type_: int, body: Mapping[int, object] | bytes | None = None, *, stream: int = 0) -> Reply:
        """Send one request, read one reply."""
        sync = self.next_sync()
        self.send(request(type_, {} if body is None else body, sync, stream))
        reply = self.read_reply()
        if reply.sync != sync:
            raise AssertionError(f"asked with sync {sync}, answered with {reply.header}: {reply.body}")
        return reply

    def pipeline(self, requests: Iterable[tuple[int, Mapping[int, object]]]) -> list[Reply]:
        """Send all, then read all, ordered by request."""
        syncs: list[int] = []
        out = bytearray()
        for type_, body in requests:
            syncs.append(self.next_sync())
            out += request(type_, body, syncs[-1])
        self.send(bytes(out))
        replies = {}
        for _ in syncs:
            reply = self.read_reply()
            replies[reply.sync] = reply
        return [replies[sync] for sync in syncs]

    def auth(self, user: str, password: str) -> Reply:
        return self.ask(AUTH, {USER_NAME: user, TUPLE: ["chap-sha1", scramble(password, self.salt)]})

    def select(
        self,
        space: int,
        key: Sequence[object] = (),
        *,
        index: int = 0,
        iterator: int = ALL,
        limit: int = 0xFFFFFFFF,
        offset: int = 0,
        stream: int = 0,
    ) -> list[Any]:
        body = {SPACE_ID: space, INDEX_ID: index, ITERATOR: iterator, LIMIT: limit, OFFSET: offset, KEY: list(key)}
        return list(self.ask(SELECT, body, stream=stream).data)

    def insert(self, space: int, row: Sequence[object], *, stream: int = 0) -> Any:
        return self.ask(INSERT, {SPACE_ID: space, TUPLE: list(row)}, stream=stream).data

    def replace(self, space: int, row: Sequence[object], *, stream: int = 0) -> Any:
        return self.ask(REPLACE, {SPACE_ID: space, TUPLE: list(row)}, stream=stream).data

    def call(self, name: str, *arguments: object) -> Any:
        return self.ask(CALL, {FUNCTION_NAME: name, TUPLE: list(arguments)}).data

    def eval(self, text: str, *arguments: object) -> Any:
        """Lua; a real Tarantool only."""
        return self.ask(EVAL, {EXPR: text, TUPLE: list(arguments)}).data

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def create_space(
    connection: Connection,
    space: int,
    name: str,
    *,
    parts: Sequence[object] = ((0, "unsigned"),),
    indexes: Sequence[Sequence[object]] | None = None,
    format: Sequence[object] = (),
    options: Mapping[str, object] | None = None,
) -> None:
    """A space and its indexes by rows of `_space` and `_index`, as both servers take them."""
    connection.insert(280, [space, 1, name, "memtx", 0, dict(options or {}), list(format)])
    for index, definition in enumerate(indexes or [["primary", "tree", {"unique": True}, parts]]):
        connection.insert(288, [space, index, *definition])
