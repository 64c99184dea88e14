"""`headwater lake`: changes of a replica set in Delta tables, and what is done with them. Each command is a module of
this package with a typer app named `app`, imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "sync": ("lakesync", "stream a replica set into a lake"),
        "status": ("lakestatus", "what a lake holds, how far it is behind, how fast it goes"),
        "query": ("lakequery", "SQL over the tables of a lake"),
        "compact": ("lakecompact", "put small files together"),
        "vacuum": ("lakevacuum", "remove files that no reader needs any more"),
        "rebuild": ("lakerebuild", "make silver anew from bronze"),
        "restore": ("lakerestore", "a data directory as it was at some moment, from files or a lake"),
        "load": ("lakeload", "a data directory out of Parquet files"),
        "audit": ("lakeaudit", "do replicas, files and a lake hold the same data?"),
    }
)
"""Command → its module in `headwater.cli`, and what it does."""


class LakeGroup(TyperGroup):
    """Knows its commands by name; imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(f"headwater.cli.{module}")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, words = COMMANDS[cmd_name]
        command = typer.main.get_command(importlib.import_module(f"headwater.cli.{module}").app)
        command.name = cmd_name
        command.short_help = words
        return command


app = typer.Typer(cls=LakeGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _lake() -> None:
    """A lake is a directory: bronze is the log of all changes, silver the current state of each space. Needs the extra
    `spark` of the package headwater, and for `sync` Java 17."""
