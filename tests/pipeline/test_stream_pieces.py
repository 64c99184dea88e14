"""The backlog of a stream, by values."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from headwater.client import Segment
from headwater.pipeline.history import History, changes_in, rows_between, unpack_schema
from headwater.pipeline.offsets import Phase, Position, Via, stream_position
from headwater.pipeline.pieces import Limit, Piece, Pieces, Run, stream_piece
from headwater.pipeline.ship import Load, Shipper
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, encode_packet

SET, MINE = UUID(int=7), UUID(int=9)


def row(lsn: int, space: int = 600, tuple: Sequence[object] = (1,), replica_id: int = 1) -> bytes:
    body = pack({int(Key.SPACE_ID): space, int(Key.TUPLE): list(tuple)})
    return encode_packet(Row(Type.REPLACE, replica_id, lsn=lsn, tsn=lsn, flags=1, body=body))


def segment(start: dict[int, int], end: dict[int, int], *rows: bytes) -> Segment:
    return Segment(start, end, b"".join(rows), len(rows), 1.0)


def backlog(*pieces: Piece, rows_max: int = 1) -> Pieces:
    made = Pieces(History(), rows_max)
    made.begin_stream(pieces[0].start if pieces else {})
    for piece in pieces:
        made.add(piece)
    return made


def plain(first: int, last: int) -> Piece:
    rows = [row(lsn) for lsn in range(first, last + 1)]
    return stream_piece(segment({1: first - 1}, {1: last}, *rows))


def at(lsn: int, **more: object) -> Position:
    return stream_position(SET, {1: lsn}, MINE, **more)  # type: ignore[arg-type]


def test_a_batch_ends_where_its_limit_says_and_never_inside_a_piece() -> None:
    pieces = backlog(plain(1, 10), plain(11, 20), plain(21, 30))
    assert pieces.reach(at(0), Limit(), None) == at(30)
    assert pieces.reach(at(0), Limit(20), None) == at(20)
    assert pieces.reach(at(0), Limit(19), None) == at(10)
    assert pieces.reach(at(0), Limit(1), None) == at(10), "something is always taken"
    assert pieces.reach(at(10), Limit(0, 1), None) == at(20)
    assert pieces.reach(at(30), Limit(), None) == at(30)
    assert pieces.reach(at(0), Limit(), {1: 15}) == at(20), "as far as it takes to have all of the target"
    assert pieces.reach(at(20), Limit(), {1: 15}) == at(20)


def test_rows_of_one_range_come_from_pieces_of_another_order() -> None:
    """Of a member that has rows of two others in another order than the one before it."""
    one = stream_piece(segment({}, {1: 2}, row(1), row(2)))
    two = stream_piece(segment({1: 2}, {1: 4, 2: 1}, row(3), row(1, replica_id=2), row(4)))
    three = stream_piece(segment({1: 4, 2: 1}, {1: 4, 2: 2}, row(2, replica_id=2)))
    pieces = backlog(one, two, three)
    assert pieces.between({}, {1: 2, 2: 1}) == [one, two]
    pieces.drop([one, two], {1: 2, 2: 1})
    assert list(pieces) == [two, three], "rows behind the batch are still to come"
    assert pieces.between({1: 2, 2: 1}, {1: 4, 2: 1}) == [two]
    start = stream_position(SET, {1: 2, 2: 1}, MINE)
    assert pieces.reach(start, Limit(), None).vclock == {1: 4, 2: 2}


def test_a_batch_without_room_for_it_is_dropped_piece_by_piece() -> None:
    one, two = plain(1, 2), plain(3, 4)
    pieces = backlog(one, two)
    held = pieces.memory
    pieces.drop([one], {1: 4})
    assert list(pieces) == [two], "what came since is not dropped with it"
    assert pieces.memory == held - one.memory
    assert pieces.dropped_to == {1: 2}


def test_what_trickles_in_becomes_one_piece_but_not_across_the_end_of_a_batch() -> None:
    pieces = backlog(*(plain(lsn, lsn) for lsn in range(1, 6)), rows_max=4)
    assert [piece.end for piece in pieces] == [{1: 4}, {1: 5}]
    assert pieces.memory == sum(piece.memory for piece in pieces)
    assert pieces.reach(at(0), Limit(), None) == at(5)
    pieces.add(plain(6, 6))
    assert [piece.rows for piece in pieces] == [4, 1, 1]
    (planned,) = pieces.between({1: 5}, {1: 9})
    pieces.add(plain(7, 7))
    assert pieces.between({1: 5}, {1: 9})[0] is planned
    assert next(iter(pieces)).data == b"".join(row(lsn) for lsn in range(1, 5))


def test_definitions_travel_in_the_offset() -> None:
    made = row(3, 280, [700, 1, "books", "memtx", 0, {}, [{"name": "id", "type": "unsigned"}]])
    index = row(4, 288, [700, 0, "pk", "tree", {"unique": True}, [[1, "unsigned"]]])
    renamed = row(6, 280, [700, 1, "volumes", "memtx", 0, {}, []])
    pieces = backlog(
        stream_piece(segment({1: 2}, {1: 4}, made, index)), stream_piece(segment({1: 4}, {1: 6}, row(5), renamed))
    )
    first = pieces.reach(at(2), Limit(1), None)
    assert unpack_schema(first.schema).names[700] == "books"
    assert unpack_schema(first.schema).keys[700] == (1,)
    assert unpack_schema(pieces.reach(first, Limit(), None).schema).names[700] == "volumes"
    assert unpack_schema(pieces.reach(at(2), Limit(), None).schema).names[700] == "volumes"
    assert unpack_schema("").names[280] == "_space"


def test_formats_travel_only_with_typed_rows() -> None:
    format_ = [{"name": f"field_{number}", "type": "unsigned"} for number in range(200)]
    changes = changes_in(row(1, 280, [700, 1, "books", "memtx", 0, {}, format_]))
    plain, typed = History().after("", changes), History("books").after("", changes)
    assert len(plain) < 120 < len(typed)
    assert len(unpack_schema(typed).space("books").fields) == 200


def test_only_changes_of_the_range_count() -> None:
    changes = changes_in(
        row(1, 280, [700, 1, "a", "memtx", 0, {}, []]) + row(2, 280, [700, 1, "b", "memtx", 0, {}, []])
    )
    assert rows_between(changes, {}, {1: 1}) == [changes[0]]
    assert rows_between(changes, {1: 1}, {1: 2}) == [changes[1]]
    assert rows_between(changes, {}, {2: 9}) == []


def run_with(*pieces: Piece, attempt: int = 0, is_whole: bool = True) -> Run:
    made = Run(attempt, {0: 1, 1: 50}, Via.SPOOL, schema="abc", is_whole=is_whole)
    made.pieces.extend(pieces)
    made.next = pieces[-1].next if pieces else 0
    return made


def rows(first: int, next: int) -> Piece:
    return Piece(next - first, 10 * (next - first), b"x" * 10, first=first, next=next)


def test_a_snapshot_is_handed_out_by_rows_and_the_stream_follows_it_in_a_batch_of_its_own() -> None:
    pieces = Pieces(History())
    pieces.begin_run(run_with(rows(0, 100), rows(100, 150)))
    pieces.add(plain(51, 60))
    begin = Position(SET, Phase.SNAPSHOT, {}, MINE)
    first = pieces.reach(begin, Limit(120), None)
    assert (first.phase, first.row, first.vclock, first.via) == (Phase.SNAPSHOT, 100, {0: 1, 1: 50}, Via.SPOOL)
    second = pieces.reach(first, Limit(), None)
    assert second.row == 150
    third = pieces.reach(second, Limit(), None)
    assert (third.phase, third.vclock, third.schema) == (Phase.STREAM, {1: 60}, "abc")
    assert pieces.rows(100, 150) == [rows(100, 150)]


def test_nothing_of_a_snapshot_is_handed_out_before_its_spaces_are_known() -> None:
    pieces = Pieces(History())
    run = run_with(rows(0, 100), is_whole=False)
    run.schema = ""
    pieces.begin_run(run)
    begin = Position(SET, Phase.SNAPSHOT, {}, MINE)
    assert pieces.reach(begin, Limit(), None) == begin


@pytest.mark.parametrize("phase", list(Phase))
def test_another_attempt_makes_all_positions_before_it_begin_at_its_first_row(phase: Phase) -> None:
    pieces = Pieces(History())
    pieces.begin_run(run_with(rows(0, 100), attempt=1))
    old = at(40) if phase is Phase.STREAM else Position(SET, Phase.SNAPSHOT, {1: 9}, MINE, 70, Via.SPOOL)
    assert pieces.run_after(old)
    reached = pieces.reach(old, Limit(), None)
    assert (reached.phase, reached.row, reached.attempt) == (Phase.SNAPSHOT, 100, 1)


def test_large_batches_go_by_file_and_small_ones_with_the_plan(tmp_path: object) -> None:
    shipper = Shipper(tmp_path, History(), "auto", 2)  # type: ignore[arg-type]
    small = [plain(1, 10), plain(11, 20)]
    (part,) = shipper.ship([Load("set", "", small, {}, {1: 20})])
    assert part.read() == b"".join(piece.data for piece in small)
    assert not shipper.taken_files()
    large = [Piece(1, 1 << 20, bytes([number]) * (1 << 20), end={1: number}) for number in range(1, 9)]
    parts = shipper.ship([Load("set", "", large, {}, {1: 8})])
    assert all(part.path for part in parts)
    assert len(parts) == 2
    assert b"".join(part.read() for part in parts) == b"".join(piece.data for piece in large)
    (file,) = shipper.taken_files()
    shipper.forget([file])
    assert not file.exists()


def test_a_part_begins_with_the_definitions_that_hold_there(tmp_path: object) -> None:
    shipper = Shipper(tmp_path, History(), "inline", 4)  # type: ignore[arg-type]
    filler = [stream_piece(segment({1: lsn - 1}, {1: lsn}, row(lsn, 600, [lsn, "x" * (1 << 20)]))) for lsn in (2, 4)]
    named = stream_piece(segment({1: 2}, {1: 3}, row(3, 280, [700, 1, "books", "memtx", 0, {}, []])))
    parts = shipper.ship([Load("set", "", [filler[0], named, filler[1]], {1: 1}, {1: 4})])
    assert [700 in unpack_schema(part.schema).names for part in parts] == [False, False, True]
