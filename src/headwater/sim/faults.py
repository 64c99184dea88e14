"""What goes wrong, and when: the only place of a simulation that decides it."""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DiskOp:
    """One call of a process to its disk."""

    name: str
    """open, create, reopen, append, read, truncate, sync, rename, unlink, sync_dir, listdir."""
    path: str
    size: int = 0
    """Bytes of an append or a read."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The call raises this errno; an append leaves `part` bytes behind."""

    errno: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class Die:
    """The process ends inside this call; an append leaves `part` bytes behind."""

    part: int = 0


class Faults(Protocol):
    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        """Asked before each call."""


class NoFaults:
    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        return None


CHANGING = frozenset({"create", "append", "truncate", "sync", "rename", "unlink", "sync_dir"})


@dataclass
class FaultPlan:
    """Faults drawn from a seed. Probabilities are per call; all zero means a quiet machine."""

    random: random.Random
    die: float = 0.0
    """The process dies in a call that changes the disk."""
    eio: float = 0.0
    """A call that changes the disk fails."""
    short: float = 0.0
    """An append writes only a part, then fails for want of space."""
    read_eio: float = 0.0
    armed: bool = True
    """Off while the checker itself looks at the disk."""
    injected: int = field(default=0, init=False)
    """How many errors this plan has caused: what the checker may excuse."""

    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        if not self.armed:
            return None
        if op.name == "read":
            return self._failed(op, errno.EIO) if self.random.random() < self.read_eio else None
        if op.name not in CHANGING:
            return None
        dice = self.random.random()
        if dice < self.die:
            return Die(self._part(op))
        if dice < self.die + self.eio:
            return self._failed(op, errno.EIO)
        if op.name == "append" and dice < self.die + self.eio + self.short:
            return self._failed(op, errno.ENOSPC)
        return None

    def _failed(self, op: DiskOp, code: int) -> Fail:
        self.injected += 1
        return Fail(code, self._part(op))

    def _part(self, op: DiskOp) -> int:
        return self.random.randint(0, op.size) if op.name == "append" else 0


class DieAt:
    """The process dies in the n-th call that changes the disk (from 0): for sweeps over every instant."""

    def __init__(self, call: int, part: float = 0.5) -> None:
        self.left = call
        self._part = part

    def on_disk(self, op: DiskOp) -> Fail | Die | None:
        if op.name not in CHANGING:
            return None
        self.left -= 1
        return Die(int(op.size * self._part)) if self.left == -1 else None
