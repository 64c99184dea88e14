"""From a replica set into a lake: a query of Spark writes bronze, a thread keeps silver up with it.

Spark hands over a batch; its tasks write files, one commit adds them. Silver is made of bronze, so that it may fall
behind without holding up the stream, and then goes in longer steps. Whoever ends this process, however, may start it
again: what was committed is known by its transactions.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake.bronze import Bronze, ChangeLog, Written
from headwater.pipeline.lake.layout import Charter, Lake
from headwater.pipeline.lake.silver import Silver, Stepped
from headwater.pipeline.lake.upkeep import keep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_NAME = "headwater lake sync"
MAX_BYTES = "128m"
"""Of a batch, unless the options say otherwise: so much passes through the driver for silver at once."""
POSITIONS_MAX = 1000
_EXCEPTION = re.compile(r"\s*([A-Za-z_][\w.]*): (\S.*)")
log = logging.getLogger("headwater.lake")


@dataclass(frozen=True)
class SyncOptions:
    """What is to be done."""

    source: Mapping[str, str]
    """Options of the format `tarantool`: hosts, username, passwordFile, …"""
    once: bool = False
    """End when everything that was there at the beginning is in the lake."""
    trigger: str = "5 seconds"
    with_system: bool = False
    bronze_only: bool = False
    upkeep_seconds: float = 3600.0
    """So often small files are put together and old ones removed; 0: never."""
    retention_hours: float = 24.0
    """Files of older versions than that are removed then."""


@dataclass
class Watcher:
    """Is told what happens, from several threads."""

    bronze: Callable[[Written, float, float], None] = lambda written, began, ended: None
    """A batch, when it was taken up and when it was committed, seconds since 1970."""
    silver: Callable[[Stepped, float], None] = lambda stepped, seconds: None
    progress: Callable[[Mapping[str, Any]], None] = lambda progress: None
    """Of Spark's query."""


@dataclass
class _Shared:
    """Between the query and the thread of silver."""

    news: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    positions: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    error: BaseException | None = None


class Sync:
    """One run. The caller holds the lake's lock."""

    def __init__(self, lake: Lake, options: SyncOptions, watcher: Watcher | None = None) -> None:
        self.lake = lake
        self.options = options
        self.charter = _charter(lake, options)
        self._watcher = watcher or Watcher()
        self._shared = _Shared()
        self._query: StreamingQuery | None = None

    @property
    def checkpoint(self) -> Path:
        return self.lake.checkpoint(self.charter)

    def run(self, spark: SparkSession) -> None:
        """Until the end (`once`), an error, or `end`. PipelineError for what befalls the stream."""
        bronze = Bronze(self.lake, self.charter)
        silver = threading.Thread(target=self._silver, name="silver", daemon=True)
        silver.start()
        listener = _listen(spark, self._watcher.progress)
        try:
            self._query = self._start(spark, bronze)
            self._await(self._query)
        finally:
            if self._query is not None and self._query.isActive:
                self._query.stop()
            spark.streams.removeListener(listener)
            self._shared.ending.set()
            self._shared.news.set()
            silver.join()
        if self._shared.error is not None:
            raise self._shared.error

    def end(self) -> None:
        """From another thread, or a signal: end after what is being written now."""
        self._shared.ending.set()

    @property
    def is_ending(self) -> bool:
        return self._shared.ending.is_set()

    # ---- bronze

    def _start(self, spark: SparkSession, bronze: Bronze) -> StreamingQuery:
        own = {"maxBytesPerTrigger": MAX_BYTES, "spoolDir": str(self.lake.own / "spool")}
        given = own | dict(self.options.source) | {"request": "true"}
        rows = spark.readStream.format("tarantool").options(**given).load()
        writer = (
            rows.writeStream.queryName(QUERY_NAME)
            .option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(lambda batch, number: self._take(bronze, batch, number))
        )
        if self.options.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self.options.trigger).start()

    def _take(self, bronze: Bronze, rows: DataFrame, number: int) -> None:
        began = time.time()
        position = self._position(number)
        written = bronze.append(rows, number, position)
        if written is None:
            return
        self._shared.positions[written.batch] = position
        while len(self._shared.positions) > POSITIONS_MAX:
            self._shared.positions.pop(next(iter(self._shared.positions)))
        self._watcher.bronze(written, began, time.time())
        self._shared.news.set()

    def _position(self, number: int) -> Mapping[str, Any]:
        """Where the batch ends, out of Spark's own log, in which it stands before the batch is read."""
        try:
            lines = (self.checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
            found = json.loads(lines[-1])
        except (OSError, ValueError, IndexError):
            return {}
        for each in found.get("sets", {}).values():
            each.pop("schema", None)
        return found if isinstance(found, dict) else {}

    def _await(self, query: StreamingQuery) -> None:
        from pyspark.errors import StreamingQueryException

        try:
            while not self._shared.ending.is_set() and not query.awaitTermination(1):
                pass
        except StreamingQueryException as error:
            raise PipelineError(reason_of(str(error))) from None

    # ---- silver

    def _silver(self) -> None:
        try:
            silver = Silver(self.lake, self.charter)
            kept = time.monotonic()
            while True:
                self._shared.news.wait(1.0)
                last = self._shared.ending.is_set()
                self._shared.news.clear()
                if not self.options.bronze_only:
                    self._catch_up(silver)
                if last:
                    return
                if 0 < self.options.upkeep_seconds <= time.monotonic() - kept:
                    self._keep()
                    kept = time.monotonic()
        except BaseException as error:  # told by the thread that runs the query
            self._shared.error = error
            self._shared.ending.set()

    def _catch_up(self, silver: Silver) -> None:
        began = time.monotonic()
        for stepped in silver.catch_up(self._shared.positions):
            self._watcher.silver(stepped, time.monotonic() - began)
            began = time.monotonic()

    def _keep(self) -> None:
        """It may fail without harm: the next time comes."""
        try:
            tables, freed = keep(self.lake, self.options.retention_hours)
        except Exception as error:
            log.warning("upkeep: %s", error)
        else:
            log.info("upkeep: small files of %d tables put together, %d KiB freed", tables, freed >> 10)


def _charter(lake: Lake, options: SyncOptions) -> Charter:
    """Of the lake that is there, or of a new one. Where its checkpoint is gone another stream begins: with a snapshot,
    and every table anew."""
    if not lake.exists:
        return lake.found(system=options.with_system)
    charter = lake.charter()
    if options.with_system and not charter.system:
        raise PipelineError(
            f"{lake} was begun without the system spaces in silver. Begin another lake with --system; bronze has them "
            "in any case."
        )
    if lake.checkpoint(charter).is_dir():
        return charter
    last = ChangeLog(lake.bronze).last
    if last < charter.base:
        return charter
    log.warning("the checkpoint of %s is gone: a new stream begins, with a snapshot", lake)
    return lake.begin_run(last)


def _listen(spark: SparkSession, told: Callable[[Mapping[str, Any]], None]) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Hands on what the query reports."""

        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            told(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    return listener


def reason_of(text: str) -> str:
    """What was the matter, out of an error of Spark, which wraps it in the traces of two languages: our own sentence,
    else the last exception of Python, else the first line."""
    found = [match for line in text.splitlines() if (match := _EXCEPTION.match(line))]
    own = [match for match in found if match[1].startswith("headwater.")]
    if own:
        return own[-1][2]
    if found:
        return f"{found[-1][1]}: {found[-1][2]}"
    return next((line.strip() for line in text.splitlines() if line.strip()), text)


def newest_of(written: Written) -> float | None:
    """Time of the newest change in a batch."""
    if written.newest is None:
        return None
    return datetime.strptime(written.newest, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
