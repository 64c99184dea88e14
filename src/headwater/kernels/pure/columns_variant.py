"""MessagePack values as Spark's variants (common/variant: Variant.java, VariantBuilder.java)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import Utf8
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.columns_text import DECIMAL_EXT, UUID_EXT, decimal_text, is_utf8, uuid_text

NULL, TRUE, FALSE, INT1, INT2, INT4, INT8, DOUBLE = range(8)
DECIMAL4, DECIMAL8, DECIMAL16, DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, LONG_STR = range(8, 17)
UUID = 20
SHORT_MAX = 63
SIZE_MAX = 128 * 1024 * 1024
"""VariantUtil.SIZE_LIMIT."""
_INT64 = (1 << 63) - 1
Texts = Callable[[int, bytes], str]


def width_of(value: int) -> int:
    """Bytes for an unsigned number up to `value`."""
    return 1 if value <= 0xFF else 2 if value <= 0xFFFF else 3 if value <= 0xFFFFFF else 4


def to_variant(value: bytes, texts: Texts, utf8: int, tagged: bool) -> tuple[bytes, bytes]:
    """(value, metadata) of one MessagePack value."""
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, got {type(value).__name__}")
    if mp.mp_next(value) != len(value):
        raise MsgPackError("not one whole value")
    return Variants(texts, utf8, tagged).write(value, 0)


@dataclass
class _Container:
    """One that is being filled."""

    is_object: bool
    count: int
    names: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


class Variants:
    """Writes one value after another."""

    def __init__(self, texts: Texts, utf8: int, tagged: bool) -> None:
        self._texts = texts
        self._utf8 = utf8
        self._tagged = tagged
        self._names: dict[bytes, int] = {}
        """Of the value at hand, with their numbers."""
        self._order: list[bytes] = []
        """The same by their numbers."""

    def write(self, data: bytes, at: int) -> tuple[bytes, bytes]:
        """(value, metadata) of the checked value at `at`; ValueError if Spark would not take it."""
        self._names, self._order = {}, []
        value = self._value(data, at)
        metadata = self._metadata()
        if len(value) > SIZE_MAX or len(metadata) > SIZE_MAX:
            raise ValueError("a value takes more than 128 MiB as a variant, which Spark does not take")
        return value, metadata

    def _metadata(self) -> bytes:
        joined = b"".join(self._names)
        width = width_of(max(len(joined), len(self._names)))
        end, ends = 0, [0]
        for name in self._names:
            end += len(name)
            ends.append(end)
        head = bytes((1 | (width - 1) << 6,)) + len(self._names).to_bytes(width, "little")
        return head + b"".join(end.to_bytes(width, "little") for end in ends) + joined

    def _value(self, data: bytes, at: int) -> bytes:
        """Containers are kept on a stack of ours: they may lie deeper in one another than Python's own reaches."""
        outer: list[_Container] = []
        while True:
            kind = mp.TYPE_OF[data[at]]
            if kind in (mp.ARRAY, mp.MAP):
                count, at = mp.container(data, at)
                outer.append(_Container(kind == mp.MAP, count))
            else:
                after = mp.mp_next(data, at)
                done = self._scalar(data, at, kind)
                at = after
                if not outer:
                    return done
                outer[-1].values.append(done)
            while len(outer[-1].values) == outer[-1].count:
                done = _finish(outer.pop(), self._order)
                if not outer:
                    return done
                outer[-1].values.append(done)
            if outer[-1].is_object:
                outer[-1].names.append(self._name(data, at))
                at = mp.mp_next(data, at)

    # ---- scalars

    def _scalar(self, data: bytes, at: int, kind: int) -> bytes:
        if kind in (mp.UINT, mp.INT):
            return integer(mp.integer(data, at))
        if kind == mp.STR:
            return self._string(mp.blob(data, at))
        if kind == mp.NIL:
            return bytes((NULL << 2,))
        if kind == mp.BOOL:
            return bytes(((TRUE if data[at] == 0xC3 else FALSE) << 2,))
        if kind == mp.DOUBLE:
            return bytes((DOUBLE << 2,)) + data[at + 1 : at + 9][::-1]
        if kind == mp.FLOAT:
            return bytes((FLOAT << 2,)) + data[at + 1 : at + 5][::-1]
        if kind == mp.BIN:
            return _binary(mp.blob(data, at))
        return self._extension(*mp.extension(data, at))

    def _string(self, raw: bytes) -> bytes:
        if not is_utf8(raw):
            if self._utf8 == Utf8.BINARY:
                return _binary(raw)
            if self._utf8 == Utf8.FAIL:
                raise UnicodeError("a string is not UTF-8")
            return _text(raw.decode(errors="replace").encode())
        return _text(b"!string " + raw if self._tagged and raw.startswith(b"!") else raw)

    def _extension(self, kind: int, contents: bytes) -> bytes:
        if kind == DECIMAL_EXT:
            text = ("!decimal " if self._tagged else "") + decimal_text(contents)
        elif kind == UUID_EXT:
            text = ("!uuid " if self._tagged else "") + uuid_text(contents)
        else:
            text = self._texts(kind - 256 if kind > 127 else kind, contents)
        return _text(text.encode(errors="replace"))

    def _name(self, data: bytes, at: int) -> int:
        """The number of the name that the key at `at` becomes."""
        name = self._name_text(data, at, mp.TYPE_OF[data[at]])
        if name not in self._names:
            self._names[name] = len(self._order)
            self._order.append(name)
        return self._names[name]

    def _name_text(self, data: bytes, at: int, kind: int) -> bytes:
        if kind == mp.STR:
            raw = mp.blob(data, at)
            if not is_utf8(raw):
                if self._utf8 == Utf8.FAIL:
                    raise UnicodeError("a key of a map is not UTF-8")
                return raw.decode(errors="replace").encode()
            return raw
        if kind in (mp.UINT, mp.INT):
            return str(mp.integer(data, at)).encode()
        if kind == mp.BOOL:
            return b"true" if data[at] == 0xC3 else b"false"
        if kind == mp.NIL:
            return b"null"
        if kind in (mp.FLOAT, mp.DOUBLE):
            return repr(real(data, at)).encode()
        return b"0x" + data[at : mp.mp_next(data, at)].hex().encode()


def real(data: bytes, at: int) -> float:
    """The FLOAT or DOUBLE at `at`."""
    value: float = struct.unpack_from(">f" if data[at] == 0xCA else ">d", data, at + 1)[0]
    return value


def integer(value: int) -> bytes:
    """In the fewest bytes; above what a signed number holds as a decimal without a fraction."""
    for kind, size in ((INT1, 1), (INT2, 2), (INT4, 4), (INT8, 8)):
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            return bytes((kind << 2,)) + value.to_bytes(size, "little", signed=True)
    return bytes((DECIMAL16 << 2, 0)) + value.to_bytes(16, "little")


def _text(raw: bytes) -> bytes:
    if len(raw) <= SHORT_MAX:
        return bytes((len(raw) << 2 | 1,)) + raw
    return bytes((LONG_STR << 2,)) + len(raw).to_bytes(4, "little") + raw


def _binary(raw: bytes) -> bytes:
    return bytes((BINARY << 2,)) + len(raw).to_bytes(4, "little") + raw


def _finish(done: _Container, names: list[bytes]) -> bytes:
    offsets = [0]
    for value in done.values:
        offsets.append(offsets[-1] + len(value))
    width = width_of(offsets[-1])
    if not done.is_object:
        is_large = done.count > 255
        head = bytes((is_large << 4 | (width - 1) << 2 | 3,)) + done.count.to_bytes(4 if is_large else 1, "little")
        return head + _numbers(offsets, width) + b"".join(done.values)
    last = {name: offsets[at] for at, name in enumerate(done.names)}
    kept = sorted(last, key=lambda name: names[name].decode().encode("utf-16-be"))
    is_large = len(kept) > 255
    id_width = width_of(max(kept, default=0))
    head = bytes((is_large << 6 | (id_width - 1) << 4 | (width - 1) << 2 | 2,))
    head += len(kept).to_bytes(4 if is_large else 1, "little") + _numbers(kept, id_width)
    return head + _numbers([*(last[name] for name in kept), offsets[-1]], width) + b"".join(done.values)


def _numbers(values: list[int], width: int) -> bytes:
    return b"".join(value.to_bytes(width, "little") for value in values)
