"""`headwater lake sync`: a replica set streams into a lake until Ctrl-C, or until it is caught up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.lakeguard import EXIT_USAGE, fail, guarded, hours_of, spark_session

if TYPE_CHECKING:
    from headwater.cli.lakewatch import Screen
    from headwater.pipeline.lake.layout import Lake
    from headwater.pipeline.lake.sync import Sync, SyncOptions

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def sync(
    hosts: Annotated[str, typer.Option(help="HOST:PORT,… of a replica set; several sets are parted by semicolons.")],
    lake: Annotated[Path, typer.Option(help="The lake; made if it is not there.")],
    once: Annotated[
        bool, typer.Option("--once/--continuous", help="End when all that was there at the beginning is in the lake.")
    ] = False,
    trigger: Annotated[str, typer.Option(help="A batch so often: 5s, 500ms, 1m.")] = "5s",
    user: Annotated[str, typer.Option(help="Guest without. It needs the role `replication`.")] = "",
    password_file: Annotated[Path | None, typer.Option(help="A file that holds the password.")] = None,
    password_env: Annotated[str, typer.Option(help="An environment variable that holds the password.")] = "",
    system: Annotated[bool, typer.Option("--system", help="System spaces in silver, too (a new lake only).")] = False,
    bronze_only: Annotated[bool, typer.Option("--bronze-only", help="Leave silver as it is.")] = False,
    upkeep: Annotated[
        str, typer.Option(help="So often small files are put together and old ones removed; 0h: never.")
    ] = "1h",
    retention: Annotated[str, typer.Option(help="How long files of older versions stay for their readers.")] = "24h",
    metrics: Annotated[str, typer.Option(help="Prometheus figures: HOST:PORT to serve them, or a file.")] = "",
    master: Annotated[str, typer.Option(help="Spark's master; all cores of this machine without.")] = "",
    conf: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for Spark; may be repeated.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for the stream; may be repeated.")] = None,
) -> None:
    """Bronze gets every change exactly once, silver is the current state of each space. End it as you like and start it
    again: it goes on where it was.

    headwater lake sync --hosts 127.0.0.1:3301,127.0.0.1:3302 --lake data/lake
    """
    if "@" in hosts:
        fail("sync", "logins in --hosts show in the list of processes: take --user and --password-file", EXIT_USAGE)
    source = {"hosts": hosts} | pairs("--option", option)
    if user:
        source["username"] = user
    if password_file is not None:
        source["passwordFile"] = str(password_file.absolute())
    if password_env:
        source["passwordEnv"] = password_env
    with guarded("sync"):
        from headwater.pipeline.lake.layout import Lake
        from headwater.pipeline.lake.sync import SyncOptions
        from headwater.pipeline.session import check

        check()
        seconds = hours_of("sync", "--upkeep", upkeep) * 3600
        options = SyncOptions(
            source, once, trigger_of(trigger), system, bronze_only, seconds, hours_of("sync", "--retention", retention)
        )
        Lake(lake).check_place()
        with Lake(lake).locked():
            _run(Lake(lake), options, metrics, master, pairs("--conf", conf))


def pairs(name: str, given: Sequence[str] | None) -> dict[str, str]:
    """KEY=VALUE of an option that may be repeated."""
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            fail("sync", f"{name} is '{text}'; it should be KEY=VALUE", EXIT_USAGE)
        found[key] = value
    return found


def trigger_of(text: str) -> str:
    """As Spark wants it."""
    from headwater.pipeline.settings import Options

    seconds = Options({"trigger": text}).span("trigger", 5.0)
    return f"{max(1, round(seconds * 1000))} milliseconds"


def _run(lake: Lake, options: SyncOptions, metrics: str, master: str, conf: Mapping[str, str]) -> None:
    from headwater.cli.lakewatch import Screen
    from headwater.pipeline.lake.sync import Sync
    from headwater.pipeline.metrics import Metrics, Outlet

    figures = Metrics()
    outlet = Outlet(figures, metrics) if metrics else None
    with Screen(lake, options, figures) as screen:
        if outlet is not None and outlet.address:
            screen.print(f"figures for Prometheus: {outlet.address}")
        sync = Sync(lake, options, screen.watcher)
        with (
            spark_session("headwater lake sync", master, conf) as spark,
            _ended_by_signals(sync, screen),
            screen.asking(),
        ):
            sync.run(spark)
        screen.summary()
    if outlet is not None:
        outlet.close()


@contextmanager
def _ended_by_signals(sync: Sync, screen: Screen) -> Iterator[None]:
    """The first one ends it after what is being written; the second one at once, which does no harm either."""

    def end(number: int, frame: FrameType | None) -> None:
        if sync.is_ending:
            os._exit(130)
        screen.print("ending; once more ends it at once")
        sync.end()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.flush()
