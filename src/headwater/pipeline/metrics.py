"""Figures of a sync for Prometheus: served over HTTP, or written to a file for node_exporter's textfile collector.

They come from two sides: the lake says what it committed, Spark's `StreamingQueryListener` how far the stream is and
how long a batch took. Lags are told as Flink CDC tells them: between a change and its fetching (`fetch`), and between a
change and its commit to bronze (`emit`).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest, start_http_server

from headwater.pipeline.errors import OptionError

_PREFIX = "headwater_lake"


@dataclass(frozen=True, slots=True)
class Behind:
    """How far a set's stream is behind its server, by replica."""

    replicaset: str
    rows: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())


class Metrics:
    """The figures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._rows = self._counter("rows", "Rows committed", ["layer"])
        self._bytes = self._counter("bytes", "Bytes of the files that were committed", ["layer"])
        self._batches = self._counter("batches", "Batches committed", ["layer"])
        self._batch = self._gauge("batch", "Number of the last batch", ["layer"])
        self._seconds = self._counter("seconds", "Seconds that went into it", ["layer"])
        self._fetch = self._gauge("fetch_lag_seconds", "From the newest change of the last batch to its fetching")
        self._emit = self._gauge("emit_lag_seconds", "From the newest change of the last batch to its commit")
        self._idle = self._gauge("source_idle_seconds", "Since the last batch that had rows")
        self._behind = self._gauge(
            "lsn_behind", "Rows that the server has and the stream not", ["replicaset", "replica"]
        )
        self._retained = self._gauge("retained_wal_rows", "Rows that the server keeps for this stream", ["replicaset"])
        self._duration = self._gauge("duration_seconds", "Parts of Spark's last micro-batch", ["part"])
        self._last_rows = time.monotonic()
        self._idle.set_function(lambda: time.monotonic() - self._last_rows)

    def _counter(self, name: str, words: str, labels: list[str]) -> Counter:
        return Counter(f"{_PREFIX}_{name}", words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", words, labels or [], registry=self.registry)

    # ---- what happens

    def committed(self, layer: str, batch: int, rows: int, size: int, seconds: float) -> None:
        """`layer` is bronze or silver."""
        self._rows.labels(layer).inc(rows)
        self._bytes.labels(layer).inc(size)
        self._batches.labels(layer).inc()
        self._batch.labels(layer).set(batch)
        self._seconds.labels(layer).inc(seconds)

    def lags(self, newest: float | None, fetched: float, emitted: float) -> None:
        """Times of the newest change in a batch, of its fetching, of its commit; seconds since 1970."""
        self._last_rows = time.monotonic()
        if newest is not None:
            self._fetch.set(max(0.0, fetched - newest))
            self._emit.set(max(0.0, emitted - newest))

    def behind(self, behind: Behind) -> None:
        for replica, rows in behind.rows.items():
            self._behind.labels(behind.replicaset, str(replica)).set(rows)

    def retained(self, replicaset: str, rows: int) -> None:
        self._retained.labels(replicaset).set(rows)

    def durations(self, milliseconds: Mapping[str, int]) -> None:
        for part, each in milliseconds.items():
            self._duration.labels(part).set(each / 1000)

    # ---- where they go

    def text(self) -> str:
        return generate_latest(self.registry).decode()

    def serve(self, host: str, port: int) -> int:
        """From now on, in a thread. The port, which may have been 0. OptionError if it is taken."""
        try:
            server, _ = start_http_server(port, host, self.registry)
        except OSError as error:
            raise OptionError(f"--metrics {host}:{port}: cannot listen there ({error.strerror}).") from None
        return int(server.server_address[1])

    def write(self, path: Path) -> None:
        """All of it or nothing."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(self.text(), encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            raise OptionError(f"--metrics {path}: cannot be written ({error.strerror}).") from None


class Outlet:
    """Where the option `--metrics` wants them: `HOST:PORT`, or a file that is written again and again."""

    def __init__(self, metrics: Metrics, text: str, seconds: float = 5.0) -> None:
        self._metrics = metrics
        self._seconds = seconds
        self._ended = threading.Event()
        self.address = ""
        host, colon, port = text.rpartition(":")
        self._path = None if colon and port.isdigit() else Path(text)
        if self._path is None:
            self.address = f"http://{host or '127.0.0.1'}:{metrics.serve(host or '127.0.0.1', int(port))}/metrics"
        else:
            metrics.write(self._path)
            threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self.write()

    def write(self) -> None:
        if self._path is not None:
            self._metrics.write(self._path)

    def close(self) -> None:
        self._ended.set()
        self.write()


# ---- what Spark tells -----------------------------------------------------------------------------


def behind_of(progress: Mapping[str, Any]) -> list[Behind]:
    """Out of a progress of a query, as JSON has it: the source's latest offset less the one it has."""
    found = []
    for source in progress.get("sources", ()):
        end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        for name, vclock in latest.items():
            have = end.get(name, {})
            rows = {int(replica): max(0, lsn - have.get(replica, 0)) for replica, lsn in vclock.items()}
            found.append(Behind(name, rows))
    return found


def _offset(text: object) -> dict[str, dict[str, int]]:
    """Vclock by replica set."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
        assert isinstance(found, Mapping)
        return {name: dict(each.get("vclock", {})) for name, each in found.get("sets", {}).items()}
    except (AssertionError, AttributeError, ValueError):
        return {}
