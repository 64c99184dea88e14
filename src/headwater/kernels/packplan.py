"""What a column is that becomes MessagePack. Both twins number its forms so."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Form(IntEnum):
    """What the Arrow buffers of a column hold. Lengths are 64 bits wide in the LARGE forms, 32 in the others."""

    NULL = 0
    """No buffer; every value is nil."""
    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    UINT8 = 6
    UINT16 = 7
    UINT32 = 8
    UINT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DECIMAL = 12
    """decimal128 with `a` digits behind the point."""
    TIMESTAMP = 13
    """int64: `a` of them are a second (1, 1000, 1000000, 1000000000)."""
    DATE = 14
    """int32: days since 1970."""
    STRING = 15
    LARGE_STRING = 16
    BINARY = 17
    LARGE_BINARY = 18
    FIXED_BINARY = 19
    """`a` bytes each."""
    LIST = 20
    LARGE_LIST = 21
    """One child: the elements."""
    MAP = 22
    """Two children: keys and values."""
    STRUCT = 23
    """A child a field."""
    VARIANT = 24
    """Two children, BINARY: value and metadata, as Spark has them."""
    RAW = 25
    LARGE_RAW = 26
    """As BINARY: each value is MessagePack already. It is checked to be one whole value."""


class PackColumn(NamedTuple):
    """An Arrow array, part by part. Buffers may be longer than needed; one that is too short is a PackError."""

    name: str
    """Of the field; the key of a field of a STRUCT that becomes a map."""
    kind: int
    """headwater.typing.FieldType: what the field shall be. ANY: what its form suggests."""
    form: int
    """Form: what the buffers hold."""
    a: int
    length: int
    """Of the array; `offset` not counted."""
    offset: int
    """Values before the first, in the validity bitmap and in the buffers, not in children of a LIST or MAP."""
    validity: Buffer | None
    buffers: Sequence[Buffer]
    """(values) of fixed width, (offsets, data) of any length, (offsets) of LIST and MAP, none of NULL, STRUCT and
    VARIANT. Offsets may be None where the length is 0."""
    children: Sequence[PackColumn]


class PackError(Exception):
    """A value that cannot be written as its field asks: `row` in the columns given (-1: no row, the column as a whole),
    `column` at the top level (-1: no column)."""

    def __init__(self, reason: str, row: int = -1, column: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return PackError, (self.reason, self.row, self.column)
