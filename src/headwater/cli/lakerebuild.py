"""`headwater lake rebuild`: silver anew, from the change log alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.lakeguard import guarded

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def rebuild(lake: Annotated[Path, typer.Argument(help="The lake.")]) -> None:
    """Make all tables of silver and the schema history anew from bronze, which must be whole. Not while a sync runs;
    readers of silver find nothing meanwhile."""
    with guarded("rebuild"):
        from headwater.pipeline.lake import upkeep
        from headwater.pipeline.lake.bronze import ChangeLog
        from headwater.pipeline.lake.layout import Lake
        from headwater.pipeline.lake.silver import Silver
        from headwater.pipeline.progress import Bars

        there = Lake(lake)
        charter = there.charter()
        with there.locked(), Bars() as bars:
            upkeep.forget_silver(there)
            bar = bars.add("silver", "changes", ChangeLog(there.bronze).rows)
            for stepped in Silver(there, charter).catch_up():
                bar.advance(stepped.changes)
        print(f"silver is made of {bar.done:,.0f} changes, all that bronze holds")
