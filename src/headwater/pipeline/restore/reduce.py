"""From the rows of a bucket to its tuples, in the order of a snapshot; runs in a task.

The compiled store of a node does the work: rows of snapshot and logs are applied as in a recovery, and a view of the
store gives the rows of the new snapshot. What it leaves, operations above all, is applied by the store's update code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from headwater.errors import BoxError, HeadwaterError
from headwater.kernels import DuplicateKey, FormatViolation, KeyDef, KeyViolation, Memtx, MemtxSpace
from headwater.pipeline.restore.errors import Unfit
from headwater.pipeline.restore.keyspec import KeySpec
from headwater.pipeline.restore.split import MARK, Piece
from headwater.store.text import tuple_text
from headwater.store.update import apply_update, apply_upsert, keeps_key
from headwater.typing import FieldType, IteratorType
from headwater.wire.constants import Type, type_name
from headwater.wire.msgpack import unpack
from headwater.wire.request import Request, of_row
from headwater.wire.xrow import Row, decode_row

FILL_BYTES = 1 << 20
_ALL_KEYS = b"\x90"


@dataclass(frozen=True, slots=True)
class Shape:
    """A definition, as far as rows written under it need it."""

    key: KeySpec
    names: Mapping[str, int]
    types: Sequence[FieldType]


@dataclass(frozen=True, slots=True)
class SpaceTask:
    """A space of the bucket."""

    id: int
    name: str
    is_local: bool
    shapes: tuple[Shape, ...]
    """One after another."""
    low: bytes | None = None
    high: bytes | None = None
    """Keys from `low` on and below `high` belong to this bucket."""
    from_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class BasePart:
    """Blocks of the snapshot."""

    begin: int
    end: int
    is_inner: bool
    """All their rows should be of the bucket; else some are of its neighbours."""


@dataclass(frozen=True, slots=True)
class ReduceTask:
    bucket: int
    spaces: tuple[SpaceTask, ...]
    pieces: tuple[Piece, ...]
    staging: str
    token: str
    time: float
    """Of the new rows."""
    path: str = ""
    """Of the snapshot."""
    size: int = 0
    parts: tuple[BasePart, ...] = ()
    are_given: bool = False
    """The rows are a user's, and do not come from files of a server."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Blocks of the snapshot from `begin` on, as one bucket has read them."""

    begin: int
    rows: Mapping[int, int]
    """Space → how many rows are there."""
    own: Mapping[int, int]
    """Space → how many of them are the bucket's; -1 for a space that has rows in other places than its order says."""


@dataclass(frozen=True, slots=True)
class Reduced:
    bucket: int
    path: str
    """Rows of a snapshot, numbered from 0."""
    size: int
    rows: int
    spaces: Mapping[int, int]
    """Space → how many."""
    edges: Sequence[Edge] = ()
    """What was found in blocks of the snapshot that other buckets read, too."""


def read_piece(piece: Piece) -> bytes:
    with open(piece.path, "rb") as file:
        return os.pread(file.fileno(), piece.size, piece.offset)


# ---- the state -------------------------------------------------------------------------------------


class _Space:
    """A space while rows are applied."""

    def __init__(self, task: SpaceTask, memtx: Memtx) -> None:
        self.task = task
        self.shape = task.shapes[0]
        self._memtx = memtx
        self.kernel, self.key_def = self._make()

    def _make(self) -> tuple[MemtxSpace, KeyDef]:
        kernel = self._memtx.add_space(self.task.id, self.task.is_local)
        kernel.set_format(self.shape.key.format())
        key_def = self.shape.key.key_def()
        kernel.add_index(0, key_def, True)
        kernel.fast = True
        return kernel, key_def

    def become(self, shape: Shape) -> None:
        """Another definition, perhaps with another primary key."""
        before, self.shape = self.shape, shape
        if before.key.parts == shape.key.parts:
            return
        tuples = self.select(IteratorType.ALL, _ALL_KEYS)
        self._memtx.remove_space(self.task.id)
        self.kernel, self.key_def = self._make()
        for packed in tuples:
            self.kernel.insert(packed)

    def select(self, iterator: IteratorType, key: bytes, limit: int = 0xFFFFFFFF) -> list[bytes]:
        index = self.kernel.index(0)
        assert index is not None
        return index.select(iterator, key, 0, limit)

    def get(self, key: bytes) -> bytes | None:
        index = self.kernel.index(0)
        assert index is not None
        return index.get(key)


class State:
    """The tuples of a bucket."""

    def __init__(self, spaces: Sequence[SpaceTask], *, are_given: bool = False) -> None:
        self._are_given = are_given
        self._memtx = Memtx()
        self._memtx.undo_enabled = False
        self._spaces = {space.id: _Space(space, self._memtx) for space in spaces}

    def apply(self, rows: bytes) -> None:
        """Rows in their order."""
        at, end = 0, len(rows)
        while at < end:
            try:
                at, _ = self._memtx.apply(rows, at, end, True)
            except DuplicateKey as error:
                self._refuse(decode_row(rows, error.offset)[0], "a tuple with its key is there already")
            if at < end:
                row, at = decode_row(rows, at)
                self._one(row)

    def counts(self) -> dict[int, int]:
        return {space_id: len(space.kernel) for space_id, space in self._spaces.items()}

    def rows(self, time: float) -> Iterator[tuple[bytes, int]]:
        """As a snapshot has them, in order; and how many each time."""
        view = self._memtx.open_view(sorted(self._spaces))
        total = 0
        try:
            while True:
                data, count = view.fill(FILL_BYTES, total, time)
                if not count:
                    return
                yield data, count
                total += count
        finally:
            view.close()

    def dump(self, space_id: int) -> bytes:
        """All rows of a space, in order; nothing if it is not here."""
        if space_id not in self._spaces:
            return b""
        view = self._memtx.open_view([space_id])
        try:
            data, _ = view.fill(1 << 62, 0, 0.0)
            return data
        finally:
            view.close()

    def is_inside(self, task: SpaceTask) -> bool:
        """Are all keys in the stretch that is the bucket's?"""
        space = self._spaces[task.id]
        below = task.low is not None and space.select(IteratorType.LT, task.low, 1)
        return not below and not (task.high is not None and space.select(IteratorType.GE, task.high, 1))

    # ---- what the store leaves

    def _one(self, row: Row) -> None:
        if row.type == MARK:
            body = unpack(row.body)
            space = self._spaces[body[0x10]]
            space.become(space.task.shapes[body[0x21][0]])
            return
        try:
            request = of_row(row)
            space = self._spaces[request.space_id]
            self._change(space, request)
        except DuplicateKey:
            self._refuse(row, "a tuple with its key is there already")
        except (FormatViolation, KeyViolation) as error:
            self._refuse(row, f"its key does not fit the primary index ({error.kind})")
        except KeyError:
            self._refuse(row, "its space is not of this bucket")
        except HeadwaterError as error:
            self._refuse(row, error.message if isinstance(error, BoxError) else str(error))

    def _change(self, space: _Space, request: Request) -> None:
        if request.new_tuple is not None:
            space.kernel.replace(request.new_tuple)  # a server with WAL extensions says what came of it
        elif request.type == Type.INSERT:
            space.kernel.insert(cast(bytes, request.tuple))
        elif request.type == Type.REPLACE:
            space.kernel.replace(cast(bytes, request.tuple))
        elif request.type == Type.DELETE:
            space.kernel.delete(0, cast(bytes, request.key))
        elif request.type == Type.UPDATE:
            self._update(space, request)
        elif request.type == Type.UPSERT:
            self._upsert(space, request)
        elif request.type == Type.DELETE_RANGE:
            self._delete_range(space, request)

    @staticmethod
    def _update(space: _Space, request: Request) -> None:
        old = space.get(cast(bytes, request.key))
        if old is not None:
            shape = space.shape
            new = apply_update(cast(bytes, request.tuple), old, shape.names, request.index_base, shape.types)
            space.kernel.update(old, new)

    @staticmethod
    def _upsert(space: _Space, request: Request) -> None:
        """One that would change the primary key is forgotten (memtx_space.c, memtx_space_execute_upsert)."""
        given, shape = cast(bytes, request.tuple), space.shape
        old = space.get(space.key_def.extract(given))
        if old is None:
            space.kernel.insert(given)
            return
        new = apply_upsert(cast(bytes, request.ops), old, shape.names, request.index_base, shape.types).tuple
        if keeps_key(space.key_def, old, new):
            space.kernel.update(old, new)

    @staticmethod
    def _delete_range(space: _Space, request: Request) -> None:
        """From the first key on and below the second (memtx_space.c, memtx_space_execute_delete_range)."""
        begin, end = request.begin_key or _ALL_KEYS, request.end_key or _ALL_KEYS
        for packed in space.select(IteratorType.GE, begin):
            if end != _ALL_KEYS and space.key_def.compare_with_key(packed, end) >= 0:
                break
            space.kernel.delete(0, space.key_def.extract(packed))

    def _refuse(self, row: Row, why: str) -> NoReturn:
        request = of_row(row)
        known = self._spaces.get(request.space_id)
        name = known.task.name if known is not None else str(request.space_id)
        shown = request.tuple if request.type in (Type.INSERT, Type.REPLACE) else request.key
        if self._are_given:
            raise Unfit(f"A row cannot go into the space '{name}': {why}: {tuple_text(shown or _ALL_KEYS)}.")
        where = f"replica {row.replica_id}, LSN {row.lsn}" if row.lsn and row.replica_id else "of the snapshot"
        raise Unfit(
            f"{type_name(row.type) or row.type} of the space '{name}', {where}, cannot be applied: {why}"
            f"{': ' + tuple_text(shown) if shown is not None else ''}. The files contradict each other; do they belong "
            "together, and is none of them missing?"
        )
