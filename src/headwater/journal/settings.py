"""What the journal's room needs to know of `box.cfg`. The dynamic ones may be assigned while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WalMode(Enum):
    """What a write waits for."""

    NONE = "none"
    """Nothing: it is lost with the process."""
    WRITE = "write"
    """The operating system has it: it survives the process."""
    FSYNC = "fsync"
    """The disk has it: it survives the power."""


@dataclass(slots=True)
class Settings:
    wal_dir: str = "."
    memtx_dir: str = "."
    wal_mode: WalMode = WalMode.WRITE
    wal_max_size: int = 256 << 20
    """Bytes after which a log file is closed and the next one begun, between batches."""
    wal_queue_max_size: int = 16 << 20
    """Bytes that may wait for the journal before `Journal.full`. 0: any number."""
    checkpoint_count: int = 2
    checkpoint_interval: float = 3600.0
    checkpoint_wal_threshold: int = 10**18
    snap_io_rate_limit: float | None = None
    """Megabytes a second."""
    force_recovery: bool = False
    too_long_threshold: float = 0.5
    """A batch whose write takes longer is told in the log."""
