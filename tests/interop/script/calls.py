"""A call of the script, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """`name` identifies it in differences.py; `only` names the drivers that can say it, empty for all."""

    name: str
    operation: str
    arguments: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()


def call(name: str, operation: str, /, *only: str, **arguments: Any) -> Call:
    return Call(name, operation, arguments, only)
