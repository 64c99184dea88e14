"""Values of Arrow columns as MessagePack."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

from headwater.errors import MsgPackError
from headwater.kernels.packplan import Fault, How, PackColumn, PackError, fault_text
from headwater.kernels.pure import columns_mpwrite as write
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.columns_nodes import Node, Refused, nodes_of
from headwater.kernels.pure.columns_text import DATETIME_EXT, DECIMAL_EXT, INTERVAL_EXT, UUID_EXT, is_utf8
from headwater.kernels.pure.columns_unvariant import Untag, decimal_of, moment_of, unpack_variant, uuid_of
from headwater.typing import FieldType

SIZE_MAX = (1 << 31) - 1
_INT32 = 1 << 31
_INT64_MAX = (1 << 63) - 1
_SECONDS_MIN = (-(2**31) - 719163) * 86400
_SECONDS_MAX = (2**31 - 1 - 719163) * 86400


def pack_tuples(
    columns: Sequence[PackColumn],
    first: int,
    count: int,
    tagged: bool = False,
    untag: Untag | None = None,
) -> tuple[bytes, bytes]:
    """Tuples out of columns."""
    nodes = nodes_of(columns)
    if not 0 <= count < SIZE_MAX or first < 0:
        raise ValueError(f"{count} rows from {first} on")
    for at, node in enumerate(nodes):
        if first + count > node.length:
            raise ValueError(f"column {at} has {node.length} rows, not {first + count}")
    packer = _Packer(tagged, untag)
    out, ends = bytearray(), [0]
    for row in range(first, first + count):
        out += write.array_head(len(nodes))
        for at, node in enumerate(nodes):
            try:
                out += packer.value(node, row)
                if len(out) > SIZE_MAX:
                    raise Refused(Fault.SIZE)
            except Refused as refused:
                raise PackError(fault_text(refused.fault, node.name, node.kind), row, at) from None
        ends.append(len(out))
    return struct.pack(f"<{len(ends)}i", *ends), bytes(out)


class _Packer:
    """Values of any column."""

    def __init__(self, tagged: bool, untag: Untag | None) -> None:
        self._tagged = tagged
        self._untag = untag

    def value(self, node: Node, row: int) -> bytes:
        if node.how is How.NIL or node.is_null(row):
            return write.NIL
        plain = _PLAIN.get(node.how)
        if plain is not None:
            return plain(node, row)
        if node.how in (How.LIST, How.MAP):
            return self._list(node, row)
        if node.how in (How.STRUCT_MAP, How.STRUCT_ARRAY):
            return self._struct(node, row)
        return self._ready(node, row)

    def _list(self, node: Node, row: int) -> bytes:
        first, last = node.ends(row)
        values = node.children[-1]
        if not 0 <= first <= last <= values.length:
            raise Refused(Fault.OFFSETS)
        if node.how is How.LIST:
            return write.array_head(last - first) + b"".join(self.value(values, at) for at in range(first, last))
        keys = node.children[0]
        out = [write.map_head(last - first)]
        for at in range(first, last):
            if keys.how is How.NIL or keys.is_null(at):
                raise Refused(Fault.KEY)
            out += self.value(keys, at), self.value(values, at)
        return b"".join(out)

    def _struct(self, node: Node, row: int) -> bytes:
        if node.how is How.STRUCT_ARRAY:
            return write.array_head(len(node.children)) + b"".join(self.value(child, row) for child in node.children)
        return write.map_head(len(node.children)) + b"".join(
            write.text(child.name.encode(errors="surrogatepass")) + self.value(child, row) for child in node.children
        )

    def _ready(self, node: Node, row: int) -> bytes:
        """A variant, or what is MessagePack already."""
        if node.how is How.VARIANT:
            value, metadata = node.children
            if value.is_null(row) or metadata.is_null(row):
                raise Refused(Fault.VARIANT)
            packed = unpack_variant(value.blob(row), metadata.blob(row), self._tagged, self._untag)
        else:
            packed = node.blob(row)
            if not _is_one(packed):
                raise Refused(Fault.RAW)
        if not _takes(FieldType(node.kind), packed):
            raise Refused(Fault.TYPE)
        _check_range(node, packed)
        return packed


def _is_one(packed: bytes) -> bool:
    try:
        return mp.mp_next(packed) == len(packed)
    except MsgPackError:
        return False


# ---- may a field hold it? -------------------------------------------------------------------------

_NUMBERS = frozenset((mp.UINT, mp.INT, mp.FLOAT, mp.DOUBLE))
_REALS = frozenset((mp.FLOAT, mp.DOUBLE))
_INTEGERS = frozenset((mp.UINT, mp.INT))
_TYPES: Mapping[FieldType, frozenset[int]] = {
    FieldType.STRING: frozenset((mp.STR,)),
    FieldType.VARBINARY: frozenset((mp.BIN,)),
    FieldType.BOOLEAN: frozenset((mp.BOOL,)),
    FieldType.ARRAY: frozenset((mp.ARRAY,)),
    FieldType.MAP: frozenset((mp.MAP,)),
    FieldType.DOUBLE: _REALS,
    FieldType.FLOAT32: _REALS,
    FieldType.FLOAT64: _REALS,
    FieldType.NUMBER: _NUMBERS,
    FieldType.SCALAR: _NUMBERS | {mp.STR, mp.BIN, mp.BOOL},
    FieldType.DECIMAL: frozenset(),
    FieldType.UUID: frozenset(),
    FieldType.DATETIME: frozenset(),
    FieldType.INTERVAL: frozenset(),
}
"""Integers for the others."""
_EXTENSIONS: Mapping[FieldType, frozenset[int]] = {
    FieldType.NUMBER: frozenset((DECIMAL_EXT,)),
    FieldType.SCALAR: frozenset((DECIMAL_EXT, UUID_EXT, DATETIME_EXT)),
    FieldType.DECIMAL: frozenset((DECIMAL_EXT,)),
    FieldType.UUID: frozenset((UUID_EXT,)),
    FieldType.DATETIME: frozenset((DATETIME_EXT,)),
    FieldType.INTERVAL: frozenset((INTERVAL_EXT,)),
}


def _takes(kind: FieldType, packed: bytes) -> bool:
    """tuple_format.c, field_mp_type and field_ext_type."""
    type = mp.TYPE_OF[packed[0]]
    if type == mp.NIL or kind is FieldType.ANY:
        return True
    if type == mp.EXT:
        return mp.extension_type(packed, 0) in _EXTENSIONS.get(kind, frozenset())
    return type in _TYPES.get(kind, _INTEGERS)


def _check_range(node: Node, packed: bytes) -> None:
    """A number that is not negative may be written as a signed one, where the field may be negative."""
    type = mp.TYPE_OF[packed[0]]
    if node.kind == FieldType.ANY or type not in _INTEGERS:
        return
    value = mp.integer(packed, 0)
    if not node.low <= value <= node.high or (type == mp.INT and node.low == 0):
        raise Refused(Fault.RANGE)


# ---- values of one kind ---------------------------------------------------------------------------


def _within(node: Node, value: int) -> bytes:
    if not node.low <= value <= node.high:
        raise Refused(Fault.RANGE)
    return write.integer(value)


def _integer_real(node: Node, row: int) -> bytes:
    """A whole number as a double or a float, if that holds it."""
    value = node.whole(row)
    packed = struct.pack(">f" if node.how is How.INTEGER_FLOAT else ">d", float(value))
    if int(struct.unpack(">f" if len(packed) == 4 else ">d", packed)[0]) != value:
        raise Refused(Fault.DIGITS)
    return (b"\xca" if len(packed) == 4 else b"\xcb") + packed


def _integer_decimal(node: Node, row: int) -> bytes:
    value = node.whole(row)
    return write.decimal(str(abs(value)), value < 0, 0)


def _real(node: Node, row: int) -> bytes:
    raw = node.raw(row)
    if node.how is How.REAL:
        return (b"\xca" if len(raw) == 4 else b"\xcb") + raw[::-1]
    value: float = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
    if node.how is How.REAL_DOUBLE:
        return write.double(value)
    if node.how is How.REAL_FLOAT:
        return _narrowed(value)
    if not -(2.0**63) <= value < 2.0**64:
        raise Refused(Fault.RANGE)
    if value != int(value):
        raise Refused(Fault.FRACTION)
    return _within(node, int(value))


def _narrowed(value: float) -> bytes:
    """A double as a float that loses nothing."""
    try:
        packed = struct.pack(">f", value)
    except OverflowError:
        raise Refused(Fault.DIGITS) from None
    if struct.unpack(">f", packed)[0] != value and not math.isnan(value):
        raise Refused(Fault.DIGITS)
    return b"\xca" + packed


def _decimal(node: Node, row: int) -> bytes:
    """decimal128, without the zeros at the end of its fraction."""
    value, scale = node.whole(row), node.a
    digits = str(abs(value))
    while scale > 0 and digits.endswith("0"):
        scale -= 1
        digits = digits[:-1] or "0"
    if node.how is How.DECIMAL:
        return write.decimal(digits, value < 0, scale)
    if scale > 0:
        raise Refused(Fault.FRACTION)
    whole = int(digits) * 10**-scale
    return _within(node, -whole if value < 0 else whole)


def _bytes(node: Node, row: int) -> bytes:
    raw = node.blob(row)
    if node.how is How.TEXT and not is_utf8(raw):
        raise Refused(Fault.UTF8)
    if node.how in (How.TEXT, How.TEXT_BYTES):
        return write.text(raw)
    if node.how is How.BYTES:
        return write.binary(raw)
    if node.how is How.UUID_TEXT:
        return uuid_of(raw)
    if node.how is How.DECIMAL_TEXT:
        return decimal_of(raw)
    if len(raw) != 16:
        raise Refused(Fault.UUID)
    return write.ext(UUID_EXT, raw)


def _part(node: Node, at: int, row: int) -> int:
    """A whole number out of a child of a struct; 0 where it is null or absent."""
    if at >= len(node.children):
        return 0
    child = node.children[at]
    if child.how is How.NIL or child.is_null(row):
        return 0
    if child.how is not How.INTEGER:
        raise Refused(Fault.TYPE)
    value = child.whole(row)
    if value > _INT64_MAX:
        raise Refused(Fault.RANGE)
    return value


def _datetime(node: Node, row: int) -> bytes:
    seconds, nsec, east, zone = (_part(node, at, row) for at in range(4))
    if not (
        _SECONDS_MIN <= seconds <= _SECONDS_MAX
        and 0 <= nsec < 2_000_000_000
        and -720 <= east <= 840
        and 0 <= zone <= 1024
    ):
        raise Refused(Fault.MOMENT)
    return write.datetime(seconds, nsec, east, zone)


def _interval(node: Node, row: int) -> bytes:
    """mp_interval.c, interval_pack: how many parts, then number and value of each that is not zero."""
    parts: list[bytes] = []
    for at in range(9):
        value = _part(node, at, row)
        if at in (0, 1, 2, 7) and not -_INT32 <= value < _INT32:
            raise Refused(Fault.INTERVAL)
        if at == 8 and not 0 <= value <= 2:
            raise Refused(Fault.INTERVAL)
        if value:
            parts.append(bytes((at,)) + write.integer(value))
    return write.ext(INTERVAL_EXT, bytes((len(parts),)) + b"".join(parts))


_PLAIN: Mapping[How, Callable[[Node, int], bytes]] = {
    How.BOOL: lambda node, row: write.TRUE if node.bit(row) else write.FALSE,
    How.INTEGER: lambda node, row: _within(node, node.whole(row)),
    How.INTEGER_DOUBLE: _integer_real,
    How.INTEGER_FLOAT: _integer_real,
    How.INTEGER_DECIMAL: _integer_decimal,
    How.REAL: _real,
    How.REAL_DOUBLE: _real,
    How.REAL_FLOAT: _real,
    How.REAL_INTEGER: _real,
    How.DECIMAL: _decimal,
    How.DECIMAL_INTEGER: _decimal,
    How.TEXT: _bytes,
    How.TEXT_BYTES: _bytes,
    How.BYTES: _bytes,
    How.UUID_TEXT: _bytes,
    How.UUID_BYTES: _bytes,
    How.DECIMAL_TEXT: _bytes,
    How.MOMENT: lambda node, row: moment_of(node.whole(row), node.a),
    How.DAY: lambda node, row: moment_of(node.whole(row) * 86400, 1),
    How.STRUCT_DATETIME: _datetime,
    How.STRUCT_INTERVAL: _interval,
}
