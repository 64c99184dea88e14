"""The record of long runs: one JSON line a batch in `docs/soak/`, so that a run goes on where the last one ended."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from tests.support.headwater import ROOT

DIRECTORY = ROOT / "docs" / "soak"


class Record:
    """What one long run has done so far. A new count begins when its file is removed."""

    def __init__(self, name: str) -> None:
        self.path = DIRECTORY / f"{name}.jsonl"

    def entries(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def total(self, field: str) -> int:
        return sum(entry[field] for entry in self.entries())

    def add(self, **values: object) -> None:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"day": time.strftime("%Y-%m-%d"), "commit": commit(), **values}) + "\n")


def commit() -> str:
    """What the run was made of; with a `+` where the code is changed since. Empty outside of a repository."""
    head = _git("rev-parse", "--short=10", "HEAD")
    return head + "+" * bool(head and _git("status", "--porcelain", "--untracked-files=no", "--", "src", "tests"))


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
