"""The command `headwater`. Each subcommand is a module of this package with a typer app named `app`, imported when
it is asked for, so that a node starts without what the others need."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """What the script `headwater` calls. A reader that closes its end of a pipe is no error.

    `headwater node` goes by another door: typer alone would take half of the time in which a node is to be ready.
    """
    try:
        if sys.argv[1:2] == ["node"] and "--help" not in sys.argv:
            from headwater.cli.arguments import parse
            from headwater.cli.serve import run_node

            sys.exit(run_node(*parse(sys.argv[2:])))
        from headwater.cli.commands import app

        app()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


__all__ = ["main"]
