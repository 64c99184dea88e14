"""What spaces look like at a position: rows of `_space` and `_index` followed one by one."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from tests.pipeline import made
from tests.pipeline.made import INDEX, SPACE, change, delete, fields, index_row, insert, replace, space_row, update
from tests.support.fixtures import GOLDEN, Servers, needs_golden, needs_tarantool
from tests.support.iproto import Connection

from headwater.client import WireClient
from headwater.pipeline.dictionary import Dictionary, FieldFacts
from headwater.pipeline.errors import NotThere, PipelineError
from headwater.store import system
from headwater.uri import parse_uri
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack


def followed(*rows: Any) -> Dictionary:
    return Dictionary.from_rows(rows)


def test_a_space_is_its_rows() -> None:
    found = followed(
        insert(
            1,
            [made.ID, 1, "t", "vinyl", 3, {"group_id": 1, "is_sync": True}, fields("id unsigned", "a string?")],
            space=SPACE,
        ),
        index_row(2, [(1, "string"), (0, "unsigned")]),
    )
    space = found.space("t")
    assert (space.id, space.engine, space.field_count, space.is_local, space.is_sync) == (
        made.ID,
        "vinyl",
        3,
        True,
        True,
    )
    assert space.fields == (FieldFacts("id", "unsigned", nullable=False), FieldFacts("a", "string", nullable=True))
    assert space.key_fields == (1, 0)
    assert space.ddl() == "t (id unsigned, a string)"
    assert found.space(made.ID) is found.space(str(made.ID)) is space
    assert found.names == {made.ID: "t"}
    assert found.keys == {made.ID: (1, 0)}


def test_updates_and_upserts_change_what_is_there() -> None:
    found = followed(
        space_row(1, "t", fields("id unsigned")),
        index_row(2),
        update(3, [made.ID], [["=", "name", "u"], ["=", 7, fields("id unsigned", "b any")]], space=SPACE),
        change(
            Type.UPSERT,
            4,
            {Key.INDEX_BASE: 1, Key.TUPLE: [made.ID, 0, "pk", "tree", {}, []], Key.OPS: [["=", 6, [[1, "str"]]]]},
            space=INDEX,
        ),
    )
    space = found.space("u")
    assert [field.name for field in space.fields] == ["id", "b"]
    assert space.fields[1].type == "string"
    assert space.key_fields == (1,)
    with pytest.raises(NotThere, match=r"no space 't'.*There are: u\."):
        found.space("t")


def test_what_is_dropped_is_gone_and_may_come_again() -> None:
    found = followed(
        space_row(1, "t"), index_row(2), delete(3, [made.ID, 0], space=INDEX), delete(4, [made.ID], space=SPACE)
    )
    assert found.find("t") is None
    assert found.keys == {}
    found.apply(space_row(5, "t", fields("x any")))
    assert found.space("t").key_fields == ()


def test_other_rows_say_nothing() -> None:
    found = Dictionary.builtin()
    names = dict(found.names)
    assert not found.apply(replace(1, [1, "x"]))
    assert not found.apply(made.change(Type.NOP, 2, {}))
    assert found.names == names


def test_fields_that_only_indexes_speak_of_have_numbers_for_names() -> None:
    space = followed(space_row(1, "t", fields("id any")), index_row(2, [(0, "unsigned"), (3, "uuid")])).space("t")
    assert [(field.name, field.type) for field in space.fields] == [
        ("id", "unsigned"),
        ("field_2", "any"),
        ("field_3", "any"),
        ("field_4", "uuid"),
    ]


def test_definitions_of_1_6_are_understood() -> None:
    """Flags as text, no format, and parts in a flat list (alter.cc of 1.6, opts_decode and key_def_new)."""
    found = followed(
        insert(1, [made.ID, 1, "old", "memtx", 0, ""], space=SPACE),
        insert(2, [made.ID, 0, "pk", "tree", 1, 2, 0, "NUM", 1, "STR"], space=INDEX),
    )
    space = found.space("old")
    assert space.key_fields == (0, 1)
    assert [field.type for field in space.fields] == ["unsigned", "string"]
    assert space.indexes[0].unique


def test_a_key_inside_a_field_is_no_list_of_fields() -> None:
    parts = [{"field": 0, "type": "unsigned", "path": "a.b"}]
    found = followed(space_row(1, "t"), insert(2, [made.ID, 0, "pk", "tree", {}, parts], space=INDEX))
    assert found.space("t").key_fields == ()
    assert found.keys == {}


def test_types_of_tomorrow_and_names_that_are_no_utf8_are_let_in() -> None:
    bad = b"caf\xe9".decode("utf-8", "surrogateescape")
    format_ = [{"name": "x", "type": "Decimal64", "scale": 2, "compression": "zstd"}, "nonsense", {"type": "hyper"}]
    space = followed(space_row(1, bad, format_)).space("caf\ufffd")
    assert space.fields == (
        FieldFacts("x", "decimal64", nullable=False, scale=2),
        FieldFacts("field_2", "any"),
        FieldFacts("field_3", "hyper", nullable=False),
    )


def test_a_change_of_the_schema_that_cannot_be_read_is_told() -> None:
    with pytest.raises(PipelineError, match="A change of the schema cannot be read, replica 1, LSN 7"):
        followed(insert(7, ["not a number"], space=SPACE))


def test_it_travels_and_is_copied_whole() -> None:
    one = followed(space_row(1, "t", fields("id unsigned")), index_row(2))
    two = pickle.loads(pickle.dumps(one))
    three = one.copy()
    assert two.space("t") == three.space("t") == one.space("t")
    three.apply(delete(3, [made.ID], space=SPACE))
    assert three.find("t") is None
    assert one.find("t") is not None
    assert len(pickle.dumps(Dictionary.builtin())) < 4096


@needs_golden
def test_a_directory_of_3_9_row_by_row() -> None:
    """Followed through its logs, it knows the spaces of the snapshot that comes after them."""
    node = GOLDEN / "tarantool-3.9" / "files" / "node-1"

    def rows(name: str) -> list[tuple[int, bytes]]:
        lines = (json.loads(line) for line in (node / name).read_text().splitlines())
        bodies = [line["BODY"] for line in lines if isinstance(line["BODY"], dict) and "tuple" in line["BODY"]]
        return [(body["space_id"], pack(body["tuple"])) for body in bodies if body["space_id"] in (SPACE, INDEX)]

    later = Dictionary.from_tuples(rows("00000000000000003389.snap.json"))
    assert later.space("everything").ddl().startswith("everything (id unsigned, name string, price decimal, uid uuid")
    assert later.space("here").is_local
    assert later.space("sync").is_sync


@needs_tarantool
def test_a_server_tells_the_same_as_its_rows(servers: Servers) -> None:
    for server in (servers.tarantool(), servers.subject()):
        with server.start(), Connection(*server.address) as connection:
            connection.insert(SPACE, [made.ID, 1, "t", "memtx", 0, {}, fields("id unsigned", "a string?")])
            connection.insert(INDEX, [made.ID, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
            host, port = server.address
            client = WireClient(parse_uri(f"{host}:{port}"))
            found = Dictionary.fetch(client)
            client.close()
        assert found.space("t").ddl() == "t (id unsigned, a string)"
        assert found.keys[made.ID] == (0,)
        assert found.space(int(system.SPACE)).name == "_space"
