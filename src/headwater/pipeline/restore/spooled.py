"""Files as a server would write them, of rows that come from elsewhere: a live server's, or a lake's. So all that reads
files reads these, too."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from headwater.vclock import VClock
from headwater.xlog import MAGIC_EOF, BlockEncoder, Meta, file_name, format_meta


class SpoolFile:
    """One `.snap` or `.xlog`, not compressed. Not forced to the disk: who needs it after a power cut makes it anew."""

    def __init__(self, directory: Path, filetype: str, instance: UUID, vclock: VClock) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / file_name(vclock.signature, filetype)
        self.rows = 0
        self._encoder = BlockEncoder(compress=False)
        self._file = self.path.open("wb")
        self._file.write(format_meta(Meta(filetype, instance, vclock)))

    def add(self, rows: bytes, count: int) -> None:
        """Whole transactions."""
        if rows:
            self._file.write(self._encoder.encode_one(rows))
            self.rows += count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._file.write(MAGIC_EOF)
        self._file.close()
