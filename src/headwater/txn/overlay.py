"""Some keys of a space as one reader sees them, laid over the tuples that are there.

An interactive transaction sees its own writes over the common state. A read view sees old tuples over it, in place
of what others have changed since. Both are the same thing: a set of primary keys that hide what the space holds
(`masked`), and the tuples that are seen in their place (`shown`). They are kept in index kernels of their own, so
that equal keys in different encodings are equal here too, and every index has its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from headwater.kernels import DuplicateKey, KeyDef, Memtx, MemtxSpace, mp_array_fields
from headwater.store.definitions import IndexDef
from headwater.txn.base import PRIMARY, index_of
from headwater.typing import IndexId, IteratorType

_EVERYTHING = 0xFFFFFFFF
_BACKWARD = frozenset((IteratorType.REQ, IteratorType.LT, IteratorType.LE, IteratorType.PP))
_CHUNK_MIN = 16
_CHUNK_MAX = 1024


def is_backward(iterator: int) -> bool:
    return iterator in _BACKWARD


def has_nil(key: bytes) -> bool:
    """Is a part of the key array nil? Such a key is unique in no index."""
    return any(key[offset] == 0xC0 for offset in mp_array_fields(key)[:-1])


class Scratch:
    """Index kernels that belong to one transaction and die with it."""

    __slots__ = ("_count", "memtx")

    def __init__(self) -> None:
        self.memtx = Memtx()
        self._count = 0

    def space(self) -> MemtxSpace:
        self._count += 1
        return self.memtx.add_space(self._count)


class Overlay:
    __slots__ = ("_base", "_masked", "_pk", "_shown", "unique_secondary")

    def __init__(self, scratch: Scratch, base: MemtxSpace, indexes: Mapping[IndexId, IndexDef]) -> None:
        self._base = base
        self._shown = scratch.space()
        self._masked = scratch.space()
        self.unique_secondary: list[tuple[IndexId, KeyDef]] = []
        for index_id in sorted(indexes):
            key_def = index_of(base, index_id).key_def
            self._shown.add_index(index_id, key_def, indexes[index_id].unique)
            if indexes[index_id].unique and index_id != PRIMARY:
                self.unique_secondary.append((index_id, key_def))
        self._pk = index_of(base, PRIMARY).key_def
        self._masked.add_index(PRIMARY, self._pk, True)

    def __len__(self) -> int:
        """How many keys are seen otherwise than they are."""
        return len(self._masked)

    def masks(self, tuple: bytes) -> bool:
        return index_of(self._masked, PRIMARY).get(self._pk.extract(tuple)) is not None

    def decides(self, index_id: IndexId, key: bytes) -> bool:
        """Is the answer for a full key of a unique index this overlay's, whatever is below?"""
        if index_id == PRIMARY:
            return index_of(self._masked, PRIMARY).get(key) is not None
        return index_of(self._shown, index_id).get(key) is not None

    # ---- reading ------------------------------------------------------------------------------------

    def get(self, index_id: IndexId, key: bytes) -> bytes | None:
        shown = index_of(self._shown, index_id).get(key)
        if shown is not None:
            return shown
        found = index_of(self._base, index_id).get(key)
        return None if found is None or self.masks(found) else found

    def select(
        self,
        index_id: IndexId,
        iterator: int,
        key: bytes,
        offset: int = 0,
        limit: int = _EVERYTHING,
        after: bytes | None = None,
    ) -> list[bytes]:
        base = index_of(self._base, index_id)
        if not len(self._masked):
            return base.select(iterator, key, offset, limit, after)
        shown = index_of(self._shown, index_id).select(iterator, key, 0, _EVERYTHING, after)
        under = self._unmasked(index_id, iterator, key, after, offset + limit)
        merged = _merge(shown, under, base.key_def, -1 if is_backward(iterator) else 1)
        return list(islice(merged, offset, offset + limit))

    def _unmasked(
        self, index_id: IndexId, iterator: int, key: bytes, after: bytes | None, wanted: int
    ) -> Iterator[bytes]:
        base = index_of(self._base, index_id)
        chunk = min(max(wanted + len(self._masked), _CHUNK_MIN), _CHUNK_MAX)
        while True:
            found = base.select(iterator, key, 0, chunk, after)
            yield from (under for under in found if not self.masks(under))
            if len(found) < chunk:
                return
            after = found[-1]

    # ---- what a transaction writes --------------------------------------------------------------------

    def duplicate(self, new: bytes) -> DuplicateKey | None:
        """The first unique secondary index in which another tuple has a key of `new`."""
        for index_id, key_def in self.unique_secondary:
            key = key_def.extract(new)
            if has_nil(key):
                continue
            old = self.get(index_id, key)
            if old is not None and self._pk.compare(old, new):
                return DuplicateKey(index_id, old, new)
        return None

    def put(self, new: bytes) -> None:
        """`duplicate(new)` is None."""
        self._masked.replace(new)
        self._shown.replace(new)

    def remove(self, old: bytes) -> None:
        self._masked.replace(old)
        self._shown.delete(PRIMARY, self._pk.extract(old))

    # ---- what a read view keeps ----------------------------------------------------------------------

    def keep(self, old: bytes | None, new: bytes | None) -> None:
        """Somebody changes `old` to `new`: go on showing `old`. The first change of a key decides."""
        either = old if old is not None else new
        if either is None or self.masks(either):
            return
        self._masked.replace(either)
        if old is not None:
            self._shown.replace(old)


def _merge(shown: list[bytes], under: Iterator[bytes], order: KeyDef, direction: int) -> Iterator[bytes]:
    """Two runs in the order of an index become one. No tuple is in both."""
    below = next(under, None)
    for above in shown:
        while below is not None and order.compare(below, above) * direction < 0:
            yield below
            below = next(under, None)
        yield above
    while below is not None:
        yield below
        below = next(under, None)
