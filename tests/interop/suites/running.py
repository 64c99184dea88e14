"""Runs a suite in a process of its own and reads what became of each test."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.headwater import ROOT


@dataclass(slots=True)
class Outcome:
    """Which tests passed; why the others did not."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def reasons(self) -> collections.Counter[str]:
        return collections.Counter(cause(text) for text in self.failed.values())

    def save(self, name: str) -> None:
        """Every test and what became of it, to look into after the run."""
        lines = [f"passed {test}" for test in self.passed]
        lines += [f"skipped {test}: {why}" for test, why in self.skipped.items()]
        lines += [f"failed {test}: {cause(why)}\n{why}" for test, why in self.failed.items()]
        REPORTS.mkdir(parents=True, exist_ok=True)
        (REPORTS / f"{name}.txt").write_text("\n".join(lines))

    def report(self, name: str) -> str:
        lines = [f"{name}: {len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"]
        lines += [f"  {count:4} {reason}" for reason, count in self.reasons().most_common()]
        return "\n".join(lines)


LAUNCHER = Path(__file__).with_name("launcher.py")

REPORTS = ROOT / "var" / "suites"

CAUSES = {
    "EVAL": r"EVAL|eval\b.*not supported|Lua|no Lua",
    "SQL": r"SQL|EXECUTE|PREPARE|execute",
    "console Lua": r"console|admin|unexpected resp",
    "push": r"push",
    "TLS": r"ssl|SSL|transport",
}


def cause(text: str) -> str:
    return next((name for name, pattern in CAUSES.items() if re.search(pattern, text)), text.splitlines()[0][:100])


def launcher(directory: Path) -> Path:
    """A directory for PATH with an executable `tarantool` that is launcher.py."""
    directory.mkdir(parents=True)
    script = directory / "tarantool"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}:{ROOT}/src" exec "{sys.executable}" -P "{LAUNCHER}" "$@"\n')
    script.chmod(0o755)
    return directory


def run(tree: Path, tests: list[str], bin: Path, templates: Path, timeout: float, **environment: str) -> Outcome:
    report = tree / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    env = {
        **os.environ,
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "LAUNCHER_TEMPLATES": str(templates),
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    env.pop("PYTEST_ADDOPTS", None)
    (tree / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    (tree / "output.txt").write_text(done.stdout + done.stderr)
    if not report.exists():
        raise AssertionError(f"the suite did not run:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return read_report(report)


def read_report(path: Path) -> Outcome:
    outcome = Outcome()
    for case in ET.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            outcome.failed[name] = f"{bad.get('message')}\n{bad.text}"
        elif skipped is not None:
            outcome.skipped[name] = str(skipped.get("message"))
        elif name not in outcome.failed:
            outcome.passed.append(name)
    outcome.passed = [name for name in outcome.passed if name not in outcome.failed]
    return outcome
