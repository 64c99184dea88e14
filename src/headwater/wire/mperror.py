"""The stack of an error as MessagePack: in error replies under key ERROR, and as extension 3 (mp_error.cc)."""

from __future__ import annotations

from headwater.errors import (
    AccessDenied,
    BoxError,
    CustomError,
    Er,
    IllegalParams,
    OutOfMemory,
    Packed,
    SocketError,
    SystemError_,
    TimedOut,
    XlogError,
    XlogGapError,
    er,
)
from headwater.kernels import mp_next
from headwater.wire.constants import ERROR_STACK, ErrorKey, MpType
from headwater.wire.mpread import KIND, read_length, read_text, read_uint
from headwater.wire.mpwrite import (
    pack_array_head,
    pack_bool,
    pack_double,
    pack_int,
    pack_map_head,
    pack_text,
    pack_uint,
)

_CLASSES: dict[str, type[BoxError]] = {
    cls.type_name: cls
    for cls in (
        BoxError,
        CustomError,
        AccessDenied,
        XlogError,
        XlogGapError,
        SystemError_,
        SocketError,
        OutOfMemory,
        TimedOut,
        IllegalParams,
    )
}
_OTHER_TYPES = frozenset(
    (
        "ChannelIsClosed",
        "FiberIsCancelled",
        "LuajitError",
        "CollationError",
        "SwimError",
        "CryptoError",
        "SSLError",
        "FileFormatError",
        "EncodeError",
        "DecodeError",
    )
)
"""Types that a peer may name and that need no class of ours (error_build). All others become ClientError."""


# ---- writing --------------------------------------------------------------------------------------


def pack_stack(error: BoxError) -> bytes:
    """`{0: [{0: type, 2: line, 1: file, 3: message, 4: errno, 5: code, 6: fields}, …]}`, outermost error first."""
    stack = error.stack()
    head = pack_map_head(1) + pack_uint(ERROR_STACK) + pack_array_head(len(stack))
    return head + b"".join(map(_pack_one, stack))


def _pack_one(error: BoxError) -> bytes:
    """In the order in which mp_encode_error_one writes; fields only if there are any."""
    file, line = error.location()
    out = (
        pack_map_head(7 if error.fields else 6)
        + pack_uint(ErrorKey.TYPE)
        + pack_text(error.type_name)
        + pack_uint(ErrorKey.LINE)
        + pack_uint(line)
        + pack_uint(ErrorKey.FILE)
        + pack_text(file)
        + pack_uint(ErrorKey.MESSAGE)
        + pack_text(error.message)
        + pack_uint(ErrorKey.ERRNO)
        + pack_uint(error.errno)
        + pack_uint(ErrorKey.CODE)
        + pack_uint(error.code)
    )
    if error.fields:
        out += pack_uint(ErrorKey.FIELDS) + pack_map_head(len(error.fields))
        out += b"".join(pack_text(name) + _pack_field(value) for name, value in error.fields.items())
    return out


def _pack_field(value: object) -> bytes:
    """Payloads hold scalars and values that are packed already; anything else is told as text."""
    if isinstance(value, Packed):
        return bytes(value)
    if isinstance(value, bool):
        return pack_bool(value)
    if isinstance(value, int):
        return pack_int(value)
    if isinstance(value, float):
        return pack_double(value)
    return pack_text(value if isinstance(value, str) else str(value))


# ---- reading --------------------------------------------------------------------------------------


def unpack_stack(data: bytes, at: int) -> tuple[BoxError, int]:
    """The errors of the checked value at `at`, linked by their causes, and the offset after it (error_unpack_unsafe).
    BoxError INVALID_MSGPACK in 3.x's words if the value is not a stack."""
    _expect(data, at, MpType.MAP, "error data")
    count, at = read_length(data, at)
    first: BoxError | None = None
    for _ in range(count):
        _expect(data, at, MpType.UINT, "error data key")
        key, at = read_uint(data, at)
        if key != ERROR_STACK:
            at = mp_next(data, at)
            continue
        if first is not None:
            raise er(Er.INVALID_MSGPACK, "duplicate MP_ERROR_STACK key")
        first, at = _unpack_list(data, at)
    if first is None:
        raise er(Er.INVALID_MSGPACK, "MP_ERROR_STACK is missing")
    return first, at


def _unpack_list(data: bytes, at: int) -> tuple[BoxError | None, int]:
    _expect(data, at, MpType.ARRAY, "MP_ERROR_STACK value")
    count, at = read_length(data, at)
    first: BoxError | None = None
    last: BoxError | None = None
    for _ in range(count):
        error, at = _unpack_one(data, at)
        if last is None:
            first = error
        else:
            last.cause = error
        last = error
    return first, at


_FIELD_KINDS = {
    ErrorKey.TYPE: MpType.STR,
    ErrorKey.FILE: MpType.STR,
    ErrorKey.LINE: MpType.UINT,
    ErrorKey.MESSAGE: MpType.STR,
    ErrorKey.ERRNO: MpType.UINT,
    ErrorKey.CODE: MpType.UINT,
}


def _unpack_one(data: bytes, at: int) -> tuple[BoxError, int]:
    _expect(data, at, MpType.MAP, "MP_ERROR_STACK array entry")
    count, at = read_length(data, at)
    texts: dict[int, str] = {}
    numbers: dict[int, int] = {}
    payload: dict[str, object] = {}
    for _ in range(count):
        _expect(data, at, MpType.UINT, "error field key")
        key, at = read_uint(data, at)
        if key == ErrorKey.FIELDS:
            at = _unpack_payload(data, at, payload)
        elif key not in _FIELD_KINDS:
            at = mp_next(data, at)
        else:
            name = ErrorKey(key)
            _expect(data, at, _FIELD_KINDS[name], f"MP_ERROR_{name.name} value")
            if _FIELD_KINDS[name] is MpType.STR:
                texts[key], at = read_text(data, at)
            else:
                numbers[key], at = read_uint(data, at)
    for name in (ErrorKey.TYPE, ErrorKey.MESSAGE, ErrorKey.FILE):
        if name not in texts:
            raise er(Er.INVALID_MSGPACK, f"MP_ERROR_{name.name} is missing")
    return _build(texts, numbers, payload), at


def _unpack_payload(data: bytes, at: int, payload: dict[str, object]) -> int:
    """Scalars are taken out, deeper values stay packed, so that no depth is ever walked."""
    _expect(data, at, MpType.MAP, "MP_ERROR_FIELDS value")
    count, at = read_length(data, at)
    for _ in range(count):
        _expect(data, at, MpType.STR, "error payload field name")
        name, at = read_text(data, at)
        end = mp_next(data, at)
        kind = KIND[data[at]]
        if kind == MpType.STR:
            payload[name] = read_text(data, at)[0]
        elif kind == MpType.UINT:
            payload[name] = read_uint(data, at)[0]
        else:
            payload[name] = Packed(data[at:end])
        at = end
    return at


def _build(texts: dict[int, str], numbers: dict[int, int], payload: dict[str, object]) -> BoxError:
    """The class that the type names, so that a peer's XlogGapError is caught as one (error_build)."""
    type_name = texts[ErrorKey.TYPE]
    if type_name not in _CLASSES and type_name not in _OTHER_TYPES:
        type_name = BoxError.type_name
    cls = _CLASSES.get(type_name, BoxError)
    error = cls.__new__(cls)
    BoxError.__init__(
        error,
        numbers.get(ErrorKey.CODE, 0) & 0xFFFF_FFFF,
        texts[ErrorKey.MESSAGE],
        fields=payload,
        errno=numbers.get(ErrorKey.ERRNO, 0) & 0xFFFF_FFFF,
        type_name=type_name,
        place=(texts[ErrorKey.FILE], numbers.get(ErrorKey.LINE, 0) & 0xFFFF_FFFF),
    )
    return error


def _expect(data: bytes, at: int, kind: MpType, what: str) -> None:
    if KIND[data[at]] != kind:
        raise er(Er.INVALID_MSGPACK, f"{what} must be MP_{kind.name}")
