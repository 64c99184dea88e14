"""A whole write, and what is done on the driver before its tasks.

The write of a DataFrame begins by finding the space or making it, emptying it if it is to be overwritten, and leaving
the row for the whole in the progress space, which `sinkend` closes. A streaming query has no beginning on the driver:
its tasks find all this out themselves, batch by batch.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace

from pyspark.sql import types as spark

from headwater.client.pipe import Pipe
from headwater.pipeline import ddl
from headwater.pipeline.dictionary import Dictionary
from headwater.pipeline.errors import OptionError, PipelineError
from headwater.pipeline.leader import Seeker
from headwater.pipeline.sinkoptions import SinkOptions
from headwater.pipeline.sinkrows import WHOLE, ProgressRow
from headwater.pipeline.sinktarget import Target, aim
from headwater.wire.constants import Type

__all__ = ["Job", "begin"]

_DRAWN = "write-"
"""How the name of a write begins that is drawn for it alone."""
_log = logging.getLogger("headwater.sink")


@dataclass(frozen=True)
class Job:
    """One write of a DataFrame, or one streaming query. Picklable."""

    options: SinkOptions
    schema: spark.StructType
    is_stream: bool
    target: Target | None = None
    """Of a stream it is found by each task."""
    app: str = ""
    """Whose rows of progress they are."""
    batch: int = 0
    run: str = ""
    """Drawn when a write begins; empty for streams."""
    is_void: bool = False
    """There is nothing to write: it is there already."""

    def seeker(self) -> Seeker:
        return Seeker(self.options.members, self.options.patience)

    @property
    def is_lasting(self) -> bool:
        """Does anybody ask later whether it was written?"""
        return self.is_stream or self.options.app is not None


def begin(options: SinkOptions, schema: spark.StructType, *, overwrite: bool) -> Job:
    """A write of a DataFrame. PipelineError for what cannot be."""
    if (options.app is None) != (options.version is None):
        raise OptionError(
            "The options 'txnAppId' and 'txnVersion' go together: the version is the number of the write, greater than "
            "those before it."
        )
    job = Job(
        options,
        schema,
        is_stream=False,
        app=options.app or f"{_DRAWN}{uuid.uuid4()}",
        batch=options.version or 0,
        run=uuid.uuid4().hex,
    )
    return job.seeker().surely(lambda pipe: _begin(job, pipe, overwrite=overwrite))


def _begin(job: Job, pipe: Pipe, *, overwrite: bool) -> Job:
    options = job.options
    known = Dictionary.fetch(pipe)
    found = known.find(options.space)
    if found is not None and options.save_mode == "ignore":
        return replace(job, is_void=True)
    if found is not None and options.save_mode == "errorIfExists":
        raise PipelineError(
            f"Space '{options.space}' exists already at {pipe.uri}, and the option 'saveMode' is errorIfExists."
        )
    target = aim(pipe, known, job.schema, options, is_lasting=job.is_lasting)
    if not _announce(job, target, pipe, overwrite=overwrite):
        return replace(job, is_void=True)
    if overwrite and found is not None:
        ddl.truncate(pipe, found)
    return replace(job, target=target)


def _announce(job: Job, target: Target, pipe: Pipe, *, overwrite: bool) -> bool:
    """Leave the row for the whole. False if this was written before."""
    progress = target.progress
    if progress is None:
        return True
    progress.clear_away(pipe, _DRAWN)
    rows = progress.read_all(pipe, job.app)
    whole = rows.get(WHOLE)
    if whole is not None and whole.batch >= job.batch and (whole.is_done or whole.batch > job.batch):
        _log.warning("version %d of '%s' is written already: nothing is done", job.batch, job.app)
        return False
    if overwrite:
        # What an earlier run of this version has written goes away with the rest.
        for part in rows.keys() - {WHOLE}:
            pipe.call(Type.DELETE, progress.delete(rows[part]))
    pipe.call(Type.REPLACE, progress.replace(ProgressRow(job.app, WHOLE, job.batch, run=job.run)))
    return True
