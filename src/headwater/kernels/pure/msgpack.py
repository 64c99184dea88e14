"""MessagePack as bytes: where values end and of what type they are. No value is built here."""

from __future__ import annotations

from headwater.errors import MsgPackError
from headwater.kernels.pure.extensions import check_extension

MAX_DEPTH = 1000
"""Containers inside one another. Tarantool has no such limit; ours bounds what later, recursive readers may meet."""

NIL, UINT, INT, STR, BIN, ARRAY, MAP, BOOL, FLOAT, DOUBLE, EXT, NEVER = range(12)
"""enum mp_type of msgpuck.h; NEVER stands for the code 0xc1."""

TYPE_NAMES = (
    "nil", "unsigned", "integer", "string", "blob", "array", "map", "boolean", "float", "double", "extension",
)  # fmt: skip
"""field_def.c, mp_type_strs."""


def _types() -> bytes:
    out = bytearray(256)
    for low, high, kind in (
        (0x00, 0x7F, UINT), (0x80, 0x8F, MAP), (0x90, 0x9F, ARRAY), (0xA0, 0xBF, STR), (0xC0, 0xC0, NIL),
        (0xC1, 0xC1, NEVER), (0xC2, 0xC3, BOOL), (0xC4, 0xC6, BIN), (0xC7, 0xC9, EXT), (0xCA, 0xCA, FLOAT),
        (0xCB, 0xCB, DOUBLE), (0xCC, 0xCF, UINT), (0xD0, 0xD3, INT), (0xD4, 0xD8, EXT), (0xD9, 0xDB, STR),
        (0xDC, 0xDD, ARRAY), (0xDE, 0xDF, MAP), (0xE0, 0xFF, INT),
    ):  # fmt: skip
        out[low : high + 1] = bytes([kind]) * (high - low + 1)
    return bytes(out)


TYPE_OF = _types()
"""First byte of a value -> its type."""


def _sizes() -> bytes:
    """Whole size of values whose first byte tells it; 0 for all others."""
    out = bytearray(256)
    for code in range(256):
        if code < 0x80 or code >= 0xE0 or code in (0xC0, 0xC2, 0xC3):
            out[code] = 1
        elif 0xA0 <= code <= 0xBF:
            out[code] = 1 + (code & 0x1F)
    for code, size in ((0xCA, 5), (0xCB, 9), (0xCC, 2), (0xCD, 3), (0xCE, 5), (0xCF, 9)):
        out[code] = size
    for code, size in ((0xD0, 2), (0xD1, 3), (0xD2, 5), (0xD3, 9)):
        out[code] = size
    return bytes(out)


SIZE_OF = _sizes()

_LENGTH_BYTES = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4,
    0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip


def _length(data: bytes, offset: int, width: int) -> int:
    if offset + width > len(data):
        raise truncated(offset)
    return int.from_bytes(data[offset : offset + width], "big")


def truncated(offset: int) -> MsgPackError:
    return MsgPackError(f"truncated input: a value that begins before offset {offset} is not complete")


def _after_blob(data: bytes, offset: int, depth: int) -> int:
    """After the STR, BIN or EXT with a length of its own at `offset`; the contents of an extension are checked."""
    code = data[offset]
    if 0xD4 <= code <= 0xD8:
        start, size, ext = offset + 2, 1 << (code - 0xD4), True
    else:
        width = _LENGTH_BYTES[code]
        size = _length(data, offset + 1, width)
        ext = 0xC7 <= code <= 0xC9
        start = offset + 1 + width + ext
    if start + size > len(data):
        raise truncated(start)
    if ext:
        check_extension(data, data[start - 1], start, start + size, depth, walk)
    return start + size


def container(data: bytes, offset: int) -> tuple[int, int]:
    """(count of elements or pairs, offset of the first one) of the ARRAY or MAP at `offset`."""
    code = data[offset]
    if code <= 0x9F:
        return code & 0x0F, offset + 1
    width = _LENGTH_BYTES[code]
    return _length(data, offset + 1, width), offset + 1 + width


def mp_next(data: bytes, offset: int = 0) -> int:
    """Offset just after the value at `offset`, checked."""
    return walk(data, offset, 0)


def walk(data: bytes, offset: int, depth: int) -> int:
    """mp_next inside `depth` extensions."""
    end = len(data)
    left = 1
    outer: list[int] = []
    while True:
        if not 0 <= offset < end:
            raise truncated(offset)
        code = data[offset]
        size = SIZE_OF[code]
        left -= 1
        if size:
            offset += size
            if offset > end:
                raise truncated(end)
        else:
            kind = TYPE_OF[code]
            if kind in (ARRAY, MAP):
                if len(outer) >= MAX_DEPTH:
                    raise MsgPackError(f"nesting above {MAX_DEPTH} containers at offset {offset}")
                count, offset = container(data, offset)
                outer.append(left)
                left = count * 2 if kind == MAP else count
            elif kind == NEVER:
                raise MsgPackError(f"illegal code 0xc1 at offset {offset}")
            else:
                offset = _after_blob(data, offset, depth)
        while not left:
            if not outer:
                return offset
            left = outer.pop()


def mp_check_all(data: bytes, offset: int, end: int) -> int:
    """How many whole values lie in data[offset:end]; MsgPackError if they do not fill it exactly."""
    count = 0
    while offset < end:
        offset = mp_next(data, offset)
        count += 1
    if offset != end or end > len(data):
        raise truncated(end)
    return count


def mp_array_fields(data: bytes, offset: int = 0) -> list[int]:
    """Offsets of the fields of the array at `offset`, and the offset after its end as the last item."""
    if not 0 <= offset < len(data):
        raise truncated(offset)
    if TYPE_OF[data[offset]] != ARRAY:
        raise MsgPackError(f"expected an array at offset {offset}")
    count, offset = container(data, offset)
    end = len(data)
    if count > end - offset:
        raise truncated(end)
    out = [offset]
    for _ in range(count):
        size = SIZE_OF[data[offset]] if offset < end else 0
        if size:
            offset += size
            if offset > end:
                raise truncated(end)
        else:
            offset = mp_next(data, offset)
        out.append(offset)
    return out


def frame_end(data: bytes, offset: int, end: int) -> int:
    """Offset after the packet `len header body` at `offset`; 0 if it is not complete yet."""
    if offset >= end:
        return 0
    code = data[offset]
    if TYPE_OF[code] != UINT:
        raise MsgPackError(f"packet length: expected an unsigned integer at offset {offset}, got code 0x{code:02x}")
    start = offset + SIZE_OF[code]
    if start > end:
        return 0
    after = start + integer(data, offset)
    return after if after <= end else 0


# ---- reading values whose bytes are known to be whole ------------------------------------------------


def integer(data: bytes, offset: int) -> int:
    """The UINT or INT at `offset`."""
    code = data[offset]
    if code < 0x80:
        return code
    if code >= 0xE0:
        return code - 0x100
    return int.from_bytes(data[offset + 1 : offset + SIZE_OF[code]], "big", signed=code >= 0xD0)


def blob(data: bytes, offset: int) -> bytes:
    """The bytes of the STR or BIN at `offset`."""
    code = data[offset]
    if code <= 0xBF:
        return data[offset + 1 : offset + 1 + (code & 0x1F)]
    width = _LENGTH_BYTES[code]
    start = offset + 1 + width
    return data[start : start + int.from_bytes(data[offset + 1 : start], "big")]


def extension_type(data: bytes, offset: int) -> int:
    code = data[offset]
    return data[offset + 1] if code >= 0xD4 else data[offset + 1 + _LENGTH_BYTES[code]]


def extension(data: bytes, offset: int) -> tuple[int, bytes]:
    """(type 0..255, contents) of the EXT at `offset`."""
    code = data[offset]
    if code >= 0xD4:
        return data[offset + 1], data[offset + 2 : offset + 2 + (1 << (code - 0xD4))]
    width = _LENGTH_BYTES[code]
    start = offset + 2 + width
    return data[start - 1], data[start : start + int.from_bytes(data[offset + 1 : offset + 1 + width], "big")]


# ---- writing -----------------------------------------------------------------------------------------


def uint(value: int) -> bytes:
    """mp_encode_uint: the shortest form."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x100:
        return b"\xcc" + value.to_bytes(1, "big")
    if value < 0x10000:
        return b"\xcd" + value.to_bytes(2, "big")
    if value < 0x100000000:
        return b"\xce" + value.to_bytes(4, "big")
    return b"\xcf" + value.to_bytes(8, "big")


def array_header(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    if count < 0x10000:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")
