"""The list of commands, and how one of them is loaded."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headwater import __version__

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "node": "run a node",
        "connect": "a prompt on a running node",
        "cat": "print the rows of .xlog and .snap files",
        "play": "send the rows of files to a node",
        "status": "a replica set: its nodes, who follows whom, and whether all is well",
        "diff": "do two nodes, snapshots or directories hold the same data",
        "verify": "check every checksum, chain and row of a data directory",
        "sim": "run a node in the simulator, from a seed",
        "lake": "changes of a replica set in Delta tables: sync, status, query, …",
        "demo": "three nodes on loopback with a sample space, as `make run` starts them",
    }
)
"""Command → what it does. Its module is `headwater.cli.<command>`."""


class LazyGroup(TyperGroup):
    """Knows its commands by name; imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if importlib.util.find_spec(f"headwater.cli.{name}") is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"headwater.cli.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        command.short_help = COMMANDS[cmd_name]
        return command


app = typer.Typer(
    cls=LazyGroup,
    name="headwater",
    help="A replicated in-memory store that speaks and stores what Tarantool speaks and stores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options before the command."""
