"""What was read from a connection and cannot be served yet: the beginning of a packet, or what came before reading
stopped. Pieces are put together once, when there is enough."""

from __future__ import annotations

from headwater.wire.mpread import read_uint


class Inbox:
    __slots__ = ("_have", "_wanted", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._have = 0
        """Bytes in them."""
        self._wanted = 0
        """They are of no use before there are so many."""

    def __bool__(self) -> bool:
        return bool(self.pieces)

    @property
    def is_enough(self) -> bool:
        return self._have >= self._wanted

    def add(self, data: bytes) -> None:
        self.pieces.append(data)
        self._have += len(data)

    def keep(self, data: bytes, at: int) -> None:
        """The rest of what was looked at."""
        self.pieces = [data[at:] if at else data]
        self._have = len(data) - at
        self._wanted = 0

    def keep_packet(self, data: bytes, at: int, end: int) -> None:
        """The same, where it is the beginning of one packet."""
        self.keep(data, at)
        self._wanted = packet_end(data, at, end) - at

    def take(self) -> bytes:
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces = []
        self._have = self._wanted = 0
        return data


def packet_end(data: bytes, at: int, end: int) -> int:
    """Where the packet at `at` will end, which is not complete; a little further if not even its length is there."""
    code = data[at]
    head = 1 if code <= 0x7F else 1 + (1 << (code - 0xCC))
    if at + head > end:
        return at + head
    length, after = read_uint(data, at)
    return after + length
