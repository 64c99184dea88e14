"""`headwater verify`: is every file of a data directory sound, and do they follow each other?

Exit codes: 0 nothing is wrong (what is only worth knowing is told as a note); 1 something is; 2 there is nothing to
look at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.env.disk import RealDisk
from headwater.xlog.audit import FileReport, Report, audit

EXIT_DAMAGED = 1
EXIT_USAGE = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the .snap files lie, and the .xlog files.")],
    wal_dir: Annotated[Path | None, typer.Option(help="Where the .xlog files lie, if elsewhere.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what is wrong.")] = False,
) -> None:
    """Check every checksum, row, transaction and the chain of files by their vclocks."""
    directories = [str(path) for path in (directory, wal_dir) if path is not None]
    try:
        report = audit(RealDisk(), directories)
    except OSError as error:
        print(f"headwater verify: {error.filename or directory}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    if not report.files:
        print(f"headwater verify: no .snap or .xlog file in {' or '.join(directories)}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE)
    print_report(report, quiet=quiet)
    if report.problem_count:
        raise typer.Exit(EXIT_DAMAGED)


app.command()(verify)


def print_report(report: Report, *, quiet: bool) -> None:
    for file in report.files:
        if not quiet or file.problems:
            print(file_line(file))
        for text in () if quiet else file.notes:
            print(f"    note: {text}")
        for text in file.problems:
            print(f"    PROBLEM: {text}")
        if file.unlisted:
            print(f"    PROBLEM: and {file.unlisted} more")
    for text in () if quiet else report.notes:
        print(f"note: {text}")
    for text in report.problems:
        print(f"PROBLEM: {text}")
    if not quiet or report.problem_count:
        print(summary(report))


def file_line(file: FileReport) -> str:
    """Name, how much is in it, and from which vclock to which it goes."""
    name = file.path.rsplit("/", 1)[-1]
    state = "damaged" if file.problems else "ok"
    if file.meta is None:
        return f"{name}  {file.size:>12,} bytes  {state}"
    begin = file.meta.vclock
    span = f"{begin} → {file.end}" if begin is not None and file.end != begin else f"{begin}"
    return f"{name}  {file.size:>12,} bytes  {file.rows:>10,} rows in {file.blocks:,} blocks  {span}  {state}"


def summary(report: Report) -> str:
    total = sum(file.rows for file in report.files)
    count = report.problem_count
    verdict = f"{count} problem{'s' if count > 1 else ''}" if count else "nothing is wrong"
    return f"{len(report.files)} files, {total:,} rows: {verdict}"
