"""`headwater demo`: a node on loopback with a sample space, as `make run` starts it. Its data stays."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.logs import start_logging
from headwater.cli.serve import plain, serve
from headwater.config import Config
from headwater.errors import BoxError
from headwater.options import Options

if TYPE_CHECKING:
    from headwater.box.instance import Box

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SPACE = "rivers"
FORMAT = [
    {"name": "id", "type": "unsigned"},
    {"name": "name", "type": "string"},
    {"name": "km", "type": "unsigned"},
    {"name": "mouth", "type": "string", "is_nullable": True},
]
ROWS = [
    [1, "Nile", 6650, "Mediterranean Sea"],
    [2, "Amazon", 6400, "Atlantic Ocean"],
    [3, "Yangtze", 6300, "East China Sea"],
    [4, "Mississippi", 6275, "Gulf of Mexico"],
    [5, "Yenisei", 5539, "Kara Sea"],
    [6, "Danube", 2850, "Black Sea"],
    [7, "Okavango", 1700, None],
]

TEXT = """
Headwater is ready at {address}, and everybody on this machine may do everything there.
Its data is in {directory}, its log in {log}. Ctrl-C ends it; `make run` goes on where it was.

The space '{space}' has {count} tuples. Try, in another terminal:

  .venv/bin/headwater connect {address}
      {space}.select 1
      {space}.by_km.select 3000 iterator=ge
      {space}.insert 100 "Headwater" 1 nil
      {space}.update 100 km+=1
      box.info
      \\help

  .venv/bin/headwater cat --follow {directory}/*.xlog

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
    listen: Annotated[str, typer.Option(help="Where to listen; loopback only.")] = "127.0.0.1:3301",
    work_dir: Annotated[str, typer.Option(help="Where the data is kept.")] = "var/run",
) -> None:
    """A node on loopback with a sample space; prints what to try and runs until Ctrl-C."""
    os.makedirs(work_dir, exist_ok=True)
    try:
        options = Options.load({"listen": listen, "work_dir": work_dir, "dev": True, "log": "headwater.log"})
    except BoxError as error:
        print(f"headwater: {plain(error)}", file=sys.stderr)
        raise typer.Exit(2) from None
    start_logging(options)
    code = serve(Config(options), lambda box: _ready(box, work_dir))
    if code:
        print(_why(work_dir), file=sys.stderr)
        print(
            "Is it running already? A second one needs an address and a directory of its own:\n"
            "    make run ARGS='--listen 127.0.0.1:3302 --work-dir var/run2'",
            file=sys.stderr,
        )
    raise typer.Exit(code)


def _ready(box: Box, work_dir: str) -> None:
    fill(box)
    address = box.server.addresses[0]
    host, _, port = address.rpartition(":")
    count = len(box.schema.space(SPACE))
    places = {"directory": work_dir, "log": f"{work_dir}/headwater.log", "space": SPACE, "count": count}
    print(TEXT.format(address=address, host=host, port=port, **places), flush=True)


def fill(box: Box) -> None:
    """Make the sample space, once."""
    from headwater.box.credentials import context_of_node

    context = context_of_node(box)
    if context.lookup_space(SPACE) is not None:
        return
    with context.atomic():
        context.call("box.schema.space.create", SPACE, {"format": FORMAT})
        context.call(f"box.space.{SPACE}:create_index", "id", {"parts": ["id"]})
        context.call(f"box.space.{SPACE}:create_index", "by_name", {"parts": ["name"]})
        context.call(f"box.space.{SPACE}:create_index", "by_km", {"parts": ["km"], "unique": False})
    for row in ROWS:
        context.space(SPACE).insert(row)


def _why(work_dir: str) -> str:
    """The last line of the log."""
    with open(os.path.join(work_dir, "headwater.log"), encoding="utf-8") as log:
        lines = log.read().rstrip("\n").split("\n")
    return f"headwater: {lines[-1].partition('> ')[2]}"
