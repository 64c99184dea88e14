"""Field types by name, and which type may stand for which (field_def.c)."""

from __future__ import annotations

from headwater.typing import FieldType

BOX_NAME_MAX = 65000
"""Longest name of anything, in bytes (schema_def.h)."""
BOX_INVALID_NAME_MAX = 64
"""So much of a name that is too long is shown in an error (schema_def.h)."""

FIXED_DECIMALS = frozenset({"decimal32", "decimal64", "decimal128", "decimal256"})
"""Types of 3.x that we know and do not keep: refused by name."""

_OLD_NAMES = {"num": FieldType.UNSIGNED, "str": FieldType.STRING, "*": FieldType.ANY}
_BY_NAME = {kind.name.lower(): kind for kind in FieldType} | _OLD_NAMES

_INTEGERS = frozenset({"uint", "int"})
_NUMBERS = _INTEGERS | {"float", "double"}
_SCALARS = _NUMBERS | {"str", "bin", "bool"}
_EVERYTHING = _SCALARS | {"nil", "array", "map", "ext"}
_PLAIN: dict[FieldType, frozenset[str]] = {
    FieldType.ANY: _EVERYTHING,
    FieldType.UNSIGNED: frozenset({"uint"}),
    FieldType.STRING: frozenset({"str"}),
    FieldType.NUMBER: _NUMBERS,
    FieldType.DOUBLE: _NUMBERS,
    FieldType.INTEGER: _INTEGERS,
    FieldType.BOOLEAN: frozenset({"bool"}),
    FieldType.VARBINARY: frozenset({"bin"}),
    FieldType.SCALAR: _SCALARS,
    FieldType.ARRAY: frozenset({"array"}),
    FieldType.MAP: frozenset({"map"}),
    FieldType.FLOAT32: frozenset({"float"}),
    FieldType.FLOAT64: frozenset({"double"}),
}
_ALL_EXTENSIONS = frozenset({"decimal", "uuid", "datetime", "interval", "other"})
_EXTENSIONS: dict[FieldType, frozenset[str]] = {
    FieldType.ANY: _ALL_EXTENSIONS,
    FieldType.NUMBER: frozenset({"decimal"}),
    FieldType.SCALAR: frozenset({"decimal", "uuid", "datetime"}),
    FieldType.DECIMAL: frozenset({"decimal"}),
    FieldType.UUID: frozenset({"uuid"}),
    FieldType.DATETIME: frozenset({"datetime"}),
    FieldType.INTERVAL: frozenset({"interval"}),
}

FIXED_RANGES: dict[FieldType, tuple[int, int]] = {
    FieldType[f"{'INT' if signed else 'UINT'}{bits}"]: (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    )
    for bits in (8, 16, 32, 64)
    for signed in (True, False)
}
"""Least and greatest value of 3.x's sized integers (field_def.c, field_type_min_value, field_type_max_value)."""


def type_name(type: FieldType) -> str:
    """As it is written in `_space` and in errors."""
    return type.name.lower()


def type_by_name(name: str) -> FieldType | None:
    """Case is ignored, and the names of 1.6 are known still (field_type_by_name)."""
    folded = name.lower()
    return _BY_NAME.get(folded) if folded != "*" or name == "*" else None


def _plain(type: FieldType) -> frozenset[str]:
    if type in FIXED_RANGES:
        return _INTEGERS if FIXED_RANGES[type][0] < 0 else frozenset({"uint"})
    return _PLAIN.get(type, frozenset())


def contains(wide: FieldType, narrow: FieldType) -> bool:
    """Can a field of type `wide` hold every value of type `narrow` (field_type1_contains_type2)?

    A type that is plain MessagePack is judged by its plain values alone: `double` contains `number`, though a
    decimal is a number and no double. So 3.x has it.
    """
    plain = _plain(narrow)
    if plain:
        if not plain <= _plain(wide):
            return False
    elif not _EXTENSIONS.get(narrow, frozenset()) <= _EXTENSIONS.get(wide, frozenset()):
        return False
    if wide not in FIXED_RANGES:
        return True
    if narrow not in FIXED_RANGES:
        return wide is FieldType.UINT64 and narrow is FieldType.UNSIGNED
    low, high = FIXED_RANGES[wide]
    other_low, other_high = FIXED_RANGES[narrow]
    return low <= other_low and high >= other_high
