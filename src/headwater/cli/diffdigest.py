"""What a space holds as a few numbers that do not depend on the order of its tuples, and which tuples make two differ.

Each tuple is hashed, and the hashes are added up in buckets chosen by the hash itself. A tuple that is in one space and
not in the other, or is different there, changes the sum of a bucket or two; only tuples of such buckets are looked at
again. Memory is bounded by the number of buckets, however large the space is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

BUCKETS = 4096
_MASK = (1 << 128) - 1


def tuple_hash(data: bytes) -> int:
    """128 bits of the bytes of a tuple."""
    return int.from_bytes(blake2b(data, digest_size=16).digest(), "little")


class Digest:
    """One space, as far as it was read."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums = [0] * BUCKETS

    def add(self, tuples: Sequence[bytes]) -> None:
        sums = self._sums
        for data in tuples:
            number = int.from_bytes(blake2b(data, digest_size=16).digest(), "little")
            sums[number % BUCKETS] += number
        self.rows += len(tuples)

    def sum(self, bucket: int) -> int:
        return self._sums[bucket] & _MASK

    @property
    def checksum(self) -> str:
        """Of all of it: equal for equal tuples in whatever order."""
        total = blake2b(self.rows.to_bytes(8, "little"), digest_size=16)
        for bucket in range(BUCKETS):
            total.update(self.sum(bucket).to_bytes(16, "little"))
        return total.hexdigest()

    def is_equal(self, other: Digest) -> bool:
        return self.rows == other.rows and not self.differing(other)

    def differing(self, other: Digest) -> list[int]:
        """Buckets that do not hold the same."""
        return [bucket for bucket in range(BUCKETS) if self.sum(bucket) != other.sum(bucket)]


def gather(batches: Iterable[Sequence[bytes]], buckets: Iterable[int]) -> dict[int, bytes]:
    """The tuples that belong to these buckets, by their hashes."""
    wanted = bytearray(BUCKETS)
    for bucket in buckets:
        wanted[bucket] = 1
    found: dict[int, bytes] = {}
    for tuples in batches:
        for data in tuples:
            number = tuple_hash(data)
            if wanted[number % BUCKETS]:
                found[number] = data
    return found


def portions(buckets: Sequence[int], rows: int, limit: int) -> list[Sequence[int]]:
    """The buckets in portions whose tuples, of so many rows in all, are not more than about `limit`."""
    size = max(1, limit * BUCKETS // max(rows, 1))
    return [buckets[at : at + size] for at in range(0, len(buckets), size)]
