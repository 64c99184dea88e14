"""Replica ids of one's own (seed 004). Nodes here are a registry, a journal and a numbering for each peer; what is
tested is that all of them agree on who wrote what, under whatever number."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from headwater.errors import BoxError, Er
from headwater.replication.remap import Numbering, Registry, Translator, UnknownSource, Way, members
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row, decode_row, encode_packet

CLUSTER, DATA = 320, 512


def uuid(number: int) -> UUID:
    return UUID(int=0xABC << 96 | number)


def row(type_: int, replica_id: int, lsn: int, body: dict[int, object], **header: object) -> Row:
    return Row(type_, replica_id=replica_id, lsn=lsn, tsn=lsn, flags=1, timestamp=1.5, body=pack(body), **header)


def insert(replica_id: int, lsn: int, space: int, values: list[object]) -> Row:
    return row(Type.INSERT, replica_id, lsn, {0x10: space, 0x21: values})


def one(translator: Translator, given: Row) -> Row:
    packet = encode_packet(given)
    data, stop = translator.translate(packet)
    assert stop == len(packet)
    return decode_row(data, 5, len(data), exact=True)[0]


def translator(way: Way = Way.IN, *, there: dict[int, int], here: dict[int, int]) -> Translator:
    registry = Registry((id_, uuid(n)) for id_, n in here.items())
    numbering = Numbering()
    for id_, n in there.items():
        numbering.learn(id_, uuid(n))
    return Translator(registry, numbering, way)


# ---- ids that are given -------------------------------------------------------------------------------


def test_an_id_is_given_once_and_kept() -> None:
    registry = Registry([(1, uuid(1)), (4, uuid(4))])
    assert registry.give(uuid(4)) == 4
    assert registry.give(uuid(5)) == 5, "RC = max(max_id, RC) + 1"
    assert registry.give(uuid(6)) == 6
    assert registry.give(uuid(5)) == 5
    assert registry.news == [(5, uuid(5)), (6, uuid(6))]


def test_an_id_that_rows_have_is_not_given_to_another() -> None:
    registry = Registry([(1, uuid(1))])
    registry.reserve({0: 100, 1: 5, 7: 3})
    assert registry.give(uuid(2)) == 8


def test_no_more_than_31_ids() -> None:
    registry = Registry()
    for n in range(31):
        assert registry.give(uuid(n)) == n + 1
    with pytest.raises(BoxError) as caught:
        registry.give(uuid(100))
    assert caught.value.code == Er.REPLICA_MAX


# ---- rows -----------------------------------------------------------------------------------------------


def test_nothing_but_the_id_changes() -> None:
    rows = translator(there={1: 1, 2: 2}, here={1: 2, 2: 1})
    given = Row(
        Type.REPLACE,
        replica_id=1,
        lsn=1 << 40,
        tsn=(1 << 40) - 3,
        flags=0,
        timestamp=2.25,
        body=pack({0x10: DATA, 0x21: [1, "x"]}),
    )
    got = one(rows, given)
    assert got.replica_id == 2
    got.replica_id = 1
    assert encode_packet(got) == encode_packet(given)


def test_packets_without_an_id_and_unfinished_ones_stay() -> None:
    rows = translator(there={1: 1}, here={3: 1})
    heartbeat = encode_packet(Row(Type.OK, timestamp=3.0))
    plain = encode_packet(insert(1, 5, DATA, [1]))
    data, stop = rows.translate(heartbeat + plain + plain[:-1])
    assert stop == len(heartbeat) + len(plain)
    assert data[: len(heartbeat)] == heartbeat
    assert decode_row(data, len(heartbeat) + 5, len(data), exact=True)[0].replica_id == 3


@pytest.mark.parametrize("way", Way)
def test_a_member_under_another_id(way: Way) -> None:
    rows = translator(way, there={1: 1, 3: 3}, here={1: 1, 5: 3})
    theirs, ours = (3, 5) if way is Way.IN else (5, 3)
    given = insert(1, 9, CLUSTER, [theirs, str(uuid(3)), "name"])
    got = one(rows, given)
    assert got.type == Type.REPLACE, "two nodes may have registered it"
    assert unpack(got.body) == {0x10: CLUSTER, 0x21: [ours, str(uuid(3)), "name"]}
    gone = one(rows, row(Type.DELETE, 1, 10, {0x10: CLUSTER, 0x20: [theirs]}))
    assert unpack(gone.body) == {0x10: CLUSTER, 0x20: [ours]}
    renamed = one(rows, row(Type.UPDATE, 1, 11, {0x10: CLUSTER, 0x15: 1, 0x20: [theirs], 0x21: [["=", 3, "x"]]}))
    assert unpack(renamed.body) == {0x10: CLUSTER, 0x15: 1, 0x20: [ours], 0x21: [["=", 3, "x"]]}


def test_a_new_member_is_learned_before_its_rows() -> None:
    registry, numbering = Registry([(1, uuid(1)), (2, uuid(2))]), Numbering({1: [uuid(2)], 2: [uuid(1)]})
    learned: list[tuple[int, UUID]] = []
    rows = Translator(registry, numbering, Way.IN, learned=lambda id_, who: learned.append((id_, who)))
    data, _ = rows.translate(
        encode_packet(insert(1, 4, CLUSTER, [3, str(uuid(9))])) + encode_packet(insert(3, 1, DATA, [7]))
    )
    first, end = decode_row(data, 5)
    second, _ = decode_row(data, end + 5)
    assert unpack(first.body)[0x21] == [3, str(uuid(9))]
    assert (first.replica_id, second.replica_id) == (2, 3)
    assert learned == [(3, uuid(9))]
    assert registry.news == [(3, uuid(9))]


def test_an_instance_that_takes_the_place_of_another_keeps_the_id() -> None:
    rows = translator(there={1: 1, 2: 2}, here={1: 1, 4: 2})
    got = one(rows, row(Type.UPDATE, 1, 3, {0x10: CLUSTER, 0x15: 1, 0x20: [2], 0x21: [["=", 2, str(uuid(7))]]}))
    assert unpack(got.body)[0x20] == [4]
    assert one(rows, insert(2, 50, DATA, [1])).replica_id == 4


def test_the_removal_of_somebody_unknown_is_nothing() -> None:
    rows = translator(there={1: 1}, here={1: 1})
    got = one(rows, row(Type.DELETE, 1, 3, {0x10: CLUSTER, 0x20: [30]}))
    assert (got.type, got.replica_id, got.lsn, got.body) == (Type.NOP, 1, 3, b"")


def test_an_unknown_source_stops_the_stream_and_can_be_left_out() -> None:
    rows = translator(there={1: 1}, here={1: 1})
    known, unknown = encode_packet(insert(1, 1, DATA, [1])), encode_packet(insert(6, 1, DATA, [2]))
    data, stop = rows.translate(known + unknown + known)
    assert (data, stop) == (known, len(known)), "what is before it is not lost"
    with pytest.raises(UnknownSource) as caught:
        rows.translate(unknown + known)
    assert caught.value.replica_id == 6
    rows.skips.add(6)
    assert rows.translate(unknown + known) == (known, len(unknown + known))
    assert rows.skipped == 1


@pytest.mark.parametrize("type_", [Type.RAFT_CONFIRM, Type.RAFT_ROLLBACK, Type.RAFT_PROMOTE, Type.RAFT_DEMOTE])
def test_rows_of_the_synchronous_queue_are_refused_in_words(type_: int) -> None:
    rows = translator(there={1: 1}, here={1: 1})
    with pytest.raises(BoxError, match="replica_ids: remap does not support synchronous transactions"):
        rows.translate(encode_packet(row(type_, 1, 3, {0x02: 1, 0x03: 2})))


def test_terms_go_through_and_votes_do_not() -> None:
    rows = translator(there={1: 1}, here={2: 1})
    got = one(rows, Row(Type.RAFT, replica_id=1, body=pack({0: 7, 1: 1, 2: 2, 4: 1})))
    assert unpack(got.body) == {0: 7, 2: 2}


def test_errors_of_the_peer_stay_as_they_are() -> None:
    rows = translator(there={1: 1}, here={2: 1})
    packet = encode_packet(Row(0x8000 | 62, body=pack({0x31: "no"})))
    assert rows.translate(packet) == (packet, len(packet))


# ---- vclocks --------------------------------------------------------------------------------------------


def test_vclocks_in_both_directions() -> None:
    registry, numbering = (
        Registry([(1, uuid(1)), (2, uuid(2)), (5, uuid(5))]),
        Numbering({1: [uuid(2)], 2: [uuid(1)], 3: [uuid(3)]}),
    )
    assert numbering.to_local({0: 4, 1: 10, 2: 20, 3: 30, 4: 40}, registry) == {0: 4, 2: 10, 1: 20}
    assert numbering.to_remote({0: 9, 1: 20, 2: 10, 5: 50}, registry) == {0: 9, 1: 10, 2: 20}
    assert numbering.filter_to_remote([1, 5], registry) == frozenset({2})


def test_an_id_given_anew_goes_on_where_its_owner_before_ended() -> None:
    """A Tarantool gives the lowest free id (replica_find_new_id); the new owner's LSNs follow the old one's."""
    registry, numbering = (
        Registry([(1, uuid(1)), (3, uuid(3)), (4, uuid(4))]),
        Numbering({1: [uuid(1)], 3: [uuid(3), uuid(4)]}),
    )
    assert numbering.to_remote({1: 5, 3: 70}, registry) == {1: 5, 3: 70}, (
        "nothing of the new one yet: all of the old one"
    )
    assert numbering.to_remote({1: 5, 3: 70, 4: 75}, registry) == {1: 5, 3: 75}
    assert numbering.to_local({1: 5, 3: 75}, registry) == {1: 5, 4: 75}


def test_a_downloaded_cluster() -> None:
    rows = [pack([1, str(uuid(1))]), pack([2, str(uuid(2)), "name"]), pack([3, str(uuid(3)), None])]
    assert members(rows) == [(1, uuid(1)), (2, uuid(2)), (3, uuid(3))]
    with pytest.raises(BoxError, match="without id or UUID"):
        members([pack(["a", "b"])])


# ---- whole sets -----------------------------------------------------------------------------------------


@dataclass
class Node:
    """Registry, journal and vclock of one node, without a store. `reuses`: it gives the lowest free id, as a Tarantool
    does, and translates nothing."""

    who: UUID
    registry: Registry = field(default_factory=Registry)
    cluster: dict[int, UUID] = field(default_factory=dict)
    vclock: dict[int, int] = field(default_factory=dict)
    journal: list[Row] = field(default_factory=list)
    seen: list[tuple[UUID, int]] = field(default_factory=list)
    """Data rows in the order in which they came: who wrote it, and what."""
    peers: dict[UUID, Numbering] = field(default_factory=dict)

    @property
    def id(self) -> int:
        return next(id_ for id_, who in self.cluster.items() if who == self.who)

    def write(self, value: int) -> None:
        self._apply(insert(self.id, self.vclock.get(self.id, 0) + 1, DATA, [str(self.who), value]))

    def register(self, who: UUID) -> None:
        new = self.registry.give(who)
        self._apply(insert(self.id, self.vclock.get(self.id, 0) + 1, CLUSTER, [new, str(who)]))

    def expel(self, who: UUID) -> None:
        gone = self.registry.find(who)
        self._apply(row(Type.DELETE, self.id, self.vclock.get(self.id, 0) + 1, {0x10: CLUSTER, 0x20: [gone]}))

    def _apply(self, given: Row) -> None:
        if given.lsn <= self.vclock.get(given.replica_id, 0):
            return
        assert given.lsn > 0
        self.vclock[given.replica_id] = given.lsn
        self.journal.append(given)
        if given.type == Type.NOP:
            return
        body = unpack(given.body)
        if body[0x10] == CLUSTER and given.type == Type.DELETE:
            self.cluster.pop(body[0x20][0], None)
        elif body[0x10] == CLUSTER:
            id_, who = body[0x21][0], UUID(body[0x21][1])
            assert self.cluster.get(id_, who) == who, "an id is one instance's"
            self.cluster[id_] = who
            self.registry.put(id_, who)
        else:
            writer = self.registry.owner(given.replica_id)
            assert writer == UUID(body[0x21][0]), "the row came from whom its number names"
            self.seen.append((writer, body[0x21][1]))

    def join(self, master: Node) -> None:
        """Everything of the master as it is, its numbering too."""
        if self.who not in master.cluster.values():
            master.register(self.who)
        self.registry, self.cluster = Registry(master.registry), dict(master.cluster)
        self.vclock, self.journal = dict(master.vclock), list(master.journal)
        self.seen = list(master.seen)

    def pull(self, master: Node) -> None:
        """One SUBSCRIBE: the download of `_cluster` and of the ids given there, then all that is new."""
        numbering = self.peers.setdefault(master.who, Numbering())
        for id_, who in master.registry:
            numbering.learn(id_, who)
            self.registry.give(who)
        rows = Translator(self.registry, numbering, Way.IN)
        have = numbering.to_remote(self.vclock, self.registry)
        wanted = [each for each in master.journal if each.lsn > have.get(each.replica_id, 0)]
        data, stop = rows.translate(b"".join(encode_packet(each) for each in wanted))
        assert stop == sum(len(encode_packet(each)) for each in wanted)
        at = 0
        while at < len(data):
            given, at = decode_row(data, at + 5, None)
            self._apply(given)

    def by_uuid(self) -> dict[UUID, int]:
        return {self.registry.owner(id_): lsn for id_, lsn in self.vclock.items()}


def first(number: int) -> Node:
    node = Node(uuid(number))
    node.registry.put(1, node.who)
    node.cluster[1] = node.who
    return node


def mesh(nodes: list[Node]) -> None:
    for _ in range(3):
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.pull(other)


def agree(nodes: list[Node]) -> None:
    """The same rows, each under the name of its writer; the same vclocks by instance."""
    for node in nodes[1:]:
        assert sorted(node.seen, key=str) == sorted(nodes[0].seen, key=str)
        assert node.by_uuid() == nodes[0].by_uuid()
        assert set(node.cluster.values()) == set(nodes[0].cluster.values())


def test_the_story_of_the_seed() -> None:
    """ "Background and motivation": a node is deleted, a new one takes its place, the old one comes back."""
    a, b, c, d = first(1), Node(uuid(2)), Node(uuid(3)), Node(uuid(4))
    b.join(a)
    a.write(1)
    c.join(a)
    mesh([a, b, c])
    c.write(2)
    mesh([a, b, c])
    c.write(3)  # nobody has this one when it goes
    old = c.id
    a.expel(c.who)
    mesh([a, b])
    d.join(b)
    mesh([a, b, d])
    assert d.id != old, "an id is never given twice"
    d.write(4)
    mesh([a, b, d])
    b.register(c.who)
    mesh([a, b, d])
    c.pull(b)
    assert c.id == old, "the same instance, the same id"
    mesh([a, b, c, d])
    c.write(5)
    d.write(6)
    mesh([a, b, c, d])
    agree([a, b, c, d])
    assert (c.who, 3) in a.seen


def test_two_nodes_register_somebody_at_once() -> None:
    """Cut from each other, they give one id to two newcomers, and each other's newcomer gets another one."""
    a, b = first(1), Node(uuid(2))
    b.join(a)
    mesh([a, b])
    c, d = Node(uuid(3)), Node(uuid(4))
    c.join(a)
    d.join(b)
    assert c.id == d.id == 3
    c.write(1)
    d.write(2)
    mesh([a, b, c, d])
    agree([a, b, c, d])
    assert a.registry.find(d.who) == 4
    assert b.registry.find(c.who) == 4


@pytest.mark.parametrize("seed", range(60))
def test_random_histories(seed: int) -> None:
    dice = random.Random(seed)
    nodes = [first(1)]
    value = 0
    for step in range(60):
        act = dice.random()
        node = dice.choice(nodes)
        if act < 0.15 and len(nodes) < 7:
            new = Node(uuid(100 + step))
            new.join(node)
            nodes.append(new)
        elif act < 0.22 and len(nodes) > 2:
            gone = dice.choice([each for each in nodes if each is not node])
            if gone.who in node.cluster.values():
                node.expel(gone.who)
                mesh([each for each in nodes if each is not gone])
                node.register(gone.who)
                mesh(nodes)
        elif act < 0.7:
            if node.who in node.cluster.values():
                value += 1
                node.write(value)
        else:
            other = dice.choice(nodes)
            if other is not node:
                node.pull(other)
    mesh(nodes)
    agree(nodes)
