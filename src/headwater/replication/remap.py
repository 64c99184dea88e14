"""Replica ids of one's own (seed 004, "Detailed design"): with `replica_ids: remap` a node numbers the members of its
set itself, gives no number twice, and translates at its borders whatever a peer numbers otherwise.

A machine. `Registry` is how this node numbers the instances it knows of. `Numbering` is how one peer does, as far as
rows of its `_cluster` tell; an id that it gave away again has several owners, the last of which writes now.
`Translator` rewrites a stream of packets from one numbering into the other. Nothing but ids changes: LSNs, order,
transactions and all other bytes stay, so that a row is the same row on every node, `(instance, LSN)`, under whatever
number.

Where this differs from the seed: the source of a row of `_cluster` is told by the connection it came over, not by a
third field, which is the member's name since 3.0; the ids are kept in a local space (`_replica_ids`), so that expelled
instances keep theirs; and rows of `_cluster` become REPLACE, because two nodes may register one instance at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from uuid import UUID

from headwater.errors import BoxError, Er, MsgPackError, er
from headwater.kernels import frame_end, mp_array_fields, renumber_frames
from headwater.store import system
from headwater.typing import VCLOCK_MAX
from headwater.wire.body import fields
from headwater.wire.constants import SYNCHRO_TYPES, Key, MpType, Type
from headwater.wire.mpread import KIND, read_text, read_uint
from headwater.wire.mpwrite import pack_uint
from headwater.wire.request import of_row
from headwater.wire.synchro import decode_raft, encode_raft
from headwater.wire.xrow import Row, decode_row, encode_packet

UNKNOWN = -1
"""In a table of ids: rows of this replica cannot be told apart."""

_UUID_FIELD = 1
"""Of a row of `_cluster`."""
_ID_FIELDS: Mapping[int, int] = {system.CLUSTER: 0, system.RECOVERY_POINT: 1}
"""System spaces whose tuples, and whose keys, hold a replica id, and in which field."""
_DML = (Type.INSERT, Type.REPLACE, Type.UPDATE, Type.DELETE, Type.UPSERT)

VClockMap = Mapping[int, int]


class UnknownSource(Exception):  # noqa: N818 (the seed's word)
    """A row of a replica that the numbering of the peer does not name."""

    def __init__(self, replica_id: int) -> None:
        super().__init__(f"replica id {replica_id} is not in the peer's _cluster")
        self.replica_id = replica_id


class Registry:
    """Ids that this node gives: `RC = max(max_id, RC) + 1` (seed 004, problem 5)."""

    def __init__(self, known: Iterable[tuple[int, UUID]] = ()) -> None:
        self.counter = 0
        """The greatest id that was ever in use here, for whomever."""
        self.version = 0
        """Counts changes."""
        self.news: list[tuple[int, UUID]] = []
        """What was given since somebody last kept it."""
        self._ids: dict[UUID, int] = {}
        self._owners: dict[int, UUID] = {}
        for replica_id, uuid in known:
            self._bind(replica_id, uuid)

    def __iter__(self) -> Iterator[tuple[int, UUID]]:
        return iter(sorted(self._owners.items()))

    def find(self, uuid: UUID) -> int:
        """0 if it has none."""
        return self._ids.get(uuid, 0)

    def owner(self, replica_id: int) -> UUID | None:
        return self._owners.get(replica_id)

    def give(self, uuid: UUID) -> int:
        """The id of this instance: the one it had, or a new one. REPLICA_MAX when all are used up."""
        known = self._ids.get(uuid)
        if known is not None:
            return known
        if self.counter + 1 >= VCLOCK_MAX:
            raise er(Er.REPLICA_MAX, VCLOCK_MAX)
        self.put(self.counter + 1, uuid)
        return self.counter

    def put(self, replica_id: int, uuid: UUID) -> None:
        """It has this id: told by our own `_cluster`, or the id goes over to an instance that takes another's place."""
        if self._ids.get(uuid) != replica_id or self._owners.get(replica_id) != uuid:
            self._bind(replica_id, uuid)
            self.news.append((replica_id, uuid))

    def reserve(self, vclock: VClockMap) -> None:
        """Ids that rows have, though nobody knows whose they were, are not given either."""
        self.counter = max(self.counter, *vclock, 0)

    def _bind(self, replica_id: int, uuid: UUID) -> None:
        self.version += 1
        former = self._owners.get(replica_id)
        if former is not None and former != uuid and self._ids.get(former) == replica_id:
            del self._ids[former]
        self._ids[uuid] = replica_id
        self._owners[replica_id] = uuid
        self.counter = max(self.counter, replica_id)


@dataclass(slots=True, eq=False)
class Numbering:
    """How one peer numbers, as far as we were told."""

    owners: dict[int, list[UUID]] = field(default_factory=dict)
    """Who has, and before that had, an id there; oldest first. A server that gives an id anew goes on with its LSNs."""
    ends: dict[tuple[int, UUID], int] = field(default_factory=dict)
    """Of a former owner that has another id there now: the last of its rows under the old one, or a later one."""
    version: int = 0
    """Counts changes."""

    def learn(self, replica_id: int, uuid: UUID, end: int = 0) -> bool:
        """A row of its `_cluster`. True if that is news. `end`: how far we have the rows of this instance; what the
        peer has of them under an id of before goes no further."""
        if not 0 < replica_id < VCLOCK_MAX:
            raise er(Er.REPLICA_MAX, replica_id)
        owners = self.owners.setdefault(replica_id, [])
        if owners and owners[-1] == uuid:
            return False
        if uuid in owners:
            owners.remove(uuid)
        owners.append(uuid)
        for former, them in self.owners.items():
            if former != replica_id and uuid in them[:-1]:
                self.ends.setdefault((former, uuid), end)
        self.version += 1
        return True

    def replace(self, members: Iterable[tuple[int, UUID]]) -> bool:
        """All that it has ever given, as it says itself. True if that is news."""
        told = {replica_id: [uuid] for replica_id, uuid in members}
        if told == self.owners:
            return False
        self.owners, self.ends = told, {}
        self.version += 1
        return True

    def is_former(self, uuid: UUID) -> bool:
        """Did it have an id there, which is another's now?"""
        return not self.id_of(uuid) and any(uuid in owners for owners in self.owners.values())

    def owner(self, replica_id: int) -> UUID | None:
        owners = self.owners.get(replica_id)
        return owners[-1] if owners else None

    def id_of(self, uuid: UUID) -> int:
        """The id under which it writes there; 0 for none."""
        return next((id_ for id_, owners in self.owners.items() if owners[-1] == uuid), 0)

    def invent(self, uuid: UUID, end: int = 0) -> int:
        """An id for somebody the peer does not know yet: one that nobody ever had there."""
        replica_id = max(self.owners, default=0) + 1
        if replica_id >= VCLOCK_MAX:
            raise er(Er.REPLICA_MAX, VCLOCK_MAX)
        self.learn(replica_id, uuid, end)
        return replica_id

    # ---- vclocks ----------------------------------------------------------------------------------------

    def to_local(self, vclock: VClockMap, registry: Registry, have: VClockMap | None = None) -> dict[int, int]:
        """What the peer has, in our ids. An id that had several owners counts for the last. With `have`, our own
        vclock: the ones before it have nothing more that the peer would take under that id; so it has all that we have,
        or, of one that has another id there now, all that we had when it got that."""
        out = {0: vclock[0]} if vclock.get(0) else {}
        for replica_id, lsn in vclock.items():
            local = self._local(replica_id, registry) if replica_id else 0
            if local:
                out[local] = max(lsn, out.get(local, 0))
            if replica_id and have is not None:
                for uuid in self.owners.get(replica_id, ())[:-1]:
                    self._add_former(out, replica_id, uuid, registry, have)
        return out

    def _add_former(
        self, out: dict[int, int], replica_id: int, uuid: UUID, registry: Registry, have: VClockMap
    ) -> None:
        local = registry.find(uuid)
        lsn = have.get(local, 0) if local else 0
        if self.id_of(uuid):
            lsn = min(lsn, self.ends.get((replica_id, uuid), 0))
        if lsn:
            out[local] = max(lsn, out.get(local, 0))

    def to_remote(self, vclock: VClockMap, registry: Registry) -> dict[int, int]:
        """What we have, in the peer's ids: of an id with several owners, the rows of the last; where there are none of
        it yet, it goes on behind those of the ones before."""
        out = {0: vclock[0]} if vclock.get(0) else {}
        for replica_id, owners in self.owners.items():
            *former, last = [vclock.get(registry.find(uuid) or UNKNOWN, 0) for uuid in owners]
            lsn = last or max(former, default=0)
            if lsn:
                out[replica_id] = lsn
        return out

    def filter_to_remote(self, ids: Iterable[int], registry: Registry) -> frozenset[int]:
        """An ID_FILTER of ours. Who is not known there needs no filter."""
        named = {registry.owner(replica_id) for replica_id in ids}
        return frozenset(id_ for id_, owners in self.owners.items() if owners[-1] in named)

    # ---- tables -----------------------------------------------------------------------------------------

    def _local(self, replica_id: int, registry: Registry) -> int:
        uuid = self.owner(replica_id)
        return registry.find(uuid) if uuid is not None else 0

    def table_to_local(self, registry: Registry) -> list[int]:
        return [0, *(self._local(replica_id, registry) or UNKNOWN for replica_id in range(1, VCLOCK_MAX))]

    def table_to_remote(self, registry: Registry) -> list[int]:
        table = [0] + [UNKNOWN] * (VCLOCK_MAX - 1)
        for replica_id, owners in self.owners.items():
            local = registry.find(owners[-1])
            if local:
                table[local] = replica_id
        return table


class Way(Enum):
    IN = "in"
    """From the peer's numbering into ours: an applier's stream."""
    OUT = "out"
    """From ours into the peer's, who does not translate: a relay's."""


class Translator:
    """A stream of whole packets between one peer and us."""

    def __init__(
        self,
        registry: Registry,
        numbering: Numbering,
        way: Way,
        *,
        learned: Callable[[int, UUID], object] = lambda remote_id, uuid: None,
        end_of: Callable[[UUID], int] = lambda uuid: 0,
    ) -> None:
        """`learned(remote id, uuid)`: the stream told something new of the peer's numbering; to be kept.
        `end_of(uuid)`: how far we have the rows of this instance."""
        self.skips: set[int] = set()
        """Ids of the source whose rows are left out, because nobody can say whose they are (seed 004, problem 6)."""
        self.past: tuple[UUID, VClockMap] | None = None
        """Ourselves, if we are a member there, and a vclock of the source, in its ids, when we were: rows up to it that
        remove us tell of a time before we were taken back, and remove nobody."""
        self.skipped = 0
        """Rows left out so far."""
        self._registry = registry
        self._numbering = numbering
        self._way = way
        self._learned = learned
        self._end_of = end_of
        self._versions = -1, -1
        """Of both numberings when the table was made."""
        self._made: list[int] = []

    @property
    def _table(self) -> list[int]:
        """Ids of one numbering by those of the other."""
        versions = self._registry.version, self._numbering.version
        if versions != self._versions:
            make = self._numbering.table_to_local if self._way is Way.IN else self._numbering.table_to_remote
            self._made, self._versions = make(self._registry), versions
        return self._made

    def translate(self, data: bytes, offset: int = 0, end: int | None = None) -> tuple[bytes, int]:
        """The whole packets of data[offset:end] in the other numbering, and where the rest begins. It stops before a
        packet that has no translation; asked for that one first, it raises UnknownSource (its writer cannot be told)
        or BoxError."""
        end = len(data) if end is None else end
        out: list[bytes] = []
        while offset < end:
            moved, offset = renumber_frames(data, offset, end, self._table)
            if moved:
                out.append(moved)
            after = frame_end(data, offset, end) if offset < end else 0
            if not after:
                break
            try:
                out.append(self._packet(data, offset, after))
            except (UnknownSource, BoxError):
                if any(out):
                    break
                raise
            offset = after
        return b"".join(out), offset

    def _packet(self, data: bytes, offset: int, after: int) -> bytes:
        try:
            return self._translated(data, offset, after)
        except MsgPackError as error:
            raise er(Er.INVALID_MSGPACK, str(error)) from None

    def _translated(self, data: bytes, offset: int, after: int) -> bytes:
        row, _ = decode_row(data, read_uint(data, offset)[1], after, exact=True)
        if row.is_error:
            return data[offset:after]
        if row.replica_id and (row.replica_id in self.skips or self._is_former(row.replica_id)):
            self.skipped += 1
            return b""
        return encode_packet(self.row(row))

    def _is_former(self, replica_id: int) -> bool:
        """Rows of an instance that the peer has thrown out, and whose id it has given to another: it has no number for
        them, and wants none."""
        owner = self._registry.owner(replica_id) if self._way is Way.OUT else None
        return owner is not None and self._numbering.is_former(owner)

    def row(self, row: Row) -> Row:
        """One row in the other numbering."""
        if row.type in SYNCHRO_TYPES:
            raise er(Er.UNSUPPORTED, "Headwater with replica_ids: remap", "synchronous transactions")
        if row.type == Type.RAFT:
            return self._raft(row)
        replica_id = self._id(row.replica_id)
        if row.type in _DML and row.body:
            row = self._body(row)
        return replace(row, replica_id=replica_id)

    def _id(self, replica_id: int) -> int:
        if replica_id >= VCLOCK_MAX:
            raise er(Er.INVALID_MSGPACK, f"replica id {replica_id}")
        translated = self._table[replica_id]
        if translated == UNKNOWN:
            raise UnknownSource(replica_id)
        return translated

    def _raft(self, row: Row) -> Row:
        """Terms go through; who is voted for is an id, and who gives ids of his own does not vote."""
        message = replace(decode_raft(row), vote=0, leader_id=0, is_leader_seen=False, vclock=None)
        return replace(encode_raft(message), sync=row.sync)

    # ---- rows that hold ids -----------------------------------------------------------------------------

    def _body(self, row: Row) -> Row:
        request = of_row(row)
        where = _ID_FIELDS.get(request.space_id)
        if where is None:
            return row
        if request.space_id != system.CLUSTER:
            return replace(row, body=_with_ids(row.body, where, self._id))
        return self._cluster(row)

    def _cluster(self, row: Row) -> Row:
        """A member came, went or changed (seed 004, the triggers on `_cluster`)."""
        body = row.body
        place = _id_place(body, Key.KEY if row.type in (Type.DELETE, Type.UPDATE) else Key.TUPLE, 0)
        if place is None:
            raise er(Er.INVALID_MSGPACK, "a row of _cluster without an id")
        given = read_uint(body, place[0])[0]
        if row.type == Type.DELETE:
            id_ = self._table[given] if given < VCLOCK_MAX else UNKNOWN
            if id_ == UNKNOWN or self._is_past(row, given):
                return replace(row, type=Type.NOP, body=b"")
            return replace(row, body=_put(body, place, id_))
        uuid = _new_uuid(row)
        if row.type == Type.UPDATE:
            id_ = self._id(given) if uuid is None else self._moved(given, uuid)
            return replace(row, body=_put(body, place, id_))
        if uuid is None:
            raise er(Er.INVALID_MSGPACK, "a row of _cluster without a UUID")
        type_ = Type.REPLACE if row.type == Type.INSERT else row.type
        return replace(row, type=type_, body=_put(body, place, self._met(given, uuid)))

    def _is_past(self, row: Row, given: int) -> bool:
        """`row` as the source has it."""
        if self.past is None:
            return False
        own, vclock = self.past
        return self._numbering.owner(given) == own and row.lsn <= vclock.get(row.replica_id, 0)

    def _met(self, given: int, uuid: UUID) -> int:
        """An instance has the id `given` where the row comes from; its id where the row goes to."""
        if self._way is Way.IN:
            id_ = self._registry.give(uuid)
            self._learn(given, uuid)
        else:
            id_ = self._numbering.id_of(uuid)
            if not id_:
                id_ = self._numbering.invent(uuid, self._end_of(uuid))
                self._learned(id_, uuid)
        return id_

    def _moved(self, given: int, uuid: UUID) -> int:
        """The instance of this id has another UUID from now on."""
        id_ = self._id(given)
        if self._way is Way.IN:
            self._registry.put(id_, uuid)
            self._learn(given, uuid)
        else:
            self._learn(id_, uuid)
        return id_

    def _learn(self, remote_id: int, uuid: UUID) -> None:
        if self._numbering.learn(remote_id, uuid, self._end_of(uuid)):
            self._learned(remote_id, uuid)


def _id_place(body: bytes, key: int, number: int) -> tuple[int, int] | None:
    """Where in the body the unsigned integer stands that is field `number` of the array under `key`."""
    for each, kind, at, _ in fields(body, 0):
        if each == key and kind == MpType.ARRAY:
            offsets = mp_array_fields(body, at)
            if number + 1 < len(offsets) and KIND[body[offsets[number]]] == MpType.UINT:
                return offsets[number], offsets[number + 1]
    return None


def _put(body: bytes, place: tuple[int, int], value: int) -> bytes:
    return body[: place[0]] + pack_uint(value) + body[place[1] :]


def _with_ids(body: bytes, number: int, translate: Callable[[int], int]) -> bytes:
    for key in (Key.KEY, Key.TUPLE):
        place = _id_place(body, key, number)
        if place is not None:
            body = _put(body, place, translate(read_uint(body, place[0])[0]))
    return body


def _new_uuid(row: Row) -> UUID | None:
    """The UUID that a row of `_cluster` gives to its member; None if it leaves it as it is."""
    request = of_row(row)
    assert request.tuple is not None
    if row.type != Type.UPDATE:
        return _uuid_at(request.tuple, _UUID_FIELD)
    offsets = mp_array_fields(request.tuple)
    for begin, end in pairwise(offsets):
        operation = request.tuple[begin:end]
        parts = mp_array_fields(operation)
        if len(parts) != 4 or operation[parts[0] : parts[1]] != b"\xa1=":
            continue
        if _is_uuid_field(operation, parts[1], request.index_base):
            return _uuid_at(operation, 2)
    return None


def _is_uuid_field(operation: bytes, at: int, index_base: int) -> bool:
    if KIND[operation[at]] == MpType.STR:
        return read_text(operation, at)[0] == "uuid"
    return KIND[operation[at]] == MpType.UINT and read_uint(operation, at)[0] - index_base == _UUID_FIELD


def _uuid_at(array: bytes, number: int) -> UUID | None:
    offsets = mp_array_fields(array)
    if number + 1 >= len(offsets) or KIND[array[offsets[number]]] != MpType.STR:
        return None
    try:
        return UUID(read_text(array, offsets[number])[0])
    except (ValueError, BoxError):
        return None


def members(tuples: Sequence[bytes]) -> list[tuple[int, UUID]]:
    """Rows of a `_cluster` that was downloaded (seed 004, "Protocol of cluster update")."""
    try:
        return [_member(data) for data in tuples]
    except MsgPackError as error:
        raise er(Er.INVALID_MSGPACK, f"a row of _cluster: {error}") from None


def _member(data: bytes) -> tuple[int, UUID]:
    uuid = _uuid_at(data, _UUID_FIELD)
    offsets = mp_array_fields(data)
    if uuid is None or KIND[data[offsets[0]]] != MpType.UINT:
        raise er(Er.INVALID_MSGPACK, "a row of _cluster without id or UUID")
    return read_uint(data, offsets[0])[0], uuid
