"""Read views: a frozen picture under later writes, and the snapshot rows they give."""

from __future__ import annotations

import struct
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import pack
from tests.kernels.stores import SPACE, add_space, memtx, primary

from headwater.typing import IteratorType as It


def packed(*values: Any) -> list[bytes]:
    return [pack(value) for value in values]


def test_fill_gives_snapshot_rows_to_the_byte(k: ModuleType) -> None:
    """protocol.md §2.14: INSERT, LSN from 0 (and then left out), one timestamp, space id as ce<u32>."""
    node = memtx(k)
    node.space(SPACE).insert(pack([1, "a"]))
    node.space(SPACE).insert(pack([2, "b"]))
    view = node.open_view([SPACE])
    tm = b"\x04\xcb" + struct.pack(">d", 1.5)
    first = b"\x82\x00\x02" + tm + b"\x82\x10\xce\x00\x00\x02\x00\x21\x92\x01\xa1a"
    second = b"\x83\x00\x02\x03\x01" + tm + b"\x82\x10\xce\x00\x00\x02\x00\x21\x92\x02\xa1b"
    assert view.fill(1 << 20, 0, 1.5) == (first + second, 2)
    assert view.fill(1 << 20, 2, 1.5) == (b"", 0)
    view.close()


def test_fill_marks_rows_of_local_spaces(k: ModuleType) -> None:
    node = k.Memtx()
    space = add_space(k, node, local=True)
    space.insert(pack([1, "a"]))
    data, count = node.open_view([SPACE]).fill(1 << 20, 200, 0.0)
    assert (data, count) == (b"\x83\x00\x02\x07\x01\x03\xcc\xc8\x82\x10\xce\x00\x00\x02\x00\x21\x92\x01\xa1a", 1)


def test_fill_goes_space_by_space_in_the_order_asked_for(k: ModuleType) -> None:
    node = k.Memtx()
    for space_id in (600, 512, 700):
        add_space(k, node, space_id)
        node.space(space_id).insert(pack([1, str(space_id)]))
    data, count = node.open_view([700, 512]).fill(1 << 20, 1, 1.0)
    assert count == 2
    assert data.index(b"\xa3700") < data.index(b"\xa3512")
    assert b"\xa3600" not in data


def test_fill_passes_its_limit_by_no_more_than_a_row(k: ModuleType) -> None:
    node = memtx(k)
    for number in range(100):
        node.space(SPACE).insert(pack([number, "x" * 100]))
    view = node.open_view([SPACE])
    lsn, out, sizes = 0, b"", []
    while True:
        data, count = view.fill(500, lsn, 1.5)
        if not count:
            break
        lsn, out = lsn + count, out + data
        sizes.append(len(data))
    assert lsn == 100
    assert all(500 <= size < 500 + 150 for size in sizes[:-1])
    whole = node.open_view([SPACE]).fill(1 << 20, 0, 1.5)
    assert whole == (out, 100)
    assert node.open_view([SPACE]).fill(0, 0, 1.5)[1] == 1


def test_a_view_does_not_see_later_writes(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    for number in range(10):
        space.insert(pack([number, "old"]))
    view = node.open_view([SPACE])
    space.insert(pack([100, "new"]))
    space.replace(pack([1, "new"]))
    space.delete(0, pack([2]))
    assert list(view.tuples(SPACE)) == packed(*([number, "old"] for number in range(10)))
    assert view.fill(1 << 20, 0, 0.0)[1] == 10
    assert len(space) == 10
    assert space.index(0).get(pack([1])) == pack([1, "new"])


def test_a_view_survives_truncate_and_rollback_and_drop(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    for number in range(10):
        space.insert(pack([number, "a"]))
    view = node.open_view([SPACE])
    space.detach_all()
    after_truncate = node.open_view([SPACE])
    space.insert(pack([1, "b"]))
    node.rollback_to(10)
    node.remove_space(SPACE)
    assert len(list(view.tuples(SPACE))) == 10
    assert list(after_truncate.tuples(SPACE)) == []


def test_views_of_different_times_stay_apart(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    views = []
    for number in range(20):
        views.append(node.open_view([SPACE]))
        space.insert(pack([number, "a"]))
    for number in (3, 17, 0, 9):
        views[number].close()
    for number, view in enumerate(views):
        if number not in (3, 17, 0, 9):
            assert list(view.tuples(SPACE)) == packed(*([n, "a"] for n in range(number)))


def test_closing_twice_or_with_rows_left_is_nothing(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    view = node.open_view([SPACE])
    space.delete(0, pack([1]))
    view.close()
    view.close()
    assert space.index(0).select(It.ALL, b"\x90") == []


def test_a_view_of_an_empty_space_has_no_rows(k: ModuleType) -> None:
    node = memtx(k)
    view = node.open_view([SPACE])
    assert view.fill(1, 0, 0.0) == (b"", 0)
    assert list(view.tuples(SPACE)) == []
    assert node.open_view([]).fill(1, 0, 0.0) == (b"", 0)


def test_a_view_has_nothing_of_spaces_that_were_not_asked_for(k: ModuleType) -> None:
    node = memtx(k)
    add_space(k, node, 600).insert(pack([1, "a"]))
    view = node.open_view([SPACE])
    with pytest.raises(ValueError):
        view.tuples(600)


def test_another_thread_reads_while_this_one_writes(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    count = 5000
    for number in range(count):
        space.insert(pack([number, "old"]))
    expected = node.open_view([SPACE]).fill(1 << 30, 0, 1.0)
    view = node.open_view([SPACE])
    out = bytearray()

    def read() -> None:
        lsn = 0
        while True:
            data, rows = view.fill(1000, lsn, 1.0)
            if not rows:
                return
            lsn += rows
            out.extend(data)

    reader = Thread(target=read)
    reader.start()
    number = 0
    while reader.is_alive() or number < count:
        space.replace(pack([number % count, "new"]))
        space.delete(0, pack([(number * 7) % count]))
        space.replace(pack([count + number, "more"]))
        number += 1
    reader.join()
    view.close()
    assert bytes(out) == expected[0]


steps = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "open", "close", "rollback", "confirm"]), st.integers(0, 40)), max_size=80
)


@given(steps=steps)
def test_views_equal_copies_taken_at_their_time(k: ModuleType, steps: list[tuple[str, int]]) -> None:
    node = k.Memtx()
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    open_views: list[tuple[Any, list[bytes]]] = []
    confirmed = 0
    for number, (what, argument) in enumerate(steps):
        if what == "put":
            space.replace(pack([argument, number]))
        elif what == "drop":
            space.delete(0, pack([argument]))
        elif what == "open":
            open_views.append((node.open_view([SPACE]), list(space.index(0).select(It.ALL, b"\x90"))))
        elif what == "close" and open_views:
            open_views.pop(argument % len(open_views))[0].close()
        elif what == "rollback":
            node.rollback_to(max(confirmed, node.undo_end - argument))
        elif what == "confirm":
            confirmed = max(confirmed, node.undo_end - argument)
            node.confirm_to(confirmed)
        for view, expected in open_views:
            assert list(view.tuples(SPACE)) == expected
