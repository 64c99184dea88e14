"""Indexes built, altered and dropped by rows of `_index`, over tuples and without."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_spaces import refusal, row

from headwater.errors import Er
from headwater.kernels import FormatViolation
from headwater.store import system
from headwater.store.context import Source
from headwater.store.violations import format_error
from headwater.typing import FieldType, IteratorType

SPACE, INDEX = system.SPACE, system.INDEX


def index(
    index_id: int = 0,
    name: str = "pk",
    type: str = "tree",
    options: dict[str, object] | None = None,
    parts: object = None,
) -> list[object]:
    return [512, index_id, name, type, options if options is not None else {"unique": True}, parts or [[0, "unsigned"]]]


MODIFY = "Can't create or modify index 'pk' in space 't': "


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        (index(parts=[[0]]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: field type is missing"),
        (index(parts=[[]]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: expected a non-empty array"),
        (index(parts=[["a", "b"]]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: field id must be an integer"),
        (index(parts=[[0, 1]]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: field type must be a string"),
        (index(parts=[[0, "x"]]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: unknown field type"),
        (index(parts=[[0, "unsigned"], 1]), Er.WRONG_INDEX_PARTS, "Wrong index part 2: expected an array"),
        (index(parts=[1]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: expected a map"),
        (index(parts=[{1: 2}]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: expected a map with string keys"),
        (index(parts=[{"field": 0}]), Er.WRONG_INDEX_PARTS, "Wrong index part 1: unknown field type"),
        (
            index(parts=[{"field": 0, "type": "unsigned", "x": 1}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: unexpected option 'x'",
        ),
        (
            index(parts=[{"field": "a", "type": "unsigned"}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: 'field' must be unsigned",
        ),
        (
            index(parts=[{"field": 0, "type": "unsigned", "collation": 1}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: collation is only reasonable for 'string' and 'scalar' parts",
        ),
        (
            index(parts=[{"field": 0, "type": "string", "collation": 999}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: collation not found by id",
        ),
        (
            index(parts=[{"field": 0, "type": "string", "is_nullable": True, "nullable_action": "abort"}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: conflicting nullability and nullable action properties",
        ),
        (
            index(parts=[{"field": 0, "type": "string", "sort_order": "up"}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: unknown sort order",
        ),
        (
            index(parts=[{"field": 0, "type": "string", "sort_order": "desc"}]),
            Er.UNSUPPORTED,
            "Headwater does not support descending key parts",
        ),
        (
            index(type="hash", parts=[{"field": 0, "type": "string", "sort_order": "asc"}]),
            Er.WRONG_INDEX_PARTS,
            "Wrong index part 1: unordered indexes do not support sort_order",
        ),
        (
            index(parts=[{"field": 0, "type": "unsigned", "path": "a.b"}]),
            Er.UNSUPPORTED,
            "Headwater does not support indexes by JSON path",
        ),
        (
            index(parts=[{"field": 0, "type": "unsigned", "path": "[*]"}]),
            Er.UNSUPPORTED,
            "Headwater does not support multikey indexes",
        ),
        (index(options={"x": 1}), Er.WRONG_INDEX_OPTIONS, "Wrong index options: unexpected option 'x'"),
        (index(options={"unique": 1}), Er.WRONG_INDEX_OPTIONS, "Wrong index options: 'unique' must be boolean"),
        (index(options={"hint": 1}), Er.WRONG_INDEX_OPTIONS, "Wrong index options: 'hint' must be boolean"),
        (
            index(options={"page_size": 0}),
            Er.WRONG_INDEX_OPTIONS,
            "Wrong index options: page_size must be greater than 0 and less than or equal to range_size",
        ),
        (
            index(options={"bloom_fpr": 2}),
            Er.WRONG_INDEX_OPTIONS,
            "Wrong index options: bloom_fpr must be greater than 0 and less than or equal to 1",
        ),
        (index(options={"unique": False}), Er.MODIFY_INDEX, MODIFY + "primary key must be unique"),
        (index(parts=[[0, "unsigned"], [0, "string"]]), Er.MODIFY_INDEX, MODIFY + "same key part is indexed twice"),
        (index(parts=[[40000, "unsigned"]]), Er.MODIFY_INDEX, MODIFY + "field no is too big"),
        (index(parts=[[n, "unsigned"] for n in range(256)]), Er.MODIFY_INDEX, MODIFY + "too many key parts"),
        (index(parts=[[0, "any"]]), Er.MODIFY_INDEX, MODIFY + "field type 'any' is not supported"),
        (index(parts=[[0, "map"]]), Er.MODIFY_INDEX, MODIFY + "field type 'map' is not supported"),
        (index(parts=[[0, "interval"]]), Er.MODIFY_INDEX, MODIFY + "field type 'interval' is not supported"),
        (
            index(parts=[{"field": 0, "type": "unsigned", "is_nullable": True}]),
            Er.NULLABLE_PRIMARY,
            "Primary index of space 't' can not contain nullable parts",
        ),
        (index(type="x"), Er.INDEX_TYPE, "Unsupported index type supplied for index 'pk' in space 't'"),
        (index(type="rtree"), Er.UNSUPPORTED, "Headwater does not support RTREE indexes"),
        (index(type="bitset"), Er.UNSUPPORTED, "Headwater does not support BITSET indexes"),
        (index(options={"unique": True, "layout": "x"}), Er.UNSUPPORTED, "memtx does not support 'layout' option"),
        (index(1), Er.ALTER_SPACE, "Can't modify space 't': can not add a secondary key before primary"),
    ],
)
def test_a_bad_row_is_refused(node: Dictionary, fields: list[object], code: Er, text: str) -> None:
    space = node.create_space()
    assert refusal(node.insert, INDEX, *fields) == (code, text)
    assert space.indexes == {}
    assert node.rows(INDEX, key=[512], it=0) == []


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        (index(200), Er.MODIFY_INDEX, MODIFY + "index id too big"),
        (index(1, type="hash", options={"unique": False}), Er.MODIFY_INDEX, MODIFY + "HASH index must be unique"),
        (
            index(1, type="hash", parts=[{"field": 1, "type": "string", "is_nullable": True}]),
            Er.UNSUPPORTED,
            "HASH does not support nullable parts",
        ),
        (
            index(1, type="hash", options={"hint": True}),
            Er.MODIFY_INDEX,
            MODIFY + "hint is only reasonable with memtx tree index",
        ),
        (index(1, options={"func": 65}), Er.UNSUPPORTED, "Headwater does not support functional indexes"),
        (
            index(1, parts=[[0, "string"]]),
            Er.INDEX_PART_TYPE_MISMATCH,
            "Field 1 has type 'unsigned' in one index, but type 'string' in another",
        ),
        (
            index(1, parts=[[1, "string"]]),
            Er.FORMAT_MISMATCH_INDEX_PART,
            "Field 2 (n) has type 'unsigned' in space format, but type 'string' in index definition",
        ),
    ],
)
def test_a_bad_secondary_index_is_refused(node: Dictionary, fields: list[object], code: Er, text: str) -> None:
    node.create_space(format=[{"name": "id"}, {"name": "n", "type": "unsigned"}])
    node.create_index(512, 0, [[0, "unsigned"]])
    text = text.replace("Field 1 has", "Field 1 (id) has")
    assert refusal(node.insert, INDEX, *fields) == (code, text)


def test_a_row_of_another_shape_is_told_by_its_types(node: Dictionary) -> None:
    from headwater.store.indexdef import read_index_def
    from headwater.store.rowview import Row
    from headwater.wire.msgpack import pack

    space = node.create_space()
    data = pack([512, 0, "pk", "tree", 1, 1, 0, "num"])
    code, text = refusal(read_index_def, Row(data), space.definition, lambda _: True, recovering=False)
    assert code == Er.WRONG_INDEX_RECORD
    assert text.startswith("Wrong record in _index space: got {unsigned, unsigned, string, string, unsigned, unsigned")


# ---- over tuples ----------------------------------------------------------------------------------


@pytest.fixture
def filled(node: Dictionary) -> Dictionary:
    """Space 512 with the primary key on field 1 and three tuples."""
    node.create_space()
    node.insert(INDEX, *index())
    for number, name in ((1, "c"), (2, "b"), (3, "a")):
        node.insert(512, number, name, number % 2)
    node.written()
    return node


def insert_checked(node: Dictionary, space_id: int, *fields: object) -> None:
    """An insert whose violations are worded, as a client gets them."""
    try:
        node.insert(space_id, *fields)
    except FormatViolation as error:
        raise format_error(error, node.schema.space(space_id).names, pack_row(fields)) from None


def names(node: Dictionary, index_id: int) -> list[object]:
    return [fields[1] for fields in node.rows(512, index_id)]  # type: ignore[index]


def test_an_index_is_built_from_the_tuples_that_are_there(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "name", parts=[[1, "string"]]))
    assert names(filled, 1) == ["a", "b", "c"]
    filled.insert(512, 4, "aa", 0)
    assert names(filled, 1) == ["a", "aa", "b", "c"]


def test_a_unique_index_over_equal_keys_is_refused_and_leaves_nothing(filled: Dictionary) -> None:
    code, text = refusal(filled.insert, INDEX, *index(1, "odd", parts=[[2, "unsigned"]]))
    assert code == Er.TUPLE_FOUND
    assert text == (
        'Duplicate key exists in unique index "odd" in space "t" with old tuple - [1, "c", 1] '
        'and new tuple - [3, "a", 1]'
    )
    assert list(filled.schema.space(512).indexes) == [0]
    filled.insert(512, 5, "e", 1)


def test_tuples_that_do_not_fit_the_parts_are_told_by_field(filled: Dictionary) -> None:
    assert refusal(filled.insert, INDEX, *index(1, "n", parts=[[1, "unsigned"]])) == (
        Er.FIELD_TYPE,
        "Tuple field 2 type does not match one required by operation: expected unsigned, got string",
    )
    assert refusal(filled.insert, INDEX, *index(1, "n", parts=[[7, "unsigned"]])) == (
        Er.FIELD_MISSING,
        "Tuple field 8 required by space format is missing",
    )
    filled.insert(512, 4, "d", 1)


def test_a_nullable_part_takes_tuples_without_the_field(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "n", parts=[{"field": 7, "type": "unsigned", "is_nullable": True}]))
    assert len(filled.rows(512, 1)) == 3


def test_a_part_with_exclude_null_leaves_them_out(filled: Dictionary) -> None:
    part = {"field": 7, "type": "unsigned", "is_nullable": True, "exclude_null": True}
    filled.insert(INDEX, *index(1, "n", parts=[part]))
    assert filled.rows(512, 1) == []


def test_a_failed_journal_takes_an_index_back(filled: Dictionary) -> None:
    mark = filled.mark
    filled.insert(INDEX, *index(1, "name", parts=[[1, "string"]]))
    filled.insert(512, 4, "d", 0)
    filled.failed(mark)
    space = filled.schema.space(512)
    assert list(space.indexes) == [0]
    assert space.kernel is not None
    assert space.kernel.index(1) is None
    assert len(space) == 3
    filled.insert(512, 9, 10, 11)


def test_a_failed_journal_puts_a_dropped_index_back(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "name", parts=[[1, "string"]]))
    filled.written()
    mark = filled.mark
    filled.delete(INDEX, 512, 1)
    filled.insert(512, 4, 5, 6)
    filled.failed(mark)
    assert names(filled, 1) == ["a", "b", "c"]
    assert refusal(insert_checked, filled, 512, 4, 5, 6) == (
        Er.FIELD_TYPE,
        "Tuple field 2 type does not match one required by operation: expected string, got unsigned",
    )


def test_the_primary_key_goes_last_and_takes_the_tuples_along(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "name", parts=[[1, "string"]]))
    assert refusal(filled.delete, INDEX, 512, 0) == (
        Er.DROP_PRIMARY_KEY,
        "Can't drop primary key in space 't' while secondary keys exist",
    )
    filled.delete(INDEX, 512, 1)
    filled.written()
    mark = filled.mark
    filled.delete(INDEX, 512, 0)
    assert len(filled.schema.space(512)) == 0
    filled.insert(INDEX, *index(parts=[[1, "string"]]))
    filled.insert(512, 1, "x")
    filled.failed(mark)
    assert filled.rows(512) == [[1, "c", 1], [2, "b", 0], [3, "a", 1]]


def test_the_primary_key_of_a_system_space_stays(node: Dictionary) -> None:
    assert refusal(node.delete, INDEX, system.RECOVERY_POINT, 0) == (
        Er.LAST_DROP,
        "Can't drop the primary key in a system space, space '_recovery_point'",
    )


def test_another_primary_key_over_tuples_rebuilds_the_space(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "two", parts=[[1, "string"], [0, "unsigned"]]))
    filled.written()
    space = filled.schema.space(512)
    before = space.kernel
    mark = filled.mark
    filled.replace(INDEX, *index(parts=[[1, "string"]]))
    assert space.kernel is not before
    assert filled.memtx.space(512) is space.kernel
    assert names(filled, 0) == ["a", "b", "c"]
    assert names(filled, 1) == ["a", "b", "c"]
    filled.insert(512, 1, "d", 0)
    filled.failed(mark)
    assert space.kernel is before
    assert filled.memtx.space(512) is before
    assert filled.rows(512) == [[1, "c", 1], [2, "b", 0], [3, "a", 1]]
    assert space.indexes[0].parts[0].field == 0


def test_a_primary_key_that_is_not_unique_over_the_tuples_is_refused(filled: Dictionary) -> None:
    space = filled.schema.space(512)
    before = space.kernel
    code, text = refusal(filled.replace, INDEX, *index(parts=[[2, "unsigned"]]))
    assert code == Er.TUPLE_FOUND
    assert 'unique index "pk"' in text
    assert space.kernel is before
    assert filled.memtx.space(512) is before
    assert len(filled.rows(512)) == 3


def test_a_client_may_not_rebuild_dependent_indexes_with_the_primary_one(filled: Dictionary) -> None:
    """3.x refuses it, and its replicas would stop; rows of older releases pass."""
    filled.insert(INDEX, *index(1, "odd", options={"unique": False}, parts=[[2, "unsigned"]]))
    text = "Tarantool does not support non-trivial alter of primary index along with rebuild of dependent secondary "
    text += "indexes"
    assert refusal(filled.replace, INDEX, *index(parts=[[1, "string"]])) == (Er.UNSUPPORTED, text)
    filled.replace(INDEX, *index(parts=[[1, "string"]]), source=Source.PEER)
    assert filled.rows(512, 1) == [[2, "b", 0], [3, "a", 1], [1, "c", 1]]


def test_a_wider_type_is_taken_without_a_look_and_a_narrower_one_with(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "name", parts=[[1, "scalar"]]))
    filled.replace(INDEX, *index(1, "name", parts=[[1, "string"]]))
    assert filled.schema.space(512).format.fields[1].type is FieldType.STRING
    assert refusal(insert_checked, filled, 512, 4, 4, 4)[0] == Er.FIELD_TYPE
    assert refusal(filled.replace, INDEX, *index(1, "name", parts=[[1, "unsigned"]]))[0] == Er.FIELD_TYPE
    filled.replace(INDEX, *index(1, "name", parts=[[1, "scalar"]]))
    filled.insert(512, 4, 4, 4)
    assert names(filled, 1) == [4, "a", "b", "c"]


def test_an_index_becomes_unique_only_if_its_keys_are(filled: Dictionary) -> None:
    filled.insert(INDEX, *index(1, "odd", options={"unique": False}, parts=[[2, "unsigned"]]))
    assert refusal(filled.replace, INDEX, *index(1, "odd", parts=[[2, "unsigned"]]))[0] == Er.TUPLE_FOUND
    assert len(filled.rows(512, 1, [1], IteratorType.EQ)) == 2
    filled.delete(512, 3)
    filled.replace(INDEX, *index(1, "odd", parts=[[2, "unsigned"]]))


def test_an_index_is_renamed_and_made_a_hash_without_a_rebuild(filled: Dictionary) -> None:
    space = filled.schema.space(512)
    assert space.kernel is not None
    filled.insert(INDEX, *index(1, "name", parts=[[1, "string"]]))
    kernel_index = space.kernel.index(1)
    mark = filled.mark
    filled.replace(INDEX, *index(1, "other", parts=[[1, "string"]]))
    filled.replace(INDEX, *index(1, "other", type="hash", parts=[[1, "string"]]))
    assert space.kernel.index(1) is kernel_index
    assert kernel_index is not None
    assert kernel_index.hash
    assert space.index_by_name("other").type == "hash"
    assert refusal(space.index_by_name, "name") == (
        Er.NO_SUCH_INDEX_NAME,
        "No index 'name' is defined in space 't'",
    )
    filled.failed(mark)
    assert not kernel_index.hash
    assert space.index_by_name("name").type == "tree"


def test_in_later_statements_of_a_transaction_no_index_is_built_over_tuples(filled: Dictionary) -> None:
    filled.is_first = False
    assert refusal(filled.insert, INDEX, *index(1, "name", parts=[[1, "string"]])) == (
        Er.MULTISTATEMENT_TRANSACTION,
        "Can not perform index build in a multi-statement transaction",
    )
    format = [{"name": "id"}, {"name": "name", "type": "string"}]
    assert refusal(filled.replace, SPACE, *row(format=format)) == (
        Er.MULTISTATEMENT_TRANSACTION,
        "Can not perform space format check in a multi-statement transaction",
    )
    filled.insert(INDEX, *index(1, "name", parts=[[1, "string"]]), source=Source.PEER)


# ---- formats over tuples --------------------------------------------------------------------------


def test_a_format_is_checked_against_the_tuples_that_are_there(filled: Dictionary) -> None:
    good = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}]
    filled.replace(SPACE, *row(format=good))
    assert filled.schema.space(512).names == ("id", "name")
    bad = [{"name": "id", "type": "unsigned"}, {"name": "nick", "type": "unsigned"}]
    assert refusal(filled.replace, SPACE, *row(format=bad)) == (
        Er.FIELD_TYPE,
        "Tuple field 2 (nick) type does not match one required by operation: expected unsigned, got string",
    )
    assert filled.schema.space(512).names == ("id", "name")
    assert refusal(filled.replace, SPACE, *row(count=5)) == (
        Er.EXACT_FIELD_COUNT,
        "Tuple field count 3 does not match space field count 5",
    )
    long = [*good, {"name": "n"}, {"name": "more", "type": "any"}]
    assert refusal(filled.replace, SPACE, *row(format=long)) == (
        Er.FIELD_MISSING,
        "Tuple field 4 (more) required by space format is missing",
    )


def test_sized_integers_are_told_with_their_range(filled: Dictionary) -> None:
    filled.insert(512, 300, "z", 0)
    format = [{"name": "id", "type": "uint8"}]
    filled.delete(INDEX, 512, 0)
    filled.insert(INDEX, *index(parts=[[0, "unsigned"]]))
    filled.insert(512, 300, "z", 0)
    assert refusal(filled.replace, SPACE, *row(format=format)) == (
        Er.FIELD_VALUE_OUT_OF_RANGE,
        "The value of field 1 (id) exceeds the supported range for type 'uint8': expected [0..255], got 300",
    )


def test_a_failed_journal_puts_the_format_back(filled: Dictionary) -> None:
    mark = filled.mark
    filled.replace(SPACE, *row(format=[{"name": "id"}, {"name": "name", "type": "string"}]))
    filled.failed(mark)
    assert filled.schema.space(512).names == ()
    filled.insert(512, 4, 4, 4)


def test_recovery_builds_secondary_indexes_after_the_snapshot(node: Dictionary) -> None:
    node.create_space()
    node.insert(INDEX, *index())
    node.insert(INDEX, *index(1, "name", parts=[[1, "string"]]))
    rows = [(space_id, data) for space_id in (272, 276, 280, 288, 296, 304, 312) for data in packed(node, space_id)]
    rows += [(512, data) for data in map(pack_row, ([1, "b"], [2, "a"]))]
    again = Dictionary(rows=rows)
    assert names(again, 1) == ["a", "b"]
    bad = [*rows, (512, pack_row([3, "a"]))]
    code, text = refusal(Dictionary, rows=bad)
    assert code == Er.TUPLE_FOUND
    assert 'unique index "name" in space "t"' in text


def packed(node: Dictionary, space_id: int) -> list[bytes]:
    return [pack_row(fields) for fields in node.rows(space_id)]


def pack_row(fields: object) -> bytes:
    from headwater.wire.msgpack import pack

    return pack(fields)
