"""A connection over which many requests are on their way at once, sent and answered at the same time.

What is posted together is a `Load`: packets of rows with syncs that follow one another, which are only counted when
they are answered well, and a few requests whose answers are wanted. Two loads may be under way, so that the server
always has work: its answers come in any order, and each finds its load by its sync.
"""

from __future__ import annotations

import select
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from headwater.client import statements
from headwater.client.link import RECEIVE_MAX, TIMEOUT_SECONDS, ConnectionFailed, WireClient
from headwater.errors import BoxError
from headwater.kernels import frame_end, mp_array_fields
from headwater.uri import Uri
from headwater.wire import request
from headwater.wire.ballot import Ballot, decode_ballot
from headwater.wire.body import fields
from headwater.wire.constants import Feature, Key, MpType, Type, version_id, version_of
from headwater.wire.mpread import read_uint
from headwater.wire.msgpack import unpack
from headwater.wire.replication import decode_error
from headwater.wire.xrow import Row, decode_row

__all__ = ["Load", "Pipe"]

LOADS_MAX = 2
_WANTED = 1 << 62
"""Syncs from here on are of requests whose answers are wanted."""
_SEND_MAX = 1 << 20
_LENGTH, _HEAD = 0xCE, 5
"""First byte of an answer, and bytes of its length."""
_OK = b"\x83\x00\xce\0\0\0\0\x01\xcf"
"""How a good answer goes on (iproto_header_encode); then comes its sync."""
_SYNC = _HEAD + len(_OK)
_KNOWS_ID = version_id(2, 10, 0)
_UNDERSTANDS = (Feature.STREAMS, Feature.TRANSACTIONS, Feature.ERROR_EXTENSION, Feature.PAGINATION)
"""Tuples shall come as they are, without the extension for their formats."""


@dataclass(slots=True)
class Load:
    """Requests that were posted together."""

    first: int
    """Sync of the first row."""
    count: int
    """Rows."""
    wanted: tuple[int, ...]
    """Syncs of the other requests."""
    answered: int = 0
    """Of the rows."""
    errors: dict[int, BoxError] = field(default_factory=dict)
    """By the number of the row in the load."""
    answers: dict[int, Row | BoxError] = field(default_factory=dict)
    """Of the other requests, by their syncs."""

    @property
    def is_answered(self) -> bool:
        return self.answered == self.count and len(self.answers) == len(self.wanted)

    def rows_of(self, sync: int) -> list[bytes]:
        """Tuples that a wanted request was answered with; raises the error if it was one."""
        answer = self.answers[sync]
        if isinstance(answer, BoxError):
            raise answer
        return tuples_of(answer)


class Pipe(WireClient):
    """One connection to one server."""

    def __init__(self, uri: Uri, timeout: float = TIMEOUT_SECONDS) -> None:
        """`timeout`: seconds without a byte after which a server that owes answers counts as away."""
        super().__init__(uri, timeout)
        self._timeout = timeout
        self._wanted = _WANTED
        self._loads: deque[Load] = deque()
        self._unsent: deque[memoryview] = deque()
        self._features: frozenset[int] | None = None

    def set_timeout(self, seconds: float) -> None:
        super().set_timeout(seconds)
        self._timeout = seconds

    # ---- what the server is

    @property
    def version(self) -> str:
        return "{}.{}.{}".format(*version_of(self.greeting.version_id))

    @property
    def features(self) -> frozenset[int]:
        if self._features is None:
            self._features = self._ask_features() if self.greeting.version_id >= _KNOWS_ID else frozenset()
        return self._features

    @property
    def has_transactions(self) -> bool:
        """May a transaction be sent in several requests (2.10 and later)?"""
        return {Feature.STREAMS, Feature.TRANSACTIONS} <= self.features

    @property
    def has_pages(self) -> bool:
        """Can a SELECT go on behind a tuple (2.11 and later)?"""
        return Feature.PAGINATION in self.features

    def _ask_features(self) -> frozenset[int]:
        row = self.ask(Type.ID, statements.identify(_UNDERSTANDS))
        for key, kind, at, end in fields(row.body, 0):
            if key == Key.FEATURES and kind == MpType.ARRAY:
                return frozenset(each for each in unpack(row.body[at:end]) if isinstance(each, int))
        return frozenset()

    def ballot(self) -> Ballot:
        """Can it be written to, and how far is it?"""
        return decode_ballot(self.ask(Type.VOTE))

    def tuples(self, body: bytes) -> list[bytes]:
        """Answer to a SELECT."""
        return tuples_of(self.ask(Type.SELECT, body))

    # ---- loads

    def number(self, rows: int) -> int:
        """Syncs for so many rows that are posted next: the first of them."""
        first = self._sync + 1
        self._sync += rows
        return first

    def wanted(self, type_: int, body: bytes = b"", stream_id: int = 0) -> tuple[int, bytes]:
        """Sync and packet of a request whose answer is wanted."""
        self._wanted += 1
        return self._wanted, request.encode(type_, self._wanted, body, stream_id)

    def post(self, packets: list[bytes], first: int, count: int, wanted: tuple[int, ...] = ()) -> Load:
        """Begin to send. Call `settle` before a third one."""
        assert len(self._loads) < LOADS_MAX, "two loads are under way"
        load = Load(first, count, wanted)
        self._loads.append(load)
        self._unsent.extend(memoryview(packet) for packet in packets if packet)
        self._move(wait=False)
        return load

    def settle(self, load: Load) -> Load:
        """Wait until all of it is answered. ConnectionFailed if that cannot be any more."""
        while not load.is_answered:
            self._move(wait=True)
        while self._loads and self._loads[0].is_answered:
            self._loads.popleft()
        return load

    def _move(self, *, wait: bool) -> None:
        """Send and take what goes; with `wait` at least a byte in one direction."""
        deadline = time.monotonic() + self._timeout
        # A socket with a timeout waits by itself, whatever it is told about a single call.
        self._socket.settimeout(0)
        try:
            while True:
                if self._send_some() | self._take_some() or not wait:
                    return
                events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
                poll = select.poll()
                poll.register(self._socket, events)
                if not poll.poll(1000 * max(0.0, deadline - time.monotonic())):
                    raise ConnectionFailed(f"{self.uri}: no answer within {self._timeout:g} s")
        except OSError as error:
            raise ConnectionFailed(f"{self.uri}: {error}") from None
        finally:
            self._socket.settimeout(self._timeout)

    def _send_some(self) -> bool:
        moved = False
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[0][:_SEND_MAX])
            except (BlockingIOError, InterruptedError):
                return moved
            moved = True
            if sent == len(self._unsent[0]):
                self._unsent.popleft()
            else:
                self._unsent[0] = self._unsent[0][sent:]
        return moved

    def _take_some(self) -> bool:
        try:
            data = self._socket.recv(RECEIVE_MAX)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            raise ConnectionFailed(f"{self.uri}: the connection was closed")
        data = self._buffer + data if self._buffer else data
        newer = self._loads[1].first if len(self._loads) > 1 else _WANTED
        stop, old, new, others = replies(data, 0, len(data), newer, _WANTED)
        self._buffer = data[stop:]
        if self._buffer and self._buffer[0] != _LENGTH:
            raise ConnectionFailed(f"{self.uri}: what it sends is no packet")
        if old or new:
            self._loads[0].answered += old
            if new:
                self._loads[1].answered += new
        for begin, end in others:
            self._other(decode_row(data, begin, end, exact=True)[0])
        return True

    def _other(self, row: Row) -> None:
        """An error, or an answer that is wanted."""
        answer = decode_error(row) if row.is_error else row
        for load in self._loads:
            if row.sync in load.wanted:
                load.answers[row.sync] = answer
                return
            if load.first <= row.sync < load.first + load.count:
                load.answered += 1
                if isinstance(answer, BoxError):
                    load.errors[row.sync - load.first] = answer
                return


def tuples_of(row: Row) -> list[bytes]:
    """Tuples of an answer."""
    for key, kind, at, _ in fields(row.body, 0):
        if key == Key.DATA and kind == MpType.ARRAY:
            return [row.body[begin:end] for begin, end in pairwise(mp_array_fields(row.body, at))]
    return []


def replies(data: bytes, offset: int, end: int, low: int, high: int) -> tuple[int, int, int, list[tuple[int, int]]]:
    """Whole packets of data[offset:end]: (offset where it stopped, answers that are no errors with a sync below `low`,
    those below `high`, (begin, end) of header and body of each other one)."""
    below = within = 0
    others: list[tuple[int, int]] = []
    # Syncs are compared as they stand: big-endian.
    low_bytes, high_bytes = low.to_bytes(8, "big"), high.to_bytes(8, "big")
    number = int.from_bytes
    while offset + _HEAD <= end and data[offset] == _LENGTH:
        stop = offset + _HEAD + number(data[offset + 1 : offset + _HEAD], "big")
        if stop > end:
            break
        sync = data[offset + _SYNC : offset + _SYNC + 8]
        if data[offset + _HEAD : offset + _SYNC] != _OK or sync >= high_bytes:
            begin, stop = read_uint(data, offset)[1], frame_end(data, offset, end)
            row = decode_row(data, begin, stop, exact=True)[0]
            if row.type or row.sync >= high:
                others.append((begin, stop))
            elif row.sync < low:
                below += 1
            else:
                within += 1
        elif sync < low_bytes:
            below += 1
        else:
            within += 1
        offset = stop
    return offset, below, within, others
