"""Values that MessagePack has only as extensions, and their bytes (mp_decimal.c, mp_datetime.c, mp_interval.c).

The payload functions take and give what stands behind the type byte of an extension. They check what Tarantool
checks and raise MsgPackError with its words.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import NamedTuple

from headwater.errors import MsgPackError
from headwater.wire.mpwrite import pack_int

DECIMAL_MAX_DIGITS = 76
"""decimal.h of 3.x; servers before 3.0 hold 38."""
_DECIMAL_BYTES_MAX = 40
"""(capacity of decimal_t + 1) / 2, where the capacity is 76 digits rounded up to whole units of 3: 78."""
_DECIMAL_EXPONENT_MAX = 999_999
"""DEC_MAX_MATH of decNumber."""
_DECIMAL_EXPONENT_MIN_SUBNORMAL = -_DECIMAL_EXPONENT_MAX - DECIMAL_MAX_DIGITS + 1

_SECONDS_1970 = 719_163 * 86_400
_EPOCH_MAX = (2**31 - 1) * 86_400 - _SECONDS_1970
_EPOCH_MIN = -(2**31) * 86_400 - _SECONDS_1970
_NANOS_MAX = 2_000_000_000
_TZOFFSET_MIN, _TZOFFSET_MAX = -12 * 60, 14 * 60
_TZINDEX_MAX = 1024
_LONG = struct.Struct("<q")
_TAIL = struct.Struct("<ihh")


class Ext(NamedTuple):
    """An extension that Headwater does not look into: compressed values, tuples with formats, arrow, foreign ones."""

    type: int
    data: bytes


class Float32(float):
    """A float of four bytes: equal to its value, written back as four bytes."""

    __slots__ = ()


class FrozenMap(tuple[tuple[object, object], ...]):
    """A map used as the key of a map: its pairs, hashable."""

    __slots__ = ()


# ---- decimal --------------------------------------------------------------------------------------


def pack_decimal(value: Decimal) -> bytes:
    """Scale as an integer, then the digits, two a byte, and a last nibble for the sign (decimal_pack)."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > DECIMAL_MAX_DIGITS:
        raise MsgPackError(f"decimal {value} does not fit in {DECIMAL_MAX_DIGITS} digits")
    _check_exponent(len(digits), exponent)
    text = "".join(map(str, digits)) + ("d" if sign else "c")
    return pack_int(-exponent) + bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)


def unpack_decimal(data: bytes) -> Decimal:
    """decimal_unpack and decPackedToNumber: sign nibbles a, c, e, f are plus, b and d minus."""
    scale, start = _read_int(data, 0, "cannot unpack decimal")
    text = data[start:].hex()
    if (
        not text
        or len(text) > 2 * _DECIMAL_BYTES_MAX
        or not (digits := text[:-1]).isdigit()
        or text[-1] not in "abcdef"
    ):
        raise MsgPackError("cannot unpack decimal")
    digits = digits.lstrip("0") or "0"
    if not -(2**31) <= scale < 2**31 or len(digits) > DECIMAL_MAX_DIGITS:
        raise MsgPackError("cannot unpack decimal")
    _check_exponent(len(digits), -scale)
    return Decimal((1 if text[-1] in "bd" else 0, tuple(map(int, digits)), -scale))


def _check_exponent(count: int, exponent: int) -> None:
    """Precision and adjusted exponent, subnormal numbers included (decimal_unpack)."""
    adjusted = exponent + count - 1
    normal = -_DECIMAL_EXPONENT_MAX <= adjusted <= _DECIMAL_EXPONENT_MAX
    low = _DECIMAL_EXPONENT_MIN_SUBNORMAL
    if not normal and not (low <= adjusted < 0 and count <= adjusted - low + 1):
        raise MsgPackError("cannot unpack decimal")


def decimal_text(value: Decimal) -> str:
    """As decNumberToString writes it, which is Python's own form with a capital E."""
    return str(value)


# ---- datetime -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Datetime:
    """A moment, and the time zone in which it is shown (datetime.h, struct datetime)."""

    seconds: int
    """Since 1970 in UTC. Reaches from the year -5879610 to 5879611, which Python's datetime does not."""
    nsec: int = 0
    tzoffset: int = 0
    """Minutes east of UTC; for showing only."""
    tzindex: int = 0
    """Number of a named zone in Tarantool's table, 0 for none."""

    @classmethod
    def of(cls, moment: dt.datetime) -> Datetime:
        """From Python; a moment without zone counts as UTC."""
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        since = aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        offset = aware.utcoffset() or dt.timedelta()
        seconds = since.days * 86_400 + since.seconds
        return cls(seconds, since.microseconds * 1000, int(offset.total_seconds()) // 60)

    def __str__(self) -> str:
        """As datetime_snprint writes it, but a named zone is shown by its offset."""
        local = self.seconds + self.tzoffset * 60
        days, second = divmod(local, 86_400)
        year, month, day = _civil(days)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        return f"{year:04}-{month:02}-{day:02}T{clock}{self._fraction()}{self._zone()}"

    def _fraction(self) -> str:
        if self.nsec == 0:
            return ""
        if self.nsec % 1_000_000 == 0:
            return f".{self.nsec // 1_000_000:03}"
        if self.nsec % 1000 == 0:
            return f".{self.nsec // 1000:06}"
        return f".{self.nsec:09}"

    def _zone(self) -> str:
        if self.tzoffset == 0:
            return "Z"
        minutes = abs(self.tzoffset)
        return f"{'-' if self.tzoffset < 0 else '+'}{minutes // 60:02}{minutes % 60:02}"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month, day of the proleptic Gregorian calendar, `days` after 1970-01-01, for any year."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def pack_datetime(value: Datetime) -> bytes:
    """8 bytes, or 16 when there is more than seconds (datetime_pack)."""
    _check_datetime(value)
    head = _LONG.pack(value.seconds)
    if value.nsec == 0 and value.tzoffset == 0 and value.tzindex == 0:
        return head
    return head + _TAIL.pack(value.nsec, value.tzoffset, value.tzindex)


def unpack_datetime(data: bytes) -> Datetime:
    if len(data) not in (8, 16):
        raise MsgPackError("cannot unpack datetime")
    tail = _TAIL.unpack_from(data, 8) if len(data) == 16 else (0, 0, 0)
    value = Datetime(_LONG.unpack_from(data)[0], *tail)
    _check_datetime(value)
    return value


def _check_datetime(value: Datetime) -> None:
    """datetime_validate."""
    if not (
        _EPOCH_MIN <= value.seconds <= _EPOCH_MAX
        and 0 <= value.nsec < _NANOS_MAX
        and _TZOFFSET_MIN <= value.tzoffset <= _TZOFFSET_MAX
        and 0 <= value.tzindex <= _TZINDEX_MAX
    ):
        raise MsgPackError("cannot unpack datetime")


# ---- interval -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of time whose parts are kept apart (datetime.h, struct interval). Order: mp_interval.c."""

    year: int = 0
    month: int = 0
    week: int = 0
    day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    nsec: int = 0
    adjust: int = 0
    """What a day that the target month lacks becomes (dt_adjust_t): 0 none, 1 limit, 2 last day."""

    def __str__(self) -> str:
        """As interval_snprint writes it."""
        words = ("years", "months", "weeks", "days", "hours", "minutes", "seconds", "nanoseconds")
        shown: list[str] = []
        for field, word in zip(fields(self)[:8], words, strict=True):
            number = getattr(self, field.name)
            if number != 0 or (word == "seconds" and not shown):
                shown.append(f"{number:+d} {word}" if not shown else f"{number} {word}")
        return ", ".join(shown)


_INTERVAL_WIDE = (3, 4, 5, 6)
"""Day, hour, minute, second are 64 bits wide, the others 32."""
_ADJUST = 8
_ADJUST_MAX = 2


def pack_interval(value: Interval) -> bytes:
    """How many fields, then number and value of each that is not zero (interval_pack)."""
    numbers = [getattr(value, field.name) for field in fields(value)]
    for index, number in enumerate(numbers):
        _check_interval_field(index, number)
    present = [bytes((index,)) + pack_int(number) for index, number in enumerate(numbers) if number]
    return bytes((len(present),)) + b"".join(present)


def unpack_interval(data: bytes) -> Interval:
    if not data:
        raise MsgPackError("cannot unpack interval")
    numbers = [0] * 9
    position = 1
    for _ in range(data[0]):
        if len(data) - position < 2 or data[position] > 8:
            raise MsgPackError("cannot unpack interval")
        index = data[position]
        numbers[index], position = _read_int(data, position + 1, "cannot unpack interval")
        _check_interval_field(index, numbers[index])
    if position != len(data):
        raise MsgPackError("cannot unpack interval")
    return Interval(*numbers)


def _check_interval_field(index: int, number: int) -> None:
    bits = 63 if index in _INTERVAL_WIDE else 31
    low, high = (0, _ADJUST_MAX + 1) if index == _ADJUST else (-(2**bits), 2**bits)
    if not low <= number < high:
        raise MsgPackError("cannot unpack interval")


_INT_SIZES = {0xCC: (1, False), 0xCD: (2, False), 0xCE: (4, False), 0xCF: (8, False)} | {
    0xD0: (1, True),
    0xD1: (2, True),
    0xD2: (4, True),
    0xD3: (8, True),
}


def _read_int(data: bytes, position: int, words: str) -> tuple[int, int]:
    """An integer of any width at `position` of data that nobody has checked yet."""
    if position >= len(data):
        raise MsgPackError(words)
    code = data[position]
    if code <= 0x7F:
        return code, position + 1
    if code >= 0xE0:
        return code - 0x100, position + 1
    size, signed = _INT_SIZES.get(code, (0, False))
    end = position + 1 + size
    if size == 0 or end > len(data):
        raise MsgPackError(words)
    return int.from_bytes(data[position + 1 : end], "big", signed=signed), end


_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d{4})\Z")


def parse_datetime(text: str) -> Datetime:
    """The way back from `str(Datetime)` for years of four digits; ValueError if it is not one."""
    found = _ISO.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time like 2026-01-31T12:00:00Z")
    parts = [int(part) for part in found.groups()[:6]]
    zone = found[8]
    offset = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 60 + int(zone[3:]))
    moment = dt.datetime(*parts, tzinfo=dt.timezone(dt.timedelta(minutes=offset)))  # type: ignore[misc,arg-type]
    nsec = int((found[7] or "").ljust(9, "0"))
    base = Datetime.of(moment)
    return Datetime(base.seconds, nsec, offset)
