"""Rows: the unit of the log, of snapshots and of every packet on the wire (xrow.c, xrow_decode and xrow_header_encode).

A row is a header map and, mostly, a body map. Files hold rows one after another; on the wire each has a length before
it and a `sync`. The body stays bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import BoxError, Er, MsgPackError, er
from headwater.kernels import mp_next
from headwater.wire.constants import KEY_MAX, KEY_TYPE, UNSPECIFIED_THREAD, Flag, Key, MpType, Type
from headwater.wire.mpread import KIND, read_double, read_length, read_uint
from headwater.wire.mpwrite import pack_double, pack_map_head, pack_uint

_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1
_COMMIT = int(Flag.COMMIT)
# Plain integers: a member of an enum costs more to look up than all that is done with it here.
_MAP, _UINT = int(MpType.MAP), int(MpType.UINT)
_LSN, _TIMESTAMP, _TSN = int(Key.LSN), int(Key.TIMESTAMP), int(Key.TSN)
_NUMBERS: dict[int, tuple[str, int]] = {
    Key.REQUEST_TYPE: ("type", _U32),
    Key.SYNC: ("sync", _U64),
    Key.REPLICA_ID: ("replica_id", _U32),
    Key.GROUP_ID: ("group_id", _U32),
    Key.SCHEMA_VERSION: ("schema_version", _U64),
    Key.FLAGS: ("flags", 0xFF),
    Key.STREAM_ID: ("stream_id", _U64),
    Key.THREAD_ID: ("thread_id", _U32),
}
"""Numbers of a header, and how wide their fields in struct xrow_header are."""
_LENGTH = struct.Struct(">BI")


@dataclass(slots=True)
class Row:
    """One row (xrow.h, struct xrow_header)."""

    type: int
    replica_id: int = 0
    """Who wrote it first: component of the vclock that `lsn` belongs to. 0 for local rows and in snapshots."""
    group_id: int = 0
    """Group.LOCAL for rows that must not be replicated."""
    lsn: int = 0
    """Its number among the rows of `replica_id`; 0 for rows that are not in a log (heartbeats, raft messages).
    Signed, as in Tarantool: a peer's 2^63 or more reads negative and is refused by whoever follows a vclock."""
    timestamp: float = 0.0
    tsn: int = 0
    """LSN of the first global row of its transaction; equal to `lsn` for a transaction of one row."""
    flags: int = 0
    """Bits of Flag. COMMIT is set for a transaction of one row too, though it is not written then."""
    body: bytes = b""
    """The body map, or nothing."""
    sync: int = 0
    """Number of the request on its connection. Never written to a file."""
    stream_id: int = 0
    schema_version: int = 0
    thread_id: int = UNSPECIFIED_THREAD

    @property
    def is_commit(self) -> bool:
        """Is it the last row of its transaction?"""
        return bool(self.flags & 1)

    @property
    def is_error(self) -> bool:
        return bool(self.type & 0x8000)

    @property
    def is_local(self) -> bool:
        return self.group_id == 1


# ---- reading --------------------------------------------------------------------------------------


def decode_row(data: bytes, offset: int = 0, end: int | None = None, *, exact: bool = False) -> tuple[Row, int]:
    """The row at `offset` and the offset after it. `exact`: the row must end at `end`, as a packet does; otherwise
    rows may follow, as in a file. BoxError INVALID_MSGPACK in 3.x's words."""
    row = Row(0)
    return row, decode_into(row, data, offset, len(data) if end is None else end, exact=exact)


def decode_into(row: Row, data: bytes, offset: int, end: int, *, exact: bool) -> int:
    """As decode_row, but into `row`, as far as the bytes are good: the sync of a broken packet is still known."""
    if end != len(data):
        return offset + _decode(row, data[offset:end], 0, exact)
    return _decode(row, data, offset, exact)


def _decode(row: Row, data: bytes, offset: int, exact: bool) -> int:
    body = _decode_header(row, data, offset)
    if body == len(data):
        return body
    if row.type == Type.NOP:
        if exact:
            raise er(Er.INVALID_MSGPACK, "junk after packet body")
        return body
    try:
        after = mp_next(data, body)
        if exact and after != len(data):
            raise MsgPackError("junk after input")
    except MsgPackError as error:
        raise er(Er.INVALID_MSGPACK, "packet body", cause=_cause(str(error))) from None
    row.body = data[body:after]
    return after


def _decode_header(row: Row, data: bytes, at: int) -> int:
    """Read the header map; known keys must have their type, unknown ones are skipped."""
    try:
        end = mp_next(data, at)
    except MsgPackError:
        raise _bad_header() from None
    if KIND[data[at]] != _MAP:
        raise _bad_header()
    count, at = read_length(data, at)
    lsn = tsn = 0
    has_tsn = False
    for _ in range(count):
        if KIND[data[at]] != _UINT:
            raise _bad_header()
        key, at = read_uint(data, at)
        if key < KEY_MAX and KIND[data[at]] != KEY_TYPE[key]:
            raise _bad_header()
        if key == _TIMESTAMP:
            row.timestamp, at = read_double(data, at)
        elif key in _NUMBERS:
            value, at = read_uint(data, at)
            name, mask = _NUMBERS[key]
            setattr(row, name, value & mask)
        elif key == _LSN:
            lsn, at = read_uint(data, at)
        elif key == _TSN:
            tsn, at = read_uint(data, at)
            has_tsn = True
        else:
            at = mp_next(data, at)
    row.lsn = _signed(lsn)
    row.tsn = _signed(lsn - tsn)
    if not has_tsn:
        row.flags |= _COMMIT
    return end


def _signed(value: int) -> int:
    """The 64 bits of a number as int64."""
    value &= _U64
    return value - (1 << 64) if value >> 63 else value


def _cause(words: str) -> BoxError:
    """Why bytes are no MessagePack, without the offsets that our kernels add (msgpack.c, msgpack_check_on_error)."""
    for known in ("truncated input", "illegal code", "junk after input"):
        if words.startswith(known):
            return er(Er.INVALID_MSGPACK, known)
    if words.startswith("cannot unpack"):
        inner = er(Er.INVALID_MSGPACK, words.partition(" in the value")[0])
        return er(Er.INVALID_MSGPACK, "invalid extension", cause=inner)
    return er(Er.INVALID_MSGPACK, words)


def _bad_header() -> BoxError:
    return er(Er.INVALID_MSGPACK, "packet header")


# ---- writing --------------------------------------------------------------------------------------


def encode_header(row: Row, sync: int = 0) -> bytes:
    """The header map. The order of keys and what is left out are part of the format (xrow_header_encode)."""
    out = [b"\x00" + pack_uint(row.type)]
    if sync:
        out.append(b"\x01" + pack_uint(sync))
    if row.replica_id:
        out.append(b"\x02" + pack_uint(row.replica_id))
    if row.group_id:
        out.append(b"\x07" + pack_uint(row.group_id))
    if row.lsn:
        out.append(b"\x03" + pack_uint(row.lsn & _U64))
    if row.timestamp:
        out.append(b"\x04" + pack_double(row.timestamp))
    flags = row.flags & ~_COMMIT & 0xFF
    if row.tsn:
        # A transaction of one row has neither TSN nor COMMIT; in a longer one every row has its distance to the first.
        if row.tsn != row.lsn or not row.is_commit:
            out.append(b"\x08" + pack_uint((row.lsn - row.tsn) & _U64))
        if row.is_commit and row.tsn != row.lsn:
            flags |= _COMMIT
    if row.stream_id:
        out.append(b"\x0a" + pack_uint(row.stream_id))
    if flags:
        out.append(b"\x09" + pack_uint(flags))
    return pack_map_head(len(out)) + b"".join(out)


def encode_row(row: Row) -> bytes:
    """Header and body as they stand in a file: no length, no sync."""
    return encode_header(row) + row.body


def encode_packet(row: Row) -> bytes:
    """Length, header with `row.sync`, body: the row on the wire (xrow_to_iovec)."""
    header = encode_header(row, row.sync)
    return _LENGTH.pack(0xCE, len(header) + len(row.body)) + header + row.body
