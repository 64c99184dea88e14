"""One script, four connectors, two servers: the answers are compared one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.interop.differences import DIFFERENCES, LASTING, Difference, as_text, explain
from tests.interop.drivers import Answer, Driver, all_drivers
from tests.interop.script import SCHEMA, Call, script
from tests.support import iproto
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.process import Server
from tests.support.subjects import STAND_IN
from tests.support.tarantool import version

pytestmark = needs_tarantool

IS_OLD = version() < (2, 11)
"""The installed one is of before 3.x: its schema is another, and so are some answers."""

DRIVERS = ["raw", "tarantool-python", "asynctnt", "net.box"]


def answers(server: Server, driver: Driver, calls: list[Call]) -> list[Answer]:
    """Run the script on a fresh server."""
    with server.start():
        with iproto.Connection(*server.address) as connection:
            for space, row in SCHEMA:
                connection.insert(space, row)
        return driver.run(server.address, calls)


def calls_for(driver: Driver) -> list[Call]:
    return [call if IS_OLD else with_user_of_today(call) for call in script() if driver.can(call)]


def with_user_of_today(call: Call) -> Call:
    """Since 2.11 a user has a history of passwords and the time of the last change."""
    if call.operation != "insert" or call.arguments["space"] != 304:
        return call
    return replace(call, arguments={**call.arguments, "tuple": [*call.arguments["tuple"], [], 0]})


@pytest.fixture(scope="module")
def needed() -> dict[str, set[Difference]]:
    """Driver -> the entries of the table that its answers needed."""
    return {}


@pytest.mark.parametrize("name", DRIVERS)
def test_same_answers_as_a_real_server(
    servers: Servers, tmp_path: Path, name: str, needed: dict[str, set[Difference]]
) -> None:
    driver = next(d for d in all_drivers(tmp_path / "lua") if d.name == name)
    calls = calls_for(driver)
    real = answers(servers.tarantool(), driver, calls)
    ours = answers(servers.subject(schema_version="2.3.1" if IS_OLD else "3.8.0"), driver, calls)
    used, wrong = needed.setdefault(name, set()), []
    for call, theirs, mine in zip(calls, real, ours, strict=True):
        if theirs == mine and [type(x) for x in theirs] == [type(x) for x in mine]:
            continue
        entry = explain(call.name, theirs, mine, DIFFERENCES if IS_OLD else LASTING)
        if entry is not None:
            used.add(entry)
            continue
        wrong.append(f"{call.name}\n    real: {as_text(theirs)[:400]}\n    ours: {as_text(mine)[:400]}")
    print(f"{name}: {len(calls)} calls")
    assert not wrong, f"{len(wrong)} of {len(calls)} answers differ:\n" + "\n".join(wrong)


def test_every_difference_is_needed(needed: dict[str, set[Difference]]) -> None:
    if STAND_IN or not IS_OLD or set(needed) != set(DRIVERS):
        pytest.skip("needs the answers of all four drivers, by 2.6.0")
    stale = [entry.calls for entry in DIFFERENCES if not any(entry in used for used in needed.values())]
    assert not stale, f"no call needs these entries of differences.py: {stale}"


def test_names_of_the_script_are_unique() -> None:
    names = [call.name for call in script()]
    assert len(names) == len(set(names))
