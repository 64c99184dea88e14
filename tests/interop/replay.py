"""What a directory must contain, computed from the JSON that Tarantool's own `xlog.pairs` printed of its files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack

TRUNCATE, SPACE, INDEX = 330, 280, 288

Rows = dict[int, dict[str, list[Any]]]
"""Space id -> primary key as text -> tuple."""


class State:
    """Spaces as rows say they are. Keys are the fields of each space's primary index, as `_index` tells."""

    def __init__(self) -> None:
        self.spaces: Rows = {}
        self.parts: dict[int, list[int]] = {}

    def key_of(self, space: int, row: list[Any]) -> str:
        return json.dumps([row[field] for field in self.parts.get(space, SYSTEM_KEYS.get(space, [0]))])

    def apply(self, row: dict[str, Any]) -> None:
        header, body = row["HEADER"], row["BODY"]
        if not isinstance(body, dict) or "space_id" not in body:
            return
        space = body["space_id"]
        match header["type"]:
            case "INSERT" | "REPLACE":
                self._put(space, body["tuple"])
            case "DELETE":
                self._remove(space, body["key"])
            case "UPDATE":
                key = json.dumps(body["key"])
                self._put(
                    space, updated(self.spaces[space][key], body["tuple"], body.get("index_base", 0), self.names(space))
                )
            case "UPSERT":
                there = self.spaces.get(space, {}).get(self.key_of(space, body["tuple"]))
                base, ops = body.get("index_base", 0), body["operations"]
                self._put(space, body["tuple"] if there is None else updated(there, ops, base, self.names(space)))
            case other:
                raise AssertionError(f"the replay does not know {other}")

    def names(self, space: int) -> list[str]:
        definition = self.spaces.get(SPACE, {}).get(json.dumps([space]))
        return [field["name"] for field in definition[6]] if definition else []

    def _put(self, space: int, row: list[Any]) -> None:
        self.spaces.setdefault(space, {})[self.key_of(space, row)] = row
        if space == INDEX and row[1] == 0:
            self.parts[row[0]] = [part["field"] if isinstance(part, dict) else part[0] for part in row[5]]
        if space == TRUNCATE:
            self.spaces[row[0]] = {}

    def _remove(self, space: int, key: list[Any]) -> None:
        del self.spaces[space][json.dumps(key)]


SYSTEM_KEYS = {288: [0, 1], 312: [1, 2, 3], 340: [0], 388: [0], 372: [0, 1]}


def updated(row: list[Any], operations: Iterable[list[Any]], base: int, names: list[str]) -> list[Any]:
    """The few operations that the recorded files use."""
    out = list(row)
    for operation, field, value in operations:
        at = names.index(field) if isinstance(field, str) else field - base
        if operation == "=":
            out[at : at + 1] = [value]
        elif operation == "+":
            out[at] += value
        else:
            raise AssertionError(f"the replay does not know operation {operation}")
    return out


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- what we read, in the words of that JSON


def as_json(value: Any) -> Any:
    """A value read over the wire as `xlog.pairs` and `json.encode` print it."""
    match value:
        case msgpack.ExtType(code=4, data=data):
            return datetime_text(data)
        case msgpack.ExtType(code=6, data=data):
            return interval_text(data)
        case bool() | None | str() | int():
            return value
        case float():
            return json.loads(f"{value:.14g}")
        case bytes():
            return value.decode(errors="surrogateescape")
        case Decimal():
            return format(value, "f")
        case UUID():
            return str(value)
        case list() | tuple():
            return [as_json(item) for item in value]
        case dict():
            return {str(key): as_json(item) for key, item in value.items()}
    raise TypeError(f"no JSON for {value!r}")


def datetime_text(data: bytes) -> str:
    """mp_datetime.c: seconds, then nanoseconds, offset in minutes and index of the zone if any of them is not 0."""
    seconds = int.from_bytes(data[:8], "little", signed=True)
    nanoseconds = int.from_bytes(data[8:12], "little", signed=True)
    offset = int.from_bytes(data[12:14], "little", signed=True)
    zone = timezone(timedelta(minutes=offset))
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone)
    fraction = ""
    if nanoseconds:
        digits = f"{nanoseconds:09d}"
        fraction = "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)
    suffix = "Z" if not offset else text.strftime("%z")
    return text.strftime("%Y-%m-%dT%H:%M:%S") + fraction + suffix


def interval_text(data: bytes) -> str:
    names = ("years", "months", "weeks", "days", "hours", "minutes", "seconds", "nanoseconds")
    unpacker = msgpack.Unpacker()
    unpacker.feed(data[1:])
    parts = []
    for _ in range(data[0]):
        field, value = unpacker.unpack(), unpacker.unpack()
        if field < len(names):
            parts.append(f"{value} {names[field]}")
    text = ", ".join(parts)
    return text if text.startswith("-") else "+" + text
