"""Tuples of an Arrow batch, one after another, and the requests that they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.kernels.columns import pack_requests, pack_tuples
from headwater.kernels.packplan import PackColumn, PackError
from headwater.pipeline.errors import OptionError, ValueUnfit
from headwater.pipeline.upserts import binary_of, joined, upsert_packets

__all__ = ["Requests", "Tuples", "told", "tuples_of"]

_SHOWN_MAX = 60
"""Characters of a value in an error."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What becomes of tuples: the same for all tasks of a query."""

    space_id: int
    type: int
    """Of the request, where the rows do not say it."""
    key_fields: tuple[int, ...]
    """Of the tuples as they are packed."""
    changes: tuple[tuple[str, int], ...] = ()
    """Operations of UPSERT: (operator, field of the tuple that is changed by its own value)."""


@dataclass(slots=True)
class Tuples:
    """Tuples of one Arrow batch, one after another."""

    offsets: bytes
    data: bytes
    count: int
    first_row: int
    """Number of the first in its partition."""
    types: bytes | None = None
    """Type of the request of each, if the rows say it."""
    ops: pa.Array | None = None
    """Operations of the UPSERT of each, if the rows have their own."""

    def border(self, number: int) -> int:
        """Where tuple `number` begins, or the last one ends."""
        return int.from_bytes(self.offsets[4 * number : 4 * number + 4], "little")

    def bytes_of(self, first: int, count: int) -> memoryview:
        return memoryview(self.data)[self.border(first) : self.border(first + count)]

    def size(self, first: int, count: int) -> int:
        return self.border(first + count) - self.border(first)

    def fitting(self, first: int, rows: int, size: int) -> int:
        """How many tuples from `first` on are at most `rows` and `size` bytes; one at least."""
        low, high = 1, min(rows, self.count - first)
        while low < high:
            middle = (low + high + 1) // 2
            if self.size(first, middle) <= size:
                low = middle
            else:
                high = middle - 1
        return low

    def ops_of(self, first: int, count: int) -> bytes:
        """One after another; empty without any."""
        return b"" if self.ops is None else joined(self.ops.slice(first, count))

    def requests(self, made: Requests, first: int, count: int, sync: int, stream_id: int) -> bytes:
        """Packets, with syncs from `sync` on."""
        if self.ops is not None:
            tuples = binary_of(self.offsets, self.data, self.count).slice(first, count)
            return upsert_packets(tuples, self.ops.slice(first, count), made.space_id, sync, stream_id)
        types = None if self.types is None else memoryview(self.types)[first : first + count]
        return pack_requests(
            self.offsets,
            self.data,
            first,
            count,
            made.type,
            made.space_id,
            sync,
            stream_id,
            key_fields=made.key_fields,
            changes=made.changes,
            types=types,
        )


def tuples_of(
    columns: Sequence[PackColumn],
    rows: int,
    first_row: int,
    sources: Sequence[tuple[str, pa.Array] | None],
    partition: int,
    *,
    tagged: bool = False,
) -> Tuples:
    """`sources`: name and values of the column that each is made of, for the words of an error."""
    try:
        offsets, data = pack_tuples(columns, 0, rows, tagged)
    except PackError as error:
        raise told(error, first_row, sources, partition) from None
    return Tuples(offsets, data, rows, first_row)


def told(
    error: PackError, first_row: int, sources: Sequence[tuple[str, pa.Array] | None], partition: int
) -> ValueUnfit | OptionError:
    if error.row < 0:
        return OptionError(f"Rows cannot be written: {error.reason}.")
    where = f"Row {first_row + error.row} of partition {partition}"
    source = sources[error.column] if 0 <= error.column < len(sources) else None
    if source is None:
        return ValueUnfit(f"{where}: {error.reason}.")
    name, array = source
    return ValueUnfit(f"{where}, column '{name}', {error.reason}. The value is {_shown(array, error.row)}.")


def _shown(array: pa.Array, row: int) -> str:
    try:
        text = repr(array[row].as_py())
    except (UnicodeDecodeError, ValueError):
        text = repr(array.cast(pa.binary())[row].as_py()) if pa.types.is_string(array.type) else "not printable"
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
