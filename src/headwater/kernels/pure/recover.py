"""Memtx.apply: rows of a snapshot or an xlog, one transaction after another until one is not plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import MsgPackError
from headwater.kernels.pure.packets import Map, OddError, array, read_map, unsigned
from headwater.kernels.pure.rows import COMMIT
from headwater.kernels.pure.space import MemtxSpace
from headwater.kernels.pure.violations import DuplicateKey, FormatViolation, KeyViolation
from headwater.typing import VCLOCK_MAX

if TYPE_CHECKING:
    from headwater.kernels.pure.memtx import Memtx

_INSERT, _REPLACE, _DELETE = 2, 3, 5
_TYPE, _REPLICA_ID, _LSN, _TSN, _FLAGS = 0x00, 0x02, 0x03, 0x08, 0x09
_SPACE, _INDEX, _KEY, _TUPLE = 0x10, 0x11, 0x20, 0x21
_SYNC_FLAGS = 2 | 4
"""WAIT_SYNC and WAIT_ACK: the limbo has a say in such a transaction."""
_U63 = (1 << 63) - 1
_U64 = (1 << 64) - 1


class _Row(NamedTuple):
    kind: int
    replica_id: int
    lsn: int
    fields: Map
    last: bool
    offset: int
    end: int


def apply_rows(memtx: Memtx, data: bytes, offset: int, end: int, snapshot: bool) -> tuple[int, int]:
    """The contract is Memtx.apply's."""
    taken = 0
    end = min(end, len(data))
    undo, memtx.undo_enabled = memtx.undo_enabled, False
    try:
        while offset < end:
            for row in _transaction(data, offset, end):
                _apply_one(memtx, data, row, snapshot)
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


def _transaction(data: bytes, offset: int, end: int) -> list[_Row]:
    """All its rows; OddError if they are not all there and plain."""
    rows: list[_Row] = []
    while not rows or not rows[-1].last:
        rows.append(_read(data, offset, end))
        offset = rows[-1].end
    return rows


def _read(data: bytes, offset: int, end: int) -> _Row:
    head, body = read_map(data, offset, end)
    kind = unsigned(data, head, _TYPE)
    if kind not in (_INSERT, _REPLACE, _DELETE):
        raise OddError
    fields, after = read_map(data, body, end)
    replica_id = unsigned(data, head, _REPLICA_ID, 0, VCLOCK_MAX - 1)
    lsn = unsigned(data, head, _LSN, 0, _U63)
    flags = unsigned(data, head, _FLAGS, 0)
    unsigned(data, head, _TSN, 0, _U64)
    if flags & _SYNC_FLAGS:
        raise OddError
    return _Row(kind, replica_id, lsn, fields, _TSN not in head or bool(flags & COMMIT), offset, after)


def _apply_one(memtx: Memtx, data: bytes, row: _Row, snapshot: bool) -> None:
    if not snapshot and row.lsn <= memtx.lsn(row.replica_id):
        return
    space = memtx.space(unsigned(data, row.fields, _SPACE))
    if space is None or not space.fast or space.index(0) is None:
        raise OddError
    _change(space, row.kind, data, row.fields)
    if not snapshot:
        memtx.set_lsn(row.replica_id, row.lsn)


def _change(space: MemtxSpace, kind: int, data: bytes, fields: Map) -> None:
    if kind == _DELETE:
        index = space.index(unsigned(data, fields, _INDEX, 0))
        if index is None or not index.unique:
            raise OddError
        key = array(data, fields, _KEY)
        index.key_def.check_key(key, exact=True)
        space.delete(index.id, key)
    elif kind == _INSERT:
        space.insert(array(data, fields, _TUPLE))
    else:
        space.replace(array(data, fields, _TUPLE))
