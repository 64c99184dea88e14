"""Which files lead to a point: chains over members, and what is said of a torn, a missing, a foreign file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.pipeline.restoredirs import (
    MEMBERS,
    SPACE,
    Directory,
    body_row,
    change,
    definition,
    delete,
    index,
    keys_of,
    local,
    put,
    rows_of,
)
from tests.support.waiting import wait_until

from headwater.pipeline.errors import NotThere, OptionError, PipelineError, SourceDamaged
from headwater.pipeline.restore.build import Built, Wish, restore
from headwater.pipeline.restore.errors import TargetTaken, Unfit, Unreachable
from headwater.pipeline.restore.identity import Identity
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import LocalRunner
from headwater.pipeline.restore.staging import NAME
from headwater.vclock import VClock
from headwater.wire.constants import Type

FIRST = {1: 10}
KEEP = Identity(keep=True)


def at(**lsns: int) -> Target:
    return Target(vclock=VClock({int(name[1:]): lsn for name, lsn in lsns.items()}))


def built(directories: Sequence[Path], target: Target, where: Path, identity: Identity | None = None) -> Built:
    return restore(LocalRunner(), Wish(tuple(map(str, directories)), target, str(where), identity or Identity()))


@pytest.fixture
def one(tmp_path: Path) -> Directory:
    """A snapshot at 10 with keys 1 to 3, and logs up to 14, up to 18 and up to 20."""
    made = Directory(tmp_path / "one")
    made.snapshot(FIRST, [1, 2, 3])
    made.log(FIRST, [put(lsn, lsn) for lsn in range(11, 15)])
    made.log({1: 14}, [put(lsn, lsn) for lsn in range(15, 19)], prev=FIRST)
    made.log({1: 18}, [put(19, 19), delete(20, 1)], prev={1: 14}, eof=False)
    return made


# ---- points ----------------------------------------------------------------------------------------


def test_the_latest_point_is_the_end_of_the_files(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], Target(), tmp_path / "to")
    assert made.vclock.as_dict() == {1: 20}
    assert keys_of(made.path) == [2, 3, *range(11, 20)]
    assert made.path.name == "00000000000000000020.snap"


def test_a_vclock_in_the_middle_of_a_file(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], at(r1=16), tmp_path / "to")
    assert (made.vclock.as_dict(), keys_of(made.path)) == ({1: 16}, [1, 2, 3, *range(11, 17)])


def test_a_time_is_resolved_to_a_vclock(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], Target(time=12.5), tmp_path / "to")
    assert made.vclock.as_dict() == {1: 12}


def test_the_snapshot_itself_is_a_point(one: Directory, tmp_path: Path) -> None:
    assert keys_of(built([one.path], at(r1=10), tmp_path / "to").path) == [1, 2, 3]


def test_a_point_inside_a_transaction_goes_back_to_its_beginning(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one")
    made.snapshot(FIRST)
    rows = [put(lsn, lsn, tsn=12, flags=int(lsn == 14)) for lsn in (12, 13, 14)]
    made.log(FIRST, [put(11, 11), *rows, put(15, 15)])
    found = built([made.path], at(r1=13), tmp_path / "to")
    assert (found.vclock.as_dict(), keys_of(found.path)) == ({1: 11}, [11])
    assert any("{1: 12..14}" in note for note in found.notes)


def test_a_point_before_every_snapshot_is_refused(one: Directory, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"before the oldest snapshot.*00000000000000000010\.snap.*\{1: 10\}"):
        built([one.path], at(r1=9), tmp_path / "to")


def test_a_time_behind_the_files_is_told(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], Target(time=1e6), tmp_path / "to")
    assert made.vclock.as_dict() == {1: 20}
    assert any("The files end before" in note for note in made.notes)


def test_the_newest_snapshot_before_the_point_is_taken(one: Directory, tmp_path: Path) -> None:
    one.snapshot({1: 14}, [*range(1, 4), *range(11, 15)])
    made = built([one.path], at(r1=15), tmp_path / "to")
    assert keys_of(made.path) == [1, 2, 3, 11, 12, 13, 14, 15]
    os.unlink(one.path / "00000000000000000010.xlog")
    assert keys_of(built([one.path], at(r1=15), tmp_path / "again").path) == keys_of(made.path)


def test_a_vclock_that_no_member_was_at_is_built_and_told(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one")
    made.snapshot({1: 10, 2: 5})
    made.log({1: 10, 2: 5}, [put(11, 11), put(12, 12), put(6, 26, replica=2), put(7, 27, replica=2), put(13, 13)])
    found = built([made.path], at(r1=11, r2=7), tmp_path / "to")
    assert (found.vclock.as_dict(), keys_of(found.path)) == ({1: 11, 2: 7}, [11, 26, 27])
    assert any("ever exactly at" in note for note in found.notes)


# ---- definitions -----------------------------------------------------------------------------------


def test_local_spaces_come_along(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one")
    made.definitions += [(280, definition(600, "mine", {"group_id": 1})), (288, index(600))]
    made.snapshot({0: 3, 1: 10})
    made.log({0: 3, 1: 10}, [put(11, 11), local(4, 1, 600), local(5, 2, 600), put(12, 12)])
    found = built([made.path], at(r1=11), tmp_path / "to")
    assert keys_of(found.path, 600) == [1, 2]
    assert found.vclock.as_dict() == {0: 5, 1: 11}


def test_a_space_of_another_engine_is_refused_by_name(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one")
    row = definition(600, "big")
    row[3] = "vinyl"
    made.definitions += [(280, row), (288, index(600))]
    made.snapshot(FIRST)
    with pytest.raises(Unfit, match="The space 'big' has the engine 'vinyl'"):
        built([made.path], Target(), tmp_path / "to")


def test_a_hash_index_and_rows_in_any_order(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one", definitions=[(280, definition()), (288, index(kind="hash"))])
    made.snapshot(FIRST, [7, 2, 9, 4])
    made.log(FIRST, [delete(11, 9), put(12, 5)])
    assert keys_of(built([made.path], Target(), tmp_path / "to").path) == [2, 4, 5, 7]


def test_a_snapshot_whose_rows_are_not_in_order_after_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What claims to be a tree's order is looked at, not believed."""
    from headwater.pipeline.restore import base, buckets

    monkeypatch.setattr(base, "MARK_STEP", 2000)
    monkeypatch.setattr(base, "MARKS_MAX", 1000)
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 4000)
    made = Directory(tmp_path / "one")
    keys = [*range(400), 3000, *range(400, 800)]
    made.snapshot(FIRST, [])
    path = made.path / "00000000000000000010.snap"
    data = path.read_bytes()[:-4]
    from headwater.wire.msgpack import pack
    from headwater.wire.xrow import encode_row
    from headwater.xlog import MAGIC_EOF, BlockEncoder

    for number, key in enumerate(keys):
        row = body_row(SPACE, pack([key, "x" * 40]))
        row.lsn = row.tsn = 1000 + number
        row.flags = 1
        data += BlockEncoder(compress=False).encode_one(encode_row(row))
    path.write_bytes(data + MAGIC_EOF)
    assert keys_of(built([made.path], Target(), tmp_path / "to").path) == sorted(keys)


def test_rows_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one")
    made.snapshot(FIRST, [1])
    made.log(FIRST, [change(Type.INSERT, 11, {0x10: SPACE, 0x21: [1, "again"]})])
    with pytest.raises(Unfit, match=r"INSERT of the space 'test', replica 1, LSN 11.*there already.*again"):
        built([made.path], Target(), tmp_path / "to")


# ---- damage ----------------------------------------------------------------------------------------


def test_a_missing_log_is_named_with_the_rows_that_are_lost(one: Directory, tmp_path: Path) -> None:
    os.unlink(one.path / "00000000000000000014.xlog")
    with pytest.raises(Unreachable) as told:
        built([one.path], at(r1=20), tmp_path / "to")
    words = str(told.value)
    assert "rows {1: 15..18} are in none of the files" in words
    assert "00000000000000000018.xlog, begins at {1: 18}" in words
    assert not (tmp_path / "to").exists()
    assert built([one.path], at(r1=14), tmp_path / "to").vclock.as_dict() == {1: 14}


def test_a_foreign_file_is_named(one: Directory, tmp_path: Path) -> None:
    other = Directory(tmp_path / "other", member=2)
    other.log({1: 25}, [put(26, 26)])
    shutil.copy(other.path / "00000000000000000025.xlog", one.path)
    with pytest.raises(SourceDamaged) as told:
        built([one.path], at(r1=12), tmp_path / "to")
    assert "00000000000000000025.xlog" in str(told.value)
    assert str(MEMBERS[2]) in str(told.value)


def test_a_torn_log_is_named_with_offset_and_lsn(one: Directory, tmp_path: Path) -> None:
    path = one.path / "00000000000000000014.xlog"
    one.log({1: 14}, [put(lsn, lsn) for lsn in range(15, 19)], prev=FIRST, blocks=1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 30])
    with pytest.raises(Unreachable) as told:
        built([one.path], at(r1=18), tmp_path / "to")
    words = str(told.value)
    offset = whole.rindex(b"\xd5\xba\x0b\xab")
    assert f"{path}, offset {offset}, after LSN 17: torn" in words
    assert "rows {1: 18} are in none of the files" in words


def test_the_torn_end_of_the_last_log_is_left_out_and_told(one: Directory, tmp_path: Path) -> None:
    path = one.path / "00000000000000000018.xlog"
    path.write_bytes(path.read_bytes()[:-5])
    made = built([one.path], Target(), tmp_path / "to")
    assert made.vclock.as_dict() == {1: 19}
    assert any("torn" in note and str(path) in note for note in made.notes)
    with pytest.raises(Unreachable, match="torn"):
        built([one.path], Target(time=1e6), tmp_path / "later")


def test_a_flipped_bit_is_named_with_offset_and_lsn(one: Directory, tmp_path: Path) -> None:
    path = one.path / "00000000000000000014.xlog"
    data = bytearray(path.read_bytes())
    offset = data.index(b"\xd5\xba\x0b\xab", data.index(b"\xd5\xba\x0b\xab") + 1)
    data[offset + 25] ^= 4
    path.write_bytes(data)
    with pytest.raises(Unreachable) as told:
        built([one.path], at(r1=18), tmp_path / "to")
    assert f"{path}, offset {offset}, after LSN 15" in str(told.value)


def test_a_flipped_bit_in_the_snapshot_is_named(one: Directory, tmp_path: Path) -> None:
    path = one.path / "00000000000000000010.snap"
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceDamaged, match=r"00000000000000000010\.snap, offset \d+"):
        built([one.path], Target(), tmp_path / "to")


def test_a_snapshot_without_its_end_makes_way_for_an_older_one(one: Directory, tmp_path: Path) -> None:
    path = one.snapshot({1: 14}, [1, 2, 3, *range(11, 15)])
    path.write_bytes(path.read_bytes()[:-4])
    made = built([one.path], at(r1=15), tmp_path / "to")
    assert keys_of(made.path) == [1, 2, 3, *range(11, 16)]
    assert any(str(path) in note and "no end marker" in note for note in made.notes)


def test_no_snapshot_at_all(tmp_path: Path) -> None:
    made = Directory(tmp_path / "one")
    made.log({}, [put(1, 1)])
    with pytest.raises(NotThere, match="No snapshot"):
        built([made.path], Target(), tmp_path / "to")


# ---- several members -------------------------------------------------------------------------------


def test_what_one_member_has_lost_another_gives(one: Directory, tmp_path: Path) -> None:
    os.unlink(one.path / "00000000000000000014.xlog")
    two = Directory(tmp_path / "two", member=2)
    two.log({1: 12}, [put(lsn, lsn) for lsn in range(13, 18)])
    two.log({1: 17}, [put(18, 18)], prev={1: 12})
    made = built([one.path, two.path], at(r1=20), tmp_path / "to")
    assert keys_of(made.path) == [2, 3, *range(11, 20)]
    assert any("another member" in note for note in made.notes)


def test_behind_a_flipped_bit_another_member_goes_on(one: Directory, tmp_path: Path) -> None:
    path = one.path / "00000000000000000014.xlog"
    data = bytearray(path.read_bytes())
    data[data.index(b"\xd5\xba\x0b\xab") + 25] ^= 4
    path.write_bytes(data)
    two = Directory(tmp_path / "two", member=2)
    two.log({1: 14}, [put(lsn, lsn) for lsn in range(15, 23)])
    assert built([one.path, two.path], at(r1=20), tmp_path / "to").vclock.as_dict() == {1: 20}


def test_who_has_what_is_missing_is_told(one: Directory, tmp_path: Path) -> None:
    os.unlink(one.path / "00000000000000000014.xlog")
    two = Directory(tmp_path / "two", member=2)
    two.log({1: 16}, [put(17, 17)])
    with pytest.raises(Unreachable, match=rf"rows \{{1: 15\.\.16\}}.*Given besides: instance {MEMBERS[2]}"):
        built([one.path, two.path], at(r1=20), tmp_path / "to")


def test_members_of_another_set_are_refused(one: Directory, tmp_path: Path) -> None:
    stranger = Directory(tmp_path / "stranger", member=9)
    stranger.log({1: 25}, [put(26, 26)])
    with pytest.raises(SourceDamaged, match=rf"00000000000000000025\.xlog.*of no member of it \(instance {MEMBERS[9]}"):
        built([one.path, stranger.path], at(r1=12), tmp_path / "to")
    made = built([one.path], at(r1=12), tmp_path / "other")
    with pytest.raises(SourceDamaged, match=rf"a foreign file: .*of the replica set {made.replicaset}"):
        built([one.path, tmp_path / "other"], at(r1=16), tmp_path / "to")


def test_snapshots_and_logs_may_lie_in_two_directories(one: Directory, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for path in one.path.glob("*.xlog"):
        path.rename(logs / path.name)
    assert built([one.path, logs], Target(), tmp_path / "to").vclock.as_dict() == {1: 20}


# ---- identity --------------------------------------------------------------------------------------


def test_by_default_it_is_a_new_set_of_one(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], Target(), tmp_path / "to")
    rows = rows_of(made.path)
    assert rows[320] == [[1, str(made.instance)]]
    assert made.instance not in MEMBERS.values()
    assert ["replicaset_uuid", made.replicaset] in rows[272]


def test_a_kept_identity_keeps_the_members(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], Target(), tmp_path / "to", KEEP)
    assert made.instance == MEMBERS[1]
    assert [row[1] for row in rows_of(made.path)[320]] == [str(MEMBERS[number]) for number in (1, 2, 3)]
    other = Identity(keep=True, instance=MEMBERS[3])
    assert built([one.path], Target(), tmp_path / "three", other).instance == MEMBERS[3]


def test_a_kept_identity_is_told_of_rows_behind_the_point(one: Directory, tmp_path: Path) -> None:
    made = built([one.path], at(r1=12), tmp_path / "to", KEEP)
    assert any("gone on from {1: 12} to {1: 20}" in note for note in made.notes)


def test_an_identity_that_nobody_has_cannot_be_kept(one: Directory, tmp_path: Path) -> None:
    from uuid import UUID

    stranger = Identity(keep=True, instance=UUID(int=7))
    with pytest.raises(OptionError, match="is no member of the set"):
        built([one.path], Target(), tmp_path / "to", stranger)


# ---- the target ------------------------------------------------------------------------------------


def test_a_target_that_is_not_empty_is_refused(one: Directory, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "mine.txt").write_text("mine")
    with pytest.raises(TargetTaken, match=r"is not empty: mine\.txt"):
        built([one.path], Target(), tmp_path / "to")
    assert (tmp_path / "to" / "mine.txt").read_text() == "mine"


def test_an_empty_target_is_taken(one: Directory, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    made = built([one.path], Target(), tmp_path / "to")
    assert [path.name for path in (tmp_path / "to").iterdir()] == [made.path.name]


def test_what_the_disk_refuses_is_told(one: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.pipeline.restore import build

    with pytest.raises(PipelineError, match=r"/proc/nothing: .*may this user write there"):
        built([one.path], Target(), Path("/proc/nothing/here"))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "to"))

    monkeypatch.setattr(build, "assemble", full)
    with pytest.raises(PipelineError, match=r"[Nn]o space left.*Is there room"):
        built([one.path], Target(), tmp_path / "to")
    assert not (tmp_path / "to").exists()


_HANGS = """
import sys, time
from headwater.pipeline.restore import build
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import LocalRunner
def hang(*args):
    print("hangs", flush=True)
    time.sleep(600)
build.assemble = hang
build.restore(LocalRunner(), build.Wish((sys.argv[1],), Target(), sys.argv[2]))
"""


def test_killed_half_way_it_leaves_nothing_finished_and_can_be_run_again(one: Directory, tmp_path: Path) -> None:
    to = tmp_path / "to"
    command = [sys.executable, "-c", _HANGS, str(one.path), str(to)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "hangs\n"
        with pytest.raises(TargetTaken, match="is being built by another process"):
            built([one.path], Target(), to)
        run.kill()
    assert [path.name for path in to.iterdir()] == [NAME]
    wait_until(lambda: run.poll() is not None, 10, "the killed process ends")
    made = built([one.path], Target(), to)
    assert [path.name for path in to.iterdir()] == [made.path.name]
