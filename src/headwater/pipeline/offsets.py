"""What a stream's checkpoint holds: how far it is in each replica set, as canonical JSON.

Spark compares offsets as text and never asks whether they grow, so the order of keys is fixed here, and no position is
ever before one that was published. A position in the stream is a vclock at the end of transactions: the rows between
two of them are one set, whoever sends them in whatever order. A position in a snapshot names the snapshot and one of
its rows.

    {"sets": {"<replica set>": {"phase": "stream", "schema": "…", "uuid": "…", "vclock": {"1": 1042, "2": 77}}}, "v": 1}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from headwater.pipeline.errors import PipelineError

VERSION = 1
VClockMap = Mapping[int, int]


class Phase(StrEnum):
    SNAPSHOT = "snapshot"
    STREAM = "stream"


class Via(StrEnum):
    """How a snapshot is come by, and so what its rows' numbers are."""

    NONE = ""
    """It has not begun."""
    CURSOR = "cursor"
    """It lies on the server's disk; numbers are the server's."""
    SPOOL = "spool"
    """It was copied to a directory of ours; rows are counted from 0."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream is in one replica set."""

    replicaset: UUID
    phase: Phase
    vclock: VClockMap
    """STREAM: rows up to here are behind us. SNAPSHOT: what the snapshot holds, component 0 too, for it names the file;
    empty while it has not begun."""
    uuid: UUID
    """Who the stream is for the servers: drawn once, so that what is kept for it is found again."""
    row: int = 0
    """SNAPSHOT: number of the row that comes next."""
    via: Via = Via.NONE
    server: UUID | None = None
    """SNAPSHOT by CURSOR: the instance that has it."""
    attempt: int = 0
    """So many snapshots were begun and lost before this one; each new one is announced by a TRUNCATE."""
    schema: str = ""
    """The dictionary here, packed (`history`): names, primary keys, the format of a typed stream's space."""

    @property
    def is_begun(self) -> bool:
        return self.phase is Phase.STREAM or self.via is not Via.NONE

    def fields(self) -> dict[str, Any]:
        """As JSON has them: sorted, and nothing that says nothing."""
        found: dict[str, Any] = {}
        if self.attempt:
            found["attempt"] = self.attempt
        found["phase"] = str(self.phase)
        if self.phase is Phase.SNAPSHOT:
            found["row"] = self.row
        if self.schema:
            found["schema"] = self.schema
        if self.server is not None:
            found["server"] = str(self.server)
        found["uuid"] = str(self.uuid)
        found["vclock"] = {str(number): self.vclock[number] for number in sorted(self.vclock)}
        if self.via is not Via.NONE:
            found["via"] = str(self.via)
        return found

    def to_json(self) -> str:
        return json.dumps({str(self.replicaset): self.fields()})

    @classmethod
    def from_json(cls, text: str) -> Position:
        found = json.loads(text)
        ((name, fields),) = found.items()
        return read_position(name, fields)


def stream_position(replicaset: UUID, vclock: VClockMap, uuid: UUID, *, attempt: int = 0, schema: str = "") -> Position:
    """Component 0 and those of 0 are left out: they mean nothing to anybody else."""
    return Position(replicaset, Phase.STREAM, shared(vclock), uuid, attempt=attempt, schema=schema)


def read_position(name: str, found: Mapping[str, Any]) -> Position:
    """KeyError, TypeError or ValueError if it is none."""
    vclock = {int(number): lsn for number, lsn in found["vclock"].items()}
    if not all(type(lsn) is int and lsn >= 0 for lsn in vclock.values()):
        raise ValueError("a vclock with an LSN that is no number")
    return Position(
        UUID(name),
        Phase(found["phase"]),
        dict(sorted(vclock.items())),
        UUID(found["uuid"]),
        int(found.get("row", 0)),
        Via(found.get("via", "")),
        UUID(found["server"]) if "server" in found else None,
        int(found.get("attempt", 0)),
        str(found.get("schema", "")),
    )


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream is in all of its replica sets."""

    positions: Mapping[UUID, Position] = field(default_factory=dict)

    @classmethod
    def of(cls, positions: Iterable[Position]) -> Offset:
        return cls({position.replicaset: position for position in positions})

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Offset:
        """What Spark hands back. PipelineError if that is not ours."""
        version = found.get("v")
        if version != VERSION:
            told = "a later version of Headwater" if isinstance(version, int) else "another source"
            raise PipelineError(
                f"The checkpoint of this query was written by {told}: its offset is {shorten(found)}. Take the version "
                "that wrote it, or begin with another checkpointLocation."
            )
        try:
            return cls.of(read_position(name, fields) for name, fields in found["sets"].items())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PipelineError(
                f"The checkpoint of this query holds an offset that cannot be read, {shorten(found)}: {error!r}. If it "
                "was changed by hand, take the file in its directory `offsets` back; otherwise begin with another "
                "checkpointLocation."
            ) from None

    def fields(self) -> dict[str, Any]:
        """For Spark: a dictionary whose JSON is canonical."""
        ordered = sorted(self.positions.values(), key=lambda position: str(position.replicaset))
        return {"sets": {str(position.replicaset): position.fields() for position in ordered}, "v": VERSION}

    def to_json(self) -> str:
        return json.dumps(self.fields())

    def get(self, replicaset: UUID) -> Position | None:
        return self.positions.get(replicaset)

    def put(self, position: Position) -> Offset:
        return Offset({**self.positions, position.replicaset: position})

    def __iter__(self) -> Iterator[Position]:
        return iter(self.positions.values())


# ---- vclocks as plain mappings --------------------------------------------------------------------


def shared(vclock: VClockMap) -> dict[int, int]:
    """Without component 0, which every instance has for itself, and without those that are 0."""
    return {int(number): int(vclock[number]) for number in sorted(vclock) if number and vclock[number]}


def covers(vclock: VClockMap, other: VClockMap) -> bool:
    """Is everything in `vclock` that is in `other`?"""
    return all(vclock.get(number, 0) >= lsn for number, lsn in other.items() if number)


def joined(vclock: VClockMap, other: VClockMap) -> dict[int, int]:
    """What is in one of them or the other."""
    return shared({number: max(vclock.get(number, 0), other.get(number, 0)) for number in {*vclock, *other}})


def text_of(vclock: VClockMap) -> str:
    """As the heads of files have it."""
    return "{" + ", ".join(f"{number}: {vclock[number]}" for number in sorted(vclock)) + "}"


def missing_range(have: VClockMap, oldest: VClockMap) -> str:
    """Rows behind `have` that a log which begins at `oldest` no longer has: `1: 18..40, 2: 3..7`."""
    gone = [
        f"{number}: {have.get(number, 0) + 1}..{lsn}"
        for number, lsn in sorted(oldest.items())
        if number and lsn > have.get(number, 0)
    ]
    return ", ".join(gone)


def shorten(found: object, size: int = 300) -> str:
    text = json.dumps(found, default=str)
    return text if len(text) <= size else text[: size - 1] + "…"


def without_schema(position: Position) -> Position:
    return replace(position, schema="")
