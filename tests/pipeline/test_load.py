"""A data directory out of a DataFrame: both servers start on it and have its rows."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.restoredirs import Directory, definition, index, rows_of
from tests.support.fixtures import Servers, needs_tarantool, servers
from tests.support.headwater import HeadwaterServer
from tests.support.iproto import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

from headwater.pipeline.errors import NotThere, OptionError, ValueUnfit
from headwater.pipeline.restore.build import Built
from headwater.pipeline.restore.errors import TargetTaken, Unfit
from headwater.pipeline.restore.load import LoadWish, NewSpace, load
from headwater.pipeline.restore.runner import SparkRunner

__all__ = ["servers"]
OLD = (2, 3, 1)


def loaded(spark: SparkSession, frames: dict[str, DataFrame], to: Path, **wish: Any) -> Built:
    return load(spark, SparkRunner(spark), frames, LoadWish(str(to), **wish))


def people(spark: SparkSession, count: int = 1000) -> DataFrame:
    """In no order of the key."""
    return spark.range(count).selectExpr(
        f"(id * 7919) % {count} AS id", "concat('name-', id) AS name", "CAST(id AS DOUBLE) / 4 AS score"
    )


@needs_tarantool
def test_both_servers_start_on_what_was_loaded(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    new = {"people": NewSpace(("id",), {"id": "unsigned"}), "names": NewSpace(("name", "id"))}
    frames = {"people": people(spark), "names": people(spark, 100)}
    built = loaded(spark, frames, tmp_path / "to", spaces=new, version=OLD)
    assert dict(built.spaces) == {"people": 1000, "names": 100}
    shutil.copytree(tmp_path / "to", tmp_path / "copy")
    for server in (HeadwaterServer(tmp_path / "to"), servers.tarantool(tmp_path / "copy")):
        with server, Connection("127.0.0.1", server.port) as link:
            rows = link.select(512)
            assert [row[0] for row in rows] == list(range(1000))
            assert rows[7] == next(row for row in rows if row[0] == 7)
            names = [row[1] for row in link.select(513)]
            assert names == sorted(names)
            assert link.insert(512, [5000, "more", 1.5]) == [[5000, "more", 1.5]]


def test_definitions_of_another_directory_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    """With its sequence, which goes on behind the greatest number."""
    like = Directory(tmp_path / "like", version=OLD)
    like.definitions += [(280, definition(600, "other")), (288, index(600))]
    like.definitions += [(284, [1, 1, "seq", 1, 1, 1 << 60, 1, 0, False]), (285, [1, 7]), (340, [512, 1, True, 0, ""])]
    like.snapshot({1: 10}, [1, 2, 3])
    rows = spark.createDataFrame([(70, "a"), (50, None)], "ID BIGINT, value STRING")
    built = loaded(spark, {"test": rows}, tmp_path / "to", like=str(like.path))
    found = rows_of(built.path)
    assert found[512] == [[50, None], [70, "a"]]
    assert 600 not in found
    assert found[285] == [[1, 70]]
    assert built.path.name == "00000000000000000000.snap"


def test_values_keep_their_kind(spark: SparkSession, tmp_path: Path) -> None:
    """As the sink writes them, for it is the same code."""
    rows = spark.createDataFrame(
        [(1, Decimal("1.50"), dt.datetime(2026, 1, 31, tzinfo=dt.UTC), bytearray(b"\xff"), ["a", None], {"k": 1})],
        "id INT, d DECIMAL(10,2), t TIMESTAMP, b BINARY, l ARRAY<STRING>, m MAP<STRING,INT>",
    )
    types = {"d": "decimal", "t": "datetime", "b": "varbinary"}
    built = loaded(spark, {"all": rows}, tmp_path / "to", spaces={"all": NewSpace(("id",), types)})
    ((key, number, moment, data, items, pairs),) = rows_of(built.path)[512]
    assert (key, data, items, pairs) == (1, b"\xff", ["a", None], {"k": 1})
    assert (number, moment.code) == (Decimal("1.5"), 4)
    assert int.from_bytes(moment.data[:8], "little") == 1_769_817_600


def test_two_rows_with_one_key_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "one"), (2, "two"), (1, "again")], "id BIGINT, text STRING")
    with pytest.raises(Unfit, match=r"into the space 't': a tuple with its key is there already: \[1, \"(one|again)"):
        loaded(spark, {"t": rows}, tmp_path / "to", spaces={"t": NewSpace(("id",))})
    assert not (tmp_path / "to").exists()


def test_what_does_not_fit_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "one"), (None, "two")], "id BIGINT, text STRING")
    key = {"t": NewSpace(("id",))}
    with pytest.raises(ValueUnfit, match="the column 'id' is null"):
        loaded(spark, {"t": rows}, tmp_path / "to", spaces=key)
    with pytest.raises(NotThere, match=r"There is no space 't'\. With a primary key \(--key 't=column"):
        loaded(spark, {"t": rows}, tmp_path / "to")
    with pytest.raises(NotThere, match="there is no column 'nr'; there are id, text"):
        loaded(spark, {"t": rows}, tmp_path / "to", spaces={"t": NewSpace(("nr",))})
    with pytest.raises(OptionError, match="cannot be written into the field 'text'"):
        loaded(spark, {"t": rows}, tmp_path / "to", spaces={"t": NewSpace(("id",), {"text": "boolean"})})
    negative = spark.createDataFrame([(-1,)], "id BIGINT")
    with pytest.raises(ValueUnfit, match="column 'id'"):
        loaded(spark, {"t": negative}, tmp_path / "to", spaces={"t": NewSpace(("id",), {"id": "unsigned"})})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(TargetTaken):
        loaded(spark, {"t": rows}, tmp_path / "full", spaces=key)


def test_an_empty_table_makes_an_empty_space(spark: SparkSession, tmp_path: Path) -> None:
    built = loaded(spark, {"t": people(spark, 0)}, tmp_path / "to", spaces={"t": NewSpace(("id",))})
    assert 512 not in rows_of(built.path)
    assert any(row[2] == "t" for row in rows_of(built.path)[280])
