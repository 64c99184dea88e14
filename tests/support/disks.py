"""File systems that misbehave on demand: a small tmpfs that fills up, an ext4 whose power can be cut.

Both need the right to mount; where that is refused the test is skipped and says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

EXT4_IOC_SHUTDOWN = 0x8004587D
EXT4_GOING_FLAGS_NOLOGFLUSH = 2
"""Stop at once: nothing that is still in memory reaches the disk (fs/ext4/ext4.h)."""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _mount_or_skip(*command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    try:
        _run(*command)
    except OSError as error:
        pytest.skip(f"mounting is not permitted here: {error}")


@contextlib.contextmanager
def small_tmpfs(path: Path, megabytes: int) -> Iterator[Path]:
    """A file system with room for so many megabytes."""
    path.mkdir(parents=True)
    _mount_or_skip("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "headwater-test", str(path))
    try:
        yield path
    finally:
        _run("umount", "-l", str(path))


class PowerCutDisk:
    """An ext4 in a file. `cut` makes it forget everything that was not synced, as a power cut does."""

    def __init__(self, directory: Path, megabytes: int = 64) -> None:
        self.image = directory / "disk.img"
        self.path = directory / "disk"
        directory.mkdir(parents=True, exist_ok=True)
        self.path.mkdir()
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("no mkfs.ext4 here")
        _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self.image))
        self.mounted = False
        _mount_or_skip("mount", "-o", "loop", str(self.image), str(self.path))
        self.mounted = True

    def cut(self) -> None:
        """Stop the file system under whoever uses it. The users must end before `mount`."""
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", EXT4_GOING_FLAGS_NOLOGFLUSH))
        finally:
            os.close(fd)

    def mount(self) -> None:
        """Power is back: the journal of ext4 is replayed."""
        self.unmount()
        _run("mount", "-o", "loop", str(self.image), str(self.path))
        self.mounted = True

    def unmount(self) -> None:
        if self.mounted:
            self.mounted = False
            _run("umount", str(self.path))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.unmount()
            self.image.unlink()
