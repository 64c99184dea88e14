"""One index: comparison keys and tuples in two parallel sorted lists."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from headwater.kernels.pure.fields import whole_array
from headwater.kernels.pure.keys import ABOVE, STRING, Flat, KeyDef
from headwater.kernels.pure.violations import DuplicateKey
from headwater.typing import IteratorType

_REVERSE = frozenset((IteratorType.REQ, IteratorType.LT, IteratorType.LE, IteratorType.PP))
_SUPPORTED = frozenset(range(IteratorType.GT + 1)) | {IteratorType.NP, IteratorType.PP}
_NO_LIMIT = 0xFFFFFFFF


class MemtxIndex:
    """Ordered tuples of one index."""

    def __init__(self, id: int, key_def: KeyDef, unique: bool) -> None:
        self.id = id
        self.key_def = key_def
        self.unique = unique
        self.hash = False
        self.keys: list[Flat] = []
        self.tuples: list[bytes] = []
        self.shared = False
        """A read view looks at `tuples`: the next write must go to a copy."""
        self.attached = True
        """Is it in step with its space? A detached index answers nothing."""

    def __len__(self) -> int:
        return len(self.tuples)

    @property
    def bsize(self) -> int:
        """What the compiled twin takes for its entries; the lists here take more."""
        return 16 * len(self.tuples)

    # ---- reading -------------------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """By a full key (all parts); unique indexes only."""
        self._expect_attached()
        if not self.unique:
            raise ValueError(f"index {self.id} is not unique: a key does not name one tuple")
        self.key_def.check_key(key, exact=True)
        return self.find(self.key_def.flat_key(key))

    def find(self, flat: Flat) -> bytes | None:
        """The first tuple whose own parts are those of `flat`."""
        own = flat[: self.key_def.own_size]
        at = bisect_left(self.keys, own)
        if at < len(self.keys) and self.keys[at][: len(own)] == own:
            return self.tuples[at]
        return None

    def select(
        self, iterator: int, key: bytes, offset: int = 0, limit: int = _NO_LIMIT, after: bytes | None = None
    ) -> list[bytes]:
        """Tuples in the order of `iterator`."""
        low, high = self._range(iterator, key)
        reverse = iterator in _REVERSE
        if after is not None:
            low, high = self._behind(after, iterator, low, high)
        count = min(max(high - low - offset, 0), limit)
        if not count:
            return []
        if reverse:
            return self.tuples[high - offset - count : high - offset][::-1]
        return self.tuples[low + offset : low + offset + count]

    def _behind(self, after: bytes, iterator: int, low: int, high: int) -> tuple[int, int]:
        """What is left of [low, high) behind a tuple. It takes the place of the key, except for EQ and REQ
        (memtx_tree.cc, memtx_tree_lookup)."""
        at = self.key_def.flat(after, whole_array(after))
        if iterator in _REVERSE:
            end = bisect_left(self.keys, at)
            return (low, min(end, high)) if iterator == IteratorType.REQ else (0, end)
        start = bisect_right(self.keys, at)
        return (max(start, low), high) if iterator == IteratorType.EQ else (start, len(self.keys))

    def count(self, iterator: int, key: bytes) -> int:
        low, high = self._range(iterator, key)
        return max(high - low, 0)

    def random(self, seed: int) -> bytes | None:
        self._expect_attached()
        return self.tuples[seed % len(self.tuples)] if self.tuples else None

    def _range(self, iterator: int, key: bytes) -> tuple[int, int]:
        """[low, high) of what `iterator` walks, in whichever direction."""
        if iterator not in _SUPPORTED:
            raise ValueError(f"an ordered index has no iterator {iterator}")
        self._expect_attached()
        self.key_def.check_key(key, exact=False)
        flat = self.key_def.flat_key(key)
        size = len(self.keys)
        if not flat:
            return 0, size
        if iterator == IteratorType.NP:
            return self._next_prefix(flat), size
        low = bisect_left(self.keys, flat)
        if iterator in (IteratorType.LT, IteratorType.PP):
            return 0, low
        if iterator in (IteratorType.GE, IteratorType.ALL):
            return low, size
        high = bisect_left(self.keys, flat + ABOVE, low)
        if iterator == IteratorType.GT:
            return high, size
        return (0, high) if iterator == IteratorType.LE else (low, high)

    def _next_prefix(self, flat: Flat) -> int:
        """Where NP starts: behind all strings that begin with the last part (index.cc,
        prepare_start_prefix_iterator); a last part that is no string makes it GT."""
        if flat[-2] != STRING:
            return bisect_left(self.keys, flat + ABOVE)
        text: bytes = flat[-1]
        stem = text.rstrip(b"\xff")
        if not stem:
            return len(self.keys)
        # The carry leaves zero bytes where 0xff was, as in Tarantool: "a\xff" is followed by "b\0", not by "b".
        above = stem[:-1] + bytes((stem[-1] + 1,)) + bytes(len(text) - len(stem))
        return bisect_left(self.keys, (*flat[:-1], above))

    def _expect_attached(self) -> None:
        if not self.attached:
            raise ValueError(f"index {self.id} is detached from its space")

    # ---- writing -------------------------------------------------------------------------------------

    def entry(self, data: bytes, offsets: list[int]) -> Flat | None:
        """The comparison key of a tuple; None if the index leaves it out."""
        return None if self.key_def.excludes(data, offsets) else self.key_def.flat(data, offsets)

    def rival(self, entry: Flat | None) -> bytes | None:
        """The tuple that forbids a new one with this key."""
        if entry is None or not self.unique or self.key_def.has_nil(entry):
            return None
        return self.find(entry)

    def put(self, entry: Flat | None, data: bytes) -> None:
        if entry is None:
            return
        self._unshare()
        at = len(self.keys) if not self.keys or entry > self.keys[-1] else bisect_right(self.keys, entry)
        self.keys.insert(at, entry)
        self.tuples.insert(at, data)

    def drop(self, entry: Flat | None, data: bytes) -> None:
        if entry is None:
            return
        self._unshare()
        at = bisect_left(self.keys, entry)
        while self.tuples[at] is not data and self.tuples[at] != data:
            at += 1
        del self.keys[at]
        del self.tuples[at]

    def swap(self, entry: Flat, data: bytes) -> None:
        """Put a tuple in the place of the one with an equal comparison key."""
        self._unshare()
        at = bisect_left(self.keys, entry)
        self.keys[at] = entry
        self.tuples[at] = data

    def build(self, tuples: Sequence[bytes]) -> None:
        """Fill an empty index; DuplicateKey leaves it half filled, and the caller throws it away."""
        entries = []
        for data in tuples:
            entry = self.entry(data, whole_array(data))
            if entry is not None:
                entries.append((entry, data))
        entries.sort(key=lambda pair: pair[0])
        self.keys = [entry for entry, _ in entries]
        self.tuples = [data for _, data in entries]
        if self.unique:
            self._check_unique()

    def _check_unique(self) -> None:
        own = self.key_def.own_size
        for at in range(1, len(self.keys)):
            entry = self.keys[at]
            if entry[:own] == self.keys[at - 1][:own] and not self.key_def.has_nil(entry):
                raise DuplicateKey(self.id, self.tuples[at - 1], self.tuples[at])

    def _unshare(self) -> None:
        if self.shared:
            self.tuples = self.tuples.copy()
            self.shared = False
