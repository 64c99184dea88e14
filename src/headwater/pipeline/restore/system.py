"""The system spaces at a point: read from the snapshot, and followed row by row through the logs.

A machine. Besides the tuples it keeps what they mean for the rows of other spaces: since when a space is as it is,
under which definitions its rows were written, and which events moved sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from typing import Any

from headwater.errors import BoxError, HeadwaterError
from headwater.kernels import mp_array_fields
from headwater.pipeline.dictionary import Dictionary, SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.restore.keyspec import KeySpec, key_spec
from headwater.pipeline.restore.sequences import Sequences
from headwater.store import system
from headwater.store.update import apply_update, apply_upsert
from headwater.wire.constants import Type
from headwater.wire.mpwrite import pack_array_head
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request, of_row
from headwater.wire.xrow import Row

OWN_ENGINES = frozenset(("sysview", "service", "blackhole"))
"""Engines of spaces without tuples of their own."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A row of a chain of logs: number of the part, and of the row in it."""

    part: int
    row: int


@dataclass(frozen=True, slots=True)
class Definition:
    """What a space is like from a place on; None: from the snapshot on."""

    since: Place | None
    facts: SpaceFacts
    key: KeySpec | None


@dataclass(slots=True)
class Life:
    """A space that exists, since it was last made or emptied."""

    since: Place | None
    """Rows before it do not count, nor the snapshot's; None: they do."""
    definitions: list[Definition] = field(default_factory=list)

    @property
    def now(self) -> Definition:
        return self.definitions[-1]

    @property
    def first(self) -> Definition:
        return self.definitions[0]

    @property
    def is_rekeyed(self) -> bool:
        """Did its primary key change while there were tuples?"""
        return len({each.key.parts for each in self.definitions if each.key is not None}) > 1


class SystemState:
    """All system spaces."""

    def __init__(self, tuples: Iterable[tuple[int, bytes]]) -> None:
        """From the rows of a snapshot. PipelineError if they contradict each other."""
        rows = list(tuples)
        self.dictionary = Dictionary.from_tuples(rows)
        self.tuples: dict[int, dict[bytes, bytes]] = {}
        self.lives: dict[int, Life] = {}
        for space_id, packed in rows:
            self.tuples.setdefault(space_id, {})[self._key_of(space_id, packed)] = packed
        self.sequences = Sequences(self.of(system.SEQUENCE), self.of(system.SEQUENCE_DATA), self.attachments())
        for facts in self.dictionary.spaces:
            if _has_tuples(facts):
                self.lives[facts.id] = Life(None, [Definition(None, facts, self._key(facts))])

    # ---- asking

    def of(self, space_id: int) -> list[bytes]:
        return list(self.tuples.get(space_id, {}).values())

    def rows(self) -> Iterator[tuple[int, list[bytes]]]:
        """(space, tuples), both in order, as a snapshot has them."""
        for space_id in sorted(self.tuples):
            facts = self.dictionary.find(space_id)
            spec = self._key(facts) if facts is not None else None
            if spec is not None and not (facts is not None and facts.is_temporary):
                yield space_id, sorted(self.of(space_id), key=cmp_to_key(spec.key_def().compare))

    @property
    def version(self) -> tuple[int, int, int]:
        """Of the system spaces (`_schema['version']`)."""
        found = self.schema("version")
        return (found[1], found[2], found[3] if len(found) > 3 else 0) if found else (0, 0, 0)

    def schema(self, key: str) -> Any:
        """A row of `_schema`, None without."""
        packed = self.tuples.get(system.SCHEMA, {}).get(pack([key]))
        return unpack(packed) if packed is not None else None

    @property
    def replicaset(self) -> str | None:
        """Under either name that it has had (schema 3.0.0)."""
        found = self.schema("replicaset_uuid") or self.schema("cluster")
        return str(found[1]) if found else None

    def cluster(self) -> dict[int, list[Any]]:
        """Members by id: the rows of `_cluster`."""
        return {row[0]: row for row in map(unpack, self.of(system.CLUSTER))}

    def attachments(self) -> Mapping[int, tuple[int, int]]:
        """Space → (sequence, field) that it fills."""
        found = {}
        for row in map(unpack, self.of(system.SPACE_SEQUENCE)):
            facts = self.dictionary.find(row[0])
            field_ = row[3] if len(row) > 3 else (facts.key_fields or (0,))[0] if facts is not None else 0
            found[row[0]] = (row[1], field_)
        return found

    def collations(self) -> Mapping[int, bytes]:
        return {unpack(packed)[0]: packed for packed in self.of(system.COLLATION)}

    # ---- changing

    def put(self, space_id: int, value: list[Any]) -> None:
        """A tuple, as it is to be from now on."""
        packed = pack(value)
        self.tuples.setdefault(space_id, {})[self._key_of(space_id, packed)] = packed

    def forget_rows(self, space_id: int) -> None:
        """The space is as it is now, and has no tuples."""
        self.lives[space_id] = Life(None, [replace(self.lives[space_id].now, since=None)])

    def remove(self, space_id: int, key: list[Any]) -> None:
        self.tuples.get(space_id, {}).pop(pack(key), None)

    def apply(self, row: Row, place: Place) -> None:
        """A change of a system space. PipelineError if it does not fit what is there."""
        try:
            request = of_row(row)
            old, new = self._change(request)
        except (HeadwaterError, LookupError, TypeError, ValueError) as error:
            words = error.message if isinstance(error, BoxError) else error
            raise PipelineError(
                f"The change of a system space by replica {row.replica_id}, LSN {row.lsn}, does not fit what the files "
                f"before it hold: {words}."
            ) from None
        self.dictionary.apply(row)
        if old != new:
            self._noticed(request.space_id, old, new, place)

    def _change(self, request: Request) -> tuple[bytes | None, bytes | None]:
        """(tuple before, tuple after)."""
        there = self.tuples.setdefault(request.space_id, {})
        facts = self.dictionary.space(request.space_id)
        if request.type in (Type.INSERT, Type.REPLACE, Type.UPSERT):
            assert request.tuple is not None
            key = self._key_of(request.space_id, request.tuple)
            old, new = there.get(key), request.tuple
            if request.type == Type.UPSERT and old is not None:
                assert request.ops is not None
                new = apply_upsert(request.ops, old, facts.names, request.index_base).tuple
        else:
            if request.index_id or request.key is None:
                return None, None
            key = _canonical(request.key)
            old = there.get(key)
            if old is None:
                return None, None
            if request.type == Type.DELETE:
                return there.pop(key), None
            assert request.tuple is not None
            new = apply_update(request.tuple, old, facts.names, request.index_base)
        there[key] = new
        return old, new

    def _key_of(self, space_id: int, packed: bytes) -> bytes:
        facts = self.dictionary.space(space_id)
        ends = mp_array_fields(packed)
        parts = [packed[ends[number] : ends[number + 1]] for number in facts.key_fields]
        return _canonical(pack_array_head(len(parts)) + b"".join(parts))

    def _key(self, facts: SpaceFacts) -> KeySpec | None:
        return key_spec(facts, self.collations())

    # ---- what it means

    def _noticed(self, space_id: int, old: bytes | None, new: bytes | None, place: Place) -> None:
        row = unpack(new if new is not None else old or b"")
        if space_id == system.TRUNCATE and new is not None:
            self._emptied(row[0], place)
        elif space_id == system.SPACE:
            self._space_changed(row[0], place, is_new=old is None, is_gone=new is None)
        elif space_id == system.INDEX and row[1] == 0:
            self._primary_changed(row[0], place, is_other=old is None or new is None)
        elif space_id in (system.SEQUENCE, system.SEQUENCE_DATA):
            self.sequences.changed(space_id, row, place, is_gone=new is None)
        elif space_id == system.SPACE_SEQUENCE:
            self.sequences.attached(self.attachments(), place)

    def _emptied(self, space_id: int, place: Place) -> None:
        life = self.lives.get(space_id)
        if life is not None:
            life.since = place
            life.definitions = [replace(life.now, since=place)]

    def _space_changed(self, space_id: int, place: Place, *, is_new: bool, is_gone: bool) -> None:
        if is_gone:
            self.lives.pop(space_id, None)
            return
        facts = self.dictionary.space(space_id)
        if not _has_tuples(facts):
            return
        definition = Definition(place, facts, self._key(facts))
        if is_new or space_id not in self.lives:
            self.lives[space_id] = Life(place, [definition])
        else:
            self.lives[space_id].definitions.append(definition)

    def _primary_changed(self, space_id: int, place: Place, *, is_other: bool) -> None:
        """Without a primary key a space has no tuples (memtx_space.c, memtx_space_drop_primary_key)."""
        life = self.lives.get(space_id)
        if life is None:
            return
        facts = self.dictionary.space(space_id)
        definition = Definition(place, facts, self._key(facts))
        if is_other:
            life.since, life.definitions = place, [definition]
        else:
            life.definitions.append(definition)


def _has_tuples(facts: SpaceFacts) -> bool:
    """Are there rows of it in logs, that are no system space's?"""
    return not facts.is_system and not facts.is_temporary and facts.engine not in OWN_ENGINES


def _canonical(key: bytes) -> bytes:
    """One form of each key: integers and strings in their shortest."""
    return pack(unpack(key))
