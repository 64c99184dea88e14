"""A space with many indexes as a plain dictionary, and random statements for it.

The order of values is written down here once more, from the words of the documentation: nil, booleans, numbers of all
kinds by value, strings and bytes bytewise, uuids by their bytes, datetimes by their instant.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import msgpack
from tests.support import iproto

Row = list[Any]
DATETIME = 4
FOUND = 3
"""ER_TUPLE_FOUND"""

Order = tuple[Any, ...]


def order(value: object) -> Order:
    """What a value is compared by."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return (2, 1 if value > 0 else -1, 0)
    if isinstance(value, int | float | Decimal):
        return (2, 0, Fraction(value))
    if isinstance(value, str):
        return (3, value.encode())
    if isinstance(value, msgpack.ExtType):
        seconds, nanoseconds = struct.unpack("<qi", value.data[:12].ljust(12, b"\0"))
        return (6, seconds, nanoseconds)
    if isinstance(value, UUID):
        return (5, value.bytes)
    assert isinstance(value, bytes)
    return (4, value)


@dataclass(slots=True)
class Index:
    id: int
    name: str
    parts: Sequence[tuple[int, str, bool]]
    """Field, type, may it be nil."""
    unique: bool = True
    kind: str = "tree"

    def definition(self) -> list[Any]:
        parts = [{"field": place, "type": kind, "is_nullable": nullable} for place, kind, nullable in self.parts]
        return [self.name, self.kind, {"unique": self.unique}, parts]

    def key(self, row: Row) -> list[Any]:
        return [row[place] if place < len(row) else None for place, _, _ in self.parts]


PRIMARY = Index(0, "primary", [(0, "unsigned", False), (1, "string", False)])
INDEXES = [
    PRIMARY,
    Index(1, "number", [(2, "number", True)], unique=False),
    Index(2, "scalar", [(3, "scalar", True)], unique=False),
    Index(3, "decimal", [(4, "decimal", True)], unique=False),
    Index(4, "uuid", [(5, "uuid", False)], kind="hash"),
    Index(5, "when", [(6, "datetime", True), (2, "number", True)], unique=False),
    Index(6, "unique_nullable", [(3, "scalar", True), (1, "string", False)]),
    Index(7, "both", [(1, "string", False), (0, "unsigned", False)], kind="hash"),
    Index(8, "string_number", [(1, "string", False), (2, "number", True)], unique=False),
    Index(9, "integer", [(7, "integer", True)], unique=True),
    Index(10, "bytes", [(8, "varbinary", True), (9, "boolean", True), (10, "double", True)], unique=False),
]


class Model:
    """What is there, by primary key."""

    def __init__(self, indexes: Sequence[Index] = tuple(INDEXES)) -> None:
        self.rows: dict[Order, Row] = {}
        self.indexes = indexes

    @staticmethod
    def place(row: Row) -> Order:
        return tuple(map(order, PRIMARY.key(row)))

    def rivals(self, new: Row) -> list[int]:
        """Unique secondary indexes in which another tuple has a key of `new`."""
        place = self.place(new)
        return [
            index.id
            for index in self.indexes
            if index.id and index.unique and None not in index.key(new)
            for there in self.rows.values()
            if self.place(there) != place and list(map(order, index.key(there))) == list(map(order, index.key(new)))
        ]

    def find(self, index: Index, key: Sequence[Any]) -> Row | None:
        wanted = [order(part) for part in key]
        for row in self.rows.values():
            if [order(part) for part in index.key(row)] == wanted:
                return row
        return None

    def scan(self, index: Index, iterator: int, key: Sequence[Any]) -> list[Row]:
        """All tuples that a SELECT gives, in its order."""

        def whole(row: Row) -> tuple[Order, ...]:
            own = tuple(map(order, index.key(row)))
            return own + tuple(map(order, PRIMARY.key(row)))

        wanted = tuple(map(order, key))
        backward = iterator in (iproto.REQ, iproto.LT, iproto.LE)
        tests = {
            iproto.EQ: lambda own: own == wanted,
            iproto.REQ: lambda own: own == wanted,
            iproto.ALL: lambda own: own >= wanted,
            iproto.GE: lambda own: own >= wanted,
            iproto.GT: lambda own: not wanted or own > wanted,
            iproto.LE: lambda own: own <= wanted,
            iproto.LT: lambda own: not wanted or own < wanted,
        }
        fits = tests[iterator]
        found = [row for row in self.rows.values() if fits(tuple(map(order, index.key(row)))[: len(wanted)])]
        return sorted(found, key=whole, reverse=backward)


@dataclass(slots=True)
class Step:
    """One request, what becomes of the rows if it is done, and what it should be answered."""

    type: int
    body: Mapping[int, object]
    effect: dict[Order, Row | None] = field(default_factory=dict)
    code: int = 0


@dataclass(slots=True)
class Writer:
    """Random statements for one space, decided by one seed."""

    space: int
    model: Model
    dice: random.Random

    def value(self, place: int) -> Any:
        dice = self.dice
        number = dice.choice((0, 1, -1, 2, 0.5, -0.25, 1.0, Decimal("0.5"), Decimal(1), 1 << 60, 2.0**60, float("inf")))
        when = dice.choice(
            (struct.pack("<q", dice.randrange(-2, 3)), struct.pack("<qihh", dice.randrange(3), 5, 60, 0))
        )
        choices = {
            0: dice.randrange(6),
            1: dice.choice(("", "a", "b", "ab", "a\0")),
            2: number,
            3: dice.choice((number, "", "a", True, b"a", UUID(int=dice.randrange(3)))),
            4: Decimal(dice.choice(("0", "1", "-1", "1.50", "1e20", "0.000001"))),
            5: UUID(int=dice.randrange(40) << dice.choice((0, 64, 120))),
            6: msgpack.ExtType(DATETIME, when),
            7: dice.randrange(-20, 20) if dice.random() < 0.9 else (1 << 64) - 1,
            8: dice.choice((b"", b"a", b"\xff", b"a\0")),
            9: dice.random() < 0.5,
            10: dice.choice((0.0, -1.5, 2.5, float("-inf"))),
        }
        nullable = {field for index in self.model.indexes for field, _, nullable in index.parts if nullable}
        always = {field for index in self.model.indexes for field, _, nullable in index.parts if not nullable}
        return None if place in nullable - always and dice.random() < 0.3 else choices[place]

    def row(self) -> Row:
        return [self.value(place) for place in range(self.dice.choice((6, 8, 11, 11, 11)))]

    def step(self) -> Step:
        kind = self.dice.choice((self.insert, self.replace, self.replace, self.update, self.upsert, self.delete))
        return kind()

    def _put(self, type_: int, new: Row) -> Step:
        step = Step(type_, {iproto.SPACE_ID: self.space, iproto.TUPLE: new})
        place = self.model.place(new)
        if (type_ == iproto.INSERT and place in self.model.rows) or self.model.rivals(new):
            step.code = FOUND
        else:
            step.effect[place] = new
        return step

    def insert(self) -> Step:
        return self._put(iproto.INSERT, self.row())

    def replace(self) -> Step:
        return self._put(iproto.REPLACE, self.row())

    def _by_unique(self) -> tuple[dict[int, object], Row | None]:
        """A unique index, a full key without nil, and whom they find."""
        index = self.dice.choice([each for each in self.model.indexes if each.unique])
        there = list(self.model.rows.values())
        row = self.dice.choice(there) if there and self.dice.random() < 0.7 else self.row()
        key = index.key(row)
        if None in key:
            index, key = PRIMARY, PRIMARY.key(row)
        body = {iproto.SPACE_ID: self.space, iproto.INDEX_ID: index.id, iproto.KEY: key}
        return body, self.model.find(index, key)

    def delete(self) -> Step:
        body, found = self._by_unique()
        return Step(iproto.DELETE, body, {} if found is None else {self.model.place(found): None})

    def _changed(self, old: Row) -> tuple[list[Any], Row]:
        new, ops = list(old), []
        for place in self.dice.sample(range(2, len(old)), self.dice.randrange(1, 3)):
            new[place] = self.value(place)
            ops.append(["=", place, new[place]])
        return ops, new

    def update(self) -> Step:
        body, found = self._by_unique()
        ops, new = self._changed(found or self.row())
        step = Step(iproto.UPDATE, {**body, iproto.TUPLE: ops})
        if found is not None:
            step.code = FOUND if self.model.rivals(new) else 0
            step.effect = {} if step.code else {self.model.place(new): new}
        return step

    def upsert(self) -> Step:
        given = self.row()
        old = self.model.rows.get(self.model.place(given))
        ops, new = self._changed(old or given)
        new = new if old is not None else given
        step = Step(iproto.UPSERT, {iproto.SPACE_ID: self.space, iproto.TUPLE: given, iproto.OPS: ops})
        if self.model.rivals(new):
            step.code = FOUND
        else:
            step.effect[self.model.place(new)] = new
        return step

    def apply(self, step: Step) -> None:
        for place, row in step.effect.items():
            if row is None:
                del self.model.rows[place]
            else:
                self.model.rows[place] = row


def create(connection: iproto.Connection, space: int, name: str, indexes: Sequence[Index] = tuple(INDEXES)) -> None:
    """A space with these indexes; their ids may have gaps."""
    iproto.create_space(connection, space, name, indexes=[PRIMARY.definition()])
    for index in indexes:
        if index.id:
            connection.insert(288, [space, index.id, *index.definition()])


def check(connection: iproto.Connection, space: int, model: Model, dice: random.Random, keys: int = 3) -> int:
    """Every index of the space, by every iterator, by no key and by some keys; how many scans agreed."""
    scans = 0
    some = list(model.rows.values())
    writer = Writer(space, model, dice)
    for index in model.indexes:
        known = [writer.row(), *dice.sample(some, min(len(some), keys))]
        wanted = [[], *(index.key(row)[: dice.randrange(1, len(index.parts) + 1)] for row in known)]
        for key in wanted:
            for iterator in range(7):
                if index.kind == "hash" and (iterator, bool(key)) not in ((iproto.ALL, False), (iproto.EQ, True)):
                    continue
                if index.kind == "hash" and key:
                    key = index.key(known[-1])
                found = connection.select(space, key, index=index.id, iterator=iterator)
                expected = model.scan(index, iterator, key)
                if index.kind == "hash":
                    found, expected = sorted(found, key=model.place), sorted(expected, key=model.place)
                assert found == expected, (index.name, iterator, key, found, expected)
                scans += 1
    return scans
