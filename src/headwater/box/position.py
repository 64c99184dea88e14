"""Where a page of a SELECT ended: the key of its last tuple, packed (index.cc, iterator_position_pack and kin).

A position is the MessagePack array of the parts by which the index orders its tuples, the primary key included where
the index itself does not tell tuples apart, in base64 without padding.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from headwater.errors import BoxError, Er, MsgPackError, er
from headwater.kernels import KeyDef, KeyViolation, mp_array_fields, mp_next
from headwater.store.definitions import IndexDef, PartDef
from headwater.store.keys import SortKeys, kernel_parts, merged_parts
from headwater.txn.overlay import is_backward
from headwater.typing import IteratorType


class Order:
    """How one index orders tuples, all parts that count."""

    def __init__(self, index: IndexDef, pk: IndexDef | None, sort_keys: SortKeys) -> None:
        self._is_tree = index.type == "tree"
        self._parts: Sequence[PartDef] = merged_parts(index, pk, sort_keys)
        self._key_def = KeyDef(kernel_parts(self._parts, sort_keys))
        self._own = KeyDef(kernel_parts(index.parts, sort_keys))

    def position_of(self, tuple: bytes) -> bytes:
        """Of the last tuple of a page."""
        return base64.b64encode(self._key_def.extract(tuple)).rstrip(b"=")

    def after_tuple(self, tuple: bytes) -> bytes:
        """What a client gave as AFTER_TUPLE, reduced to a tuple that the kernel can start behind
        (box_iterator_position_from_tuple)."""
        try:
            key = self._key_def.extract(tuple)
            self._key_def.check_key(key, exact=False)
        except (KeyViolation, MsgPackError):
            raise _invalid() from None
        return self._tuple_with(key)

    def after_position(self, position: bytes) -> bytes:
        """The same for AFTER_POSITION (iterator_position_unpack)."""
        key = _unpacked(position)
        try:
            if len(mp_array_fields(key)) - 1 != len(self._parts):
                raise _invalid()
            self._key_def.check_key(key, exact=False)
        except (KeyViolation, MsgPackError):
            raise _invalid() from None
        return self._tuple_with(key)

    def check(self, after: bytes, iterator: int, key: bytes) -> None:
        """The page must lie in what the SELECT walks (iterator_position_validate)."""
        if not self._is_tree:
            return
        order = self._own.compare_with_key(after, key)
        if order * (-1 if is_backward(iterator) else 1) < 0:
            raise _invalid()
        if iterator in (IteratorType.EQ, IteratorType.REQ) and order:
            raise _invalid()

    def _tuple_with(self, key: bytes) -> bytes:
        """A tuple that has this key and nothing else."""
        ends = mp_array_fields(key)
        width = max(part.field for part in self._parts) + 1
        fields = [b"\xc0"] * width
        for number, part in enumerate(self._parts):
            fields[part.field] = key[ends[number] : ends[number + 1]]
        return b"\xdd" + width.to_bytes(4, "big") + b"".join(fields)


def _unpacked(position: bytes) -> bytes:
    """base64.c skips what is not of its alphabet; so do we."""
    text = bytes(code for code in position if code in _ALPHABET)
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4))
        if not data or mp_next(data) != len(data) or not _is_array(data[0]):
            raise _invalid()
    except (binascii.Error, MsgPackError):
        raise _invalid() from None
    return data


_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _is_array(code: int) -> bool:
    return code & 0xF0 == 0x90 or code in (0xDC, 0xDD)


def _invalid() -> BoxError:
    return er(Er.ITERATOR_POSITION)
