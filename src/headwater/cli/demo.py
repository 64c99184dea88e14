"""`headwater demo`: a replica set on loopback with a sample space, as `make run` starts it. Its data stays.

The nodes are child processes, each `headwater node` on a directory of its own. One that is killed is started again
after a while, so that what happens to the others can be watched.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.demodata import SPACE, Traffic, fill
from headwater.cli.demolake import DemoLake
from headwater.cli.demoset import DemoError, DemoSet
from headwater.client.link import ConnectionFailed
from headwater.errors import BoxError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

COUNTS = {1: "One node is", 2: "Two nodes are", 3: "Three nodes are"}

TEXT = """
{count} ready, and everybody on this machine may do everything there:

{nodes}
Ctrl-C ends them; `make run` goes on with their data. The space '{space}' has {rows} tuples.
Try, in another terminal:

  .venv/bin/headwater connect {first}
      {space}.select 1
      {space}.by_km.select 3000 iterator=ge
      {space}.insert 100 "Headwater" 1 nil
      {space}.update 100 km+=1
      box.info
      \\help

{more}

Any connector of Tarantool works unchanged. tarantool-python:

  import tarantool
  node = tarantool.connect("{host}", {port})
  print(node.select("{space}", 1))
  print(node.call("box.info")[0]["status"])

asynctnt:

  import asyncio, asynctnt
  async def main():
      async with asynctnt.Connection(host="{host}", port={port}) as node:
          print(await node.select("{space}", [3000], index="by_km", iterator="GE"))
  asyncio.run(main())
"""


@app.command()
def demo(
    port: Annotated[int, typer.Option(help="Of the first node; the others have the next ones.")] = 3301,
    nodes: Annotated[int, typer.Option(min=1, max=31, help="How many.")] = 3,
    host: Annotated[str, typer.Option(help="Where they listen; loopback only.")] = "127.0.0.1",
    work_dir: Annotated[Path, typer.Option(help="Where their data is kept, each in a directory of its own.")] = Path(
        "var/run"
    ),
    traffic: Annotated[bool, typer.Option("--traffic", help="A few writes a second on every node.")] = False,
    lake: Annotated[
        Path | None, typer.Option(help="Stream the set into this lake, by Spark; `make run` takes data/lake.")
    ] = None,
    away: Annotated[float, typer.Option(min=0, help="Seconds for which a node that was killed stays away.")] = 20.0,
) -> None:
    """A replica set on loopback with a sample space; prints what to try and runs until Ctrl-C."""
    try:
        with DemoSet(work_dir, host, port, nodes, say=_say) as members:
            members.start()
            members.name_all()
            rows = fill(members.children[0].uri)
            _say(text_of(members, rows, away))
            with ExitStack() as stack:
                stack.enter_context(Traffic([child.uri for child in members.children if traffic]))
                look = _no_lake
                if lake is not None:
                    log = work_dir / "lake.log"
                    look = stack.enter_context(DemoLake(lake, log, members.children, say=_say)).look
                members.run(away, look)
    except (DemoError, BoxError, ConnectionFailed) as error:
        print(f"headwater demo: {error.message if isinstance(error, BoxError) else error}", file=sys.stderr)
        raise typer.Exit(1) from None


MORE = (
    ("headwater connect {last} -e '{space}.get 100'", "another node has it, too"),
    ("headwater status {first}", "who follows whom, and is all well"),
    ("headwater diff {first} {last}", "do they hold the same"),
    ("headwater cat --follow {directory}/*.xlog", "what the journal gets"),
    ("kill -9 {pid}", "{name} is away for {away:.0f} seconds; write meanwhile,"),
    ("headwater status --watch {first}", "and see how it catches up"),
    ("headwater demo", "the nodes alone: no traffic, no lake"),
)
"""Commands, and what they show."""


def text_of(members: DemoSet, rows: int, away: float) -> str:
    """What is there, and what to try."""
    first, last = members.children[0], members.children[-1]
    lines = (f"  {child.name}  {child.uri}  process {child.pid}  {child.directory}\n" for child in members.children)
    places = {
        "space": SPACE,
        "first": first.uri,
        "last": last.uri,
        "directory": first.directory,
        "name": last.name,
        "pid": last.pid,
        "away": away,
    }
    more = [(command.format(**places), what.format(**places)) for command, what in MORE]
    shown = [(f".venv/bin/{command}" if command.startswith("headwater") else command, what) for command, what in more]
    width = max(len(command) for command, _ in shown) + 3
    return TEXT.format(
        count=COUNTS.get(len(members.children), f"{len(members.children)} nodes are"),
        nodes="".join(lines),
        rows=rows,
        more="\n".join(f"  {command:<{width}}# {what}" for command, what in shown),
        host=first.uri.host,
        port=first.uri.service,
        **places,
    )


def _no_lake() -> None:
    """There is nothing to look at."""


def _say(text: str) -> None:
    print(text, flush=True)
