"""`strace -e inject=…`: the n-th system call of a kind fails, is delayed, or is the process's last."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Sequence


@functools.cache
def available() -> bool:
    """Is strace installed, may it trace, and does it know `inject`?"""
    if shutil.which("strace") is None:
        return False
    command = ["strace", "-qq", "-o", "/dev/null", *inject("sync", "retval=0"), "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def inject(calls: str, what: str) -> list[str]:
    return ["-e", f"trace={calls}", "-e", f"inject={calls}:{what}"]


def wrapper(*injections: Sequence[str], output: str = "/dev/null") -> list[str]:
    """The command line to put before a server."""
    flat = [word for injection in injections for word in injection]
    return ["strace", "-f", "-qq", "-o", output, *flat]
