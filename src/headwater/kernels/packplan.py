"""What a column is that becomes MessagePack. Both twins number its forms so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.typing import FieldType

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
    """Values before the first, in the validity bitmap and in the buffers; children are counted from their own."""
    validity: Buffer | None
    buffers: Sequence[Buffer | None]
    """(values) of fixed width, (offsets, data) of any length, (offsets) of LIST and MAP, none of NULL, STRUCT and
    VARIANT. Offsets may be None where the length is 0."""
    children: Sequence[PackColumn]


class How(IntEnum):
    """How the values of a column are written. Both twins number them so; `how_of` chooses."""

    NIL = 0
    BOOL = 1
    INTEGER = 2
    """Whole, between the bounds of its kind."""
    INTEGER_DOUBLE = 3
    """Whole, as a double that loses nothing."""
    INTEGER_FLOAT = 4
    INTEGER_DECIMAL = 5
    REAL = 6
    """A float as a float, a double as a double."""
    REAL_DOUBLE = 7
    REAL_FLOAT = 8
    """A double as a float that loses nothing."""
    REAL_INTEGER = 9
    """A double without a fraction."""
    DECIMAL = 10
    """Zeros at the end of the fraction are left out: the scale belongs to the column, not to the value."""
    DECIMAL_INTEGER = 11
    """A decimal without a fraction."""
    TEXT = 12
    """UTF-8."""
    TEXT_BYTES = 13
    """Any bytes, as a string."""
    BYTES = 14
    UUID_TEXT = 15
    UUID_BYTES = 16
    DECIMAL_TEXT = 17
    MOMENT = 18
    DAY = 19
    LIST = 20
    MAP = 21
    STRUCT_MAP = 22
    STRUCT_ARRAY = 23
    STRUCT_DATETIME = 24
    """Children: seconds, and if there are more nanoseconds, minutes east, number of the zone. Null counts as 0."""
    STRUCT_INTERVAL = 25
    """Children: year, month, week, day, hour, minute, second, nanosecond, adjust, as many as there are."""
    VARIANT = 26
    RAW = 27


INTEGERS = frozenset((Form.INT8, Form.INT16, Form.INT32, Form.INT64, Form.UINT8, Form.UINT16, Form.UINT32, Form.UINT64))
WIDTHS: Mapping[int, int] = MappingProxyType(
    {
        Form.INT8: 1, Form.INT16: 2, Form.INT32: 4, Form.INT64: 8, Form.UINT8: 1, Form.UINT16: 2, Form.UINT32: 4,
        Form.UINT64: 8, Form.FLOAT: 4, Form.DOUBLE: 8, Form.DECIMAL: 16, Form.TIMESTAMP: 8, Form.DATE: 4,
        Form.STRING: 4, Form.LARGE_STRING: 8, Form.BINARY: 4, Form.LARGE_BINARY: 8, Form.LIST: 4, Form.LARGE_LIST: 8,
        Form.MAP: 4, Form.RAW: 4, Form.LARGE_RAW: 8,
    }
)  # fmt: skip
"""Bytes of a value, or of an offset."""

_INT64, _UINT64 = (1 << 63) - 1, (1 << 64) - 1
RANGES: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        FieldType.UNSIGNED: (0, _UINT64),
        FieldType.INTEGER: (-_INT64 - 1, _UINT64),
        FieldType.INT8: (-128, 127),
        FieldType.UINT8: (0, 255),
        FieldType.INT16: (-32768, 32767),
        FieldType.UINT16: (0, 65535),
        FieldType.INT32: (-(1 << 31), (1 << 31) - 1),
        FieldType.UINT32: (0, (1 << 32) - 1),
        FieldType.INT64: (-_INT64 - 1, _INT64),
        FieldType.UINT64: (0, _UINT64),
    }
)
"""Bounds of the fields that hold integers."""
ANY_INTEGER = (-_INT64 - 1, _UINT64)

_ANY = (FieldType.ANY, FieldType.SCALAR)
_NUMBER = (*_ANY, FieldType.NUMBER)
_DOUBLES = (FieldType.DOUBLE, FieldType.FLOAT64)
DEPTH_MAX = 64
"""Columns inside one another."""


def how_of(kind: int, form: int) -> How:
    """How such a field is written out of such a column; ValueError if it cannot be."""
    found = _how(FieldType(kind), Form(form))
    if found is None:
        raise ValueError(
            f"a column of {Form(form).name.lower()} cannot be written as {FieldType(kind).name.lower()}: cast it first"
        )
    return found


_BUFFERS = {
    Form.NULL: 0, Form.STRUCT: 0, Form.VARIANT: 0, Form.STRING: 2, Form.LARGE_STRING: 2, Form.BINARY: 2,
    Form.LARGE_BINARY: 2, Form.RAW: 2, Form.LARGE_RAW: 2,
}  # fmt: skip
"""How many buffers; of the others one."""
_CHILDREN = {
    Form.LIST: (1, 1),
    Form.LARGE_LIST: (1, 1),
    Form.MAP: (2, 2),
    Form.VARIANT: (2, 2),
    Form.STRUCT: (0, 65535),
}
"""How many children; of the others none."""
_OFFSETS = frozenset((Form.LIST, Form.LARGE_LIST, Form.MAP))
_LENGTH_MAX = 1 << 40


def check_column(column: PackColumn) -> None:
    """ValueError for a column whose parts are not what its form asks for, or too short."""
    form, length, offset = Form(column.form), column.length, column.offset
    if not (0 <= length <= _LENGTH_MAX and 0 <= offset <= _LENGTH_MAX):
        raise ValueError(f"length {length}, offset {offset}")
    end = length + offset
    if column.validity is not None and memoryview(column.validity).nbytes * 8 < end:
        raise ValueError("the validity bitmap is too short")
    if len(column.buffers) != _BUFFERS.get(form, 1):
        raise ValueError(f"{len(column.buffers)} buffers")
    if column.buffers:
        _check_first_buffer(form, column, end)
    _check_children(form, column)


def _check_first_buffer(form: Form, column: PackColumn, end: int) -> None:
    first = column.buffers[0]
    size = 0 if first is None else memoryview(first).nbytes
    needed = end * WIDTHS.get(form, column.a)
    if form is Form.BOOL:
        needed = (end + 7) // 8
    elif len(column.buffers) == 2 or form in _OFFSETS:
        needed += WIDTHS[form]
    if form is Form.FIXED_BINARY and not 0 <= column.a < 1 << 31:
        raise ValueError(f"values of {column.a} bytes")
    if size < needed and column.length:
        raise ValueError(f"{size} bytes where there should be {needed}")
    if form is Form.TIMESTAMP and column.a not in (1, 1000, 1_000_000, 1_000_000_000):
        raise ValueError(f"{column.a} to a second")
    if form is Form.DECIMAL and not -38 <= column.a <= 38:
        raise ValueError(f"{column.a} digits behind the point")


def _check_children(form: Form, column: PackColumn) -> None:
    least, most = _CHILDREN.get(form, (0, 0))
    if not least <= len(column.children) <= most:
        raise ValueError(f"{len(column.children)} children")
    if form in (Form.STRUCT, Form.VARIANT):
        shortest = min((child.length for child in column.children), default=column.length)
        if shortest < column.length:
            raise ValueError(f"a child of {shortest} values for {column.length}")
    if form is Form.MAP and column.children[0].length != column.children[1].length:
        raise ValueError("keys and values are not as many")
    if form is Form.VARIANT and any(child.form not in _BLOBS for child in column.children):
        raise ValueError("value and metadata of a variant are not binary")


_BLOBS = (Form.BINARY, Form.LARGE_BINARY)


def _how(kind: FieldType, form: Form) -> How | None:
    if form is Form.NULL:
        return How.NIL
    if form is Form.VARIANT:
        return How.VARIANT
    if form in (Form.RAW, Form.LARGE_RAW):
        return How.RAW
    if form in INTEGERS:
        return _of_integer(kind)
    if form in (Form.FLOAT, Form.DOUBLE):
        return _of_real(kind, form)
    if form in (Form.STRING, Form.LARGE_STRING):
        return _TEXT.get(kind)
    if form in (Form.BINARY, Form.LARGE_BINARY, Form.FIXED_BINARY):
        return _BYTES.get(kind)
    if form is Form.DECIMAL and kind in RANGES:
        return How.DECIMAL_INTEGER
    return _OTHERS.get(form, {}).get(kind)


def _of_integer(kind: FieldType) -> How | None:
    if kind in _NUMBER or kind in RANGES:
        return How.INTEGER
    if kind in _DOUBLES:
        return How.INTEGER_DOUBLE
    return {FieldType.FLOAT32: How.INTEGER_FLOAT, FieldType.DECIMAL: How.INTEGER_DECIMAL}.get(kind)


def _of_real(kind: FieldType, form: Form) -> How | None:
    if kind in _NUMBER:
        return How.REAL
    if kind in _DOUBLES:
        return How.REAL_DOUBLE
    if kind in RANGES:
        return How.REAL_INTEGER
    if kind is FieldType.FLOAT32:
        return How.REAL if form is Form.FLOAT else How.REAL_FLOAT
    return None


def _all(kinds: Sequence[FieldType], how: How, more: Mapping[FieldType, How] | None = None) -> dict[FieldType, How]:
    return {**dict.fromkeys(kinds, how), **(more or {})}


_TEXT = _all(
    (*_ANY, FieldType.STRING),
    How.TEXT,
    {FieldType.VARBINARY: How.BYTES, FieldType.UUID: How.UUID_TEXT, FieldType.DECIMAL: How.DECIMAL_TEXT},
)
_BYTES = _all(
    (*_ANY, FieldType.VARBINARY), How.BYTES, {FieldType.STRING: How.TEXT_BYTES, FieldType.UUID: How.UUID_BYTES}
)
_OTHERS: Mapping[Form, Mapping[FieldType, How]] = {
    Form.BOOL: _all((*_ANY, FieldType.BOOLEAN), How.BOOL),
    Form.DECIMAL: _all((*_NUMBER, FieldType.DECIMAL), How.DECIMAL),
    Form.TIMESTAMP: _all((*_ANY, FieldType.DATETIME), How.MOMENT),
    Form.DATE: _all((*_ANY, FieldType.DATETIME), How.DAY),
    Form.LIST: _all((FieldType.ANY, FieldType.ARRAY), How.LIST),
    Form.LARGE_LIST: _all((FieldType.ANY, FieldType.ARRAY), How.LIST),
    Form.MAP: _all((FieldType.ANY, FieldType.MAP), How.MAP),
    Form.STRUCT: _all(
        (FieldType.ANY, FieldType.MAP),
        How.STRUCT_MAP,
        {
            FieldType.ARRAY: How.STRUCT_ARRAY,
            FieldType.DATETIME: How.STRUCT_DATETIME,
            FieldType.INTERVAL: How.STRUCT_INTERVAL,
        },
    ),
}


class Fault(IntEnum):
    """Why a value is refused. Both twins number them so; `fault_text` has the words."""

    RANGE = 1
    FRACTION = 2
    DIGITS = 3
    UTF8 = 4
    UUID = 5
    DECIMAL = 6
    MOMENT = 7
    INTERVAL = 8
    KEY = 9
    VARIANT = 10
    RAW = 11
    TYPE = 12
    OFFSETS = 13
    SIZE = 14
    TAG = 15
    FIELD = 16


_FAULTS: Mapping[Fault, str] = {
    Fault.RANGE: "a number is out of its range",
    Fault.FRACTION: "a number is not whole",
    Fault.DIGITS: "a number would lose digits",
    Fault.UTF8: "a string is not UTF-8; make the column binary to write it as it is",
    Fault.UUID: "not a uuid: 36 characters, or 16 bytes",
    Fault.DECIMAL: "not a decimal of at most 76 digits",
    Fault.MOMENT: "a moment out of the range of datetime",
    Fault.INTERVAL: "a part of an interval is out of its range",
    Fault.KEY: "a key of a map is null",
    Fault.VARIANT: "the bytes of a variant cannot be read",
    Fault.RAW: "the bytes are not one MessagePack value",
    Fault.TYPE: "a value of another type",
    Fault.OFFSETS: "the offsets of the Arrow column do not fit its data",
    Fault.SIZE: "the tuples take more than 2 GiB; give fewer rows at once",
    Fault.TAG: "a string with a mark cannot be read back",
    Fault.FIELD: "a field that is asked for is absent",
}


def fault_text(fault: int, name: str, kind: int) -> str:
    """The sentence of a PackError."""
    return f"field {name!r} ({FieldType(kind).name.lower()}): {_FAULTS[Fault(fault)]}"


def tuple_fault(fault: int) -> str:
    """The same for tuples that are ready."""
    return "not one whole MessagePack array" if fault == Fault.RAW else _FAULTS[Fault(fault)]


def check_bits(bits: int) -> int:
    """ValueError for more sums than memory should hold."""
    if not 0 <= bits <= 20:
        raise ValueError(f"2^{bits} sums; at most 2^20")
    return bits


INSERT, REPLACE, UPDATE, DELETE, UPSERT = 2, 3, 4, 5, 9
"""headwater.wire.constants.Type, a room below."""
REQUEST_TYPES = frozenset((INSERT, REPLACE, UPDATE, DELETE, UPSERT))
OPERATORS = frozenset("=+-&|^!")
"""Of UPDATE and UPSERT, those that take one argument."""


def check_requests(types: Iterable[int], key_fields: Sequence[int], changes: Sequence[tuple[str, int]]) -> None:
    """ValueError for requests that cannot be made."""
    for type in types:
        if type not in REQUEST_TYPES:
            raise ValueError(f"no request of type {type} is made of tuples")
        if type in (UPDATE, DELETE) and not key_fields:
            raise ValueError("UPDATE and DELETE need the fields of a key")
    for operator, field in changes:
        if operator not in OPERATORS or field < 0:
            raise ValueError(f"no operation {operator!r} of field {field} is made of tuples")
    if len(key_fields) > 255 or len(changes) > 65535 or min(key_fields, default=0) < 0:
        raise ValueError("the fields of the key, or the operations, are too many")


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
