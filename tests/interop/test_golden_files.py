"""Headwater on directories that a real Tarantool 3.9 wrote: row by row what the JSON beside them says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.interop.replay import State, as_json, load
from tests.support import iproto, xlogfile
from tests.support.fixtures import GOLDEN, Servers, needs_golden
from tests.support.subjects import STAND_IN

FILES = GOLDEN / "tarantool-3.9" / "files"

pytestmark = [needs_golden, pytest.mark.skipif(STAND_IN, reason="2.6.0 does not read files of 3.9")]

IGNORED = {276}
"""Collations are compared once for the whole bootstrap elsewhere; here they would only cost time."""


def expected(snap: Path, *parts: list[dict[str, Any]]) -> State:
    state = State()
    for row in load(snap.with_name(snap.name + ".json")):
        state.apply(row)
    for part in parts:
        for row in part:
            state.apply(row)
    return state


def contents(connection: iproto.Connection, spaces: list[int]) -> dict[int, list[Any]]:
    return {space: as_json(connection.select(space)) for space in spaces}


def compare(servers: Servers, directory: Path, state: State) -> None:
    """Start on the directory and compare every space, and every index of each in its own order."""
    server = servers.subject(directory, read_only=True)
    server.dev = False  # type: ignore[attr-defined]
    with server.start(), iproto.Connection(*server.address) as connection:
        spaces = sorted(space for space in state.spaces if space not in IGNORED)
        there = contents(connection, spaces)
        for space in spaces:
            wanted = state.spaces[space]
            got = {state.key_of(space, row): row for row in there[space]}
            assert got == wanted, f"space {space}"
        for space, number, *_ in state.spaces[288].values():
            if space in there and space not in IGNORED:
                rows = as_json(connection.select(space, index=number))
                assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, there[space])), f"index {space}/{number}"


TEMPORARY = {515}


@needs_golden
@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_starts_on_the_directory_of_a_3_9(servers: Servers, tmp_path: Path, node: str) -> None:
    shutil.copytree(FILES / node, tmp_path / node, ignore=shutil.ignore_patterns("*.json"))
    (tmp_path / node).chmod(0o755)
    snap = max((tmp_path / node).glob("*.snap"))
    source = FILES / node / snap.name
    xlogs = [path for path in sorted((FILES / node).glob("*.xlog")) if path.stem >= snap.stem]
    compare(servers, tmp_path / node, expected(source, *(load(path.with_name(path.name + ".json")) for path in xlogs)))


def cuts(path: Path) -> list[tuple[int, int]]:
    """(bytes, rows) after some blocks of the file: a first few, then every eighth."""
    found, rows = [], 0
    for n, block in enumerate(xlogfile.read(path).blocks):
        rows += len(block.rows)
        if n % 8 == 0:
            found.append((block.end, rows))
    return found


@pytest.mark.parametrize(("node", "stem"), [("node-1", "00000000000000000006"), ("node-2", "00000000000000000009")])
def test_starts_on_every_prefix_of_an_xlog_of_3_9(servers: Servers, tmp_path: Path, node: str, stem: str) -> None:
    """The journal cut at the end of a block: the node has exactly the rows up to there, of every type."""
    xlog, snap = FILES / node / f"{stem}.xlog", FILES / node / f"{stem}.snap"
    rows = load(xlog.with_name(xlog.name + ".json"))
    points = cuts(xlog)
    data = xlog.read_bytes()
    for n, (size, count) in enumerate(points[:: max(1, len(points) // 6)]):
        directory = tmp_path / str(n)
        directory.mkdir()
        shutil.copyfile(snap, directory / snap.name)
        (directory / xlog.name).write_bytes(data[:size])
        compare(servers, directory, expected(snap, rows[:count]))


def test_replay_knows_what_the_last_snapshot_says() -> None:
    """The judge judged: replaying snapshot 6 and its xlog gives snapshot 3389."""
    node = FILES / "node-1"
    start = node / "00000000000000000006.snap"
    replayed = expected(start, load(node / "00000000000000000006.xlog.json")).spaces
    later = expected(node / "00000000000000003389.snap").spaces
    for space, rows in later.items():
        if space not in (285, 388):
            assert replayed[space] == rows, space
    assert set(replayed) - set(later) <= {388, *TEMPORARY}
