"""Data directories made for tests, byte by byte: the blocks, heads and faults that a test is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import zstandard

from headwater.kernels import crc32c
from headwater.store.bootstrap import bootstrap_rows
from headwater.store.bootstrap_tables import V3_8_0
from headwater.vclock import VClock
from headwater.wire.constants import Flag, Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, SNAP, XLOG, Meta, format_meta
from headwater.xlog.blocks import fixheader
from headwater.xlog.format import MAGIC_PLAIN, MAGIC_ZSTD

INSTANCE = UUID("11111111-2222-4333-8444-555555555555")
OTHER = UUID("99999999-2222-4333-8444-555555555555")
SPACE, INDEX = 280, 288
ID = 512


def change(
    kind: Type, lsn: int, body: Mapping[int, Any], *, space: int = ID, replica_id: int = 1, ts: float | None = None
) -> Row:
    """A transaction of one row."""
    packed = pack({Key.SPACE_ID: space, **body})
    return Row(kind, replica_id, 0, lsn, 1000.0 + lsn if ts is None else ts, lsn, Flag.COMMIT, packed)


def replace(lsn: int, fields: Sequence[Any], *, space: int = ID, replica_id: int = 1, ts: float | None = None) -> Row:
    return change(Type.REPLACE, lsn, {Key.TUPLE: fields}, space=space, replica_id=replica_id, ts=ts)


def insert(lsn: int, fields: Sequence[Any], *, space: int = ID, replica_id: int = 1) -> Row:
    return change(Type.INSERT, lsn, {Key.TUPLE: fields}, space=space, replica_id=replica_id)


def delete(lsn: int, key: Sequence[Any], *, space: int = ID) -> Row:
    return change(Type.DELETE, lsn, {Key.KEY: key}, space=space)


def update(lsn: int, key: Sequence[Any], ops: Sequence[Any], *, space: int = ID, base: int = 1) -> Row:
    return change(Type.UPDATE, lsn, {Key.INDEX_BASE: base, Key.KEY: key, Key.TUPLE: ops}, space=space)


def together(rows: Sequence[Row]) -> list[Row]:
    """As one transaction."""
    for row in rows:
        row.tsn, row.flags = rows[0].lsn, 0
    rows[-1].flags = int(Flag.COMMIT)
    return list(rows)


def fields(*given: str | tuple[str, str]) -> list[dict[str, Any]]:
    """A format: `"id unsigned"`; with `?` behind the type it may be nil."""
    made = []
    for text in given:
        name, type_ = text.split() if isinstance(text, str) else text
        made.append({"name": name, "type": type_.rstrip("?"), "is_nullable": type_.endswith("?")})
    return made


def space_row(lsn: int, name: str, format_: Sequence[Mapping[str, Any]] = (), *, id_: int = ID) -> Row:
    return insert(lsn, [id_, 1, name, "memtx", 0, {}, list(format_)], space=SPACE)


def index_row(lsn: int, parts: Sequence[tuple[int, str]] = ((0, "unsigned"),), *, id_: int = ID) -> Row:
    return insert(lsn, [id_, 0, "pk", "tree", {"unique": True}, [list(part) for part in parts]], space=INDEX)


# ---- blocks --------------------------------------------------------------------------------------


def block(rows: Iterable[Row] | bytes, *, compress: bool = False) -> bytes:
    """One block, whatever transactions end in it."""
    data = rows if isinstance(rows, bytes) else b"".join(map(encode_row, rows))
    if compress:
        data = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    return fixheader(MAGIC_ZSTD if compress else MAGIC_PLAIN, len(data), crc32c(data)) + data


def head(filetype: str, vclock: Mapping[int, int], previous: Mapping[int, int] | None, instance: UUID) -> bytes:
    prev = None if previous is None else VClock(previous)
    return format_meta(Meta(filetype, instance, VClock(vclock), prev))


def log(
    directory: Path,
    vclock: Mapping[int, int],
    blocks: Iterable[bytes],
    *,
    previous: Mapping[int, int] | None = None,
    eof: bool = True,
    instance: UUID = INSTANCE,
) -> Path:
    """`<signature>.xlog`."""
    return _file(directory, XLOG, vclock, blocks, previous, eof, instance)


def snapshot(
    directory: Path,
    vclock: Mapping[int, int],
    rows: Sequence[tuple[int, Sequence[Any]]] = (),
    *,
    eof: bool = True,
    instance: UUID = INSTANCE,
) -> Path:
    """The system spaces of a new instance, and (space, tuple) besides."""
    tuples = [(int(space), packed) for space, packed in bootstrap_rows(V3_8_0)]
    tuples += [(space, pack(list(values))) for space, values in rows]
    made = []
    for number, (space, packed) in enumerate(sorted(tuples, key=lambda each: each[0])):
        body = b"\x82\x10" + pack(space) + b"\x21" + packed
        made.append(Row(Type.INSERT, 0, 0, number, 900.0, number, Flag.COMMIT, body))
    return _file(
        directory, SNAP, vclock, [block(made[at : at + 100]) for at in range(0, len(made), 100)], None, eof, instance
    )


def _file(
    directory: Path,
    filetype: str,
    vclock: Mapping[int, int],
    blocks: Iterable[bytes],
    previous: Mapping[int, int] | None,
    eof: bool,
    instance: UUID,
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{sum(vclock.values()):020}.{filetype.lower()}"
    data = head(filetype, vclock, previous, instance) + b"".join(blocks) + (MAGIC_EOF if eof else b"")
    path.write_bytes(data)
    return path


BOOKS = fields("id unsigned", "title string")


def books(directory: Path, counts: Sequence[int] = (3, 3), *, eof: bool = True) -> list[Path]:
    """A snapshot with the space `books`, and logs of `counts` rows, each row in a block of its own."""
    snapshot(directory, {}, [(SPACE, [ID, 1, "books", "memtx", 0, {}, BOOKS]), (INDEX, PRIMARY)])
    made = []
    lsn, previous = 0, None
    for number, count in enumerate(counts):
        blocks = [block([replace(n, [n, f"book {n}"])]) for n in range(lsn + 1, lsn + count + 1)]
        is_last = number == len(counts) - 1
        vclock = {1: lsn} if lsn else {}
        made.append(log(directory, vclock, blocks, previous=previous, eof=eof or not is_last))
        lsn, previous = lsn + count, vclock
    return made


PRIMARY = [ID, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]
