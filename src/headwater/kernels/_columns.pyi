"""The contract of the kernels between files and Arrow: `_columns` (Cython) and `pure.columns` fulfil it to the letter.

`headwater.kernels.columns` re-exports one of them, by the same switch as `headwater.kernels`. docs/pipeline.md tells the
design. No byte is believed: rows are checked before they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# ---- blocks --------------------------------------------------------------------------------------

def plain_rows(data: bytes | memoryview, offset: int, end: int, limit: int) -> tuple[bytes, int]:
    """The rows of the blocks at data[offset:end], one after another, as long as the blocks are whole, not compressed and
    have the right checksum; about `limit` bytes at most, one block at least. With them the offset after the last."""

def borders(data: bytes | memoryview, offset: int, end: int, step: int) -> tuple[list[tuple[int, int]], int]:
    """Walk the fixheaders from the block at `offset`: (where the block before begins, where a block begins) for the first
    block at or after each multiple of `step`. Contents are not looked at. With them the offset where the walk stopped:
    where no whole block begins."""

def pick(rows: bytes, offset: int, space_ids: Sequence[int]) -> list[tuple[int, int]]:
    """(begin, end) of each INSERT, REPLACE, UPDATE, DELETE and UPSERT of these spaces. RowError for bytes that are no
    rows."""

# ---- values --------------------------------------------------------------------------------------

def to_variant(value: bytes, texts: Callable[[int, bytes], str], utf8: int, tagged: bool) -> tuple[bytes, bytes]:
    """(value, metadata) of one MessagePack value in Spark's variant encoding (common/variant, VariantBuilder): integers
    in the fewest bytes, those above 2^63 - 1 as decimals, keys of objects ordered as UTF-16. Decimals and uuids become
    their text, other extensions what `texts(type, contents)` says. Keys of maps that are no strings become text; of
    equal keys the last one stays. `tagged`: texts of decimals and uuids begin with `!decimal ` and `!uuid `, and
    strings that begin with `!` with `!string `."""

# ---- rows ----------------------------------------------------------------------------------------

class Columns:
    """A batch of rows on its way into Arrow buffers."""

    rows: int
    """How many are gathered."""
    size: int
    """Bytes of any length that they take, roughly."""
    read: int
    """Rows read since the beginning, those left out included."""
    misfits: int
    """Values without a place in their column, since the beginning."""
    open: bool
    """Was the last row that was read not the last of its transaction?"""
    skip: bool
    """Set it: rows are left out until the transaction that goes on here has ended."""
    watched: bool
    """Did `decode` stop before a row of a watched space?"""

    def __init__(
        self,
        columns: Sequence[tuple[int, int, int, int]],
        names: Mapping[int, str],
        texts: Callable[[int, bytes], str],
        row_limit: int,
        byte_limit: int,
        utf8: int = 0,
        tagged: bool = False,
        strict: bool = True,
    ) -> None:
        """(Source, Kind, a, b) of each column; names of types; `strict`: a value without a place is a RowError, otherwise
        it is absent there and goes into the column RESCUED, if there is one."""
    def set_range(self, low: Sequence[int], high: Sequence[int]) -> None:
        """Keep rows with low[replica_id] < lsn <= high[replica_id]; 32 numbers each."""
    def set_times(self, begin: float, end: float) -> None:
        """Keep rows with begin <= timestamp < end."""
    def set_types(self, types: Sequence[int]) -> None:
        """Keep rows of these types (below 64)."""
    def set_watched(self, space_ids: Sequence[int]) -> None:
        """Stop before rows of these spaces."""
    def set_spaces(
        self, names: Mapping[int, str], keys: Mapping[int, Sequence[int]], wanted: Sequence[int] | None
    ) -> None:
        """Names of spaces, fields of their primary keys, and of which spaces rows are kept (None: all rows, those that
        are not DML too)."""
    def set_fields(self, fields: Sequence[int], names: Sequence[str]) -> None:
        """The column of each field of the tuple, -1 for none; and its name in RESCUED. Fields behind the last are
        rescued under their number, from 1."""
    def decode(self, rows: bytes, offset: int, pass_watched: bool = False, to_commit: bool = False) -> int:
        """Read rows from `offset` on, up to the end, a limit, or a watched row (the first one is none with
        `pass_watched`); with `to_commit` up to the end of the transaction. The offset where it stopped. RowError."""
    def take(self) -> tuple[int, list[tuple[int, bytes | None, list[bytes]]]]:
        """(rows, (nulls, validity bitmap or None, buffers) of each column), little-endian as Arrow has them. The batch
        is empty then."""
