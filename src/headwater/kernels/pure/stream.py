"""Memtx.apply_frames and Memtx.load_frames: what a master sends, straight into the store (applier.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import MsgPackError
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.heads import NOP, Head, read_head
from headwater.kernels.pure.packets import Map, OddError, array, read_map, unsigned
from headwater.kernels.pure.rows import COMMIT
from headwater.kernels.pure.violations import DuplicateKey, FormatViolation, KeyViolation

if TYPE_CHECKING:
    from headwater.kernels.pure.memtx import Memtx
    from headwater.kernels.pure.space import MemtxSpace

_INSERT, _REPLACE, _UPDATE, _DELETE, _UPSERT = 2, 3, 4, 5, 9
_DML = frozenset((_INSERT, _REPLACE, _UPDATE, _DELETE, _UPSERT, NOP))
"""What may be passed over when it was seen."""
_SPACE, _INDEX, _KEY, _TUPLE = 0x10, 0x11, 0x20, 0x21
_BODY_KEYS = {
    _INSERT: frozenset((_SPACE, _TUPLE)),
    _REPLACE: frozenset((_SPACE, _TUPLE)),
    _DELETE: frozenset((_SPACE, _INDEX, _KEY)),
}


class _Packet(NamedTuple):
    head: Head
    end: int


def apply_frames(memtx: Memtx, data: bytes, offset: int, end: int) -> tuple[int, int, float]:
    """The contract is Memtx.apply_frames's."""
    taken, timestamp = 0, 0.0
    end = min(end, len(data))
    undo, memtx.undo_enabled = memtx.undo_enabled, True
    try:
        while offset < end:
            packets = _transaction(data, offset, end)
            last = packets[-1].head
            if last.lsn > memtx.lsn(last.replica_id):
                _apply(memtx, data, packets)
            offset, timestamp = packets[-1].end, last.timestamp
            taken += len(packets)
    except OddError:
        pass
    finally:
        memtx.undo_enabled = undo
    return offset, taken, timestamp


def load_frames(memtx: Memtx, data: bytes, offset: int, end: int) -> tuple[int, int]:
    """The contract is Memtx.load_frames's."""
    taken = 0
    end = min(end, len(data))
    undo, memtx.undo_enabled = memtx.undo_enabled, False
    try:
        while offset < end:
            packet = _packet(data, offset, end)
            if packet.head.type != _INSERT:
                raise OddError
            space, fields = _space(memtx, data, packet)
            if space.unconfirmed:
                raise OddError
            space.insert(array(data, fields, _TUPLE))
            offset = packet.end
            taken += 1
    except (OddError, MsgPackError, FormatViolation, DuplicateKey):
        pass
    finally:
        memtx.undo_enabled = undo
    return offset, taken


def _transaction(data: bytes, offset: int, end: int) -> list[_Packet]:
    """The packets of one whole transaction; OddError if it is not there, or not in order (applier.cc,
    set_next_tx_row)."""
    out: list[_Packet] = []
    lsn = 0
    while True:
        packet = _packet(data, offset, end)
        head = packet.head
        first = out[0].head if out else head
        if (
            head.type not in _DML
            or head.replica_id == 0
            or head.replica_id != first.replica_id
            or head.lsn <= lsn
            or head.tsn != first.lsn
            or head.is_part != first.is_part
        ):
            raise OddError
        out.append(packet)
        if head.is_last:
            return out
        offset, lsn = packet.end, head.lsn


def _packet(data: bytes, offset: int, end: int) -> _Packet:
    try:
        after = mp.frame_end(data, offset, end)
        if not after:
            raise OddError
        head = read_head(data, offset + mp.SIZE_OF[data[offset]], after)
    except MsgPackError:
        raise OddError from None
    if head.odd or head.group_id:
        raise OddError
    return _Packet(head, after)


def _apply(memtx: Memtx, data: bytes, packets: list[_Packet]) -> None:
    """All rows that are new, and on their way to our journal as their origin numbered them; or OddError and none of
    them. The TSN is the LSN of the first row that is new, so that our own followers take the rest for a whole."""
    mark = memtx.mark()
    new = [packet for packet in packets if packet.head.lsn > memtx.lsn(packet.head.replica_id)]
    try:
        for packet in new:
            _change(memtx, data, packet)
            memtx.add_foreign(packet.head._replace(tsn=new[0].head.lsn), data[packet.head.body : packet.end])
    except (OddError, MsgPackError, FormatViolation, KeyViolation, DuplicateKey):
        memtx.back(mark)
        raise OddError from None


def _change(memtx: Memtx, data: bytes, packet: _Packet) -> None:
    """One row into its space."""
    head = packet.head
    if head.flags & ~COMMIT:
        raise OddError
    if head.type == NOP:
        if head.body != packet.end:
            raise OddError
    else:
        space, fields = _space(memtx, data, packet)
        if space.local or space.temporary:
            raise OddError
        if head.type == _DELETE:
            _delete(space, data, fields)
        elif head.type == _INSERT:
            space.insert(array(data, fields, _TUPLE))
        else:
            space.replace(array(data, fields, _TUPLE))


def _space(memtx: Memtx, data: bytes, packet: _Packet) -> tuple[MemtxSpace, Map]:
    kind = packet.head.type
    if kind not in _BODY_KEYS:
        raise OddError
    fields, after = read_map(data, packet.head.body, packet.end)
    if after != packet.end or not fields.keys() <= _BODY_KEYS[kind]:
        raise OddError
    array(data, fields, _KEY if kind == _DELETE else _TUPLE)
    space = memtx.space(unsigned(data, fields, _SPACE))
    if space is None or not space.fast or space.index(0) is None:
        raise OddError
    return space, fields


def _delete(space: MemtxSpace, data: bytes, fields: Map) -> None:
    index = space.index(unsigned(data, fields, _INDEX, 0))
    if index is None or not index.unique:
        raise OddError
    key = array(data, fields, _KEY)
    index.key_def.check_key(key, exact=True)
    space.delete(index.id, key)
