"""What a column of `Columns` is made of, and into which buffers it goes. Both twins number them so."""

from __future__ import annotations

from enum import IntEnum


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
    OPS = 14
    BODY = 15
    """The body of a row that is not DML."""
    REQUEST = 16
    """The body of any row, as its bytes."""
    FIELD = 17
    """A field of the tuple, or of the key where there is no tuple; which one, `set_fields` says."""
    RESCUED = 18
    """What FIELD columns had no place for, as an object of names and values."""


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


class RowError(Exception):
    """A row that cannot be read: `offset` of it in the bytes given, `lsn` of the row (0 before its header is read),
    `column` whose value has no place there or -1."""

    def __init__(self, reason: str, offset: int, lsn: int = 0, column: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.lsn = lsn
        self.column = column
