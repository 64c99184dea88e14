"""What a peer's stream and the rows of a file meet in the kernels."""

from __future__ import annotations

import struct

from tests.xlog.build import packed, row, transaction

from headwater.kernels import Frames, KeyDef, KeyPart, Memtx, MemtxSpace, frame_rows, renumber_frames
from headwater.typing import FieldType, IteratorType
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_packet, encode_row

SPACE = 512
IDS = [*range(32)]
IDS[0], IDS[1], IDS[2] = -1, 2, 1


def node() -> tuple[Memtx, MemtxSpace]:
    """A store with one space of two indexes."""
    memtx = Memtx()
    memtx.replica_id = 3
    space = memtx.add_space(SPACE)
    number, anything = KeyPart(0, FieldType.UNSIGNED), KeyPart(1, FieldType.SCALAR, nullable=True)
    space.add_index(0, KeyDef([number]), unique=True)
    space.add_index(1, KeyDef([anything], [number]), unique=False)
    space.fast = True
    return memtx, space


def follow(data: bytes) -> object:
    """Apply what fits; what was applied can be journaled, sent on, and taken back without a trace."""
    memtx, space = node()
    offset, rows, _ = memtx.apply_frames(data, 0, len(data))
    assert 0 <= offset <= len(data)
    assert (offset > 0) == (rows > 0)
    vclock = memtx.vclock
    written, ends, count = memtx.take_rows()
    assert ends[-1:] == [len(written)] * bool(ends)
    assert count <= rows
    frames = frame_rows(written)
    assert len(frames) == count
    assert dict(frames.last) == {number: lsn for number, lsn in enumerate(vclock) if lsn}
    other, copy = node()
    assert other.apply_frames(frames.data, 0, len(frames.data))[:2] == (len(frames.data), count)
    assert contents(copy) == contents(space)
    memtx.rollback_to(0)
    assert contents(space) == []
    return rows


def contents(space: MemtxSpace) -> list[bytes]:
    index = space.index(1)
    assert index is not None
    return index.select(IteratorType.ALL, b"\x90")


def load(data: bytes) -> object:
    memtx, space = node()
    offset, rows = memtx.load_frames(data, 0, len(data))
    assert 0 <= offset <= len(data)
    assert len(space) == rows
    return rows


def frame(data: bytes) -> object:
    """Rows of a file, as several peers get them."""
    frames = frame_rows(data)
    for skip, own, limit, sync in ((0, 0, 0, 0), (2, 0, 0, 0), (0, 1, 3, 0), (0, 0, 0, 1 << 40)):
        have = [0] * 32
        out, count = frames.pick(have, skip, own, limit, sync)
        assert len(framed_again(out)) == count <= len(frames)
        assert frames.pick(have, skip, own, limit, sync) == (b"", 0)
    return len(frames)


def framed_again(data: bytes) -> Frames:
    """The rows inside packets."""
    out, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at + 1)
        out.append(data[at + 5 : at + 5 + size])
        at += 5 + size
    assert at == len(data)
    return frame_rows(b"".join(out))


def renumber(data: bytes) -> object:
    out, offset = renumber_frames(data, 0, len(data), IDS)
    assert len(out) == offset <= len(data)
    assert renumber_frames(out, 0, offset, IDS) == (data[:offset], offset)
    return offset


def rows_of_a_file() -> list[bytes]:
    local = Row(Type.REPLACE, 0, 1, 9, 1.5, 3, 1, row(9).body)
    return [
        packed(transaction(1, 3, "é"))[0],
        b"".join(encode_row(one) for one in (row(5), Row(Type.NOP, 2, lsn=7, tsn=7, flags=1), row(6))),
        b"".join(encode_row(one) for one in transaction(3, 2)) + encode_row(local),
    ]


def packets() -> list[bytes]:
    heartbeat = Row(Type.OK, 1, body=pack({Key.VCLOCK_SYNC: 1}))
    return [
        b"".join(encode_packet(one) for one in (row(5), *transaction(6, 3, "é"), row(9, "z"), heartbeat)),
        b"".join(encode_packet(one) for one in (row(1), Row(Type.DELETE, 1, lsn=2, tsn=2, flags=1, body=DELETED))),
    ]


DELETED = pack({Key.SPACE_ID: SPACE, Key.KEY: [1]})


def snapshot() -> list[bytes]:
    bodies = [pack({Key.SPACE_ID: SPACE, Key.TUPLE: [number, "x" * number]}) for number in (1, 2, 300)]
    return [b"".join(encode_packet(Row(Type.INSERT, timestamp=1.5, sync=5, body=body)) for body in bodies)]
