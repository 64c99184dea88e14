"""The dictionary comes to life from the rows of its own spaces."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary

from headwater.store import system
from headwater.store.bootstrap_tables import V2_3_1, V2_11_5, V3_8_0, VERSIONS, Version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bootstrap_snapshot_gives_all_spaces_indexes_users_and_functions(version: Version) -> None:
    node = Dictionary(version)
    schema = node.schema
    names = {space.name for space in schema.spaces.values()}
    assert {"_schema", "_space", "_vspace", "_index", "_session_settings", "_vinyl_deferred_delete"} <= names
    assert ("_vspace_sequence" in names) == (version >= V2_11_5)
    assert ("_gc_consumers" in names) == (version >= V3_8_0)
    assert {user.name for user in schema.users} == {"guest", "admin", "public", "replication", "super"}
    assert len(schema.functions) == (67 if version == V2_3_1 else 2)
    assert schema.identity.dd_version == version
    priv = schema.space("_priv")
    assert [part.field for part in priv.indexes[0].parts] == [1, 2, 3]
    assert sorted(priv.indexes) == [0, 1, 2]
    assert schema.space("_sequence_data").indexes[0].type == "hash"
    assert [user.name for user in (schema.users.by_token(token) for token in range(5)) if user] == [
        "guest",
        "admin",
        "public",
        "replication",
        "super",
    ]


def test_every_index_of_the_bootstrap_rows_finds_its_rows() -> None:
    node = Dictionary()
    assert node.rows(system.SPACE, 2, ["_space"])[0][0] == 280  # type: ignore[index]
    assert len(node.rows(system.INDEX, 0, [system.PRIV], 0)) == 3
    assert node.rows(system.VCOLLATION, 1, ["unicode_ci"], 0) == [
        [2, "unicode_ci", 1, "ICU", "", {"strength": "primary"}]
    ]


def test_gc_consumers_is_local_and_settings_are_temporary() -> None:
    schema = Dictionary().schema
    assert schema.space("_gc_consumers").is_local
    assert schema.space("_session_settings").is_temporary
    assert not schema.space("_space").is_temporary
