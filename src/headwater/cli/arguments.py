"""The command line of `headwater node`, read by the standard library from the options table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from headwater.cli.flags import flag_of, is_flag
from headwater.options import SETTINGS


def parse(args: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    """The flags that were given, as texts or booleans, and the YAML file. What is wrong is said, and the process ends
    with 2."""
    parser = argparse.ArgumentParser(
        "headwater node", usage="headwater node [FLAGS]; --help tells which", add_help=False, allow_abbrev=False
    )
    parser.add_argument("--config")
    for row in SETTINGS.values():
        if is_flag(row):
            parser.add_argument(flag_of(row.name), dest=row.name, action=argparse.BooleanOptionalAction)
        else:
            parser.add_argument(flag_of(row.name), dest=row.name)
    given = {name: value for name, value in vars(parser.parse_args(args)).items() if value is not None}
    return given, given.pop("config", None)
