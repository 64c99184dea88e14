"""The log files, seen from the worker that writes them (wal.c: wal_write_to_disk, wal_opt_rotate, wal_fallocate).

Every method runs in the worker. Three promises, on which recovery builds:

- A file gets its name only after its head was forced to the disk, and the name is forced before a row goes in.
- A file is forced whole before its end marker is written and before the next file is begun. So of all files only the
  last can be torn, and what has an end marker is complete.
- A batch that failed leaves no byte behind that a later one could be written after: the file is cut back and that is
  forced; where even that fails, the good part is copied into a file that takes its place. Until one of them
  succeeds, nothing is written.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from headwater.errors import Er, XlogError, er
from headwater.journal.batch import Place, vclock_of
from headwater.typing import VCLOCK_MAX
from headwater.vclock import VClock
from headwater.world import Disk, File
from headwater.xlog import INPROGRESS, MAGIC_EOF, XLOG, BlockEncoder, Meta, Reader, file_name, format_meta

log = logging.getLogger("headwater.journal")

_COPY_PIECE = 1 << 20
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log file that is in the directory."""

    path: str
    vclock: VClock
    """The node's when the file was begun."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch."""

    size: int
    """Bytes that it takes."""
    place: Place
    """Behind it."""


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """The last file as recovery found it, without an end marker: to be cut at `size` and closed before the next one
    is begun."""

    path: str
    size: int
    """Where its good blocks end."""


class LogWriter:
    """Writes batches into log files, one file after another."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        instance_uuid: UUID,
        *,
        vclock: VClock,
        files: Sequence[LogEntry] = (),
        open_end: OpenEnd | None = None,
        append_to: OpenEnd | None = None,
        begins_anew: bool = False,
        sync: bool = False,
        max_size: int = 256 << 20,
    ) -> None:
        self.files: tuple[LogEntry, ...] = tuple(files)
        """All files in the directory, oldest first. Replaced, never changed: the loop may look at any time."""
        self.checkpoint = VClock()
        """The newest snapshot. What is needed to recover from it stays even when the disk is full."""
        self.max_size = max_size
        self._disk = disk
        self._directory = directory
        self._instance_uuid = instance_uuid
        self._sync = sync
        """Is an append on the disk when it returns (wal_mode fsync)?"""
        self._lsns: Sequence[int] = [vclock.get(replica_id) for replica_id in range(VCLOCK_MAX)]
        """The last rows written, by replica id."""
        self._removed: VClock | None = None
        """Rows before this were removed to make space, and the loop does not know yet."""
        self._open_end = open_end
        """Closed before the next file is begun."""
        self._append_to = append_to
        """Has a head and no row: the next batch goes there."""
        self._begins_anew = begins_anew
        """The next file does not go on where the last one ends, and must not say so."""
        self._file: File | None = None
        self._path = ""
        self._begin = VClock()
        """Vclock in the head of the open file."""
        self._size = 0
        """Good bytes in it."""
        self._broken = False
        """There may be bytes behind `_size` that must not be followed by others."""
        self._abandoned = ""
        """A file of ours without a row, which could not be mended: the next one takes its place."""
        self._doubtful = False
        """A sync of it has failed: what it had to force may be lost, and no later sync tells. Only a copy is sure."""
        self._names_changed = False
        """The directory has names that are not forced yet."""
        self._failed = False
        """A batch has failed; those behind it in the queue fall with it, until the loop says `resume`."""
        self._encoder = BlockEncoder()

    # ---- what the loop asks for

    def write(self, rows: bytes, ends: Sequence[int], after: Sequence[int]) -> Written:
        """Append one batch, which leads to the vclock `after` (by replica id). OSError or
        XlogError if that failed; CASCADE_ROLLBACK if one before it did."""
        self._refuse_while_failed()
        while True:
            try:
                size = self._write(rows, ends)
            except OSError as error:
                self._cut_back()
                if error.errno not in _NO_SPACE or not self._remove_oldest():
                    self._failed = True
                    raise
                self._removed = self.files[0].vclock if self.files else self._vclock
            except BaseException:
                self._failed = True
                raise
            else:
                self._lsns = after
                return Written(size, Place(self._path, self._size))

    def take_removed(self) -> VClock | None:
        """Vclock before which rows were removed to make space, once. May be called from the loop."""
        if self._removed is None:
            return None
        removed, self._removed = self._removed, None
        return removed

    @property
    def first_place(self) -> Place | None:
        """Where the last run ended, as long as nothing is written behind it; None if its files are closed."""
        end = self._append_to or self._open_end
        return None if end is None else Place(end.path, end.size)

    @property
    def _vclock(self) -> VClock:
        return vclock_of(self._lsns)

    def resume(self) -> None:
        """Everything in the queue behind a failure has come by: write again."""
        self._failed = False

    def rotate(self) -> VClock:
        """Close the open file, unless it has no rows. The next batch begins a new one (wal_begin_checkpoint_f)."""
        self._refuse_while_failed()
        try:
            self._mend()
            if self._file is not None and self._has_rows:
                self._seal()
        except OSError:
            self._cut_back()
            raise
        return self._vclock

    def collect(self, needed: VClock) -> list[str]:
        """Remove files that hold no row after `needed` (wal_collect_garbage_f). Returns their paths."""
        removed: list[str] = []
        while (oldest := self._oldest_before(needed)) is not None and self._unlink(oldest):
            removed.append(oldest.path)
        return removed

    def covers_checkpoint(self, vclock: VClock) -> None:
        """There is a snapshot of `vclock` now."""
        self.checkpoint = vclock

    def close(self) -> None:
        """Close the open file with an end marker, if the disk lets us."""
        try:
            self._mend()
            self._close_open_end()
            if self._file is not None:
                self._seal()
        except OSError as error:
            log.error("journal: '%s' stays without an end marker: %s", self._path, error)
            self._drop_file()

    # ---- appending

    def _refuse_while_failed(self) -> None:
        if self._failed:
            raise er(Er.CASCADE_ROLLBACK)

    def _write(self, rows: bytes, ends: Sequence[int]) -> int:
        self._mend()
        self._close_open_end()
        self._open_empty()
        if self._file is not None and self._size >= self.max_size and self._has_rows:
            self._seal()
        if self._file is None:
            self._force_names()
            self._create()
        self._force_names()
        file = self._file
        assert file is not None
        blocks = self._encoder.encode(rows, ends)
        file.append(blocks)
        self._size += len(blocks)
        return len(blocks)

    def _force_names(self) -> None:
        if self._names_changed:
            self._disk.sync_dir(self._directory)
            self._names_changed = False

    def _create(self) -> None:
        """A file whose head is on the disk before it has its name (xlog_create, xlog_materialize)."""
        path = f"{self._directory}/{file_name(self._vclock.signature, XLOG)}"
        if path != self._abandoned and self._disk.exists(path):
            raise XlogError("the file exists and is not ours to append to: move it away", path=path)
        previous = self.files[-1].vclock if self.files and not self._begins_anew else None
        head = format_meta(Meta(XLOG, self._instance_uuid, self._vclock, previous))
        file = self._materialize(path, lambda new: new.append(head))
        self._take_over(file, path, self._vclock, len(head))
        self._abandoned, self._begins_anew = "", False
        self.files = (*self.files, LogEntry(path, self._vclock))

    def _materialize(self, path: str, fill: Callable[[File], None]) -> File:
        """Make a file, force it, then give it its name. On error nothing is left behind, if the disk lets us."""
        unfinished = path + INPROGRESS
        file = self._disk.create(unfinished, sync=self._sync, exclusive=False)
        try:
            fill(file)
            file.sync()
            self._disk.rename(unfinished, path)
        except Exception:
            file.close()
            with contextlib.suppress(OSError):
                self._disk.unlink(unfinished)
            raise
        self._names_changed = True
        return file

    def _reopen(self, end: OpenEnd) -> None:
        """Go on with a file of the last run, cut back to its good part (wal_open)."""
        try:
            file = self._disk.reopen(end.path, sync=self._sync)
        except FileNotFoundError:
            log.error("journal: '%s' was deleted under our feet", end.path)
            return
        self._take_over(file, end.path, self._vclock, end.size)
        self._broken = True

    def _take_over(self, file: File, path: str, begin: VClock, size: int) -> None:
        self._file, self._path, self._begin, self._size = file, path, begin, size
        self._broken = self._doubtful = False

    def _drop_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._broken = False

    # ---- closing

    def _seal(self) -> None:
        """Force the file, then write the end marker: who sees the marker knows that the rest is there."""
        assert self._file is not None
        try:
            self._sync_file()
        except OSError as error:
            log.error("journal: cannot force '%s' to the disk (%s); writing it anew", self._path, error)
        if self._doubtful:
            self._replace_by_copy()
        else:
            self._file.append(MAGIC_EOF)
        self._drop_file()

    def _sync_file(self) -> None:
        assert self._file is not None
        try:
            self._file.sync()
        except OSError:
            self._doubtful = True
            raise

    def _close_open_end(self) -> None:
        """The file of the last run, left without an end marker by a crash. A sync of that run may have failed, and the
        system does not tell twice; so its good part is written anew. Where there is no room for that it is forced in
        place and gets no end marker: nobody can vouch for it."""
        if self._open_end is None:
            return
        if self._file is None:
            self._reopen(self._open_end)
        if self._file is not None:
            try:
                self._replace_by_copy()
            except OSError as error:
                if error.errno not in _NO_SPACE:
                    raise
                self._truncate()
            self._drop_file()
        self._open_end = None

    def _open_empty(self) -> None:
        """The file of the last run that has no row yet."""
        if self._append_to is not None:
            if self._file is None:
                self._reopen(self._append_to)
            self._mend()
            self._append_to = None

    # ---- mending

    def _cut_back(self) -> None:
        """After a failed append: drop what it left, at once, so that a crash does not bring it back."""
        if self._file is None:
            return
        self._broken = True
        with contextlib.suppress(OSError):
            self._truncate()

    def _truncate(self) -> None:
        assert self._file is not None
        if self._file.size() != self._size:
            self._file.truncate(self._size)
        self._sync_file()
        self._broken = False

    def _mend(self) -> None:
        if not self._broken:
            return
        try:
            self._truncate()
        except OSError as error:
            log.error("journal: cannot cut '%s' back to %d bytes (%s); writing it anew", self._path, self._size, error)
            if self._has_rows:
                self._replace_by_copy()
                self._drop_file()
            else:
                self._abandon()

    @property
    def _has_rows(self) -> bool:
        """The open file."""
        return self._begin != self._vclock

    def _abandon(self) -> None:
        """Nothing but a head is in the open file. A copy with an end marker would stand where the next one belongs."""
        self._drop_file()
        self._abandoned = self._path
        self.files = tuple(entry for entry in self.files if entry.path != self._path)

    def _replace_by_copy(self) -> None:
        """The good part of the open file, in a new file of the same name, closed with an end marker. What a failed
        sync has left in memory may never reach the disk, however often one asks again."""
        assert self._file is not None
        source, size, path = self._file, self._size, self._path

        def fill(copy: File) -> None:
            for offset in range(0, size, _COPY_PIECE):
                copy.append(source.read_at(offset, min(_COPY_PIECE, size - offset)))
            copy.append(MAGIC_EOF)
            reader = Reader(copy)
            for _ in reader:
                pass
            reader.require_eof()

        try:
            self._materialize(path, fill).close()
        except XlogError as error:
            raise OSError(errno.EIO, f"what was read back is damaged: {error}", path) from None

    # ---- removing

    def _oldest_before(self, needed: VClock) -> LogEntry | None:
        """The oldest file, if every row in it is covered by `needed`. Never the open one."""
        if not self.files:
            return None
        if len(self.files) > 1:
            end = self.files[1].vclock
        elif self._file is None and self._open_end is None and self._append_to is None:
            end = self._vclock
        else:
            return None
        return self.files[0] if needed.covers(end) else None

    def _remove_oldest(self) -> bool:
        """Make room by removing one file that recovery does not need (xdir_collect_garbage, XDIR_GC_REMOVE_ONE)."""
        oldest = self._oldest_before(self.checkpoint)
        if oldest is None:
            return False
        log.critical("ran out of disk space, try to delete old WAL files")
        return self._unlink(oldest)

    def _unlink(self, entry: LogEntry) -> bool:
        try:
            self._disk.unlink(entry.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.error("error while removing %s: %s", entry.path, error)
            return False
        else:
            log.info("removed %s", entry.path)
        self.files = self.files[1:]
        return True
