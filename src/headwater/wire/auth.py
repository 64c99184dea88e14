"""Login by chap-sha1 (auth_chap_sha1.c, authentication.c).

The server keeps sha1(sha1(password)). A client proves that it knows sha1(password) by sending it under a mask that
only the same greeting's salt lifts. Passwords never travel.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from headwater.errors import Er, er
from headwater.wire.constants import MpType
from headwater.wire.mpread import KIND, read_bytes, read_length

METHOD = "chap-sha1"
SCRAMBLE_SIZE = 20
_STORED_SIZE = 28
"""Characters of base64 that 20 bytes take."""


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts)).digest()  # the protocol's choice, not ours


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def stored_password(password: str) -> str:
    """What `_user` keeps under 'chap-sha1' (password_prepare)."""
    return base64.b64encode(_sha1(_sha1(password.encode()))).decode()


def stored_hash(text: str) -> bytes:
    """The 20 bytes behind what `_user` keeps; BoxError INVALID_AUTH_DATA if it is something else."""
    try:
        hash2 = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        hash2 = b""
    if len(text) != _STORED_SIZE or len(hash2) != SCRAMBLE_SIZE:
        raise er(Er.INVALID_AUTH_DATA, METHOD, "invalid scramble size")
    return hash2


def scramble(password: str, salt: bytes) -> bytes:
    """What a client sends; `salt` is that of the greeting, of which 20 bytes count (scramble_prepare)."""
    hash1 = _sha1(password.encode())
    return _xor(hash1, _sha1(salt[:SCRAMBLE_SIZE], _sha1(hash1)))


def check(answer: bytes, salt: bytes, hash2: bytes) -> bool:
    """Does the answer come from someone who knows the password? In constant time (scramble_check)."""
    hash1 = _xor(answer, _sha1(salt[:SCRAMBLE_SIZE], hash2))
    return hmac.compare_digest(_sha1(hash1), hash2)


def parse(tuple_: bytes) -> bytes | None:
    """The scramble in the checked tuple of AUTH, None if the tuple is empty, which only guest may send. BoxError in
    the words of `authenticate` and auth_chap_sha1_request_check; they come before any look at the user, so that they
    tell nothing about who exists."""
    count, at = read_length(tuple_, 0)
    if count == 0:
        return None
    if count < 2 or KIND[tuple_[at]] != MpType.STR:
        raise er(Er.INVALID_MSGPACK, "authentication request body")
    method, at = read_bytes(tuple_, at)
    if method != METHOD.encode():
        raise er(Er.UNKNOWN_AUTH_METHOD, method.decode("utf-8", "replace"))
    if KIND[tuple_[at]] not in (MpType.STR, MpType.BIN):
        raise er(Er.INVALID_AUTH_REQUEST, METHOD, "scramble must be string")
    answer, _ = read_bytes(tuple_, at)
    if len(answer) != SCRAMBLE_SIZE:
        raise er(Er.INVALID_AUTH_REQUEST, METHOD, "invalid scramble size")
    return answer


def authenticate(tuple_: bytes, salt: bytes, hash2: bytes | None, *, is_guest: bool) -> None:
    """Judge the tuple of AUTH. `hash2` is None for a user who has no password or does not exist: the answer is the
    same and takes as long. BoxError CREDS_MISMATCH if it is wrong."""
    answer = parse(tuple_)
    if answer is None:
        if is_guest:
            return
        raise er(Er.INVALID_MSGPACK, "authentication request body")
    right = check(answer, salt, hash2 if hash2 is not None else bytes(SCRAMBLE_SIZE))
    if not right or hash2 is None:
        raise er(Er.CREDS_MISMATCH)
