"""How files are cut for tasks, which files are read, and which rows of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipeline import made, reading
from tests.pipeline.made import block, replace, together

from headwater.pipeline.errors import DataLost, NotThere, OptionError

SIZES = (1, 64, 200, 1000, 1 << 20)


def lsns(path: Path | list[Path], **options: object) -> list[int]:
    """Of the rows of user spaces, in the order in which they come."""
    return [row["lsn"] for row in reading.read(path, **options) if row["space_id"] == made.ID]


def over_blocks(directory: Path, *, compress: bool) -> Path:
    """A transaction of seven rows over four blocks, with others in its first and its last block."""
    made.books(directory, [])
    big = together([replace(n, [n, "x" * 40]) for n in range(3, 10)])
    blocks = [
        [replace(1, [1, "one"])],
        [replace(2, [2, "two"]), *big[:1]],
        big[1:3],
        big[3:5],
        [*big[5:], replace(10, [10, "ten"])],
        together([replace(11, [11, "a"]), replace(12, [12, "b"])]),
    ]
    return made.log(directory, {}, [block(rows, compress=compress) for rows in blocks])


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "zstd"])
@pytest.mark.parametrize("size", SIZES)
def test_a_transaction_over_several_blocks_is_in_the_part_where_it_begins(
    tmp_path: Path, size: int, compress: bool
) -> None:
    path = over_blocks(tmp_path, compress=compress)
    tables = reading.parts(path, maxPartitionBytes=size)
    per_part = [table["lsn"].to_pylist() for table in tables]
    assert [lsn for part in per_part for lsn in part] == list(range(1, 13))
    assert sum(1 for part in per_part if set(part) & set(range(3, 10))) == 1
    if size == 1:
        assert [part for part in per_part if part] == [[1], [2, *range(3, 10)], [10], [11, 12]]


def test_a_transaction_without_an_end_is_given_as_far_as_it_goes(tmp_path: Path) -> None:
    made.books(tmp_path, [])
    big = together([replace(n, [n, "x"]) for n in range(1, 6)])
    made.log(tmp_path, {}, [block(big[:2]), block(big[2:4])], eof=False)
    for size in SIZES:
        assert lsns(tmp_path, maxPartitionBytes=size) == [1, 2, 3, 4]


def test_small_files_share_a_task(tmp_path: Path) -> None:
    made.books(tmp_path, [2] * 12)
    assert len(reading.parts(tmp_path)) == 1
    assert lsns(tmp_path) == list(range(1, 25))


def test_parts_are_as_large_as_asked(tmp_path: Path) -> None:
    made.books(tmp_path, [])
    path = made.log(tmp_path, {}, [block([replace(n, [n, "y" * 100])]) for n in range(1, 400)])
    size = path.stat().st_size
    assert len(reading.parts(path, maxPartitionBytes=size // 4)) in (4, 5)


# ---- which files


def test_a_directory_is_its_snapshots_and_logs_and_nothing_else(tmp_path: Path) -> None:
    made.books(tmp_path, [3, 3])
    (tmp_path / "00000000000000000007.xlog.inprogress").write_bytes(b"half a file")
    (tmp_path / "00000000000000000006.vylog").write_bytes(b"VYLOG\n0.13\n\n")
    (tmp_path / "tarantool.log").write_text("a word")
    rows = reading.read(tmp_path)
    assert [row["lsn"] for row in rows if row["space"] == "books"] == [1, 2, 3, 4, 5, 6]
    assert {row["space"] for row in rows} >= {"_space", "_index", "_user", "books"}
    assert lsns(tmp_path, fileType="snap") == []
    assert lsns(tmp_path, fileType="xlog") == [1, 2, 3, 4, 5, 6]


def test_files_are_named_by_pattern_by_list_and_one_by_one(tmp_path: Path) -> None:
    one, two, three = made.books(tmp_path / "a", [2, 2, 2])
    assert lsns(Path(tmp_path / "a" / "*.xlog")) == [1, 2, 3, 4, 5, 6]
    assert lsns(Path(tmp_path / "a" / "0*{2,4}.xlog")) == [3, 4, 5, 6]
    assert lsns([three, one]) == [1, 2, 5, 6]
    assert lsns(two) == [3, 4]
    assert [row["space"] for row in reading.read(two)] == ["books", "books"]
    assert lsns(Path(f"file://{tmp_path}/a")) == [1, 2, 3, 4, 5, 6]


def test_directories_below_are_read_when_asked(tmp_path: Path) -> None:
    made.books(tmp_path / "one", [2])
    made.books(tmp_path / "two", [2])
    assert lsns(tmp_path, recursiveFileLookup=True) == [1, 2, 1, 2]
    with pytest.raises(NotThere, match=r"there is no \.snap or \.xlog file there|no file"):
        reading.read(tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotThere, match=r"gone\.xlog: no file of that name"):
        reading.read(tmp_path / "gone.xlog")


def test_a_file_that_was_never_finished_is_refused_by_name(tmp_path: Path) -> None:
    (path,) = made.books(tmp_path, [2])
    path.rename(tmp_path / (path.name + ".inprogress"))
    with pytest.raises(OptionError, match="was never finished"):
        reading.read(tmp_path / (path.name + ".inprogress"))


def test_files_inside_an_archive_are_read_through_fsspec(tmp_path: Path) -> None:
    import zipfile

    made.books(tmp_path / "a", [2, 2])
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (tmp_path / "a").iterdir():
            archive.write(path, path.name)
    url = f"zip://*log::file://{tmp_path}/a.zip"
    rows = reading.read(url, maxPartitionBytes=1)
    assert [(row["space"], row["lsn"]) for row in rows] == [("books", n) for n in range(1, 5)]


# ---- which rows


def test_rows_between_two_vclocks(tmp_path: Path) -> None:
    made.books(tmp_path, [3, 3, 3])
    assert lsns(tmp_path, fromVclock='{"1": 2}', toVclock='{"1": 7}') == [3, 4, 5, 6, 7]
    assert lsns(tmp_path, fromVclock="{1: 3}") == [4, 5, 6, 7, 8, 9]
    assert lsns(tmp_path, toVclock='{"1": 3}') == [1, 2, 3]
    assert lsns(tmp_path, toVclock='{"2": 3}') == []


def test_whole_files_are_left_out_by_what_their_heads_say(tmp_path: Path) -> None:
    """Those that are not needed may even be damaged."""
    first, _, third = made.books(tmp_path, [3, 3, 3])
    for path in (first, third):
        data = bytearray(path.read_bytes())
        data[data.index(b"\n\n") + 40] ^= 0xFF
        path.write_bytes(data)
    assert lsns(tmp_path, fromVclock='{"1": 3}', toVclock='{"1": 6}') == [4, 5, 6]


def test_snapshots_are_no_changes(tmp_path: Path) -> None:
    """With a position to begin at, they are left out; with one to end at, those from before it come."""
    made.books(tmp_path, [3])
    made.snapshot(tmp_path, {1: 3}, [(made.ID, [1, "book 1"])])
    assert {row["op"] for row in reading.read(tmp_path, fromVclock='{"1": 1}')} == {"REPLACE"}
    kept = [row for row in reading.read(tmp_path, toVclock='{"1": 2}') if row["space_id"] == made.ID]
    assert [row["op"] for row in kept] == ["REPLACE", "REPLACE"]


def test_rows_of_replicas_are_taken_each_by_its_own_component(tmp_path: Path) -> None:
    made.books(tmp_path, [])
    rows = [replace(n, [n, "x"], replica_id=who) for n in range(1, 5) for who in (1, 2)]
    local = replace(1, [9, "local"], replica_id=0)
    made.log(tmp_path, {}, [block([*rows, local])])
    got = reading.read(tmp_path, fileType="xlog", fromVclock='{"1": 3}', toVclock='{"1": 4, "2": 2}')
    assert sorted((row["replica_id"], row["lsn"]) for row in got) == [(1, 4), (2, 1), (2, 2)]
    got = reading.read(tmp_path, fileType="xlog", toVclock='{"0": 5, "2": 1}')
    assert sorted((row["replica_id"], row["lsn"]) for row in got) == [(0, 1), (2, 1)]


def test_rows_between_two_times(tmp_path: Path) -> None:
    made.books(tmp_path, [5])
    assert lsns(tmp_path, fromTimestamp=1002, toTimestamp="1970-01-01T00:16:44Z") == [2, 3]


def test_rows_of_some_spaces(tmp_path: Path) -> None:
    made.books(tmp_path, [2])
    assert lsns(tmp_path, spaces="books") == [1, 2]
    rows = reading.read(tmp_path, spaces="512,_index")
    assert {row["space"] for row in rows} == {"books", "_index"}
    assert reading.read(tmp_path, spaces='["nobody"]') == []


def test_columns_are_those_that_are_named_in_that_order(tmp_path: Path) -> None:
    made.books(tmp_path, [1])
    row = reading.read(tmp_path, columns="lsn,space,op", spaces="books")[0]
    assert list(row.items()) == [("lsn", 1), ("space", "books"), ("op", "REPLACE")]
    with pytest.raises(NotThere, match="The envelope has no column 'lns'"):
        reading.read(tmp_path, columns="lns")


def test_rows_before_the_oldest_log_are_missed_by_name(tmp_path: Path) -> None:
    first, *_ = made.books(tmp_path, [3, 3, 3])
    first.unlink()
    with pytest.raises(DataLost, match=r"begins at \{1: 3\}.*behind \{1: 1\}"):
        reading.read(tmp_path, fromVclock='{"1": 1}')
    assert lsns(tmp_path, fromVclock='{"1": 1}', mode="PERMISSIVE") == [4, 5, 6, 7, 8, 9]
    assert lsns(tmp_path, fromVclock='{"1": 4}') == [5, 6, 7, 8, 9]


def test_the_head_of_1_6_is_understood(tmp_path: Path) -> None:
    """Format 0.12: `Server` in place of `Instance`, and no version (xlog.c, xlog_meta_parse)."""
    made.books(tmp_path, [])
    path = made.log(tmp_path, {}, [block([replace(1, [1, "old"])])])
    body = path.read_bytes().partition(b"\n\n")[2]
    path.write_bytes(f"XLOG\n0.12\nServer: {made.INSTANCE}\nVClock: {{}}\n\n".encode() + body)
    assert lsns(path) == [1]
    assert reading.read(path)[0]["space"] == "books"
