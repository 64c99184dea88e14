"""The sink without Spark: what its tasks and its driver do with a live server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql import types as spark
from tests.pipeline.sinks import (
    COUNTERS,
    batches_of,
    begin,
    counters,
    make_space,
    options,
    rows_of,
    space_id,
    spaces_of,
    stream_job,
    write,
    write_batch,
)
from tests.support.fixtures import Servers, module_servers, needs_tarantool
from tests.support.iproto import Connection
from tests.support.process import Server

from headwater.pipeline import sinkend, sinktask
from headwater.pipeline.errors import NotThere, OptionError, PipelineError, ValueUnfit
from headwater.pipeline.sinkwrite import Superseded, WriteRefused

__all__ = ["module_servers"]


@pytest.fixture(scope="module")
def node(module_servers: Servers) -> Server:
    return module_servers.subject("node").start()


@pytest.fixture(scope="module")
def old(module_servers: Servers) -> Server:
    """A Tarantool before 2.10: no transactions over a connection."""
    return module_servers.tarantool("old").start()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A space of the test's own."""
    return str(request.node.name).partition("[")[0].removeprefix("test_")[:60]


def fast(server: Server, name: str, **more: object) -> dict[str, str]:
    return options(server, space=name, primaryKey="id", batchSize=100, retryTimeout="10s", **more)


# ---- operations -----------------------------------------------------------------------------------


def test_each_operation_does_what_it_says(node: Server, name: str) -> None:
    write(fast(node, name), counters(0, 250), counters(250, 250))
    write(fast(node, name, operation="insert"), counters(500, 100))
    write(fast(node, name, operation="upsert", upsertOps="+n"), counters(400, 200, 5))
    write(fast(node, name, operation="delete"), counters(0, 300))
    found = dict(rows_of(node, name))
    assert found == {**dict(counters(300, 300)), **dict.fromkeys(range(400, 600), 6)}


def test_upsert_without_operations_assigns_the_columns_behind_the_key(node: Server, name: str) -> None:
    given = fast(node, name, operation="upsert")
    write(given, [(1, 10), (2, 20)])
    write(given, [(2, 21), (3, 30)])
    assert rows_of(node, name) == [[1, 10], [2, 21], [3, 30]]


def test_each_row_brings_the_operations_of_its_upsert(node: Server, name: str) -> None:
    step = spark.StructType(
        [
            spark.StructField("op", spark.StringType()),
            spark.StructField("field", spark.StringType()),
            spark.StructField("value", spark.LongType()),
        ]
    )
    schema = spark.StructType([*COUNTERS, spark.StructField("how", spark.ArrayType(step))])
    given = fast(node, name, operation="upsert", upsertOpsColumn="how")
    write(given, [(number, number, None) for number in range(250)], schema=schema)
    how = [[], None, [{"op": "+", "field": "n", "value": 100}], [{"op": "=", "field": "n", "value": 7}] * 2]
    write(given, [(number, -1, how[number % 4]) for number in range(250)], schema=schema)
    assert rows_of(node, name) == [[number, (number, number, number + 100, 7)[number % 4]] for number in range(250)]
    packed = spark.StructType([*COUNTERS, spark.StructField("how", spark.BinaryType())])
    write(given, [(0, -1, b"\x91\x93\xa1-\x01\x05"), (999, 9, b"\x90")], schema=packed)
    assert [rows_of(node, name)[at] for at in (0, -1)] == [[0, -5], [999, 9]]
    with pytest.raises(ValueUnfit, match=r"Row 1 of partition 0, column 'how'.*not one MessagePack value"):
        write(given, [(0, -1, None), (1, 1, b"\xc1")], schema=packed)
    with pytest.raises(WriteRefused, match=r"Row 0 of partition 0 \(key \[0\]\).*upsert"):
        write(given, [(0, -1, b"\x91\x93\xa1?\x01\x05")], schema=packed)
    with pytest.raises(OptionError, match="'upsertOpsColumn' is bigint; it should be ARRAY"):
        begin({**given, "upsertOpsColumn": "n"}, schema)


def test_a_column_says_the_operation_of_each_row(node: Server, name: str) -> None:
    schema = spark.StructType([*COUNTERS, spark.StructField("what", spark.StringType())])
    write(fast(node, name, operation="replace"), counters(0, 3))
    rows = [
        (0, 7, "replace"),
        (1, None, "Delete"),
        (5, 5, "insert"),
        (2, 9, "UPSERT"),
        (6, 6, "upsert"),
        (5, 0, "delete"),
    ]
    write(fast(node, name, opColumn="what"), rows, schema=schema)
    assert rows_of(node, name) == [[0, 7], [2, 9], [6, 6]]
    with pytest.raises(ValueUnfit, match=r"Row 1 of partition 0: the operation in the column 'what' is 'remove'"):
        write(fast(node, name, opColumn="what"), [(0, 1, "insert"), (1, 1, "remove")], schema=schema)


@needs_tarantool
def test_before_2_10_replace_and_delete_are_taken_and_the_rest_is_refused(old: Server, name: str) -> None:
    write(fast(old, name), counters(0, 1000), counters(1000, 1000))
    write(fast(old, name, operation="delete"), counters(500, 1000))
    assert [row[0] for row in rows_of(old, name)] == [*range(500), *range(1500, 2000)]
    for operation in ("insert", "upsert"):
        with pytest.raises(
            PipelineError, match=r"2\.6\.0.*no transactions over streams.*only the operations replace and del"
        ):
            write(fast(old, name, operation=operation), counters(0, 1))
    schema = spark.StructType([*COUNTERS, spark.StructField("op", spark.StringType())])
    write(fast(old, name, opColumn="op"), [(0, 5, "replace"), (1, None, "delete")], schema=schema)
    with pytest.raises(PipelineError, match="ask for insert"):
        write(fast(old, name, opColumn="op"), [(9999, 5, "insert")], schema=schema)
    assert rows_of(old, name)[:2] == [[0, 5], [2, 1]]
    assert "_spark_sink" not in spaces_of(old)


# ---- exactly once ---------------------------------------------------------------------------------


def test_a_batch_that_comes_again_is_written_once(node: Server, name: str) -> None:
    job = stream_job(fast(node, name, operation="upsert", upsertOps="+n"))
    parts = counters(0, 350), counters(350, 50), []
    write_batch(job, 0, *parts, query=name, commit=False)
    write_batch(job, 0, *parts, query=name)
    write_batch(job, 0, *parts, query=name)
    write_batch(job, 1, *parts, query=name)
    assert rows_of(node, name) == [[number, 2] for number in range(400)]


def test_a_batch_goes_on_where_it_was_broken_off(node: Server, name: str) -> None:
    job = stream_job(fast(node, name, operation="upsert", upsertOps="+n"))
    whole = counters(0, 1000)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches_of(COUNTERS, whole[:650], 130)
        raise RuntimeError("the executor is gone")

    with pytest.raises(RuntimeError):
        sinktask.write_of_stream(job, broken(), 0, name, 0)
    assert 300 <= len(rows_of(node, name)) < 650
    write_batch(replace(job, options=replace(job.options, batch_rows=70)), 0, whole, query=name)
    assert rows_of(node, name) == [[number, 1] for number in range(1000)]


def test_a_batch_that_brings_other_rows_the_second_time_is_refused_unless_it_may_be_repeated(
    node: Server, name: str
) -> None:
    job = stream_job(fast(node, name, operation="upsert", upsertOps="+n"))
    rows = counters(0, 300)
    write_batch(job, 0, rows, query=name, commit=False)
    for others in (rows[::-1], rows[:200], [*rows, (999, 1)], []):
        with pytest.raises(PipelineError, match="brings other rows than when it was written the first time"):
            write_batch(job, 0, others, query=name, commit=False)
    assert rows_of(node, name) == [[number, 1] for number in range(300)]
    again = stream_job(fast(node, name))
    write_batch(again, 0, counters(0, 250, 2)[::-1], query=name)
    assert rows_of(node, name) == [[number, 2 if number < 250 else 1] for number in range(300)]


def test_two_attempts_of_one_task_write_once(node: Server, name: str) -> None:
    """Speculative execution: both at the same time, step by step."""
    job = stream_job(fast(node, name, operation="upsert", upsertOps="+n"))
    finished: list[int] = []

    def attempt(number: int, pauses: Callable[[int], None]) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            for at, batch in enumerate(batches_of(COUNTERS, counters(0, 900), 100)):
                pauses(at)
                yield batch

        sinktask.write_of_stream(job, batches(), 0, name, 0)
        finished.append(number)

    def overtaken(at: int) -> None:
        if at == 4:
            attempt(2, lambda _: None)

    attempt(1, overtaken)
    assert finished == [2, 1]
    assert Counter(row[1] for row in rows_of(node, name)) == {1: 900}


def test_a_task_that_comes_after_the_end_of_its_batch_writes_nothing(node: Server, name: str) -> None:
    job = stream_job(fast(node, name))
    late = batches_of(COUNTERS, counters(0, 500, 9), 100)

    def slow() -> Iterator[pa.RecordBatch]:
        yield next(late)
        yield next(late)
        write_batch(job, 0, counters(0, 500), query=name)
        yield from late

    with pytest.raises(Superseded):
        sinktask.write_of_stream(job, slow(), 0, name, 0)
    assert Counter(row[1] for row in rows_of(node, name)) == {1: 500}


def test_a_task_of_a_write_that_failed_writes_nothing_more(node: Server, name: str) -> None:
    job = begin(fast(node, name))
    late = batches_of(COUNTERS, counters(0, 500), 100)

    def slow() -> Iterator[pa.RecordBatch]:
        yield next(late)
        yield next(late)
        sinkend.abort(job, [])
        yield from late

    with pytest.raises(Superseded, match="given up or has ended"):
        sinktask.write(job, slow(), 0)
    assert len(rows_of(node, name)) <= 200


def test_a_version_is_written_once_and_older_ones_never(node: Server, name: str) -> None:
    given = fast(node, name, operation="upsert", upsertOps="+n", txnAppId=name)
    write({**given, "txnVersion": "3"}, counters(0, 10))
    assert all(message.is_known for message in write({**given, "txnVersion": "3"}, counters(0, 10)))
    assert all(message.is_known for message in write({**given, "txnVersion": "2"}, counters(0, 10)))
    write({**given, "txnVersion": "4"}, counters(0, 10))
    assert rows_of(node, name) == counters_as_rows(0, 10, 2)
    with pytest.raises(OptionError, match="go together"):
        begin(given)


def counters_as_rows(first: int, count: int, n: int) -> list[list[int]]:
    return [list(row) for row in counters(first, count, n)]


def test_rows_of_progress_of_a_nameless_write_go_away_with_it(node: Server, name: str) -> None:
    write(fast(node, name), counters(0, 10))
    before = rows_of(node, "_spark_sink")
    write(fast(node, name), counters(0, 10), counters(10, 10))
    assert rows_of(node, "_spark_sink") == before


def test_rows_of_progress_whose_driver_died_long_ago_are_cleared_away(node: Server, name: str) -> None:
    space = space_id(node, "_spark_sink")
    with Connection("127.0.0.1", node.port) as conn:
        for app, at in (("write-old", 1.0e9), ("write-new", time.time()), ("mine", 1.0e9)):
            for part in (-1, 0):
                conn.replace(space, [app, part, 0, 0, False, "", "", at])
        write(fast(node, name), counters(0, 1))
        left = {row[0] for row in conn.select(space)}
    assert "write-old" not in left
    assert {"write-new", "mine"} <= left


# ---- save modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["node", pytest.param("old", marks=needs_tarantool)])
def test_save_modes(kind: str, request: pytest.FixtureRequest, name: str) -> None:
    server: Server = request.getfixturevalue(kind)
    given = fast(server, name, saveMode="errorIfExists")
    write(given, counters(0, 3))
    with pytest.raises(PipelineError, match=f"Space '{name}' exists already"):
        begin(given)
    ignored = write({**given, "saveMode": "ignore"}, counters(5, 3))
    assert [message.rows for message in ignored] == [0]
    write(fast(server, name), counters(2, 2, 7))
    assert rows_of(server, name) == [[0, 1], [1, 1], [2, 7], [3, 7]]
    write(fast(server, name), counters(8, 1), overwrite=True)
    assert rows_of(server, name) == [[8, 1]]


def test_a_space_that_does_not_exist_is_made_of_the_columns(node: Server, name: str) -> None:
    schema = spark.StructType([*COUNTERS, spark.StructField("price", spark.DecimalType(20, 2))])
    given = options(node, space=name)
    with pytest.raises(NotThere, match=f"There is no space '{name}'.*primaryKey"):
        begin(given, schema)
    with pytest.raises(NotThere, match="'primaryKey' names 'no'"):
        begin({**given, "primaryKey": "no"}, schema)
    begin({**given, "primaryKey": "n, id", "fieldTypes": "id unsigned"}, schema)
    with Connection("127.0.0.1", node.port) as conn:
        row = next(row for row in conn.select(280) if row[2] == name)
        assert [(field["name"], field["type"], field["is_nullable"]) for field in row[6]] == [
            ("id", "unsigned", False),
            ("n", "integer", False),
            ("price", "decimal", True),
        ]
        assert conn.select(288, [row[0]], iterator=0)[0][5] == [[1, "integer"], [0, "unsigned"]]


# ---- what is refused ------------------------------------------------------------------------------


def test_a_row_that_the_server_refuses_is_named_and_its_transaction_undone(node: Server, name: str) -> None:
    write(fast(node, name), [(150, 1)])
    with pytest.raises(WriteRefused) as caught:
        write(fast(node, name, operation="insert"), counters(0, 300))
    words = str(caught.value)
    assert "Row 150 of partition 0 (key [150])" in words
    assert "refuses its insert" in words
    assert "Duplicate key exists" in words
    assert "100 rows before it in this partition were" in words
    assert len(rows_of(node, name)) == 101


def test_values_that_do_not_fit_name_row_column_and_field(node: Server, name: str) -> None:
    make_space(node, name, [("id", "unsigned", False), ("u", "uuid", True), ("s", "string", True)])
    schema = spark.StructType(
        [
            spark.StructField("id", spark.LongType()),
            spark.StructField("U", spark.StringType()),
            spark.StructField("s", spark.BinaryType()),
        ]
    )
    with pytest.raises(ValueUnfit, match=r"Row 2 of partition 0, column 'id', field 'id' \(unsigned\): .* value is -2"):
        write(fast(node, name), [(0, None, None), (1, None, None), (-2, None, None)], schema=schema)
    with pytest.raises(ValueUnfit, match=r"Row 0 of partition 0, column 'U', field 'u' \(uuid\): not a uuid"):
        write(fast(node, name), [(0, "no", None)], schema=schema)
    write(fast(node, name), [(0, None, b"\xff\xfe")], schema=schema)
    with pytest.raises(WriteRefused, match=r"Row 0 .*key \[None\].*field 1 \(id\)"):
        write(fast(node, name), [(None, None, None)], schema=schema)


def test_columns_and_fields_that_do_not_go_together_are_refused_before_the_first_row(node: Server, name: str) -> None:
    make_space(node, name, [("id", "unsigned", False), ("n", "unsigned", False), ("when", "datetime", True)])

    def refused(*columns: tuple[str, spark.DataType]) -> str:
        schema = spark.StructType([spark.StructField(column, kind) for column, kind in columns])
        with pytest.raises(PipelineError) as caught:
            begin(options(node, space=name), schema)
        return str(caught.value)

    id, n = ("id", spark.LongType()), ("n", spark.LongType())
    assert "no column for the field 'id', of the primary key" in refused(n)
    assert "no column for the field 'n'" in refused(id)
    assert "no field for the column 'x'" in refused(id, n, ("x", spark.LongType()))
    assert "'id' and 'ID' are both meant for the field 'id'" in refused(id, n, ("ID", spark.LongType()))
    assert "'n' of type array<bigint> cannot be written" in refused(id, ("n", spark.ArrayType(spark.LongType())))
    assert "It has no zone" in refused(id, n, ("when", spark.TimestampNTZType()))


def test_options_that_cannot_be(node: Server, name: str) -> None:
    def refused(**more: object) -> str:
        with pytest.raises(PipelineError) as caught:
            begin(fast(node, name, **more))
        return str(caught.value)

    assert "no option 'opperation'" in refused(opperation="insert")
    assert "'operation' is 'merge'" in refused(operation="merge")
    assert "With transactions=off only" in refused(operation="insert", transactions="off")
    assert "'upsertOps' is 'n'" in refused(operation="upsert", upsertOps="n")
    assert "nothing is upserted" in refused(upsertOps="+n")
    with pytest.raises(OptionError, match="names 2 replica sets"):
        begin({**fast(node, name), "hosts": "a:1;b:1"})


def test_a_user_without_privileges_learns_which_ones_are_missing(node: Server, name: str) -> None:
    make_space(node, name, [("id", "integer", False), ("n", "integer", False)])
    with Connection("127.0.0.1", node.port) as conn:
        conn.call("box.schema.user.create", "clerk", {"password": "pen"})
        conn.call("box.schema.user.grant", "clerk", "read,write", "space", name)
    given = {**fast(node, name), "username": "clerk"}
    with pytest.raises(PipelineError, match="refuses the login of 'clerk'"):
        begin({**given, "password": "pencil"})
    try:
        begin({**given, "password": "pen"})
    except PipelineError as error:
        words = str(error)
    assert "'_spark_sink'" in words
    assert "box.schema.user.grant('clerk', 'read,write', 'space', '_spark_sink')" in words
    write({**given, "password": "pen", "transactions": "off"}, counters(0, 5))
    assert len(rows_of(node, name)) == 5
