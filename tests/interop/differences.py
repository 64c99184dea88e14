"""Every difference between Headwater (which answers as 3.x) and Tarantool 2.6.0, with its reason.

A pair of answers that differs and that no entry here allows fails the test; so does an entry that no call needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Answer = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """`calls` matches names of the script's calls; `real` and `ours` match the answers as text (code: message for
    errors); `reason` says why both are right."""

    calls: str
    real: str
    ours: str
    reason: str

    def allows(self, call: str, real: Answer, ours: Answer) -> bool:
        return bool(
            re.search(self.calls, call) and re.search(self.real, as_text(real)) and re.search(self.ours, as_text(ours))
        )


def as_text(answer: Answer) -> str:
    if answer[0] == "ok":
        return f"ok {answer[1]!r}"
    return f"{answer[0]} {answer[1]}: {answer[2]}"


DIFFERENCES: tuple[Difference, ...] = ()


def explain(call: str, real: Answer, ours: Answer) -> Difference | None:
    """The entry that allows this pair, if there is one."""
    return next((entry for entry in DIFFERENCES if entry.allows(call, real, ours)), None)
