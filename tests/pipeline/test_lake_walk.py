"""Snapshots that begin anew, streams that begin anew, several replica sets, spaces that come and go: by rows of a
change log that is written here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.lakes import append, as_bronze, catch_up, query, tables

from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake import query as lake_query
from headwater.pipeline.lake.layout import Charter, Lake
from headwater.pipeline.lake.state import State
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row

ONE, TWO = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
SPACE, INDEX = 280, 288
FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "v", "type": "string", "is_nullable": True}]


class Log:
    """Rows of one replica, each with the next LSN."""

    def __init__(self, replica_id: int = 1) -> None:
        self.replica_id = replica_id
        self.rows: list[Row] = []
        self._lsn = 0

    def add(self, type: Type, space: int, **parts: Any) -> Log:
        keys = {"tuple": 0x21, "key": 0x20, "ops": 0x28}
        body = {0x10: space, **{keys[name]: value for name, value in parts.items()}}
        self._lsn += 1
        self.rows.append(Row(int(type), self.replica_id, lsn=self._lsn, body=pack(body), timestamp=1.7e9))
        return self

    def space(self, id: int, name: str, format: Sequence[Any] = FORMAT, engine: str = "memtx", **options: Any) -> Log:
        self.add(Type.INSERT, SPACE, tuple=[id, 1, name, engine, 0, options, list(format)])
        return self.add(Type.INSERT, INDEX, tuple=[id, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])

    def insert(self, space: int, *tuples: Any) -> Log:
        for each in tuples:
            self.add(Type.INSERT, space, tuple=each)
        return self

    def taken(self) -> list[Row]:
        rows, self.rows = self.rows, []
        return rows


def truncate_marker(replicaset: str) -> pa.RecordBatch:
    """As the stream has it before a snapshot that begins anew."""
    row = as_bronze([Row(int(Type.INSERT), body=pack({0x10: 1}))], replicaset).to_pydict()
    row |= {"op": ["TRUNCATE"], "space_id": [None], "request": [None]}
    return pa.RecordBatch.from_pydict(row, schema=as_bronze([], replicaset).schema)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def charter(lake: Lake) -> Charter:
    return lake.found(system=False)


def rows_of(lake: Lake, space: str, columns: str = "id, v") -> list[tuple[Any, ...]]:
    return query(lake, tables(lake)[space], f"select {columns} from t order by 1")


def test_a_snapshot_that_begins_anew_takes_the_place_of_the_first(lake: Lake, charter: Charter) -> None:
    first = Log(0).space(600, "stays").space(601, "goes").insert(600, [1, "old"], [2, "old"]).insert(601, [1])
    append(lake, charter, 0, as_bronze(first.taken(), ONE))
    catch_up(lake, charter)
    second = Log(0).space(600, "stays").space(602, "comes").insert(600, [2, "new"], [3, "new"]).insert(602, [9, "x"])
    rows = second.taken()
    append(lake, charter, 1, truncate_marker(ONE), as_bronze(rows[:6], ONE))
    catch_up(lake, charter)
    append(lake, charter, 2, as_bronze(rows[6:], ONE))
    catch_up(lake, charter)
    assert set(tables(lake)) == {"stays", "comes"}
    assert rows_of(lake, "stays") == [(2, "new"), (3, "new")]
    assert rows_of(lake, "comes") == [(9, "x")]
    assert not query(lake, "11111111/goes", "select 1 from t"), "nobody finds rows of a space that is gone"


def test_a_stream_whose_checkpoint_is_gone_begins_every_table_anew(lake: Lake, charter: Charter) -> None:
    append(lake, charter, 0, as_bronze(Log(0).space(600, "t").insert(600, [1, "a"], [2, "b"]).taken(), ONE))
    append(lake, charter, 1, as_bronze(Log(1).insert(600, [3, "c"]).taken(), ONE))
    catch_up(lake, charter)
    again = lake.begin_run(1)
    assert (again.base, again.run != charter.run) == (2, True)
    append(lake, again, 0, as_bronze(Log(0).space(600, "t").insert(600, [2, "B"]).taken(), ONE))
    catch_up(lake, again)
    assert rows_of(lake, "t") == [(2, "B")]
    assert State.load(lake.state).batch == 2


def test_a_batch_that_comes_again_leaves_no_trace(lake: Lake, charter: Charter) -> None:
    batch = as_bronze(Log(0).space(600, "t").insert(600, [1, "a"]).taken(), ONE)
    append(lake, charter, 0, batch)
    files = set(lake.bronze.glob("*.parquet"))
    append(lake, charter, 0, batch)
    assert set(lake.bronze.glob("*.parquet")) == files
    catch_up(lake, charter)
    assert rows_of(lake, "t") == [(1, "a")]


def test_two_sets_with_a_space_of_one_name(lake: Lake, charter: Charter) -> None:
    wide = [*FORMAT, {"name": "more", "type": "map", "is_nullable": True}]
    one = Log(0).space(600, "t").insert(600, [1, "a"]).space(601, "only").insert(601, [5])
    two = Log(0).space(700, "t", wide).insert(700, [1, "b", {"k": 1}])
    append(lake, charter, 0, as_bronze(one.taken(), ONE), as_bronze(two.taken(), TWO))
    catch_up(lake, charter)
    assert {named.name for named in lake_query.names(lake)} >= {"t", "t_11111111", "t_22222222", "only"}
    [batch] = lake_query.ask(lake, "select id, v, more, _replicaset from t order by v")
    assert [tuple(row.values()) for row in batch.to_pylist()] == [(1, "a", None, ONE), (1, "b", '{"k":1}', TWO)]


def test_spaces_that_keep_nothing_have_no_table(lake: Lake, charter: Charter) -> None:
    log = Log(0).space(600, "hole", engine="blackhole").space(601, "here", group_id=1).space(602, "now", temporary=True)
    append(lake, charter, 0, as_bronze(log.insert(600, [1]).space(603, "t").insert(603, [1, "a"]).taken(), ONE))
    catch_up(lake, charter)
    assert set(tables(lake)) == {"t"}


def test_system_spaces_where_they_are_wanted(lake: Lake) -> None:
    charter = lake.found(system=True)
    log = Log(0)
    log.add(Type.INSERT, SPACE, tuple=[SPACE, 1, "_space", "memtx", 0, {}, [{"name": "id", "type": "unsigned"}]])
    log.add(Type.INSERT, INDEX, tuple=[SPACE, 0, "primary", "tree", {"unique": True}, [[0, "unsigned"]]])
    append(lake, charter, 0, as_bronze(log.space(600, "t").taken(), ONE))
    append(lake, charter, 1, as_bronze(Log(1).space(601, "u").taken(), ONE))
    catch_up(lake, charter)
    assert rows_of(lake, "_space", "id") == [(280,), (600,), (601,)]


def test_an_update_without_the_row_before_it_says_so(lake: Lake, charter: Charter) -> None:
    append(lake, charter, 0, as_bronze(Log(0).space(600, "t").insert(600, [1, "a"]).taken(), ONE))
    log = Log(1).add(Type.UPDATE, 600, key=[1], tuple=[["+", 1, 1]])
    append(lake, charter, 1, as_bronze(log.taken(), ONE))
    with pytest.raises(PipelineError, match=r"UPDATE of space 't' with LSN 1 cannot be applied .* rebuild"):
        catch_up(lake, charter)


def test_a_wider_type_and_a_new_column_are_told(lake: Lake, charter: Charter) -> None:
    append(lake, charter, 0, as_bronze(Log(0).space(600, "t", FORMAT[:1]).insert(600, [1], [2, "extra"]).taken(), ONE))
    catch_up(lake, charter)
    assert rows_of(lake, "t", "id, _rescued") == [(1, None), (2, '{"2":"extra"}')]
    log = Log(1).insert(600, [(1 << 64) - 1])
    log.add(Type.UPDATE, SPACE, key=[600], tuple=[["=", 6, FORMAT]]).add(Type.DELETE, 600, key=[1])
    append(lake, charter, 1, as_bronze(log.taken(), ONE))
    catch_up(lake, charter)
    assert rows_of(lake, "t", "id, v, _rescued") == [(2, "extra", None), ((1 << 64) - 1, None, None)]
    [batch] = lake_query.ask(lake, "select kind, details from schema_history order by batch, lsn, kind")
    assert batch.to_pylist() == [
        {"kind": "created", "details": "t (id unsigned)"},
        {"kind": "widened", "details": "id: bigint → decimal(20,0) (a value has no place in its column)"},
        {"kind": "format", "details": "t (id unsigned) → t (id unsigned, v string)"},
    ]


def test_an_upsert_that_vinyl_forgets(lake: Lake, charter: Charter) -> None:
    """It is in the log all the same: whether it fits is seen when the tuple is read."""
    append(lake, charter, 0, as_bronze(Log(0).space(600, "t", engine="vinyl").insert(600, [1, "a"]).taken(), ONE))
    log = Log(1)
    for ops in ([["=", 1, 5]], [["=", 0, 2]], [[":", 1, 1, 0, "b"]], [["+", 1, 1], ["=", 2, "more"]]):
        log.add(Type.UPSERT, 600, tuple=[1, "x"], ops=ops)
    append(lake, charter, 1, as_bronze(log.taken(), ONE))
    catch_up(lake, charter)
    assert rows_of(lake, "t", "id, v, _rescued") == [(1, "ab", '{"3":"more"}')]
