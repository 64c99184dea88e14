"""Spark's variants as MessagePack (common/variant, VariantUtil.java). Every offset in them may be anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import MsgPackError
from headwater.kernels.packplan import Fault, PackError, fault_text
from headwater.kernels.pure import columns_mpwrite as write
from headwater.kernels.pure import columns_variant as v
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.columns_nodes import Refused
from headwater.kernels.pure.columns_text import DECIMAL_EXT, UUID_EXT, is_utf8
from headwater.kernels.pure.extensions import check_extension
from headwater.typing import FieldType

Untag = Callable[[str], bytes]
_DEPTH_MAX = 1000
_SCALARS = {
    v.NULL: 1, v.TRUE: 1, v.FALSE: 1, v.INT1: 2, v.INT2: 3, v.INT4: 5, v.INT8: 9, v.DOUBLE: 9, v.DECIMAL4: 6,
    v.DECIMAL8: 10, v.DECIMAL16: 18, v.DATE: 5, v.TIMESTAMP: 9, v.TIMESTAMP_NTZ: 9, v.FLOAT: 5, v.UUID: 17,
}  # fmt: skip
"""Bytes of each, its head included."""
_DECIMAL = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SECONDS_MIN = (-(2**31) - 719163) * 86400
_SECONDS_MAX = (2**31 - 1 - 719163) * 86400
_DECIMAL_DIGITS = 76


# ---- values that are written from text ------------------------------------------------------------


def decimal_of(text: bytes) -> bytes:
    """`[+-]12.34[E[+-]56]`, of 76 digits at most."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise Refused(Fault.DECIMAL)
    sign, whole, fraction, power = (part.decode() if part else "" for part in found.groups())
    digits = (whole + fraction).lstrip("0") or "0"
    scale = len(fraction) - int(power or 0)
    if not whole + fraction or len(digits) > _DECIMAL_DIGITS or not -10_000_000 < scale < 10_000_000:
        raise Refused(Fault.DECIMAL)
    packed = write.decimal(digits, sign == "-", scale)
    contents = mp.extension(packed, 0)[1]
    try:
        check_extension(contents, DECIMAL_EXT, 0, len(contents), 0, mp.walk)
    except MsgPackError:
        raise Refused(Fault.DECIMAL) from None
    return packed


def uuid_of(text: bytes) -> bytes:
    """36 characters."""
    if _UUID.fullmatch(text) is None:
        raise Refused(Fault.UUID)
    return write.ext(UUID_EXT, bytes.fromhex(text.replace(b"-", b"").decode()))


def moment_of(value: int, to_a_second: int) -> bytes:
    seconds, rest = divmod(value, to_a_second)
    if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        raise Refused(Fault.MOMENT)
    return write.datetime(seconds, rest * (1_000_000_000 // to_a_second))


# ---- variants -------------------------------------------------------------------------------------


def from_variant(value: bytes, metadata: bytes, tagged: bool = False, untag: Untag | None = None) -> bytes:
    """MessagePack of one variant."""
    for given in (value, metadata):
        if not isinstance(given, bytes):
            raise TypeError(f"expected bytes, got {type(given).__name__}")
    try:
        return unpack_variant(value, metadata, tagged, untag)
    except Refused as refused:
        raise PackError(fault_text(refused.fault, "", FieldType.ANY)) from None


def unpack_variant(value: bytes, metadata: bytes, tagged: bool, untag: Untag | None) -> bytes:
    """Refused for what is no variant."""
    return _Reader(value, metadata, tagged, untag).read()


@dataclass
class _Container:
    """One that is being read."""

    ids: list[int] | None
    """Of names, None for an array."""
    places: list[int]
    at: int = 0
    """Which one comes next."""


class _Reader:
    def __init__(self, value: bytes, metadata: bytes, tagged: bool, untag: Untag | None) -> None:
        if not metadata or metadata[0] & 0x0F != 1:
            raise Refused(Fault.VARIANT)
        self._width = (metadata[0] >> 6) + 1
        if len(metadata) < 1 + self._width * 2:
            raise Refused(Fault.VARIANT)
        self._names = int.from_bytes(metadata[1 : 1 + self._width], "little")
        if (self._names + 2) * self._width + 1 > len(metadata):
            raise Refused(Fault.VARIANT)
        self._value = value
        self._metadata = metadata
        self._tagged = tagged
        self._untag = untag
        self._left = len(value)
        """Bytes that values may still take: none is read twice."""

    def read(self) -> bytes:
        """Containers are kept on a stack of ours: they may lie deeper in one another than Python's own reaches."""
        out = bytearray()
        outer: list[_Container] = []
        place = 0
        while True:
            inner = self._part(place, len(outer), out)
            if inner is not None:
                outer.append(inner)
            while outer and outer[-1].at == len(outer[-1].places):
                outer.pop()
            if not outer:
                return bytes(out)
            top = outer[-1]
            if top.ids is not None:
                out += self._name(top.ids[top.at])
            place = top.places[top.at]
            top.at += 1

    def _part(self, at: int, depth: int, out: bytearray) -> _Container | None:
        """The value at `at`, or the head of a container."""
        if at >= len(self._value):
            raise Refused(Fault.VARIANT)
        head = self._value[at]
        if head & 3 == 1:
            self._take(at, 1 + (head >> 2))
            out += self._text(self._value[at + 1 : at + 1 + (head >> 2)])
        elif head & 3 == 0:
            out += self._scalar(at, head >> 2)
        else:
            return self._container(at, head & 3 == 2, head >> 2, depth, out)
        return None

    def _take(self, at: int, size: int) -> None:
        """Do `size` bytes lie at `at`, and may they be read still?"""
        if at + size > len(self._value) or size > self._left:
            raise Refused(Fault.VARIANT)
        self._left -= size

    def _container(self, at: int, is_object: bool, info: int, depth: int, out: bytearray) -> _Container:
        wide = 4 if info >> (4 if is_object else 2) & 1 else 1
        id_width = (info >> 2 & 3) + 1 if is_object else 0
        width = (info & 3) + 1
        if at + 1 + wide > len(self._value) or depth >= _DEPTH_MAX:
            raise Refused(Fault.VARIANT)
        ids = at + 1 + wide
        count = int.from_bytes(self._value[at + 1 : ids], "little")
        heads = ids + count * id_width
        data = heads + (count + 1) * width
        self._take(at, data - at)
        out += write.map_head(count) if is_object else write.array_head(count)
        places = [data + number for number in self._numbers(heads, width, count)]
        return _Container(self._numbers(ids, id_width, count) if is_object else None, places)

    def _numbers(self, at: int, width: int, count: int) -> list[int]:
        raw = self._value
        return [int.from_bytes(raw[place : place + width], "little") for place in range(at, at + count * width, width)]

    def _name(self, id: int) -> bytes:
        width = self._width
        text = 1 + (self._names + 2) * width
        if id >= self._names:
            raise Refused(Fault.VARIANT)
        at = 1 + (id + 1) * width
        first = int.from_bytes(self._metadata[at : at + width], "little")
        last = int.from_bytes(self._metadata[at + width : at + 2 * width], "little")
        if last < first or text + last > len(self._metadata):
            raise Refused(Fault.VARIANT)
        name = self._metadata[text + first : text + last]
        if not is_utf8(name):
            raise Refused(Fault.UTF8)
        return write.text(name)

    def _scalar(self, at: int, kind: int) -> bytes:
        if kind in (v.BINARY, v.LONG_STR):
            self._take(at, 5)
            size = int.from_bytes(self._value[at + 1 : at + 5], "little")
            self._take(at + 5, size)
            raw = self._value[at + 5 : at + 5 + size]
            return write.binary(raw) if kind == v.BINARY else self._text(raw)
        if kind not in _SCALARS:
            raise Refused(Fault.VARIANT)
        self._take(at, _SCALARS[kind])
        return _scalar(kind, self._value[at + 1 : at + _SCALARS[kind]])

    def _text(self, raw: bytes) -> bytes:
        if not is_utf8(raw):
            raise Refused(Fault.UTF8)
        if not self._tagged or not raw.startswith(b"!"):
            return write.text(raw)
        try:
            if raw.startswith(b"!decimal ") and len(raw) > 9:
                return decimal_of(raw[9:])
            if raw.startswith(b"!uuid ") and len(raw) > 6:
                return uuid_of(raw[6:])
        except Refused:
            raise Refused(Fault.TAG) from None
        if raw.startswith(b"!string "):
            return write.text(raw[8:])
        return write.text(raw) if self._untag is None else _asked(self._untag, raw.decode())


def _asked(untag: Untag, text: str) -> bytes:
    try:
        packed = untag(text)
        if not isinstance(packed, bytes):
            raise TypeError(f"expected bytes, got {type(packed).__name__}")
        if mp.mp_next(packed) != len(packed):
            raise ValueError("not MessagePack")
    except (ValueError, MsgPackError):
        raise Refused(Fault.TAG) from None
    return packed


def _scalar(kind: int, raw: bytes) -> bytes:
    if kind in (v.NULL, v.TRUE, v.FALSE):
        return {v.NULL: write.NIL, v.TRUE: write.TRUE, v.FALSE: write.FALSE}[kind]
    if kind == v.DOUBLE:
        return b"\xcb" + raw[::-1]
    if kind == v.FLOAT:
        return b"\xca" + raw[::-1]
    if kind == v.UUID:
        return write.ext(UUID_EXT, raw)
    if kind in (v.DECIMAL4, v.DECIMAL8, v.DECIMAL16):
        return _decimal(raw[0], int.from_bytes(raw[1:], "little", signed=True))
    number: int = int.from_bytes(raw, "little", signed=True)
    if kind == v.DATE:
        return moment_of(number * 86400, 1)
    if kind in (v.TIMESTAMP, v.TIMESTAMP_NTZ):
        return moment_of(number, 1_000_000)
    return write.integer(number)


def _decimal(scale: int, value: int) -> bytes:
    digits = str(abs(value))
    if len(digits) > 38 or scale > 38:
        raise Refused(Fault.VARIANT)
    if scale == 0 and 1 << 63 <= value < 1 << 64:
        # As `to_variant` writes it: above what a signed number holds.
        return write.integer(value)
    return write.decimal(digits, value < 0, scale)
