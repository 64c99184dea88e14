"""`headwater lake compact`: many small files become few large ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.lakeguard import fail, guarded

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def compact(
    lake: Annotated[Path, typer.Argument(help="The lake.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Tables, as `lake status` names their places.")] = None,
    target_mib: Annotated[int, typer.Option(help="MiB that a file should have.", min=1)] = 128,
) -> None:
    """Put small files together; a running sync is not disturbed. Old files stay until `lake vacuum`."""
    with guarded("compact"):
        from headwater.pipeline.lake import upkeep
        from headwater.pipeline.lake.layout import Lake
        from headwater.pipeline.progress import Bars

        there = Lake(lake)
        there.charter()
        found = upkeep.places(there)
        unknown = set(tables or ()) - {place.name for place in found}
        if unknown:
            fail(
                "compact", f"no table {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in found)}"
            )
        chosen = [place for place in found if not tables or place.name in tables]
        lines = []
        with Bars() as bars:
            bar = bars.add("compacting", "tables", len(chosen))
            for done in upkeep.compact(there, chosen, target_mib << 20):
                bar.advance(1)
                if done.files_after != done.files_before or done.note:
                    note = f" ({done.note})" if done.note else ""
                    lines.append(f"{done.name}: {done.files_before} files → {done.files_after}{note}")
        print("\n".join(lines) or "there is nothing to put together")
