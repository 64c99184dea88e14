"""Random histories of a server, with a model of its data at chosen moments, for tests of restores."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support import iproto, subjects
from tests.support.iproto import (
    CALL,
    DELETE,
    EVAL,
    EXPR,
    FUNCTION_NAME,
    INDEX_BASE,
    INDEX_ID,
    INSERT,
    KEY,
    OPS,
    REPLACE,
    SPACE_ID,
    TUPLE,
    UPDATE,
    UPSERT,
    VOTE,
    Connection,
)

from headwater.pipeline.restore import base, buckets, material, states

SPACE, INDEX, TRUNCATE, SEQUENCE, SEQUENCE_DATA, SPACE_SEQUENCE, USER, PRIV = 280, 288, 330, 284, 285, 340, 304, 312
DUMPED = (SPACE, INDEX, SEQUENCE, SPACE_SEQUENCE, USER, PRIV, 276, 296)
"""System spaces that a restored server must have as its origin had them."""
BALLOT, BALLOT_VCLOCK = 0x29, 2
FIRST_ID = 600
KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("unsigned",), "tree"),
    (("string",), "tree"),
    (("string", "unsigned"), "hash"),
    (("integer",), "tree"),
    (("unsigned", "string"), "tree"),
)
"""Types of the fields of primary keys, which come first, and the type of the index."""
Request = tuple[int, dict[int, Any]]


@dataclass
class Space:
    """A space as the model has it: the key fields come first, then a number and a text."""

    id: int
    types: tuple[str, ...]
    index_type: str
    rows: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict)
    sequence: int | None = None
    names: int = 0
    """How often its fields were renamed."""
    has_secondary: bool = False
    is_turned: bool = False
    """The parts of its primary key are the other way round."""

    def wire_key(self, key: tuple[Any, ...]) -> list[Any]:
        return list(key[::-1] if self.is_turned else key)

    @property
    def width(self) -> int:
        return len(self.types)

    @property
    def name(self) -> str:
        return f"s{self.id}"

    def format(self) -> list[dict[str, Any]]:
        mark = chr(ord("a") + self.names % 26)
        keys = [{"name": f"key{number}", "type": kind} for number, kind in enumerate(self.types)]
        return [*keys, {"name": f"{mark}_number", "type": "integer"}, {"name": f"{mark}_text", "type": "any"}]


@dataclass
class Model:
    """Everything that users have put in."""

    spaces: dict[int, Space] = field(default_factory=dict)
    sequences: dict[int, int | None] = field(default_factory=dict)

    def rows(self) -> dict[int, list[Any]]:
        return {number: sorted_rows(space.rows.values()) for number, space in self.spaces.items()}


def sorted_rows(rows: Any) -> list[Any]:
    return sorted((list(row) for row in rows), key=repr)


@dataclass
class Moment:
    """A point of the history."""

    vclock: dict[int, int]
    time: float
    model: Model
    system: dict[int, list[Any]]
    inside: int | None = None
    """An LSN of replica 1 inside the transaction that comes next."""


class History:
    """One connection that writes and never waits but to look."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self.dice = random.Random(seed)
        self.model = Model()
        self.moments: list[Moment] = []
        self.written = 0
        self._link = connection
        self._is_tarantool = subjects.speaks_lua(connection)
        self._user_width = len(connection.select(USER)[0])
        """Seven from 2.11.0 on."""
        self._pending: list[Request] = []
        self._next_id = FIRST_ID
        self._made = 0
        self._set: set[int] = set()

    # ---- to the server

    def flush(self) -> None:
        for reply in self._link.pipeline(self._pending):
            assert not reply.failed, reply.message
        self._pending.clear()

    def _send(self, type_: int, body: dict[int, Any]) -> None:
        self._pending.append((type_, body))
        self.written += 1
        if len(self._pending) >= 200:
            self.flush()

    def _put(self, space_id: int, row: Sequence[Any]) -> None:
        self._send(REPLACE, {SPACE_ID: space_id, TUPLE: list(row)})

    def _remove(self, space_id: int, key: Sequence[Any]) -> None:
        self._send(DELETE, {SPACE_ID: space_id, INDEX_ID: 0, KEY: list(key)})

    def vclock(self) -> dict[int, int]:
        self.flush()
        return dict(self._link.ask(VOTE).body[BALLOT][BALLOT_VCLOCK])

    def snapshot(self) -> None:
        self.flush()
        if self._is_tarantool:
            self._link.eval("box.snapshot()")
        else:
            self._link.call("box.snapshot")

    def moment(self, inside: int | None = None) -> Moment:
        vclock = self.vclock()
        time.sleep(0.002)
        now = time.time()
        time.sleep(0.002)
        found = Moment(vclock, now, copy.deepcopy(self.model), dump(self._link), inside)
        self.moments.append(found)
        return found

    # ---- writes

    def run(self, writes: int, moments: int, snapshots: int) -> None:
        """Moments and snapshots at random places."""
        stops = sorted(self.dice.sample(range(writes // 20, writes), moments + snapshots))
        kinds = ["moment"] * moments + ["snapshot"] * snapshots
        self.dice.shuffle(kinds)
        self.create()
        for stop, kind in zip(stops, kinds, strict=True):
            while self.written < stop:
                self.step()
            if kind == "snapshot":
                self.snapshot()
            elif self.dice.random() < 0.3:
                before = self.vclock()[1]
                self.moment(inside=before + 1)
                self.transaction()
            else:
                self.moment()
        while self.written < writes:
            self.step()
        self.flush()

    def step(self) -> None:
        chance = self.dice.random()
        if chance < 0.01:
            self.define()
        elif chance < 0.03:
            self.transaction()
        else:
            self.change(self.dice.choice(list(self.model.spaces.values())))

    def change(self, space: Space) -> None:
        kind = self.dice.choice((self._insert, self._replace, self._replace, self._update, self._delete, self._upsert))
        kind(space)

    def _key(self, space: Space) -> tuple[Any, ...]:
        number = self.dice.randrange(400)
        text = f"k{self.dice.randrange(60)}"
        if space.rows and self.dice.random() < 0.5:
            return self.dice.choice(list(space.rows))
        made = {"unsigned": number, "integer": number - 200, "string": text}
        return tuple(made[kind] for kind in space.types)

    def _value(self) -> list[Any]:
        text = self.dice.choice(("", "text", "x" * self.dice.randrange(300), None, [1, {"a": 2}], 1.5))
        return [self.dice.randrange(-1000, 1000), text]

    def _store(self, space: Space, key: tuple[Any, ...], row: list[Any]) -> None:
        space.rows[key] = list(row)
        if space.sequence is not None and isinstance(key[0], int):
            value = self.model.sequences[space.sequence]
            self.model.sequences[space.sequence] = key[0] if value is None else max(value, key[0])

    def _insert(self, space: Space) -> None:
        if space.sequence is not None and self.dice.random() < 0.7:
            number = (self.model.sequences[space.sequence] or 0) + 1
            row = [None, *self._key(space)[1:], *self._value()]
            key = (number, *row[1 : space.width])
            if key in space.rows:
                return
            self._send(INSERT, {SPACE_ID: space.id, TUPLE: row})
            self._store(space, key, [number, *row[1:]])
            return
        key = self._key(space)
        if key not in space.rows:
            row = [*key, *self._value()]
            self._send(INSERT, {SPACE_ID: space.id, TUPLE: row})
            self._store(space, key, row)

    def _replace(self, space: Space) -> None:
        key = self._key(space)
        row = [*key, *self._value()]
        self._put(space.id, row)
        self._store(space, key, row)

    def _delete(self, space: Space) -> None:
        key = self._key(space)
        self._remove(space.id, space.wire_key(key))
        space.rows.pop(key, None)

    def _update(self, space: Space) -> None:
        key = self._key(space)
        field_: Any = space.width
        if self.dice.random() < 0.5:
            field_ = space.format()[space.width]["name"]
        ops: list[list[Any]] = [["+", field_, self.dice.randrange(50)]]
        text = None
        if self.dice.random() < 0.5:
            text = f"t{self.dice.randrange(100)}"
            ops.append(["=", space.width + 1, text])
        self._send(UPDATE, {SPACE_ID: space.id, INDEX_ID: 0, INDEX_BASE: 0, KEY: space.wire_key(key), TUPLE: ops})
        row = space.rows.get(key)
        if row is not None:
            row[space.width] += ops[0][2]
            if text is not None:
                row[space.width + 1] = text

    def _upsert(self, space: Space) -> None:
        key = self._key(space)
        step = self.dice.randrange(50)
        row = [*key, *self._value()]
        ops = [["+", space.width, step]]
        self._send(UPSERT, {SPACE_ID: space.id, INDEX_BASE: 0, TUPLE: row, OPS: ops})
        if key in space.rows:
            space.rows[key][space.width] += step
        else:
            space.rows[key] = list(row)

    def transaction(self) -> None:
        """Replaces in one space, at once or not at all."""
        self.flush()
        space = self.dice.choice([each for each in self.model.spaces.values() if each.sequence is None])
        rows = {}
        for _ in range(self.dice.randrange(2, 8)):
            key = self._key(space)
            rows[key] = [*key, *self._value()]
        requests = [(REPLACE, {SPACE_ID: space.id, TUPLE: row}) for row in rows.values()]
        subjects.transaction(self._link, requests)
        self.written += len(rows)
        for key, row in rows.items():
            self._store(space, key, row)

    # ---- definitions

    def define(self) -> None:
        spaces = self.model.spaces
        choice = self.dice.randrange(8)
        space = self.dice.choice(list(spaces.values()))
        if choice == 0 and len(spaces) < 8:
            self.create()
        elif choice == 1:
            self._truncate(space)
        elif choice == 2 and len(spaces) > 3:
            if space.sequence is not None or sum(each.sequence is None for each in spaces.values()) > 1:
                self._drop(space)
        elif choice == 3:
            self._rename_fields(space)
        elif choice == 4:
            self._secondary(space)
        elif choice == 5:
            self._user()
        elif choice == 6 and space.sequence is not None:
            self._set_sequence(space.sequence)
        elif choice == 7 and space.types == ("unsigned", "string") and not space.has_secondary:
            self._rekey(space)

    def create(self) -> None:
        """At first one of each kind, then any; ids of dropped spaces come again."""
        types, index_type = KINDS[self._made % len(KINDS)]
        self._made += 1
        unused = [number for number in range(FIRST_ID, self._next_id) if number not in self.model.spaces]
        number = unused[0] if unused else self._next_id
        self._next_id = max(self._next_id, number + 1)
        space = self.model.spaces[number] = Space(number, types, index_type)
        self._put(SPACE, [number, 1, space.name, "memtx", 0, {}, space.format()])
        self._put(INDEX, self._primary(space))
        if types[0] == "unsigned":
            self._put(SEQUENCE, [number, 1, f"{space.name}_seq", 1, 1, 2**63 - 1, 1, 0, False])
            self._put(SPACE_SEQUENCE, [number, number, True, 0, ""])
            space.sequence = number
            self.model.sequences[number] = None
        if self._made < 3:
            self.create()

    @staticmethod
    def _primary(space: Space) -> list[Any]:
        parts = [[number, kind] for number, kind in enumerate(space.types)]
        parts = parts[::-1] if space.is_turned else parts
        return [space.id, 0, "pk", space.index_type, {"unique": True}, parts]

    def _truncate(self, space: Space) -> None:
        self._send(UPSERT, {SPACE_ID: TRUNCATE, INDEX_BASE: 0, TUPLE: [space.id, 1], OPS: [["+", 1, 1]]})
        space.rows.clear()

    def _drop(self, space: Space) -> None:
        if space.sequence is not None:
            self._remove(SPACE_SEQUENCE, [space.id])
            self._remove(SEQUENCE_DATA, [space.sequence])
            self._remove(SEQUENCE, [space.sequence])
            del self.model.sequences[space.sequence]
            self._set.discard(space.sequence)
        if space.has_secondary:
            self._remove(INDEX, [space.id, 1])
        self._remove(INDEX, [space.id, 0])
        self._remove(TRUNCATE, [space.id])
        self._remove(SPACE, [space.id])
        del self.model.spaces[space.id]

    def _rename_fields(self, space: Space) -> None:
        space.names += 1
        ops = [["=", 6, space.format()]]
        self._send(UPDATE, {SPACE_ID: SPACE, INDEX_ID: 0, INDEX_BASE: 0, KEY: [space.id], TUPLE: ops})

    def _secondary(self, space: Space) -> None:
        if space.has_secondary:
            self._remove(INDEX, [space.id, 1])
        else:
            parts = [[space.width, "integer"]]
            self._put(INDEX, [space.id, 1, "number", "tree", {"unique": False}, parts])
        space.has_secondary = not space.has_secondary

    def _user(self) -> None:
        number = 40 + self.dice.randrange(20)
        row = [number, 1, f"user{number}", "user", {"chap-sha1": "vhvewKp0tNyweZQ+cFKAlsyphfg="}, [], 0]
        self._put(USER, row[: self._user_width])
        self._put(PRIV, [1, number, "universe", 0, 3])

    def _set_sequence(self, sequence: int) -> None:
        if sequence in self._set and self.dice.random() < 0.5:
            # Without a row that was put there it changes nothing on a server that runs, and all the same after a
            # snapshot (alter.cc, on_replace_dd_sequence_data).
            self._set.remove(sequence)
            self._remove(SEQUENCE_DATA, [sequence])
            self.model.sequences[sequence] = None
        else:
            value = self.dice.randrange(1000, 100_000)
            self._set.add(sequence)
            self._put(SEQUENCE_DATA, [sequence, value])
            self.model.sequences[sequence] = value

    def _rekey(self, space: Space) -> None:
        """The same fields the other way round: the same keys are unique, in another order."""
        space.is_turned = not space.is_turned
        self._put(INDEX, self._primary(space))


def dump(connection: Connection) -> dict[int, list[Any]]:
    return {space: sorted_rows(connection.select(space)) for space in DUMPED}


def check(connection: Connection, moment: Moment, what: str) -> None:
    """Is the server as its origin was at that moment?"""
    for space_id, rows in moment.model.rows().items():
        assert sorted_rows(connection.select(space_id)) == rows, f"{what}, space {space_id}"
    for space_id, rows in moment.system.items():
        assert sorted_rows(connection.select(space_id)) == rows, f"{what}, system space {space_id}"
    assert len(connection.select(320)) == 1, what
    for space in moment.model.spaces.values():
        if space.has_secondary:
            assert len(connection.select(space.id, index=1)) == len(space.rows), what
    check_sequences(connection, moment.model, what)


def check_sequences(connection: Connection, model: Model, what: str) -> None:
    """The next number of each."""
    for space in model.spaces.values():
        if space.sequence is None:
            continue
        number = (model.sequences[space.sequence] or 0) + 1
        if subjects.speaks_lua(connection):
            # 2.6.0 moves sequences on by the rows of any snapshot, also by those that an UPSERT has put there.
            number = max([number, *(key[0] + 1 for key in space.rows)])
        row = [None, *["~" for _ in space.types[1:]], 0, "next"]
        if (number, *row[1 : space.width]) in space.rows:
            continue
        given = connection.insert(space.id, row)[0][0]
        assert given == number, f"{what}, sequence of space {space.id} gives {given}, not {number}"


def calls(connection: Connection, name: str, *arguments: object) -> Any:
    """A function of `box`, on either server."""
    if subjects.speaks_lua(connection):
        return connection.ask(EVAL, {EXPR: f"return {name}(...)", TUPLE: list(arguments)}).data
    return connection.ask(CALL, {FUNCTION_NAME: name, TUPLE: list(arguments)}).data


def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts of files and many buckets, though there are few rows."""
    monkeypatch.setattr(material, "PART_BYTES", 10_000)
    monkeypatch.setattr(material, "SAMPLE_BYTES", 200)
    monkeypatch.setattr(base, "MARK_STEP", 1000)
    monkeypatch.setattr(states, "_SNAPSHOT_PART", 2000)
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 40_000)


__all__ = ["History", "Model", "Moment", "Space", "calls", "check", "dump", "in_small_pieces", "iproto"]
