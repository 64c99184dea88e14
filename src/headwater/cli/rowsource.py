"""Rows of files for the commands that print or send them, with what is wrong told on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from headwater.env.disk import RealDisk
from headwater.errors import BoxError
from headwater.wire.xrow import Row
from headwater.xlog import XLOG, DamageKind, Reader, parse_name, rows

POLL_SECONDS = 0.2


class RowSource:
    """Reads files to where they are good, and remembers whether one was not."""

    def __init__(self, command: str, *, force: bool = False) -> None:
        """`force`: skip what is corrupt and go on behind it."""
        self.command = command
        self.force = force
        self.is_damaged = False

    def complain(self, text: str) -> None:
        self.is_damaged = True
        self.note(text)

    def note(self, text: str) -> None:
        print(f"headwater {self.command}: {text}", file=sys.stderr)

    def read(self, path: Path, *, follow: bool = False) -> Iterator[Row]:
        """The rows of a file. `follow`: then wait for more of it and for the files after it, for ever."""
        current: Path | None = path
        while current is not None:
            try:
                with closing(RealDisk().open(str(current))) as file:
                    reader = Reader(file, follow=follow, force=self.force)
                    yield from self._rows(reader, follow)
            except OSError as error:
                self.complain(f"{current}: {error.strerror}")
                return
            except BoxError as error:
                self.complain(str(error))
                return
            self._judge(reader)
            current = self._await_next(current, reader) if follow else None

    def _rows(self, reader: Reader, follow: bool) -> Iterator[Row]:
        """Up to the end of one file: its end marker, or when a file after it is there and this one gives no more."""
        has_next = False
        while True:
            try:
                block = reader.next()
                if block is not None:
                    yield from rows(block, reader.path)
                    continue
            except BoxError as error:
                self.complain(str(error))
                if not self.force:
                    return
                continue
            if reader.eof or reader.damage is not None or has_next or not follow:
                return
            has_next = next_file(Path(reader.path)) is not None
            if not has_next:
                time.sleep(POLL_SECONDS)

    def _judge(self, reader: Reader) -> None:
        """A file that ends in mid-write is no damage: its writer was killed, or is at work."""
        for skipped in reader.skipped:
            self.complain(str(skipped))
        if reader.damage is not None and reader.damage.kind is DamageKind.TORN:
            self.note(f"note: {reader.damage}")
        elif reader.damage is not None:
            self.complain(str(reader.damage))

    def _await_next(self, path: Path, reader: Reader) -> Path | None:
        """The file that the writer goes on in. Snapshots have none."""
        if reader.meta.filetype != XLOG:
            return None
        while (found := next_file(path)) is None:
            time.sleep(POLL_SECONDS)
        return found


def next_file(path: Path) -> Path | None:
    """The log that follows in the same directory."""
    signature = parse_name(path.name, XLOG)
    if signature is None:
        return None
    names = [(parse_name(other.name, XLOG), other) for other in path.parent.iterdir()]
    later = [(number, other) for number, other in names if number is not None and number > signature]
    return min(later)[1] if later else None
