"""The command `headwater`. Each subcommand is a module of this package with a typer app named `app`, imported when
it is asked for, so that a node starts without what the others need."""

from headwater.cli.main import main

__all__ = ["main"]
