"""The 128 bytes that a server says first (xrow.c, greeting_encode and greeting_decode)."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.wire.constants import GREETING_SIZE, version_id, version_of

_HALF = GREETING_SIZE // 2
_SALT_MIN = 20
_VERSION_LENGTH_MAX = 19
_PROTOCOL_LENGTH_MAX = 32
_VERSION = re.compile(rb"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_SINCE = version_id(1, 6, 7)


@dataclass(frozen=True, slots=True)
class Greeting:
    version_id: int
    """See `constants.version_id`."""
    protocol: str
    """'Binary', or 'Lua' for a text console, which nobody here speaks."""
    uuid: UUID
    """Of the instance; nil before 1.6.7, and on an instance that is not configured yet."""
    salt: bytes
    """32 bytes, of which the login takes 20."""


NIL_UUID = UUID(int=0)


def encode(version: int, uuid: UUID, salt: bytes) -> bytes:
    """`Tarantool 3.8.0 (Binary) <uuid>`, then base64 of the salt, both padded with spaces to 63 and a newline."""
    first = "Tarantool {}.{}.{} (Binary) {}".format(*version_of(version), uuid).encode()
    second = base64.b64encode(salt)
    return first.ljust(_HALF - 1) + b"\n" + second.ljust(_HALF - 1) + b"\n"


def decode(data: bytes) -> Greeting:
    """BoxError PROTOCOL 'Invalid greeting', as applier.cc says it, for anything that is not one."""
    newline = 0x0A
    if len(data) != GREETING_SIZE or data[_HALF - 1] != newline or data[-1] != newline:
        raise _invalid()
    if not data.startswith(b"Tarantool "):
        raise _invalid()
    token, space, rest = data[len("Tarantool ") : _HALF].lstrip(b" ").partition(b" ")
    found = _VERSION.match(token)
    if not space or len(token) > _VERSION_LENGTH_MAX or found is None:
        raise _invalid()
    major, minor, patch = (int(number) for number in found.groups())
    version = version_id(major, minor, patch) & 0xFFFF_FFFF
    protocol, uuid = _parse_protocol(rest.lstrip(b" "), version)
    if protocol != "Binary":
        return Greeting(version, protocol, NIL_UUID, b"")
    return Greeting(version, protocol, uuid, _parse_salt(data[_HALF:]))


def _parse_protocol(rest: bytes, version: int) -> tuple[str, UUID]:
    """What stands in parentheses, and the UUID behind it; 1.6.6 and older have neither."""
    if not rest.startswith(b"("):
        if version < _UUID_SINCE:
            return "Binary", NIL_UUID
        raise _invalid()
    name, closing, after = rest[1:].partition(b")")
    if not closing or len(name) > _PROTOCOL_LENGTH_MAX:
        raise _invalid()
    protocol = name.decode("latin-1")
    if protocol != "Binary" or version < _UUID_SINCE:
        return protocol, NIL_UUID
    text = after.lstrip(b" ")[:36]
    if not after.startswith(b" ") or not _UUID.fullmatch(text):
        raise _invalid()
    return protocol, UUID(text.decode())


def _parse_salt(line: bytes) -> bytes:
    text = line.split(b" ", 1)[0].rstrip(b"\n")
    try:
        salt = base64.b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        raise _invalid() from None
    if not _SALT_MIN <= len(salt) < _HALF:
        raise _invalid()
    return salt


def _invalid() -> BoxError:
    return er(Er.PROTOCOL, "Invalid greeting")
