"""One script, four connectors, two servers: the answers are compared one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.differences import DIFFERENCES, Difference, as_text, explain
from tests.interop.drivers import Answer, Driver, all_drivers
from tests.interop.script import SCHEMA, Call, script
from tests.support import iproto
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.process import Server
from tests.support.subjects import STAND_IN

pytestmark = needs_tarantool

DRIVERS = ["raw", "tarantool-python", "asynctnt", "net.box"]


def answers(server: Server, driver: Driver, calls: list[Call]) -> list[Answer]:
    """Run the script on a fresh server."""
    with server.start():
        with iproto.Connection(*server.address) as connection:
            for space, row in SCHEMA:
                connection.insert(space, row)
        return driver.run(server.address, calls)


@pytest.fixture(scope="module")
def needed() -> dict[str, set[Difference]]:
    """Driver -> the entries of the table that its answers needed."""
    return {}


@pytest.mark.parametrize("name", DRIVERS)
def test_same_answers_as_a_real_server(
    servers: Servers, tmp_path: Path, name: str, needed: dict[str, set[Difference]]
) -> None:
    driver = next(d for d in all_drivers(tmp_path / "lua") if d.name == name)
    calls = [call for call in script() if driver.can(call)]
    real = answers(servers.tarantool(), driver, calls)
    ours = answers(servers.subject(schema_version="2.3.1"), driver, calls)
    used, wrong = needed.setdefault(name, set()), []
    for call, theirs, mine in zip(calls, real, ours, strict=True):
        if theirs == mine and [type(x) for x in theirs] == [type(x) for x in mine]:
            continue
        entry = explain(call.name, theirs, mine)
        if entry is not None:
            used.add(entry)
            continue
        wrong.append(f"{call.name}\n    real: {as_text(theirs)[:400]}\n    ours: {as_text(mine)[:400]}")
    print(f"{name}: {len(calls)} calls")
    assert not wrong, f"{len(wrong)} of {len(calls)} answers differ:\n" + "\n".join(wrong)


def test_every_difference_is_needed(needed: dict[str, set[Difference]]) -> None:
    if STAND_IN or set(needed) != set(DRIVERS):
        pytest.skip("needs the answers of all four drivers")
    stale = [entry.calls for entry in DIFFERENCES if not any(entry in used for used in needed.values())]
    assert not stale, f"no call needs these entries of differences.py: {stale}"


def test_names_of_the_script_are_unique() -> None:
    names = [call.name for call in script()]
    assert len(names) == len(set(names))
