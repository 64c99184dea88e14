"""The rows of a new data directory equal those that real servers ship."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from headwater.store import system
from headwater.store.bootstrap import bootstrap_control_rows, bootstrap_rows, bootstrap_values, master_rows
from headwater.store.bootstrap_tables import V2_3_1, V2_11_5, V3_8_0, VERSIONS, Version
from headwater.wire.msgpack import unpack

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "bootstrap"
FILES = {V2_3_1: "bootstrap_2.6.0.jsonl", V2_11_5: "bootstrap_2.11.8.jsonl", V3_8_0: "bootstrap_3.8.0.jsonl"}

needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden data at {GOLDEN}")


def golden(version: Version) -> list[list[object]]:
    text = (GOLDEN / FILES[version]).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@needs_golden
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_equal_those_of_the_release_in_order_and_down_to_the_order_of_keys(version: Version) -> None:
    expected = [json.dumps(row) for row in golden(version) if isinstance(row[0], int)]
    ours = [json.dumps([int(space_id), fields]) for space_id, fields in bootstrap_values(version)]
    assert ours == expected


@needs_golden
@pytest.mark.parametrize("version", VERSIONS)
def test_control_rows_equal_those_of_the_release(version: Version) -> None:
    expected = [row for row in golden(version) if isinstance(row[0], str)]
    ours = [
        [f"type{int(type)}", json.loads(json.dumps(unpack(body)))] for type, body in bootstrap_control_rows(version)
    ]
    assert ours == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_come_by_space_and_then_by_primary_key(version: Version) -> None:
    spaces = [space_id for space_id, _ in bootstrap_rows(version)]
    assert spaces == sorted(spaces)
    users = [unpack(data)[0] for space_id, data in bootstrap_rows(version) if space_id == system.USER]
    assert users == sorted(users)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="9, 9, 9"):
        bootstrap_rows((9, 9, 9))


INSTANCE = UUID("11111111-1111-4111-8111-111111111111")
REPLICASET = UUID("22222222-2222-4222-8222-222222222222")


def test_the_set_is_named_by_the_key_of_its_release() -> None:
    def rows(version: Version, **names: str) -> list[tuple[int, list[object]]]:
        return [(int(s), unpack(t)) for s, t in master_rows(version, INSTANCE, REPLICASET, **names)]

    assert rows(V2_3_1) == [(320, [1, str(INSTANCE)]), (272, ["cluster", str(REPLICASET)])]
    assert rows(V3_8_0, instance_name="i-1", replicaset_name="r", cluster_name="c") == [
        (320, [1, str(INSTANCE), "i-1"]),
        (272, ["replicaset_uuid", str(REPLICASET)]),
        (272, ["cluster_name", "c"]),
        (272, ["replicaset_name", "r"]),
    ]
