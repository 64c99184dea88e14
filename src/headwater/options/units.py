"""Sizes and durations with a suffix: `64KiB`, `1.5h` (config/utils/units.lua of 3.x)."""

from __future__ import annotations

import math
import re

_QUANTITY = re.compile(r"(-?[\d.]+)\s*([A-Za-z]*)")
_PLAIN = re.compile(r"\s*[+-]?[\d.]+\s*")

_BYTES = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50}
_BYTE_NAMES = "B, KiB, MiB, GiB, TiB, PiB"
_SECONDS = {
    "ms": 0.001,
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 7 * 86400,
    "M": 30 * 86400,
    "y": 365 * 86400,
}


def is_plain_number(text: str) -> bool:
    """A number without a suffix stays text, and text is a wrong type, as box.cfg has it."""
    return _PLAIN.fullmatch(text) is not None


def parse_bytes(text: str) -> int:
    """ValueError says what is wrong, in the words of units.lua (parse_byte_size)."""
    number, unit = _split(text)
    if number < 0:
        raise ValueError(f"Expected a non-negative byte size, got {number:g}")
    if not unit:
        if number != math.floor(number):
            raise ValueError(f"Expected byte size without a fractional part, got {number:g}")
        return math.floor(number)
    factor = _BYTES.get(unit.upper())
    if factor is None:
        raise ValueError(f'Unknown byte size suffix "{unit.upper()}" (use {_BYTE_NAMES})')
    return math.floor(number * factor)


def parse_seconds(text: str) -> float:
    """ValueError says what is wrong, in the words of units.lua (parse_duration)."""
    number, unit = _split(text)
    if number < 0:
        raise ValueError(f"Expected a non-negative duration, got {number:g}")
    if not unit:
        return number
    factor = _SECONDS.get(unit)
    if factor is None:
        raise ValueError(f'Unknown duration suffix "{unit}" (use {", ".join(_SECONDS)})')
    return number * factor


def _split(text: str) -> tuple[float, str]:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f'Unable to parse a number from "{text}"')
    try:
        return (int(found[1]) if found[1].lstrip("-").isdigit() else float(found[1])), found[2]
    except ValueError:
        raise ValueError(f'Unable to parse a number from "{found[1]}"') from None
