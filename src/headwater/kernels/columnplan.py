"""What a column of `Columns` is made of, and into which buffers it goes. Both twins number them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any


class Source(IntEnum):
    """Part of a row that a column shows."""

    OP = 0
    """Name of the row's type; its number as text if it has no name."""
    SPACE_ID = 1
    SPACE = 2
    """Name of the space, as `set_spaces` told it."""
    REPLICA_ID = 3
    LSN = 4
    TSN = 5
    IS_COMMIT = 6
    TIMESTAMP = 7
    GROUP_ID = 8
    FLAGS = 9
    INDEX_ID = 10
    KEY = 11
    """Key of the request, or the parts of the primary key out of the tuple."""
    BEFORE = 12
    AFTER = 13
    """The new tuple if the row has it, otherwise that of the request: of an UPSERT the one that it would insert."""
    OPS = 14
    BODY = 15
    """The body of a row that is not DML."""
    REQUEST = 16
    """The body of any row, as its bytes."""
    FIELD = 17
    """A field of the tuple, or of the key where there is no tuple; which one, `set_fields` says."""
    RESCUED = 18
    """What FIELD columns had no place for, as an object of names and values."""
    INDEX_BASE = 19
    """Number of the first field in the operations of an UPDATE or UPSERT. Absent means 0, and is null."""


class Kind(IntEnum):
    """Buffers of a column: (data) for those of fixed width, (offsets, data) for bytes of any length, for VARIANT
    (offsets and data of the values, offsets and data of the metadata)."""

    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT = 5
    DOUBLE = 6
    DECIMAL = 7
    """decimal128 of `a` digits, `b` of them behind the point; takes decimals and integers that fit exactly."""
    TIMESTAMP = 8
    """Microseconds since 1970. What is below a microsecond, and the zone, are left out."""
    STRING = 9
    BINARY = 10
    """Takes strings too, as they stand."""
    UUID = 11
    """As text of 36 characters."""
    UUID_BYTES = 12
    DECIMAL_TEXT = 13
    EXT_TEXT = 14
    """The extension of type `a` as the callable `texts` writes it."""
    VARIANT = 15
    """Spark's encoding. With `a` nil is an absent value, without it a null inside the variant."""
    DATETIME_PART = 16
    """int64: seconds, nanoseconds, minutes east, number of the zone (`a` = 0..3)."""
    INTERVAL_PART = 17
    """int64: year, month, week, day, hour, minute, second, nanosecond, adjust (`a` = 0..8)."""


class Utf8(IntEnum):
    """What becomes of a string that is not UTF-8."""

    FAIL = 0
    REPLACE = 1
    BINARY = 2
    """Binary inside a variant; in a column of strings it has no place."""


KINDS: Mapping[Source, frozenset[Kind]] = MappingProxyType(
    {
        Source.OP: frozenset((Kind.STRING,)),
        Source.SPACE_ID: frozenset((Kind.INT32,)),
        Source.SPACE: frozenset((Kind.STRING,)),
        Source.REPLICA_ID: frozenset((Kind.INT32,)),
        Source.LSN: frozenset((Kind.INT64,)),
        Source.TSN: frozenset((Kind.INT64,)),
        Source.IS_COMMIT: frozenset((Kind.BOOL,)),
        Source.TIMESTAMP: frozenset((Kind.TIMESTAMP,)),
        Source.GROUP_ID: frozenset((Kind.INT32,)),
        Source.FLAGS: frozenset((Kind.INT32,)),
        Source.INDEX_ID: frozenset((Kind.INT32,)),
        Source.KEY: frozenset((Kind.VARIANT, Kind.BINARY)),
        Source.BEFORE: frozenset((Kind.VARIANT, Kind.BINARY)),
        Source.AFTER: frozenset((Kind.VARIANT, Kind.BINARY)),
        Source.OPS: frozenset((Kind.VARIANT, Kind.BINARY)),
        Source.BODY: frozenset((Kind.VARIANT, Kind.BINARY)),
        Source.REQUEST: frozenset((Kind.BINARY,)),
        Source.FIELD: frozenset(Kind),
        Source.RESCUED: frozenset((Kind.VARIANT,)),
        Source.INDEX_BASE: frozenset((Kind.INT32,)),
    }
)
"""What a source can be shown as. Where both are, BINARY is the MessagePack as it stands."""


def check_columns(columns: Sequence[tuple[int, int, int, int]]) -> None:
    """ValueError for a column that there is not."""
    for source, kind, a, b in columns:
        if Kind(kind) not in KINDS[Source(source)]:
            raise ValueError(f"{Source(source).name} cannot be shown as {Kind(kind).name}")
        if kind == Kind.DECIMAL and not (1 <= a <= DECIMAL_DIGITS and 0 <= b <= a):
            raise ValueError(f"a decimal of {a} digits, {b} of them behind the point, is none")
    if sum(source == Source.RESCUED for source, *_ in columns) > 1:
        raise ValueError("more than one column RESCUED")


def check_fields(fields: Sequence[int], names: Sequence[object], is_field: Sequence[bool]) -> None:
    """ValueError for a field that has no column of its own; `is_field` tells of each column whether it shows one."""
    if len(fields) != len(names):
        raise ValueError(f"{len(fields)} fields and {len(names)} names")
    used = [column for column in fields if column >= 0]
    for column in used:
        if column >= len(is_field) or not is_field[column]:
            raise ValueError(f"column {column} is not made of a field")
    if len(set(used)) != len(used):
        raise ValueError("two fields in one column")


def next_parts(columns: Sequence[tuple[int, int]], fields: Sequence[int]) -> list[int]:
    """Of each column (its kind, or -1 where it shows no field; its `a`) the one that shows the next part of the same
    value, or -1: right behind it, of the same kind, a greater part, and no field was given to it."""
    used = frozenset(fields)
    out = [-1] * len(columns)
    for at in range(len(columns) - 1):
        (kind, part), (other, later) = columns[at], columns[at + 1]
        if kind in (Kind.DATETIME_PART, Kind.INTERVAL_PART) and other == kind and later > part and at + 1 not in used:
            out[at] = at + 1
    return out


def check_keys(keys: Mapping[int, Sequence[int]]) -> None:
    """ValueError for fields that no primary key has."""
    for space_id, fields in keys.items():
        if len(fields) > 255 or not all(0 <= field < 1 << 31 for field in fields):
            raise ValueError(f"space {space_id}: no primary key has {len(fields)} such fields")


DECIMAL_DIGITS = 38
"""Of a decimal128."""


class RowError(Exception):
    """A row that cannot be read: `offset` of it in the bytes given, `lsn` of the row (0 before its header is read),
    `column` whose value has no place there or -1, `end`: the offset behind it, 0 where that is not known."""

    def __init__(self, reason: str, offset: int, lsn: int = 0, column: int = -1, end: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.lsn = lsn
        self.column = column
        self.end = end

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError, (self.reason, self.offset, self.lsn, self.column, self.end)
