"""Real files: appends, short writes, errors, locks."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.env.disk import RealDisk


@contextmanager
def small_files() -> Iterator[int]:
    """No file may grow beyond this many bytes: the system writes what fits, then refuses. Only around the calls that
    are meant, because it holds for what this process prints, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield 1000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_append_read_truncate_and_append_again(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.create(str(tmp_path / "a"))
    file.append(b"hello ")
    file.append(bytearray(b"big "))
    file.append(memoryview(b"world"))
    assert file.size() == 15
    assert file.read_at(6, 100) == b"big world"
    file.truncate(6)
    file.append(b"there")
    file.sync()
    file.close()
    file.close()
    again = disk.reopen(str(tmp_path / "a"))
    again.append(b"!")
    assert again.read_at(0, 100) == b"hello there!"
    assert again.read_at(12, 10) == b""
    again.close()


def test_short_write_ends_in_the_systems_error_and_leaves_what_fitted(tmp_path: Path) -> None:
    file = RealDisk().create(str(tmp_path / "a"))
    file.append(b"x" * 600)
    with pytest.raises(OSError, match="too large") as caught, small_files():
        file.append(b"y" * 600)
    assert caught.value.errno == errno.EFBIG
    assert file.size() == 1000
    file.truncate(600)
    file.append(b"z" * 400)
    assert file.read_at(0, 2000) == b"x" * 600 + b"z" * 400
    file.close()


def test_full_device_is_enospc() -> None:
    file = RealDisk().reopen("/dev/full")
    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"x")
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_synced_file_takes_appends(tmp_path: Path) -> None:
    file = RealDisk().create(str(tmp_path / "a"), sync=True)
    file.append(b"durable")
    assert file.read_at(0, 10) == b"durable"
    file.close()


def test_create_refuses_an_existing_file_unless_told(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.create(str(tmp_path / "a")).close()
    with pytest.raises(FileExistsError):
        disk.create(str(tmp_path / "a"))
    file = disk.reopen(str(tmp_path / "a"))
    file.append(b"old")
    file.close()
    file = disk.create(str(tmp_path / "a"), exclusive=False)
    assert file.size() == 0
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "b"))


def test_names_are_sorted_renamed_and_removed(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.makedirs(str(tmp_path / "deep" / "er"))
    disk.makedirs(str(tmp_path / "deep" / "er"))
    for name in ("c", "a", "b"):
        disk.create(str(tmp_path / "deep" / name)).close()
    disk.rename(str(tmp_path / "deep" / "c"), str(tmp_path / "deep" / "0"))
    disk.unlink(str(tmp_path / "deep" / "b"))
    disk.sync_dir(str(tmp_path / "deep"))
    assert disk.listdir(str(tmp_path / "deep")) == ["0", "a", "er"]
    assert disk.exists(str(tmp_path / "deep" / "a"))
    assert not disk.exists(str(tmp_path / "deep" / "b"))
    assert disk.free(str(tmp_path)) > 0


def test_lock_is_refused_while_held(tmp_path: Path) -> None:
    disk = RealDisk()
    release = disk.lock(str(tmp_path))
    with pytest.raises(BlockingIOError):
        disk.lock(str(tmp_path))
    release()
    disk.lock(str(tmp_path))()
