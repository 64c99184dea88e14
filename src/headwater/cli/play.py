"""`headwater play`: send the rows of `.xlog` and `.snap` files to a server, as if clients did it again.

INSERT, REPLACE, UPDATE, UPSERT and DELETE go as they stand; what is no change of data (elections, confirmations, NOP)
is left out. Rows travel in batches, so that some behind a refused one may have been taken; how many is told.
Exit codes: 0 all were taken; 1 one was refused, a file is damaged, or the server went away; 2 the command line is
wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.rowfilter import RowFilter, UsageError, make_filter
from headwater.cli.rowsource import RowSource
from headwater.cli.rowtext import json_line
from headwater.client.link import ConnectionFailed, WireClient
from headwater.errors import BoxError, Er
from headwater.uri import UriError, parse_uri
from headwater.wire import request
from headwater.wire.constants import Type
from headwater.wire.xrow import Row

EXIT_FAILED = 1
EXIT_USAGE = 2
BATCH = 256
PLAYED = frozenset((Type.INSERT, Type.REPLACE, Type.UPDATE, Type.UPSERT, Type.DELETE))

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def play(
    files_and_uri: Annotated[
        list[str],
        typer.Argument(metavar="FILE… URI", help="Files in this order, then the server's [USER:PASSWORD@]HOST:PORT."),
    ],
    space: Annotated[list[str] | None, typer.Option(help="Only this space, by number or name; repeatable.")] = None,
    replica: Annotated[list[int] | None, typer.Option(help="Only rows that this replica id wrote first.")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="Only this type: INSERT, REPLACE, …")] = None,
    from_lsn: Annotated[int, typer.Option(help="Only rows from this LSN on.")] = 0,
    to_lsn: Annotated[int | None, typer.Option(help="Only rows up to this LSN, itself included.")] = None,
    from_time: Annotated[str | None, typer.Option(help="Only rows written at this time or later.")] = None,
    to_time: Annotated[str | None, typer.Option(help="Only rows written before this time.")] = None,
    show_system: Annotated[bool, typer.Option("--show-system", help="Rows of system spaces too.")] = False,
    skip_duplicates: Annotated[
        bool, typer.Option("--skip-duplicates", help="Go on when an INSERT finds its key taken.")
    ] = False,
) -> None:
    """Replay changes of data on a running server. Stops when a row is refused, and shows it; up to 255 rows behind it
    may be on their way then."""
    try:
        if len(files_and_uri) < 2:
            raise UsageError("give at least one file, and the server's address after it")
        uri = parse_uri(files_and_uri[-1])
        wanted = make_filter(space or (), replica or (), type_ or (), from_lsn, to_lsn, from_time, to_time, show_system)
    except (UsageError, UriError) as error:
        print(f"headwater play: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    source = RowSource("play")
    chosen = select(source, [Path(name) for name in files_and_uri[:-1]], wanted)
    try:
        with closing(WireClient(uri)) as client:
            sent, skipped = send(client, chosen, skip_duplicates=skip_duplicates)
    except (ConnectionFailed, BoxError) as error:
        source.complain(str(error))
    except Refused as refused:
        source.complain(f"{refused.error.message}\n    while sending {json_line(refused.row)}")
        print(f"{refused.before} rows were taken before it, {refused.behind} behind it", file=sys.stderr)
    else:
        print(f"{sent} rows played" + (f", {skipped} duplicates skipped" if skip_duplicates else ""))
    if source.is_damaged:
        raise typer.Exit(EXIT_FAILED)


app.command()(play)


class Refused(Exception):  # noqa: N818
    """The server answered an error to a row."""

    def __init__(self, row: Row, error: BoxError, before: int, behind: int) -> None:
        super().__init__(error.message)
        self.row = row
        self.error = error
        self.before = before
        self.behind = behind
        """Rows of the same batch that were taken all the same."""


def select(source: RowSource, paths: list[Path], wanted: RowFilter) -> Iterator[Row]:
    """Rows that change data and are wanted, up to the first damage."""
    for path in paths:
        for row in source.read(path):
            if wanted.wants(row) and row.type in PLAYED:
                yield row
        if source.is_damaged:
            return


def send(client: WireClient, rows: Iterator[Row], *, skip_duplicates: bool) -> tuple[int, int]:
    """Send all, many at a time. How many were taken, and how many skipped as duplicates."""
    sent = skipped = 0
    while batch := list(islice(rows, BATCH)):
        syncs = [client.next_sync() for _ in batch]
        client.send(b"".join(request.encode(row.type, sync, row.body) for row, sync in zip(batch, syncs, strict=True)))
        answers = client.receive(syncs)
        for row, error in zip(batch, answers, strict=True):
            if error is None:
                sent += 1
            elif skip_duplicates and error.code == Er.TUPLE_FOUND and row.type == Type.INSERT:
                skipped += 1
            else:
                raise Refused(row, error, sent, sum(later is None for later in answers))
    return sent, skipped
