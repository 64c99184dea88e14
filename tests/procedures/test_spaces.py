"""box.schema.space, box.space.NAME and indexes, over CALL."""

from __future__ import annotations

from typing import Any

import pytest
from tests.procedures.node import CallNode

from headwater.errors import Er
from headwater.wire.constants import Type

SPACE, INDEX = 280, 288


def test_create_gives_the_space_and_writes_the_row_of_tarantool(node: CallNode) -> None:
    space, how = node.call("box.schema.space.create", "t", {"format": [["id", "unsigned"], {"name": "x"}, "y"]})
    assert how == "created"
    assert (space["id"], space["name"], space["engine"], space["enabled"]) == (512, "t", "memtx", False)
    format = [{"name": "id", "type": "unsigned"}, {"name": "x", "type": "any"}, {"name": "y", "type": "any"}]
    assert node.select(SPACE, [512]) == [[512, 1, "t", "memtx", 0, {}, format]]


def test_options_of_create(node: CallNode) -> None:
    options = {"id": 600, "is_local": True, "is_sync": False, "field_count": 3, "user": "guest"}
    node.call("box.schema.space.create", "t", options)
    assert node.select(SPACE, [600]) == [[600, 0, "t", "memtx", 3, {"group_id": 1, "is_sync": False}, []]]
    node.call("box.schema.space.create", "tmp", {"temporary": True})
    assert node.select(SPACE, [601])[0][5] == {"temporary": True}
    assert node.call("box.schema.space.create", "mem", {"type": "temporary"})[0]["id"] == 2**30


def test_if_not_exists(node: CallNode) -> None:
    node.call("box.schema.space.create", "t")
    assert node.call("box.schema.space.create", "t", {"if_not_exists": True})[1] == "not created"
    assert node.fails("box.schema.space.create", "t").message == "Space 't' already exists"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "name should be a string"),
        ([5], "name should be a string"),
        (["t", 5], "options should be a table"),
        (["t", {"sync": True}], "unexpected option 'sync'"),
        (["t", {"id": "x"}], "options parameter 'id' should be of type number"),
        (["t", {"user": True}], "options parameter 'user' should be one of types: string, number"),
        (["t", {"user": "nobody"}], "User 'nobody' is not found"),
        (["t", {"type": "weird"}], "unknown space type, must be one of: 'normal', 'data-temporary', 'temporary'."),
        (["t", {"type": "temporary", "temporary": True}], "only one of 'type' or 'temporary' may be specified"),
        (["t", {"format": [{"type": "string"}]}], "format[1]: name (string) is expected"),
        (["t", {"format": [["a", 5]]}], "format[1]: type must be a string"),
        (
            ["t", {"format": [{"name": "a", "type": "string", "collation": "zz"}]}],
            "format[1]: collation was not found by name 'zz'",
        ),
    ],
)
def test_wrong_arguments_of_create(node: CallNode, args: list[Any], words: str) -> None:
    assert node.fails("box.schema.space.create", *args).message == words
    assert node.select(SPACE, [512]) == []


def test_constraints_are_refused_and_never_forgotten(node: CallNode) -> None:
    assert node.fails("box.schema.space.create", "t", {"constraint": "f"}).code == Er.UNSUPPORTED
    assert node.fails("box.schema.space.create", "t", {"engine": "vinyl"}).code != 0
    assert node.select(SPACE, [512]) == []


def test_drop_takes_everything_that_belongs_to_the_space(shop: CallNode) -> None:
    shop.call("box.schema.user.create", "alice")
    shop.call("box.schema.user.grant", "alice", "read", "space", "t")
    shop.call("box.space.t:truncate")
    assert shop.call("box.space.t:drop") == []
    assert shop.select(SPACE, [512]) == []
    assert shop.select(INDEX, [512]) == []
    assert shop.select(330, [512]) == []
    assert shop.value("box.schema.user.info", "alice") == [
        ["execute", "role", "public"],
        ["session,usage", "universe", ""],
        ["alter", "user", "alice"],
    ]
    assert shop.fails("box.space.t:drop").message == "Procedure 'box.space.t:drop' is not defined"
    assert shop.fails("box.schema.space.drop", 512).message == "Space '#512' does not exist"
    assert shop.call("box.schema.space.drop", 512, "t", {"if_exists": True}) == []


def test_drop_is_one_transaction(shop: CallNode) -> None:
    shop.rows()
    shop.call("box.space.t:drop")
    rows = shop.rows()
    assert len(rows) == 3
    assert {row.tsn for row in rows} == {rows[0].lsn}


def test_rename_and_alter(shop: CallNode) -> None:
    shop.call("box.space.t:rename", "u")
    shop.call("box.space.u:alter", {"field_count": 3, "user": "guest", "name": "v"})
    row = shop.select(SPACE, [512])[0]
    assert (row[1], row[2], row[4]) == (0, "v", 3)
    assert shop.fails("box.space.v:alter", {"engine": "memtx"}).message == "unexpected option 'engine'"


def test_format_is_read_and_set(shop: CallNode) -> None:
    assert [field["name"] for field in shop.value("box.space.t:format")] == ["id", "name", "n"]
    assert shop.call("box.space.t:format", [["a", "unsigned"], ["b", "string"]]) == []
    assert shop.value("box.space.t:format") == [{"name": "a", "type": "unsigned"}, {"name": "b", "type": "string"}]


def test_truncate_empties_the_space_and_counts(shop: CallNode) -> None:
    shop.call("box.space.t:truncate")
    shop.call("box.space.t:truncate")
    assert shop.value("box.space.t:len") == 0
    assert shop.select(330, [512]) == [[512, 2]]


# ---- indexes ------------------------------------------------------------------------------------------


def test_an_index_with_nothing_said_is_on_the_first_field(node: CallNode) -> None:
    node.call("box.schema.space.create", "t")
    index = node.value("box.space.t:create_index", "pk")
    assert node.select(INDEX, [512]) == [[512, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]]
    assert (index["type"], index["unique"], index["parts"][0]["fieldno"]) == ("TREE", True, 1)


@pytest.mark.parametrize(
    ("parts", "stored"),
    [
        ([1, "unsigned"], [[0, "unsigned"]]),
        ([1, "unsigned", 2, "str"], [[0, "unsigned"], [1, "string"]]),
        ([[2, "string"]], [[1, "string"]]),
        ([["name"]], [[1, "string"]]),
        (["name", "id"], [[1, "string"], [0, "unsigned"]]),
        ([{"field": "n"}], [[2, "integer"]]),
        ([{"field": 3, "is_nullable": True}], [{"field": 2, "type": "integer", "is_nullable": True}]),
        ([{"field": 3, "exclude_null": True}], [{"field": 2, "type": "integer", "exclude_null": True,
                                                "is_nullable": True}]),
        ([{1: 2, "collation": "binary"}], [{"field": 1, "type": "string", "collation": 3}]),
        ([9], [[8, "scalar"]]),
        ([[9, "NUM"]], [[8, "unsigned"]]),
    ],
)  # fmt: skip
def test_parts_are_written_in_many_ways(shop: CallNode, parts: Any, stored: list[Any]) -> None:
    shop.call("box.space.t:truncate")
    shop.call("box.space.t:create_index", "x", {"parts": parts, "unique": False})
    assert shop.select(INDEX, [512, 2])[0][4:] == [{"unique": False}, stored]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parts": []}, "options.parts must have at least one part"),
        ({"parts": [["nam"]]}, "options.parts[1]: field was not found by name 'nam'"),
        ({"parts": [[0, "unsigned"]]}, "options.parts[1]: field (number) must be one-based"),
        ({"parts": [1, "unsigned", 2]}, "options.parts: expected field_no (number), type (string) pairs"),
        ({"parts": [[1, "unsigned", "x"]]}, "options.parts[1]: unexpected option x"),
        ({"parts": [{"type": "unsigned"}]}, "options.parts[1]: field (name or number) is expected"),
        ({"parts": [[1, 5]]}, "options.parts[1]: type (string) is expected"),
        ({"parts": [{"field": 1, "is_nullable": 1}]}, "options.parts[1]: type (boolean) is expected"),
        (
            {"parts": [{"field": 1, "is_nullable": False, "exclude_null": True}]},
            "options.parts[1]: exclude_null=true and is_nullable=false are incompatible",
        ),
        ({"unik": True}, "unexpected option 'unik'"),
        (
            {"sequence": True},
            "Can't create or modify index 'x' in space 't': sequence cannot be used with a secondary key",
        ),
    ],
)
def test_wrong_options_of_an_index(shop: CallNode, options: dict[str, Any], words: str) -> None:
    assert shop.fails("box.space.t:create_index", "x", options).message == words
    assert len(shop.select(INDEX, [512])) == 2


def test_an_index_is_altered_renamed_and_dropped(shop: CallNode) -> None:
    assert shop.fails("box.space.t:create_index", "pk").message == "Index 'pk' already exists"
    assert shop.call("box.space.t:create_index", "pk", {"if_not_exists": True})[1] == "not created"
    shop.call("box.space.t.index.by_name:alter", {"parts": [{"field": "name"}, {"field": "id"}], "unique": True})
    assert shop.select(INDEX, [512, 1])[0][4:] == [{"unique": True}, [[1, "string"], [0, "unsigned"]]]
    shop.call("box.space.t.index.by_name:rename", "sk")
    assert shop.fails("box.space.t.index.sk:alter", {"id": 5}).code == Er.CANT_UPDATE_PRIMARY_KEY
    words = "Don't know how to update both id and unique"
    assert shop.fails("box.space.t.index.sk:alter", {"id": 6, "unique": True}).message == words
    shop.call("box.space.t.index[1]:drop")
    assert len(shop.select(INDEX, [512])) == 1


# ---- data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "values"),
    [
        ("box.space.t:select", [], [[[1, "a", 10], [2, "b", 20], [3, "b", 30]]]),
        ("box.space.t:select", [2], [[[2, "b", 20]]]),
        ("box.space.t:select", [[2]], [[[2, "b", 20]]]),
        ("box.space.t:select", [2, {"iterator": "ge"}], [[[2, "b", 20], [3, "b", 30]]]),
        ("box.space.t:select", [2, "GT"], [[[3, "b", 30]]]),
        ("box.space.t:select", [None, {"limit": 1, "offset": 1}], [[[2, "b", 20]]]),
        ("box.space.t:select", [None, {"after": [1, "a", 10], "limit": 1}], [[[2, "b", 20]]]),
        ("box.space.t.select", [3], [[[3, "b", 30]]]),
        ("box.space['t']:select", [3], [[[3, "b", 30]]]),
        ("box.space[512]:select", [3], [[[3, "b", 30]]]),
        ("box.space.t.index.by_name:select", ["b"], [[[2, "b", 20], [3, "b", 30]]]),
        ("box.space.t.index[1]:select", ["a"], [[[1, "a", 10]]]),
        ("box.space.t:get", [1], [[1, "a", 10]]),
        ("box.space.t:get", [9], []),
        ("box.space.t:len", [], [3]),
        ("box.space.t:count", [], [3]),
        ("box.space.t:count", [2, "GE"], [2]),
        ("box.space.t.index.by_name:count", ["b"], [2]),
        ("box.space.t.index.by_name:min", [], [[1, "a", 10]]),
        ("box.space.t.index.by_name:max", [], [[3, "b", 30]]),
        ("box.space.t.index.by_name:min", ["b"], [[2, "b", 20]]),
        ("box.space.t.index.by_name:max", ["a"], [[1, "a", 10]]),
        ("box.space.t.index.by_name:max", ["x"], []),
        ("box.space.t:update", [1, [["=", 2, "z"], ["+", "n", 5]]], [[1, "z", 15]]),
        ("box.space.t:update", [9, [["=", 2, "z"]]], []),
        ("box.space.t:replace", [[1, "q", 0]], [[1, "q", 0]]),
        ("box.space.t:put", [[4, "q", 0]], [[4, "q", 0]]),
        ("box.space.t:upsert", [[1, "q", 0], [["+", 3, 1]]], []),
        ("box.space.t:delete", [2], [[2, "b", 20]]),
        ("box.space.t:delete", [9], []),
        ("box.space.t:auto_increment", [["x", 1]], [[4, "x", 1]]),
        ("box.space.t:bsize", [], [15]),
    ],
)
def test_methods(shop: CallNode, name: str, args: list[Any], values: list[Any]) -> None:
    assert shop.call(name, *args) == values


def test_random_gives_one_of_them(shop: CallNode) -> None:
    assert shop.value("box.space.t.index.pk:random", 5) in shop.value("box.space.t:select")


def test_pages(shop: CallNode) -> None:
    first, position = shop.call("box.space.t:select", None, {"limit": 2, "fetch_pos": True})
    assert [row[0] for row in first] == [1, 2]
    assert shop.value("box.space.t:select", None, {"after": position}) == [[3, "b", 30]]


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("box.space.t:insert", [[1, "a", 1]], "Duplicate key exists in unique index"),
        ("box.space.t:insert", [5], "Tuple/Key must be MsgPack array"),
        ("box.space.t:insert", [], "Tuple/Key must be MsgPack array"),
        ("box.space.t:update", [1], "Usage: index:update(key, ops)"),
        ("box.space.t:upsert", [[1, "a", 1], [], 5], "Error: extra argument in upsert call: 5"),
        ("box.space.t:get", ["x"], "Supplied key type of part 0 does not match index part type: expected unsigned"),
        ("box.space.t:get", [[1, 2]], "Invalid key part count in an exact match (expected 1, got 2)"),
        ("box.space.t.index.by_name:get", ["a"], "Get() doesn't support partial keys and non-unique indexes"),
        ("box.space.t:select", [1, {"iterator": "sideways"}], "Unknown iterator type 'sideways'"),
        ("box.space.t:select", [1, True], "Unknown iterator type 'true'"),
        ("box.space.t:select", [1, {"after": 5}], "Iterator position is invalid"),
        ("box.space.t:select", [1, {"limit": -1}], "options parameter 'limit' should be a non-negative number"),
        ("box.space.nope:select", [], "Procedure 'box.space.nope:select' is not defined"),
        ("box.space.t:nope", [], "Procedure 'box.space.t:nope' is not defined"),
        ("box.space.t.index.nope:select", [], "Procedure 'box.space.t.index.nope:select' is not defined"),
        ("box.space.t.index[0", [], "Procedure 'box.space.t.index[0' is not defined"),
        ("box.nope", [], "Procedure 'box.nope' is not defined"),
        ("", [], "Procedure '' is not defined"),
    ],
)
def test_errors(shop: CallNode, name: str, args: list[Any], words: str) -> None:
    assert shop.fails(name, *args).message.startswith(words)


def test_a_space_without_an_index(node: CallNode) -> None:
    node.call("box.schema.space.create", "t")
    assert node.value("box.space.t:len") == 0
    assert node.value("box.space.t:count", 1) == 0
    assert node.fails("box.space.t:select").message == "No index #0 is defined in space 't'"


def test_min_and_max_need_an_order(node: CallNode) -> None:
    node.call("box.schema.space.create", "t")
    node.call("box.space.t:create_index", "pk", {"type": "hash"})
    words = "Index 'pk' (HASH) of space 't' (memtx) does not support max()"
    assert node.fails("box.space.t.index.pk:max").message == words


def test_call_16_makes_tuples_of_everything(shop: CallNode) -> None:
    assert shop.call("box.space.t:select", 2, type=Type.CALL_16) == [[2, "b", 20]]
    assert shop.call("box.space.t:select", type=Type.CALL_16) == [[1, "a", 10], [2, "b", 20], [3, "b", 30]]
    assert shop.call("box.space.t:get", 1, type=Type.CALL_16) == [[1, "a", 10]]
    assert shop.call("box.space.t:len", type=Type.CALL_16) == [[3]]
    assert shop.call("box.space.t:select", 9, type=Type.CALL_16) == [[]]


# ---- sequences ----------------------------------------------------------------------------------------


def test_a_sequence_of_its_own(node: CallNode) -> None:
    sequence = node.value("box.schema.sequence.create", "s", {"start": 5, "step": 5, "max": 20})
    assert (sequence["id"], sequence["min"], sequence["cycle"]) == (1, 1, False)
    assert node.fails("box.sequence.s:current").code == Er.SEQUENCE_NOT_STARTED
    assert [node.value("box.sequence.s:next") for _ in range(3)] == [5, 10, 15]
    assert node.value("box.sequence.s:current") == 15
    node.call("box.sequence.s:set", 19)
    assert node.fails("box.sequence.s:next").code == Er.SEQUENCE_OVERFLOW
    node.call("box.sequence.s:alter", {"cycle": True})
    assert node.value("box.sequence.s:next") == 1
    node.call("box.sequence.s:reset")
    assert node.value("box.sequence.s:next") == 5
    node.call("box.sequence.s:drop")
    assert node.select(284) == []
    assert node.select(285) == []


def test_descending_sequences_have_other_defaults(node: CallNode) -> None:
    sequence = node.value("box.schema.sequence.create", "s", {"step": -1})
    assert (sequence["min"], sequence["max"], sequence["start"]) == (-(2**63), -1, -1)


def test_sequences_that_are_not_there(node: CallNode) -> None:
    assert node.fails("box.schema.sequence.drop", "s").message == "Sequence 's' does not exist"
    assert node.call("box.schema.sequence.drop", "s", {"if_exists": True}) == []
    assert node.fails("box.sequence.s:next").code == Er.NO_SUCH_PROC
    node.call("box.schema.sequence.create", "s")
    assert node.fails("box.schema.sequence.create", "s").message == "Sequence 's' already exists"
    assert node.call("box.schema.sequence.create", "s", {"if_not_exists": True})[1] == "not created"


def test_the_sequence_of_a_primary_key(node: CallNode) -> None:
    node.call("box.schema.space.create", "t")
    node.call("box.space.t:create_index", "pk", {"sequence": True})
    assert node.select(284)[0][2] == "t_seq"
    assert node.select(340) == [[512, 1, True, 0, ""]]
    assert node.value("box.space.t:insert", [None, "x"]) == [1, "x"]
    node.call("box.space.t.index.pk:alter", {"sequence": False})
    assert node.select(340) == []
    assert node.select(284) == []


def test_a_named_sequence_is_attached(node: CallNode) -> None:
    node.call("box.schema.sequence.create", "s", {"start": 100})
    node.call("box.schema.space.create", "t")
    node.call("box.space.t:create_index", "pk", {"sequence": {"id": "s", "field": 1}})
    assert node.value("box.space.t:insert", [None]) == [100]
    node.call("box.space.t:drop")
    assert len(node.select(284)) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequence": "nope"}, "Sequence 'nope' does not exist"),
        ({"sequence": True, "parts": [[1, "string"]]}, "sequence cannot be used with a non-integer key"),
        ({"sequence": {"field": 2}}, "sequence field must be a part of the index"),
    ],
)
def test_wrong_sequences_of_an_index(node: CallNode, options: dict[str, Any], words: str) -> None:
    node.call("box.schema.space.create", "t")
    assert words in node.fails("box.space.t:create_index", "pk", options).message
    assert node.select(INDEX, [512]) == []
    assert node.select(284) == []
