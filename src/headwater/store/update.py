"""UPDATE and UPSERT: operations over the MessagePack of a tuple (xrow_update.c).

Every field that no operation touches is copied byte by byte. What the caller still has to do: check the new tuple
against the format, and see that the primary key is the same (`keeps_key`). An UPDATE that would change it is refused
(ER_CANT_UPDATE_PRIMARY_KEY), an UPSERT that would is logged and forgotten (memtx_space.c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.errors import BoxError, IllegalParams
from headwater.kernels import KeyDef
from headwater.store.update_ops import read_ops
from headwater.store.update_tree import Array
from headwater.typing import FieldType

TUPLE_SIZE_MAX = 1 << 20
"""Default of memtx_max_tuple_size: no gap longer than this is filled with nils."""


class Upserted(NamedTuple):
    """Result of an UPSERT on a tuple that is there."""

    tuple: bytes
    skipped: Sequence[BoxError]
    """Operations that did not suit the tuple. They are logged as "UPSERT operation failed:" and otherwise ignored."""


def check_ops(ops: bytes, names: Mapping[str, int], index_base: int) -> None:
    """What can be wrong with operations whatever the tuple is (xrow_update_check_ops): an UPSERT that inserts must
    refuse it too."""
    read_ops(ops, names, index_base)


def apply_update(
    ops: bytes,
    tuple: bytes,
    names: Mapping[str, int],
    index_base: int,
    types: Sequence[FieldType] = (),
    max_size: int = TUPLE_SIZE_MAX,
) -> bytes:
    """The tuple after all operations, one after another; the first that fails raises its error.

    `names` are the fields of the format and their numbers from 0; `index_base` is the request's, 0 or 1; `types` are
    the merged types of the fields, which decide between float and double where a result could be either.
    """
    root = Array(tuple)
    for op in read_ops(ops, names, index_base):
        root.apply(op, max_size)
    return _stored(root, types)


def apply_upsert(
    ops: bytes,
    tuple: bytes,
    names: Mapping[str, int],
    index_base: int,
    types: Sequence[FieldType] = (),
    max_size: int = TUPLE_SIZE_MAX,
) -> Upserted:
    """The old tuple after all operations that suit it (xrow_upsert_do_ops)."""
    root = Array(tuple)
    skipped: list[BoxError] = []
    for op in read_ops(ops, names, index_base):
        try:
            root.apply(op, max_size)
        except IllegalParams:
            raise
        except BoxError as error:
            skipped.append(error)
    return Upserted(_stored(root, types), skipped)


def keeps_key(primary: KeyDef, old: bytes, new: bytes) -> bool:
    """Do both tuples have the same primary key?"""
    return primary.compare(old, new) == 0


def _stored(root: Array, types: Sequence[FieldType]) -> bytes:
    out: list[bytes] = []
    root.store(out, types)
    return b"".join(out)
