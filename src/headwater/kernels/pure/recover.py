"""Memtx.apply: rows of a snapshot or an xlog, applied one after another until one is not plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.packets import Map, OddError, array, read_map, unsigned
from headwater.kernels.pure.rows import COMMIT
from headwater.kernels.pure.space import MemtxSpace
from headwater.kernels.pure.violations import DuplicateKey, FormatViolation, KeyViolation
from headwater.typing import VCLOCK_MAX

if TYPE_CHECKING:
    from headwater.kernels.pure.memtx import Memtx

_INSERT, _REPLACE, _DELETE = 2, 3, 5
_TYPE, _REPLICA_ID, _LSN, _TIMESTAMP, _GROUP_ID, _TSN, _FLAGS = 0x00, 0x02, 0x03, 0x04, 0x07, 0x08, 0x09
_SPACE, _INDEX, _KEY, _TUPLE = 0x10, 0x11, 0x20, 0x21
_HEADER_KEYS = frozenset((_TYPE, _REPLICA_ID, _LSN, _TIMESTAMP, _GROUP_ID, _TSN, _FLAGS))
_BODY_KEYS = {
    _INSERT: frozenset((_SPACE, _TUPLE)),
    _REPLACE: frozenset((_SPACE, _TUPLE)),
    _DELETE: frozenset((_SPACE, _INDEX, _KEY)),
}
_SYNC_FLAGS = 2 | 4
"""WAIT_SYNC and WAIT_ACK: the limbo has a say in such a transaction."""
_U63 = (1 << 63) - 1
_U64 = (1 << 64) - 1


class _Row(NamedTuple):
    kind: int
    replica_id: int
    lsn: int
    flags: int
    fields: Map
    is_part: bool
    """One of several rows of a transaction."""
    end: int


def apply_rows(memtx: Memtx, data: bytes, offset: int, end: int, snapshot: bool) -> tuple[int, int]:
    """The contract is Memtx.apply's."""
    taken = 0
    inside = False
    end = min(end, len(data))
    undo, memtx.undo_enabled = memtx.undo_enabled, False
    try:
        while offset < end:
            row = _read(data, offset, end)
            if snapshot or not row.lsn or row.lsn > memtx.lsn(row.replica_id):
                if row.is_part and not inside:
                    _check_transaction(memtx, data, offset, end)
                _apply(memtx, data, row, snapshot)
                inside = row.is_part and not row.flags & COMMIT
            offset = row.end
            taken += 1
    except (OddError, MsgPackError, FormatViolation, KeyViolation):
        pass
    except DuplicateKey as error:
        error.offset = offset
        error.rows = taken
        raise
    finally:
        memtx.undo_enabled = undo
    return offset, taken


def _check_transaction(memtx: Memtx, data: bytes, offset: int, end: int) -> None:
    """OddError if not all rows of the transaction at `offset` are there and plain."""
    while True:
        row = _read(data, offset, end)
        _space(memtx, data, row)
        if not row.is_part:
            raise OddError
        if row.flags & COMMIT:
            return
        offset = row.end


def _read(data: bytes, offset: int, end: int) -> _Row:
    head, body = read_map(data, offset, end)
    kind = unsigned(data, head, _TYPE)
    if (
        kind not in _BODY_KEYS
        or not head.keys() <= _HEADER_KEYS
        or (_TIMESTAMP in head and head[_TIMESTAMP][0] != mp.DOUBLE)
    ):
        raise OddError
    fields, after = read_map(data, body, end)
    if not fields.keys() <= _BODY_KEYS[kind]:
        raise OddError
    unsigned(data, fields, _SPACE)
    array(data, fields, _KEY if kind == _DELETE else _TUPLE)
    replica_id = unsigned(data, head, _REPLICA_ID, 0, VCLOCK_MAX - 1)
    lsn = unsigned(data, head, _LSN, 0, _U63)
    flags = unsigned(data, head, _FLAGS, 0, _U64)
    unsigned(data, head, _TSN, 0, _U64)
    return _Row(kind, replica_id, lsn, flags, fields, _TSN in head, after)


def _space(memtx: Memtx, data: bytes, row: _Row) -> MemtxSpace:
    space = memtx.space(unsigned(data, row.fields, _SPACE))
    if space is None or not space.fast or space.index(0) is None or row.flags & _SYNC_FLAGS or space.unconfirmed:
        raise OddError
    return space


def _apply(memtx: Memtx, data: bytes, row: _Row, snapshot: bool) -> None:
    space = _space(memtx, data, row)
    if row.kind == _DELETE:
        _delete(space, data, row.fields)
    elif row.kind == _INSERT:
        space.insert(array(data, row.fields, _TUPLE))
    else:
        space.replace(array(data, row.fields, _TUPLE))
    if not snapshot and row.lsn:
        memtx.set_lsn(row.replica_id, row.lsn)


def _delete(space: MemtxSpace, data: bytes, fields: Map) -> None:
    index = space.index(unsigned(data, fields, _INDEX, 0))
    if index is None or not index.unique:
        raise OddError
    key = array(data, fields, _KEY)
    index.key_def.check_key(key, exact=True)
    space.delete(index.id, key)
