"""Data of every kind that 2.6.0 knows, written over iproto alone, and a dump of everything for comparing."""

from __future__ import annotations

import random
from typing import Any

from tests.interop.script.schema import SCHEMA, named
from tests.interop.script.types import FULL, SCALARS
from tests.support import iproto
from tests.support.subjects import snapshot, transaction

MORE_SPACES: list[tuple[int, list[Any]]] = [
    (280, [650, 1, "local", "memtx", 0, {"group_id": 1}, []]),
    (288, [650, 0, "primary", "tree", {"unique": True}, [[0, "unsigned"]]]),
    (280, [651, 1, "temporary", "memtx", 0, {"temporary": True}, []]),
    (288, [651, 0, "primary", "tree", {"unique": True}, [[0, "unsigned"]]]),
    (280, [652, 1, "emptied", "memtx", 0, {}, named(id="unsigned", text="string")]),
    (288, [652, 0, "primary", "tree", {"unique": True}, [[0, "unsigned"]]]),
    (288, [652, 1, "text", "tree", {"unique": False}, [[1, "string"], [0, "unsigned"]]]),
    (280, [653, 1, "big", "memtx", 0, {}, []]),
    (288, [653, 0, "primary", "hash", {"unique": True}, [[0, "unsigned"], [1, "string"]]]),
    (284, [2, 1, "free_seq", -3, -100, 100, 50, 10, True]),
]

USERS: list[tuple[int, list[Any]]] = [
    (304, [50, 1, "reader", "user", {"chap-sha1": "vhvewKp0tNyweZQ+cFKAlsyphfg="}]),
    (304, [51, 1, "team", "role", {}]),
    (312, [1, 50, "universe", 0, 24]),
    (312, [1, 50, "role", 2, 4]),
    (312, [1, 50, "role", 51, 4]),
    (312, [1, 51, "space", 600, 3]),
]

EMPTIED, LOCAL, TEMPORARY, BIG, WORDS, TYPES, KINDS, AUTO = 652, 650, 651, 653, 600, 604, 603, 611


def define(connection: iproto.Connection) -> None:
    width = len(connection.select(280, [304], iterator=iproto.EQ)[0][6])
    for space, row in [*SCHEMA, *MORE_SPACES, *USERS]:
        # Since 2.11 users have a history of their passwords and the time of their last change.
        connection.insert(space, [*row, [], 0][:width] if space == 304 else row)


def fill(connection: iproto.Connection, seed: int = 1, rows: int = 300) -> None:
    """Every kind of request leaves its rows in the journal; a snapshot falls into the middle."""
    dice = random.Random(seed)
    for n, value in enumerate(SCALARS):
        connection.ask(iproto.REPLACE, {iproto.SPACE_ID: KINDS, iproto.TUPLE: [value, n]})
    for n in range(rows):
        connection.replace(TYPES, [n, *FULL[1:]] if n % 3 else [n, *[None] * 13])
        connection.replace(WORDS, [n, f"word {dice.randrange(50)}", dice.randrange(-99, 99), "x" * dice.randrange(200)])
    changes(connection, rows)
    snapshot(connection)
    for n in range(rows):
        connection.replace(BIG, [n, "y" * (n % 40), b"z" * dice.randrange(3000)])
    replace = [(iproto.REPLACE, {iproto.SPACE_ID: LOCAL, iproto.TUPLE: [n, "here"]}) for n in range(5)]
    for type_, body in replace:
        connection.ask(type_, body)
    connection.replace(TEMPORARY, [1, "soon gone"])
    for n in range(20):
        rows_of = [{iproto.SPACE_ID: WORDS, iproto.TUPLE: [1000 + n * 10 + i, "transaction", n]} for i in range(7)]
        transaction(connection, [(iproto.REPLACE, body) for body in rows_of])
    for n in range(5):
        connection.insert(AUTO, [None, n])
    truncated(connection)


def changes(connection: iproto.Connection, rows: int) -> None:
    for n in range(0, rows, 2):
        key = {iproto.SPACE_ID: WORDS, iproto.KEY: [n]}
        assert connection.ask(iproto.UPDATE, {**key, iproto.TUPLE: [["+", 2, 1000], ["=", -1, "changed"]]}).data
        body = {iproto.SPACE_ID: WORDS, iproto.TUPLE: [n + 5000, "upserted", 1], iproto.OPS: [["+", 2, 1]]}
        for _ in range(2):
            assert connection.ask(iproto.UPSERT, body).data == []
    for n in range(0, rows, 5):
        assert connection.ask(iproto.DELETE, {iproto.SPACE_ID: WORDS, iproto.KEY: [n]}).data
    for n in (1, 2):
        key = {iproto.SPACE_ID: TYPES, iproto.KEY: [n]}
        assert connection.ask(iproto.UPDATE, {**key, iproto.TUPLE: [["=", "s", "by name"], ["!", -1, "end"]]}).data


def truncated(connection: iproto.Connection) -> None:
    for n in range(100):
        connection.replace(EMPTIED, [n, f"gone {n}"])
    connection.ask(iproto.UPSERT, {iproto.SPACE_ID: 330, iproto.TUPLE: [EMPTIED, 1], iproto.OPS: [["+", 1, 1]]})
    for n in range(10):
        connection.replace(EMPTIED, [n, f"after {n}"])


# What one server may have and the other not: identity, and the views that 3.x shows in another shape.
SYSTEM = (272, 276, 280, 284, 288, 296, 304, 312, 320, 330, 340)


def dump(connection: iproto.Connection) -> dict[str, Any]:
    """Everything: rows of the system spaces, and of the other spaces in the order of every index."""
    out: dict[str, Any] = {f"system {space}": connection.select(space) for space in SYSTEM}
    spaces = {row[0]: row for row in connection.select(280) if row[0] >= 512}
    for space, number, name, *_ in connection.select(288):
        if space in spaces and not spaces[space][5].get("temporary"):
            out[f"{spaces[space][2]}.{name}"] = ordered(connection, space, number, spaces)
    return out


def ordered(connection: iproto.Connection, space: int, number: int, spaces: dict[int, Any]) -> list[Any]:
    """In the order of the index; of a hash index, whose order is nobody's business, sorted."""
    kind = connection.select(288, [space, number], iterator=iproto.EQ)[0][3]
    rows = connection.select(space, index=number)
    return sorted(rows, key=repr) if kind.lower() == "hash" else rows
