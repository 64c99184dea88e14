"""Real files. Every call blocks and raises OSError with the system's errno."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

_READ = os.O_RDONLY | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CLOEXEC
_MODE = 0o644


class RealFile:
    """`world.File` over a descriptor; `_end` is where the next append goes."""

    __slots__ = ("_end", "_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._end = os.fstat(fd).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) in (0, size):
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """A short write is carried on with; the error that ends it for good (ENOSPC, EIO) is the next call's."""
        written = os.pwrite(self._fd, data, self._end)
        self._end += written
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:
            written = os.pwrite(self._fd, rest, self._end)
            if written == 0:
                raise OSError(errno.EIO, "the file takes no more bytes", self.path)
            self._end += written
            rest = rest[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._end = size

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    """`world.Disk` over the system's calls."""

    def open(self, path: str) -> RealFile:
        return RealFile(path, os.open(path, _READ))

    def create(self, path: str, *, sync: bool = False, exclusive: bool = True) -> RealFile:
        flags = _WRITE | os.O_CREAT | (os.O_EXCL if exclusive else os.O_TRUNC) | _sync_flag(sync)
        return RealFile(path, os.open(path, flags, _MODE))

    def reopen(self, path: str, *, sync: bool = False) -> RealFile:
        return RealFile(path, os.open(path, _WRITE | _sync_flag(sync)))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, _READ | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> Callable[[], None]:
        """flock on the file or directory at `path` (path_lock.c locks the directory itself, too, so that a
        Tarantool and a Headwater cannot share one either)."""
        fd = os.open(path, _READ)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
        return lambda: os.close(fd)

    def free(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize


def _sync_flag(sync: bool) -> int:
    """O_DSYNC: the data and the size are on the disk when write returns; times are not waited for."""
    return os.O_DSYNC if sync else 0
