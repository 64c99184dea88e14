"""What `headwater lake sync` shows while it runs, and the figures that it gives to Prometheus."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from headwater.cli.lakeguard import size
from headwater.pipeline.lake.bronze import ChangeLog, Written
from headwater.pipeline.lake.layout import Lake
from headwater.pipeline.lake.silver import Stepped
from headwater.pipeline.lake.status import sets_of
from headwater.pipeline.lake.sync import SyncOptions, Watcher, newest_of
from headwater.pipeline.metrics import Metrics, behind_of
from headwater.pipeline.progress import Bars

ASK_SECONDS = 10.0
ASK_TIMEOUT = 3.0


class Screen:
    """Bars for bronze and silver, lines for what is worth one."""

    def __init__(self, lake: Lake, options: SyncOptions, metrics: Metrics) -> None:
        self.watcher = Watcher(self._bronze, self._silver, self._progress)
        self._lake = lake
        self._options = options
        self._metrics = metrics
        self._bars = Bars()
        self._rows = 0
        self._batches = 0
        self._bytes = 0
        self._behind = 0
        self._position: Mapping[str, Any] = {}
        self._log = _Lines(self._bars)

    def __enter__(self) -> Self:
        self._bars.__enter__()
        logger = logging.getLogger("headwater.lake")
        logger.setLevel(logging.INFO)
        logger.addHandler(self._log)
        self.print(f"{self._options.source['hosts']} → {self._lake}; Spark starts, which takes a few seconds")
        self._bronze_bar = self._bars.add("bronze", "rows")
        self._silver_bar = self._bars.add("silver", "changes")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("headwater.lake").removeHandler(self._log)
        self._bars.__exit__(kind, error, trace)

    def print(self, line: str) -> None:
        self._bars.print(line)

    # ---- what happens

    def _bronze(self, written: Written, began: float, ended: float) -> None:
        if not self._batches:
            self.print(f"the first batch is there: {written.rows:,} rows")
        self._rows += written.rows
        self._batches += 1
        self._bytes += written.bytes
        self._bronze_bar.set(self._rows, self._rows + self._behind)
        self._silver_bar.set(self._silver_bar.done, self._rows)
        self._metrics.committed("bronze", written.batch, written.rows, written.bytes, ended - began)
        self._metrics.lags(newest_of(written), began, ended)
        if written.position:
            self._position = written.position

    def _silver(self, stepped: Stepped, seconds: float) -> None:
        self._silver_bar.advance(stepped.changes)
        self._metrics.committed("silver", stepped.last, stepped.rows, 0, seconds)

    def _progress(self, progress: Mapping[str, Any]) -> None:
        found = behind_of(progress)
        self._behind = sum(each.total for each in found)
        self._metrics.durations(progress.get("durationMs", {}))
        for each in found:
            self._metrics.behind(each)

    def summary(self) -> None:
        left = ChangeLog(self._lake.bronze)
        self.print(
            f"{self._rows:,} rows in {self._batches} batches, {size(self._bytes)}; "
            f"bronze holds {left.rows:,} rows, silver took {self._silver_bar.done:,.0f} of them now"
        )

    # ---- what the servers keep

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Now and then ask the servers how much they keep for the stream, where the user may ask that."""
        ended = threading.Event()
        threading.Thread(target=self._ask, args=(ended,), name="asking", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _ask(self, ended: threading.Event) -> None:
        from headwater.cli.lakestatus import server_of
        from headwater.cli.statusask import look
        from headwater.pipeline.hosts import ReplicaSets
        from headwater.pipeline.settings import Options

        uris = [uri for each in ReplicaSets.read(Options(self._options.source)) for uri in each.uris()]
        while not ended.wait(ASK_SECONDS):
            sets = sets_of(self._position)
            for server in (server_of(node, sets) for node in look(uris, follow=False, timeout=ASK_TIMEOUT).nodes):
                if server.retained is not None:
                    self._metrics.retained(server.replicaset, server.retained)


class _Lines(logging.Handler):
    """Lines of the lake's log, between the bars."""

    def __init__(self, bars: Bars) -> None:
        super().__init__(logging.INFO)
        self._bars = bars

    def emit(self, record: logging.LogRecord) -> None:
        self._bars.print(f"{time.strftime('%H:%M:%S')} {record.getMessage()}")
