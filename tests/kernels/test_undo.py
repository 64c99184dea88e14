"""One undo queue for the node: what is confirmed is forgotten from the front, what failed is undone from the end."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.packing import pack
from tests.kernels.stores import SPACE, add_space, memtx, primary

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It


def rows(space: Any, index: int = 0) -> list[bytes]:
    return list(space.index(index).select(It.ALL, b"\x90"))


def packed(*values: Any) -> list[bytes]:
    return [pack(value) for value in values]


def test_each_write_that_changes_something_leaves_a_record(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    assert node.undo_end == 0
    space.insert(pack([1, "a"]))
    space.replace(pack([1, "b"]))
    space.update(pack([1, "b"]), pack([1, "c"]))
    assert node.undo_end == 3
    assert space.delete(0, pack([9])) is None
    assert node.undo_end == 3
    space.delete(0, pack([1]))
    assert node.undo_end == 4


def test_rollback_undoes_newest_first_down_to_a_position(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    states = []
    for write in (
        lambda: space.insert(pack([1, "a"])),
        lambda: space.replace(pack([1, "b"])),
        lambda: space.insert(pack([2, "x"])),
        lambda: space.delete(0, pack([1])),
        lambda: space.update(pack([2, "x"]), pack([2, "y"])),
    ):
        states.append((node.undo_end, rows(space), space.bsize))
        write()
    for position, contents, size in reversed(states):
        node.rollback_to(position)
        assert (node.undo_end, rows(space), space.bsize) == (position, contents, size)


def test_confirmed_changes_stay(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    position = node.undo_end
    space.insert(pack([2, "a"]))
    node.confirm_to(position)
    assert node.undo_end == 2
    node.rollback_to(position)
    assert rows(space) == packed([1, "a"])
    with pytest.raises(ValueError):
        node.rollback_to(0)
    assert rows(space) == packed([1, "a"])


def test_confirming_twice_or_the_past_is_nothing(k: ModuleType) -> None:
    node = memtx(k)
    node.space(SPACE).insert(pack([1, "a"]))
    node.confirm_to(1)
    node.confirm_to(1)
    node.confirm_to(0)
    assert node.undo_end == 1


def test_positions_of_the_future_are_refused(k: ModuleType) -> None:
    node = memtx(k)
    for call in (node.rollback_to, node.confirm_to):
        with pytest.raises(ValueError):
            call(1)


def test_calls_take_part_in_the_order_of_changes(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    told: list[str] = []
    space.insert(pack([1, "a"]))
    node.push_undo(lambda: told.append(f"back 1 with {len(space)}"))
    space.insert(pack([2, "a"]))
    node.push_undo(lambda: told.append(f"back 2 with {len(space)}"), lambda: told.append("confirm 2"))
    space.insert(pack([3, "a"]))
    node.rollback_to(0)
    assert told == ["back 2 with 2", "back 1 with 1"]
    assert len(space) == 0


def test_confirm_calls_come_oldest_first(k: ModuleType) -> None:
    node = memtx(k)
    told: list[int] = []
    for number in range(5):
        node.push_undo(lambda: told.append(-1), lambda number=number: told.append(number))  # type: ignore[misc]
    node.confirm_to(3)
    assert told == [0, 1, 2]
    node.rollback_to(3)
    assert told == [0, 1, 2, -1, -1]


def test_nothing_is_recorded_while_undo_is_off(k: ModuleType) -> None:
    node = memtx(k)
    node.undo_enabled = False
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    space.delete(0, pack([1]))
    assert node.undo_end == 0


def test_ddl_is_unwound_between_the_writes_around_it(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "b"]))
    index = space.add_index(1, k.KeyDef([k.KeyPart(1, T.STRING)], [k.KeyPart(0, T.UNSIGNED)]), False)
    node.push_undo(lambda: space.detach_index(1))
    space.insert(pack([2, "a"]))
    assert rows(space, 1) == packed([2, "a"], [1, "b"])
    space.detach_index(1)
    node.push_undo(lambda: space.attach_index(index))
    space.delete(0, pack([1]))
    node.rollback_to(2)
    assert rows(space) == rows(space, 1) == packed([1, "b"])
    node.rollback_to(0)
    assert rows(space) == []
    assert space.index(1) is None


def test_truncate_is_unwound(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    for number in range(10):
        space.insert(pack([number, "a"]))
    contents = space.detach_all()
    node.push_undo(lambda: space.attach_all(contents))
    space.insert(pack([100, "new"]))
    node.rollback_to(5)
    assert rows(space) == packed(*([number, "a"] for number in range(5)))


def test_a_dropped_space_comes_back_with_its_tuples(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    node.remove_space(SPACE)
    node.push_undo(lambda: node.restore_space(space))
    other = add_space(k, node)
    node.push_undo(lambda: node.remove_space(SPACE) and None)
    other.insert(pack([7, "b"]))
    node.rollback_to(1)
    assert rows(node.space(SPACE)) == packed([1, "a"])


steps = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "delete", "confirm", "rollback"]), st.integers(0, 12), st.integers(0, 6)
    ),
    max_size=60,
)


@given(steps=steps)
def test_rollback_and_confirm_equal_a_list_of_states(k: ModuleType, steps: list[tuple[str, int, int]]) -> None:
    node = k.Memtx()
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    space.add_index(1, k.KeyDef([k.KeyPart(1, T.UNSIGNED)]), True)
    states: list[dict[int, int]] = [{}]
    confirmed = 0
    for what, number, value in steps:
        now = states[-1]
        if what in ("insert", "replace"):
            taken = {other for other, held in now.items() if held == value and other != number}
            refused = bool(taken) or (what == "insert" and number in now)
            if refused:
                with pytest.raises(k.DuplicateKey):
                    getattr(space, what)(pack([number, value]))
            else:
                getattr(space, what)(pack([number, value]))
                states.append({**now, number: value})
        elif what == "delete":
            space.delete(0, pack([number]))
            if number in now:
                states.append({key: held for key, held in now.items() if key != number})
        elif what == "confirm":
            confirmed = max(confirmed, min(number, len(states) - 1))
            node.confirm_to(confirmed)
        else:
            position = min(max(number, confirmed), len(states) - 1)
            node.rollback_to(position)
            del states[position + 1 :]
        assert node.undo_end == len(states) - 1
        assert rows(space) == packed(*([key, states[-1][key]] for key in sorted(states[-1])))
        by_value = sorted(states[-1].items(), key=lambda item: item[1])
        assert rows(space, 1) == packed(*([key, held] for key, held in by_value))
