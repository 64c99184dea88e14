"""Random calls over the spaces of the script, decided by a seed: keys collide, types are wrong now and then, updates
take every operation. Both servers must answer each alike."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

from tests.interop.script.calls import Call
from tests.interop.script.reads import ITERATORS
from tests.interop.script.schema import (
    AUTO,
    BINARIES,
    DECIMALS,
    HASH,
    KINDS,
    NUMBERS,
    PAIRS,
    PLACES,
    STRINGS,
    TYPES,
    UUIDS,
    WORDS,
)

Dice = random.Random

WORD_LIST = ("", "a", "A", "b", "ab", "ä", "Z", "z", "ß", "longer than the others", "\x00", "я")


def unsigned(dice: Dice) -> Any:
    return dice.choice((0, 1, 2, 3, 5, 127, 128, 255, 256, 65535, 65536, 2**32, 2**63, 2**64 - 1, dice.randrange(20)))


def integer(dice: Dice) -> Any:
    return dice.choice((unsigned(dice), -unsigned(dice) % 2**63 - 2**63, -dice.randrange(1, 20), -33, -129, -(2**63)))


def number(dice: Dice) -> Any:
    return dice.choice(
        (integer(dice), dice.randrange(-20, 20) / 4, float(dice.randrange(-5, 5)), 1e19, -1e300, 2.0**53, decimal(dice))
    )


def decimal(dice: Dice) -> Decimal:
    return Decimal(dice.randrange(-50, 50)).scaleb(-dice.randrange(4))


def string(dice: Dice) -> Any:
    return dice.choice(WORD_LIST)


def uuid(dice: Dice) -> UUID:
    return UUID(int=dice.choice((0, 1, 2**64, 2**127, dice.randrange(10))))


def binary(dice: Dice) -> bytes:
    return dice.choice((b"", b"\x00", b"a", b"ab", b"\xff" * 3))


def scalar(dice: Dice) -> Any:
    return dice.choice((number, string, binary, boolean))(dice)


def boolean(dice: Dice) -> bool:
    return dice.random() < 0.5


def anything(dice: Dice) -> Any:
    kinds = (
        number,
        string,
        binary,
        boolean,
        uuid,
        lambda _: None,
        lambda _: [1, "x", [2]],
        lambda _: {"k": 1, "l": [2]},
    )
    return dice.choice(kinds)(dice)


FIELDS: dict[int, list[Any]] = {
    WORDS: [unsigned, string, integer, anything],
    PAIRS: [unsigned, string, number],
    HASH: [string, anything],
    KINDS: [scalar, anything],
    NUMBERS: [number, anything],
    DECIMALS: [decimal, anything],
    UUIDS: [uuid],
    BINARIES: [binary, anything],
    AUTO: [unsigned, anything],
    PLACES: [integer, anything, unsigned],
    STRINGS: [string, anything],
    TYPES: [unsigned, unsigned, integer, number, number, string, boolean, binary, decimal, uuid, scalar],
}

KEYS: dict[tuple[int, int], list[int]] = {
    (WORDS, 0): [0], (WORDS, 1): [1], (WORDS, 2): [2], (PAIRS, 0): [0, 1], (PAIRS, 1): [2], (HASH, 0): [0],
    (KINDS, 0): [0], (NUMBERS, 0): [0], (DECIMALS, 0): [0], (UUIDS, 0): [0], (UUIDS, 1): [0], (BINARIES, 0): [0],
    (AUTO, 0): [0], (PLACES, 0): [2, 0], (STRINGS, 0): [0], (STRINGS, 1): [0], (STRINGS, 2): [0], (TYPES, 0): [0],
}  # fmt: skip


def row(dice: Dice, space: int) -> list[Any]:
    """A tuple that mostly fits."""
    values = [(anything if dice.random() < 0.02 else kind)(dice) for kind in FIELDS[space]]
    if space == TYPES and isinstance(values[4], int | Decimal):
        values[4] = float(dice.randrange(10))
    if dice.random() < 0.05:
        return values[: dice.randrange(len(values) + 1)]
    if dice.random() < 0.2 and space not in (HASH, TYPES):
        values += [anything(dice) for _ in range(dice.randrange(4))]
    return values


def key(dice: Dice, space: int, index: int) -> list[Any]:
    fields = KEYS[space, index]
    values = [(anything if dice.random() < 0.02 else FIELDS[space][field])(dice) for field in fields]
    return values[: dice.randrange(len(values) + 1)] if dice.random() < 0.1 else values


def operation(dice: Dice, space: int) -> list[Any]:
    """One update operation: of an existing field as a rule, never far behind the end (2.6.0 refuses that)."""
    field = dice.randrange(1, len(FIELDS[space]) + 1) if dice.random() < 0.8 else -1
    match dice.choice("=+-&|^:!#="):
        case "=":
            return ["=", field, anything(dice)]
        case "+" | "-" as sign:
            return [sign, field, number(dice)]
        case "&" | "|" | "^" as sign:
            return [sign, field, unsigned(dice)]
        case ":":
            return [":", field, dice.randrange(-3, 4), dice.randrange(-2, 4), string(dice)]
        case "!":
            return ["!", field, anything(dice)]
        case _:
            return ["#", field, dice.randrange(3)]


def calls(seed: int, count: int) -> Iterator[Call]:
    dice = random.Random(seed)
    for n in range(count):
        space = dice.choice(list(FIELDS))
        index = dice.choice([i for s, i in KEYS if s == space])
        name = f"random {seed} {n}"
        match dice.choice(
            ("insert", "insert", "replace", "replace", "delete", "update", "update", "upsert", "select", "select")
        ):
            case "insert" | "replace" as kind:
                yield Call(f"{name} {kind}", kind, {"space": space, "tuple": row(dice, space)})
            case "delete":
                arguments = {"space": space, "index": index, "key": key(dice, space, index)}
                yield Call(f"{name} delete", "delete", arguments)
            case "update":
                ops = [operation(dice, space) for _ in range(dice.choice((1, 1, 2, 3)))]
                arguments = {"space": space, "index": index, "key": key(dice, space, index), "ops": ops}
                yield Call(f"{name} update", "update", arguments)
            case "upsert":
                ops = [operation(dice, space) for _ in range(dice.choice((1, 1, 2)))]
                yield Call(f"{name} upsert", "upsert", {"space": space, "tuple": row(dice, space), "ops": ops})
            case "select":
                arguments = {
                    "space": space, "index": index, "key": key(dice, space, index), "iterator": dice.choice(ITERATORS),
                    "limit": dice.choice((1, 5, 100)), "offset": dice.choice((0, 0, 1, 3)),
                }  # fmt: skip
                yield Call(f"{name} select", "select", arguments)
    for space, index in KEYS:
        if space not in (HASH, UUIDS) or index:
            yield Call(f"random {seed} all of {space}/{index}", "select", {"space": space, "index": index})
