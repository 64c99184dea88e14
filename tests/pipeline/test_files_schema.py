"""Typed rows under the definitions that held where they were written, and the names of spaces, however these change."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as spark
from tests.pipeline import made, reading
from tests.pipeline.made import INDEX, SPACE, block, delete, fields, index_row, insert, log, replace, space_row, update

from headwater.pipeline import survey
from headwater.pipeline.errors import NotThere, OptionError, PipelineError, SchemaChanged
from headwater.pipeline.files import DataFile

SIZES = (1, 1 << 20)


def blocks(*rows: Any) -> list[bytes]:
    return [block([row]) for row in rows]


def read(path: Path, *columns: str, **options: object) -> list[tuple[Any, ...]]:
    rows = reading.read(path, columns=",".join(columns), **{"space": "t", **options})
    return [tuple(row.values()) for row in rows]


def grown(directory: Path) -> Path:
    """A space without a format gets one, then a field more, while rows are written."""
    made.snapshot(directory, {})
    rows = [
        space_row(1, "t"),
        index_row(2),
        update(3, [made.ID], [["=", "format", fields("id unsigned", "a string")]], space=SPACE),
        replace(4, [1, "one"]),
        update(5, [made.ID], [["=", 7, fields("id unsigned", "a string", "b unsigned?")]], space=SPACE),
        replace(6, [2, "two", 22]),
        delete(7, [1]),
    ]
    return log(directory, {}, blocks(*rows))


@pytest.mark.parametrize("size", SIZES)
def test_columns_are_those_of_the_newest_definition(tmp_path: Path, size: int) -> None:
    grown(tmp_path)
    got = read(tmp_path, "id", "a", "b", "_op", "_lsn", maxPartitionBytes=size)
    assert got == [(1, "one", None, "REPLACE", 4), (2, "two", 22, "REPLACE", 6), (1, None, None, "DELETE", 7)]


def test_a_range_has_the_columns_that_held_at_its_end(tmp_path: Path) -> None:
    grown(tmp_path)
    assert "b" not in reading.read(tmp_path, space="t", toVclock='{"1": 4}')[0]
    assert "b" in reading.read(tmp_path, space="t", fromVclock='{"1": 5}')[0]


def changed(directory: Path) -> Path:
    """Two fields are renamed and retyped between rows."""
    made.snapshot(directory, {})
    rows = [
        space_row(1, "t", fields("id unsigned", "old string", "n unsigned")),
        index_row(2),
        replace(3, [1, "x", 10]),
        update(4, [made.ID], [["=", "format", fields("id unsigned", "new string", "n string")]], space=SPACE),
        replace(5, [2, "y", "ten"]),
    ]
    return log(directory, {}, blocks(*rows))


@pytest.mark.parametrize("size", SIZES)
def test_rows_that_do_not_suit_the_columns_stop_the_query_with_both_definitions(tmp_path: Path, size: int) -> None:
    path = changed(tmp_path)
    with pytest.raises(SchemaChanged) as caught:
        reading.read(tmp_path, space="t", maxPartitionBytes=size)
    told = str(caught.value)
    assert f"{path}, block at offset " in told
    assert "LSN 3, replica 1" in told
    assert (
        "there is no column for the field 'old' (string); the space is t (id unsigned, old string, n unsigned)" in told
    )
    assert "schemaEvolutionMode=addNewColumns" in told
    assert read(tmp_path, "id", "new", "n", fromVclock='{"1": 4}') == [(2, "y", "ten")]


@pytest.mark.parametrize("size", SIZES)
def test_columns_for_all_definitions_when_asked(tmp_path: Path, size: int) -> None:
    changed(tmp_path)
    got = read(tmp_path, "id", "old", "new", "n", schemaEvolutionMode="addNewColumns", maxPartitionBytes=size)
    assert got == [(1, "x", None, 10), (2, None, "y", "ten")]


def test_what_has_no_column_is_rescued_or_dropped_when_asked(tmp_path: Path) -> None:
    changed(tmp_path)
    names = ("id", "new", "n", "_rescued_data")
    assert read(tmp_path, *names, schemaEvolutionMode="rescue") == [
        (1, None, None, {"old": "x", "n": 10}),
        (2, "y", "ten", None),
    ]
    assert read(tmp_path, "id", "new", "n", schemaEvolutionMode="none") == [(1, None, None), (2, "y", "ten")]


def test_definitions_that_no_row_was_written_under_do_not_matter(tmp_path: Path) -> None:
    made.snapshot(tmp_path, {})
    rows = [
        space_row(1, "t", fields("id unsigned", "wrong string")),
        index_row(2),
        update(3, [made.ID], [["=", "format", fields("id unsigned", "right string")]], space=SPACE),
        replace(4, [1, "x"]),
    ]
    log(tmp_path, {}, blocks(*rows))
    assert read(tmp_path, "id", "right") == [(1, "x")]


def test_a_name_means_the_space_that_has_it_at_that_position(tmp_path: Path) -> None:
    """Dropped and made again with another id; renamed away, and another one renamed to it."""
    made.snapshot(tmp_path, {})
    format_ = fields("id unsigned")
    rows = [
        space_row(1, "t", format_, id_=600),
        index_row(2, id_=600),
        replace(3, [1], space=600),
        delete(4, [600, 0], space=INDEX),
        delete(5, [600], space=SPACE),
        space_row(6, "t", format_, id_=601),
        index_row(7, id_=601),
        replace(8, [2], space=601),
        update(9, [601], [["=", "name", "u"]], space=SPACE),
        replace(10, [3], space=601),
        space_row(11, "t", format_, id_=602),
        index_row(12, id_=602),
        replace(13, [4], space=602),
    ]
    log(tmp_path, {}, blocks(*rows))
    for size in SIZES:
        assert [row[0] for row in read(tmp_path, "id", maxPartitionBytes=size)] == [1, 2, 4]
        assert [row[0] for row in read(tmp_path, "id", space="601", maxPartitionBytes=size)] == [2, 3]
        told = [
            (row["space"], row["key"])
            for row in reading.read(tmp_path, maxPartitionBytes=size, fileType="xlog")
            if row["space_id"] >= 600
        ]
        assert told == [("t", [1]), ("t", [2]), ("u", [3]), ("t", [4])]


def test_a_key_is_made_of_the_fields_of_the_primary_key_at_that_position(tmp_path: Path) -> None:
    made.snapshot(tmp_path, {})
    rows = [
        space_row(1, "t"),
        index_row(2, [(2, "unsigned"), (0, "string")]),
        insert(3, ["a", "x", 5, "tail"]),
        delete(4, [5, "a"]),
    ]
    log(tmp_path, {}, blocks(*rows))
    got = [row for row in reading.read(tmp_path) if row["space"] == "t"]
    assert [row["key"] for row in got] == [[5, "a"], [5, "a"]]
    typed = reading.read(tmp_path, space="t")
    assert typed[0]["field_1"] == "a"
    assert typed[0]["field_3"] == 5
    assert typed[0]["_rescued_data"] == {"4": "tail"}
    assert (typed[1]["field_1"], typed[1]["field_2"], typed[1]["field_3"]) == ("a", None, 5)


# ---- where definitions come from


def test_logs_between_the_snapshot_and_the_file_are_asked(tmp_path: Path) -> None:
    """Only the last log is read, but the space was made in the one before it."""
    made.snapshot(tmp_path, {})
    log(tmp_path, {}, blocks(space_row(1, "t", fields("id unsigned", "a string")), index_row(2)))
    last = log(tmp_path, {1: 2}, blocks(replace(3, [1, "x"])), previous={})
    assert read(last, "id", "a") == [(1, "x")]
    assert reading.read(last)[0]["space"] == "t"


def test_rows_of_a_log_from_before_the_snapshot_are_not_applied_to_it(tmp_path: Path) -> None:
    """The snapshot lies in the middle of a log: definitions of its first half are older than those of the snapshot."""
    newer = [made.ID, 1, "t", "memtx", 0, {}, fields("id unsigned", "b string")]
    made.snapshot(tmp_path, {1: 3}, [(SPACE, newer), (INDEX, made.PRIMARY)])
    older = [
        space_row(1, "t", fields("id unsigned", "a string")),
        index_row(2),
        update(3, [made.ID], [["=", "format", newer[6]]], space=SPACE),
        replace(4, [1, "x"]),
    ]
    log(tmp_path, {}, blocks(*older))
    last = log(tmp_path, {1: 4}, blocks(replace(5, [2, "y"])), previous={})
    assert read(last, "id", "b") == [(2, "y")]


def test_a_log_alone_has_rows_without_names(tmp_path: Path) -> None:
    path = log(tmp_path, {1: 100}, blocks(replace(101, [1, "x"])), previous={1: 50})
    row = reading.read(path)[0]
    assert (row["space_id"], row["space"], row["key"], row["after"]) == (made.ID, None, None, [1, "x"])
    with pytest.raises(PipelineError, match=r"at the beginning of .*100\.xlog \(\{1: 100\}\) is not known.*schemaPath"):
        reading.read(path, space="t")


def test_snapshots_may_lie_elsewhere(tmp_path: Path) -> None:
    made.snapshot(
        tmp_path / "snap", {1: 100}, [(SPACE, [made.ID, 1, "t", "memtx", 0, {}, made.BOOKS]), (INDEX, made.PRIMARY)]
    )
    path = log(tmp_path / "wal", {1: 100}, blocks(replace(101, [1, "x"])), previous={1: 50})
    assert read(path, "id", "title", schemaPath=tmp_path / "snap") == [(1, "x")]


def test_a_log_behind_a_gap_has_no_names_that_may_be_out_of_date(tmp_path: Path) -> None:
    made.books(tmp_path, [3, 3, 3])
    gone, kept = sorted(tmp_path.glob("*.xlog"))[1:]
    gone.unlink()
    assert [row["space"] for row in reading.read(kept)] == [None, None, None]


def test_a_space_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    made.books(tmp_path, [1])
    with pytest.raises(NotThere, match=r"There is no space 'boks' at this position\. There are: books\."):
        reading.read(tmp_path, space="boks")
    with pytest.raises(NotThere, match=r"Space 'books' has no column 'titel'\. It has: id, title, _rescued_data"):
        reading.read(tmp_path, space="books", columns="id,titel")


def test_fields_that_spark_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    twins = [made.ID, 1, "t", "memtx", 0, {}, fields("id unsigned", "Id string")]
    made.snapshot(tmp_path, {}, [(SPACE, twins), (INDEX, made.PRIMARY), (made.ID, [1, "x"])])
    with pytest.raises(OptionError, match="the fields 'id' and 'Id', which Spark cannot tell apart"):
        reading.read(tmp_path, space="t")
    assert read(tmp_path, "Id") == [("x",)]


def test_two_directories_are_two_chains(tmp_path: Path) -> None:
    """Shards: the same space, each at a position of its own."""
    made.books(tmp_path / "a", [2])
    made.books(tmp_path / "b", [3])
    got = reading.read([tmp_path / "a", tmp_path / "b"], space="books", columns="id")
    assert [row["id"] for row in got] == [1, 2, 1, 2, 3]


# ---- schemas of the user's


def test_a_schema_of_the_users_chooses_columns_and_types(tmp_path: Path) -> None:
    made.books(tmp_path, [2])
    schema = spark.StructType(
        [spark.StructField("title", spark.VariantType()), spark.StructField("id", spark.ShortType())]
    )
    assert reading.read(tmp_path, schema, space="books") == [{"title": f"book {n}", "id": n} for n in (1, 2)]
    wrong = spark.StructType([spark.StructField("titel", spark.StringType())])
    with pytest.raises(NotThere, match="no field 'titel', which the schema asks for"):
        reading.read(tmp_path, wrong, space="books")
    unfit = spark.StructType([spark.StructField("title", spark.BooleanType())])
    with pytest.raises(SchemaChanged, match=r"'title' \(string\) has no place in a column of type boolean"):
        reading.read(tmp_path, unfit, space="books")
    envelope = spark.StructType([spark.StructField("op", spark.IntegerType())])
    with pytest.raises(OptionError, match="The schema asks for op as int; the envelope has it as string"):
        reading.read(tmp_path, envelope)


# ---- the cache


def test_what_was_learnt_of_a_file_is_kept_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, cache = tmp_path / "data", tmp_path / "cache"
    grown(data)
    before = read(data, "id", "b", schemaCacheDir=cache)
    assert len(list(cache.iterdir())) == 2
    scans = counted_scans(monkeypatch)
    assert read(data, "id", "b", schemaCacheDir=cache) == before
    assert scans == []
    shutil.rmtree(data)
    changed(data)
    assert read(data, "id", "new", schemaCacheDir=cache, schemaEvolutionMode="none") == [(1, None), (2, "y")]
    assert scans


def counted_scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of files that are looked through for definitions."""
    scans: list[str] = []
    real = survey.Surveyor._read

    def counted(self: survey.Surveyor, file: DataFile, pool: ThreadPoolExecutor, *, force: bool) -> Any:
        scans.append(file.path)
        return real(self, file, pool, force=force)

    monkeypatch.setattr(survey.Surveyor, "_read", counted)
    return scans


def test_columns_that_need_no_definitions_cost_no_look_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(tmp_path)
    scans = counted_scans(monkeypatch)
    got = reading.read(tmp_path, columns="op,space_id,lsn,after", fileType="xlog")
    assert [(row["op"], row["lsn"]) for row in got if row["space_id"] == made.ID] == [
        ("REPLACE", 4),
        ("REPLACE", 6),
        ("DELETE", 7),
    ]
    assert scans == []
    reading.read(tmp_path, columns="op,space")
    assert len(scans) == 2
