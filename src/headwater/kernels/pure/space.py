"""One space: its tuples by index 0, and all other indexes in step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.kernels.pure.fields import TupleFormat, whole_array
from headwater.kernels.pure.index import MemtxIndex
from headwater.kernels.pure.keys import Flat, KeyDef
from headwater.kernels.pure.violations import DuplicateKey

READ, WRITE = 1, 2
"""Privilege bits (user_def.h, PRIV_R and PRIV_W)."""


class Contents(NamedTuple):
    """What detach_all took out of a space."""

    lists: dict[int, tuple[list[Flat], list[bytes], bool]]
    bsize: int


class MemtxSpace:
    """The tuples of one space. Index 0 owns them; all indexes see every change or none."""

    def __init__(
        self, id: int, local: bool, temporary: bool, record: Callable[[MemtxSpace, bytes | None, bytes | None], None]
    ) -> None:
        self.id = id
        self.fast = False
        self.local = local
        self.temporary = temporary
        self.unconfirmed = 0
        """Undo records of this space that confirm_to has not passed."""
        self._record = record
        self._format = TupleFormat(())
        self._access = [0] * 32
        self._indexes: dict[int, MemtxIndex] = {}
        self._bsize = 0

    # ---- definition ----------------------------------------------------------------------------------

    def set_format(self, format: TupleFormat) -> None:
        self._format = format

    def check_all(self, format: TupleFormat) -> None:
        """FormatViolation if an existing tuple does not fit."""
        primary = self._indexes.get(0)
        for data in primary.tuples if primary else ():
            format.check(data)

    def set_access(self, token: int, bits: int) -> None:
        self._access[token] = bits

    def allows(self, token: int, bit: int) -> bool:
        return 0 <= token < 32 and bool(self._access[token] & bit)

    def add_index(self, index_id: int, key_def: KeyDef, unique: bool) -> MemtxIndex:
        """Build from index 0 (DuplicateKey leaves nothing behind)."""
        index = MemtxIndex(index_id, key_def, unique)
        primary = self._indexes.get(0)
        if primary is not None:
            index.build(primary.tuples)
        self.attach_index(index)
        return index

    def detach_index(self, index_id: int) -> MemtxIndex:
        index = self._indexes.pop(index_id)
        index.attached = False
        return index

    def attach_index(self, index: MemtxIndex) -> None:
        """Put back what detach_index gave; only valid if no tuple changed in between (undo)."""
        if index.id in self._indexes:
            raise ValueError(f"space {self.id} already has an index {index.id}")
        index.attached = True
        self._indexes[index.id] = index
        self._indexes = dict(sorted(self._indexes.items()))

    def index(self, index_id: int) -> MemtxIndex | None:
        return self._indexes.get(index_id)

    # ---- contents ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        primary = self._indexes.get(0)
        return len(primary) if primary else 0

    @property
    def bsize(self) -> int:
        """Sum of the lengths of its tuples."""
        return self._bsize

    @property
    def index_bsize(self) -> int:
        return sum(index.bsize for index in self._indexes.values())

    def insert(self, tuple: bytes) -> None:
        """A new tuple; every unique index must be free for it."""
        entries = self._entries(tuple, self._format.scan(tuple))
        for index, entry in entries:
            self._refuse(index, entry, None, tuple)
        self._change(None, tuple, entries)

    def replace(self, tuple: bytes) -> bytes | None:
        """Insert or take the place of the tuple with the same primary key, which is returned."""
        entries = self._entries(tuple, self._format.scan(tuple))
        old = entries[0][0].rival(entries[0][1])
        for index, entry in entries[1:]:
            self._refuse(index, entry, old, tuple)
        self._change(old, tuple, entries)
        return old

    def update(self, old: bytes, new: bytes) -> None:
        """`old` is there now and has the primary key of `new`; checked like replace."""
        entries = self._entries(new, self._format.scan(new))
        stored = entries[0][0].rival(entries[0][1])
        if stored is None or stored != old:
            raise ValueError(f"space {self.id} does not hold the tuple to update under the primary key of the new one")
        for index, entry in entries[1:]:
            self._refuse(index, entry, stored, new)
        self._change(stored, new, entries)

    def delete(self, index_id: int, key: bytes) -> bytes | None:
        """By a full key of a unique index."""
        old = self._indexes[index_id].get(key)
        if old is not None:
            self._change(old, None, [])
        return old

    def detach_all(self) -> Contents:
        """Empty the space at once (truncate). No undo record."""
        lists = {number: (index.keys, index.tuples, index.shared) for number, index in self._indexes.items()}
        contents = Contents(lists, self._bsize)
        for index in self._indexes.values():
            index.keys, index.tuples, index.shared = [], [], False
        self._bsize = 0
        return contents

    def attach_all(self, contents: object) -> None:
        """Put them back in place of what is there (undo of truncate)."""
        if not isinstance(contents, Contents) or contents.lists.keys() != self._indexes.keys():
            raise ValueError("not what detach_all gave for the indexes of this space")
        for number, (keys, tuples, shared) in contents.lists.items():
            index = self._indexes[number]
            index.keys, index.tuples, index.shared = keys, tuples, shared
        self._bsize = contents.bsize

    def revert(self, old: bytes | None, new: bytes | None) -> None:
        """Undo of one change: no checks, no record."""
        self._apply(new, old, [] if old is None else self._entries(old, whole_array(old)))

    # ---- inside --------------------------------------------------------------------------------------

    def _entries(self, data: bytes, offsets: list[int]) -> list[tuple[MemtxIndex, Flat | None]]:
        if 0 not in self._indexes:
            raise LookupError(f"space {self.id} has no primary index")
        return [(index, index.entry(data, offsets)) for index in self._indexes.values()]

    def _refuse(self, index: MemtxIndex, entry: Flat | None, old: bytes | None, new: bytes) -> None:
        rival = index.rival(entry)
        if rival is not None and rival is not old:
            raise DuplicateKey(index.id, rival, new)

    def _change(self, old: bytes | None, new: bytes | None, entries: list[tuple[MemtxIndex, Flat | None]]) -> None:
        self._record(self, old, new)
        self._apply(old, new, entries)

    def _apply(self, old: bytes | None, new: bytes | None, entries: list[tuple[MemtxIndex, Flat | None]]) -> None:
        """`entries` are those of `new`, index by index."""
        olds = [] if old is None else self._entries(old, whole_array(old))
        if old is not None and new is not None:
            for (index, before), (_, after) in zip(olds, entries, strict=True):
                if before is not None and before == after:
                    index.swap(before, new)
                else:
                    index.drop(before, old)
                    index.put(after, new)
        elif old is not None:
            for index, before in olds:
                index.drop(before, old)
        elif new is not None:
            for index, after in entries:
                index.put(after, new)
        self._bsize += len(new or b"") - len(old or b"")
