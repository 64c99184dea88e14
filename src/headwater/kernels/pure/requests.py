"""Memtx.run: plain autocommit requests, served one after another until one is not plain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.index import MemtxIndex
from headwater.kernels.pure.packets import Map, OddError, array, read_map, unsigned
from headwater.kernels.pure.space import READ, WRITE, MemtxSpace
from headwater.kernels.pure.violations import DuplicateKey, FormatViolation, KeyViolation
from headwater.typing import IteratorType

if TYPE_CHECKING:
    from headwater.kernels.pure.memtx import Memtx

_SELECT, _INSERT, _REPLACE, _DELETE, _PING = 1, 2, 3, 5, 0x40
_TYPE, _SYNC, _SCHEMA_VERSION, _STREAM = 0x00, 0x01, 0x05, 0x0A
_SPACE, _INDEX, _LIMIT, _OFFSET, _ITERATOR, _FETCH, _KEY, _TUPLE = 0x10, 0x11, 0x12, 0x13, 0x14, 0x1F, 0x20, 0x21

_HEADER_KEYS = frozenset((_TYPE, _SYNC, _SCHEMA_VERSION, _STREAM))
_BODY_KEYS = {
    _SELECT: frozenset((_SPACE, _INDEX, _LIMIT, _OFFSET, _ITERATOR, _FETCH, _KEY)),
    _INSERT: frozenset((_SPACE, _TUPLE)),
    _REPLACE: frozenset((_SPACE, _TUPLE)),
    _DELETE: frozenset((_SPACE, _INDEX, _KEY)),
    _PING: frozenset[int](),
}
_TREE_ITERATORS = frozenset(range(IteratorType.GT + 1)) | {IteratorType.NP, IteratorType.PP}
_U64 = (1 << 64) - 1
_REPLIES_MAX = 1 << 24
"""Enough for one call: the session must get a chance to send."""


def serve(
    memtx: Memtx, data: bytes, offset: int, end: int, token: int, read_only: bool
) -> tuple[int, bytes, int, bool]:
    """The contract is Memtx.run's."""
    replies = bytearray()
    served = 0
    dirty = False
    end = min(end, len(data))
    while True:
        try:
            after = mp.frame_end(data, offset, end)
            if not after:
                break
            kind, body, depends = _serve_one(memtx, data, mp.mp_next(data, offset), after, token, read_only)
        except (OddError, MsgPackError, FormatViolation, DuplicateKey, KeyViolation):
            break
        memtx.count_served(kind)
        offset = after
        served += 1
        dirty |= depends
        replies += body
        if len(replies) >= _REPLIES_MAX:
            break
    return offset, bytes(replies), served, dirty


def _serve_one(
    memtx: Memtx, data: bytes, offset: int, end: int, token: int, read_only: bool
) -> tuple[int, bytes, bool]:
    """(type, reply, does it depend on something not yet written) of the packet data[offset:end]."""
    head, offset = read_map(data, offset, end)
    if not head.keys() <= _HEADER_KEYS:
        raise OddError
    version = unsigned(data, head, _SCHEMA_VERSION, 0, _U64)
    if version not in (0, memtx.schema_version) or unsigned(data, head, _STREAM, 0, _U64):
        raise OddError
    kind = unsigned(data, head, _TYPE)
    sync = unsigned(data, head, _SYNC, 0, _U64)
    fields: Map = {}
    if offset < end:
        fields, offset = read_map(data, offset, end)
    allowed = _BODY_KEYS.get(kind)
    if offset != end or allowed is None or not fields.keys() <= allowed:
        raise OddError
    if kind == _PING:
        return kind, _preamble(memtx, sync, 1) + b"\x80", False
    space = _space(memtx, data, fields, token, READ if kind == _SELECT else WRITE)
    if kind != _SELECT and read_only and not space.local and not space.temporary:
        raise OddError
    tuples = _select(space, data, fields) if kind == _SELECT else _write(memtx, space, kind, data, fields)
    dirty = space.unconfirmed > 0 or memtx.has_pending_calls or kind != _SELECT
    body = b"".join((b"\x81\x30\xdd", len(tuples).to_bytes(4, "big"), *tuples))
    return kind, _preamble(memtx, sync, len(body)) + body, dirty


def _preamble(memtx: Memtx, sync: int, body_size: int) -> bytes:
    """struct iproto_header_bin of xrow.c, type OK."""
    return b"".join(
        (
            b"\xce", (27 + body_size).to_bytes(4, "big"),
            b"\x83\x00\xce\x00\x00\x00\x00",
            b"\x01\xcf", sync.to_bytes(8, "big"),
            b"\x05\xcf", memtx.schema_version.to_bytes(8, "big"),
        )
    )  # fmt: skip


def _space(memtx: Memtx, data: bytes, fields: Map, token: int, bit: int) -> MemtxSpace:
    space = memtx.space(unsigned(data, fields, _SPACE))
    if space is None or not space.fast or space.index(0) is None or not space.allows(token, bit):
        raise OddError
    return space


def _index(space: MemtxSpace, data: bytes, fields: Map) -> MemtxIndex:
    index = space.index(unsigned(data, fields, _INDEX, 0))
    if index is None:
        raise OddError
    return index


def _select(space: MemtxSpace, data: bytes, fields: Map) -> list[bytes]:
    index = _index(space, data, fields)
    if _FETCH in fields and data[fields[_FETCH][1]] != 0xC2:
        raise OddError
    iterator = unsigned(data, fields, _ITERATOR, IteratorType.EQ)
    offset = unsigned(data, fields, _OFFSET, 0)
    limit = unsigned(data, fields, _LIMIT)
    key = array(data, fields, _KEY)
    _check_iterator(index, iterator, key)
    return index.select(iterator, key, offset, limit)


def _check_iterator(index: MemtxIndex, iterator: int, key: bytes) -> None:
    """index.cc, iterator_validate; what it refuses is for the ordinary path to word."""
    if iterator not in _TREE_ITERATORS:
        raise OddError
    index.key_def.check_key(key, exact=False)
    count, _ = mp.container(key, 0)
    parts = index.key_def.parts
    if iterator >= IteratorType.NP and count and parts[count - 1].sort_key is not None:
        raise OddError
    walks_all = iterator == IteratorType.ALL and not count
    if index.hash and not walks_all and (iterator != IteratorType.EQ or count != len(parts)):
        raise OddError


def _write(memtx: Memtx, space: MemtxSpace, kind: int, data: bytes, fields: Map) -> list[bytes]:
    """Change the space and prepare the row; the reply is the new tuple, or the one deleted."""
    group = 1 if space.local else 0
    if kind == _DELETE:
        key = array(data, fields, _KEY)
        index = _index(space, data, fields)
        if not index.unique:
            raise OddError
        index.key_def.check_key(key, exact=True)
        old = space.delete(index.id, key)
        body = _delete_body(space, index, key, old)
        tuples = [] if old is None else [old]
    else:
        new = array(data, fields, _TUPLE)
        if kind == _INSERT:
            space.insert(new)
        else:
            space.replace(new)
        body = b"\x82\x10" + mp.uint(space.id) + b"\x21" + new
        tuples = [new]
    if not space.temporary:
        memtx.add_row(kind, group, body)
    return tuples


def _delete_body(space: MemtxSpace, index: MemtxIndex, key: bytes, old: bytes | None) -> bytes:
    """As requested; but a tuple found by a secondary index is journaled with its primary key (space.c,
    space_execute_dml)."""
    number = mp.uint(space.id)
    primary = space.index(0)
    if index.id and old is not None and primary is not None:
        return b"\x82\x10" + number + b"\x20" + primary.key_def.extract(old)
    which = b"\x83\x10" + number + b"\x11" + mp.uint(index.id) if index.id else b"\x82\x10" + number
    return which + b"\x20" + key
