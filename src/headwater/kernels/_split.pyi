"""The contract of the kernels between logs and states: `_split` (Cython) and `pure.split` fulfil it to the letter.

`headwater.kernels.split` re-exports one of them, by the same switch as `headwater.kernels`. docs/restore.md tells what
they are for. Rows are those of files: header map, body map, one after another; `rows` given at once hold whole
transactions. No byte is believed: a row is checked before it is read, RowError (of `columnplan`) if it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Part = tuple[int, int, bool, Callable[[bytes], bytes] | None]
"""A part of a primary key: field from 0, FieldType, may it be nil, sort key of its collation."""

class Survey:
    """What the rows of a log say, as far as a range reaches. Rows outside of `low` < LSN <= `high` (of their replica)
    are counted in `rows` and otherwise passed over; a transaction with a row of another replica than 0 above `high`, or
    whose last row is of a later time than `until`, is where the range ends."""

    rows: int
    """Rows that were read."""
    kept: int
    """Of them those in the range."""
    skipped: int
    """Of them those of transactions behind the range."""
    begin: float
    end: float
    """Least and greatest timestamp of those; 0 without any."""

    def __init__(
        self,
        low: Sequence[int],
        high: Sequence[int],
        until: float,
        system_max: int,
        sync_spaces: Sequence[int] = (),
        sample_step: int = 0,
        skips: bool = False,
    ) -> None:
        """32 numbers each. `system_max`: rows of spaces up to this id are notable. `sync_spaces`: where rows do not say
        that they wait for a quorum (before 2.6.3), those of these spaces do, and what comes behind one that waits.
        `sample_step`: bytes of rows from one sample to the next, 0 for none. `skips`: transactions behind the range are
        passed over, and what comes after them is looked at."""
    def walk(self, rows: bytes, offset: int) -> tuple[int, int]:
        """Read transactions from `offset` on. (Where it stopped, why): END at the end, BEYOND before the first
        transaction behind the range, WORD behind a ROLLBACK, PROMOTE or DEMOTE, which is the last notable row."""
    def take_notable(self) -> list[tuple[int, int, int]]:
        """(its number among all rows read, begin, end) of the notable rows of the last `walk`: changes of spaces up to
        `system_max`, RAFT, ROLLBACK, PROMOTE, DEMOTE."""
    def take_samples(self) -> list[tuple[int, int]]:
        """(begin, end) of rows of other spaces, of the last `walk`."""
    def last(self) -> list[tuple[int, int]]:
        """(replica id, greatest LSN that was read and is not above the range), by growing id."""
    def spaces(self) -> dict[int, tuple[int, int]]:
        """Id → (rows, bytes) of the changes in the range."""
    def waiting(self) -> list[tuple[int, int, int, int, bool]]:
        """Transactions that no CONFIRM of their owner has reached, oldest first: (owner, first LSN, last LSN, number of
        the first row, does it need a quorum itself)."""
    def confirmed(self) -> list[tuple[int, int]]:
        """(owner, greatest LSN that a CONFIRM named)."""
    def new_queue(self) -> None:
        """Forget what waits and what was confirmed."""

class Splitter:
    """Parts rows by primary key. Every row comes out with a header of type, replica id and LSN alone."""

    size: int
    """Bytes that wait to be taken."""

    def __init__(self, buckets: int) -> None: ...
    def set_range(self, low: Sequence[int], high: Sequence[int]) -> None:
        """Take rows with low[replica id] < LSN <= high[replica id], 32 numbers each. Without it all are taken."""
    def set_dropped(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        """(replica id, first LSN, last LSN) of transactions that were taken back. Local rows among theirs stay."""
    def set_space(
        self, space_id: int, parts: Sequence[Part], bounds: Sequence[bytes], first: int, number_field: int = -1
    ) -> None:
        """Rows of this space are taken from now on: those below bounds[0] (a key as an array of as many values as there
        are `parts`, growing) go into bucket `first`, and so on; more than one bucket may have a key only if their order
        tells it apart. `number_field`: whose integers are watched, -1 for none."""
    def drop_space(self, space_id: int) -> None:
        """Rows of this space are not taken any more."""
    def split(self, rows: bytes, offset: int, count: int) -> tuple[int, int]:
        """Read at most `count` rows from `offset` on. (Where it stopped, how many it read)."""
    def put(self, bucket: int, row: bytes) -> None:
        """A row as it is."""
    def take(self) -> list[tuple[int, bytes, int]]:
        """(bucket, its rows, how many) of those that have some, by growing bucket; they are empty then."""
    def numbers(self) -> dict[int, tuple[int, int]]:
        """Space → (least, greatest) integer between -2^63 and 2^63 - 1 that an INSERT or REPLACE had in the watched
        field since the last call."""

def number(rows: bytes, offset: int, base: int, limit: int) -> tuple[bytes, int, int]:
    """Rows of a snapshot with the LSNs base, base + 1, … in place of theirs, until `limit` bytes are passed, one row at
    least: (the rows, offset after the last, how many). (b'', offset, 0) at the end."""

def keys_of(rows: bytes, offset: int, spaces: Mapping[int, Sequence[int]]) -> list[tuple[int, bytes]]:
    """(space, primary key as an array) of each change of a space whose key fields are known; those without a key
    (DELETE by another index, a tuple that is too short) are left out."""

def unframe(packets: bytes, offset: int, base: int) -> tuple[bytes, int, int]:
    """Packets `ce<u32> header body` as rows of a file: (the rows, offset after the last whole packet, how many). With
    `base` >= 0 they are rows of a snapshot and get the LSNs base, base + 1, …; with -1 rows of a log, as they are but
    for the sync, and without other flags than COMMIT: nobody waits any more."""

def tuples_of(rows: bytes, offset: int) -> tuple[bytes, bytes]:
    """(offsets, data) of the tuples of INSERT and REPLACE rows, as `_columns` has tuples; others are passed over."""
