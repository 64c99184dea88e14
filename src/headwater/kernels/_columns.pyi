"""The contract of the kernels between rows and Arrow, both ways: `_columns` (Cython) and `pure.columns` fulfil it to
the letter.

`headwater.kernels.columns` re-exports one of them, by the same switch as `headwater.kernels`. docs/pipeline.md tells
the design. No byte is believed: rows are checked before they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import Buffer

from headwater.kernels.packplan import PackColumn

# ---- blocks --------------------------------------------------------------------------------------

def plain_rows(data: bytes | memoryview, offset: int, end: int, limit: int) -> tuple[bytes, int]:
    """The rows of the blocks at data[offset:end], one after another, as long as the blocks are whole, not compressed
    and have the right checksum; about `limit` bytes at most, one block at least. With them the offset after the
    last."""

def borders(data: bytes | memoryview, offset: int, end: int, step: int) -> tuple[list[tuple[int, int]], int]:
    """Walk the fixheaders from the block at `offset`: (where the block before begins, where a block begins) for the
    first block at or after each multiple of `step`. Contents are not looked at. With them the offset where the walk
    stopped: where no whole block begins."""

def pick(rows: bytes, offset: int, space_ids: Sequence[int], framed: bool = False) -> list[tuple[int, int]]:
    """(begin, end) of each INSERT, REPLACE, UPDATE, DELETE and UPSERT of these spaces. RowError for bytes that are no
    rows. `framed`: packets of the wire; begin and end are those of the row behind its length, and a packet that is not
    whole is the end."""

def unframe(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    """The rows of the whole packets in data[offset:end], one after another as in a file, and the offset after the last
    of them. RowError for a packet that is no row. A row without a body gets an empty one, as files need it."""

# ---- values --------------------------------------------------------------------------------------

def to_variant(value: bytes, texts: Callable[[int, bytes], str], utf8: int, tagged: bool) -> tuple[bytes, bytes]:
    """(value, metadata) of one MessagePack value in Spark's variant encoding (common/variant, VariantBuilder): integers
    in the fewest bytes, those above 2^63 - 1 as decimals, keys of objects ordered as UTF-16. Decimals and uuids become
    their text, other extensions what `texts(type, contents)` says. Keys of maps that are no strings become text; of
    equal keys the last one stays. `tagged`: texts of decimals and uuids begin with `!decimal ` and `!uuid `, and
    strings that begin with `!` with `!string `. MsgPackError for what is not one value, UnicodeError for a string that
    is not UTF-8 where `utf8` is FAIL, ValueError above 128 MiB, which Spark does not take."""

def from_variant(
    value: bytes, metadata: bytes, tagged: bool = False, untag: Callable[[str], bytes] | None = None
) -> bytes:
    """One MessagePack value of a Spark variant. Decimals without a fraction between 2^63 and 2^64 are integers, other
    decimals are the extension, dates and timestamps are datetimes. `tagged`: strings as `to_variant` tagged them are
    what they were; of other strings that begin with `!`, `untag` gives the MessagePack (ValueError: it is none), and
    without it they are strings. PackError for bytes that are no variant."""

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
        """(Source, Kind, a, b) of each column; names of types; `strict`: a value without a place is a RowError,
        otherwise it is absent there and goes into the column RESCUED, if there is one. ValueError for a kind that a
        source cannot have: KEY, BEFORE, AFTER, OPS and BODY are VARIANT, or BINARY for their MessagePack as it stands;
        columnplan tells the others."""
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
        rescued under their number, from 1. Behind a column of a part of a datetime or interval, columns of the same
        kind and of greater parts that no field is given to show other parts of the same value."""
    def decode(
        self, rows: bytes, offset: int, pass_watched: bool = False, to_commit: bool = False, framed: bool = False
    ) -> int:
        """Read rows from `offset` on, up to the end, a limit, or a watched row (the first one is none with
        `pass_watched`); with `to_commit` up to the end of the transaction. The offset where it stopped. RowError: the
        row is left out, and those before it are still there to `take`. `framed`: packets of the wire; one that is not
        whole is the end."""
    def take(self) -> tuple[int, list[tuple[int, bytes | None, list[bytes]]]]:
        """(rows, (nulls, validity bitmap or None, buffers) of each column), little-endian as Arrow has them. The batch
        is empty then."""

# ---- tuples --------------------------------------------------------------------------------------
#
# Tuples are `count` MessagePack arrays from the number `first` on: number i is data[offsets[i]:offsets[i + 1]], and
# `offsets` are int32, little-endian. These are the buffers of an Arrow array of binary, both ways. PackError for a
# tuple that is not one whole array, ValueError for numbers that do not lie in the buffers.

def pack_tuples(
    columns: Sequence[PackColumn],
    first: int,
    count: int,
    tagged: bool = False,
    untag: Callable[[str], bytes] | None = None,
) -> tuple[bytes, bytes]:
    """(offsets, data) of tuples, one a row of the columns, one field a column. PackError for a value that does not fit
    its field (headwater.kernels.packplan), and for more than 2 GiB. Releases the GIL."""

def pack_requests(
    offsets: Buffer,
    data: Buffer,
    first: int,
    count: int,
    type: int,
    space_id: int,
    sync: int,
    stream_id: int = 0,
    index_id: int = 0,
    key_fields: Sequence[int] = (),
    changes: Sequence[tuple[str, int]] = (),
    types: Buffer | None = None,
) -> bytes:
    """Packets of INSERT, REPLACE, DELETE, UPDATE and UPSERT, one a tuple, as they go on the wire; `sync` is the number
    of the first and grows by one. DELETE and UPDATE take their key out of `key_fields` of the tuple. UPDATE and UPSERT
    make an operation of each change, (operator, field): its argument is that field of the tuple, so that
    `[("=", 2), ("+", 3)]` assigns one field and adds to another. UPSERT inserts the whole tuple. `types`: a byte a
    tuple, counted from `first`, instead of `type`. PackError for a tuple without the field."""

def pack_rows(
    offsets: Buffer,
    data: Buffer,
    first: int,
    count: int,
    space_id: int,
    group_id: int,
    lsn: int,
    timestamp: float,
    limit: int,
) -> tuple[bytes, int]:
    """INSERT rows as a snapshot has them, and how many: until `limit` bytes are passed or `count` is reached; `lsn` is
    that of the first and grows by one. The same bytes as `ReadView.fill` gives for these tuples."""

def hash_tuples(offsets: Buffer, data: Buffer, first: int, count: int, fields: Sequence[int] | None = None) -> bytes:
    """A uint64 each: XXH64 of the tuple with the seed 42, or of these fields of it as they stand, one after another (a
    field that is not there is nil). It is what Spark's `xxhash64` gives for the same bytes. Any bytes have a hash;
    PackError for what is no tuple only where fields are asked for."""

def sum_tuples(
    offsets: Buffer, data: Buffer, first: int, count: int, fields: Sequence[int], bits: int
) -> tuple[bytes, bytes]:
    """(counts, sums), 2^bits uint64 each, at most 2^20: of the tuples whose hash of `fields` begins with these bits,
    how many there are and the sum of their hashes modulo 2^64. Both can be added up in any order."""
