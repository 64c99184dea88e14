"""A checker is trusted as far as it finds bugs that are there. Each of these is planted, and must be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.journal import recovery, snapshot
from headwater.journal.batch import Waiter
from headwater.journal.journal import Journal
from headwater.journal.writer import LogWriter
from headwater.sim.run import Report, run_seed
from headwater.sim.storage import Storage
from headwater.vclock import VClock
from headwater.wire.xrow import decode_row
from headwater.xlog import BlockEncoder

SEEDS = 150
"""Within so many, each bug must have shown itself."""


def first_violation(**options: Any) -> Report | None:
    for seed in range(SEEDS):
        report = run_seed(seed, **options)
        if report.violation:
            return report
    return None


def test_acknowledgement_before_the_write_is_found() -> None:
    class Hasty(Journal):
        def settle(self, waiter: Waiter) -> None:
            super().settle(lambda error: None)
            waiter(None)

    class HastyNode(Storage):
        journal_class = Hasty

    report = first_violation(node=HastyNode)
    assert report is not None
    assert "acknowledged" in report.violation
    assert report.last


def plant(owner: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, value)


def no_undo_of_lsns(self: Journal, position: int) -> None:
    self._memtx.take_rows()
    self._memtx.rollback_to(position)
    self._prepared_end = self._memtx.undo_end


def no_undo(self: Journal, position: int) -> None:
    self._memtx.take_rows()
    for replica_id in range(32):
        self._memtx.set_lsn(replica_id, self.vclock.get(replica_id))


def seal_without_sync(self: LogWriter) -> None:
    assert self._file is not None
    self._file.append(b"\xd5\x10\xad\xed")
    self._drop_file()


def one_block_per_row(self: BlockEncoder, data: bytes, ends: Any) -> bytes:
    """Splits transactions over blocks."""
    out = []
    at = 0
    while at < len(data):
        _, end = decode_row(data, at)
        out.append(self.encode_one(data[at:end]))
        at = end
    return b"".join(out)


def never_forced(self: LogWriter) -> None:
    self._names_changed = False


make_writer = LogWriter.__init__


def never_durable(self: LogWriter, *args: Any, **options: Any) -> None:
    make_writer(self, *args, **(options | {"sync": False}))


def rename_before_sync(self: snapshot.SnapshotWriter) -> None:
    file = self._file or self._begin()
    self._disk.rename(self._unfinished, self.path)
    self._disk.sync_dir("/data")
    file.append(b"\xd5\x10\xad\xed")
    file.sync()
    file.close()
    self._file = None


def collects_everything(self: LogWriter, needed: VClock) -> list[str]:
    return collect(self, self._vclock)


collect = LogWriter.collect


rotate = Journal.rotate


async def late_seam(self: Journal) -> VClock:
    """Something is written between the picture of a snapshot and the end of its log."""
    await self._world.tasks.sleep(0.01)
    return await rotate(self)


BUGS = {
    "LSNs are not set back": plant(Journal, "_undo", no_undo_of_lsns),
    "a failed write is not undone": plant(Journal, "_undo", no_undo),
    "a failed append is left in the file": plant(LogWriter, "_cut_back", lambda self: None),
    "a file is closed without being forced": plant(LogWriter, "_seal", seal_without_sync),
    "transactions are split over blocks": plant(BlockEncoder, "encode", one_block_per_row),
    "names of logs are never forced": plant(LogWriter, "_force_names", never_forced),
    "a snapshot has its name before it is whole": plant(snapshot.SnapshotWriter, "finish", rename_before_sync),
    "logs are removed that recovery needs": plant(LogWriter, "collect", collects_everything),
    "the queue goes on behind a failure": plant(LogWriter, "_refuse_while_failed", lambda self: None),
    "a torn end is not cut": plant(recovery, "OpenEnd", lambda path, size: None),
    "waiters are told newest first": plant(
        Journal,
        "_tell",
        lambda self, waiters, error: [waiter(error) for waiter in reversed(waiters)],
    ),
    "wal_mode fsync forces nothing": plant(LogWriter, "__init__", never_durable),
    "a snapshot and its log do not meet": plant(Journal, "rotate", late_seam),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    report = first_violation()
    assert report is not None, f"{SEEDS} seeds did not find it"
