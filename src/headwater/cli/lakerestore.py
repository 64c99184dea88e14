"""`headwater lake restore`: a data directory as it was at some moment, out of snapshots and logs or out of a lake."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from headwater.cli.lakeguard import EXIT_USAGE, fail, guarded, size, spark_session

if TYPE_CHECKING:
    from headwater.pipeline.progress import Bar, Bars
    from headwater.pipeline.restore.build import Built, Wish
    from headwater.pipeline.restore.plan import Target
    from headwater.pipeline.restore.runner import Runner

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

NoSpark = Annotated[bool, typer.Option("--no-spark", help="In this process alone: slower, and without Java.")]
Master = Annotated[str, typer.Option(help="Spark's master; all cores of this machine without.")]
Conf = Annotated[list[str] | None, typer.Option(help="KEY=VALUE for Spark; may be repeated.")]


@app.command()
def restore(
    to: Annotated[Path, typer.Option(help="The directory to make: it must be empty, or not exist.")],
    from_: Annotated[
        list[str] | None,
        typer.Option("--from", help="A directory with .snap and .xlog files; repeat it for those of other members."),
    ] = None,
    lake: Annotated[Path | None, typer.Option(help="A lake, in place of files.")] = None,
    replicaset: Annotated[str, typer.Option(help="Which set of the lake, if it has several.")] = "",
    at: Annotated[
        str,
        typer.Option(help="A vclock like '{1: 1042, 2: 77}', a time like 2026-01-31T12:00:00Z, or `latest`."),
    ] = "latest",
    keep_identity: Annotated[
        bool,
        typer.Option("--keep-identity", help="Keep the UUIDs of instance and set: to replace a member that was lost."),
    ] = False,
    instance_uuid: Annotated[str, typer.Option(help="UUID of the instance; drawn anew without.")] = "",
    replicaset_uuid: Annotated[str, typer.Option(help="UUID of the new set; drawn anew without.")] = "",
    allow_unsafe: Annotated[
        bool, typer.Option("--allow-unsafe", help="Keep the identity though the set has changed its leader since.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be built, and write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    no_spark: NoSpark = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Build a data directory from which Headwater and Tarantool start: all spaces, indexes, users and sequences as they
    were at that moment. Transactions are in whole or not at all, synchronous ones only if they were confirmed.

    By default it is the first member of a new replica set, which is safe at any moment. With --keep-identity it is the
    member whose files they are.

    headwater lake restore --from /var/lib/tarantool/a --at 2026-01-31T12:00:00Z --to /tmp/then
    """
    if bool(from_) == (lake is not None):
        fail("restore", "give --from DIR, or --lake DIR, one of them", EXIT_USAGE)
    with guarded("restore"):
        from headwater.pipeline.restore import build
        from headwater.pipeline.restore.build import Wish
        from headwater.pipeline.restore.identity import Identity

        identity = Identity(
            keep_identity, _uuid("--instance-uuid", instance_uuid), _uuid("--replicaset-uuid", replicaset_uuid)
        )
        wish = Wish(tuple(from_ or ()), target_of(at), str(to), identity, allow_unsafe, lake, replicaset)
        build.preflight(wish)
        with runner_of("headwater lake restore", no_spark, master, conf) as (runner, bars):
            _run(runner, wish, (lambda line: None) if as_json else bars.print, dry_run=dry_run, as_json=as_json)


def _run(runner: Runner, wish: Wish, say: Callable[[str], None], *, dry_run: bool, as_json: bool) -> None:
    from headwater.pipeline.restore import build

    if dry_run:
        with build.planned(runner, wish) as material:
            if as_json:
                print(json.dumps({"vclock": material.vclock.as_dict(), "notes": material.notes}))
                return
            for line in build.told(material):
                print(line)
        return
    built = build.restore(runner, wish, say)
    if as_json:
        print(json.dumps(json_of(built)))
        return
    for line in summary(built):
        print(line)


def json_of(built: Built) -> Mapping[str, Any]:
    """Keys stay; new ones may come."""
    return {
        "path": str(built.path),
        "vclock": built.vclock.as_dict(),
        "instance_uuid": str(built.instance),
        "replicaset_uuid": built.replicaset,
        "rows": built.rows,
        "bytes": built.size,
        "spaces": dict(built.spaces),
        "notes": list(built.notes),
        "seconds": round(built.seconds, 3),
    }


def summary(built: Built) -> Iterator[str]:
    """For people."""
    yield f"{built.path}: {built.rows:,} rows, {size(built.size)}, vclock {built.vclock}, {built.seconds:.1f} s"
    for name, count in built.spaces.items():
        yield f"  {name}: {count:,} tuples"
    yield f"instance {built.instance} of replica set {built.replicaset}"
    directory = built.path.parent
    yield f"start it: headwater node --work-dir {directory} --listen HOST:PORT"
    yield f"or: box.cfg{{work_dir = '{directory}', listen = 'HOST:PORT'}} in tarantool"


def target_of(text: str) -> Target:
    """OptionError says what it may be."""
    from headwater.pipeline.restore.plan import Target
    from headwater.pipeline.settings import parse_moment, parse_vclock

    if text.strip().lower() in ("", "latest"):
        return Target()
    if text.lstrip().startswith("{"):
        return Target(vclock=parse_vclock("--at", text))
    return Target(time=parse_moment("--at", text))


def _uuid(option: str, text: str) -> UUID | None:
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        fail("restore", f"{option} is '{text}', which is no UUID", EXIT_USAGE)


@contextmanager
def runner_of(name: str, no_spark: bool, master: str, conf: list[str] | None) -> Iterator[tuple[Runner, Bars]]:
    """Who does the work, and bars that show how far it is."""
    from headwater.cli.lakesync import pairs
    from headwater.pipeline.progress import Bars
    from headwater.pipeline.restore.runner import LocalRunner, SparkRunner

    if no_spark:
        with Bars() as bars:
            yield LocalRunner(Shown(bars)), bars
        return
    from headwater.pipeline.session import check

    check()
    print("starting Spark …", file=sys.stderr)
    with spark_session(name, master, pairs("--conf", conf)) as spark, Bars() as bars:
        yield SparkRunner(spark, Shown(bars)), bars


class Shown:
    """A bar for each kind of work, as long as it lasts."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._known: dict[str, Bar] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        bar = self._known.get(what)
        if bar is None:
            bar = self._known[what] = self._bars.add(what, "pieces", total)
        bar.set(done, total)
        if done >= total:
            self._bars.remove(self._known.pop(what))
