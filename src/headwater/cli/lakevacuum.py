"""`headwater lake vacuum`: what the last versions of the tables do not name goes, once it is old enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.lakeguard import guarded, hours_of, size

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def vacuum(
    lake: Annotated[Path, typer.Argument(help="The lake.")],
    retention: Annotated[str, typer.Option(help="Files younger than this stay: 7d, 12h, 30m.")] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove data files of versions that are older than the retention, what killed tasks left, and tables of spaces
    that were dropped. Readers of older versions (time travel, queries that run for long) lose them."""
    with guarded("vacuum"):
        from headwater.pipeline.lake import upkeep
        from headwater.pipeline.lake.layout import Lake
        from headwater.pipeline.progress import Bars

        there = Lake(lake)
        there.charter()
        hours = hours_of("vacuum", "--retention", retention)
        files, freed, lines = 0, 0, []
        with Bars() as bars:
            bar = bars.add("vacuuming", "tables", len(upkeep.places(there)))
            for done in upkeep.vacuum(there, hours, dry_run=dry_run, is_busy=there.is_written):
                bar.advance(1)
                gone = done.files_before - done.files_after
                files, freed = files + gone, freed + done.bytes
                if gone:
                    what = done.note or f"{gone} files"
                    lines.append(f"{done.name}: {what}, {size(done.bytes)}")
        print(*lines, sep="\n", end="\n" if lines else "")
        print(f"{'would free' if dry_run else 'freed'} {size(freed)} in {files} files")
