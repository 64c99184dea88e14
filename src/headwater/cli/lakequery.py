"""`headwater lake query`: SQL over bronze and silver."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headwater.cli.lakeguard import guarded, spark_session

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 1000
WIDTH_WITHOUT_TERMINAL = 1000
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def query(
    lake: Annotated[Path, typer.Argument(help="The lake.")],
    sql: Annotated[str, typer.Argument(help="One SELECT; `-` reads it from standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, all rows.")] = False,
    with_spark: Annotated[
        bool, typer.Option("--spark", help="In Spark SQL: slower to start, with all of its functions.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Rows that are drawn; --json gives all of them.", min=1)] = ROWS_MAX,
) -> None:
    """Ask the tables by their names: `bronze`, `schema_history`, and each space's.

    headwater lake query data/lake 'select count(*) from rivers'
    """
    with guarded("query"), ExitStack() as stack:
        batches = _ask(lake, sys.stdin.read() if sql == "-" else sql, stack if with_spark else None)
        if as_json:
            _print_json(batches)
        else:
            _draw(batches, limit)


def _ask(lake: Path, sql: str, stack: ExitStack | None) -> Iterator[pa.RecordBatch]:
    """In Spark, which ends with `stack`, or without it."""
    from headwater.pipeline.lake.layout import Lake
    from headwater.pipeline.lake.query import ask, ask_spark

    if stack is None:
        return ask(Lake(lake), sql)
    Lake(lake).charter()  # before Spark starts
    return ask_spark(Lake(lake), sql, stack.enter_context(spark_session("headwater lake query")))


def _print_json(batches: Iterator[pa.RecordBatch]) -> None:
    from headwater.pipeline.lake.query import as_json

    for batch in batches:
        for line in as_json(batch):
            print(line)


def _draw(batches: Iterator[pa.RecordBatch], limit: int) -> None:
    from headwater.pipeline.lake.query import as_text

    first = next(batches, None)
    if first is None:
        print("no rows")
        return
    rows = (row for batch in chain([first], batches) for row in batch.to_pylist())
    shown = [[as_text(row[name]) for name in first.schema.names] for row in islice(rows, limit)]
    table = Table(box=None, pad_edge=False)
    for field in first.schema:
        table.add_column(field.name, justify="right" if _is_number(field.type) else "left", overflow="fold")
    for cells in shown:
        table.add_row(*cells)
    _console().print(table)
    if len(shown) == limit and next(rows, None) is not None:
        print(f"… more rows than {limit}; --limit or --json shows them", file=sys.stderr)


def _is_number(type: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(type) or kinds.is_floating(type) or kinds.is_decimal(type))


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console
