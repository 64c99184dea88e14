"""The rows of all spaces in buckets of about the same size: stretches in the order of space and primary key.

A machine. Where keys lie is guessed from samples of the logs and from the snapshot, which is in this very order; a
guess that is bad makes buckets uneven, never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headwater.kernels.split import keys_of
from headwater.pipeline.restore.base import Mark
from headwater.pipeline.restore.keyspec import KeySpec
from headwater.pipeline.restore.system import Life

BUCKET_BYTES = 32 << 20
"""Rows of so many bytes, unpacked, make a bucket."""
_PACKED = 4
"""A snapshot on the disk is about so many times smaller than its rows."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A space in a bucket: keys from `low` on and below `high`, as far as those are given."""

    space_id: int
    low: bytes | None = None
    high: bytes | None = None


@dataclass(slots=True)
class Bucket:
    number: int
    stretches: list[Stretch] = field(default_factory=list)
    begin: int = 0
    """The blocks of the snapshot that hold its rows begin from here on and before `end`."""
    end: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """All buckets, and what `Splitter` is told of them."""

    buckets: list[Bucket]
    first: Mapping[int, int]
    """Space → its first bucket."""
    bounds: Mapping[int, Sequence[bytes]]
    """Space → where its buckets part."""
    unordered: frozenset[int]
    """Spaces whose rows in the snapshot are in no order of their keys."""

    @property
    def count(self) -> int:
        return len(self.buckets)

    def with_spaces(self, spaces: Sequence[int]) -> Layout:
        """With these, whole, in the last bucket."""
        if not spaces:
            return self
        last = self.buckets[-1]
        grown = Bucket(last.number, [*last.stretches, *(Stretch(space_id) for space_id in spaces)])
        first = {**self.first, **dict.fromkeys(spaces, last.number)}
        bounds = {**self.bounds, **{space_id: [] for space_id in spaces}}
        return Layout([*self.buckets[:-1], grown], first, bounds, self.unordered)


@dataclass(slots=True)
class _Weighed:
    """A space before it is parted."""

    space_id: int
    spec: KeySpec
    is_whole: bool
    """It must not be parted: its primary key changed."""
    keys: list[tuple[bytes, int]] = field(default_factory=list)
    """(key, bytes of rows from it on), about."""
    size: int = 0


class Layouter:
    """Gathers weights, then parts."""

    def __init__(self, lives: Mapping[int, Life], distrusted: frozenset[int] = frozenset()) -> None:
        """`distrusted`: spaces whose rows in the snapshot turned out to be in another order."""
        self._spaces = {
            space_id: _Weighed(space_id, life.now.key, life.is_rekeyed)
            for space_id, life in sorted(lives.items())
            if life.now.key is not None
        }
        self._lives = lives
        self._marks: list[tuple[int, int, bytes | None]] = []
        """(offset, space, key) of the snapshot's marks."""
        self._end = 0
        self._unordered = set(distrusted)

    def snapshot(self, marks: Sequence[Mark], end: int) -> None:
        self._end = end
        for number, mark in enumerate(marks):
            after = marks[number + 1].offset if number + 1 < len(marks) else end
            key = self._key_at(mark)
            self._marks.append((mark.offset, mark.space_id, key))
            self._weigh(mark.space_id, key, (after - mark.offset) * _PACKED)
        for space_id, space in self._spaces.items():
            life = self._lives[space_id]
            if life.since is None and (not _is_ordered(life) or not self._grows(space)):
                self._unordered.add(space_id)

    def sample(self, row: bytes, weight: int) -> None:
        """A row of a log, which stands for so many bytes of rows."""
        for space_id, key in keys_of(row, 0, {each.space_id: each.spec.fields for each in self._spaces.values()}):
            self._weigh(space_id, key, weight)

    def _key_at(self, mark: Mark) -> bytes | None:
        life = self._lives.get(mark.space_id)
        if life is None or life.since is not None or life.first.key is None:
            return None
        found = keys_of(mark.row, 0, {mark.space_id: life.first.key.fields})
        return found[0][1] if found else None

    def _weigh(self, space_id: int, key: bytes | None, weight: int) -> None:
        space = self._spaces.get(space_id)
        if space is not None:
            space.size += weight
            if key is not None and not space.is_whole and space.spec.is_key(key):
                space.keys.append((key, weight))

    def _grows(self, space: _Weighed) -> bool:
        """Are the marks of the snapshot in the order of the keys?"""
        keys = [key for _, space_id, key in self._marks if space_id == space.space_id and key is not None]
        order = space.spec.order()
        return all(order(one) <= order(two) for one, two in pairwise(keys))

    # ---- parting

    @property
    def weight(self) -> int:
        """Bytes of all rows, about."""
        return sum(space.size for space in self._spaces.values())

    def layout(self, cores: int) -> Layout:
        """Work for all cores, in buckets that are neither large nor tiny."""
        size = max(1, min(BUCKET_BYTES, max(self.weight // max(cores, 1), BUCKET_BYTES // 16)))
        buckets = [Bucket(0)]
        first: dict[int, int] = {}
        bounds: dict[int, list[bytes]] = {}
        filled = 0
        for space in self._spaces.values():
            if filled and filled + space.size > size:
                buckets.append(Bucket(len(buckets)))
                filled = 0
            first[space.space_id] = buckets[-1].number
            bounds[space.space_id] = self._bounds(space, size, filled)
            filled = self._place(space, buckets, bounds[space.space_id], filled)
        for bucket in buckets:
            self._find_blocks(bucket)
        return Layout(buckets, first, bounds, frozenset(self._unordered))

    def alike(self, layout: Layout) -> Layout:
        """The buckets of another place, for the spaces that are here."""
        buckets = [
            Bucket(bucket.number, [each for each in bucket.stretches if each.space_id in self._spaces])
            for bucket in layout.buckets
        ]
        for bucket in buckets:
            self._find_blocks(bucket)
        first = {space_id: number for space_id, number in layout.first.items() if space_id in self._spaces}
        bounds = {space_id: found for space_id, found in layout.bounds.items() if space_id in self._spaces}
        return Layout(buckets, first, bounds, frozenset(self._unordered))

    @staticmethod
    def _bounds(space: _Weighed, size: int, filled: int) -> list[bytes]:
        """Keys at which the space is parted, growing, each once."""
        order = space.spec.order()
        bounds: list[bytes] = []
        for key, weight in sorted(space.keys, key=lambda pair: order(pair[0])):
            if filled >= size and (not bounds or order(bounds[-1]) < order(key)):
                bounds.append(key)
                filled = 0
            filled += weight
        return bounds

    @staticmethod
    def _place(space: _Weighed, buckets: list[Bucket], bounds: Sequence[bytes], filled: int) -> int:
        """The space into the last bucket and as many new ones as there are bounds. Bytes in the last one then."""
        low: bytes | None = None
        for bound in bounds:
            buckets[-1].stretches.append(Stretch(space.space_id, low, bound))
            buckets.append(Bucket(len(buckets)))
            low = bound
        buckets[-1].stretches.append(Stretch(space.space_id, low))
        return filled + space.size if not bounds else space.size // (len(bounds) + 1)

    def _find_blocks(self, bucket: Bucket) -> None:
        """From the last mark at or before its beginning to the first one behind its end."""
        found = [each for each in bucket.stretches if self._is_read_here(each.space_id)]
        wanted = sorted(found, key=lambda each: each.space_id)
        if not wanted or not self._marks:
            return
        bucket.begin, bucket.end = self._marks[0][0], self._end
        for offset, space_id, key in self._marks:
            if self._is_at_or_before(space_id, key, wanted[0]):
                bucket.begin = offset
        for offset, space_id, key in reversed(self._marks):
            if self._is_behind(space_id, key, wanted[-1]):
                bucket.end = offset

    def _is_read_here(self, space_id: int) -> bool:
        return self._lives[space_id].since is None and space_id not in self._unordered

    def _is_at_or_before(self, space_id: int, key: bytes | None, stretch: Stretch) -> bool:
        """Do the rows at a mark stand at or before the first one of a stretch?"""
        if space_id != stretch.space_id:
            return space_id < stretch.space_id
        if key is None or stretch.low is None:
            return False
        order = self._spaces[space_id].spec.order()
        return bool(order(key) <= order(stretch.low))

    def _is_behind(self, space_id: int, key: bytes | None, stretch: Stretch) -> bool:
        if space_id != stretch.space_id:
            return space_id > stretch.space_id
        if key is None or stretch.high is None:
            return False
        order = self._spaces[space_id].spec.order()
        return bool(order(key) >= order(stretch.high))

    def unordered_blocks(self) -> list[tuple[int, int, int]]:
        """(begin, end, space) of the blocks that hold rows of spaces without order, and perhaps of others."""
        found = []
        for space_id in sorted(self._unordered):
            if space_id in self._spaces and self._lives[space_id].since is None and self._marks:
                begin = max((offset for offset, other, _ in self._marks if other < space_id), default=self._marks[0][0])
                end = min((offset for offset, other, _ in self._marks if other > space_id), default=self._end)
                found.append((begin, end, space_id))
        return found


def _is_ordered(life: Life) -> bool:
    """Is the order of the snapshot that of the key by which rows are parted?"""
    return life.first.key is not None and life.first.key.is_ordered and not life.is_rekeyed
