"""One driver a checkpoint. Who streams under a replica UUID holds a lock in the spool directory; the kernel takes it
back however the process ends.

On another machine, with another spool directory, the second driver is refused by the server, which takes one connection
of a UUID (`client.replica.is_taken`), and at last by Spark itself, which writes each offset once.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path
from uuid import UUID

from headwater.pipeline.errors import CheckpointTaken, PipelineError

_PAUSE = 0.1


class Lease:
    """Of one replica UUID."""

    def __init__(self, spool_dir: Path, uuid: UUID) -> None:
        self.directory = spool_dir / str(uuid)
        """For what the holder keeps."""
        self._uuid = uuid
        self._fd = -1

    @property
    def is_held(self) -> bool:
        return self._fd >= 0

    def acquire(self, patience: float) -> None:
        """CheckpointTaken when another one still has it after so many seconds."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PipelineError(
                f"The directory {self.directory} cannot be used: {error.strerror}. The option 'spoolDir' names another."
            ) from None
        deadline = time.monotonic() + patience
        while not _lock(fd):
            if time.monotonic() > deadline:
                holder = os.pread(fd, 200, 0).decode(errors="replace").strip()
                os.close(fd)
                raise CheckpointTaken(taken(self._uuid, holder or "another process"))
            time.sleep(_PAUSE)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def taken(uuid: UUID, holder: str) -> str:
    """The sentence that stops a second driver."""
    return (
        f"Another driver streams with this checkpoint: {holder} is connected as replica {uuid}. Each of them would get "
        "a share of the changes. Stop the other query, or give this one a checkpointLocation of its own (and where the "
        "option 'replicaUuid' is set, a UUID of its own)."
    )


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
