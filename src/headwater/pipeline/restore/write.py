"""The snapshot file: fragments are made of states in tasks, the driver puts them behind one another.

Rows of a snapshot are numbered from 0 on (memtx_engine.cc, checkpoint_write_row), so a fragment can only be made once
it is known how many rows are before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from headwater.kernels.split import number
from headwater.pipeline.restore.staging import check_token
from headwater.vclock import VClock
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, SNAP, BlockEncoder, Meta, format_meta
from headwater.xlog.format import BLOCK_SIZE, FIXHEADER_SIZE

_BLOCK = BLOCK_SIZE - FIXHEADER_SIZE
_FLUSH = 4 << 20
_COPY = 64 << 20


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One state as blocks."""

    bucket: int
    path: str
    base: int
    """Number of its first row."""
    staging: str
    token: str


@dataclass(frozen=True, slots=True)
class Fragment:
    bucket: int
    path: str
    size: int
    rows: int


def write(task: WriteTask) -> Fragment:
    """The file of the state goes."""
    check_token(task.staging, task.token)
    with open(task.path, "rb") as file:
        data = file.read()
    encoder = BlockEncoder()
    path = os.path.join(task.staging, f"blocks-{task.bucket:06}-{uuid4().hex}")
    at = rows = size = 0
    with open(path, "wb", buffering=_FLUSH) as out:
        while at < len(data):
            block, at, count = number(data, at, task.base + rows, _BLOCK)
            rows += count
            size += out.write(encoder.encode_one(block))
    return Fragment(task.bucket, path, size, rows)


def encode_rows(rows: Iterable[Row], base: int) -> tuple[bytes, int]:
    """Blocks of rows that the driver has, and how many they are."""
    encoder = BlockEncoder()
    blocks: list[bytes] = []
    gathered = bytearray()
    count = 0
    for row in rows:
        row.lsn, row.tsn, row.flags = base + count, base + count, 1
        gathered += encode_row(row)
        count += 1
        if len(gathered) >= _BLOCK:
            blocks.append(encoder.encode_one(bytes(gathered)))
            gathered.clear()
    if gathered:
        blocks.append(encoder.encode_one(bytes(gathered)))
    return b"".join(blocks), count


def assemble(path: str, instance: UUID, vclock: VClock, head: bytes, fragments: Sequence[Fragment]) -> int:
    """The whole file, forced to the disk. Its size."""
    with open(path, "wb", buffering=0) as out:
        out.write(format_meta(Meta(SNAP, instance, vclock)))
        out.write(head)
        for fragment in fragments:
            _copy(fragment, out.fileno())
            os.unlink(fragment.path)
        out.write(MAGIC_EOF)
        os.fsync(out.fileno())
        return out.tell()


def _copy(fragment: Fragment, out: int) -> None:
    with open(fragment.path, "rb") as file:
        left = fragment.size
        while left:
            copied = os.sendfile(out, file.fileno(), None, min(left, _COPY))
            if not copied:
                raise OSError(f"{fragment.path} is shorter than it was")
            left -= copied
