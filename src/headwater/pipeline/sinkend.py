"""The end of a write, on the driver: is all that tasks were told still there, and what remains of one that failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

from headwater.client import ConnectionFailed
from headwater.client.pipe import Pipe
from headwater.errors import BoxError, Er, HeadwaterError
from headwater.pipeline.errors import DataLost
from headwater.pipeline.leader import is_elsewhere, is_passing
from headwater.pipeline.sinkjob import Job
from headwater.pipeline.sinkplain import covers
from headwater.pipeline.sinkrows import WHOLE, ProgressRow, ProgressSpace
from headwater.pipeline.sinktask import SinkMessage
from headwater.pipeline.sinkwrite import TRIES, Superseded
from headwater.wire.constants import Type

__all__ = ["abort", "commit"]

T = TypeVar("T")
_log = logging.getLogger("headwater.sink")


def commit(job: Job, messages: Sequence[SinkMessage]) -> None:
    """DataLost if the one who takes the writes now has not got everything."""
    if job.is_void or not messages:
        return
    _surely(job, lambda pipe: _commit(job, messages, pipe))
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
        else ("whole chunks of its partitions may be in")
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
        _surely(job, lambda pipe: _abort(job, pipe), tries=1)
    except HeadwaterError as error:
        _log.warning("The row of progress could not be closed: %s", error)


def _commit(job: Job, messages: Sequence[SinkMessage], pipe: Pipe) -> None:
    progress = _progress(job, messages, pipe)
    if progress is None:
        _check_vclocks(job, messages, pipe)
        return
    rows = _rows(job, messages, progress, pipe)
    whole = rows.get(WHOLE)
    if whole is not None and whole.batch >= job.batch and whole.is_done:
        return
    if job.run and whole is None:
        raise _lost(job, messages, pipe)
    if job.run and whole is not None and whole.run != job.run:
        raise Superseded(f"The write '{job.app}' was begun anew while this run of it was at work; this one ends here.")
    if any(message.is_transactional for message in messages):
        _check_rows(job, messages, rows, pipe)
    else:
        _check_vclocks(job, messages, pipe)
    if not job.is_lasting:
        for row in rows.values():
            pipe.call(Type.DELETE, progress.delete(row))
    else:
        total = sum(message.rows for message in messages)
        done = ProgressRow(job.app, WHOLE, job.batch, total, True, run=job.run)
        pipe.call(Type.REPLACE, progress.replace(done))


def _progress(job: Job, messages: Sequence[SinkMessage], pipe: Pipe) -> ProgressSpace | None:
    if job.target is not None:
        return job.target.progress
    if job.options.transactions == "off":
        return None
    return ProgressSpace.open(pipe, messages[0].engine)


def _rows(job: Job, messages: Sequence[SinkMessage], progress: ProgressSpace, pipe: Pipe) -> dict[int, ProgressRow]:
    try:
        return progress.read_all(pipe, job.app)
    except BoxError as error:
        if error.code != Er.NO_SUCH_SPACE:
            raise
        raise _lost(job, messages, pipe) from None


def _check_rows(job: Job, messages: Sequence[SinkMessage], rows: dict[int, ProgressRow], pipe: Pipe) -> None:
    for message in messages:
        row = rows.get(message.partition)
        if not message.rows:
            continue
        if row is None or (row.batch, row.rows, row.digest) != (job.batch, message.rows, message.digest):
            raise _lost(job, [message], pipe)


def _check_vclocks(job: Job, messages: Sequence[SinkMessage], pipe: Pipe) -> None:
    has = pipe.ballot().vclock
    for message in messages:
        if not covers(has, message.vclock):
            raise _lost(job, [message], pipe)


def _lost(job: Job, messages: Sequence[SinkMessage], pipe: Pipe) -> DataLost:
    message = max(messages, key=lambda message: message.rows)
    return DataLost(
        f"{pipe.uri}, which takes the writes now, has not got all {message.rows} rows of partition {message.partition} "
        f"of this write into space '{job.options.space}', which another server had acknowledged: it was replaced "
        "before they had reached the others. Run the same write again. Synchronous spaces (is_sync) prevent it."
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


def _surely(job: Job, step: Callable[[Pipe], T], tries: int = TRIES) -> T:
    """With whoever takes the writes."""
    avoid = ""
    seeker = job.seeker()
    while True:
        with closing(seeker.leader(avoid)) as pipe:
            try:
                return step(pipe)
            except (BoxError, ConnectionFailed) as error:
                tries -= 1
                if not is_passing(error) or not tries:
                    raise
                avoid = pipe.uri.address if is_elsewhere(error) else ""
