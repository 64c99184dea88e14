"""A frozen picture of some spaces: the lists of their primary indexes, which later writes copy before they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.kernels.pure.rows import header
from headwater.kernels.pure.space import MemtxSpace

_INSERT = 2
_GROUP_LOCAL = 1


class ReadView:
    """Writes go on meanwhile by copying what the view holds."""

    def __init__(self, spaces: list[MemtxSpace]) -> None:
        self._parts: list[tuple[int, bool, list[bytes]]] = []
        self._part = 0
        self._row = 0
        for space in spaces:
            primary = space.index(0)
            if primary is not None:
                primary.shared = True
                self._parts.append((space.id, space.local, primary.tuples))

    def fill(self, limit: int, lsn: int, timestamp: float) -> tuple[bytes, int]:
        """The next rows as snapshot rows; (b'', 0) at the end."""
        return self._fill(limit, lambda group, count: header(_INSERT, 0, group, lsn + count, timestamp), framed=False)

    def fill_frames(self, limit: int, sync: int, timestamp: float) -> tuple[bytes, int]:
        """The next rows as packets without an LSN; (b'', 0) at the end."""
        return self._fill(limit, lambda group, _: header(_INSERT, 0, group, 0, timestamp, sync=sync), framed=True)

    def _fill(self, limit: int, head: Callable[[int, int], bytes], framed: bool) -> tuple[bytes, int]:
        """`head` makes a header of the group and the number of the row."""
        out = bytearray()
        count = 0
        while self._part < len(self._parts) and (not count or len(out) < limit):
            space_id, local, tuples = self._parts[self._part]
            if self._row == len(tuples):
                self._part += 1
                self._row = 0
                continue
            row = head(_GROUP_LOCAL if local else 0, count) + b"\x82\x10\xce" + space_id.to_bytes(4, "big")
            row += b"\x21" + tuples[self._row]
            if framed:
                out += b"\xce" + len(row).to_bytes(4, "big")
            out += row
            self._row += 1
            count += 1
        return bytes(out), count

    def tuples(self, space_id: int) -> Iterator[bytes]:
        for number, _, tuples in self._parts:
            if number == space_id:
                return iter(tuples)
        raise ValueError(f"space {space_id} is not in the view")

    def close(self) -> None:
        self._parts = []
        self._part = self._row = 0
