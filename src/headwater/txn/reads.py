"""What a transaction has read in one space, and whether a change touches it.

A read is remembered as what would have to change for it to be read otherwise: a key of a unique index (`Points`), or
a stretch of an index from where a scan began to where it stopped (`Stretch`). A change touches a read if the tuple it
takes away or the tuple it brings lies there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.kernels import KeyDef, MemtxSpace, mp_array_fields
from headwater.store.definitions import IndexDef
from headwater.txn.base import PRIMARY, index_of
from headwater.txn.overlay import Scratch, has_nil, is_backward
from headwater.typing import IndexId, IteratorType

_EMPTY_KEY = b"\x90"


def is_full_key(definition: IndexDef, key: bytes) -> bool:
    """Can this key find one tuple at most? (If no part of it is nil.)"""
    return definition.unique and len(mp_array_fields(key)) - 1 == len(definition.parts)


@dataclass(slots=True, frozen=True)
class Stretch:
    """A scan of an index: from `iterator` and `key` (and behind `after`) up to and including `until`."""

    order: KeyDef
    iterator: int
    key: bytes
    after: bytes | None
    until: bytes | None
    """The last tuple that the scan looked at; None if it went to the end."""

    def touched_by(self, tuple: bytes) -> bool:
        if self.key != _EMPTY_KEY and not self._fits(self.order.compare_with_key(tuple, self.key)):
            return False
        direction = -1 if is_backward(self.iterator) else 1
        if self.after is not None and self.order.compare(tuple, self.after) * direction <= 0:
            return False
        return self.until is None or self.order.compare(tuple, self.until) * direction <= 0

    def touched_by_change(self, old: bytes | None, new: bytes | None) -> bool:
        return (old is not None and self.touched_by(old)) or (new is not None and self.touched_by(new))

    def _fits(self, order: int) -> bool:
        match self.iterator:
            case IteratorType.EQ | IteratorType.REQ:
                return order == 0
            case IteratorType.GT | IteratorType.NP:
                return order > 0
            case IteratorType.LT | IteratorType.PP:
                return order < 0
            case IteratorType.LE:
                return order <= 0
            case _:
                return order >= 0


class Points:
    """Keys of one unique index. Each is kept as a tuple that has it, in an index of the same order, so that a key is
    found again in whatever encoding it comes."""

    __slots__ = ("_definition", "_keys", "_order", "_width")

    def __init__(self, scratch: Scratch, order: KeyDef, definition: IndexDef) -> None:
        self._keys: MemtxSpace = scratch.space()
        self._keys.add_index(PRIMARY, order, True)
        self._order = order
        self._definition = definition
        self._width = max(part.field for part in definition.parts) + 1

    def add(self, key: bytes) -> None:
        self._keys.replace(self._tuple_with(key))

    def touched_by(self, tuple: bytes) -> bool:
        key = self._order.extract(tuple)
        return not has_nil(key) and index_of(self._keys, PRIMARY).get(key) is not None

    def _tuple_with(self, key: bytes) -> bytes:
        fields = [b"\xc0"] * self._width
        offsets = mp_array_fields(key)
        for number, part in enumerate(self._definition.parts):
            fields[part.field] = key[offsets[number] : offsets[number + 1]]
        return b"\xdd" + self._width.to_bytes(4, "big") + b"".join(fields)


class Guard:
    """Keys of a unique secondary index that the transaction has given to tuples of its own. Somebody else's tuple with
    such a key would be a duplicate; the same tuple with it is not."""

    __slots__ = ("_keys", "_order", "_primary")

    def __init__(self, scratch: Scratch, order: KeyDef, primary: KeyDef) -> None:
        self._keys = scratch.space()
        self._keys.add_index(PRIMARY, order, True)
        self._order = order
        self._primary = primary

    def add(self, new: bytes) -> None:
        self._keys.replace(new)

    def touched_by(self, new: bytes) -> bool:
        key = self._order.extract(new)
        mine = None if has_nil(key) else index_of(self._keys, PRIMARY).get(key)
        return mine is not None and self._primary.compare(mine, new) != 0


class Reads:
    """All reads of one transaction in one space."""

    __slots__ = ("_base", "_guards", "_indexes", "_points", "_scratch", "_stretches")

    def __init__(self, scratch: Scratch, base: MemtxSpace, indexes: Mapping[IndexId, IndexDef]) -> None:
        self._scratch = scratch
        self._base = base
        self._indexes = indexes
        self._points: dict[IndexId, Points] = {}
        self._guards: dict[IndexId, Guard] = {}
        self._stretches: list[Stretch] = []

    def add_guard(self, index_id: IndexId, new: bytes) -> None:
        """`new` was written; nobody else may have its key in this index."""
        guard = self._guards.get(index_id)
        if guard is None:
            primary = index_of(self._base, PRIMARY).key_def
            guard = Guard(self._scratch, index_of(self._base, index_id).key_def, primary)
            self._guards[index_id] = guard
        guard.add(new)

    def add_point(self, index_id: IndexId, key: bytes) -> None:
        """A full key of a unique index was looked up."""
        if has_nil(key):
            self.add_stretch(index_id, IteratorType.EQ, key, None, None)
            return
        points = self._points.get(index_id)
        if points is None:
            order = index_of(self._base, index_id).key_def
            points = self._points[index_id] = Points(self._scratch, order, self._indexes[index_id])
        points.add(key)

    def add_stretch(
        self, index_id: IndexId, iterator: int, key: bytes, after: bytes | None, until: bytes | None
    ) -> None:
        if iterator == IteratorType.EQ and is_full_key(self._indexes[index_id], key) and not has_nil(key):
            self.add_point(index_id, key)
            return
        self._stretches.append(Stretch(index_of(self._base, index_id).key_def, iterator, key, after, until))

    def touched_by(self, old: bytes | None, new: bytes | None) -> bool:
        if old is not None and self._touched(old):
            return True
        return new is not None and (self._touched(new) or any(guard.touched_by(new) for guard in self._guards.values()))

    def _touched(self, tuple: bytes) -> bool:
        return any(points.touched_by(tuple) for points in self._points.values()) or any(
            stretch.touched_by(tuple) for stretch in self._stretches
        )
