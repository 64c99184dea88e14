"""Rows of peers that were refused and skipped, kept in files beside the journal: JSON, one record a line.

They are for people who decide later, so anything that reads text reads them; the row itself is in each record byte by
byte, in base64. They are no `.xlog`: a reader of logs takes what is in a directory for the history of the node.

A record is on the disk before the NOP is in the journal. A node that dies between the two writes it once more: origin
and LSN tell that it is the same. The node removes no file; when the disk is full, replication stops.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from uuid import UUID

from headwater.replication.conflict import Refusal
from headwater.wire.constants import type_name
from headwater.wire.msgpack import unpack
from headwater.wire.request import Request, of_row
from headwater.wire.xrow import encode_packet
from headwater.world import Disk, File

PREFIX, SUFFIX = "quarantine.", ".jsonl"
FILE_MAX = 16 << 20
"""A file with more bytes is followed by another one."""


class Quarantine:
    """The files of one node. Its calls block: they are made in a worker."""

    def __init__(self, disk: Disk, directory: str, file_max: int = FILE_MAX) -> None:
        self._disk = disk
        self._directory = directory
        self._file_max = file_max
        self._file: File | None = None
        self._number = 0
        self._size = 0
        """Bytes of the open file that are good."""

    def append(self, records: Sequence[str]) -> None:
        """On the disk when it returns. OSError: perhaps some of them are."""
        data = "".join(record + "\n" for record in records).encode()
        file = self._open()
        if file.size() != self._size:
            file.truncate(self._size)
        file.append(data)
        file.sync()
        self._size += len(data)

    def _open(self) -> File:
        if self._file is None:
            self._number = max(numbers(self._disk.listdir(self._directory)), default=0)
            if self._number:
                self._file = self._disk.reopen(self._path)
                self._size = _good_size(self._file)
        if self._file is None or self._size >= self._file_max:
            self.close()
            self._number += 1
            self._file, self._size = self._disk.create(self._path), 0
            self._disk.sync_dir(self._directory)
        return self._file

    @property
    def _path(self) -> str:
        return f"{self._directory}/{PREFIX}{self._number:06d}{SUFFIX}"

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def numbers(names: Sequence[str]) -> list[int]:
    """Of the files among these names."""
    middles = [n[len(PREFIX) : -len(SUFFIX)] for n in names if n.startswith(PREFIX) and n.endswith(SUFFIX)]
    return [int(middle) for middle in middles if middle.isdigit()]


def _good_size(file: File) -> int:
    """Up to the last whole line: what comes behind was being written when the node died."""
    end = file.size()
    while end:
        begin = max(0, end - 65536)
        at = file.read_at(begin, end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def record(refusal: Refusal, origin: UUID | None, now: float) -> str:
    """One line."""
    row, error = refusal.row, refusal.error
    shown = {
        "time": now,
        "origin": row.replica_id,
        "origin_uuid": str(origin) if origin is not None else None,
        "lsn": row.lsn,
        "timestamp": row.timestamp,
        "space": refusal.space,
        "kind": type_name(row.type),
        **_contents(of_row(row)),
        "code": error.code,
        "reason": error.message,
        "row": base64.b64encode(encode_packet(row)).decode(),
    }
    return json.dumps(shown, ensure_ascii=False, default=str)


def _contents(request: Request) -> dict[str, object]:
    parts = {"key": request.key, "tuple": request.tuple, "operations": request.ops}
    return {"space_id": request.space_id} | {name: _plain(unpack(data)) for name, data in parts.items() if data}


def _plain(value: object) -> object:
    """As JSON can say it; the bytes of the row are the truth."""
    match value:
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
    return value
