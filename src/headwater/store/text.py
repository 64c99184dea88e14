"""A tuple as one line of text, as errors show it (msgpuck.c mp_snprint, tuple.c tuple_str)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.errors import BoxError, MsgPackError
from headwater.wire.msgpack import Datetime, Ext, FrozenMap, Interval, unpack
from headwater.wire.values import Float32, decimal_text

TEXT_MAX = 1023
"""Longest text, in bytes (tt_static.h, TT_STATIC_BUF_LEN - 1)."""
_SUFFIX_ROOM = 12
"""trivia/util.h TOSTR: lengthof("<more ~%db>")."""

_ESCAPES = {number: f"\\u{number:04x}" for number in (*range(32), 127)} | {
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
    ord('"'): '\\"',
    ord("/"): "\\/",
    ord("\\"): "\\\\",
}


def tuple_text(tuple: bytes) -> str:
    """At most 1,023 bytes; what is left out is counted at the end."""
    text = mp_text(tuple).encode("utf-8", "surrogateescape")
    if len(text) > TEXT_MAX:
        suffix = f"<more ~{len(text) - TEXT_MAX + _SUFFIX_ROOM}b>".encode()
        text = text[: TEXT_MAX - len(suffix)] + suffix
    return text.decode("utf-8", "replace")


def mp_text(data: bytes) -> str:
    """Any value of MessagePack."""
    try:
        return _text(unpack(data))
    except (MsgPackError, RecursionError):
        return "<invalid>"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (float, Float32)):
        return f"{float(value):g}"
    if isinstance(value, (str, bytes)):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, FrozenMap):
        return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in value) + "}"
    if isinstance(value, (list, tuple)) and not isinstance(value, Ext):
        return "[" + ", ".join(map(_text, value)) + "]"
    return _extension(value)


def _string(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    return f'"{text.translate(_ESCAPES)}"'


def _extension(value: object) -> str:
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, (UUID, Datetime, Interval)):
        return str(value)
    if isinstance(value, BoxError):
        return value.message
    if isinstance(value, Ext):
        return f"(extension: type {value.type}, len {len(value.data)})"
    return repr(value)
