"""A connection for commands that send packets they already have: greeting, login, and answers in order.

Blocking, one socket. A program that wants an interface takes a connector.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence

from headwater.errors import BoxError, HeadwaterError, system_words
from headwater.uri import Uri
from headwater.wire import auth, greeting, request
from headwater.wire.constants import GREETING_SIZE, Key, Type
from headwater.wire.mpwrite import pack_array_head, pack_map_head, pack_str, pack_text, pack_uint
from headwater.wire.replication import decode_error
from headwater.wire.xrow import Row, decode_row

TIMEOUT_SECONDS = 30.0
RECEIVE_MAX = 1 << 18
"""Bytes taken from the socket at once."""


class ConnectionFailed(HeadwaterError):  # noqa: N818
    """Nobody listens, the peer is no server of ours, or it went away."""


class WireClient:
    """`send` packets, then `receive` as many answers."""

    def __init__(self, uri: Uri, timeout: float = TIMEOUT_SECONDS) -> None:
        self.uri = uri
        self._socket = _connect(uri, timeout)
        self._buffer = b""
        self._sync = 0
        try:
            self.greeting = greeting.decode(self._take(GREETING_SIZE))
            if uri.login:
                self._login(uri.login, uri.password)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """A thread that waits for the other side is woken: ConnectionFailed there."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def next_sync(self) -> int:
        self._sync += 1
        return self._sync

    def send(self, packets: bytes) -> None:
        try:
            self._socket.sendall(packets)
        except OSError as error:
            raise ConnectionFailed(f"{self.uri}: {error}") from None

    def receive(self, syncs: Sequence[int]) -> Iterator[BoxError | None]:
        """For each sync the error that was answered, or None. Answers may come in any order."""
        for row in self._answers(syncs):
            yield decode_error(row) if row.is_error else None

    def answers(self, syncs: Sequence[int]) -> Iterator[Row]:
        """For each sync what was answered; raises the first error."""
        for row in self._answers(syncs):
            if row.is_error:
                raise decode_error(row)
            yield row

    def _answers(self, syncs: Sequence[int]) -> Iterator[Row]:
        waiting = set(syncs)
        answers: dict[int, Row] = {}
        for sync in syncs:
            while sync not in answers:
                row = self._packet()
                if row.sync in waiting and row.type != Type.CHUNK:
                    answers[row.sync] = row
            yield answers.pop(sync)

    def call(self, type_: int, body: bytes, stream_id: int = 0) -> None:
        """One request; raises the error that is answered."""
        self.ask(type_, body, stream_id)

    def ask(self, type_: int, body: bytes = b"", stream_id: int = 0) -> Row:
        """One request and its answer; raises the error that is answered."""
        sync = self.next_sync()
        self.send(request.encode(type_, sync, body, stream_id))
        return next(self.answers([sync]))

    def chunk(self) -> bytes:
        """What has come: at least a byte, with what was left by `packet`. TimeoutError after `timeout` of silence."""
        have, self._buffer = self._buffer, b""
        return have or self._receive()

    def give_back(self, data: bytes) -> None:
        """Bytes of a chunk that are for who reads next."""
        self._buffer = data + self._buffer

    def packet(self) -> Row:
        """The next one, whatever it is."""
        return self._packet()

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def _login(self, user: str, password: str) -> None:
        scramble = auth.scramble(password, self.greeting.salt)
        credentials = pack_array_head(2) + pack_text(auth.METHOD) + pack_str(scramble)
        pairs = pack_uint(Key.USER_NAME) + pack_text(user) + pack_uint(Key.TUPLE) + credentials
        self.call(Type.AUTH, pack_map_head(2) + pairs)

    def _packet(self) -> Row:
        head = self._take(5)
        if head[0] != 0xCE:
            raise ConnectionFailed(f"{self.uri}: what it sends is no packet")
        packet = self._take(int.from_bytes(head[1:], "big"))
        return decode_row(packet, exact=True)[0]

    def _take(self, size: int) -> bytes:
        parts = [self._buffer]
        have = len(self._buffer)
        while have < size:
            try:
                data = self._receive()
            except TimeoutError:
                raise ConnectionFailed(f"{self.uri}: timed out") from None
            parts.append(data)
            have += len(data)
        whole = b"".join(parts)
        self._buffer = whole[size:]
        return whole[:size]

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(RECEIVE_MAX)
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionFailed(f"{self.uri}: {error}") from None
        if not data:
            raise ConnectionFailed(f"{self.uri}: the connection was closed")
        return data


def _connect(uri: Uri, timeout: float) -> socket.socket:
    try:
        if uri.is_unix:
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(timeout)
            link.connect(uri.service)
        else:
            link = socket.create_connection((uri.host or "localhost", int(uri.service)), timeout)
    except OSError as error:
        raise ConnectionFailed(f"cannot connect to {uri}: {system_words(error)}") from None
    except ValueError as error:
        raise ConnectionFailed(f"cannot connect to {uri}: {error}") from None
    return link
