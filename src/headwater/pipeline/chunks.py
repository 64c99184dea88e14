"""Rows of a partition cut into chunks, each written as one transaction, and the digest of what was given so far.

Where a chunk ends depends on the rows alone, not on the Arrow batches they came in, so that a replay cuts them again at
the same places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headwater.pipeline.tuples import Requests, Tuples

__all__ = ["Chunk", "Digest", "chunked"]


@dataclass(frozen=True, slots=True)
class _Slice:
    tuples: Tuples
    first: int
    count: int


@dataclass(slots=True)
class Chunk:
    """Rows that follow one another."""

    first: int
    """Number of the first row in its partition."""
    slices: list[_Slice] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    """Bytes of the tuples."""
    is_last: bool = False
    """Of the partition."""

    @property
    def end(self) -> int:
        return self.first + self.rows

    def add(self, tuples: Tuples, first: int, count: int) -> None:
        self.slices.append(_Slice(tuples, first, count))
        self.rows += count
        self.size += tuples.size(first, count)

    def requests(self, made: Requests, sync: int, stream_id: int = 0) -> list[bytes]:
        """Packets, with syncs from `sync` on."""
        packets = []
        for part in self.slices:
            packets.append(part.tuples.requests(made, part.first, part.count, sync, stream_id))
            sync += part.count
        return packets

    def split(self, row: int) -> tuple[Chunk, Chunk]:
        """The rows before number `row` of the partition, and the others."""
        assert self.first < row < self.end
        head, tail = Chunk(self.first), Chunk(row, is_last=self.is_last)
        left = row - self.first
        for part in self.slices:
            count = min(left, part.count)
            if count:
                head.add(part.tuples, part.first, count)
            if count < part.count:
                tail.add(part.tuples, part.first + count, part.count - count)
            left -= count
        return head, tail

    def tuple(self, number: int) -> bytes:
        """Of row `number` of the chunk."""
        for part in self.slices:
            if number < part.count:
                return bytes(part.tuples.bytes_of(part.first + number, 1))
            number -= part.count
        raise IndexError(number)

    def type(self, number: int) -> int | None:
        """What the row itself says is done with it."""
        for part in self.slices:
            if number < part.count:
                return None if part.tuples.types is None else part.tuples.types[part.first + number]
            number -= part.count
        raise IndexError(number)

    def types(self) -> frozenset[int]:
        """All that rows say is done with them."""
        return frozenset(
            each
            for part in self.slices
            if part.tuples.types is not None
            for each in frozenset(part.tuples.types[part.first : part.first + part.count])
        )


class Digest:
    """Of rows in their order: equal only for the same tuples with the same operations."""

    def __init__(self) -> None:
        self._tuples = hashlib.blake2b(digest_size=16)
        self._types = hashlib.blake2b(digest_size=8)
        self._ops = hashlib.blake2b(digest_size=8)

    def add(self, chunk: Chunk) -> None:
        for part in chunk.slices:
            self._tuples.update(part.tuples.bytes_of(part.first, part.count))
            if part.tuples.ops is not None:
                self._ops.update(part.tuples.ops_of(part.first, part.count))
            if part.tuples.types is not None:
                self._types.update(part.tuples.types[part.first : part.first + part.count])

    def copy(self) -> Digest:
        twin = Digest()
        twin._tuples, twin._types, twin._ops = self._tuples.copy(), self._types.copy(), self._ops.copy()
        return twin

    def text(self) -> str:
        return self._tuples.hexdigest() + self._types.hexdigest() + self._ops.hexdigest()


def chunked(batches: Iterable[Tuples], rows: int, size: int) -> Iterator[Chunk]:
    """At most so many rows, and so many bytes unless one row has more. The last one knows that it is."""
    held: Chunk | None = None
    for chunk in _cut(batches, rows, size):
        if held is not None:
            yield held
        held = chunk
    if held is not None:
        held.is_last = True
        yield held


def _cut(batches: Iterable[Tuples], rows: int, size: int) -> Iterator[Chunk]:
    chunk = Chunk(0)
    for tuples in batches:
        at = 0
        while at < tuples.count:
            count = tuples.fitting(at, rows - chunk.rows, size - chunk.size)
            if chunk.rows and chunk.size + tuples.size(at, count) > size:
                yield chunk
                chunk = Chunk(chunk.end)
                continue
            chunk.add(tuples, at, count)
            at += count
            if chunk.rows == rows:
                yield chunk
                chunk = Chunk(chunk.end)
    if chunk.rows:
        yield chunk
