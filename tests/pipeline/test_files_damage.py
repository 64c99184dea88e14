"""Files that are torn, damaged, foreign or gone: an error that says where, or what is good of them, as `mode` asks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.pipeline import made, reading
from tests.pipeline.made import block, replace

from headwater.kernels import crc32c
from headwater.pipeline.errors import NotThere, OptionError, SourceDamaged, ValueUnfit
from headwater.xlog.blocks import fixheader
from headwater.xlog.format import MAGIC_ZSTD

SIZES = (1, 150, 1 << 20)
ROWS = 12


def lsns(path: Path, **options: object) -> list[int]:
    return [row["lsn"] for row in reading.read(path, **options) if row["space_id"] == made.ID]


def offsets(path: Path) -> list[int]:
    """Where the blocks of a file of plain blocks begin, and where the last one ends."""
    data = path.read_bytes()
    at = data.index(b"\n\n") + 2
    found = [at]
    while data[at : at + 4] == b"\xd5\xba\x0b\xab":
        at += 19 + data[at + 4]
        found.append(at)
    return found


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twelve rows, each a block, behind a snapshot; closed."""
    made.books(tmp_path, [ROWS])
    return tmp_path / "00000000000000000000.xlog"


# ---- a flipped bit


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("inside", [2, 4, 25], ids=["magic", "length", "contents"])
def test_a_flipped_bit_is_an_error_that_says_where(log: Path, inside: int, size: int) -> None:
    where = offsets(log)[5]
    flip(log, where + inside)
    with pytest.raises(SourceDamaged) as caught:
        reading.read(log, maxPartitionBytes=size, spaces=made.ID)
    assert f"{log}, offset {where}, after LSN 5: " in str(caught.value)
    assert "mode=PERMISSIVE" in str(caught.value)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("inside", [2, 4, 25], ids=["magic", "length", "contents"])
def test_what_is_good_around_a_flipped_bit_is_read_when_asked(
    log: Path, inside: int, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    flip(log, offsets(log)[5] + inside)
    with caplog.at_level(logging.WARNING):
        assert lsns(log, maxPartitionBytes=size, mode="permissive") == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert f"{log}: corrupt at offset {offsets(log)[5]}" in caplog.text


def test_a_transaction_around_a_bad_block_is_nobodys_twice(tmp_path: Path) -> None:
    """The bad block ends what was open before it, whatever the parts are."""
    made.books(tmp_path, [])
    big = made.together([replace(n, [n, "x"]) for n in range(2, 10)])
    blocks = [[replace(1, [1, "a"])], big[:2], big[2:4], big[4:6], big[6:], [replace(10, [10, "z"])]]
    path = made.log(tmp_path, {}, [block(rows) for rows in blocks])
    flip(path, offsets(path)[2] + 25)
    for size in SIZES:
        assert lsns(path, maxPartitionBytes=size, mode="permissive") == [1, 2, 3, 6, 7, 8, 9, 10]


# ---- the end of a file


@pytest.mark.parametrize("size", SIZES)
def test_a_log_that_is_being_written_ends_where_its_last_whole_block_does(tmp_path: Path, size: int) -> None:
    *_, newest = made.books(tmp_path, [3, 5], eof=False)
    assert lsns(tmp_path, maxPartitionBytes=size) == list(range(1, 9))
    newest.write_bytes(newest.read_bytes()[:-7])
    assert lsns(tmp_path, maxPartitionBytes=size) == list(range(1, 8))


def test_a_torn_log_lost_nothing_if_the_next_one_begins_where_it_ends(tmp_path: Path) -> None:
    first, second = made.books(tmp_path, [3, 3])
    whole = first.read_bytes()
    first.write_bytes(whole[:-4] + block([replace(4, [4, "never written"])])[:-3])
    assert lsns(tmp_path) == [1, 2, 3, 4, 5, 6]
    first.write_bytes(whole[:-20])
    with pytest.raises(SourceDamaged, match=r"00\.xlog, offset \d+, after LSN 2: torn: .*It is not the newest log"):
        reading.read(tmp_path, spaces=made.ID)
    assert lsns(tmp_path, mode="PERMISSIVE") == [1, 2, 4, 5, 6]
    second.unlink()
    assert lsns(tmp_path) == [1, 2]


def test_a_snapshot_without_its_end_is_not_whole(tmp_path: Path) -> None:
    made.snapshot(tmp_path, {}, [(made.ID, [n, "x"]) for n in range(9)], eof=False)
    with pytest.raises(SourceDamaged, match="no end marker: the snapshot is not whole"):
        reading.read(tmp_path)
    assert len(lsns(tmp_path, mode="PERMISSIVE")) == 9


# ---- bombs


def bomb(size: int) -> bytes:
    data = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size))
    return fixheader(MAGIC_ZSTD, len(data), crc32c(data)) + data


@pytest.mark.parametrize("size", SIZES)
def test_a_block_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path, size: int) -> None:
    made.books(tmp_path, [])
    rows = [block([replace(n, [n, "x"])]) for n in (1, 2)]
    path = made.log(tmp_path, {}, [rows[0], bomb(64 << 20), rows[1]])
    with pytest.raises(SourceDamaged, match=r"after LSN 1: .*unpacks to more than 1048576.*maxBlockBytes"):
        reading.read(path, maxPartitionBytes=size, maxBlockBytes="1m")
    assert lsns(path, maxPartitionBytes=size, maxBlockBytes="1m", mode="PERMISSIVE") == [1, 2]


def test_a_huge_transaction_is_no_bomb(tmp_path: Path) -> None:
    made.books(tmp_path, [])
    rows = made.together([replace(n, [n, "x" * 1000]) for n in range(1, 3000)])
    made.log(tmp_path, {}, [block(rows, compress=True)])
    assert lsns(tmp_path, maxBlockBytes="4m") == list(range(1, 3000))


# ---- what is no such file


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("dear diary\n" * 1000)


def vinyl(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"XLOG\n", b"VYLOG\n", 1))


def future(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"0.13\n", b"0.14\n", 1))


def renamed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"VClock: {}", b"VClock: {1: 7}", 1))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (empty, "it is empty"),
        (text, "it is no .snap or .xlog file"),
        (vinyl, "a file of type VYLOG"),
        (future, "unsupported file format version 0.14"),
        (renamed, "its name says signature 0, its head 7"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, spoil: Callable[[Path], None], words: str) -> None:
    first, _ = made.books(tmp_path, [3, 3])
    spoil(first)
    with pytest.raises(SourceDamaged) as caught:
        reading.read(tmp_path)
    assert words in str(caught.value)
    assert str(first) in str(caught.value)
    assert lsns(tmp_path, mode="PERMISSIVE") == [4, 5, 6]


def test_a_file_of_another_instance_is_named(tmp_path: Path) -> None:
    made.books(tmp_path, [3, 3])
    made.log(tmp_path, {1: 6}, [block([replace(7, [7, "not ours"])])], previous={1: 3}, instance=made.OTHER)
    with pytest.raises(SourceDamaged, match=rf"06\.xlog: it was written by instance {made.OTHER}.*instanceUuid"):
        reading.read(tmp_path)
    assert lsns(tmp_path, mode="PERMISSIVE") == [1, 2, 3, 4, 5, 6]
    assert lsns(tmp_path, instanceUuid=made.INSTANCE) == [1, 2, 3, 4, 5, 6]
    assert lsns(tmp_path, instanceUuid=made.OTHER) == [7]


def test_a_missing_log_is_named_by_what_is_missing(tmp_path: Path) -> None:
    _, second, _ = made.books(tmp_path, [3, 3, 3])
    second.unlink()
    with pytest.raises(SourceDamaged, match=r"06\.xlog: a log is missing before it: .*\{\}.*\{1: 6\}"):
        reading.read(tmp_path)
    assert lsns(tmp_path, mode="PERMISSIVE") == [1, 2, 3, 7, 8, 9]
    assert lsns(tmp_path, fromVclock='{"1": 6}') == [7, 8, 9]


def test_a_file_that_goes_away_while_it_is_read_is_named(tmp_path: Path) -> None:
    path, _ = made.books(tmp_path, [3, 3])
    for mode, left in (("FAILFAST", None), ("PERMISSIVE", 3)):
        source = reading.reader(tmp_path, fileType="xlog", mode=mode)
        partitions = list(source.partitions())
        hidden = path.rename(tmp_path / "hidden")
        try:
            if left is None:
                with pytest.raises(NotThere, match=r"00\.xlog does not exist on the machine that looked for it"):
                    list(source.read(partitions[0]))  # type: ignore[call-overload]
            else:
                batches = list(source.read(partitions[0]))  # type: ignore[call-overload]
                assert sum(batch.num_rows for batch in batches) == left
        finally:
            hidden.rename(path)


def test_bytes_that_are_no_rows_are_an_error_though_their_checksum_is_right(tmp_path: Path) -> None:
    made.books(tmp_path, [])
    good = block([replace(1, [1, "x"])])
    path = made.log(tmp_path, {}, [good, block(b"\x81\x00\x02\xc1\xc1"), good])
    with pytest.raises(SourceDamaged, match=rf"offset {offsets(path)[1]}.*can't parse row"):
        reading.read(path)


# ---- values


def test_a_value_without_a_place_says_where_it_is_and_what_to_do(tmp_path: Path) -> None:
    made.books(tmp_path, [])
    rows = [[replace(1, [1, "x"])], [replace(2, [1 << 63, "large"])], [replace(3, [3, 17])]]
    path = made.log(tmp_path, {}, [block(row) for row in rows])
    at = offsets(path)
    with pytest.raises(ValueUnfit, match=rf"00\.xlog, block at offset {at[1]}, LSN 2: .*'id'.*unsignedAs=decimal"):
        reading.read(tmp_path, space="books", fileType="xlog")
    with pytest.raises(ValueUnfit, match=rf"block at offset {at[2]}, LSN 3: .*'title' of type string"):
        reading.read(tmp_path, space="books", fileType="xlog", unsignedAs="decimal")
    got = reading.read(tmp_path, space="books", fileType="xlog", mode="PERMISSIVE", columns="id,title,_rescued_data")
    assert [tuple(row.values()) for row in got] == [
        (1, "x", None),
        (None, "large", {"id": 1 << 63}),
        (3, None, {"title": 17}),
    ]


# ---- options


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("mode", "DROPMALFORMED", "it should be one of FAILFAST, PERMISSIVE"),
        ("maxPartitionBytes", "much", "a size like 64m"),
        ("fromVclock", "[1, 2]", 'a vclock like {"1": 100, "2": 7}'),
        ("toTimestamp", "yesterday", "a time like 2026-01-31T12:00:00Z"),
        ("toTimestamp", "nan", "a time like 2026-01-31T12:00:00Z"),
        ("maxPartitonBytes", "1", "Is 'maxPartitionBytes' meant?"),
        ("verifyChecksum", "false", "it should be one of true"),
        ("instanceUuid", "me", "it should be a UUID"),
        ("fileType", "log", "it should be one of auto, snap, xlog"),
        ("decimalAs", "decimal(40,2)", "string, or decimal(38,10)"),
        ("metadataColumns", "_opp", "it may name _op"),
        ("columns", "op,", None),
    ],
)
def test_an_option_that_cannot_be_is_refused(tmp_path: Path, option: str, value: str, words: str | None) -> None:
    made.books(tmp_path, [1])
    if words is None:
        assert reading.read(tmp_path, **{option: value})
        return
    with pytest.raises(OptionError) as caught:
        reading.read(tmp_path, **{option: value})
    assert words in str(caught.value)
