"""`headwater node` as a command of typer: its help. To run a node `headwater.cli.arguments` reads the same flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Optional

import typer

from headwater.cli.options import with_option_flags
from headwater.cli.serve import run_node

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

ConfigFile = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates it
    typer.Option("--config", metavar="FILE", help="A YAML file as for one instance of Tarantool 3."),
]


def node(given: Mapping[str, Any], config: str | None = None) -> None:
    """Run a node. Every option may also stand in a YAML file (--config) and in the environment (HEADWATER_<OPTION>);
    a flag has preference, then the environment, then the file."""
    raise typer.Exit(run_node(given, config))


app.command()(with_option_flags(node, {"config": ConfigFile}))
