"""Random changes of a space with eleven indexes, over the wire; every index by every iterator against a plain model,
before and after snapshots, restarts, kills and failing writes of the journal."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.attack.model import INDEXES, Model, Writer, check, create
from tests.support import iproto, strace
from tests.support.fixtures import Servers
from tests.support.subjects import STAND_IN, snapshot

SPACE = 700
WAL_IO, CASCADE = 40, 134


def some_steps(connection: iproto.Connection, writer: Writer, count: int) -> None:
    for _ in range(count):
        step = writer.step()
        reply = connection.ask(step.type, step.body)
        assert reply.code == step.code, (step, reply.answer())
        writer.apply(step)


def history(servers: Servers, seed: int, seconds: float) -> int:
    """Statements, snapshots, ends of every kind; the count of scans."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    model = Model()
    writer = Writer(SPACE, model, dice)
    server = servers.subject(f"history-{seed}", wal_max_size=1 << 16)
    with server.start(), iproto.Connection(*server.address) as connection:
        create(connection, SPACE, "many")
        server.stop()
    scans = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        server.start()
        with iproto.Connection(*server.address) as connection:
            scans += check(connection, SPACE, model, dice)
            for _ in range(dice.randrange(1, 4)):
                some_steps(connection, writer, dice.choice((10, 100, 300)))
                if dice.random() < 0.4:
                    snapshot(connection)
                scans += check(connection, SPACE, model, dice)
        if dice.random() < 0.5:
            server.kill()
        else:
            server.stop()
    return scans


@pytest.mark.skipif(STAND_IN, reason="2.6.0 has no datetime")
def test_indexes_agree_with_a_model(servers: Servers) -> None:
    print(history(servers, random.randrange(1 << 30), 3), "scans")


@pytest.mark.soak
def test_indexes_agree_with_a_model_soak(servers: Servers) -> None:
    for _ in range(50):
        history(servers, random.randrange(1 << 30), 20)


@dataclass(slots=True)
class Unit:
    """Requests of which all are done or none, and what they do to the rows that are there then."""

    requests: list[tuple[int, dict[int, Any]]]
    effects: list[Callable[[Model], None]]


def change(writer: Writer, *, updates: bool) -> tuple[tuple[int, dict[int, Any]], Callable[[Model], None]]:
    """One statement that always succeeds, whatever is there."""
    row = writer.row()
    place, space = writer.model.place(row), {iproto.SPACE_ID: writer.space}
    kind = writer.dice.choice(("replace", "replace", "delete", *(("update",) * 3 * updates)))
    if kind == "replace":
        return (iproto.REPLACE, {**space, iproto.TUPLE: row}), lambda model: model.rows.update({place: row})
    if kind == "delete":
        body = {**space, iproto.KEY: row[:2]}
        return (iproto.DELETE, body), lambda model: model.rows.pop(place, None) and None
    value, field = writer.value(2), 2

    def update(model: Model) -> None:
        old = model.rows.get(place)
        if old is not None:
            model.rows[place] = [*old[:field], value, *old[field + 1 :]]

    return (iproto.UPDATE, {**space, iproto.KEY: row[:2], iproto.TUPLE: [["=", field, value]]}), update


def unit(writer: Writer, path: str) -> Unit:
    count = writer.dice.randrange(1, 5) if path == "transactions" else 1
    made = [change(writer, updates=path != "compiled") for _ in range(count)]
    requests = [request for request, _ in made]
    if path == "transactions":
        requests = [(iproto.BEGIN, {}), *requests, (iproto.COMMIT, {})]
    return Unit(requests, [effect for _, effect in made])


def send_batch(connection: iproto.Connection, units: list[Unit], stream: int) -> list[int]:
    """All packets at once; for each unit the code of its last answer."""
    out = bytearray()
    owner: dict[int, int] = {}
    for number, each in enumerate(units):
        for type_, body in each.requests:
            sync = connection.next_sync()
            owner[sync] = number
            out += iproto.request(type_, body, sync, stream)
    connection.send(bytes(out))
    codes = [0] * len(units)
    for _ in owner:
        reply = connection.read_reply()
        codes[owner[reply.sync]] = reply.code
    return codes


@pytest.mark.skipif(STAND_IN or not strace.available(), reason="strace is absent or may not trace here")
@pytest.mark.parametrize("path", ["compiled", "ordinary", "transactions"])
def test_indexes_after_writes_of_the_journal_failed(servers: Servers, path: str) -> None:
    """Batches of pipelined statements of which some fail with the journal: what was acknowledged is what is there, in
    every index, at once and after a crash."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    model = Model([index for index in INDEXES if not index.unique or index.id in (0, 7)])
    writer = Writer(SPACE, model, dice)
    server = servers.subject("failing")
    with server.start(), iproto.Connection(*server.address) as connection:
        create(connection, SPACE, "many", model.indexes)
        server.stop()
    server.wrapper = strace.wrapper(strace.inject("pwrite64", "error=EIO:when=3+4"))
    server.start()
    codes: list[int] = []
    with iproto.Connection(*server.address) as connection:
        for _ in range(25):
            units = [unit(writer, path) for _ in range(dice.choice((1, 5, 40)))]
            answered = send_batch(connection, units, int(path == "transactions"))
            for each, code in zip(units, answered, strict=True):
                assert code in (0, WAL_IO, CASCADE), (each, code)
                for effect in each.effects if code == 0 else ():
                    effect(model)
            codes += answered
            check(connection, SPACE, model, dice, keys=1)
    server.kill()
    assert len(codes) - codes.count(0) > 10, "hardly a write failed: the run proves nothing"
    assert codes.count(0) > 10
    server.wrapper = ()
    with server.start(), iproto.Connection(*server.address) as connection:
        check(connection, SPACE, model, dice)
