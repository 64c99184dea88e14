"""Compiles and runs the load generator (load.c)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("load.c")
SPACE = 512


def compiled(directory: Path) -> Path:
    """The generator, compiled when its source is newer than it."""
    program = directory / "load"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise SystemExit("the load generator needs a C compiler: apt install gcc")
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE)], check=True)
    return program


class Load:
    """Runs the generator against one server."""

    def __init__(self, program: Path, address: tuple[str, int]) -> None:
        self.program = program
        self.address = address

    def run(
        self,
        mode: str,
        *,
        operations: int,
        keys: int,
        connections: int = 1,
        window: int = 1000,
        order: str = "random",
        rate: float = 0,
    ) -> float:
        """Operations a second. With a `rate` no more are asked for than that."""
        host, port = self.address
        arguments = [host, port, mode, connections, window, operations, keys, SPACE, order, rate]
        done = subprocess.run(
            [str(self.program), *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise RuntimeError(f"load {mode}: {done.stderr.strip()}")
        return float(done.stdout)
