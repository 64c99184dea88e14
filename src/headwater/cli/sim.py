"""`headwater sim`: lives of a node, or of a whole replica set, in the simulator, from a seed.

Exit codes: 0 every promise was kept; 1 one was broken. docs/simulation.md tells what is simulated and promised.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.sim.process import OWNER
from headwater.sim.run import Report

if TYPE_CHECKING:
    from headwater.sim.cluster.run import ClusterReport
    from headwater.sim.cluster.shrink import Recipe

EXIT_VIOLATION = 1

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def sim(
    seed: Annotated[int, typer.Option(metavar="N", help="Which run; the same seed is the same run, always.")] = 0,
    count: Annotated[int, typer.Option(metavar="M", min=1, help="How many seeds, from N on.")] = 1,
    steps: Annotated[int | None, typer.Option(metavar="K", min=1, help="How much is done.")] = None,
    nodes: Annotated[
        int, typer.Option(metavar="N", min=1, max=9, help="How many nodes; from 2 on they are one replica set.")
    ] = 1,
    faults: Annotated[
        str | None, typer.Option(metavar="I,J,…", help="Of a replica set's plan: only these faults.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="A replica set with ordinary options.")] = False,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="A replica set that fails: look for the least that fails.")
    ] = False,
    storage: Annotated[
        bool, typer.Option("--storage", help="Journal, snapshots and recovery alone: faster, and judged row by row.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event, and what the nodes log.")] = False,
) -> None:
    """Run nodes in a simulated world: crashes at any instant, torn writes, bad disks, bad networks, bad clocks."""
    set_up_logging(trace=trace)
    broken = 0
    for number in range(seed, seed + count):
        if nodes > 1:
            broken += not run_set(number, nodes, steps=steps, faults=faults, plain=plain, shrink=shrink, trace=trace)
        else:
            broken += not run_one(number, steps=steps, storage=storage, trace=trace)
    if count > 1:
        print(f"{count} seeds, {broken} with a broken promise")
    if broken:
        raise typer.Exit(EXIT_VIOLATION)


app.command()(sim)


def set_up_logging(*, trace: bool) -> None:
    """What nodes log, with the node's name; nothing without `trace`."""
    handler = logging.StreamHandler(sys.stdout)
    handler.addFilter(_name_node)
    level = logging.INFO if trace else logging.CRITICAL + 1
    logging.basicConfig(level=level, format="    %(node)s %(levelname)s %(message)s", handlers=[handler])


def _name_node(record: logging.LogRecord) -> bool:
    owner = OWNER.get()
    record.node = owner.name if owner is not None else "-"
    return True


# ---- one node


def run_one(number: int, *, steps: int | None, storage: bool, trace: bool) -> bool:
    """Was every promise kept?"""
    report = report_of(number, steps=steps, storage=storage, trace=trace)
    print(summary(report))
    if report.violation:
        option = " --storage" if storage else ""
        print_violation(report.violation, report.last, f"headwater sim --seed {report.seed}{option}", trace=trace)
    return not report.violation


def report_of(seed: int, *, steps: int | None, storage: bool, trace: bool) -> Report:
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


def print_violation(violation: str, last: list[str], command: str, *, trace: bool) -> None:
    print(f"BROKEN PROMISE: {violation}")
    if not trace:
        print("The last events:")
        for line in last[-30:]:
            print(f"    {line}")
        print(f"All of them: {command} --trace")


# ---- a replica set


def run_set(
    seed: int, nodes: int, *, steps: int | None, faults: str | None, plain: bool, shrink: bool, trace: bool
) -> bool:
    """Was every promise kept?"""
    from headwater.sim.cluster.plan import STEPS
    from headwater.sim.cluster.run import ClusterRun
    from headwater.sim.cluster.shrink import Recipe

    chosen = None if faults is None else tuple(int(number) for number in faults.split(",") if number.strip())
    recipe = Recipe(seed, nodes, steps or STEPS, chosen, plain)
    run = ClusterRun(recipe.plan())
    run.simulation.trace.echo = print if trace else None
    report = run.run()
    print(set_summary(report))
    if not report.violation:
        return True
    if shrink:
        recipe, report = smallest(recipe, report)
    print_plan(recipe)
    print_violation(report.violation, report.last, recipe.command(), trace=trace)
    return False


def smallest(recipe: Recipe, report: ClusterReport) -> tuple[Recipe, ClusterReport]:
    from headwater.sim.cluster.run import ClusterRun
    from headwater.sim.cluster.shrink import Shrinker

    shrinker = Shrinker(recipe, report.promise)
    best = shrinker.shrink()
    print(f"shrunk in {shrinker.tries} runs: {best.command()}")
    return best, ClusterRun(best.plan()).run()


def print_plan(recipe: Recipe) -> None:
    """With the numbers that `--faults` takes."""
    print("The plan:")
    chosen = recipe.faults
    for text in replace(recipe, faults=None).plan().lines():
        if chosen is None or not text.startswith("[") or int(text[1 : text.index("]")]) in chosen:
            print(f"    {text}")


def set_summary(report: ClusterReport) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    return (
        f"seed {report.seed}: {report.nodes} nodes ({report.topology}), {report.lives} lives, {report.faults} faults "
        f"({kinds or 'none'}), {report.injected} errors injected; {report.acknowledged} statements acknowledged, "
        f"{report.refused} refused, {report.unanswered} unanswered, {report.lost} lost as wal_mode write may; "
        f"{report.rows} rows written, {report.reads} reads, {report.rejoins} rebootstraps; {report.seconds:.0f} "
        f"virtual seconds, healed in {report.healed_in:.1f}; trace {report.digest}"
    )
