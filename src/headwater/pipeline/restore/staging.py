"""The directory to build, while it is being built.

Everything on the way lies in one directory inside of it, whose name no node looks at; the snapshot gets its place and
its name by the last rename. So what was killed half way holds nothing that looks finished, and can be begun anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from headwater.errors import system_words
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.restore.errors import TargetTaken

NAME = ".restore.inprogress"
_SIGN = "made-by-the-driver"
_LOCK = "lock"


class Staging:
    """`TARGET/.restore.inprogress`."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(target).absolute()
        self.path = self.target / NAME
        self.token = uuid4().hex

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """TargetTaken unless the target is empty, but for what a killed run left. Afterwards nothing is left there but
        what was `published`. PipelineError for what the disk refuses meanwhile."""
        try:
            yield from self._opened()
        except OSError as error:
            raise refused(error) from None

    def _opened(self) -> Iterator[None]:
        existed = self.target.exists()
        self.check()
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK).open("w", encoding="utf-8") as lock:
            self._lock(lock.fileno())
            self._sweep()
            (self.path / _SIGN).write_text(self.token, encoding="utf-8")
            try:
                yield
            finally:
                shutil.rmtree(self.path, ignore_errors=True)
                if not existed:
                    with contextlib.suppress(OSError):
                        self.target.rmdir()

    def check(self) -> None:
        """TargetTaken as `open` raises it."""
        if not self.target.exists():
            return
        if not self.target.is_dir():
            raise TargetTaken(f"{self.target} is a file. Give a directory that is empty or does not exist (--to).")
        found = sorted(path.name for path in self.target.iterdir() if path.name != NAME)
        if found:
            shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
            raise TargetTaken(
                f"{self.target} is not empty: {shown}. Nothing is written over; give a directory that is empty or does "
                "not exist (--to)."
            )

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TargetTaken(f"{self.target} is being built by another process right now.") from None

    def _sweep(self) -> None:
        """What a killed run left."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()

    def file(self, name: str) -> str:
        return str(self.path / name)

    def publish(self, name: str, into: str) -> Path:
        """A file that is whole and on the disk gets its place."""
        place = self.target / into
        os.rename(self.path / name, place)
        sync_directory(self.target)
        return place


def check_token(directory: str, token: str) -> None:
    """PipelineError in a task that does not see the directory that the driver made."""
    try:
        found = (Path(directory) / _SIGN).read_text(encoding="utf-8")
    except OSError:
        found = ""
    if found != token:
        raise PipelineError(
            f"{directory}: an executor does not see the directory that the driver has made. The target (--to) must be "
            "on a file system that the driver and all executors share; or run it on one machine, --master 'local[*]'."
        )


def refused(error: OSError) -> PipelineError:
    """What a disk says, in words."""
    where = f"{error.filename}: " if error.filename else ""
    return PipelineError(f"{where}{system_words(error)}. Is there room, and may this user write there?")


def sync_directory(path: str | os.PathLike[str]) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
