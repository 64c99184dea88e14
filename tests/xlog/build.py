"""Files made for tests: rows, transactions, whole logs and snapshots as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headwater.vclock import VClock
from headwater.wire.constants import Flag, Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, XLOG, BlockEncoder, Meta, format_meta

INSTANCE = UUID("11111111-2222-4333-8444-555555555555")


def row(lsn: int, value: object = None, *, replica_id: int = 1, space_id: int = 512, timestamp: float = 1.5) -> Row:
    """INSERT of [lsn, value], a transaction of its own."""
    body = pack({Key.SPACE_ID: space_id, Key.TUPLE: [lsn] if value is None else [lsn, value]})
    return Row(Type.INSERT, replica_id, 0, lsn, timestamp, lsn, Flag.COMMIT, body)


def transaction(first_lsn: int, count: int, value: object = None) -> list[Row]:
    """Rows that belong together."""
    made = [row(lsn, value) for lsn in range(first_lsn, first_lsn + count)]
    for one in made:
        one.tsn, one.flags = first_lsn, 0
    made[-1].flags = int(Flag.COMMIT)
    return made


def packed(rows: Sequence[Row]) -> tuple[bytes, list[int]]:
    """Rows as they stand in a block, and where their transactions end."""
    data = b""
    ends = []
    for one in rows:
        data += encode_row(one)
        if one.is_commit:
            ends.append(len(data))
    return data, ends


def log(
    batches: Sequence[Sequence[Row]],
    *,
    meta: Meta | None = None,
    eof: bool = True,
    compress: bool = True,
) -> bytes:
    """A file with one write for each batch."""
    encoder = BlockEncoder(compress=compress)
    head = format_meta(meta or Meta(XLOG, INSTANCE, VClock()))
    return head + b"".join(encoder.encode(*packed(batch)) for batch in batches) + (MAGIC_EOF if eof else b"")
