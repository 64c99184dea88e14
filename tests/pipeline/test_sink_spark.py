"""The sink as its user has it: `df.write`, SQL, `writeStream`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.pipeline.sinks import make_space, options, rows_of
from tests.support.fixtures import Servers, module_servers, needs_tarantool
from tests.support.process import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["module_servers"]


@pytest.fixture(scope="module")
def node(module_servers: Servers) -> Server:
    return module_servers.subject("node").start()


@pytest.fixture(scope="module")
def old(module_servers: Servers) -> Server:
    return module_servers.tarantool("old").start()


def test_a_data_frame_is_written_appended_and_overwritten(spark: SparkSession, node: Server) -> None:
    given = options(node, space="frames", primaryKey="id")
    frame = spark.range(0, 3000, 1, 3).selectExpr("id", "concat('t', id) AS title")
    frame.write.format("tarantool").options(**given).mode("append").save()
    frame.where("id < 10").selectExpr("id", "'new' AS title").write.format("tarantool").options(**given).mode(
        "append"
    ).save()
    found = rows_of(node, "frames")
    assert len(found) == 3000
    assert found[9:11] == [[9, "new"], [10, "t10"]]
    frame.limit(5).write.format("tarantool").options(**given).mode("overwrite").save()
    assert [row[0] for row in rows_of(node, "frames")] == [0, 1, 2, 3, 4]


def test_modes_that_spark_keeps_to_itself_are_had_by_an_option(spark: SparkSession, node: Server) -> None:
    from pyspark.errors import PySparkException

    given = options(node, space="modes", primaryKey="id")
    frame = spark.range(3)
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("tarantool").options(**given).save()
    for mode in ("errorIfExists", "ignore"):
        writer = frame.write.format("tarantool").options(**given, saveMode=mode).mode("append")
        if mode == "errorIfExists":
            writer.save()
            with pytest.raises(PySparkException, match="Space 'modes' exists already"):
                writer.save()
        else:
            spark.range(9).write.format("tarantool").options(**given, saveMode=mode).mode("append").save()
    assert len(rows_of(node, "modes")) == 3


def test_sql_reads_and_writes_a_view_over_a_space(spark: SparkSession, node: Server) -> None:
    make_space(node, "shelf", [("id", "unsigned", False), ("title", "string", True)])
    given = ", ".join(f"{name} '{value}'" for name, value in options(node, space="shelf", columns="id, title").items())
    spark.sql(f"CREATE TEMPORARY VIEW shelf USING tarantool OPTIONS ({given})")
    try:
        spark.sql("INSERT INTO shelf VALUES (1, 'a'), (2, 'b')")
        spark.sql("EXPLAIN INSERT OVERWRITE shelf VALUES (9, 'z')").collect()
        assert rows_of(node, "shelf") == [[1, "a"], [2, "b"]]
        assert spark.sql("SELECT title FROM shelf WHERE id = 2").collect()[0][0] == "b"
        spark.sql("INSERT OVERWRITE shelf SELECT 3, 'c'")
        assert rows_of(node, "shelf") == [[3, "c"]]
    finally:
        spark.catalog.dropTempView("shelf")


def test_an_error_of_a_row_reaches_the_user(spark: SparkSession, node: Server) -> None:
    make_space(node, "strict", [("id", "unsigned", False)])
    with pytest.raises(Exception, match=r"column 'id', field 'id' \(unsigned\).*The value is -1"):
        spark.range(-1, 5, 1, 1).write.format("tarantool").options(**options(node, space="strict")).mode(
            "append"
        ).save()
    assert rows_of(node, "strict") == []


def _stream(spark: SparkSession, source: Path, checkpoint: Path, given: dict[str, str]) -> None:
    """All that is there, in batches of one file."""
    frame: DataFrame = (
        spark.readStream.schema("id BIGINT, n BIGINT").option("maxFilesPerTrigger", "1").parquet(str(source))
    )
    query = (
        frame.writeStream.format("tarantool")
        .options(**given)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _forget_last_batch(checkpoint: Path) -> None:
    """As if the driver had died between the sink's end of the batch and Spark's."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["node", pytest.param("old", marks=needs_tarantool)])
def test_a_stream_is_written_and_a_batch_that_comes_again_is_not(
    kind: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    server: Server = request.getfixturevalue(kind)
    given = options(server, space="stream", primaryKey="id", batchSize=300)
    if kind == "node":
        given |= {"operation": "upsert", "upsertOps": "+n"}
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    for _ in range(2):
        spark.range(0, 1000, 1, 1).selectExpr("id", "1L AS n").write.mode("append").parquet(str(source))
    _stream(spark, source, checkpoint, given)
    _forget_last_batch(checkpoint)
    _stream(spark, source, checkpoint, given)
    times = 2 if kind == "node" else 1
    assert rows_of(server, "stream") == [[number, times] for number in range(1000)]


def test_a_stream_in_complete_mode_is_refused(spark: SparkSession, node: Server, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate").load().groupBy("value").count()
    query = (
        frame.writeStream.outputMode("complete")
        .format("tarantool")
        .options(**options(node, space="frames"))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    with pytest.raises(Exception, match="mode 'update' with operation=replace"):
        query.awaitTermination()
