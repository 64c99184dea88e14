"""Wall clocks that a test moves while the node runs: a library that is compiled when it is first wanted, and loaded
before the node's own."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tests.support.cluster import Node

SOURCE = Path(__file__).with_name("clockshift.c")


class MovedClock:
    """Of one node that is not started yet. Skips the test where nothing can be compiled."""

    def __init__(self, node: Node, directory: Path) -> None:
        library = directory / "clockshift.so"
        if not library.exists():
            _compile(library)
        self._file = directory / f"{node.name}.shift"
        self._file.write_bytes(bytes(8))
        node.server.environment |= {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(self._file)}

    def move(self, seconds: float) -> None:
        """From the true time."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", round(seconds * 1_000_000_000)))


def _compile(library: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here: no clock that can be moved")
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
