"""Short words for tests of update operations: Python values in, Python values or error codes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.errors import BoxError, Er
from headwater.store.update import apply_update, apply_upsert
from headwater.typing import FieldType
from headwater.wire.msgpack import pack, unpack

NAMES = {"id": 0, "name": 1, "data": 2, "a.b": 3}


def update(row: Sequence[Any], *ops: Any, base: int = 0, types: Sequence[FieldType] = ()) -> Any:
    return unpack(update_bytes(pack(list(row)), *ops, base=base, types=types))


def update_bytes(row: bytes, *ops: Any, base: int = 0, types: Sequence[FieldType] = ()) -> bytes:
    return apply_update(pack(list(ops)), row, NAMES, base, types)


def fault(row: Sequence[Any], *ops: Any, base: int = 0) -> tuple[Er, str]:
    """(code, message) of the error that an update raises."""
    with pytest.raises(BoxError) as caught:
        update(row, *ops, base=base)
    return Er(caught.value.code), caught.value.message


def upsert(row: Sequence[Any], *ops: Any, base: int = 0) -> tuple[Any, list[Er]]:
    """(tuple, codes of the operations that were skipped)"""
    result = apply_upsert(pack(list(ops)), pack(list(row)), NAMES, base)
    return unpack(result.tuple), [Er(error.code) for error in result.skipped]
