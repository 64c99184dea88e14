"""Operations by path: into arrays and maps inside a tuple (xrow_update_bar.c, _route.c, _map.c)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.updating import NAMES, fault, update, update_bytes, upsert

from headwater.errors import Er
from headwater.store.update import apply_update
from headwater.wire.msgpack import pack, unpack


def row(data: Any) -> list[Any]:
    """`data` is field 3: `[3]`, or `data` by name."""
    return [1, "n", data]


def data_after(data: Any, *ops: Any) -> Any:
    return update(row(data), *ops)[2]


def keys_after(data: Any, *ops: Any) -> list[Any]:
    """The keys of the map, in the order of their bytes."""
    return list(data_after(data, *ops))


DEEP = {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [1, 2, 3]}


@pytest.mark.parametrize(
    ("op", "new"),
    [
        (["=", "data.a.k", 5], {"a": {"b": [10, {"c": "text"}], "k": 5}, "z": [1, 2, 3]}),
        (["=", "[3].a.k", 5], {"a": {"b": [10, {"c": "text"}], "k": 5}, "z": [1, 2, 3]}),
        (["=", '[3]["a"].k', 5], {"a": {"b": [10, {"c": "text"}], "k": 5}, "z": [1, 2, 3]}),
        (["=", "[3]['a']['k']", 5], {"a": {"b": [10, {"c": "text"}], "k": 5}, "z": [1, 2, 3]}),
        (["=", "data.a.b[2].c", 5], {"a": {"b": [10, {"c": 5}], "k": 1}, "z": [1, 2, 3]}),
        (["+", "data.a.b[1]", 5], {"a": {"b": [15, {"c": "text"}], "k": 1}, "z": [1, 2, 3]}),
        ([":", "data.a.b[2].c", 1, 2, "EX"], {"a": {"b": [10, {"c": "tEXt"}], "k": 1}, "z": [1, 2, 3]}),
        (["&", "data.z[3]", 2], {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [1, 2, 2]}),
        (["=", "data.z[4]", 4], {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [1, 2, 3, 4]}),
        (["!", "data.z[1]", 0], {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [0, 1, 2, 3]}),
        (["!", "data.z[4]", 4], {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [1, 2, 3, 4]}),
        (["#", "data.z[2]", 1], {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [1, 3]}),
        (["#", "data.z[2]", 100], {"a": {"b": [10, {"c": "text"}], "k": 1}, "z": [1]}),
        (["#", "data.z", 1], {"a": {"b": [10, {"c": "text"}], "k": 1}}),
        (["#", "data.a.b", 1], {"a": {"k": 1}, "z": [1, 2, 3]}),
        (["=", "data.new", 7], {"new": 7, **DEEP}),
        (["!", "data.a.new", 7], {"a": {"new": 7, "b": [10, {"c": "text"}], "k": 1}, "z": [1, 2, 3]}),
    ],
)
def test_one_operation_deep_inside(op: list[Any], new: Any) -> None:
    assert list(data_after(DEEP, op).items()) == list(new.items())


def test_a_field_named_with_a_dot_is_found_whole() -> None:
    assert update([1, "n", {}, 5], ["+", "a.b", 1]) == [1, "n", {}, 6]


def test_names_stand_only_at_the_beginning() -> None:
    assert update([1, {"name": 2}], ["+", "[2].name", 1]) == [1, {"name": 3}]
    assert update([1, {"name": 2}], ["+", "name.name", 1]) == [1, {"name": 3}]


def test_paths_count_from_one_whatever_the_index_base() -> None:
    for base in (0, 1):
        assert update([1, [5, 6]], ["=", "[2][1]", 7], base=base) == [1, [7, 6]]


def test_a_path_of_one_number_is_a_field() -> None:
    assert update([1, 2, 3], ["=", "[2]", 7]) == [1, 7, 3]
    assert update([1], ["=", "[4]", 7]) == [1, None, None, 7]


def test_gaps_inside_are_not_filled() -> None:
    assert fault(row([1]), ["=", "data[3]", 7])[0] == Er.NO_SUCH_FIELD_NAME
    assert fault(row([1]), ["=", "data[2]", 7], ["=", "data[4]", 8])[0] == Er.NO_SUCH_FIELD_NAME


@pytest.mark.parametrize(
    ("op", "code", "text"),
    [
        (["=", "data.x.y", 1], Er.NO_SUCH_FIELD_NAME, "Field ''data.x.y'' was not found in the tuple"),
        (["+", "data.x", 1], Er.NO_SUCH_FIELD_NAME, "Field ''data.x'' was not found in the tuple"),
        (["#", "data.x", 1], Er.NO_SUCH_FIELD_NAME, "Field ''data.x'' was not found in the tuple"),
        (["#", "data.z[4]", 1], Er.NO_SUCH_FIELD_NAME, "Field ''data.z[4]'' was not found in the tuple"),
        (["=", "nope.x", 1], Er.NO_SUCH_FIELD_NAME, "Field 'nope.x' was not found in the tuple"),
        (["=", "[*].x", 1], Er.NO_SUCH_FIELD_NAME, "Field '[*].x' was not found in the tuple"),
        (["!", "data.z.k", 1], Er.UPDATE_FIELD, "Field 'data.z.k' UPDATE error: can not access by key a non-map field"),
        (["!", "[3].a[1]", 1], Er.UPDATE_FIELD,
            "Field '[3].a[1]' UPDATE error: can not access by index a non-array field"),
        (["!", "data.a.k", 1], Er.UPDATE_FIELD, "Field 'data.a.k' UPDATE error: the key exists already"),
        (["#", "[3].a.k", 2], Er.UPDATE_FIELD,
            "Field '[3].a.k' UPDATE error: can delete only 1 field from a map in a row"),
        (["=", "data.a[*]", 1], Er.UPDATE_FIELD, "Field 'data.a[*]' UPDATE error: invalid JSON in position 8"),
        (["=", "data..a", 1], Er.UPDATE_FIELD, "Field 'data..a' UPDATE error: invalid JSON in position 6"),
        (["=", "data.a.", 1], Er.UPDATE_FIELD, "Field 'data.a.' UPDATE error: invalid JSON in position 8"),
        (["=", "data.a[", 1], Er.UPDATE_FIELD, "Field 'data.a[' UPDATE error: invalid JSON in position 7"),
        (["=", "data.a[0]", 1], Er.UPDATE_FIELD, "Field 'data.a[0]' UPDATE error: invalid JSON in position 8"),
        (["=", "data.a[1", 1], Er.UPDATE_FIELD, "Field 'data.a[1' UPDATE error: invalid JSON in position 9"),
        (["=", "data.a['']", 1], Er.UPDATE_FIELD, "Field 'data.a['']' UPDATE error: invalid JSON in position 9"),
        (["=", "data.a['x", 1], Er.UPDATE_FIELD, "Field 'data.a['x' UPDATE error: invalid JSON in position 10"),
        (["=", "data.1a", 1], Er.UPDATE_FIELD, "Field 'data.1a' UPDATE error: invalid JSON in position 6"),
        (["=", "[0]", 1], Er.UPDATE_FIELD, "Field '[0]' UPDATE error: invalid JSON in position 2"),
        (["=", ".a", 1], Er.NO_SUCH_FIELD_NAME, "Field '.a' was not found in the tuple"),
        (
            ["+", "data.a.b[2].c", 1],
            Er.UPDATE_ARG_TYPE,
            "Argument type in operation '+' on field 'data.a.b[2].c' does not match field type: expected a number",
        ),
        (
            ["+", "data.a", 1],
            Er.UPDATE_ARG_TYPE,
            "Argument type in operation '+' on field 'data.a' does not match field type: expected a number",
        ),
        ([":", "[3].a.b[2].c", -9, 0, ""], Er.UPDATE_SPLICE,
            "SPLICE error on field '[3].a.b[2].c': offset is out of bound"),
    ],
)  # fmt: skip
def test_errors_name_the_path(op: list[Any], code: Er, text: str) -> None:
    assert fault(row(DEEP), op) == (code, text)


def test_paths_into_scalars_find_nothing() -> None:
    assert fault(row(5), ["+", "data.a", 1])[0] == Er.NO_SUCH_FIELD_NAME
    assert fault(row(5), ["=", "data[1].a", 1])[0] == Er.NO_SUCH_FIELD_NAME
    assert fault(row("abc"), [":", "data", 0, 0, "x"], ["=", "data.a", 1])[0] == Er.NO_SUCH_FIELD_NAME


def test_utf8_keys_and_positions_count_characters() -> None:
    assert data_after({"ключ": 1}, ["+", "data.ключ", 1]) == {"ключ": 2}
    assert data_after({"日本": {"語": 1}}, ["+", "data.日本.語", 1]) == {"日本": {"語": 2}}
    assert fault(row({"ключ": 1}), ["+", "data.ключ..", 1])[1].endswith("invalid JSON in position 11")
    assert data_after({"a b": 1}, ["+", "data['a b']", 1]) == {"a b": 2}


def test_paths_that_are_not_utf8_are_refused() -> None:
    ops = b"\x91\x93\xa1=" + b"\xa7data.\xff\xff" + b"\x01"
    with pytest.raises(Exception, match="invalid JSON in position 6"):
        apply_update(ops, pack(row({})), NAMES, 0)


def test_whole_numbers_name_pairs_of_a_map_counted_from_one() -> None:
    """tuple.c, tuple_field_go_to_index: [1] in a path is the key 1 of a map."""
    assert data_after({1: "a", 2: "b"}, ["=", "data[2]", "B"]) == {1: "a", 2: "B"}
    assert data_after({1: {"x": 1}}, ["+", "data[1].x", 1]) == {1: {"x": 2}}
    assert fault(row({1: "a"}), ["!", "data[1]", "B"])[1].endswith("the key exists already")
    assert fault(row({1: "a"}), ["#", "data[1]", 1])[0] == Er.UPDATE_FIELD


def test_untouched_bytes_inside_are_kept() -> None:
    inner = b"\xdf\x00\x00\x00\x02\xd9\x01a\xcf" + bytes(7) + b"\x01" + b"\xd9\x01b\xcd\x00\x02"
    old = b"\x93\x01\xa1n" + inner
    assert update_bytes(old, ["=", "data.b", 3]) == old[:-3] + b"\x03"
    assert update_bytes(old, ["=", "data.c", 3]) == old[:4] + b"\x83\xa1c\x03" + inner[5:]
    assert update_bytes(old, ["#", "data.b", 1]) == old[:4] + b"\x81" + inner[5:17]
    assert update_bytes(old, ["#", "data.a", 1]) == old[:4] + b"\x81" + inner[17:]


# ---- several operations on one field -----------------------------------------------------------------------


def test_operations_on_different_parts_of_a_map() -> None:
    assert data_after(DEEP, ["=", "data.a.k", 5], ["+", "data.z[1]", 5]) == {
        "a": {"b": [10, {"c": "text"}], "k": 5},
        "z": [6, 2, 3],
    }
    assert data_after(DEEP, ["+", "data.a.b[1]", 1], ["=", "data.a.b[2].c", "C"], ["#", "data.a.k", 1]) == {
        "a": {"b": [11, {"c": "C"}]},
        "z": [1, 2, 3],
    }


def test_changed_keys_come_first_when_a_map_is_changed_more_than_once() -> None:
    """xrow_update_map.c: so that a tuple that is updated often finds its keys at once."""
    flat = {"a": 1, "b": 2, "c": 3, "d": 4}
    assert keys_after(flat, ["=", "data.c", 0]) == ["a", "b", "c", "d"]
    assert keys_after(flat, ["=", "data.c", 0], ["=", "data.b", 0]) == ["b", "c", "d", "a"]
    assert keys_after(flat, ["=", "data.b", 0], ["=", "data.d", 0]) == ["d", "b", "c", "a"]
    assert keys_after(flat, ["=", "data.x", 0], ["=", "data.y", 0]) == ["y", "x", "a", "b", "c", "d"]
    assert keys_after(flat, ["#", "data.b", 1], ["=", "data.c", 0]) == ["c", "d", "a"]


def test_operations_on_different_elements_of_an_array() -> None:
    numbers = [1, 2, 3, 4]
    assert data_after(numbers, ["+", "data[1]", 10], ["+", "data[4]", 10]) == [11, 2, 3, 14]
    assert data_after(numbers, ["#", "data[1]", 1], ["=", "data[1]", "two"]) == ["two", 3, 4]
    assert data_after(numbers, ["!", "data[1]", 0], ["#", "data[5]", 1], ["!", "data[5]", 5]) == [0, 1, 2, 3, 5]
    assert data_after(numbers, ["=", "data[5]", 5], ["=", "data[6]", 6], ["#", "data[1]", 2]) == [3, 4, 5, 6]


def test_the_same_place_may_be_changed_again() -> None:
    assert data_after({"a": 1}, ["+", "data.a", 1], ["+", "data.a", 1], ["-", "data.a", 5]) == {"a": -2}
    assert data_after({"a": 1}, ["=", "data.a", 1], ["+", "data.a", 1]) == {"a": 2}
    assert data_after({"a": 1}, ["=", "data.b", 1], ["+", "data.b", 1]) == {"b": 2, "a": 1}
    assert data_after([1], ["!", "data[1]", 5], ["+", "data[1]", 1]) == [6, 1]


def test_what_an_operation_put_there_can_be_looked_into() -> None:
    assert data_after({}, ["=", "data.a", {"b": [1]}], ["=", "data.a.b[2]", 2]) == {"a": {"b": [1, 2]}}
    assert data_after({"a": 1}, ["=", "data", {"x": 1}], ["+", "data.x", 1]) == {"x": 2}
    assert update([1], ["!", 1, {"x": 1}], ["=", "[2].y", 2]) == [1, {"y": 2, "x": 1}]


def test_a_whole_field_may_be_set_over_changes_inside() -> None:
    assert data_after({"a": 1}, ["=", "data.a", 5], ["=", "data", 7]) == 7
    assert update(row({"a": 1}), ["=", "data.a", 5], ["#", 2, 1]) == [1, "n"]
    assert update(row({"a": 1}), ["=", "data.a", 5], ["!", 0, 0]) == [0, 1, "n", {"a": 5}]


def test_numbers_of_fields_move_under_paths_too() -> None:
    assert update(row({"a": 1}), ["#", 0, 1], ["=", "[2].a", 5]) == ["n", {"a": 5}]


def test_arithmetic_on_a_changed_container_is_refused() -> None:
    assert fault(row({"a": 1}), ["=", "data.a", 5], ["+", "data", 1])[0] == Er.UPDATE_ARG_TYPE


def test_mixed_steps_where_paths_part_are_refused() -> None:
    wanted = "Field 'data[1].x' UPDATE error: can not update map by non-string key"
    assert fault(row({"a": {"x": 1}}), ["=", "data.a.x", 5], ["=", "data[1].x", 1])[1] == wanted
    wanted = "Field 'data.a.x' UPDATE error: can not update array by non-integer index"
    assert fault(row([{"x": 1}]), ["=", "data[1].x", 5], ["=", "data.a.x", 1])[1] == wanted


def test_a_map_has_no_numbers_and_an_array_no_names() -> None:
    inside = {"a": {"x": 1, "y": 2}}
    twice = (["=", "data.a.x", 5], ["=", "data.a.y", 6])
    assert fault(row(inside), *twice, ["=", "data.a[1]", 1])[1].endswith("can't update a map by not a string key")
    twice = (["=", "data.a[1]", 5], ["=", "data.a[2]", 6])
    wanted = "can't update an array by a non-numeric index"
    assert fault(row({"a": [1, 2]}), *twice, ["=", "data.a.x", 1])[1].endswith(wanted)


def test_deleting_an_absent_key_of_a_changed_map_is_nothing() -> None:
    assert data_after({"a": 1, "b": 2}, ["=", "data.a", 5], ["=", "data.b", 6], ["#", "data.x", 1]) == {"b": 6, "a": 5}


def test_a_key_may_be_deleted_and_added_again() -> None:
    twice = (["#", "data.a", 1], ["=", "data.b", 6])
    assert data_after({"a": 1, "b": 2}, *twice, ["!", "data.a", 7]) == {"a": 7, "b": 6}
    assert fault(row({"a": 1, "b": 2}), *twice, ["!", "data.b", 7])[1].endswith("the key exists already")


def test_keys_that_are_no_strings_are_carried_along() -> None:
    mixed = {1: "one", "a": 1, None: 0, "b": 2}
    assert data_after(mixed, ["=", "data.a", 5], ["=", "data.b", 6]) == {"b": 6, "a": 5, 1: "one", None: 0}


def test_a_shared_path_is_followed_byte_by_byte() -> None:
    """xrow_update_route.c, xrow_update_route_next: the shared beginning is compared as text, so a longer name that
    begins with it leads into it and fails. A replica would refuse what we took, so we refuse it too."""
    inside = {"a": {"x": 1, "y": 2}, "ab": {"x": 1}}
    twice = (["=", "data.a.x", 5], ["=", "data.a.y", 6])
    assert fault(row(inside), *twice, ["=", "data.ab.x", 7])[0] == Er.UPDATE_FIELD
    assert data_after(inside, ["=", "data.ab.x", 7], *twice) == {"a": {"y": 6, "x": 5}, "ab": {"x": 7}}


def test_the_end_of_a_shared_path_is_no_field() -> None:
    twice = (["=", "data.a.x", 5], ["=", "data.a.y", 6])
    assert fault(row({"a": {"x": 1, "y": 2}}), *twice, ["=", "data.a", 7])[0] == Er.NO_SUCH_FIELD_NAME


def test_upsert_skips_paths_that_lead_nowhere() -> None:
    result, skipped = upsert(
        row({"a": 1, "b": 2}), ["=", "data.x.y", 1], ["+", "data.a", 1], ["!", "data.b", 1], ["+", "data.b", 1]
    )
    assert result == row({"b": 3, "a": 2})
    assert skipped == [Er.NO_SUCH_FIELD_NAME, Er.UPDATE_FIELD]


def test_hundreds_of_levels_are_no_trouble() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"k": deep}
    path = "data" + ".k" * 400
    after = unpack(update_bytes(pack(row(deep)), ["+", path, 1]))[2]
    for _ in range(400):
        after = after["k"]
    assert after == 2
