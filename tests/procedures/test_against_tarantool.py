"""The same calls, one after another, on a real Tarantool and on Headwater: same values, same errors.

`calls.jsonl` has one call a line. Debian's Tarantool is 2.6.0; where 3.x, which we follow, answers otherwise, the call
stands in `DIFFERENT` with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tarantool
from tests.support.fixtures import Servers, needs_tarantool, servers
from tests.support.process import Server

__all__ = ["servers"]

CALLS = [json.loads(line) for line in (Path(__file__).parent / "calls.jsonl").read_text().splitlines()]

AS_VALUE = "a space is a map here; a Lua table with functions cannot be sent"
WORDS = "3.x says it in other words"
BRACKETS = "3.x understands brackets in names"
GRANTS = "3.x lets super grant what belongs to admin"

DIFFERENT: dict[str, str] = {
    'box.schema.space.create ["t", {"format":': AS_VALUE,
    'box.schema.space.create ["t", {"if_not_exists": true}]': AS_VALUE,
    'box.schema.space.create ["a"]': AS_VALUE,
    'box.schema.space.create ["u", {"format": [["a", "zz"]]}]': WORDS,
    'box.space.t:create_index ["x", {"parts": [[1, "unsigned", "x"]]}]': WORDS,
    'box.space.t:create_index ["x", {"parts": [[1, "zz"]]}]': WORDS,
    'box.space.a:create_index ["pk", {"sequence": true}]': "ids of spaces differ by a failed call before",
    'box.space.t:insert [[1, "a", 10]]': WORDS,
    'box.space.t:insert [["x"]]': "3.x looks for missing fields first",
    "box.space.t:insert [[9, 1, 1]]": WORDS,
    'box.space.a:insert [[null, "x"]]': WORDS,
    "box.space.t:select [2, true]": "2.6.0 fails inside its own Lua",
    "box.space.t:update [1]": WORDS,
    'box.space.t:upsert [[7, "q", 0]]': WORDS,
    'box.space.t.index.sk:alter [{"id": 5}]': WORDS,
    "box.space[512]:len": BRACKETS,
    "box.space['t']:len": BRACKETS,
    'box.space["t"].index["pk"]:len': BRACKETS,
    'box.schema.user.grant ["alice", "replication"]': GRANTS,
    'box.schema.user.grant ["alice", "read", "space"]': GRANTS,
    'box.schema.user.info ["alice"]': GRANTS,
    'box.schema.user.enable ["bob"]': GRANTS,
    'box.schema.role.grant ["r", "replication"]': GRANTS,
    'box.cfg [{"too_long_threshold": "x"}]': "3.9 takes durations with a suffix",
    "box.backup.start": "3.8 names the journal files, too",
}
"""Beginnings of calls, and why the answers may differ."""


def ask(server: Server) -> list[tuple[str, Any]]:
    host, port = server.address
    connection = tarantool.Connection(host, port)
    answers: list[tuple[str, Any]] = []
    for name, *args in CALLS:
        try:
            answers.append(("value", _without_news(connection.call(name, args).data)))
        except tarantool.error.DatabaseError as error:
            answers.append(("error", str(error.args[1]).removeprefix("Illegal parameters, ")))
    connection.close()
    return answers


def _without_news(value: Any) -> Any:
    """Without what 3.x says of an index and 2.6.0 did not."""
    match value:
        case dict():
            news = ("exclude_null", "sort_order", "hint")
            return {key: _without_news(item) for key, item in value.items() if key not in news}
        case list():
            return [_without_news(item) for item in value]
    return value


@needs_tarantool
@pytest.mark.interop
def test_the_same_calls_have_the_same_answers(servers: Servers) -> None:
    real = ask(servers.tarantool().start())
    ours = ask(servers.subject().start())
    differing = []
    used = set()
    for (name, *args), theirs, mine in zip(CALLS, real, ours, strict=True):
        call = f"{name} {json.dumps(args)}"
        reason = next((begin for begin in DIFFERENT if call.startswith(begin)), None)
        if theirs != mine:
            used.add(reason)
            if reason is None:
                differing.append(f"{call}\n  Tarantool: {theirs}\n  Headwater: {mine}")
    assert not differing, "\n".join(differing)
    assert used == set(DIFFERENT), f"no longer different: {set(DIFFERENT) - used}"
