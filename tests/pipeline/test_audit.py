"""An audit: no false alarm from a set under load, and every planted difference found."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.restoredirs import Directory, definition, delete, index, put
from tests.pipeline.restoring import in_small_pieces
from tests.support.cluster import Cluster, Node, kinds
from tests.support.iproto import INDEX_BASE, INDEX_ID, KEY, REPLACE, SPACE_ID, TUPLE, UPDATE, Connection, create_space
from typer.testing import CliRunner

from headwater.cli.lakeaudit import app
from headwater.pipeline.audit import Audit, AuditWish, audit
from headwater.pipeline.auditplaces import Kind
from headwater.pipeline.errors import NotThere, OptionError, PipelineError
from headwater.pipeline.restore import buckets
from headwater.pipeline.restore.errors import Unreachable
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import LocalRunner, Runner, SparkRunner
from headwater.vclock import VClock
from headwater.wire.msgpack import unpack
from headwater.xlog import MAGIC_EOF, BlockEncoder, BytesFile, Reader, format_meta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USERS = 700
ROWS = 3000


def audited(places: Sequence[object], runner: Runner | None = None, **wish: object) -> Audit:
    return audit(runner or LocalRunner(), AuditWish(tuple(map(str, places)), **wish))  # type: ignore[arg-type]


def found_keys(found: Audit) -> dict[str, list[object]]:
    return {space.name: [unpack(each.key) for each in space.differences] for space in found.spaces if not space.is_same}


# ---- live sets -------------------------------------------------------------------------------------


@contextmanager
def load(node: Node) -> Iterator[None]:
    """Writes all the time."""
    over = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        dice = random.Random(5)
        try:
            with Connection(node.host, node.server.port) as link:
                while not over.wait(0.02):  # so that the other one can follow
                    for reply in link.pipeline([request(dice) for _ in range(20)]):
                        assert not reply.failed, reply.message
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failed, failed


def request(dice: random.Random) -> tuple[int, dict[int, object]]:
    key = dice.randrange(ROWS)
    if dice.random() < 0.5:
        return REPLACE, {SPACE_ID: USERS, TUPLE: [key, f"name-{dice.random()}", 0]}
    ops = [["+", 2, 1]]
    return UPDATE, {SPACE_ID: USERS, INDEX_ID: 0, INDEX_BASE: 0, KEY: [key], TUPLE: ops}


def address(node: Node) -> str:
    return f"{node.host}:{node.server.port}"


def plant(node: Node, old: bytes, new: bytes) -> None:
    """One byte in the newest snapshot, whose checksum is right again."""
    path = node.files(".snap")[-1]
    reader = Reader(BytesFile(path.read_bytes()))
    encoder = BlockEncoder()
    blocks = [block.rows for block in reader]
    assert sum(rows.count(old) for rows in blocks) == 1
    data = b"".join(encoder.encode_one(rows.replace(old, new)) for rows in blocks)
    path.write_bytes(format_meta(reader.meta) + data + MAGIC_EOF)


@kinds("ht", "th")
def test_a_set_under_load_is_the_same_and_a_planted_byte_is_found(
    tmp_path: Path, kinds: str, spark: SparkSession
) -> None:
    with Cluster(tmp_path, kinds).start() as cluster:
        master, replica = cluster
        create_space(master.conn, USERS, "users")
        rows = [
            (REPLACE, {SPACE_ID: USERS, TUPLE: [key, "victim" if key == 77 else "plain", 0]}) for key in range(ROWS)
        ]
        assert not any(reply.failed for reply in master.conn.pipeline(rows))
        cluster.settle()
        places = [address(master), address(replica)]
        with load(master):
            for number in range(2):
                same = audited(places, SparkRunner(spark) if number else None)
                assert same.is_same, found_keys(same)
        cluster.settle()
        with load(replica):
            same = audited([*places, master.server.work_dir])
            assert same.is_same, found_keys(same)
            assert [each.kind for each in same.places] == [Kind.LIVE, Kind.LIVE, Kind.DIRECTORY]
        master.conn.replace(USERS, [ROWS + 1, "victim-1", 0])
        cluster.settle()
        replica.snapshot()
        replica.stop()
        plant(replica, b"victim-1", b"victim-2")
        replica.start()
        cluster.wait_vclock_equal()
        with load(master):
            different = audited(places)
        assert found_keys(different) == {"users": [[ROWS + 1]]}
        (difference,) = next(space for space in different.spaces if space.name == "users").differences
        assert [unpack(each or b"") for each in difference.tuples] == [
            [ROWS + 1, "victim-1", 0],
            [ROWS + 1, "victim-2", 0],
        ]


def test_a_server_that_does_not_come_to_the_vclock_is_no_verdict(tmp_path: Path) -> None:
    with Cluster(tmp_path, "hh").start() as cluster:
        one, two = cluster
        create_space(one.conn, USERS, "users")
        cluster.settle()
        two.configure(replication=[])
        one.conn.replace(USERS, [1, "x", 0])
        with pytest.raises(PipelineError, match=r"has not come to .* within 1 s; it is at"):
            audited([address(one), address(two)], timeout=1.0)


# ---- files -----------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Directory, Directory]:
    """Two members with the same data, of which the second one is behind."""
    one, two = Directory(tmp_path / "one"), Directory(tmp_path / "two", member=2)
    one.snapshot({1: 10}, [1, 2, 3])
    one.log({1: 10}, [put(11, 11), put(12, 12), delete(13, 1), put(14, 14)])
    two.snapshot({1: 12}, [1, 2, 3, [11, 11], [12, 12]])
    two.log({1: 12}, [delete(13, 1)])
    return one, two


def test_directories_are_compared_where_both_have_been(pair: tuple[Directory, Directory]) -> None:
    one, two = pair
    found = audited([one.path, two.path])
    assert (found.is_same, found.vclock.as_dict()) == (True, {1: 13})
    assert next(space.rows for space in found.spaces if space.name == "test") == [4, 4]


def test_checksums_do_not_depend_on_pieces(pair: tuple[Directory, Directory], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one bucket, and of one bucket for every few rows."""
    one, two = pair
    before = audited([one.path, two.path])
    in_small_pieces(monkeypatch)
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 16)
    after = audited([one.path, two.path])
    assert [space.sums for space in before.spaces] == [space.sums for space in after.spaces]


def test_what_differs_is_listed_by_key(pair: tuple[Directory, Directory], tmp_path: Path) -> None:
    one, _ = pair
    three = Directory(tmp_path / "three", member=3)
    three.definitions += [(280, definition(600, "more")), (288, index(600))]
    three.snapshot({1: 13}, [2, 3, [11, "11"], [12, 12], [40, 0]])
    found = audited([one.path, three.path])
    assert not found.is_same
    assert found_keys(found)["test"] == [[11], [40]]
    assert next(space.rows for space in found.spaces if space.name == "more") == [None, 0]
    assert found_keys(found)["_space"] == [[600]]
    assert found_keys(audited([one.path, three.path], spaces=frozenset({"test"}), limit=1)) == {"test": [[11]]}


def test_another_primary_key_is_told(pair: tuple[Directory, Directory], tmp_path: Path) -> None:
    one, _ = pair
    three = Directory(tmp_path / "three", member=3)
    three.definitions = [(280, definition()), (288, index(parts=[[1, "unsigned"]]))]
    three.snapshot({1: 13}, [2, 3])
    found = audited([one.path, three.path])
    assert "primary key" in next(space.note for space in found.spaces if space.name == "test")


def test_a_snapshot_goes_on_with_the_logs_of_another_place(pair: tuple[Directory, Directory], tmp_path: Path) -> None:
    one, two = pair
    old, new = one.path / "00000000000000000010.snap", two.path / "00000000000000000012.snap"
    assert audited([old, one.path]).vclock.as_dict() == {1: 10}
    found = audited([old, new, one.path])
    assert (found.is_same, found.vclock.as_dict()) == (True, {1: 12})
    with pytest.raises(Unreachable, match=r"rows \{1: 11\.\.12\} are in none of the files"):
        audited([old, new])


def test_directories_at_a_point_of_choice(pair: tuple[Directory, Directory]) -> None:
    one, two = pair
    found = audited([one.path, two.path], at=Target(vclock=VClock({1: 12})))
    assert (found.is_same, found.vclock.as_dict()) == (True, {1: 12})


def test_different_sets_are_refused_unless_that_is_meant(pair: tuple[Directory, Directory], tmp_path: Path) -> None:
    from headwater.pipeline.restore.build import Wish, restore

    one, _ = pair
    restore(LocalRunner(), Wish((str(one.path),), Target(), str(tmp_path / "to")))
    with pytest.raises(OptionError, match="different replica sets"):
        audited([one.path, tmp_path / "to"])
    assert audited([one.path, tmp_path / "to"], across_sets=True).is_same


# ---- the command -----------------------------------------------------------------------------------


def test_the_command_ends_with_a_verdict(pair: tuple[Directory, Directory], tmp_path: Path) -> None:
    one, two = pair
    run = CliRunner()
    same = run.invoke(app, [str(one.path), str(two.path), "--no-spark"])
    assert same.exit_code == 0
    assert re.fullmatch(r"same: [\d,]+ tuples in \d+ spaces at 2 places", same.stdout.splitlines()[-1])
    three = Directory(tmp_path / "three", member=3)
    three.snapshot({1: 13}, [2, 3, [11, 11], [12, 13]])
    other = run.invoke(app, [str(one.path), str(three.path), "--no-spark", "--json"])
    assert other.exit_code == 1
    told = json.loads(other.stdout)
    test = next(space for space in told["spaces"] if space["space"] == "test")
    assert test["differences"] == [{"key": [12], "tuples": [[12, 12], [12, 13]]}]
    assert test["checksums"][0] != test["checksums"][1]
    wrong = run.invoke(app, [str(one.path), str(tmp_path / "nothing"), "--no-spark"])
    assert wrong.exit_code == 2
    assert "does not exist" in wrong.stderr
    alone = run.invoke(app, [str(one.path), "--no-spark"])
    assert (alone.exit_code, "Two places at least" in alone.stderr) == (2, True)
    with pytest.raises(NotThere):
        audited([one.path, two.path], spaces=frozenset({"nope"}))
