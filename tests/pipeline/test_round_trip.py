"""A DataFrame into a space, and out of it again: every value is kept, or refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import types as spark_types
from tests.pipeline.sinks import make_space, options, rows_of, write
from tests.support.fixtures import Servers, module_servers, needs_tarantool
from tests.support.iproto import Connection
from tests.support.process import Server

from headwater.pipeline import livesource
from headwater.pipeline.types import DATETIME, INTERVAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["module_servers"]

BOTH = """id DECIMAL(20,0), b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE,
    dec DECIMAL(38,10),
    s STRING, bin BINARY, u STRING, arr ARRAY<ARRAY<BIGINT>>, m MAP<STRING, MAP<STRING, ARRAY<STRING>>>,
    st STRUCT<x: BIGINT, y: STRUCT<z: STRING>>"""
ONLY_NEW = ", t TIMESTAMP"
TYPES = "id unsigned, u uuid"
LONG = Decimal("1234567890123456789012345678.0123456789")
NULLS: list[Any] = [None] * 14
ROWS: list[list[Any]] = [
    [Decimal(0), *NULLS],
    [
        Decimal(2**64 - 1), True, -128, -32768, -(2**31), -(2**63), 1.5, -0.0, -LONG,
        "ключ\x00\U0001f600", b"\x00\xff", "00000000-0000-0000-0000-000000000000", [[], [1, -1]],
        {"": {"": []}, "a": {"b": ["c", ""]}}, (2**62, ("z",)),
    ],
    [
        Decimal(2**63), False, 127, 32767, 2**31 - 1, 2**63 - 1, float("inf"), 1e308, Decimal("0.0000000001"),
        "", b"", "ffffffff-ffff-4fff-bfff-fffffffffffe", [None, [None]], {"k": None}, (None, None),
    ],
    [
        Decimal(1), None, 0, 0, 0, 0, float("nan"), 5e-324, Decimal(0), "x" * 70_000, b"y" * 70_000, None, [], {},
        (1, None),
    ],
]  # fmt: skip
TIMES = [
    None,
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
]


@pytest.fixture(scope="module", params=["node", pytest.param("old", marks=needs_tarantool)])
def server(request: pytest.FixtureRequest, module_servers: Servers) -> Server:
    made = module_servers.subject("node") if request.param == "node" else module_servers.tarantool("old")
    return made.start()


def is_old(server: Server) -> bool:
    return "tarantool" in server.name


def comparable(frame: DataFrame) -> list[Any]:
    """What has no equal in a schema is compared as JSON; floats bit by bit."""
    kinds = {column.name: column.dataType for column in frame.schema}
    loose = (spark_types.ArrayType, spark_types.MapType, spark_types.StructType, spark_types.VariantType)
    shown = [
        f"to_json({name}) AS {name}" if isinstance(kind, loose)
        else f"hex({name}) AS {name}" if isinstance(kind, spark_types.BinaryType)
        else f"cast({name} AS STRING) AS {name}"
        for name, kind in kinds.items()
    ]  # fmt: skip
    return sorted(tuple(row) for row in frame.selectExpr(*shown).collect())


def test_every_kind_of_value_is_kept(spark: SparkSession, server: Server) -> None:
    rows = ROWS if is_old(server) else [[*row, time] for row, time in zip(ROWS, TIMES, strict=True)]
    schema = BOTH + ("" if is_old(server) else ONLY_NEW)
    frame = spark.createDataFrame([tuple(row) for row in rows], schema)
    given = options(server, space="kept", primaryKey="id", fieldTypes=TYPES)
    frame.write.format("tarantool").options(**given).mode("append").save()
    read = {**given, "unsignedAs": "decimal", "rescuedDataColumn": ""}
    back = spark.read.format("tarantool").options(**read).load()
    loose = spark.createDataFrame([tuple(row) for row in rows], schema).selectExpr(
        *(
            # A null inside is one in both; a field that is absent is none.
            f"parse_json(to_json({name}, map('ignoreNullFields', 'false'))) AS {name}" if name in ("arr", "m", "st")
            else name
            for name in frame.columns
        )
    )  # fmt: skip
    assert comparable(back.select(*frame.columns)) == comparable(loose)


SPANS: list[Any] = [None, (0,) * 9, (1, -2, 3, -4, 5, -6, 7, -8, 1), (-1000, 0, 0, 0, 0, 0, 0, 999_999_999, 2)]
MOMENTS: list[Any] = [None, (0, 0, 0, 0), (-(2**40), 999_999_999, 180, 947), (2**31, 1, -720, 0)]


def test_parts_of_datetimes_and_intervals_are_kept(server: Server) -> None:
    """What a TIMESTAMP has no place for."""
    if is_old(server):
        pytest.skip("2.6.0 has neither")
    schema = spark_types.StructType(
        [
            spark_types.StructField("id", spark_types.LongType()),
            spark_types.StructField("span", INTERVAL),
            spark_types.StructField("moment", DATETIME),
        ]
    )
    rows = [
        (
            number,
            span and dict(zip(INTERVAL.names, span, strict=True)),
            moment and dict(zip(DATETIME.names, moment, strict=True)),
        )
        for number, (span, moment) in enumerate(zip(SPANS, MOMENTS, strict=True))
    ]
    given = options(server, space="parts", primaryKey="id")
    write(given, rows, schema=schema)
    read = {**given, "datetimeAs": "struct", "columns": "id, span, moment"}
    reader = livesource.reader(read, livesource.schema(read))
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in found] == rows


def test_it_comes_back_the_same_when_it_is_written_once_more(spark: SparkSession, server: Server) -> None:
    """Tuples of any kind, through Spark into another space of the same format: byte by byte."""
    format = [("id", "unsigned", False), ("any", "any", True), ("scalar", "scalar", True), ("map", "map", True)]
    source, target = make_space(server, "source", format), make_space(server, "target", format)
    values: list[Any] = [
        None,
        True,
        -5,
        2**63,
        1.5,
        "text",
        "!odd",
        b"\xff",
        Decimal("1.50"),
        [1, [None]],
        {"a": {"b": 1}},
    ]
    with Connection("127.0.0.1", server.port) as conn:
        for number, value in enumerate(values):
            scalar = None if isinstance(value, list | dict) else value
            conn.replace(source, [number, value, scalar, {"in": value}])
    given = options(server, variantTags="true", unsignedAs="decimal")
    frame = spark.read.format("tarantool").options(**given, space="source").load()
    frame.write.format("tarantool").options(**given, space="target").mode("append").save()
    with Connection("127.0.0.1", server.port) as conn:
        assert conn.select(target) == conn.select(source)


def test_strings_that_are_not_utf_8_are_refused_by_name_or_changed(spark: SparkSession, server: Server) -> None:
    space = make_space(server, "broken", [("id", "unsigned", False), ("s", "string", True)])
    frame = spark.sql("SELECT 1L AS id, X'61FF62' AS s")
    given = options(server, space="broken")
    frame.write.format("tarantool").options(**given).mode("append").save()
    with Connection("127.0.0.1", server.port) as conn:
        assert conn.select(space)[0][1].encode("utf-8", "surrogateescape") == b"a\xffb"
    load = spark.read.format("tarantool").options(**given)
    with pytest.raises(Exception, match=r"Space 'broken' at .*, key \[1\].*column 's'.*invalidUtf8=replace"):
        load.load().collect()
    assert load.option("invalidUtf8", "replace").load().collect()[0].s == "a\ufffdb"


def test_what_the_server_has_no_type_for_is_refused_by_name(spark: SparkSession, server: Server) -> None:
    given = options(server, space="untyped", primaryKey="id")
    writer = spark.sql("SELECT 1L AS id, INTERVAL 1 DAY AS x").write.format("tarantool").options(**given).mode("append")
    with pytest.raises(Exception, match=r"A column of type interval day has no type in Tarantool"):
        writer.save()
    if is_old(server):
        timed = spark.sql("SELECT 1L AS id, TIMESTAMP '2026-01-01' AS x").write.format("tarantool").options(**given)
        with pytest.raises(Exception, match=r"cannot be made at .*unknown field type"):
            timed.mode("append").save()


def test_filters_and_columns_of_a_query_reach_the_server(spark: SparkSession, server: Server) -> None:
    space = make_space(server, "wide", [("id", "unsigned", False), ("a", "string", True), ("b", "string", True)])
    with Connection("127.0.0.1", server.port) as conn:
        conn.pipeline((3, {0x10: space, 0x21: [id, f"a{id}", f"b{id}"]}) for id in range(500))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        given = options(server, space="wide", pushDownFilters="true", columns="b, id", numPartitions=3)
        frame = spark.read.format("tarantool").options(**given).load().where("id >= 490 AND id < 493 AND b <> 'b491'")
        assert [tuple(row) for row in frame.orderBy("id").collect()] == [("b490", 490), ("b492", 492)]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert len(rows_of(server, "wide")) == 500
