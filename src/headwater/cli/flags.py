"""Options of the node as flags of the command line: names and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.config import ConfigError, from_text
from headwater.options import SETTINGS, Setting


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def is_flag(row: Setting) -> bool:
    """Is it a flag without value?"""
    return row.types[0] == "boolean"


def values_of(given: Mapping[str, Any]) -> dict[str, object]:
    """The texts of flags as values of options. ConfigError names the flag."""
    values: dict[str, object] = {}
    for name, text in given.items():
        row = SETTINGS[name]
        try:
            values[name] = from_text(row, text) if isinstance(text, str) else text
        except ValueError as error:
            raise ConfigError(f"flag {flag_of(name)}: {error}") from None
    return values
