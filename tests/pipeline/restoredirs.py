"""Data directories made of nothing: a replica set with a space, and logs with whatever rows a test wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.xlogfile import read

from headwater.store.bootstrap import bootstrap_rows, master_rows
from headwater.store.bootstrap_tables import V2_3_1, V3_8_0, Version
from headwater.vclock import VClock
from headwater.wire.constants import Flag, Type
from headwater.wire.msgpack import pack
from headwater.wire.synchro import RaftMessage, Synchro, encode_raft, encode_synchro
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, SNAP, XLOG, BlockEncoder, Meta, file_name, format_meta

SET = UUID("aaaaaaaa-0000-4000-8000-000000000000")
MEMBERS = {number: UUID(f"aaaaaaaa-0000-4000-8000-{number:012}") for number in range(1, 10)}
SPACE = 512
SYNC = Flag.WAIT_SYNC | Flag.WAIT_ACK
FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "value", "type": "any", "is_nullable": True}]


def definition(space: int = SPACE, name: str = "test", options: Mapping[str, Any] | None = None) -> list[Any]:
    return [space, 1, name, "memtx", 0, dict(options or {}), FORMAT]


def index(space: int = SPACE, kind: str = "tree", parts: Sequence[Any] = ((0, "unsigned"),)) -> list[Any]:
    return [space, 0, "pk", kind, {"unique": True}, [list(part) for part in parts]]


def put(lsn: int, value: Any, *, replica: int = 1, space: int = SPACE, **more: Any) -> Row:
    """REPLACE of [value, lsn], a transaction of its own unless `tsn` and `flags` say otherwise; written in second
    `lsn`."""
    tuple_ = value if isinstance(value, list) else [value, lsn]
    return change(Type.REPLACE, lsn, {0x10: space, 0x21: tuple_}, replica=replica, **more)


def change(type_: int, lsn: int, body: Mapping[int, Any], *, replica: int = 1, **more: Any) -> Row:
    given: dict[str, Any] = {"timestamp": float(lsn), "tsn": lsn, "flags": int(Flag.COMMIT)}
    given |= more
    return Row(type_, replica, lsn=lsn, body=pack(dict(body)), **given)


def delete(lsn: int, key: Any, **more: Any) -> Row:
    return change(Type.DELETE, lsn, {0x10: more.pop("space", SPACE), 0x20: [key]}, **more)


def sync(lsn: int, value: Any, *, replica: int = 1) -> Row:
    return put(lsn, value, replica=replica, flags=int(Flag.COMMIT | SYNC))


def behind(lsn: int, value: Any) -> Row:
    """Not synchronous, and waits for those before it."""
    return put(lsn, value, flags=int(Flag.COMMIT | Flag.WAIT_SYNC))


def word(type_: int, lsn: int, about: int, *, owner: int = 1, replica: int = 1, term: int = 0) -> Row:
    """CONFIRM, ROLLBACK, PROMOTE, DEMOTE."""
    row = encode_synchro(Synchro(type_, owner, about, term, origin_id=replica))
    row.lsn, row.tsn, row.flags, row.timestamp = lsn, lsn, int(Flag.COMMIT), float(lsn)
    return row


def raft(lsn: int, term: int) -> Row:
    row = encode_raft(RaftMessage(term, group_id=1))
    row.lsn, row.tsn, row.flags = lsn, lsn, int(Flag.COMMIT)
    return row


def local(lsn: int, value: Any, space: int) -> Row:
    row = put(lsn, value, space=space, replica=0)
    row.group_id = 1
    return row


@dataclass
class Directory:
    """Of one member."""

    path: Path
    member: int = 1
    version: Version = V3_8_0
    definitions: list[tuple[int, list[Any]]] = field(default_factory=lambda: [(280, definition()), (288, index())])

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def uuid(self) -> UUID:
        return MEMBERS[self.member]

    def snapshot(
        self, vclock: Mapping[int, int], rows: Iterable[Any] = (), *, time: float = 0.5, extra: Sequence[Row] = ()
    ) -> Path:
        """`rows`: keys, or tuples, of the space; `extra`: rows of election and queue."""
        return self._write(SNAP, vclock, None, self._snapshot_rows(rows, time, extra))

    def _snapshot_rows(self, rows: Iterable[Any], time: float, extra: Sequence[Row]) -> list[list[Row]]:
        system = [*bootstrap_rows(self.version), *master_rows(self.version, MEMBERS[1], SET)]
        system += [(320, pack([number, str(MEMBERS[number])])) for number in (2, 3)]
        system += [(space, pack(row)) for space, row in self.definitions]
        system.sort(key=lambda pair: pair[0])
        users = [(SPACE, pack(row if isinstance(row, list) else [row, 0])) for row in rows]
        made = [body_row(space, packed) for space, packed in system]
        made += list(extra) + [body_row(space, packed) for space, packed in users]
        for number, row in enumerate(made):
            row.lsn, row.tsn, row.flags, row.timestamp = number, number, int(Flag.COMMIT), time
        return [made]

    def log(
        self,
        vclock: Mapping[int, int],
        rows: Sequence[Row],
        *,
        prev: Mapping[int, int] | None = None,
        eof: bool = True,
        blocks: int = 1,
    ) -> Path:
        """One transaction is never in two blocks; otherwise `blocks` rows make a block."""
        batches: list[list[Row]] = []
        for row in rows:
            if not batches or (len(batches[-1]) >= blocks and batches[-1][-1].is_commit):
                batches.append([])
            batches[-1].append(row)
        return self._write(XLOG, vclock, prev, batches, eof=eof)

    def _write(
        self,
        kind: str,
        vclock: Mapping[int, int],
        prev: Mapping[int, int] | None,
        batches: Sequence[Sequence[Row]],
        *,
        eof: bool = True,
    ) -> Path:
        encoder = BlockEncoder()
        meta = Meta(kind, self.uuid, VClock(vclock), VClock(prev) if prev is not None else None)
        data = format_meta(meta)
        data += b"".join(encoder.encode_one(b"".join(map(encode_row, batch))) for batch in batches)
        path = self.path / file_name(meta.signature, kind)
        path.write_bytes(data + (MAGIC_EOF if eof else b""))
        return path


def body_row(space: int, packed: bytes) -> Row:
    return Row(Type.INSERT, body=b"\x82\x10\xce" + space.to_bytes(4, "big") + b"\x21" + packed)


def rows_of(snapshot: Path) -> dict[int, list[Any]]:
    """Space → tuples, as they stand in a snapshot."""
    found: dict[int, list[Any]] = {}
    for _, body in read(snapshot).rows():
        if 0x10 in body:
            found.setdefault(body[0x10], []).append(body[0x21])
    return found


def keys_of(snapshot: Path, space: int = SPACE) -> list[Any]:
    return [row[0] for row in rows_of(snapshot).get(space, [])]


__all__ = ["V2_3_1", "V3_8_0", "Directory", "change", "definition", "index", "keys_of", "put", "rows_of"]
