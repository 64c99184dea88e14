"""Memtx.apply: rows of a snapshot or an xlog, applied one after another until one is not plain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import MsgPackError
from headwater.kernels.pure.packets import Map, OddError, array, read_map, unsigned
from headwater.kernels.pure.space import MemtxSpace
from headwater.kernels.pure.violations import DuplicateKey, FormatViolation, KeyViolation
from headwater.typing import VCLOCK_MAX

if TYPE_CHECKING:
    from headwater.kernels.pure.memtx import Memtx

_INSERT, _REPLACE, _DELETE = 2, 3, 5
_TYPE, _REPLICA_ID, _LSN = 0x00, 0x02, 0x03
_SPACE, _INDEX, _KEY, _TUPLE = 0x10, 0x11, 0x20, 0x21
_U63 = (1 << 63) - 1


def apply_rows(memtx: Memtx, data: bytes, offset: int, end: int, snapshot: bool) -> tuple[int, int]:
    """The contract is Memtx.apply's."""
    taken = 0
    end = min(end, len(data))
    undo, memtx.undo_enabled = memtx.undo_enabled, False
    try:
        while offset < end:
            offset = _apply_one(memtx, data, offset, end, snapshot)
            taken += 1
    except (OddError, MsgPackError, FormatViolation, DuplicateKey, KeyViolation):
        pass
    finally:
        memtx.undo_enabled = undo
    return offset, taken


def _apply_one(memtx: Memtx, data: bytes, offset: int, end: int, snapshot: bool) -> int:
    """Offset after the row."""
    head, offset = read_map(data, offset, end)
    kind = unsigned(data, head, _TYPE)
    if kind not in (_INSERT, _REPLACE, _DELETE):
        raise OddError
    fields, offset = read_map(data, offset, end)
    replica_id = unsigned(data, head, _REPLICA_ID, 0, VCLOCK_MAX - 1)
    lsn = unsigned(data, head, _LSN, 0, _U63)
    if not snapshot and lsn <= memtx.lsn(replica_id):
        return offset
    space = memtx.space(unsigned(data, fields, _SPACE))
    if space is None or not space.fast or space.index(0) is None:
        raise OddError
    _change(space, kind, data, fields)
    if not snapshot:
        memtx.set_lsn(replica_id, lsn)
    return offset


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
