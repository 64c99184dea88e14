"""What is asked about a part of a log, and what is found. Values that travel between driver and executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.pipeline.errors import SourceDamaged

SYSTEM_MAX = 511
"""schema_def.h, BOX_SYSTEM_ID_MAX"""
NO_LIMIT = (1 << 63) - 1
FREE: Sequence[int] = (NO_LIMIT,) * 32


@dataclass(frozen=True, slots=True)
class PartTask:
    """A part of a log to be read."""

    path: str
    size: int
    begin: int
    """Blocks that begin from here on and before `end`."""
    end: int
    before: int | None
    """Where the block before the first one begins."""
    low: Sequence[int]
    """LSNs by replica id: rows behind them count."""
    high: Sequence[int] = FREE
    until: float = float("inf")
    sync_spaces: tuple[int, ...] = ()
    sample_step: int = 0
    skips: bool = False
    """Pass over transactions behind the range, and go on."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A transaction that no CONFIRM has reached."""

    owner: int
    first: int
    lsn: int
    row: int
    """Number of its first row in the part."""
    is_sync: bool
    """Does it need a quorum itself, or only wait for those before it?"""


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch without ROLLBACK, PROMOTE or DEMOTE."""

    waiting: tuple[Waiting, ...]
    confirmed: Mapping[int, int]
    word: bytes = b""
    """The row that ended it."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """The first transaction behind the range."""

    row: int
    replica_id: int
    first: int
    last: int
    time: float


@dataclass(slots=True)
class PartFacts:
    """What a part says, up to where the range ends."""

    rows: int = 0
    """Read, those before the range included: the numbers of rows go on with it."""
    kept: int = 0
    last: dict[int, int] = field(default_factory=dict)
    begin: float = 0.0
    end: float = 0.0
    notable: list[tuple[int, bytes]] = field(default_factory=list)
    """Numbers and rows: changes of system spaces, RAFT, ROLLBACK, PROMOTE, DEMOTE."""
    episodes: list[Episode] = field(default_factory=list)
    spaces: dict[int, tuple[int, int]] = field(default_factory=dict)
    samples: list[bytes] = field(default_factory=list)
    beyond: Beyond | None = None
    """The range ends in this part."""
    skipped: int = 0
    """Rows behind the range that were passed over."""
    damage: SourceDamaged | None = None
    is_torn: bool = False
    is_closed: bool = False
    """Was the end marker met?"""
