"""Which values a field type admits (field_def.c: field_mp_type, field_ext_type, ranges of sized integers)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.extensions import DATETIME, DECIMAL, INTERVAL, UUID
from headwater.kernels.pure.violations import FormatViolation
from headwater.typing import FieldType

_INTEGERS = 1 << mp.UINT | 1 << mp.INT
_NUMBERS = _INTEGERS | 1 << mp.FLOAT | 1 << mp.DOUBLE

_PLAIN = {
    FieldType.ANY: (1 << mp.EXT) - 1,
    FieldType.UNSIGNED: 1 << mp.UINT,
    FieldType.STRING: 1 << mp.STR,
    FieldType.NUMBER: _NUMBERS,
    FieldType.DOUBLE: _NUMBERS,
    FieldType.INTEGER: _INTEGERS,
    FieldType.BOOLEAN: 1 << mp.BOOL,
    FieldType.VARBINARY: 1 << mp.BIN,
    FieldType.SCALAR: _NUMBERS | 1 << mp.STR | 1 << mp.BIN | 1 << mp.BOOL,
    FieldType.ARRAY: 1 << mp.ARRAY,
    FieldType.MAP: 1 << mp.MAP,
    FieldType.FLOAT32: 1 << mp.FLOAT,
    FieldType.FLOAT64: 1 << mp.DOUBLE,
}
_EXTENSIONS = {
    FieldType.NUMBER: frozenset((DECIMAL,)),
    FieldType.SCALAR: frozenset((DECIMAL, UUID, DATETIME)),
    FieldType.DECIMAL: frozenset((DECIMAL,)),
    FieldType.UUID: frozenset((UUID,)),
    FieldType.DATETIME: frozenset((DATETIME,)),
    FieldType.INTERVAL: frozenset((INTERVAL,)),
    FieldType.ANY: frozenset(range(1, 128)),
}
_RANGES = {
    FieldType.INT8: (-(2**7), 2**7 - 1),
    FieldType.UINT8: (0, 2**8 - 1),
    FieldType.INT16: (-(2**15), 2**15 - 1),
    FieldType.UINT16: (0, 2**16 - 1),
    FieldType.INT32: (-(2**31), 2**31 - 1),
    FieldType.UINT32: (0, 2**32 - 1),
    FieldType.INT64: (-(2**63), 2**63 - 1),
    FieldType.UINT64: (0, 2**64 - 1),
}


class FieldCheck:
    """One field type, ready to be asked about values."""

    __slots__ = ("extensions", "mask", "range", "type")

    def __init__(self, type: int, nullable: bool) -> None:
        kind = FieldType(type)
        self.type = type
        self.range = _RANGES.get(kind)
        if self.range is None:
            self.mask = _PLAIN.get(kind, 0)
        else:
            self.mask = 1 << mp.UINT if self.range[0] == 0 else _INTEGERS
        if nullable:
            self.mask |= 1 << mp.NIL
        self.extensions = _EXTENSIONS.get(kind, frozenset())

    def fault(self, data: bytes, offset: int) -> str | None:
        """None, 'type' or 'range' for the value at `offset`."""
        kind = mp.TYPE_OF[data[offset]]
        if kind == mp.EXT:
            return None if mp.extension_type(data, offset) in self.extensions else "type"
        if not self.mask >> kind & 1:
            return "type"
        if self.range is not None and kind != mp.NIL:
            low, high = self.range
            if not low <= mp.integer(data, offset) <= high:
                return "range"
        return None


class TupleFormat:
    """What every tuple of a space must look like: one (FieldType, nullable) for each field from 0 on."""

    def __init__(self, fields: Sequence[tuple[int, bool]], exact_field_count: int = 0) -> None:
        self._checks = [FieldCheck(kind, nullable) for kind, nullable in fields]
        self._exact = exact_field_count
        self._required = [number for number, (_, nullable) in enumerate(fields) if not nullable]
        self._min_count = self._required[-1] + 1 if self._required else 0

    def check(self, tuple: bytes) -> None:
        """FormatViolation for the first wrong field; MsgPackError if it is not one whole valid array."""
        self.scan(tuple)

    def scan(self, tuple: bytes) -> list[int]:
        """Like check; gives the offsets of the fields (mp_array_fields)."""
        offsets = whole_array(tuple)
        count = len(offsets) - 1
        if self._exact and count != self._exact:
            raise FormatViolation("count", 0, self._exact, count)
        if count < self._min_count:
            missing = next(number for number in self._required if number >= count)
            raise FormatViolation("missing", missing, self._checks[missing].type, "")
        for number, (check, offset) in enumerate(zip(self._checks, offsets[:-1], strict=False)):
            fault = check.fault(tuple, offset)
            if fault == "type":
                raise FormatViolation("type", number, check.type, mp.TYPE_NAMES[mp.TYPE_OF[tuple[offset]]])
            if fault:
                raise FormatViolation("range", number, check.type, mp.integer(tuple, offset))
        return offsets


def whole_array(tuple: bytes) -> list[int]:
    """Field offsets of a tuple that must be one array and nothing after it."""
    offsets = mp.mp_array_fields(tuple)
    if offsets[-1] != len(tuple):
        raise MsgPackError(f"junk after the tuple at offset {offsets[-1]}")
    return offsets
