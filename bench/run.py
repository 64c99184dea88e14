"""`make bench`: the same work on Headwater and on the installed Tarantool, alternating, medians, ratios.

    python -m bench [--quick] [--rounds N] [--rows N] [--operations N] [--followed N] [--only SCENE] [--write]

`--write` puts the table into docs/performance.md between its two markers. What each scene gave on both servers in its
last full run is kept in var/bench, so that one scene may be measured again and the table be whole.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.support.headwater import ROOT
from tests.support.tarantool import EXECUTABLE

from bench import following, scenes
from bench.load import compiled
from bench.scenes import KINDS, Bench

SCENES = {**scenes.SCENES, **following.SCENES}
PAGE = ROOT / "docs" / "performance.md"


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table. `better` is 'more' or 'less'; `limit` bounds the ratio, or Headwater's own figure if
    `own`; ratios of seconds are turned round, so that more is always Headwater's gain."""

    name: str
    unit: str
    limit: float
    better: str = "more"
    own: bool = False


GOALS = [
    Goal("recovery from an xlog", "rows/s", 1.0),
    Goal("recovery from a snapshot", "rows/s", 0.7),
    Goal("REPLACE, one connection", "1/s", 0.5),
    Goal("SELECT by key, one connection", "1/s", 0.5),
    Goal("snapshot writing", "rows/s", 0.7),
    Goal("64 connections, both", "1/s", 0.5),
    Goal("memory a tuple of 93 bytes", "bytes", 2.0, "less"),
    Goal("ready on an empty directory", "s", 0.3, "less", own=True),
    Goal("growth of recovery from an xlog", "x for 10x", 13, "less", own=True),
    Goal("growth of recovery from a snapshot", "x for 10x", 13, "less", own=True),
    Goal("growth of inserting", "x for 10x", 13, "less", own=True),
    Goal("catching up, transactions of 1,000", "rows/s", 0.7),
    Goal("far behind, single rows from files", "rows/s", 0.7),
    Goal("JOIN", "rows/s", 2.0),
    Goal("followed live, 64 clients", "rows/s", 0.5),
    Goal("followed live, 64 clients, 16 requests each", "rows/s", 0.5),
    Goal("master's time a row, 3 replicas ÷ 1", "x", 1.6, "less", own=True),
]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


Measured = dict[str, dict[str, list[float]]]
"""Figures by kind of server and name, one of each round."""


def rows_of(figures: Measured) -> list[tuple[str, ...]]:
    """The table: what, Headwater, Tarantool, ratio, goal, met."""
    out: list[tuple[str, ...]] = []
    for goal in GOALS:
        ours = figures.get("headwater", {}).get(goal.name)
        theirs = figures.get("tarantool", {}).get(goal.name)
        if not ours or not theirs:
            continue
        mine, real = statistics.median(ours), statistics.median(theirs)
        judged = mine if goal.own else mine / real
        met = judged >= goal.limit if goal.better == "more" else judged <= goal.limit
        sign = "≥" if goal.better == "more" else "≤"
        target = f"{sign} {goal.limit:g}{' ' + goal.unit if goal.own else ''}"
        out.append(
            (
                f"{goal.name} ({goal.unit})",
                number(mine),
                number(real),
                f"{mine / real:.2f}",
                target,
                "yes" if met else "**no**",
            )
        )
    return out


def table(rows: list[tuple[str, ...]]) -> str:
    head = ("what", "Headwater", "Tarantool", "ratio", "goal", "met")
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines)


def conditions(arguments: argparse.Namespace, version: str) -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return (
        f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {version}, medians of "
        f"{arguments.rounds}, alternating; {arguments.rows:,} rows recovered, {arguments.operations:,} requests "
        f"a load, {arguments.followed:,} rows missed or joined, wal_mode write."
    )


def write_page(text: str) -> None:
    """Put the table between the markers of the page."""
    begin, end = "<!-- table -->", "<!-- end of table -->"
    page = PAGE.read_text()
    if begin not in page or end not in page:
        raise SystemExit(f"{PAGE} has no markers {begin} … {end}")
    PAGE.write_text(re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--rounds", type=int, default=None, help="rounds of each server (5)")
    parser.add_argument("--rows", type=int, default=None, help="rows of the recovered files (3,000,000)")
    parser.add_argument("--operations", type=int, default=None, help="requests of each load (1,000,000)")
    parser.add_argument("--followed", type=int, default=None, help="rows that a replica has missed (1,000,000)")
    parser.add_argument("--only", choices=sorted(SCENES), action="append", help="this scene only; may be repeated")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="this server only; may be repeated")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    arguments.rows = arguments.rows or (300_000 if arguments.quick else 3_000_000)
    arguments.operations = arguments.operations or (200_000 if arguments.quick else 1_000_000)
    arguments.followed = arguments.followed or (200_000 if arguments.quick else 1_000_000)
    return arguments


def measure(arguments: argparse.Namespace, bench: Bench) -> Measured:
    figures: Measured = defaultdict(lambda: defaultdict(list))
    for turn in range(arguments.rounds):
        for scene in arguments.only or SCENES:
            for kind in arguments.kind or KINDS:
                print(f"round {turn + 1} of {arguments.rounds}: {kind}, {scene}", file=sys.stderr)
                for name, value in SCENES[scene](bench, KINDS[kind]).items():
                    figures[kind][name].append(value)
                    print(f"    {name}: {number(value)}", file=sys.stderr)
    return figures


def remembered(directory: Path, figures: Measured) -> Measured:
    """These figures, and the newest ones of what was not measured now."""
    path = directory / "figures.json"
    known: Measured = json.loads(path.read_text()) if path.exists() else {}
    merged = {kind: {**known.get(kind, {}), **figures.get(kind, {})} for kind in KINDS}
    path.write_text(json.dumps(merged, indent=1))
    return merged


def main() -> int:
    arguments = options()
    if EXECUTABLE is None:
        print("no tarantool is installed: there is nothing to compare with (apt install tarantool)", file=sys.stderr)
        return 1
    directory = ROOT / "var" / "bench"
    bench = Bench(directory, compiled(directory), arguments.rows, arguments.operations, arguments.followed)
    chosen = set(arguments.only or SCENES)
    if "recovery" in chosen:
        scenes.prepare(bench)
    if chosen & set(following.SCENES):
        following.prepare(bench)
    figures = measure(arguments, bench)
    print(table(rows_of(figures)))
    if not arguments.quick and not arguments.kind:
        figures = remembered(directory, figures)
    if arguments.write:
        version = "Tarantool " + os.popen(f"{EXECUTABLE} --version").readline().split()[1]
        write_page(conditions(arguments, version) + "\n\n" + table(rows_of(figures)))
    return 0
