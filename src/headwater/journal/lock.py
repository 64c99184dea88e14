"""No two processes in one directory.

As in path_lock.c the directory itself is locked, so that Tarantool and Headwater keep each other out, too. The lock
is the system's: it ends with the process, however that ends.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import SystemError_
from headwater.world import Disk


def lock_directories(disk: Disk, *directories: str) -> Callable[[], None]:
    """Make the directories where they are missing, and lock each once. Returns the release of all."""
    held: list[Callable[[], None]] = []

    def release() -> None:
        while held:
            held.pop()()

    try:
        held.extend(_lock(disk, directory) for directory in dict.fromkeys(directories))
    except BaseException:
        release()
        raise
    return release


def _lock(disk: Disk, directory: str) -> Callable[[], None]:
    try:
        disk.makedirs(directory)
        return disk.lock(directory)
    except BlockingIOError:
        name = "the working directory" if directory == "." else f"directory '{directory}'"
        raise SystemError_(f"{name} is in use by another process: end it, or choose another directory") from None
    except OSError as error:
        raise SystemError_.of(f"Can't open path: {directory}", error) from None
