"""Files of a real Tarantool 3.9: every row and every type as the JSON beside it says, however the files are cut."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.pipeline import reading
from tests.support.fixtures import GOLDEN, needs_golden

from headwater.wire.constants import DML_TYPES, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = GOLDEN / "tarantool-3.9" / "files"
NODES = ("node-1", "node-2")
DML = {kind.name for kind in DML_TYPES} - {"SELECT", "NOP"}
SIZES = (1, 300, 2_000, 20_000, 1 << 30)
"""From one block a part to a whole file."""

pytestmark = needs_golden


def told(path: Path) -> list[dict[str, Any]]:
    """The rows as Tarantool printed them."""
    lines = path.with_name(path.name + ".json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def data_files(node: str) -> list[Path]:
    return sorted(path for path in (FILES / node).iterdir() if path.suffix in (".snap", ".xlog"))


def same(got: object, wanted: object) -> bool:
    """Does a value of a column equal what JSON has of it? Lua prints 14 digits of a double, keys of maps as strings,
    and a map whose keys are numbers as an array with holes."""
    if isinstance(got, dict) and isinstance(wanted, list):
        return same(got, {str(n): value for n, value in enumerate(wanted, 1) if value is not None})
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in got)
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(got, list) and wanted == {}:
        return not got
    if isinstance(got, bytes):
        return got.decode("utf-8", "replace") == wanted
    if isinstance(got, bool) or isinstance(wanted, bool) or got is None or wanted is None:
        return got is wanted
    if isinstance(got, float) and isinstance(wanted, int | float):
        return f"{got:.14g}" == f"{wanted:.14g}"
    return bool(got == wanted)


def check(row: dict[str, Any], wanted: dict[str, Any], spaces: dict[int, str]) -> None:
    header, body = wanted["HEADER"], wanted["BODY"]
    assert row["op"] == header["type"]
    assert row["lsn"] == header.get("lsn", 0)
    assert row["replica_id"] == header.get("replica_id", 0)
    assert row["group_id"] == header.get("group_id", 0)
    assert row["tsn"] == header.get("tsn", row["lsn"])
    assert row["is_commit"] == (bool(header.get("commit")) or "tsn" not in header)
    assert abs(row["ts"].timestamp() - header["timestamp"]) < 5.1e-5
    if header["type"] in DML:
        check_change(row, header["type"], body, spaces)
    else:
        assert row["space_id"] is None
        assert row["key"] is row["before"] is row["after"] is row["ops"] is None
        assert same(row["body"], body), (row["body"], body)


def check_change(row: dict[str, Any], op: str, body: dict[str, Any], spaces: dict[int, str]) -> None:
    assert row["space_id"] == body["space_id"]
    assert row["space"] == spaces.get(body["space_id"])
    assert row["index_id"] == body.get("index_id", 0)
    assert row["body"] is None
    assert row["index_base"] == body.get("index_base")
    wanted = {
        "after": body["tuple"] if op in ("INSERT", "REPLACE", "UPSERT") else body.get("new_tuple"),
        "before": body.get("old_tuple"),
        "ops": body["tuple"] if op == "UPDATE" else body.get("operations"),
    }
    for name, value in wanted.items():
        assert same(row[name], value), (name, row[name], value)
    if "key" in body:
        assert same(row["key"], body["key"])
    else:
        assert row["key"] is not None


def names_of(rows: list[dict[str, Any]], spaces: dict[int, str]) -> None:
    """Follow `_space` as a reader of the JSON would."""
    for wanted in rows:
        body = wanted["BODY"]
        if isinstance(body, dict) and body.get("space_id") == 280 and "tuple" in body and len(body["tuple"]) > 5:
            spaces[body["tuple"][0]] = body["tuple"][2]


@pytest.mark.parametrize("node", NODES)
def test_every_row_equals_the_json_beside_it(node: str) -> None:
    for path in data_files(node):
        wanted = told(path)
        spaces: dict[int, str] = {}
        names_of(told(max(one for one in data_files(node) if one.suffix == ".snap" and one.stem <= path.stem)), spaces)
        names_of(wanted, spaces)
        got = reading.read(path)
        assert len(got) == len(wanted), path
        for row, line in zip(got, wanted, strict=True):
            check(row, line, spaces)


@pytest.mark.parametrize("node", NODES)
def test_all_sizes_of_parts_give_the_same_rows_in_the_same_order(node: str) -> None:
    whole = pa.concat_tables(reading.parts(FILES / node, request=True))
    counts = []
    for size in SIZES:
        tables = reading.parts(FILES / node, request=True, maxPartitionBytes=size)
        counts.append(len(tables))
        assert pa.concat_tables(tables).combine_chunks() == whole.combine_chunks(), size
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 100
    assert counts[-1] == 1


def test_no_transaction_is_in_two_parts() -> None:
    seen: dict[tuple[int, int], int] = {}
    path = FILES / "node-1" / "00000000000000000006.xlog"
    for number, table in enumerate(reading.parts(path, maxPartitionBytes=1)):
        for row in reading.values(table.select(["replica_id", "tsn"])):
            assert seen.setdefault((row["replica_id"], row["tsn"]), number) == number


TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "price": pa.string(),
    "uid": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "flag": pa.bool_(),
    "score": pa.float64(),
    "n": pa.int64(),
    "blob": pa.binary(),
}


@pytest.mark.parametrize("size", SIZES)
def test_typed_rows_of_a_space_with_every_type_equal_the_json(size: int) -> None:
    path = FILES / "node-1" / "00000000000000000006.xlog"
    options = {"space": "everything", "decimalAs": "string", "intervalAs": "string", "maxPartitionBytes": size}
    table = pa.concat_tables(reading.parts(path, **options))
    assert {name: table.schema.field(name).type for name in TYPES} == TYPES
    assert all(reading.is_variant(table.schema.field(name).type) for name in ("tags", "doc", "any"))
    wanted = [line for line in told(path) if isinstance(line["BODY"], dict) and line["BODY"].get("space_id") == 512]
    rows = reading.values(table)
    assert [(row["_replica_id"], row["_lsn"], row["_op"]) for row in rows] == [
        (line["HEADER"]["replica_id"], line["HEADER"]["lsn"], line["HEADER"]["type"]) for line in wanted
    ]
    fields = [*TYPES, "tags", "doc", "any", "gap"]
    for row, line in zip(rows, wanted, strict=True):
        if "tuple" in line["BODY"] and line["HEADER"]["type"] != "UPDATE":
            check_fields(row, dict(zip(fields, line["BODY"]["tuple"], strict=False)))
        else:
            assert row["id"] == line["BODY"]["key"][0]
            assert row["name"] is None


def check_fields(row: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        got = row[name]
        if isinstance(got, dt.datetime):
            got = got.isoformat(timespec="microseconds").replace("+00:00", "Z")
            value = dt.datetime.fromisoformat(value).isoformat(timespec="microseconds").replace("+00:00", "Z")
        assert same(got, value), (name, got, value)
    assert row["_rescued_data"] is None


def test_an_interval_is_its_parts() -> None:
    path = FILES / "node-1" / "00000000000000000006.xlog"
    rows = reading.read(path, space="everything", decimalAs="string", columns="id,gap,_op")
    months = [row for row in rows if row["_op"] == "REPLACE"][:12]
    for row in months:
        zero = dict.fromkeys(("year", "week", "hour", "min", "sec", "nsec"), 0)
        assert row["gap"] == {**zero, "month": row["id"], "day": row["id"], "adjust": row["gap"]["adjust"]}


def test_rows_that_are_no_changes_of_spaces_are_told_apart() -> None:
    rows = reading.read(FILES / "node-1", fileType="xlog")
    others = {row["op"] for row in rows if row["space_id"] is None}
    assert others == {Type.RAFT.name, Type.RAFT_PROMOTE.name, Type.RAFT_CONFIRM.name}
    assert all(row["replica_id"] == 0 and row["group_id"] == 1 for row in rows if row["op"] == "RAFT")


def test_spark_gives_the_same_rows_as_its_workers_would(spark: SparkSession) -> None:
    path = FILES / "node-1" / "00000000000000003389.xlog"
    names = ["op", "space_id", "space", "key", "after", "replica_id", "lsn", "ts"]
    got = spark.read.format("tarantool").option("maxPartitionBytes", "500").load(str(path)).select(*names)
    rows = [row.asDict() for row in got.collect()]
    for row in rows:
        row["ts"] = row["ts"].astimezone(dt.UTC)
        row.update({name: row[name] and row[name].toPython() for name in ("key", "after")})
    assert rows == [{name: row[name] for name in names} for row in reading.read(path)]
