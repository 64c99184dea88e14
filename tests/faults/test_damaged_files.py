"""Small files damaged in every place: each start gives an exact prefix of what was written, all of it, or a refusal.
Never something else, and never an exception without a name."""

from __future__ import annotations

import collections
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.faults.inprocess import Refused, start
from tests.support import iproto, xlogfile
from tests.support.fixtures import Servers
from tests.support.soak import Record
from tests.support.subjects import STAND_IN, snapshot, transaction

pytestmark = pytest.mark.skipif(STAND_IN, reason="runs the recovery of Headwater in this process")

SPACE = 600
FLIPS, SOAK_FLIPS = 600, 10_000


@dataclass(slots=True)
class Data:
    """Files of one node, and what it had after each LSN."""

    files: dict[str, bytes]
    states: dict[int, list[Any]]
    """LSN of the end of a transaction -> rows of the space."""
    last: int

    def put(self, directory: Path) -> Path:
        directory.mkdir()
        for name, data in self.files.items():
            (directory / name).write_bytes(data)
        return directory

    def with_file(self, name: str, data: bytes) -> Data:
        return Data({**self.files, name: data}, self.states, self.last)


def write(connection: iproto.Connection, states: dict[int, list[Any]], first: int, count: int) -> None:
    """Transactions of every kind; after each the rows are noted under its last LSN."""
    dice = random.Random(first)
    for n in range(first, first + count):
        rows = connection.select(SPACE)
        kind = dice.choice(("insert", "insert", "update", "delete", "several", "upsert")) if rows else "insert"
        key = {iproto.SPACE_ID: SPACE, iproto.KEY: [dice.choice(rows)[0]]} if rows else {}
        match kind:
            case "insert":
                connection.insert(SPACE, [n, "x" * dice.randrange(40), n * 1.5])
            case "update":
                assert connection.ask(iproto.UPDATE, {**key, iproto.TUPLE: [["=", 1, f"new {n}"]]}).data
            case "delete":
                assert connection.ask(iproto.DELETE, key).data
            case "upsert":
                body = {iproto.SPACE_ID: SPACE, iproto.TUPLE: [n, "up", 0.5], iproto.OPS: [["+", 2, 1]]}
                assert connection.ask(iproto.UPSERT, body).data == []
            case "several":
                bodies = [{iproto.SPACE_ID: SPACE, iproto.TUPLE: [n * 1000 + i, "many", 0.25]} for i in range(3)]
                transaction(connection, [(iproto.REPLACE, body) for body in bodies])
        states[connection.call("box.info")[0]["lsn"]] = connection.select(SPACE)


@pytest.fixture(scope="module")
def data(module_servers: Servers) -> Data:
    """A snapshot, a closed log, a second snapshot and a log that a kill has left open. Snapshots are made smaller."""
    server = module_servers.subject("damaged")
    states: dict[int, list[Any]] = {}
    server.start()
    with iproto.Connection(*server.address) as connection:
        iproto.create_space(connection, SPACE, "t")
        for lsn in range(connection.call("box.info")[0]["lsn"] + 1):
            states[lsn] = []
        write(connection, states, 1, 12)
        snapshot(connection)
        write(connection, states, 100, 9)
    server.kill()
    files = {path.name: path.read_bytes() for path in server.work_dir.glob("*.xlog")}
    files |= {path.name: xlogfile.smaller(path, needed) for path in server.work_dir.glob("*.snap")}
    return Data(files, states, max(states))


def needed(space: int, row: list[Any]) -> bool:
    """A start takes a third of the time without the collations, and users' privileges do not matter here."""
    return not (space == 276 and row[0] > 3) and space != 312


class Verdicts:
    """Starts on damaged directories and counts what came of it."""

    def __init__(self, directory: Path, data: Data) -> None:
        self.directory = directory
        self.data = data
        self.counts: collections.Counter[str] = collections.Counter()

    def judge(self, damaged: Data, what: str, wal_mode: str = "write") -> str:
        number = sum(self.counts.values())
        directory = damaged.put(self.directory / str(number))
        try:
            node = start(directory, [SPACE], wal_mode)
        except Refused:
            verdict = "refused"
        else:
            assert node.lsn in self.data.states, f"{what}: LSN {node.lsn} is inside of a transaction"
            assert node.rows[SPACE] == self.data.states[node.lsn], f"{what}: not what was there at LSN {node.lsn}"
            verdict = "whole" if node.lsn == self.data.last else "prefix"
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        self.counts[verdict] += 1
        return verdict


@pytest.fixture
def verdicts(tmp_path: Path, data: Data) -> Verdicts:
    return Verdicts(tmp_path, data)


def last_log(data: Data) -> str:
    return max(name for name in data.files if name.endswith(".xlog"))


def snaps(data: Data) -> list[str]:
    return sorted(name for name in data.files if name.endswith(".snap"))


def test_the_files_as_they_are(verdicts: Verdicts, data: Data) -> None:
    assert verdicts.judge(data, "undamaged") == "whole"


def test_every_truncation_of_the_last_log(verdicts: Verdicts, data: Data, tmp_path: Path) -> None:
    """A torn tail: all transactions that lie wholly before the cut, exactly."""
    name = last_log(data)
    whole = data.files[name]
    (tmp_path / "whole.xlog").write_bytes(whole)
    file = xlogfile.read(tmp_path / "whole.xlog")
    begin = sum(xlogfile.vclock(file.meta["VClock"]).values())
    lsns = {file.body: begin} | {block.end: block.rows[-1][0][3] for block in file.blocks}
    for size in range(len(whole)):
        damaged = data.with_file(name, whole[:size])
        directory = damaged.put(tmp_path / "cut")
        wanted = max((lsn for end, lsn in lsns.items() if end <= size), default=None)
        try:
            node = start(directory, [SPACE])
        except Refused:
            assert wanted is None, f"cut at {size}: refused"
        else:
            assert node.lsn == (begin if wanted is None else wanted), f"cut at {size}"
            assert node.rows[SPACE] == data.states[node.lsn], f"cut at {size}"
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


@pytest.mark.parametrize("which", ["first", "last"])
def test_truncations_of_a_snapshot(verdicts: Verdicts, data: Data, which: str) -> None:
    """A snapshot without its end is not used: the one before it and the logs give all, or the node refuses."""
    name = snaps(data)[0 if which == "first" else -1]
    whole = data.files[name]
    for size in [*range(0, 200, 5), *range(200, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
        verdict = verdicts.judge(data.with_file(name, whole[:size]), f"{name} cut at {size}")
        assert verdict in ("whole", "refused"), f"{name} cut at {size}: {verdict}"
    print(dict(verdicts.counts))
    assert verdicts.counts["whole"]


@pytest.mark.parametrize("wal_mode", ["write", "fsync"])
def test_truncations_of_a_closed_log(verdicts: Verdicts, data: Data, wal_mode: str) -> None:
    """It is needed only when the newer snapshot cannot be used. What was synced cannot be torn: a gap, and refused.
    Without syncs a power cut may have done it, and what is before it is a prefix."""
    name = min(name for name in data.files if name.endswith(".xlog"))
    without = Data({n: d for n, d in data.files.items() if n != snaps(data)[-1]}, data.states, data.last)
    whole = data.files[name]
    for size in range(0, len(whole), 11):
        verdict = verdicts.judge(without.with_file(name, whole[:size]), f"{name} cut at {size}", wal_mode)
        assert wal_mode == "write" or verdict != "prefix", f"{name} cut at {size}"
    print(dict(verdicts.counts))
    assert verdicts.counts["refused" if wal_mode == "fsync" else "prefix"]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["snap", "xlog"])
def test_every_truncation_soak(verdicts: Verdicts, data: Data, kind: str) -> None:
    """What the tests above do in steps, at every byte: of each snapshot, and of the closed log, which is needed
    without the newest snapshot."""
    record = Record(f"truncations-{kind}")
    newest = snaps(data)[-1]
    for name in sorted(name for name in data.files if name.endswith(kind) and name != last_log(data)):
        base = (
            data
            if kind == "snap"
            else Data({n: d for n, d in data.files.items() if n != newest}, data.states, data.last)
        )
        modes = ("write",) if kind == "snap" else ("write", "fsync")
        for wal_mode in modes:
            verdicts.counts.clear()
            for size in range(len(data.files[name])):
                damaged = base.with_file(name, data.files[name][:size])
                verdict = verdicts.judge(damaged, f"{name} cut at {size}", wal_mode)
                assert verdict != "prefix" or (kind, wal_mode) == ("xlog", "write"), f"{name} cut at {size}: {verdict}"
            record.add(file=name, wal_mode=wal_mode, cases=len(data.files[name]), wrong=0, **verdicts.counts)


def flip(data: Data, dice: random.Random) -> tuple[Data, str]:
    """One bit, mostly of the last log and the newest snapshot."""
    names = [last_log(data)] * 3 + [snaps(data)[-1]] * 2 + list(data.files)
    name = dice.choice(names)
    damaged = bytearray(data.files[name])
    # Compressed blocks are long: half of the flips go to the head and the first bytes.
    at = dice.randrange(min(300, len(damaged))) if dice.random() < 0.5 else dice.randrange(len(damaged))
    bit = dice.randrange(8)
    damaged[at] ^= 1 << bit
    return data.with_file(name, bytes(damaged)), f"{name}: bit {bit} of byte {at} flipped"


def run_flips(verdicts: Verdicts, data: Data, seed: int, count: int) -> dict[str, int]:
    dice = random.Random(seed)
    for _ in range(count):
        verdicts.judge(*flip(data, dice))
    return dict(verdicts.counts)


def test_bit_flips(verdicts: Verdicts, data: Data) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    counts = run_flips(verdicts, data, seed, FLIPS)
    print(counts)
    assert counts["refused"] > FLIPS // 10
    assert counts["whole"] > FLIPS // 50


@pytest.mark.soak
def test_bit_flips_soak(verdicts: Verdicts, data: Data) -> None:
    record = Record("bit-flips")
    while (done := record.total("cases")) < SOAK_FLIPS:
        seed = random.randrange(1 << 30)
        verdicts.counts.clear()
        counts = run_flips(verdicts, data, seed, min(1000, SOAK_FLIPS - done))
        record.add(seed=seed, cases=sum(counts.values()), wrong=0, **counts)
