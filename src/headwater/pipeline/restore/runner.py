"""Work in pieces: on Spark, or one after another right here.

A fault that the user has to hear about comes back as a value and is raised by the driver: so it arrives as it is, and
Spark does not try the same thing four times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

from headwater.errors import BoxError, HeadwaterError
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.restore.staging import refused

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

Tell = Callable[[str, int, int], None]
"""(what is being done, pieces done, pieces in all)."""
_POLL_SECONDS = 0.2


def _silent(what: str, done: int, total: int) -> None:
    """Nobody looks."""


class Runner(Protocol):
    """Who does the pieces."""

    cores: int

    def run(self, call: Callable[[T], R], pieces: Sequence[T], what: str) -> list[R]:
        """The answers in the order of the pieces; the first fault is raised."""


class LocalRunner:
    """This process."""

    cores = 1

    def __init__(self, tell: Tell = _silent) -> None:
        self._tell = tell

    def run(self, call: Callable[[T], R], pieces: Sequence[T], what: str) -> list[R]:
        answers: list[R] = []
        for number, piece in enumerate(pieces):
            self._tell(what, number, len(pieces))
            answers.append(call(piece))
        self._tell(what, len(pieces), len(pieces))
        return answers


class SparkRunner:
    """The executors of a session: a task each piece."""

    def __init__(self, spark: SparkSession, tell: Tell = _silent) -> None:
        self._context: SparkContext = spark.sparkContext
        self._tell = tell
        self.cores = max(1, self._context.defaultParallelism)

    def run(self, call: Callable[[T], R], pieces: Sequence[T], what: str) -> list[R]:
        if not pieces:
            return []
        self._tell(what, 0, len(pieces))
        spread = self._context.parallelize(list(pieces), len(pieces))
        with self._told(what, len(pieces)):
            answers = spread.mapPartitions(partial(_guarded, call)).collect()
        for answer in answers:
            if isinstance(answer, _Fault):
                raise answer.error
        self._tell(what, len(pieces), len(pieces))
        return answers

    @contextmanager
    def _told(self, what: str, total: int) -> Iterator[None]:
        """Tell how far it is, as long as it lasts."""
        group = f"headwater-{uuid4().hex}"
        self._context.setJobGroup(group, what)
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_POLL_SECONDS):
                self._tell(what, self._done(group), total)

        watcher = threading.Thread(target=watch, name="restore-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self._context.setLocalProperty("spark.jobGroup.id", cast(str, None))

    def _done(self, group: str) -> int:
        tracker = self._context.statusTracker()
        done = 0
        for job in tracker.getJobIdsForGroup(group):
            told = tracker.getJobInfo(job)
            for stage in told.stageIds if told is not None else ():
                info = tracker.getStageInfo(stage)
                done += info.numCompletedTasks if info is not None else 0
        return done


class _Fault:
    """What a task would have raised."""

    def __init__(self, error: PipelineError) -> None:
        self.error = error


def _guarded(call: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
    for piece in pieces:
        try:
            yield call(piece)
        except PipelineError as error:
            yield _Fault(error)
        except HeadwaterError as error:
            yield _Fault(PipelineError(error.message if isinstance(error, BoxError) else str(error)))
        except OSError as error:
            yield _Fault(refused(error))
