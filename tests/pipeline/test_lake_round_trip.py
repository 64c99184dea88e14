"""A DataFrame through the sink into a server, through the stream into the lake: equal, value by value."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PySparkException
from tests.pipeline.lakes import query, tables
from tests.pipeline.test_lake_sync import sync_once
from tests.support.fixtures import Servers, servers
from tests.support.iproto import REPLACE, Connection, create_space

from headwater.pipeline.lake.layout import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["servers"]

ROWS = """
    select id, if(id = 2, null, 'Größe ' || id) as text, if(id = 2, null, X'00ff10') as bytes,
        if(id = 2, null, double(id) / 8) as number, if(id = 2, null, id = 1) as flag,
        if(id = 2, null, cast('-12345678901234.5678' as decimal(20, 4))) as price,
        if(id = 2, null, '6ba7b810-9dad-11d1-80b4-00c04fd430c8') as uuid,
        if(id = 2, null, timestamp'2026-02-03 04:05:06.789012Z') as moment,
        if(id = 2, null, map('a', array(map('x', 1L), map('y', null)), 'b', array())) as nested,
        if(id = 2, null, cast(18446744073709551615 as decimal(20, 0))) as big
    from range(1, 4)
"""
"""The second one is nulls."""


@pytest.mark.parametrize("kind", ["headwater", "tarantool"])
def test_a_frame_comes_back_equal(spark: SparkSession, servers: Servers, tmp_path: Path, kind: str) -> None:
    server = servers.subject() if kind == "headwater" else servers.tarantool()
    server.start()
    hosts = f"127.0.0.1:{server.port}"
    frame = spark.sql(ROWS)
    types = "uuid uuid, big unsigned" + (", moment datetime" if kind == "headwater" else "")
    if kind == "tarantool":
        frame = frame.drop("moment")  # it knows datetimes since 2.10
    writer = frame.write.format("tarantool").options(hosts=hosts, space="t", primaryKey="id", fieldTypes=types)
    writer.mode("append").save()
    lake = Lake(tmp_path / "lake")
    sync_once(spark, lake, hosts)
    [one, none, three] = silver(lake, "t")
    assert set(none.values()) == {2, None}
    assert (one["id"], three["id"]) == (1, 3)
    assert (one["text"], one["bytes"], one["number"], one["flag"]) == ("Größe 1", b"\x00\xff\x10", 0.125, True)
    assert one["price"] == Decimal("-12345678901234.5678")
    assert one["uuid"] == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    assert json.loads(one["nested"]) == {"a": [{"x": 1}, {"y": None}], "b": []}
    assert one["big"] == Decimal((1 << 64) - 1)
    if kind == "headwater":
        assert one["moment"] == dt.datetime(2026, 2, 3, 4, 5, 6, 789012, dt.UTC)


def silver(lake: Lake, space: str) -> list[dict[str, Any]]:
    place = tables(lake)[space]
    names = [row[0] for row in query(lake, place, "select column_name from (describe t)")]
    shown = [name for name in names if not name.startswith("_")]
    rows = query(lake, place, f"select {', '.join(shown)} from t order by id")
    return [dict(zip(shown, row, strict=True)) for row in rows]


def test_text_that_is_no_utf8_is_refused_by_name_and_kept_where_it_is(
    spark: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    server = servers.subject()
    server.start()
    hosts = f"127.0.0.1:{server.port}"
    connection = Connection(*server.address)
    create_space(connection, 600, "t", format=[{"name": "id", "type": "unsigned"}, {"name": "text", "type": "string"}])
    frame = spark.sql("select 1 as id, cast(X'61FF62' as string) as text")
    with pytest.raises(PySparkException, match=r"field 'text' \(string\): a string is not UTF-8"):
        frame.write.format("tarantool").options(hosts=hosts, space="t").mode("append").save()
    assert not connection.ask(REPLACE, bytes.fromhex("8210cd0258219201a361ff62")).failed
    lake = Lake(tmp_path / "lake")
    sync_once(spark, lake, hosts)
    assert query(lake, tables(lake)["t"], "select text, hex(_tuple) from t") == [("a\ufffdb", "9201A361FF62")]
