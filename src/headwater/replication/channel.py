"""One connection as packets, for whichever side follows or feeds the other.

Bytes gather until they are asked for: whole at once (`take`, for streams of rows) or packet by packet (`packet`). Both
directions are bounded: reading pauses while too much lies here unread, and `flush` waits while the peer does not take
what was written. A channel that is at its end raises `ChannelClosed` from every call that waits or writes.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import BoxError, Er, MsgPackError, er
from headwater.kernels import frame_end
from headwater.wire.constants import MpType
from headwater.wire.mpread import KIND, read_uint
from headwater.wire.xrow import Row, decode_row, encode_packet
from headwater.world import Event, Link, Tasks

INPUT_MAX = 4 << 20
"""Bytes that may lie here unread before reading pauses. One packet may be larger."""
OUTPUT_MAX = 4 << 20
"""Bytes that may wait for the peer before `flush` waits."""
PACKET_MAX = 1 << 31
"""iproto_constants.h, IPROTO_BODY_LEN_MAX."""
GREETING_SIZE = 128


class ChannelClosed(ConnectionError):  # noqa: N818 (not every end is an error)
    """The connection is at its end; the message says why."""


class Channel:
    """A `LinkHandler` of its own connection, or fed by the session that had the connection before."""

    def __init__(self, tasks: Tasks, link: Link | None = None, data: bytes = b"") -> None:
        self.link = link
        self.peer = "" if link is None else link.peer
        self.features: frozenset[int] = frozenset()
        """What the peer said that it can do, when it asked us (IPROTO_ID)."""
        self.received_bytes = len(data)
        """So far, of all kinds."""
        self.sent_bytes = 0
        self._chunks: list[bytes] = [data] if data else []
        self._size = len(data)
        self._need = 1
        """Bytes that must lie here before the first packet can be whole, as far as its beginning tells."""
        self._news: Event = tasks.event()
        """Something came, was taken by the peer, or the end."""
        self.on_end: Callable[[], object] = lambda: None
        """Called when the peer or the network ends the connection; not by our own `close` and `abort`."""
        self._is_paused = False
        self._end: str | None = None

    # ---- what the link says --------------------------------------------------------------------------

    def opened(self, link: Link) -> None:
        self.link, self.peer = link, link.peer

    def received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        self.received_bytes += len(data)
        if self._size > max(INPUT_MAX, self._need) and not self._is_paused and self.link is not None:
            self._is_paused = True
            self.link.pause_reading()
        if self._size >= self._need:
            self._news.set()

    def drained(self) -> None:
        self._news.set()

    def closed(self, error: BaseException | None) -> None:
        if self._end is None:
            self._end = str(error) if error is not None and str(error) else "connection closed by the peer"
        self.link = None
        self._news.set()
        self.on_end()

    # ---- reading -------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._end is not None

    def check(self) -> None:
        """ChannelClosed if it is at its end."""
        if self._end is not None:
            raise ChannelClosed(self._end)

    async def take(self) -> bytes:
        """All bytes that are here: at least one, and a whole packet as far as the length of the first is known. Give
        back with `keep` what is not used."""
        while self._size < self._need:
            await self._wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size, self._need = 0, 1
        self._resume()
        return data

    def keep(self, data: bytes, at: int = 0) -> None:
        """Bytes from `at` on are not used yet: they begin with a packet, whole or not."""
        rest = data[at:]
        if rest:
            self._chunks.insert(0, rest)
            self._size += len(rest)
            self._need = _needed(rest)

    def take_all(self) -> bytes:
        """What lies here unread, without waiting: for whoever has the connection after us."""
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size, self._need = 0, 1
        self._resume()
        return data

    async def exactly(self, size: int) -> bytes:
        """The next `size` bytes: a greeting."""
        self._need = size
        data = await self.take()
        if len(data) > size:
            self.keep(data, size)
        return data[:size]

    async def packet(self) -> Row:
        """The next packet. BoxError INVALID_MSGPACK for bytes that are none."""
        while True:
            data = await self.take()
            found = packet_at(data, 0)
            if found is not None:
                row, end = found
                self.keep(data, end)
                return row
            self.keep_partial(data)

    def keep_partial(self, data: bytes, at: int = 0) -> None:
        """Bytes from `at` on are of no use alone: the next `take` waits until there are more than these, and until
        their first packet is whole."""
        rest = data[at:]
        if rest:
            self._chunks.insert(0, rest)
            self._size += len(rest)
            self._need = max(_needed(rest), len(rest) + 1)

    async def more(self, data: bytes, at: int) -> bytes:
        """The bytes from `at` on and more."""
        self.keep_partial(data, at)
        return await self.take()

    def _resume(self) -> None:
        if self._is_paused and self.link is not None:
            self._is_paused = False
            self.link.resume_reading()

    async def _wait(self) -> None:
        self.check()
        self._news.clear()
        await self._news.wait()

    # ---- writing -------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self.link is None:
            raise ChannelClosed(self._end or "not connected")
        self.sent_bytes += len(data)
        self.link.write(data)

    def send(self, row: Row) -> None:
        self.write(encode_packet(row))

    @property
    def pending(self) -> int:
        return 0 if self.link is None else self.link.pending

    async def flush(self) -> None:
        """Wait until the peer has taken most of what was written."""
        while self.pending > OUTPUT_MAX:
            await self._wait()

    def close(self, why: str = "closed") -> None:
        if self._end is None:
            self._end = why
        link, self.link = self.link, None
        self._news.set()
        if link is not None:
            link.close()

    def abort(self, why: str = "closed") -> None:
        """Drop what is queued, too."""
        if self._end is None:
            self._end = why
        link, self.link = self.link, None
        self._news.set()
        if link is not None:
            link.abort()


def packet_end(data: bytes, offset: int = 0) -> int:
    """Where the packet at `offset` ends; 0 while it is not whole."""
    try:
        return frame_end(data, offset, len(data))
    except MsgPackError:
        raise er(Er.INVALID_MSGPACK, "packet length") from None


def packet_at(data: bytes, offset: int) -> tuple[Row, int] | None:
    """The packet at `offset` and the offset after it, None while it is not whole. INVALID_MSGPACK for bytes that are
    none."""
    if offset >= len(data):
        return None
    end = packet_end(data, offset)
    if not end:
        return None
    return decode_row(data, read_uint(data, offset)[1], end, exact=True)[0], end


def _needed(data: bytes) -> int:
    """Bytes that the packet at the beginning takes, as far as they can be known."""
    if KIND[data[0]] != MpType.UINT:
        raise er(Er.INVALID_MSGPACK, "packet length")
    try:
        length, begin = read_uint(data, 0)
    except (IndexError, BoxError):
        return len(data) + 1
    if length > PACKET_MAX:
        raise er(Er.INVALID_MSGPACK, "too big packet size in the header")
    return begin + length
