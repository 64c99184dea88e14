"""Numberings that are kept in `_replica_ids` (seed 004)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headwater.replication.ids import ReplicaIds
from headwater.replication.remap import Way
from headwater.store.cluster import Cluster, Member
from headwater.typing import ReplicaId
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row, decode_row, encode_packet

A, B, C, D = (UUID(int=0xABC << 96 | number) for number in range(1, 5))


class Space:
    """`_replica_ids`, by its primary key."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], list[Any]] = {}

    def put(self, row: list[Any]) -> None:
        self.rows[tuple(row[:3])] = row

    def tuples(self) -> list[bytes]:
        return [pack(self.rows[key]) for key in sorted(self.rows)]


def ids(space: Space, **members: UUID) -> ReplicaIds:
    made = ReplicaIds(space.put)
    made.load(space.tuples())
    cluster = Cluster()
    for number, uuid in enumerate(members.values(), 1):
        cluster.put(Member(ReplicaId(number), uuid))
    made.adopt(cluster, VClock())
    return made


def test_what_is_learned_is_there_after_a_restart() -> None:
    space = Space()
    made = ids(space, a=A, b=B)
    made.downloaded(C, [(1, C), (2, A), (3, B), (4, D)])
    assert (made.registry.find(C), made.registry.find(D)) == (3, 4)
    again = ReplicaIds(space.put)
    again.load(space.tuples())
    assert list(again.registry) == list(made.registry) == [(1, A), (2, B), (3, C), (4, D)]
    assert again.to_remote(C, {1: 10, 2: 20, 3: 30, 4: 40}, {}) == {1: 30, 2: 10, 3: 20, 4: 40}
    assert again.registry.news == [], "what is there is not written again"


def test_owners_of_one_id_keep_their_order() -> None:
    space = Space()
    made = ids(space, a=A)
    made.downloaded(B, [(1, B), (2, C)])
    made.downloaded(B, [(1, B), (2, D)])
    again = ReplicaIds(space.put)
    again.load(space.tuples())
    assert again.to_local(B, {1: 5, 2: 9}) == {again.registry.find(B): 5, again.registry.find(D): 9}
    again.downloaded(B, [(2, C)])
    once_more = ReplicaIds(space.put)
    once_more.load(space.tuples())
    assert once_more.to_local(B, {2: 9}) == {once_more.registry.find(C): 9}


def test_ids_of_rows_that_nobody_names_are_not_given() -> None:
    space = Space()
    made = ids(space, a=A)
    made.adopt(Cluster(), VClock({0: 90, 5: 3}))
    assert made.give(B) == 6


def test_what_the_stream_tells_is_kept() -> None:
    space = Space()
    made = ids(space, a=A)
    made.downloaded(B, [(1, B), (2, A)])
    rows = made.stream(B, Way.IN)
    packet = encode_packet(Row(Type.INSERT, 1, lsn=7, tsn=7, flags=1, body=pack({0x10: 320, 0x21: [3, str(C)]})))
    data, _ = rows.translate(packet)
    assert unpack(decode_row(data, 5)[0].body)[0x21] == [3, str(C)]
    assert space.rows[str(B), 3, 0] == [str(B), 3, 0, str(C)]
    assert space.rows["", 3, 0] == ["", 3, 0, str(C)]


def test_an_unknown_source_is_left_out_when_a_second_look_does_not_name_it() -> None:
    made = ids(Space(), a=A)
    made.downloaded(B, [(1, B), (2, A)])
    made.met_unknown(B, 9)
    assert made.stream(B, Way.IN).skips == {9}
    made.downloaded(B, [(9, C)])
    assert made.stream(B, Way.IN).skips == set()
    assert made.to_remote(B, {2: 5}, {1: 50, 9: 60, 12: 70}) == {1: 5, 12: 70}, "of 12 we pretend to have all"


def test_a_peer_that_joined_here_has_our_numbering() -> None:
    made = ids(Space(), a=A, b=B, c=C)
    assert not made.knows(C)
    made.shares(C)
    assert made.knows(C)
    out = made.stream(C, Way.OUT)
    packet = encode_packet(Row(Type.INSERT, 2, lsn=7, tsn=7, flags=1, body=pack({0x10: 512, 0x21: [3]})))
    assert out.translate(packet) == (packet, len(packet))
