"""Random calls from a seed, side by side on both servers: the answers are compared one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal

import pytest
from tests.interop.differences import RANDOM, as_text, explain
from tests.interop.drivers import ITERATORS, Answer, Raw
from tests.interop.random_calls import KEYS, calls
from tests.interop.script import SCHEMA, Call
from tests.support import iproto
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.process import Server
from tests.support.soak import Record
from tests.support.tarantool import version

pytestmark = needs_tarantool

IS_OLD = version() < (2, 11)
COUNT = 4000
SOAK_CALLS = 400_000
HASHES = {space for space, row in ((row[0], row) for system, row in SCHEMA if system == 288) if row[3] == "hash"}


class Pair:
    """A real server and ours, asked the same; what an allowed difference leaves apart is brought together again."""

    def __init__(self, real: Server, ours: Server) -> None:
        self.sides = [iproto.Connection(*server.address) for server in (real, ours)]
        for connection in self.sides:
            for space, row in SCHEMA:
                connection.insert(space, row)

    def close(self) -> None:
        for connection in self.sides:
            connection.close()

    def ask(self, call: Call) -> list[Answer]:
        type_, body = Raw.request(call.operation, call.arguments)
        return [connection.ask(type_, body).answer() for connection in self.sides]

    def contents(self, space: int) -> list[list[list[object]]]:
        return [sorted(connection.select(space, [], iterator=ITERATORS["ALL"]), key=repr) for connection in self.sides]

    def is_apart(self, space: int) -> bool:
        real, ours = self.contents(space)
        return repr(real) != repr(ours)

    def bring_together(self, space: int) -> None:
        """Delete, on both, the tuples that only one of them has."""
        real, ours = self.contents(space)
        texts = [set(map(repr, rows)) for rows in (real, ours)]
        for row in [*real, *ours]:
            if not all(repr(row) in side for side in texts):
                key = [row[field] for field in KEYS[space, 0]]
                for connection in self.sides:
                    connection.ask(iproto.DELETE, {iproto.SPACE_ID: space, iproto.KEY: key})
        assert not self.is_apart(space), self.contents(space)


def is_same(call: Call, real: Answer, ours: Answer) -> bool:
    a = call.arguments
    if call.operation == "select" and a["space"] in HASHES and not a.get("index") and real[0] == ours[0] == "ok":
        # A hash index has an order of its own; where no tuple is left out by it, the same ones come.
        if a.get("iterator") == "GT" or a.get("limit", 100) < 100 or a.get("offset"):
            return len(real[1]) <= a.get("limit", 100) >= len(ours[1])
        return sorted(map(repr, real[1])) == sorted(map(repr, ours[1]))
    return repr(real) == repr(ours)


@pytest.fixture
def pair(servers: Servers) -> Iterator[Pair]:
    made = Pair(servers.tarantool().start(), servers.subject(schema_version="2.3.1" if IS_OLD else "3.8.0").start())
    yield made
    made.close()


def compare(pair: Pair, seed: int) -> list[str]:
    wrong = []
    for call in calls(seed, COUNT):
        space = call.arguments["space"]
        real, ours = pair.ask(call)
        if not is_same(call, real, ours):
            if explain(call.name, real, ours, RANDOM if IS_OLD else ()) is None:
                texts = [as_text(answer)[:400] for answer in (real, ours)]
                wrong.append(f"{call.name} {call.arguments}\n    real: {texts[0]}\n    ours: {texts[1]}")
            if call.operation != "select":
                pair.bring_together(space)
        elif call.operation == "upsert" and pair.is_apart(space):
            # An operation that fails is skipped without a word; which ones do, 2.8 and 2.11 have changed.
            if not may_be_skipped(call):
                wrong.append(f"{call.name} {call.arguments}\n    leaves different tuples")
            pair.bring_together(space)
    return wrong


def may_be_skipped(call: Call) -> bool:
    ops = call.arguments["ops"]
    return len(ops) > 1 or ops[0][0] in ":#=!" or isinstance(ops[0][2], Decimal | float)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_are_answered_as_by_a_real_server(pair: Pair, seed: int) -> None:
    wrong = compare(pair, seed)
    assert not wrong, f"{len(wrong)} of {COUNT} answers differ:\n" + "\n".join(wrong)


@pytest.mark.soak
def test_random_calls_soak(pair: Pair) -> None:
    """On and on in the same spaces, so that they fill up with what the calls before left."""
    record = Record("random-calls")
    while (done := record.total("calls")) < SOAK_CALLS:
        seed = random.randrange(1 << 30)
        wrong = compare(pair, seed)
        assert not wrong, f"seed {seed}, after {done}: {len(wrong)} of {COUNT} answers differ:\n" + "\n".join(wrong)
        record.add(seed=seed, calls=COUNT)
