"""Which files are still needed (gc.c). A machine: it is told what exists and who reads, and says what may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headwater.vclock import VClock


@dataclass(slots=True, eq=False)
class Checkpoint:
    """A snapshot on the disk."""

    vclock: VClock
    timestamp: float
    """Wall-clock time at which it was made, or its file's as far as known."""
    pins: list[str] = field(default_factory=list)
    """Who holds it: a backup, a replica that joins. It stays while this is not empty."""


@dataclass(slots=True, eq=False)
class Consumer:
    """Somebody who reads the log: a replica, by its UUID."""

    name: str
    vclock: VClock
    """Rows after this are needed."""
    active: bool = True
    """False once what it needs was removed, because the disk was full or before it came: it has to join anew."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """What may be removed now."""

    snapshots: tuple[VClock, ...]
    rows: VClock
    """Log files that hold nothing after this."""


class Gc:
    """The snapshots that exist and the consumers of the log."""

    def __init__(self, checkpoint_count: int = 2) -> None:
        self.checkpoint_count = checkpoint_count
        """How many snapshots stay, at least one."""
        self.vclock = VClock()
        """Rows after this are on the disk."""
        self.on_moved: Callable[[], object] = lambda: None
        """Called when `vclock` has moved: peers learn from the ballot whether they came too late
        (gc.on_garbage_collection)."""
        self.checkpoints: list[Checkpoint] = []
        """Oldest first."""
        self._superseded: list[VClock] = []
        """Snapshots of a life before."""
        self._consumers: dict[str, Consumer] = {}
        self._pauses: set[str] = set()

    # ---- snapshots

    def add_checkpoint(self, vclock: VClock, timestamp: float) -> Checkpoint:
        """One more, or the last one again (gc_add_checkpoint)."""
        if self.checkpoints and self.checkpoints[-1].vclock == vclock:
            return self.checkpoints[-1]
        self.checkpoints.append(Checkpoint(vclock.copy(), timestamp))
        return self.checkpoints[-1]

    @property
    def last_checkpoint(self) -> Checkpoint | None:
        return self.checkpoints[-1] if self.checkpoints else None

    def pin(self, checkpoint: Checkpoint, holder: str) -> Callable[[], None]:
        """Keep it, and every log after it, until the returned call."""
        checkpoint.pins.append(holder)
        held = [holder]

        def release() -> None:
            if held:
                checkpoint.pins.remove(held.pop())

        return release

    def supersede(self, vclock: VClock) -> None:
        """A snapshot of a life before a rebootstrap: no log leads on from it. It goes when there is a new one."""
        self._superseded.append(vclock)

    # ---- consumers

    @property
    def consumers(self) -> Iterator[Consumer]:
        yield from self._consumers.values()

    def consumer(self, name: str) -> Consumer | None:
        return self._consumers.get(name)

    def register(self, name: str, vclock: VClock) -> Consumer:
        """A consumer from this vclock on; one that is known goes back to the smaller of both (gc_consumer_register).
        One that needs rows which are gone already holds nothing: it has to join anew, whatever is kept for it."""
        known = self._consumers.get(name)
        if known is None:
            known = self._consumers[name] = Consumer(name, vclock.copy(), active=self._has_after(vclock))
        elif known.active:
            known.vclock.minimum(vclock)
        else:
            self._revive(known, vclock)
        return known

    def advance_consumer(self, name: str, vclock: VClock) -> None:
        """It has acknowledged rows. One that fell behind for good stays where it is (gc_consumer_advance), unless it
        has joined anew since."""
        consumer = self._consumers[name]
        if not consumer.active:
            self._revive(consumer, vclock)
        elif vclock.signature > consumer.vclock.signature:
            consumer.vclock = vclock.copy()

    def _has_after(self, vclock: VClock) -> bool:
        """Is everything after it on the disk?"""
        return vclock.covers(self.vclock, ignore0=True)

    def _revive(self, consumer: Consumer, vclock: VClock) -> None:
        if self._has_after(vclock):
            consumer.vclock, consumer.active = vclock.copy(), True

    def unregister(self, name: str) -> None:
        self._consumers.pop(name, None)

    def forced_to(self, vclock: VClock) -> list[Consumer]:
        """The disk was full, and rows up to here are gone. Returns the consumers that lost what they needed
        (gc_advance)."""
        self.vclock = vclock.copy()
        lost = [
            consumer
            for consumer in self._consumers.values()
            if consumer.active and not self._has_after(consumer.vclock)
        ]
        for consumer in lost:
            consumer.active = False
        self.on_moved()
        return lost

    # ---- pauses

    @property
    def is_paused(self) -> bool:
        return bool(self._pauses)

    def pause(self, reason: str) -> None:
        """Remove nothing until `resume` of the same reason: consumers of before the restart have not come yet."""
        self._pauses.add(reason)

    def resume(self, reason: str) -> None:
        self._pauses.discard(reason)

    # ---- the decision

    def collect(self) -> Garbage | None:
        """Forget snapshots beyond the count, oldest first and up to one that is pinned, and tell what goes with them
        (gc_run_cleanup). None while paused or when there is nothing to keep yet."""
        if self._pauses or not self.checkpoints:
            return None
        dropped, self._superseded = self._superseded, []
        while len(self.checkpoints) > max(1, self.checkpoint_count) and not self.checkpoints[0].pins:
            dropped.append(self.checkpoints.pop(0).vclock)
        needed = self.checkpoints[0].vclock.copy()
        for consumer in self._consumers.values():
            if consumer.active:
                # Rows of component 0 never leave the node: no consumer needs them.
                needed.minimum(consumer.vclock, ignore0=True)
        if needed.signature > self.vclock.signature:
            self.vclock = needed.copy()
            self.on_moved()
        return Garbage(tuple(dropped), needed)
