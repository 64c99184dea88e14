"""`headwater cat`: print the rows of `.xlog` and `.snap` files.

Exit codes: 0 every row was printed; 1 something in a file is damaged, and what could be read was printed; 2 the command
line is wrong. A file that simply ends, because its writer was killed or is still at work, is no damage.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.rowfilter import UsageError, make_filter
from headwater.cli.rowsource import RowSource
from headwater.cli.rowtext import TABLE_HEAD, json_line, table_line

EXIT_DAMAGED = 1
EXIT_USAGE = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def cat(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=".xlog and .snap files, in this order.")],
    table: Annotated[bool, typer.Option("--table", help="Columns for people instead of JSON lines.")] = False,
    space: Annotated[list[str] | None, typer.Option(help="Only this space, by number or name; repeatable.")] = None,
    replica: Annotated[list[int] | None, typer.Option(help="Only rows that this replica id wrote first.")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="Only this type: INSERT, CONFIRM, …")] = None,
    from_lsn: Annotated[int, typer.Option(help="Only rows from this LSN on.")] = 0,
    to_lsn: Annotated[int | None, typer.Option(help="Only rows up to this LSN, itself included.")] = None,
    from_time: Annotated[str | None, typer.Option(help="Only rows written at this time or later.")] = None,
    to_time: Annotated[str | None, typer.Option(help="Only rows written before this time.")] = None,
    show_system: Annotated[bool, typer.Option("--show-system", help="Rows of system spaces too.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, and for the files after it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Skip what is damaged and go on behind it.")] = False,
) -> None:
    """Print rows as JSON lines, as Tarantool's own `xlog.pairs` shows them, or as a table."""
    try:
        wanted = make_filter(space or (), replica or (), type_ or (), from_lsn, to_lsn, from_time, to_time, show_system)
    except UsageError as error:
        print(f"headwater cat: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    if table:
        print(TABLE_HEAD)
    source = RowSource("cat", force=force)
    try:
        for number, file in enumerate(files):
            is_last = number == len(files) - 1
            for row in source.read(file, follow=follow and is_last):
                if wanted.wants(row):
                    print(table_line(row, wanted.names) if table else json_line(row), flush=follow)
    except KeyboardInterrupt:
        pass
    if source.is_damaged:
        raise typer.Exit(EXIT_DAMAGED)


app.command()(cat)
