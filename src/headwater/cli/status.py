"""`headwater status`: a replica set as its nodes see it, and one word about its health.

Exit codes: 0 healthy; 1 not healthy; 2 the command line is wrong, or no node could be asked.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from headwater.cli.statusask import look
from headwater.cli.statusdraw import as_json, draw
from headwater.cli.statusjudge import MAX_LAG, judge, needs_second_look
from headwater.cli.statusnode import Picture
from headwater.uri import Uri, UriError, parse_uri

EXIT_UNHEALTHY = 1
EXIT_USAGE = 2
SECOND_LOOK_SECONDS = 1.0
WIDTH_WITHOUT_TERMINAL = 200

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Watcher:
    """Looks, and keeps the look before."""

    def __init__(self, uris: list[Uri], *, follow: bool, timeout: float, max_lag: float) -> None:
        self.uris = uris
        self.follow = follow
        self.timeout = timeout
        self.max_lag = max_lag
        self.picture = Picture(())
        self.reasons: list[str] = []
        self._before: Picture | None = None

    def look(self) -> None:
        self.picture = look(self.uris, follow=self.follow, timeout=self.timeout)
        self.reasons = judge(self.picture, self._before, max_lag=self.max_lag)
        self._before = self.picture

    @property
    def exit_code(self) -> int:
        if not self.picture.nodes:
            return EXIT_USAGE
        return EXIT_UNHEALTHY if self.reasons else 0


def status(
    uris: Annotated[list[str], typer.Argument(metavar="URI…", help="[USER:PASSWORD@]HOST:PORT of one node or more.")],
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Ask the peers too that the nodes name.")] = True,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = SECOND_LOOK_SECONDS,
    max_lag: Annotated[float, typer.Option(help="Seconds of lag above which the set is not healthy.")] = MAX_LAG,
    timeout: Annotated[float, typer.Option(help="Seconds that a node has for an answer.", min=0.1)] = 3.0,
    as_json_: Annotated[bool, typer.Option("--json", help="One JSON object (with --watch: one a line).")] = False,
) -> None:
    """Draw a replica set: nodes, who follows whom, what is behind, and whether all is well."""
    watcher = Watcher(addresses(uris), follow=follow, timeout=timeout, max_lag=max_lag)
    try:
        if watch:
            _watch(watcher, interval, is_json=as_json_)
        else:
            watcher.look()
            if needs_second_look(watcher.picture):
                time.sleep(interval)
                watcher.look()
            _print(watcher, is_json=as_json_)
    except KeyboardInterrupt:
        pass
    if not watcher.picture.nodes:
        print("headwater status: no node could be asked", file=sys.stderr)
    raise typer.Exit(watcher.exit_code)


app.command()(status)


def addresses(texts: list[str]) -> list[Uri]:
    try:
        return [parse_uri(part) for text in texts for part in text.split(",")]
    except UriError as error:
        print(f"headwater status: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def _print(watcher: Watcher, *, is_json: bool, console: Console | None = None) -> None:
    if is_json:
        print(json.dumps(as_json(watcher.picture, watcher.reasons)), flush=True)
    else:
        (console or _console()).print(draw(watcher.picture, watcher.reasons))


def _watch(watcher: Watcher, interval: float, *, is_json: bool) -> None:
    console = _console()
    if is_json or not console.is_terminal:
        for _ in _looks(watcher, interval):
            _print(watcher, is_json=is_json, console=console)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        for _ in _looks(watcher, interval):
            live.update(draw(watcher.picture, watcher.reasons), refresh=True)


def _looks(watcher: Watcher, interval: float) -> Iterator[None]:
    while True:
        watcher.look()
        yield
        time.sleep(interval)
