"""`_cluster` and `_schema`: who is in the set, and what the set is called."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_spaces import refusal

from headwater.errors import Er
from headwater.store import system
from headwater.store.bootstrap import master_rows
from headwater.store.bootstrap_tables import V2_3_1, V3_8_0
from headwater.store.context import Source
from headwater.store.events import (
    Event,
    IdentityChanged,
    LeaderChanged,
    MemberAdded,
    MemberChanged,
    MemberRemoved,
    MembersWritten,
    SchemaChanged,
    VersionChanged,
)
from headwater.wire.msgpack import unpack

CLUSTER, SCHEMA = system.CLUSTER, system.SCHEMA
OWN, SET = UUID(int=1 << 96), UUID(int=2 << 96)


def uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


@pytest.fixture
def told(node: Dictionary) -> list[Event]:
    events: list[Event] = []
    node.schema.listeners.append(events.append)
    return events


@pytest.fixture
def master(node: Dictionary) -> Dictionary:
    """The node is member 1 of its own set."""
    node.schema.identity.instance_uuid = OWN
    for space_id, data in master_rows(V3_8_0, OWN, SET):
        node.insert(space_id, *unpack(data), source=Source.BOOTSTRAP)
    node.written()
    return node


def test_the_first_master_registers_itself(node: Dictionary, told: list[Event]) -> None:
    node.schema.identity.instance_uuid = OWN
    for space_id, data in master_rows(V2_3_1, OWN, SET):
        node.insert(space_id, *unpack(data), source=Source.BOOTSTRAP)
    assert node.memtx.replica_id == 1
    assert node.schema.identity.replicaset_uuid is None
    node.written()
    assert node.schema.identity.replicaset_uuid == SET
    kinds = [type(event) for event in told]
    assert kinds == [MemberAdded, MembersWritten, IdentityChanged]


def test_ids_are_taken_at_once_and_free_again_when_the_removal_is_written(master: Dictionary) -> None:
    cluster = master.schema.cluster
    assert cluster.free_id() == 2
    master.insert(CLUSTER, 2, uuid(2))
    assert cluster.free_id() == 3
    master.written()
    master.delete(CLUSTER, 2)
    assert cluster.free_id() == 3
    master.written()
    assert cluster.free_id() == 2
    mark = master.mark
    master.insert(CLUSTER, 2, uuid(2))
    master.failed(mark)
    assert cluster.free_id() == 2
    for number in range(2, 32):
        master.insert(CLUSTER, number, uuid(number))
    assert refusal(cluster.free_id) == (Er.REPLICA_MAX, "Replica count limit reached: 32")


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ([0, uuid(2)], Er.REPLICA_ID_IS_RESERVED, "Can't initialize replica id with a reserved value 0"),
        ([32, uuid(2)], Er.REPLICA_MAX, "Replica count limit reached: 32"),
        ([2, "x"], Er.INVALID_UUID, "Invalid UUID: x"),
        ([2, str(UUID(int=0))], Er.INVALID_UUID, f"Invalid UUID: {UUID(int=0)}"),
        (
            [2, uuid(2), "A"],
            Er.FIELD_TYPE,
            "Tuple field _cluster.name type does not match one required by operation: expected a valid name, "
            "got a bad name",
        ),
    ],
)
def test_a_bad_member_is_refused(master: Dictionary, fields: list[object], code: Er, text: str) -> None:
    assert refusal(master.insert, CLUSTER, *fields) == (code, text)


def test_nobody_throws_himself_out_but_others_may(master: Dictionary, told: list[Event]) -> None:
    text = "The local instance id 1 is read-only"
    assert refusal(master.delete, CLUSTER, 1) == (Er.LOCAL_INSTANCE_ID_IS_READ_ONLY, text)
    master.schema.listeners.append(told.append)
    master.delete(CLUSTER, 1, source=Source.PEER)
    assert master.memtx.replica_id == 1
    master.written()
    assert master.memtx.replica_id == 0
    assert len(master.schema.cluster) == 0


def test_a_member_that_could_not_be_written_never_was_one(master: Dictionary, told: list[Event]) -> None:
    """That is no expulsion: who gets its own row from a master and cannot write it goes on asking."""
    mark = master.mark
    master.insert(CLUSTER, 2, uuid(2))
    master.failed(mark)
    master.insert(CLUSTER, 2, uuid(2))
    master.written()
    master.delete(CLUSTER, 2)
    master.written()
    assert [event.is_undone for event in told if isinstance(event, MemberRemoved)] == [True, False]


def test_names_are_unique(master: Dictionary) -> None:
    master.insert(CLUSTER, 2, uuid(2), "two")
    text = f"Duplicate replica name two, already occupied by {uuid(2)}"
    assert refusal(master.insert, CLUSTER, 3, uuid(3), "two") == (Er.INSTANCE_NAME_DUPLICATE, text)
    master.insert(CLUSTER, 3, uuid(3))
    assert refusal(master.replace, CLUSTER, 3, uuid(3), "two") == (Er.INSTANCE_NAME_DUPLICATE, text)
    mark = master.mark
    master.replace(CLUSTER, 3, uuid(3), "three")
    assert master.schema.cluster.by_name("three") is not None
    master.failed(mark)
    assert master.schema.cluster.by_name("three") is None


def test_the_own_name_is_the_one_of_the_options(master: Dictionary) -> None:
    master.schema.identity.instance_name = "me"
    master.replace(CLUSTER, 1, str(OWN), "me")
    text = "Tarantool does not support replica rename or name drop"
    assert refusal(master.replace, CLUSTER, 1, str(OWN), "other") == (Er.UNSUPPORTED, text)
    master.schema.force_recovery = True
    master.replace(CLUSTER, 1, str(OWN), "other")


def test_a_uuid_is_replaced_only_for_a_named_member_that_is_gone(master: Dictionary) -> None:
    master.insert(CLUSTER, 2, uuid(2))
    text = "Replica without a name does not support UUID update"
    assert refusal(master.replace, CLUSTER, 2, uuid(3)) == (Er.UNSUPPORTED, text)
    master.replace(CLUSTER, 2, uuid(2), "two")
    text = "Replica does not support UUID and name update together"
    assert refusal(master.replace, CLUSTER, 2, uuid(3), "three") == (Er.UNSUPPORTED, text)
    text = "Replica does not support own UUID update in _cluster"
    assert refusal(master.replace, CLUSTER, 1, uuid(3)) == (Er.UNSUPPORTED, text)
    master.insert(CLUSTER, 4, uuid(4))
    master.schema.has_connections = lambda other: other == UUID(uuid(2))
    text = "Replica does not support UUID update when the old replica is still here"
    assert refusal(master.replace, CLUSTER, 2, uuid(3), "two") == (Er.UNSUPPORTED, text)
    master.schema.has_connections = lambda other: False
    master.replace(CLUSTER, 2, uuid(3), "two")
    member = master.schema.cluster.by_name("two")
    assert member is not None
    assert (member.id, str(member.uuid)) == (2, uuid(3))


def test_listeners_hear_of_members_in_order(master: Dictionary) -> None:
    told: list[Event] = []
    master.schema.listeners.append(told.append)
    master.insert(CLUSTER, 2, uuid(2))
    master.replace(CLUSTER, 2, uuid(2), "two")
    mark = master.mark
    master.insert(CLUSTER, 3, uuid(3))
    master.failed(mark)
    master.delete(CLUSTER, 2)
    master.written()
    assert [type(event) for event in told] == [
        MemberAdded,
        MemberChanged,
        MemberAdded,
        MemberRemoved,
        MembersWritten,
        MemberRemoved,
        MembersWritten,
    ]


# ---- _schema --------------------------------------------------------------------------------------


def test_the_uuid_of_the_set_is_set_once_and_one_of_its_keys_stays(master: Dictionary) -> None:
    text = "Can't reset replica set UUID: it is already assigned"
    assert refusal(master.replace, SCHEMA, "replicaset_uuid", uuid(9)) == (Er.REPLICASET_UUID_IS_RO, text)
    assert refusal(master.delete, SCHEMA, "replicaset_uuid") == (Er.REPLICASET_UUID_IS_RO, text)
    master.insert(SCHEMA, "cluster", str(SET))
    master.delete(SCHEMA, "replicaset_uuid")
    master.written()
    assert master.schema.identity.replicaset_uuid == SET


def test_nothing_becomes_true_before_it_is_written(node: Dictionary, told: list[Event]) -> None:
    mark = node.mark
    node.insert(SCHEMA, "replicaset_uuid", uuid(1))
    node.insert(SCHEMA, "replicaset_name", "set")
    node.insert(SCHEMA, "cluster_name", "all")
    node.replace(SCHEMA, "version", 3, 9)
    node.failed(mark)
    identity = node.schema.identity
    assert (identity.replicaset_uuid, identity.replicaset_name, identity.cluster_name) == (None, "", "")
    assert identity.dd_version == (3, 8, 0)
    assert told == []
    node.insert(SCHEMA, "replicaset_name", "set")
    node.insert(SCHEMA, "cluster_name", "all")
    node.replace(SCHEMA, "version", 3, 9)
    node.written()
    assert (identity.replicaset_name, identity.cluster_name, identity.dd_version) == ("set", "all", (3, 9, 0))
    assert [type(event) for event in told] == [IdentityChanged, IdentityChanged, VersionChanged]


def test_a_set_is_renamed_only_by_force(node: Dictionary) -> None:
    node.insert(SCHEMA, "replicaset_name", "a")
    node.insert(SCHEMA, "cluster_name", "a")
    node.written()
    text = "Tarantool does not support {} name change (without 'force_recovery')"
    assert refusal(node.replace, SCHEMA, "replicaset_name", "b") == (Er.UNSUPPORTED, text.format("replicaset"))
    assert refusal(node.replace, SCHEMA, "cluster_name", "b") == (Er.UNSUPPORTED, text.format("cluster"))
    node.schema.force_recovery = True
    node.replace(SCHEMA, "cluster_name", "b")
    assert refusal(node.replace, SCHEMA, "cluster_name", "1b")[0] == Er.FIELD_TYPE


def test_a_version_needs_two_numbers(node: Dictionary) -> None:
    text = "Wrong _schema version: expected 'major.minor[.patch]'"
    assert refusal(node.replace, SCHEMA, "version", "3.8.0") == (Er.WRONG_DD_VERSION, text)


def test_of_two_leaders_the_one_named_last_stays(node: Dictionary, told: list[Event]) -> None:
    node.replace(SCHEMA, "bootstrap_leader_uuid", uuid(1), 100, 1)
    node.replace(SCHEMA, "bootstrap_leader_uuid", uuid(2), 99, 9)
    node.replace(SCHEMA, "bootstrap_leader_uuid", uuid(3), 100, 0)
    node.written()
    assert node.schema.identity.bootstrap_leader_uuid == UUID(uuid(1))
    node.replace(SCHEMA, "bootstrap_leader_uuid", uuid(4), 100, 2)
    node.written()
    assert node.schema.identity.bootstrap_leader_uuid == UUID(uuid(4))
    assert told == [LeaderChanged(UUID(uuid(1))), LeaderChanged(UUID(uuid(4)))]


def test_clients_are_told_of_every_change_of_spaces(node: Dictionary, told: list[Event]) -> None:
    before = node.memtx.schema_version
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    node.replace(system.TRUNCATE, 512, 1)
    node.create_user(32, "ann")
    node.delete(system.TRUNCATE, 512)
    node.delete(system.INDEX, 512, 0)
    node.delete(system.SPACE, 512)
    assert told == [SchemaChanged(before + step) for step in (1, 2, 3, 4)]
