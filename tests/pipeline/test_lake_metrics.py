"""Figures and bars: what they say."""

from __future__ import annotations

import io
import json
import urllib.request
from pathlib import Path

import pytest

from headwater.pipeline.errors import OptionError
from headwater.pipeline.lake.sync import reason_of
from headwater.pipeline.metrics import Metrics, Outlet, behind_of
from headwater.pipeline.progress import Bars, span

SET = "11111111-0000-4000-8000-000000000000"


def progress(end: dict[str, int], latest: dict[str, int]) -> dict[str, object]:
    offsets = (json.dumps({"v": 1, "sets": {SET: {"phase": "stream", "vclock": each}}}) for each in (end, latest))
    return {
        "sources": [dict(zip(("endOffset", "latestOffset"), offsets, strict=True))],
        "durationMs": {"addBatch": 250},
    }


def filled() -> Metrics:
    metrics = Metrics()
    metrics.committed("bronze", 7, 1000, 4096, 0.5)
    metrics.lags(100.0, 101.5, 102.0)
    for behind in behind_of(progress({"1": 10}, {"1": 25, "2": 3})):
        metrics.behind(behind)
    metrics.retained(SET, 40)
    metrics.durations({"addBatch": 250})
    return metrics


EXPECTED = [
    'headwater_lake_rows_total{layer="bronze"} 1000.0',
    'headwater_lake_bytes_total{layer="bronze"} 4096.0',
    'headwater_lake_batch{layer="bronze"} 7.0',
    "headwater_lake_fetch_lag_seconds 1.5",
    "headwater_lake_emit_lag_seconds 2.0",
    f'headwater_lake_lsn_behind{{replica="1",replicaset="{SET}"}} 15.0',
    f'headwater_lake_lsn_behind{{replica="2",replicaset="{SET}"}} 3.0',
    f'headwater_lake_retained_wal_rows{{replicaset="{SET}"}} 40.0',
    'headwater_lake_duration_seconds{part="addBatch"} 0.25',
]


def test_figures_are_served() -> None:
    outlet = Outlet(filled(), "127.0.0.1:0")
    with urllib.request.urlopen(outlet.address) as answer:
        lines = answer.read().decode().splitlines()
    assert not [line for line in EXPECTED if line not in lines]
    assert any(line.startswith("headwater_lake_source_idle_seconds 0") for line in lines)
    with pytest.raises(OptionError, match="cannot listen there"):
        Outlet(filled(), outlet.address.removeprefix("http://").removesuffix("/metrics"))


def test_figures_are_written_to_a_file(tmp_path: Path) -> None:
    outlet = Outlet(metrics := Metrics(), str(tmp_path / "lake.prom"))
    metrics.committed("silver", 7, 900, 0, 0.1)
    outlet.close()
    assert 'headwater_lake_rows_total{layer="silver"} 900.0' in (tmp_path / "lake.prom").read_text()
    with pytest.raises(OptionError, match="cannot be written"):
        Outlet(metrics, str(tmp_path / "none" / "lake.prom"))


def test_a_source_that_says_nothing_of_its_offset_is_not_behind() -> None:
    assert behind_of({"sources": [{"endOffset": None, "latestOffset": None}]}) == []
    assert behind_of({}) == []


def test_bars_without_a_terminal_are_lines() -> None:
    lines: list[str] = []
    with Bars(say=lines.append, file=io.StringIO()) as bars:
        bar = bars.add("bronze", "rows", 1000)
        bar.set(250)
        bar.advance(250)
        bars.print("a line")
    assert lines == ["a line"], "nothing is said of work that has just begun"
    assert bar.text().startswith("bronze: 500 of 1,000 rows, ")
    bar.set(1200, 1100)
    assert bar.text().startswith("bronze: 1,200 of 1,200 rows, ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.25, "250 ms"), (26, "26 s"), (250, "4 min 10 s"), (7500, "2 h 5 min"), (273_600, "3 d 4 h")],
)
def test_spans_for_people(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_the_reason_is_found_in_an_error_of_spark() -> None:
    trace = "[STREAM_FAILED] Query terminated: Traceback (most recent call last):\n  File x, line 1\n"
    assert reason_of(
        f"{trace}headwater.pipeline.errors.DataLost: Rows 1: 5..9 are gone. Begin anew.\n SQLSTATE: 38000"
    ) == ("Rows 1: 5..9 are gone. Begin anew.")
    assert reason_of(f"{trace}KeyError: 'x'\n") == "KeyError: 'x'"
    assert reason_of("[BAD] words\nmore") == "[BAD] words"
