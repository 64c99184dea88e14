"""Columns of silver: types, names, what is too large, what is no UTF-8, what is no JSON; and keys that are equal."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from headwater.pipeline.dictionary import Dictionary
from headwater.pipeline.lake.bodies import tuples_of
from headwater.pipeline.lake.keys import KeyPlan, canonical, key_plan
from headwater.pipeline.lake.shape import Shape, Widen, shape_of, to_json
from headwater.wire.msgpack import Datetime, Interval, pack


def space(fields: list[Any], parts: list[Any] | None = None) -> Any:
    rows = [(280, pack([600, 1, "t", "memtx", 0, {}, fields]))]
    rows += [(288, pack([600, 0, "pk", "tree", {"unique": True}, parts or [[0, "unsigned"]]]))]
    return Dictionary.from_tuples(rows).space("t")


def named(*fields: tuple[str, str]) -> list[Any]:
    return [{"name": name, "type": type, "is_nullable": number > 0} for number, (name, type) in enumerate(fields)]


def left(*tuples: bytes) -> pa.Table:
    count = len(tuples)
    return pa.table(
        {
            "key": pa.array([b""] * count, pa.binary()),
            "hint": pa.nulls(count, pa.int64()),
            "tuple": pa.array(tuples, pa.binary()),
            "lsn": pa.array([1] * count, pa.int64()),
            "replica_id": pa.array([1] * count, pa.int32()),
            "ts": pa.array([0] * count, pa.timestamp("us", "UTC")),
        }
    )


def rows(shape: Shape, *tuples: Any) -> list[dict[str, Any]]:
    packed = (each if isinstance(each, bytes) else pack(each) for each in tuples)
    found = shape.rows(left(*packed)).to_pylist()
    return [
        {name: value for name, value in row.items() if not name.startswith("_") or name == "_rescued"} for row in found
    ]


def test_a_column_for_every_type() -> None:
    fields = [
        "unsigned",
        "string",
        "double",
        "number",
        "integer",
        "boolean",
        "varbinary",
        "decimal",
        "uuid",
        "datetime",
    ]
    fields += ["interval", "scalar", "array", "map", "any", "int8", "uint32", "float32"]
    shape = shape_of(space(named(*((f"f_{type}", type) for type in fields))))
    uuid = UUID("dd39a4d8-2c4a-4c5f-9e4b-0b7a1a5b1d11")
    moment = Datetime(1_700_000_000, 123_456_000)
    row = [
        1,
        "é",
        1.5,
        2,
        -3,
        True,
        b"\xff",
        Decimal("1.25"),
        uuid,
        moment,
        Interval(day=2),
        "x",
        [1],
        {"k": uuid},
        None,
    ]
    row += [-8, 1 << 31, 0.5]
    [found] = rows(shape, row)
    assert found == {
        "f_unsigned": 1,
        "f_string": "é",
        "f_double": 1.5,
        "f_number": 2.0,
        "f_integer": -3,
        "f_boolean": True,
        "f_varbinary": b"\xff",
        "f_decimal": Decimal("1.2500000000"),
        "f_uuid": str(uuid),
        "f_datetime": dt.datetime(2023, 11, 14, 22, 13, 20, 123456, dt.UTC),
        "f_interval": "+2 days",
        "f_scalar": '"x"',
        "f_array": "[1]",
        "f_map": f'{{"k":"{uuid}"}}',
        "f_any": None,
        "f_int8": -8,
        "f_uint32": 1 << 31,
        "f_float32": 0.5,
        "_rescued": None,
    }


def test_fields_without_a_name_and_fields_behind_the_format() -> None:
    shape = shape_of(space([], [[0, "unsigned"], [2, "string"]]))
    assert [field.column for field in shape.fields] == ["field_1", "field_2", "field_3"]
    [found] = rows(shape, [1, {"any": 1}, "c", "more", None])
    assert found == {"field_1": 1, "field_2": '{"any":1}', "field_3": "c", "_rescued": '{"4":"more","5":null}'}


def test_names_that_delta_or_spark_could_not_read() -> None:
    shape = shape_of(space(named(("id", "unsigned"), ("ID", "string"), ("a b.c", "string"), ("_key", "string"))))
    assert [field.column for field in shape.fields] == ["id", "ID_2", "a_b_c", "_key_4"]


@pytest.mark.parametrize(
    ("type", "value", "wide"),
    [
        ("unsigned", (1 << 64) - 1, Decimal((1 << 64) - 1)),
        ("integer", (1 << 63), Decimal(1 << 63)),
        ("decimal", Decimal("0.12345678901"), "0.12345678901"),
        ("decimal", Decimal("12345678901234567890123456789012345678"), "12345678901234567890123456789012345678"),
    ],
)
def test_a_value_that_does_not_fit_widens_its_column(type: str, value: Any, wide: Any) -> None:
    shape = shape_of(space(named(("id", "unsigned"), ("v", type))))
    with pytest.raises(Widen) as told:
        rows(shape, [1, value])
    wider = shape.widened(told.value.column)
    assert wider is not None
    assert [row["v"] for row in rows(wider, [1, value], [2, None])] == [wide, None]
    assert shape.as_wide_as(wider.arrow) == wider
    if type == "integer":
        assert rows(wider, [1, -(1 << 63)])[0]["v"] == -(1 << 63)


def test_text_that_is_no_utf8_is_shown_and_kept() -> None:
    shape = shape_of(space(named(("id", "unsigned"), ("v", "string"), ("m", "any"))))
    packed = b"\x93\x01\xa3a\xffb\x81\xa1k\xa1\xfe"
    [found] = shape.rows(left(packed)).to_pylist()
    assert found["v"] == "a\ufffdb"
    assert json.loads(found["m"]) == {"k": "\ufffd"}
    assert found["_tuple"] == packed


def test_json_of_what_json_has_not() -> None:
    value = {1: math.nan, "b": [b"\x00", math.inf, Decimal("1.0")], "n": None, "big": (1 << 64) - 1}
    text = to_json(value)
    assert text is not None
    assert json.loads(text) == {"1": "NaN", "b": ["AA==", "Infinity", "1.0"], "n": None, "big": (1 << 64) - 1}
    assert to_json(None) is None


# ---- keys


def keys_of(plan: KeyPlan, *requests: tuple[int, dict[int, Any]]) -> list[bytes]:
    bodies = pa.array([pack(body) for _, body in requests], pa.binary())
    keys, _ = plan.keys(pa.array([type for type, _ in requests], pa.int32()), bodies)
    return list(keys.to_pylist())


def plan_for(parts: list[Any]) -> KeyPlan:
    found = key_plan(space([], parts), {})
    assert found is not None
    return found


@pytest.mark.parametrize("type", ["unsigned", "string", "scalar", "number"])
def test_the_key_of_a_row_is_that_of_its_tuple(type: str) -> None:
    plan = plan_for([[1, type], [0, "unsigned"]])
    value: Any = "x" if type == "string" else 7
    requests = [
        (2, {0x10: 600, 0x21: [1, value, "rest"]}),
        (5, {0x10: 600, 0x20: [value, 1]}),
        (4, {0x10: 600, 0x20: [value, 1], 0x21: [["=", 2, 3]]}),
        (9, {0x10: 600, 0x21: [1, value], 0x28: []}),
        (3, {0x10: 600, 0x21: [1, value, "other"]}),
    ]
    assert len({*keys_of(plan, *requests), plan.of_tuple(pack([1, value]))}) == 1
    assert plan.is_plain == (type in ("unsigned", "string"))


def test_an_integer_is_one_key_whatever_its_width() -> None:
    plan = plan_for([[0, "unsigned"]])
    bodies = [
        b"\x82\x10\xcd\x02\x58\x21\x91" + value for value in (b"\x05", b"\xcc\x05", b"\xcf" + b"\0" * 7 + b"\x05")
    ]
    keys, hints = plan.keys(pa.array([2] * 3, pa.int32()), pa.array(bodies, pa.binary()))
    assert len(set(keys.to_pylist())) == 1
    assert hints.to_pylist() == [5, 5, 5]


@pytest.mark.parametrize("equal", [[1, 1.0, Decimal("1.00")], [0.5, Decimal("0.50")], [0, -0.0], [2.0**70, 2**70]])
def test_numbers_of_several_kinds_are_one_key(equal: list[Any]) -> None:
    assert len({str(canonical(value)) for value in equal}) == 1
    assert canonical("1") != canonical(1) != canonical(b"1") != canonical(True)


def test_parts_inside_a_field_and_collated_parts() -> None:
    inside = space([], [{"field": 1, "type": "string", "path": "a[2]"}])
    plan = key_plan(inside, {})
    assert plan is not None
    assert keys_of(plan, (2, {0x10: 600, 0x21: [1, {"a": [0, "k"]}]}), (5, {0x10: 600, 0x20: ["k"]}))[
        0
    ] == plan.of_tuple(pack([9, {"a": [5, "k", 1]}]))
    folded = key_plan(space([], [{"field": 0, "type": "string", "collation": 2}]), {2: bytes.lower})
    assert folded is not None
    assert folded.of_tuple(pack(["AB"])) == folded.of_tuple(pack(["ab"])) != folded.of_tuple(pack(["a"]))


def test_tuples_are_found_in_bodies_of_any_client() -> None:
    tuple = pack([1, "x"])
    bodies = [
        b"\x82\x10\xcd\x02\x58\x21" + tuple,
        b"\x82\x10\xce\x00\x00\x02\x58\x21" + tuple,
        b"\x82\x21" + tuple + b"\x10\xcd\x02\x58",
        b"\x83\x10\xcd\x02\x58\x21" + tuple + b"\x28\x90",
        None,
    ]
    for shift in range(5):
        turned = bodies[shift:] + bodies[:shift]
        expected = [None if body is None else tuple for body in turned]
        assert tuples_of(pa.array(turned, pa.binary())).to_pylist() == expected
        assert tuples_of(pa.array(turned * 2, pa.binary()).slice(2, 5)).to_pylist() == (expected * 2)[2:7]
