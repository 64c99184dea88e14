"""Bytes that a real 3.9 made, if they lie beside the repository (../shared/golden)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "tarantool-3.9"

needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"{GOLDEN} is absent")


def recordings() -> list[Path]:
    return sorted((GOLDEN / "wire").glob("*.jsonl"))


def log_files() -> list[Path]:
    return sorted(path for path in (GOLDEN / "files").glob("*/*") if path.suffix in (".xlog", ".snap"))


def streams(path: Path) -> dict[str, bytes]:
    """What each side of a recorded connection said, as one string of bytes."""
    said = {"client": b"", "server": b""}
    for line in path.read_text().splitlines():
        chunk = json.loads(line)
        said[chunk["from"]] += bytes.fromhex(chunk["hex"])
    return said


def packets(stream: bytes) -> Iterator[bytes]:
    """Whole packets, their length included; the last one may have been cut off by the end of the recording."""
    at = 0
    while at + 5 <= len(stream):
        assert stream[at] == 0xCE
        end = at + 5 + int.from_bytes(stream[at + 1 : at + 5], "big")
        if end > len(stream):
            return
        yield stream[at:end]
        at = end
