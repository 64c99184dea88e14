"""Dictionaries that a real 3.9 wrote: sync, local, temporary and sequence spaces, members, truncation."""

from __future__ import annotations

import pytest
from tests.store import golden
from tests.store.dictionary import Dictionary

from headwater.store import system
from headwater.store.context import Source
from headwater.wire.msgpack import unpack

pytestmark = golden.needs_files

NODE_1 = ("node-1/00000000000000000000.snap", "node-1/00000000000000000006.snap", "node-1/00000000000000003389.snap")


def snapshot_rows(name: str) -> list[tuple[int, bytes]]:
    return [(body[golden.SPACE], data) for kind, body, data in golden.rows(name) if kind == golden.INSERT]


@pytest.mark.parametrize("name", [*NODE_1, "node-2/00000000000000000009.snap"])
def test_a_real_snapshot_loads_and_every_row_is_there_again(name: str) -> None:
    rows = snapshot_rows(name)
    node = Dictionary(rows=rows)
    for space_id in {space_id for space_id, _ in rows}:
        expected = [unpack(data) for row_space, data in rows if row_space == space_id]
        assert node.rows(space_id) == expected


def test_what_the_newest_snapshot_of_node_1_says() -> None:
    schema = Dictionary(rows=snapshot_rows(NODE_1[2])).schema
    assert schema.identity.replicaset_name == "golden"
    assert str(schema.identity.replicaset_uuid) == "aaaaaaaa-0000-4000-8000-000000000000"
    assert len(schema.cluster) == 3
    assert {schema.users.find(role).name for role in schema.users.by_name("replicator").roles} == {
        "public",
        "replication",
    }
    first = schema.space(512)
    assert [index.type for index in first.indexes.values()] == ["tree", "tree", "tree", "hash"]
    assert first.indexes[2].parts[0].nullable
    sequenced = schema.space(516)
    assert sequenced.sequence is not None
    assert sequenced.sequence.value == 5
    assert not sequenced.kernel.fast  # type: ignore[union-attr]
    flags = {space.id: (space.is_sync, space.is_local, space.is_temporary) for space in schema.spaces.values()}
    assert {512, 513, 514, 515, 516} <= flags.keys()
    assert (False, True, False) in flags.values()
    assert any(is_sync for is_sync, _, _ in flags.values())


def test_a_journal_over_a_snapshot_gives_the_dictionary_of_the_next_snapshot() -> None:
    node = Dictionary(rows=snapshot_rows(NODE_1[1]))
    node.memtx.undo_enabled = False
    for kind, body, data in golden.rows("node-1/00000000000000000006.xlog"):
        space_id = body.get(golden.SPACE)
        if kind in (golden.INSERT, golden.REPLACE):
            put = node.insert if kind == golden.INSERT else node.replace
            put(space_id, *unpack(data), source=Source.XLOG)
        elif kind == golden.DELETE:
            node.delete(space_id, *body[golden.KEY], source=Source.XLOG)
        elif kind == golden.UPSERT and space_id == system.TRUNCATE:
            node.replace(space_id, *unpack(data), source=Source.XLOG)
    expected = snapshot_rows(NODE_1[2])
    dictionary = {space_id for space_id, _ in expected if system.is_system(space_id)} - {
        system.GC_CONSUMERS,
        system.SEQUENCE_DATA,
    }
    for space_id in dictionary:
        assert node.rows(space_id) == [unpack(data) for row_space, data in expected if row_space == space_id]
    node.schema.store_sequences()
    assert node.rows(system.SEQUENCE_DATA) == [
        unpack(data) for row_space, data in expected if row_space == system.SEQUENCE_DATA
    ]
