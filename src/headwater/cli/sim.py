"""`headwater sim`: lives of a node in the simulator, from a seed.

Exit codes: 0 every promise was kept; 1 one was broken. docs/simulation.md tells what is simulated and promised.
"""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from headwater.sim.run import Report

EXIT_VIOLATION = 1

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def sim(
    seed: Annotated[int, typer.Option(metavar="N", help="Which run; the same seed is the same run, always.")] = 0,
    count: Annotated[int, typer.Option(metavar="M", min=1, help="How many seeds, from N on.")] = 1,
    steps: Annotated[int | None, typer.Option(metavar="K", min=1, help="How much is done in each life.")] = None,
    storage: Annotated[
        bool, typer.Option("--storage", help="Journal, snapshots and recovery alone: faster, and judged row by row.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event, and what the node logs.")] = False,
) -> None:
    """Run a node on a simulated disk: crashes at any instant, torn writes, lost data, full and failing disks."""
    logging.basicConfig(
        level=logging.INFO if trace else logging.CRITICAL + 1, format="%(levelname)s %(message)s", stream=sys.stdout
    )
    broken = 0
    for number in range(seed, seed + count):
        report = run_one(number, steps=steps, storage=storage, trace=trace)
        print(summary(report))
        if report.violation:
            broken += 1
            print_violation(report, storage=storage, trace=trace)
    if count > 1:
        print(f"{count} seeds, {broken} with a broken promise")
    if broken:
        raise typer.Exit(EXIT_VIOLATION)


app.command()(sim)


def run_one(seed: int, *, steps: int | None, storage: bool, trace: bool) -> Report:
    if storage:
        from headwater.sim.run import STEPS, Run

        run = Run(seed, steps=steps or STEPS)
        run.simulation.trace.echo = print if trace else None
        return run.run()
    from headwater.sim.node import STEPS as NODE_STEPS
    from headwater.sim.node import NodeRun

    node_run = NodeRun(seed, steps=steps or NODE_STEPS)
    node_run.simulation.trace.echo = print if trace else None
    return node_run.run()


def summary(report: Report) -> str:
    return (
        f"seed {report.seed}: wal_mode {report.wal_mode}, {report.lives} lives, {report.crashes} crashes, "
        f"{report.power_cuts} power cuts, {report.injected} errors injected; {report.acknowledged} transactions "
        f"acknowledged, {report.refused} refused, {report.checkpoints} snapshots; trace {report.digest}"
    )


def print_violation(report: Report, *, storage: bool, trace: bool) -> None:
    print(f"BROKEN PROMISE: {report.violation}")
    if not trace:
        print("The last events:")
        for line in report.last[-30:]:
            print(f"    {line}")
        option = " --storage" if storage else ""
        print(f"All of them: headwater sim --seed {report.seed}{option} --trace")
