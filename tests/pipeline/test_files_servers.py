"""Directories that running servers wrote, Tarantool 2.6.0 and Headwater: Spark reads of them what the server holds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from tests.support import iproto
from tests.support.fixtures import Servers
from tests.support.headwater import ROOT
from tests.support.process import Server
from tests.support.subjects import STAND_IN, snapshot, transaction

from headwater.wire.msgpack import Datetime, Interval, pack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

THINGS, LEDGER = 600, 601
"""A space of every type that 2.6 knows, and one that is only written to."""
FORMAT = [
    ("id", "unsigned"),
    ("n", "integer"),
    ("name", "string"),
    ("score", "double"),
    ("flag", "boolean"),
    ("blob", "varbinary"),
    ("price", "decimal"),
    ("uid", "uuid"),
    ("rest", "any"),
    ("tags", "array"),
    ("doc", "map"),
]
"""Fields behind the first may be nil."""

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", params=["tarantool", "headwater"])
def directory(request: pytest.FixtureRequest, module_servers: Servers) -> Iterator[Path]:
    """A snapshot with half of the rows, logs with all changes, one of them being written."""
    if request.param == "headwater" and STAND_IN:
        pytest.skip("the stand-in is a tarantool already")
    made = module_servers.tarantool() if request.param == "tarantool" else module_servers.subject()
    with made.start(), iproto.Connection(*made.address) as connection:
        fill(connection)
        yield made.work_dir


def fill(connection: iproto.Connection) -> None:
    format_ = [{"name": name, "type": kind, "is_nullable": name != "id"} for name, kind in FORMAT]
    connection.insert(280, [THINGS, 1, "things", "memtx", 0, {}, format_])
    connection.insert(288, [THINGS, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
    iproto.create_space(connection, LEDGER, "ledger")
    for values in TUPLES:
        connection.replace(THINGS, values)
    snapshot(connection)
    rows = [{iproto.SPACE_ID: LEDGER, iproto.TUPLE: [n, "x" * 300]} for n in range(1, 1500)]
    transaction(connection, [(iproto.REPLACE, row) for row in rows])
    space = {iproto.SPACE_ID: THINGS, iproto.INDEX_ID: 0}
    changes = [
        (iproto.UPDATE, {**space, iproto.KEY: [1], iproto.TUPLE: [["=", 2, "renamed"], ["+", 1, 5]]}),
        (iproto.UPSERT, {iproto.SPACE_ID: THINGS, iproto.TUPLE: [2], iproto.OPS: [["+", 1, 1]]}),
        (iproto.DELETE, {**space, iproto.KEY: [3]}),
    ]
    assert not any(reply.failed for reply in connection.pipeline(changes))
    connection.replace(THINGS, [9, None, None, None, None, None, None, None, None, None, None, "trailing", 12])


DECIMAL = msgpack.ExtType(1, bytes.fromhex("02012345678c"))
UUID = msgpack.ExtType(2, bytes(range(16)))
TUPLES: list[list[Any]] = [
    [1, -5, "one", 1.5, True, b"\x00\xff", DECIMAL, UUID, "any", [1, [2]], {"a": {"b": None}}],
    [2, 7, "two", None, False, b"", None, None, {"k": [1, None]}, [], {}],
    [3],
    [2**63 - 1, -(2**63), "ends", 0.1, None, None, None, None, 2**64 - 1],
]


def typed(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("tarantool").option("space", "things").options(**options).load(str(path))


def test_typed_rows_of_a_snapshot_are_the_tuples(spark: SparkSession, directory: Path) -> None:
    rows = typed(spark, directory / "*.snap", decimalAs="decimal(20,2)").orderBy("id").collect()
    assert [row["id"] for row in rows] == [1, 2, 3, 2**63 - 1]
    one, two, three, ends = rows
    assert (one["n"], one["name"], one["score"], one["flag"], bytes(one["blob"])) == (-5, "one", 1.5, True, b"\x00\xff")
    assert str(one["price"]) == "123456.78"
    assert one["uid"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert [one[name].toPython() for name in ("rest", "tags", "doc")] == ["any", [1, [2]], {"a": {"b": None}}]
    assert (two["score"], two["price"], two["rest"].toPython()) == (None, None, {"k": [1, None]})
    assert [two[name].toPython() for name in ("tags", "doc")] == [[], {}]
    assert three.asDict().keys() == one.asDict().keys()
    assert all(three[name] is None for name, _ in FORMAT[1:])
    assert (ends["n"], ends["rest"].toPython()) == (-(2**63), 2**64 - 1)


def test_typed_rows_of_logs_are_the_changes(spark: SparkSession, directory: Path) -> None:
    rows = typed(spark, directory / "*.xlog").orderBy("_lsn").collect()
    told = [(row["_op"], row["id"]) for row in rows]
    assert told[len(TUPLES) :] == [("UPDATE", 1), ("UPSERT", 2), ("DELETE", 3), ("REPLACE", 9)]
    assert rows[-1]["_rescued_data"].toPython() == {"12": "trailing", "13": 12}
    assert all(row["_ts"].year >= 2020 for row in rows)


def test_every_part_of_a_large_transaction_is_counted_once(spark: SparkSession, directory: Path) -> None:
    """SQL over the envelope; the directory is being written to."""
    frame = spark.read.format("tarantool").option("maxPartitionBytes", "10k").load(str(directory))
    frame.createOrReplaceTempView("files")
    found = spark.sql(
        "select count(*) as n, count(distinct lsn) as lsns, count(distinct tsn) as txns, "
        "sum(key:[0]::bigint) as keys, sum(cast(is_commit as int)) as commits "
        "from files where space = 'ledger'"
    ).collect()[0]
    assert (found["n"], found["lsns"], found["keys"]) == (1499, 1499, 1499 * 1500 // 2)
    assert (found["txns"], found["commits"]) == (1, 1)


def test_a_table_over_a_directory(spark: SparkSession, directory: Path) -> None:
    options = f"path '{directory}', space 'things', fileType 'snap'"
    spark.sql(f"create temporary view things using tarantool options ({options})")
    found = spark.sql(
        "select id, is_variant_null(doc:a.b) as nothing, tags:[0]::int as first from things where id = 1"
    ).collect()
    spark.catalog.dropTempView("things")
    assert [(row["id"], row["nothing"], row["first"]) for row in found] == [(1, True, 1)]


def test_filters_are_pushed_down_when_asked_and_change_nothing(spark: SparkSession, directory: Path) -> None:
    counts = []
    for push in ("false", "true"):
        frame = spark.read.format("tarantool").option("pushDownFilters", push).load(str(directory))
        wanted = frame.where("space = 'things' and op in ('DELETE', 'UPDATE') and ts > timestamp'2020-01-01'")
        counts.append([(row["op"], row["key"].toPython()) for row in wanted.orderBy("lsn").collect()])
    assert counts[0] == counts[1] == [("UPDATE", [1]), ("DELETE", [3])]


def test_an_error_in_a_task_reaches_the_user(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    log = max(directory.glob("*.xlog"))
    data = bytearray(log.read_bytes())
    data[-5] ^= 1
    bad = tmp_path / log.name
    bad.write_bytes(bytes(data) + b"\xd5\x10\xad\xed")
    with pytest.raises(PySparkException, match=rf"{bad.name}, offset \d+.*Restore the file"):
        spark.read.format("tarantool").load(str(bad)).count()


def test_types_of_3_x_that_a_headwater_keeps(spark: SparkSession, servers: Servers) -> None:
    made: Server = servers.subject()
    if STAND_IN:
        pytest.skip("2.6.0 has no datetime")
    moment = Datetime(1_769_860_800, 123_456_789, 60)
    span = Interval(month=2, day=3)
    fields = [("id", "unsigned"), ("at", "datetime"), ("gap", "interval"), ("any", "any")]
    with made.start(), iproto.Connection(*made.address) as connection:
        format_ = [{"name": name, "type": kind, "is_nullable": name != "id"} for name, kind in fields]
        connection.insert(280, [THINGS, 1, "things", "memtx", 0, {}, format_])
        connection.insert(288, [THINGS, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])
        body = b"\x82\x10" + pack(THINGS) + b"\x21" + pack([1, moment, span, [moment, span]])
        assert not connection.ask(iproto.REPLACE, body).failed
        (row,) = typed(spark, made.work_dir).selectExpr("cast(at as string)", "gap", "any").collect()
    assert row["at"] == "2026-01-31 12:00:00.123456"
    assert (row["gap"]["month"], row["gap"]["day"], row["gap"]["year"]) == (2, 3, 0)
    assert row["any"].toPython() == [str(moment), str(span)]


def test_the_lines_of_the_readme_run(
    spark: SparkSession, servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the session that is there, over a directory as the lines before them make it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page[page.index("## Ten lines to a Spark job") :]
    lines = section[section.index("<<'END'\n") + len("<<'END'\n") : section.index("    END\n")]
    made = servers.subject(tmp_path / "var" / "node")
    with made.start(), iproto.Connection(*made.address) as connection:
        format_ = [{"name": "id", "type": "unsigned"}, {"name": "title", "type": "string"}]
        connection.insert(280, [512, 1, "books", "memtx", 0, {}, [*format_, {"name": "year", "type": "unsigned"}]])
        connection.insert(288, [512, 0, "id", "tree", {"unique": True}, [[0, "unsigned"]]])
        connection.insert(512, [1, "The Sea, the Sea", 1978])
        connection.insert(512, [2, "Voss", 1957])
    exec(textwrap.dedent(lines).replace('"var/', f'"{tmp_path}/var/'), {})
    shown = capsys.readouterr().out
    assert "Voss" in shown
    assert "The Sea" not in shown
    assert spark.read.parquet(str(tmp_path / "var" / "books.parquet")).count() == 2
