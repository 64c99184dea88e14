"""Pieces that the bodies of replication packets share: vclocks, UUIDs, names, and walking a map (xrow.c).

Vclocks are plain dicts here, id to LSN; `headwater.vclock` is a room below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.kernels import mp_next
from headwater.typing import VCLOCK_MAX
from headwater.wire.constants import MpType
from headwater.wire.mpread import KIND, read_bytes, read_length, read_uint
from headwater.wire.mpwrite import pack_map_head, pack_text, pack_uint

NIL_UUID = UUID(int=0)
NODE_NAME_LENGTH_MAX = 63
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NAME = re.compile(rb"[a-z][a-z0-9_-]*")
_LSN_MAX = (1 << 63) - 1


class Malformed(Exception):  # noqa: N818
    """A value in a body is not what its key asks for. Its decoder turns this into an error with a name."""


def invalid(details: str) -> BoxError:
    return er(Er.INVALID_MSGPACK, details)


def fields(body: bytes, at: int, *, strict: bool = False) -> Iterator[tuple[int, int, int, int]]:
    """(key, kind of the value, its offset, its end) for the pairs of the checked map at `at` whose keys are unsigned
    integers. Pairs with other keys are skipped, or Malformed if `strict`."""
    count, at = read_length(body, at)
    for _ in range(count):
        if KIND[body[at]] != MpType.UINT:
            if strict:
                raise Malformed
            at = mp_next(body, mp_next(body, at))
            continue
        key, at = read_uint(body, at)
        after = mp_next(body, at)
        yield key, KIND[body[at]], at, after
        at = after


def is_map(body: bytes) -> bool:
    return bool(body) and KIND[body[0]] == MpType.MAP


# ---- values ---------------------------------------------------------------------------------------


def pack_vclock(vclock: Mapping[int, int], *, ignore0: bool = True) -> bytes:
    """A map of the components above 0 by id. Peers get it without component 0 almost everywhere."""
    items = [(id_, lsn) for id_, lsn in sorted(vclock.items()) if lsn and not (ignore0 and id_ == 0)]
    return pack_map_head(len(items)) + b"".join(pack_uint(id_) + pack_uint(lsn) for id_, lsn in items)


def read_vclock(body: bytes, at: int, *, ignore0: bool = True) -> dict[int, int]:
    """mp_decode_vclock: ids below 32, LSNs that grow if an id comes twice; Malformed otherwise."""
    if KIND[body[at]] != MpType.MAP:
        raise Malformed
    count, at = read_length(body, at)
    vclock: dict[int, int] = {}
    for _ in range(count):
        if KIND[body[at]] != MpType.UINT:
            raise Malformed
        id_, at = read_uint(body, at)
        if KIND[body[at]] != MpType.UINT:
            raise Malformed
        lsn, at = read_uint(body, at)
        if id_ >= VCLOCK_MAX or lsn > _LSN_MAX or 0 < lsn <= vclock.get(id_, 0):
            raise Malformed
        if lsn:
            vclock[id_] = lsn
    if ignore0:
        vclock.pop(0, None)
    return vclock


def pack_uuid(uuid: UUID) -> bytes:
    return pack_text(str(uuid))


def read_uuid(body: bytes, at: int) -> UUID:
    if KIND[body[at]] != MpType.STR:
        raise Malformed
    text, _ = read_bytes(body, at)
    if not _UUID.fullmatch(text):
        raise Malformed
    return UUID(text.decode())


def read_name(body: bytes, at: int) -> str:
    """A node name: lower case letters, digits, dash and underscore, a letter first (node_name.c)."""
    if KIND[body[at]] != MpType.STR:
        raise Malformed
    text, _ = read_bytes(body, at)
    if len(text) > NODE_NAME_LENGTH_MAX or not _NAME.fullmatch(text):
        raise Malformed
    return text.decode()


def read_number(body: bytes, at: int) -> int:
    if KIND[body[at]] != MpType.UINT:
        raise Malformed
    return read_uint(body, at)[0]


def read_bool(body: bytes, at: int) -> bool:
    if KIND[body[at]] != MpType.BOOL:
        raise Malformed
    return body[at] == 0xC3
