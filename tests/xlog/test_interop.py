"""Debian's Tarantool 2.6.0 reads the files that we write, and we read its own: the same rows in both directions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.support.tarantool import EXECUTABLE, run_lua
from tests.xlog.build import INSTANCE, log, row, transaction

from headwater.vclock import VClock
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row
from headwater.xlog import SNAP, XLOG, BytesFile, Meta, Reader, file_name, rows

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed"),
]

READ = """
local out = {}
for lsn, row in require('xlog').pairs(argument) do
    local body = row.BODY or {}
    table.insert(out, {
        lsn = tostring(row.HEADER.lsn), type = row.HEADER.type, replica = row.HEADER.replica_id,
        tsn = row.HEADER.tsn and tostring(row.HEADER.tsn), commit = row.HEADER.commit,
        time = row.HEADER.timestamp, space = body.space_id, tuple = body.tuple,
    })
end
answer(out)
"""


def read_by_tarantool(path: Path, cwd: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run_lua(READ, cwd=cwd, argument=str(path))
    return found


def history(seed: int) -> list[list[Row]]:
    """Batches of transactions of all sizes, small and large tuples."""
    dice = random.Random(seed)
    lsn = 1
    batches = []
    for _ in range(dice.randrange(1, 12)):
        batch: list[Row] = []
        for _ in range(dice.randrange(1, 30)):
            count = dice.choice((1, 1, 1, 2, 5, 40))
            value = dice.choice((None, "x" * dice.randrange(3000), dice.random(), [1, {"a": "é"}]))
            batch += [row(lsn, value)] if count == 1 else transaction(lsn, count, value)
            lsn += count
        batches.append(batch)
    return batches


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("eof", [True, False])
def test_tarantool_reads_logs_of_ours(seed: int, eof: bool, tmp_path: Path) -> None:
    batches = history(seed)
    path = tmp_path / file_name(0, XLOG)
    path.write_bytes(log(batches, meta=Meta(XLOG, INSTANCE, VClock()), eof=eof))
    theirs = read_by_tarantool(path, tmp_path)
    ours = [one for batch in batches for one in batch]
    assert [int(one["lsn"]) for one in theirs] == [one.lsn for one in ours]
    for their, our in zip(theirs, ours, strict=True):
        assert (their["type"], their["replica"], their["time"]) == ("INSERT", 1, 1.5)
        assert int(their.get("tsn") or their["lsn"]) == our.tsn
        assert their.get("commit", "tsn" not in their) == our.is_commit
        assert their["space"] == 512
        assert their["tuple"][0] == our.lsn


def test_tarantool_reads_snapshots_of_ours(tmp_path: Path) -> None:
    """First row without LSN, one timestamp, an end marker."""
    made = [Row(2, 0, 0, lsn, 7.25, lsn, 1, pack({0x10: 512, 0x21: [lsn, "s" * 100]})) for lsn in range(3000)]
    path = tmp_path / file_name(5, SNAP)
    path.write_bytes(
        log([made[at : at + 700] for at in range(0, 3000, 700)], meta=Meta(SNAP, INSTANCE, VClock({1: 5})))
    )
    theirs = read_by_tarantool(path, tmp_path)
    assert len(theirs) == 3000
    assert [one["tuple"][0] for one in theirs] == list(range(3000))
    assert [one["lsn"] for one in theirs[:2]] == ["nil", "1"]


WRITE = """
box.cfg{work_dir = argument, memtx_memory = 64 * 1024 * 1024, log = argument .. '/log', wal_max_size = 1e6}
local s = box.schema.space.create('s', {id = 600})
s:create_index('pk')
for i = 1, 50 do s:insert{i, string.rep('é', i % 7), i / 3, {a = {i}}} end
box.begin() for i = 51, 80 do s:insert{i, 'tx'} end box.commit()
s:update({1}, {{'=', 2, 'updated'}})
s:upsert({2, 'x'}, {{'=', 2, 'upserted'}})
s:delete{3}
s:insert{1000, string.rep('y', 100000)}
box.snapshot()
s:insert{2000, 'after the snapshot'}
local uuid, vclock = box.info.uuid, box.info.vclock
answer({uuid = uuid, lsn = vclock[1], rows = s:count()})
"""


def test_we_read_files_of_tarantool(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    told = run_lua(WRITE, cwd=tmp_path / "script", argument=str(work))
    logs = sorted(work.glob("*.xlog"))
    snaps = sorted(work.glob("*.snap"))
    assert len(logs) >= 2
    assert len(snaps) == 2
    found = []
    for path in logs:
        reader = Reader(BytesFile(path.read_bytes(), str(path)))
        assert str(reader.meta.instance_uuid) == told["uuid"]
        found += [one for block in reader for one in rows(block)]
        assert reader.damage is None
    assert [one.lsn for one in found] == list(range(1, told["lsn"] + 1))
    assert sum(one.is_commit for one in found if one.tsn != one.lsn) == 1

    for path in (*logs, *snaps):
        reader = Reader(BytesFile(path.read_bytes(), str(path)))
        ours = [one for block in reader for one in rows(block)]
        theirs = read_by_tarantool(path, tmp_path / "reader")
        assert [str(one.lsn) for one in ours if one.lsn] == [
            one["lsn"] for one in theirs if one.get("lsn", "nil") != "nil"
        ]
        assert len(ours) == len(theirs)
        if reader.meta.filetype == SNAP:
            reader.require_eof()


DECIMALS = """
local msgpack, decimal, uuid = require('msgpack'), require('decimal'), require('uuid')
local out = {}
for _, text in ipairs(argument) do
    table.insert(out, (msgpack.encode(decimal.new(text)):gsub('.', function(c) return ('%02x'):format(c:byte()) end)))
end
answer(out)
"""


def test_decimals_have_the_same_bytes(tmp_path: Path) -> None:
    """Up to the 38 digits that 2.6.0 holds."""
    from decimal import Decimal

    dice = random.Random(7)
    texts = ["0", "-0", "1", "-1", "0.1", "1e5", "-1.50", "123456789.987654321", "9" * 38, "0." + "0" * 30 + "12"]
    for _ in range(200):
        digits = str(dice.randrange(10 ** dice.randrange(1, 36)))
        place = dice.randrange(len(digits) + 1)
        texts.append(
            ("-" if dice.random() < 0.5 else "")
            + (digits[:place] or "0")
            + ("." + digits[place:] if digits[place:] else "")
        )
    theirs = run_lua(DECIMALS, cwd=tmp_path, argument=texts)
    for text, their in zip(texts, theirs, strict=True):
        assert pack(Decimal(text)).hex() == their, text
