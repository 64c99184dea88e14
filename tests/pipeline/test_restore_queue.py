"""Synchronous transactions at a point: confirmed ones are in, open and rolled back ones are not; terms."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipeline.restoredirs import (
    SPACE,
    V2_3_1,
    Directory,
    behind,
    definition,
    index,
    keys_of,
    put,
    raft,
    sync,
    word,
)

from headwater.pipeline.restore.build import Built, Wish, restore
from headwater.pipeline.restore.errors import UnsafePoint
from headwater.pipeline.restore.identity import Identity
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import LocalRunner
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.synchro import decode_raft, decode_synchro
from headwater.wire.xrow import Row
from headwater.xlog import BytesFile, Reader, rows

CONFIRM, ROLLBACK, PROMOTE, DEMOTE = Type.RAFT_CONFIRM, Type.RAFT_ROLLBACK, Type.RAFT_PROMOTE, Type.RAFT_DEMOTE
START = {1: 10}
KEEP = Identity(keep=True)


def made(tmp_path: Path, log: list[Row], snapshot: list[Row] | None = None) -> Path:
    directory = Directory(tmp_path / "one")
    directory.snapshot(START, [1], extra=snapshot or [])
    directory.log(START, log)
    return directory.path


def built(path: Path, lsn: int | None, where: Path, identity: Identity | None = None, *, unsafe: bool = False) -> Built:
    target = Target(vclock=VClock({1: lsn})) if lsn is not None else Target()
    return restore(LocalRunner(), Wish((str(path),), target, str(where), identity or Identity(), unsafe))


def control_rows(snapshot: Path) -> list[Row]:
    reader = Reader(BytesFile(snapshot.read_bytes()))
    return [row for block in reader for row in rows(block) if row.type >= Type.RAFT]


def test_a_confirmed_transaction_is_in(tmp_path: Path) -> None:
    path = made(tmp_path, [sync(11, 11), word(CONFIRM, 12, 11), put(13, 13)])
    found = built(path, 13, tmp_path / "to")
    assert (keys_of(found.path), found.vclock.as_dict(), list(found.notes)) == ([1, 11, 13], {1: 13}, [])


def test_what_waits_at_the_point_is_left_out_with_all_that_waits_behind_it(tmp_path: Path) -> None:
    log = [put(11, 11), sync(12, 12), behind(13, 13), sync(14, 14), word(CONFIRM, 15, 14), put(16, 16)]
    found = built(made(tmp_path, log), 14, tmp_path / "to")
    assert (keys_of(found.path), found.vclock.as_dict()) == ([1, 11], {1: 11})
    assert any("3 transactions wait at the point" in note and "{1: 12}" in note for note in found.notes)


def test_what_a_confirm_behind_the_cut_names_is_in(tmp_path: Path) -> None:
    """The first is confirmed, the second waits: what is built ends between them, though the CONFIRM stands later."""
    log = [sync(11, 11), sync(12, 12), word(CONFIRM, 13, 11), word(CONFIRM, 14, 12)]
    found = built(made(tmp_path, log), 13, tmp_path / "to")
    assert (keys_of(found.path), found.vclock.as_dict()) == ([1, 11], {1: 11})


def test_what_was_rolled_back_is_left_out_though_its_numbers_are_used(tmp_path: Path) -> None:
    log = [sync(11, 11), sync(12, 12), behind(13, 13), word(CONFIRM, 14, 11), word(ROLLBACK, 15, 12), put(16, 16)]
    found = built(made(tmp_path, log), None, tmp_path / "to")
    assert (keys_of(found.path), found.vclock.as_dict()) == ([1, 11, 16], {1: 16})
    assert any("2 transactions were rolled back" in note for note in found.notes)


def test_the_next_owner_decides_about_what_waits(tmp_path: Path) -> None:
    promote = word(PROMOTE, 1, 11, owner=1, replica=2, term=3)
    log = [sync(11, 11), sync(12, 12), promote, put(2, 22, replica=2)]
    found = built(made(tmp_path, log), None, tmp_path / "to")
    assert keys_of(found.path) == [1, 11, 22]
    assert found.vclock.as_dict() == {1: 12, 2: 2}


def test_definitions_that_were_rolled_back_do_not_count(tmp_path: Path) -> None:
    log = [
        sync(11, definition(700, "gone")),
        word(ROLLBACK, 12, 11),
        put(13, 13),
    ]
    log[0].body = log[0].body.replace(b"\x10\xcd\x02\x00", b"\x10\xcd\x01\x18")
    assert set(built(made(tmp_path, log), None, tmp_path / "to").spaces) == {"test"}


def test_a_queue_over_many_parts_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits in one part and is named in another."""
    from headwater.pipeline.restore import material

    monkeypatch.setattr(material, "PART_BYTES", 1)
    log = [sync(11, 11), behind(12, 12), put(13, 13), word(CONFIRM, 14, 11), sync(15, 15), word(ROLLBACK, 16, 15)]
    found = built(made(tmp_path, log), None, tmp_path / "to")
    assert (keys_of(found.path), found.vclock.as_dict()) == ([1, 11, 12, 13], {1: 16})


def test_before_rows_said_so_the_space_does(tmp_path: Path) -> None:
    """2.6.0 marks no row: those of a synchronous space wait, and what comes behind them."""
    directory = Directory(tmp_path / "one", version=V2_3_1)
    directory.definitions = [(280, definition(options={"is_sync": True})), (288, index())]
    directory.definitions += [(280, definition(513, "other")), (288, index(513))]
    directory.snapshot(START, [1])
    log = [put(11, 11), word(CONFIRM, 12, 11), put(13, 13), put(14, 14, space=513), put(15, 15)]
    directory.log(START, log)
    found = built(directory.path, None, tmp_path / "to")
    assert (keys_of(found.path, SPACE), keys_of(found.path, 513)) == ([1, 11], [])
    assert found.vclock.as_dict() == {1: 12}


# ---- terms -----------------------------------------------------------------------------------------


def test_term_and_queue_are_written_down(tmp_path: Path) -> None:
    log = [raft(1, 4), word(PROMOTE, 11, 0, owner=0, term=4), sync(12, 12), word(CONFIRM, 13, 12)]
    found = built(made(tmp_path, log), None, tmp_path / "to", KEEP)
    vote, promote = control_rows(found.path)
    assert decode_raft(vote).term == 4
    said = decode_synchro(promote)
    assert (said.queue_owner_id, said.lsn, said.term, said.confirmed_vclock) == (1, 12, 4, {1: 12})
    assert found.vclock.as_dict() == {0: 1, 1: 13}


def test_in_a_new_set_nobody_else_owns_the_queue(tmp_path: Path) -> None:
    promote = word(PROMOTE, 1, 0, owner=0, replica=2, term=4)
    found = built(made(tmp_path, [promote]), None, tmp_path / "to")
    assert decode_synchro(control_rows(found.path)[1]).queue_owner_id == 0


def test_an_old_schema_gets_no_rows_that_its_servers_refuse(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "one", version=V2_3_1)
    directory.snapshot(START, [1])
    assert control_rows(built(directory.path, None, tmp_path / "to").path) == []


def test_an_old_identity_is_refused_where_the_leader_changed_since(tmp_path: Path) -> None:
    log = [put(11, 11), word(PROMOTE, 12, 0, owner=0, term=2), put(13, 13)]
    path = made(tmp_path, log)
    with pytest.raises(UnsafePoint, match=r"its leader has changed meanwhile: 1 PROMOTE.*--allow-unsafe"):
        built(path, 11, tmp_path / "to", KEEP)
    assert not (tmp_path / "to").exists()
    insisted = built(path, 11, tmp_path / "insisted", KEEP, unsafe=True)
    assert any("--allow-unsafe was given" in note for note in insisted.notes)
    assert built(path, 11, tmp_path / "new").vclock.as_dict() == {1: 11}
    assert built(path, 13, tmp_path / "end", KEEP).vclock.as_dict() == {1: 13}


def test_an_old_identity_within_one_term_is_only_warned_of(tmp_path: Path) -> None:
    found = built(made(tmp_path, [put(11, 11), put(12, 12)]), 11, tmp_path / "to", KEEP)
    assert any("second meaning" in note for note in found.notes)
