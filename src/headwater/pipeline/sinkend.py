"""The end of a write, on the driver: is all that tasks were told still there, and what remains of one that failed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headwater.client.pipe import Pipe
from headwater.errors import BoxError, Er, HeadwaterError
from headwater.pipeline.errors import DataLost
from headwater.pipeline.sinkjob import Job
from headwater.pipeline.sinkplain import covers
from headwater.pipeline.sinkrows import WHOLE, ProgressRow, ProgressSpace
from headwater.pipeline.sinktask import SinkMessage
from headwater.pipeline.sinkwrite import Superseded
from headwater.wire.constants import Type

__all__ = ["abort", "commit"]

_log = logging.getLogger("headwater.sink")


def commit(job: Job, messages: Sequence[SinkMessage]) -> None:
    """DataLost if the one who takes the writes now has not got everything."""
    if job.is_void or not messages:
        return
    job.seeker().surely(_Ending(job, messages))
    rows = sum(message.rows for message in messages)
    _log.info("%d rows of batch %d are in space '%s'", rows, job.batch, job.options.space)


def abort(job: Job, messages: Sequence[SinkMessage | None]) -> None:
    """Tasks that are still at work notice; what is in stays, and that is told."""
    if job.is_void:
        return
    told = [message for message in messages if message is not None]
    rows = sum(message.rows for message in told)
    remains = (
        f"{rows} rows of {len(told)} finished partitions, and whole chunks of others, are in"
        if told
        else "whole chunks of its partitions may be in"
    )
    again = (
        "the same batch, run again, goes on behind them"
        if job.is_lasting
        else "a new write begins anew; with txnAppId and txnVersion it would go on behind them"
    )
    _log.warning(
        "The write into space '%s' failed. %s: they are not taken back; %s.", job.options.space, remains, again
    )
    try:
        job.seeker().surely(lambda pipe: _abort(job, pipe), tries=1)
    except HeadwaterError as error:
        _log.warning("The row of progress could not be closed: %s", error)


class _Ending:
    """What is done with who takes the writes; again with the next one, if that is another one by then."""

    def __init__(self, job: Job, messages: Sequence[SinkMessage]) -> None:
        self._job = job
        self._messages = messages
        self._is_checked = False
        """All rows were seen to be there. From then on the rows of progress may go."""

    def __call__(self, pipe: Pipe) -> None:
        job = self._job
        progress = self._progress(pipe)
        if progress is None:
            self._check_vclocks(pipe)
            return
        rows = self._rows(progress, pipe)
        whole = rows.get(WHOLE)
        if whole is not None and whole.batch >= job.batch and whole.is_done:
            return
        if not self._is_checked:
            self._check(rows, whole, pipe)
            self._is_checked = True
        if job.is_lasting:
            total = sum(message.rows for message in self._messages)
            done = ProgressRow(job.app, WHOLE, job.batch, total, is_done=True, run=job.run)
            pipe.call(Type.REPLACE, progress.replace(done))
        else:
            for row in rows.values():
                pipe.call(Type.DELETE, progress.delete(row))

    def _progress(self, pipe: Pipe) -> ProgressSpace | None:
        if self._job.target is not None:
            return self._job.target.progress
        if self._job.options.transactions == "off":
            return None
        return ProgressSpace.open(pipe, self._messages[0].engine)

    def _rows(self, progress: ProgressSpace, pipe: Pipe) -> dict[int, ProgressRow]:
        try:
            return progress.read_all(pipe, self._job.app)
        except BoxError as error:
            if error.code != Er.NO_SUCH_SPACE:
                raise
            raise self._lost(pipe, self._messages) from None

    def _check(self, rows: Mapping[int, ProgressRow], whole: ProgressRow | None, pipe: Pipe) -> None:
        job = self._job
        if job.run and whole is None:
            raise self._lost(pipe, self._messages)
        if job.run and whole is not None and whole.run != job.run:
            raise Superseded(
                f"The write '{job.app}' was begun anew while this run of it was at work; this one ends here."
            )
        if not any(message.is_transactional for message in self._messages):
            self._check_vclocks(pipe)
            return
        for message in self._messages:
            row = rows.get(message.partition)
            has = None if row is None else (row.batch, row.rows, row.digest)
            if message.rows and has != (job.batch, message.rows, message.digest):
                raise self._lost(pipe, [message])

    def _check_vclocks(self, pipe: Pipe) -> None:
        has = pipe.ballot().vclock
        for message in self._messages:
            if not covers(has, message.vclock):
                raise self._lost(pipe, [message])

    def _lost(self, pipe: Pipe, messages: Sequence[SinkMessage]) -> DataLost:
        message = max(messages, key=lambda message: message.rows)
        return DataLost(
            f"{pipe.uri}, which takes the writes now, has not got all {message.rows} rows of partition "
            f"{message.partition} of this write into space '{self._job.options.space}', which another server had "
            "acknowledged: it was replaced before they had reached the others. Run the same write again. Synchronous "
            "spaces (is_sync) prevent it."
        )


def _abort(job: Job, pipe: Pipe) -> None:
    if job.target is None or job.target.progress is None or not job.run:
        return
    progress = job.target.progress
    rows = progress.read_all(pipe, job.app)
    whole = rows.get(WHOLE)
    if whole is None or whole.run != job.run or whole.is_done:
        return
    if not job.is_lasting:
        for row in rows.values():
            pipe.call(Type.DELETE, progress.delete(row))
    else:
        pipe.call(Type.REPLACE, progress.replace(ProgressRow(job.app, WHOLE, job.batch)))
