"""Long calls leave the interpreter to other threads. What those may do, and what they are refused."""

from __future__ import annotations

import gc
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from tests.kernels.packing import INSERT, REPLACE, pack
from tests.kernels.stores import SPACE, add_space, memtx, primary
from tests.kernels.test_apply import put

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It

OTHER = 600
LONG = 70_000
"""Bytes of rows from which on the interpreter is left to others."""


def rows(count: int, first: int = 1) -> bytes:
    return b"".join(put(REPLACE, lsn, [lsn * 7919 % count, "x" * 40 + str(lsn)]) for lsn in range(first, first + count))


def test_handles_are_dropped_elsewhere_while_rows_are_applied(k: ModuleType) -> None:
    """Trees of a second space, and views of both, lose their last holder in the thread that does not write."""
    node = memtx(k)
    other = add_space(k, node, OTHER)
    data = rows(20_000 if k.__name__.endswith("_native") else 2000)
    seen: list[list[int]] = []
    for _ in range(4):
        held: list[Any] = []
        for number in range(400):
            other.insert(pack([number, "y" * (number % 90)]))
            if number % 20 == 0:
                held += [node.open_view([SPACE, OTHER]), other.detach_all()]
        node.confirm_to(node.undo_end)
        writer = Thread(target=lambda: seen.append(list(node.apply(data, 0, len(data), True))))
        writer.start()
        while held:
            held.pop()
        gc.collect()
        writer.join()
        other.detach_all()
    count = len(data.split(b"x" * 40)) - 1
    assert seen == [[len(data), count]] * 4
    assert len(node.space(SPACE)) == count
    assert len(node.space(SPACE).index(0).select(It.ALL, b"\x90")) == count


def test_a_sort_key_that_writes_is_refused(k: ModuleType) -> None:
    if k.__name__.endswith("pure"):
        pytest.skip("the plain twin trusts its caller here: it has no memory to lose")
    node = memtx(k)
    space = node.space(SPACE)
    refused: list[str] = []

    def sort_key(text: bytes) -> bytes:
        for call in (
            lambda: space.insert(pack([10**6, "no"])),
            lambda: space.index(0).get(b"\x91\x01"),
            lambda: node.open_view([SPACE]),
            lambda: node.confirm_to(0),
        ):
            with pytest.raises(RuntimeError, match="being written by another call") as caught:
                call()
            refused.append(str(caught.value))
        return text

    space.add_index(1, k.KeyDef([k.KeyPart(1, T.STRING, sort_key=sort_key)], [k.KeyPart(0, T.UNSIGNED)]), False)
    data = put(INSERT, 1, [1, "a" * LONG])
    assert node.apply(data, 0, len(data), False) == (len(data), 1)
    assert len(refused) == 4
    assert len(space) == 1


def test_a_space_is_let_go_by_the_sort_key_that_undoes_its_last_change(k: ModuleType) -> None:
    """Nobody but the undo record, and then nobody at all, holds the space while it is put back."""
    node = k.Memtx()
    held = [node.add_space(SPACE)]
    armed: list[bool] = []

    def sort_key(text: bytes) -> bytes:
        if armed:
            held.clear()
            gc.collect()
        return text

    held[0].add_index(0, primary(k), True)
    held[0].add_index(1, k.KeyDef([k.KeyPart(1, T.STRING, sort_key=sort_key)], [k.KeyPart(0, T.UNSIGNED)]), False)
    held[0].insert(pack([1, "a"]))
    node.remove_space(SPACE)
    armed.append(True)
    node.rollback_to(0)
    assert node.undo_end == 0
    assert not held
