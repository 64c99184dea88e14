"""Reading a part of a log for what a plan must know of it; runs in a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import BoxError
from headwater.kernels.split import RowError, Stop, Survey
from headwater.pipeline.blocks import Blocks
from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.restore.facts import SYSTEM_MAX, Beyond, Episode, PartFacts, PartTask, Waiting
from headwater.pipeline.storage import Storage
from headwater.wire.xrow import decode_row
from headwater.xlog.blocks import DECOMPRESSED_MAX

REMEDY = "Restore the file from a backup, or add the directory of another member that has these rows (--from)."


@contextmanager
def opened(path: str, size: int) -> Iterator[Blocks]:
    """A file that is read block by block; what is wrong with it is told in a restore's words."""
    source = Storage().open(path, size)
    try:
        yield Blocks(source, force=False, limit=DECOMPRESSED_MAX)
    except SourceDamaged as error:
        raise SourceDamaged(error.path, error.offset, error.lsn, error.reason, REMEDY) from None
    finally:
        source.close()


def survey(task: PartTask) -> PartFacts:
    """Damage is found, not raised: another file may have these rows."""
    try:
        with opened(task.path, task.size) as blocks:
            walk = _Walk(task, blocks)
            try:
                walk.run()
            except SourceDamaged as error:
                walk.facts.damage = error
            if walk.facts.damage is not None:
                walk.facts.damage = _located(walk.facts.damage, task)
            return walk.done()
    except SourceDamaged as error:
        return PartFacts(damage=error)


class _Walk:
    """One part."""

    def __init__(self, task: PartTask, blocks: Blocks) -> None:
        self._task = task
        self._blocks = blocks
        self._survey = Survey(
            task.low, task.high, task.until, SYSTEM_MAX, task.sync_spaces, task.sample_step, task.skips
        )
        self.facts = PartFacts()

    def run(self) -> None:
        task, blocks, facts = self._task, self._blocks, self.facts
        blocks.seek(task.begin)
        for rows in blocks.read(task.end):
            try:
                self._take(rows)
            except RowError as error:
                where = blocks.locate(error.offset)
                raise SourceDamaged(task.path, where, error.lsn or None, error.reason, REMEDY) from None
            if facts.beyond is not None:
                return
        tail = blocks.tail
        facts.is_closed = blocks.closed
        if tail is not None:
            words = f"{tail.kind.value}: {tail.reason}"
            facts.damage = SourceDamaged(task.path, tail.offset, blocks.last_lsn(), words, REMEDY)
            facts.is_torn = True

    def _take(self, rows: bytes) -> None:
        survey, facts = self._survey, self.facts
        at = 0
        while True:
            at, why = survey.walk(rows, at)
            notable = survey.take_notable()
            facts.notable += [(number, rows[begin:end]) for number, begin, end in notable]
            facts.samples += [rows[begin:end] for begin, end in survey.take_samples()]
            if why == Stop.BEYOND:
                facts.beyond = _beyond(rows, at, survey.rows)
            if why != Stop.WORD:
                return
            _, begin, end = notable[-1]
            facts.episodes.append(_episode(survey, rows[begin:end]))
            survey.new_queue()

    def done(self) -> PartFacts:
        survey, facts = self._survey, self.facts
        facts.rows, facts.kept, facts.skipped = survey.rows, survey.kept, survey.skipped
        facts.last, facts.begin, facts.end = dict(survey.last()), survey.begin, survey.end
        facts.spaces = survey.spaces()
        facts.episodes.append(_episode(survey))
        return facts


def _episode(survey: Survey, word: bytes = b"") -> Episode:
    return Episode(tuple(Waiting(*each) for each in survey.waiting()), dict(survey.confirmed()), word)


def _beyond(rows: bytes, at: int, number: int) -> Beyond:
    """The transaction at `at`."""
    begin = None
    while True:
        row, at = decode_row(rows, at)
        if row.replica_id and begin is None:
            begin = row
        if row.is_commit:
            begin = begin or row
            return Beyond(number, begin.replica_id, begin.lsn, row.lsn, row.timestamp)


def _located(error: SourceDamaged, task: PartTask) -> SourceDamaged:
    """With the LSN of the last good row, though that may lie in the part before."""
    if error.lsn is not None or task.before is None:
        return error
    try:
        with opened(task.path, task.size) as blocks:
            blocks.seek(task.before)
            blocks.next(task.before + 1)
            return SourceDamaged(error.path, error.offset, blocks.last_lsn(), error.reason, error.remedy)
    except (SourceDamaged, BoxError):
        return error
