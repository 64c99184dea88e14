"""From the parts of an index to the kernel's KeyDef (key_def.c key_def_merge, memtx_tree.cc).

The kernel orders a secondary index by its parts and, where these do not make the order total, by the parts of the
primary key. Parts that the index has already under an order at least as fine are left out of that tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.kernels import KeyDef, KeyPart
from headwater.store.definitions import IndexDef, PartDef

SortKey = Callable[[bytes], bytes]


class SortKeys(Protocol):
    """What is asked of the collations."""

    def sort_key(self, collation: int | None) -> SortKey | None:
        """None: bytewise order. Refuses by name a collation that needs a library which is not there."""


def depends_on_pk(index: IndexDef) -> bool:
    """Is the order of this index made total by the primary key (memtx_tree_index_depends_on_pk)?"""
    return index.type == "tree" and (not index.unique or any(part.nullable for part in index.parts))


def merged_parts(index: IndexDef, pk: IndexDef | None, sort_keys: SortKeys) -> tuple[PartDef, ...]:
    """Own parts, then those of the primary key that may still tell two tuples apart (index_def.cmp_def)."""
    if pk is None or index.id == 0 or not depends_on_pk(index):
        return tuple(index.parts)
    own = {part.field: part for part in index.parts}
    tail = (part for part in pk.parts if _adds(own.get(part.field), part, sort_keys))
    return (*index.parts, *tail)


def _adds(own: PartDef | None, part: PartDef, sort_keys: SortKeys) -> bool:
    """coll_can_merge: a bytewise order tells apart all that differs, a collation need not."""
    if own is None:
        return True
    first, second = sort_keys.sort_key(own.collation), sort_keys.sort_key(part.collation)
    return first is not None and first is not second


def kernel_parts(parts: Sequence[PartDef], sort_keys: SortKeys) -> list[KeyPart]:
    return [
        KeyPart(part.field, int(part.type), part.nullable, part.exclude_null, sort_keys.sort_key(part.collation))
        for part in parts
    ]


def kernel_key_def(index: IndexDef, pk: IndexDef | None, sort_keys: SortKeys) -> KeyDef:
    merged = merged_parts(index, pk, sort_keys)
    count = len(index.parts)
    return KeyDef(kernel_parts(merged[:count], sort_keys), kernel_parts(merged[count:], sort_keys))


def same_kernel_index(
    old: IndexDef, old_pk: IndexDef | None, new: IndexDef, new_pk: IndexDef | None, sort_keys: SortKeys
) -> bool:
    """May the kernel's index stay as it is? Types and nullability count here, though they change no order: the
    kernel checks keys by them."""
    return old.unique == new.unique and merged_parts(old, old_pk, sort_keys) == merged_parts(new, new_pk, sort_keys)


def requires_rebuild(
    old: IndexDef, old_pk: IndexDef | None, new: IndexDef, new_pk: IndexDef | None, sort_keys: SortKeys
) -> bool:
    """Would 3.x build the index anew (memtx_index_def_change_requires_rebuild)? It decides what a client is
    refused, not what we do."""
    if old.type != new.type or (new.unique and not old.unique):
        return True
    if _hint(old) != _hint(new):
        return True
    old_parts, new_parts = merged_parts(old, old_pk, sort_keys), merged_parts(new, new_pk, sort_keys)
    if len(old_parts) != len(new_parts):
        return True
    return any(
        (a.field, a.exclude_null) != (b.field, b.exclude_null)
        or sort_keys.sort_key(a.collation) is not sort_keys.sort_key(b.collation)
        for a, b in zip(old_parts, new_parts, strict=True)
    )


def _hint(index: IndexDef) -> bool:
    """The option `hint` where it is not given: on for a tree (alter.cc index_def_new_from_tuple)."""
    return bool(index.options.get("hint", index.type == "tree"))
