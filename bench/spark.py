"""`make bench-spark`: the pipeline beside what Spark and the server do by themselves, in one run, with the ratio.

    python -m bench.spark [--quick] [--rounds N] [--rows N] [--only SCENE] [--write]

A scene lies in a module of `MODULES`, which has `SCENES` (name → function of a `SparkBench` → figures) and `GOALS`. A
figure is a pair: the pipeline's and what it is held against, both of the same unit and measured side by side; where the
goal is no ratio the second one is None. `--write` puts the table into docs/performance.md between its markers. What
each scene gave in its last full run is kept in var/bench, so that one may be measured again and the table be whole.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.headwater import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODULES = ("bench.sparkfiles", "bench.sparkstream", "bench.sparksink", "bench.sparkrestore")
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- spark table -->", "<!-- end of spark table -->"

Pair = tuple[float, float | None]
Figures = Mapping[str, Pair]


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table. `better` is 'more' or 'less'; without `base` the pipeline's own figure is judged."""

    name: str
    unit: str
    limit: float
    base: str = ""
    """What it is held against."""
    better: str = "more"


@dataclass
class SparkBench:
    """Where and how much; one session for all scenes."""

    directory: Path
    rows: int
    quick: bool = False
    _made: list[SparkSession] = field(default_factory=list)

    @cached_property
    def spark(self) -> SparkSession:
        from headwater.pipeline.session import session

        local = self.data("spark-local")
        config = {"spark.driver.memory": "4g", "spark.local.dir": str(local), "spark.log.level": "ERROR"}
        made = session("bench", config=config)
        self._made.append(made)
        return made

    def data(self, name: str) -> Path:
        return self.directory / name

    def close(self) -> None:
        for made in self._made:
            made.stop()


Scene = Callable[[SparkBench], Figures]


def seconds(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def best(work: Callable[[], object], times: int = 2) -> float:
    """Seconds of the quickest run: the machine is shared, and the first run warms up what is compiled as it runs."""
    return min(seconds(work) for _ in range(times))


def quickest(works: Mapping[str, Callable[[], object]], times: int = 3) -> dict[str, float]:
    """Seconds of the quickest run of each, taken in turns: what else the machine does then hits all of them alike."""
    found: dict[str, float] = {}
    for _ in range(times):
        for name, work in works.items():
            took = seconds(work)
            found[name] = min(took, found.get(name, took))
    return found


def to_noop(frame: DataFrame) -> None:
    """Every row and column is made, and nothing is written."""
    frame.write.format("noop").mode("overwrite").save()


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


# ---- the table ------------------------------------------------------------------------------------


def rows_of(goals: list[Goal], figures: Mapping[str, list[Pair]]) -> list[tuple[str, ...]]:
    out = []
    for goal in goals:
        pairs = figures.get(goal.name)
        if not pairs:
            continue
        ours = statistics.median(pair[0] for pair in pairs)
        bases = [pair[1] for pair in pairs if pair[1] is not None]
        ratio = statistics.median(one / two for one, two in pairs if two is not None) if bases else None
        judged = ours if ratio is None else ratio
        met = judged >= goal.limit if goal.better == "more" else judged <= goal.limit
        target = f"{'≥' if goal.better == 'more' else '≤'} {goal.limit:g}{'' if ratio is not None else ' ' + goal.unit}"
        against = f"{goal.base}: {number(statistics.median(bases))}" if bases else "–"
        shown = "–" if ratio is None else f"{ratio:.2f}"
        out.append((f"{goal.name} ({goal.unit})", number(ours), against, shown, target, "yes" if met else "**no**"))
    return out


def table(rows: list[tuple[str, ...]]) -> str:
    head = ("what", "pipeline", "held against", "ratio", "goal", "met")
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def conditions(arguments: argparse.Namespace) -> str:
    import pyspark

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.machine())
    return (
        f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, PySpark {pyspark.__version__}, "
        f"local[*], medians of {arguments.rounds} rounds; {arguments.rows:,} rows."
    )


def write_page(text: str) -> None:
    page = PAGE.read_text()
    if BEGIN not in page:
        page = (
            page.rstrip("\n") + f"\n\n## The pipeline\n\n`make bench-spark ARGS=--write` makes it.\n\n{BEGIN}\n{END}\n"
        )
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{text}\n{END}", page, flags=re.DOTALL))


# ---- running --------------------------------------------------------------------------------------


def load() -> tuple[dict[str, Scene], list[Goal]]:
    scenes: dict[str, Scene] = {}
    goals: list[Goal] = []
    for name in MODULES:
        if importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            scenes.update(module.SCENES)
            goals.extend(module.GOALS)
    return scenes, goals


def options(scenes: Mapping[str, Scene]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--rounds", type=int, default=None, help="rounds of each scene (3)")
    parser.add_argument("--rows", type=int, default=None, help="rows (8,000,000)")
    parser.add_argument("--only", choices=sorted(scenes), action="append", help="this scene only; may be repeated")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.rows = arguments.rows or (800_000 if arguments.quick else 8_000_000)
    return arguments


def measure(arguments: argparse.Namespace, bench: SparkBench, scenes: Mapping[str, Scene]) -> dict[str, list[Pair]]:
    figures: dict[str, list[Pair]] = {}
    for turn in range(arguments.rounds):
        for scene in arguments.only or scenes:
            print(f"round {turn + 1} of {arguments.rounds}: {scene}", file=sys.stderr)
            for name, pair in scenes[scene](bench).items():
                figures.setdefault(name, []).append(pair)
                ours, base = pair
                told = f", held against {number(base)}: {ours / base:.2f}" if base is not None else ""
                print(f"    {name}: {number(ours)}{told}", file=sys.stderr)
    return figures


def remembered(directory: Path, figures: Mapping[str, list[Pair]]) -> dict[str, list[Pair]]:
    """These figures, and the newest ones of what was not measured now."""
    path = directory / "spark.json"
    known: dict[str, list[Pair]] = json.loads(path.read_text()) if path.exists() else {}
    merged = {**known, **figures}
    path.write_text(json.dumps(merged, indent=1))
    return merged


def main() -> int:
    scenes, goals = load()
    arguments = options(scenes)
    directory = ROOT / "var" / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    bench = SparkBench(directory, arguments.rows, arguments.quick)
    try:
        figures = measure(arguments, bench, scenes)
    finally:
        bench.close()
    print(table(rows_of(goals, figures)))
    if not arguments.quick:
        figures = remembered(directory, figures)
    if arguments.write:
        write_page(conditions(arguments) + "\n\n" + table(rows_of(goals, figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
