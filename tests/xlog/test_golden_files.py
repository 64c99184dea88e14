"""Every file of a real 3.9 equals, row by row, what Tarantool's own xlog.pairs printed of it, and is encoded again to
the same bytes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.wire.golden import log_files, needs_golden

from headwater.cli.rowtext import row_value
from headwater.wire import synchro
from headwater.wire.constants import DML_TYPES, SYNCHRO_TYPES, Type
from headwater.wire.request import of_row
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import BlockEncoder, BytesFile, Reader, format_meta, parse_name, rows
from headwater.xlog.blocks import FixHeader, decode_fixheader

pytestmark = needs_golden

EACH_FILE = pytest.mark.parametrize("path", log_files(), ids=lambda path: f"{path.parent.name}/{path.name}")


def read(path: Path) -> Reader:
    return Reader(BytesFile(path.read_bytes(), str(path)))


def same(ours: Any, theirs: Any) -> bool:
    """As JSON values. Lua prints numbers with 14 digits, and a table with numbers as keys as an array with
    holes that begins at 1."""
    if isinstance(ours, dict) and isinstance(theirs, list):
        theirs = {str(index): item for index, item in enumerate(theirs, 1) if item is not None}
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(value, theirs[key]) for key, value in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return math.isclose(ours, theirs, rel_tol=1e-13)
    return type(ours) is type(theirs) and ours == theirs


@EACH_FILE
def test_rows_equal_the_json_beside_the_file(path: Path) -> None:
    theirs = [json.loads(line) for line in path.with_name(path.name + ".json").read_text().splitlines()]
    ours = [json.loads(json.dumps(row_value(row))) for block in read(path) for row in rows(block)]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert same(one, other), f"\n{one}\n{other}"


def test_comparison_can_fail() -> None:
    assert not same({"a": 1}, {"a": 2})
    assert not same({"a": 1.5}, {"a": 1.6})
    assert not same([1], [1, 2])
    assert not same({"1": 1}, [None, 1])
    assert same({"2": 1}, [None, 1])


@EACH_FILE
def test_head_and_rows_are_encoded_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    reader = read(path)
    assert format_meta(reader.meta) == data[: reader.position]
    assert parse_name(path.name, reader.meta.filetype) == reader.meta.signature
    for block in reader:
        assert b"".join(map(encode_row, rows(block))) == block.rows
    assert reader.eof
    assert reader.damage is None


@EACH_FILE
def test_plain_blocks_are_encoded_to_the_same_bytes(path: Path) -> None:
    """Compressed ones differ by the version of zstd, so that they are compared unpacked."""
    data = path.read_bytes()
    encoder = BlockEncoder()
    for block in read(path):
        again = encoder.encode_one(block.rows)
        header = decode_fixheader(data[block.offset : block.offset + 19])
        assert isinstance(header, FixHeader)
        assert decode_fixheader(again[:19]).compressed == header.compressed
        if not header.compressed:
            assert again == data[block.offset : block.end]
        else:
            (twin,) = Reader(BytesFile(format_meta(read(path).meta) + again))
            assert twin.rows == block.rows


@EACH_FILE
def test_every_row_is_a_request_or_a_word_of_agreement(path: Path) -> None:
    for block in read(path):
        for row in rows(block):
            check_body(row)


def check_body(row: Row) -> None:
    if row.type in DML_TYPES:
        assert of_row(row).space_id > 0
    elif row.type in SYNCHRO_TYPES:
        again = synchro.encode_synchro(synchro.decode_synchro(row))
        assert (again.body, again.replica_id) == (row.body, row.replica_id)
    else:
        assert row.type == Type.RAFT
        assert synchro.encode_raft(synchro.decode_raft(row)).body == row.body
