"""What may go wrong in a replica set, as values: a plan is a list of these, and a part of the list is a plan, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    KILL = "kill"
    """SIGKILL; the process is started again after `seconds`."""
    POWER_CUT = "power cut"
    """The page cache is gone, too."""
    END = "end"
    """SIGTERM; started again after `seconds`, with `options`."""
    STOP = "stop"
    """SIGSTOP for `seconds`."""
    CUT = "cut"
    """Nothing gets from `nodes` to `others`; the way back is open."""
    PART = "part"
    """Nothing gets between `nodes` and `others`."""
    RESET = "reset"
    """Every connection between `nodes` and `others` ends."""
    DELAY = "delay"
    """Packets between `nodes` and `others` take up to `amount` seconds."""
    LOSS = "loss"
    """So many packets of one are lost on the way between `nodes` and `others`."""
    NARROW = "narrow"
    """The ways between `nodes` and `others` carry `amount` bytes a second."""
    SLOW_DISK = "slow disk"
    """Every call takes `amount` times as long."""
    FULL_DISK = "full disk"
    """`amount` bytes are left."""
    EIO = "disk errors"
    """A call that changes the disk fails with this probability."""
    SHORT = "short writes"
    """An append writes a part only, with this probability."""
    DIE = "die in a call"
    """The process dies within a call that changes the disk, with this probability."""
    JUMP = "wall clock"
    """Somebody sets the wall clock by `amount` seconds wrong."""
    DRIFT = "drift"
    """The clocks of the machine run `amount` times as quick."""
    CFG = "box.cfg"
    """`options` are set while the node runs; for `seconds`, if that is not 0."""
    FOLLOW = "follow"
    """`nodes` follow `others`, too, from now on."""
    FOLLOW_ONLY = "follow only"
    """`nodes` follow `others` and nobody else from now on."""
    UNFOLLOW = "unfollow"
    """`nodes` do not follow `others` for `seconds`."""
    SNAPSHOT = "box.snapshot"
    EXPEL = "expel"
    """They are removed from `_cluster` while they are away, and come back after `seconds`: taken back as they were, or,
    if `amount` is not 0, without data: 1, as the instance they were; 2, as another one."""


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    """Seconds after the set is whole for the first time."""
    kind: Kind
    nodes: tuple[str, ...]
    others: tuple[str, ...] = ()
    seconds: float = 0.0
    """How long it lasts, or how long the node stays away."""
    amount: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{self.at:.2f} s: {self.kind.value} {', '.join(self.nodes)}"]
        if self.others:
            words.append(f"| {', '.join(self.others)}")
        if self.amount:
            words.append(f"by {self.amount:.4g}")
        if self.seconds:
            words.append(f"for {self.seconds:.2f} s")
        if self.options:
            words.append(", ".join(f"{name}={value}" for name, value in self.options.items()))
        return " ".join(words)
