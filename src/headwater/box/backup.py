"""`box.backup`: the files of one moment, kept while somebody copies them (box.cc, box_backup_start)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headwater.errors import Er, er
from headwater.journal import Checkpoint, Checkpointer, Gc, Journal
from headwater.vclock import VClock
from headwater.world import Timer, World

_HOLDER = "backup"


class Instance(Protocol):
    world: World
    gc: Gc
    journal: Journal
    checkpointer: Checkpointer | None


class Backups:
    """At most one backup at a time."""

    def __init__(self, box: Instance) -> None:
        self._box = box
        self._release: Callable[[], None] | None = None
        self._shown: dict[str, Any] | None = None
        self._timer: Timer | None = None

    async def start(self, checkpoint: int, from_vclock: Mapping[int, int] | None, ttl: float) -> list[str]:
        """Pin a snapshot and the journal after it; the journal is rotated first, so that every file named is whole."""
        if self._release is not None:
            raise er(Er.BACKUP_IN_PROGRESS)
        found = self._checkpoint(checkpoint, from_vclock)
        self._release = self._box.gc.pin(found, _HOLDER)
        try:
            vclock = await self._box.journal.rotate()
        except BaseException:
            self.stop()
            raise
        assert self._box.checkpointer is not None
        begin = found.vclock if from_vclock is None else VClock(from_vclock)
        files = self._box.checkpointer.backup_files(found.vclock) if from_vclock is None else []
        files += self._box.journal.files_between(begin, vclock)
        kind = "full" if from_vclock is None else "incremental"
        self._shown = {"files": files, "vclock": vclock.as_dict(), "type": kind}
        if ttl:
            self._timer = self._box.world.tasks.later(ttl, self.stop)
        return files

    def _checkpoint(self, number: int, from_vclock: Mapping[int, int] | None) -> Checkpoint:
        """The newest but `number`, or the newest one at or before a vclock."""
        newest_first = list(reversed(self._box.gc.checkpoints))
        if from_vclock is not None:
            wanted = VClock(from_vclock)
            newest_first = [one for one in newest_first if wanted.covers(one.vclock, ignore0=True)]
        if number >= len(newest_first):
            raise er(Er.MISSING_SNAPSHOT)
        return newest_first[number]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._release is not None:
            self._release()
            self._release = None
        self._shown = None

    def info(self) -> Mapping[str, Any] | None:
        return self._shown
