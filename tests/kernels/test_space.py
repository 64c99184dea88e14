"""Writes: format first, then every unique index, then all indexes change or none."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from tests.kernels.packing import pack
from tests.kernels.stores import SPACE, memtx, primary

from headwater.errors import MsgPackError
from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It


def rows(index: Any) -> list[bytes]:
    return list(index.select(It.ALL, b"\x90"))


def packed(*values: Any) -> list[bytes]:
    return [pack(value) for value in values]


@pytest.fixture
def node(k: ModuleType) -> Any:
    """Spaces live as long as their node does."""
    return k.Memtx()


def with_secondary(
    k: ModuleType, node: Any, *, unique: bool, nullable: bool = False, exclude_null: bool = False
) -> Any:
    """[unsigned id, unsigned value, …] with an index 1 on field 1."""
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    part = k.KeyPart(1, T.UNSIGNED, nullable, exclude_null)
    space.add_index(1, k.KeyDef([part], [k.KeyPart(0, T.UNSIGNED)]), unique)
    return space


def test_insert_keeps_the_bytes_it_was_given(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    row = b"\xdc\x00\x02\xcf\x00\x00\x00\x00\x00\x00\x00\x01\xd9\x01a"
    space.insert(row)
    assert rows(space.index(0)) == [row]
    assert (len(space), space.bsize) == (1, len(row))


def test_insert_of_a_key_that_is_there_is_refused(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    with pytest.raises(k.DuplicateKey) as caught:
        space.insert(pack([1, "b"]))
    error = caught.value
    assert (error.index_id, error.old, error.new) == (0, pack([1, "a"]), pack([1, "b"]))
    assert rows(space.index(0)) == [pack([1, "a"])]


def test_replace_gives_the_tuple_that_was_there(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    assert space.replace(pack([1, "a"])) is None
    assert space.replace(pack([1, "bb"])) == pack([1, "a"])
    assert rows(space.index(0)) == [pack([1, "bb"])]
    assert space.bsize == len(pack([1, "bb"]))


def test_a_wrong_tuple_changes_nothing(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    for row in (pack([1]), pack(["a", "b"]), pack([1, 2])):
        with pytest.raises(k.FormatViolation):
            space.insert(row)
        with pytest.raises(k.FormatViolation):
            space.replace(row)
    for row in (b"", b"\x01", b"\x92\x01", b"\x92\x01\xa1a\x00"):
        with pytest.raises(MsgPackError):
            space.insert(row)
        with pytest.raises(MsgPackError):
            space.replace(row)
    assert len(space) == 0
    assert node.undo_end == 0


def test_delete_gives_the_tuple_or_nothing(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    assert space.delete(0, pack([2])) is None
    assert space.delete(0, pack([1])) == pack([1, "a"])
    assert space.delete(0, pack([1])) is None
    assert (len(space), space.bsize) == (0, 0)


def test_delete_by_a_secondary_key_empties_all_indexes(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    assert space.delete(1, pack([10])) == pack([1, 10])
    assert rows(space.index(0)) == rows(space.index(1)) == []


def test_update_swaps_a_tuple_in_all_indexes(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    space.insert(pack([2, 20]))
    space.update(pack([1, 10]), pack([1, 30]))
    assert rows(space.index(0)) == packed([1, 30], [2, 20])
    assert rows(space.index(1)) == packed([2, 20], [1, 30])
    with pytest.raises(k.DuplicateKey):
        space.update(pack([1, 30]), pack([1, 20]))
    assert rows(space.index(1)) == packed([2, 20], [1, 30])


def test_update_of_what_is_not_there_is_refused(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    for old, new in (([1, 11], [1, 12]), ([2, 10], [2, 11]), ([1, 10], [2, 10])):
        with pytest.raises(ValueError):
            space.update(pack(old), pack(new))
    assert rows(space.index(0)) == rows(space.index(1)) == packed([1, 10])


def test_a_unique_secondary_index_refuses_a_second_tuple(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    for write in (space.insert, space.replace):
        with pytest.raises(k.DuplicateKey) as caught:
            write(pack([2, 10]))
        error = caught.value
        assert (error.index_id, error.old, error.new) == (1, pack([1, 10]), pack([2, 10]))
    assert rows(space.index(0)) == rows(space.index(1)) == packed([1, 10])


def test_replace_may_keep_its_own_secondary_key(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    assert space.replace(pack([1, 10, "x"])) == pack([1, 10])
    assert rows(space.index(0)) == rows(space.index(1)) == packed([1, 10, "x"])


def test_replace_that_would_lose_a_different_tuple_is_refused(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    space.insert(pack([2, 20]))
    with pytest.raises(k.DuplicateKey):
        space.replace(pack([1, 20]))
    assert rows(space.index(1)) == packed([1, 10], [2, 20])


def test_insert_names_the_first_index_that_refuses(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    space.insert(pack([2, 20]))
    with pytest.raises(k.DuplicateKey) as caught:
        space.insert(pack([1, 20]))
    assert caught.value.index_id == 0


def test_numbers_of_other_kinds_are_the_same_key(k: ModuleType, node: Any) -> None:
    space = node.add_space(SPACE)
    space.add_index(0, primary(k, 0, T.NUMBER), True)
    space.insert(pack([1]))
    with pytest.raises(k.DuplicateKey):
        space.insert(pack([1.0]))
    assert space.replace(pack([1.0])) == pack([1])
    assert rows(space.index(0)) == packed([1.0])


def test_a_non_unique_index_keeps_equals_in_primary_key_order(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=False)
    for row in ([3, 5], [1, 5], [2, 4], [4, 5]):
        space.insert(pack(row))
    index = space.index(1)
    assert rows(index) == packed([2, 4], [1, 5], [3, 5], [4, 5])
    assert index.select(It.EQ, pack([5])) == packed([1, 5], [3, 5], [4, 5])
    assert index.select(It.REQ, pack([5])) == packed([4, 5], [3, 5], [1, 5])
    space.delete(0, pack([3]))
    assert index.select(It.EQ, pack([5])) == packed([1, 5], [4, 5])


def test_nils_never_collide_in_a_unique_index(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True, nullable=True)
    for row in ([1, None], [2], [3, 7]):
        space.insert(pack(row))
    with pytest.raises(k.DuplicateKey):
        space.insert(pack([4, 7]))
    index = space.index(1)
    assert rows(index) == packed([1, None], [2], [3, 7])
    assert index.select(It.EQ, pack([None])) == packed([1, None], [2])
    assert index.get(pack([7])) == pack([3, 7])
    assert space.delete(0, pack([1])) == pack([1, None])
    assert rows(index) == packed([2], [3, 7])


def test_one_nil_of_two_parts_is_enough_not_to_collide(k: ModuleType, node: Any) -> None:
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    parts = [k.KeyPart(1, T.UNSIGNED, True), k.KeyPart(2, T.UNSIGNED, True)]
    space.add_index(1, k.KeyDef(parts, [k.KeyPart(0, T.UNSIGNED)]), True)
    for row in ([1, 5, None], [2, 5, None], [3, None, 5], [4, None, 5], [5, 5, 5]):
        space.insert(pack(row))
    with pytest.raises(k.DuplicateKey):
        space.insert(pack([6, 5, 5]))
    assert rows(space.index(1)) == packed([3, None, 5], [4, None, 5], [1, 5, None], [2, 5, None], [5, 5, 5])


def test_exclude_null_leaves_tuples_out_of_the_index_alone(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True, nullable=True, exclude_null=True)
    for row in ([1, None], [2], [3, 7]):
        space.insert(pack(row))
    assert len(space) == 3
    index = space.index(1)
    assert rows(index) == packed([3, 7])
    assert len(index) == 1
    space.replace(pack([3, None]))
    space.replace(pack([1, 8]))
    assert rows(index) == packed([1, 8])
    space.delete(0, pack([2]))
    assert rows(space.index(0)) == packed([1, 8], [3, None])


def test_an_index_is_built_from_what_is_there(k: ModuleType, node: Any) -> None:
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    for number in (3, 1, 2):
        space.insert(pack([number, 10 - number]))
    index = space.add_index(1, k.KeyDef([k.KeyPart(1, T.UNSIGNED)]), True)
    assert rows(index) == packed([3, 7], [2, 8], [1, 9])
    assert space.index(1) is index
    assert space.index(2) is None


def test_an_index_that_cannot_be_unique_leaves_nothing_behind(k: ModuleType, node: Any) -> None:
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    space.insert(pack([1, 5]))
    space.insert(pack([2, 5]))
    with pytest.raises(k.DuplicateKey) as caught:
        space.add_index(1, k.KeyDef([k.KeyPart(1, T.UNSIGNED)]), True)
    assert caught.value.index_id == 1
    assert {caught.value.old, caught.value.new} == {pack([1, 5]), pack([2, 5])}
    assert space.index(1) is None
    space.insert(pack([3, 5]))
    assert len(space) == 3


def test_a_detached_index_answers_nothing_and_comes_back(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    index = space.detach_index(1)
    assert index.id == 1
    assert space.index(1) is None
    for call in (
        lambda: index.select(It.ALL, b"\x90"),
        lambda: index.count(It.ALL, b"\x90"),
        lambda: index.get(pack([10])),
    ):
        with pytest.raises(ValueError):
            call()
    space.attach_index(index)
    assert rows(space.index(1)) == packed([1, 10])
    space.insert(pack([2, 20]))
    assert rows(index) == packed([1, 10], [2, 20])


def test_writes_do_not_need_a_detached_index(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    space.insert(pack([1, 10]))
    space.detach_index(1)
    space.insert(pack([2, 10]))
    assert rows(space.index(0)) == packed([1, 10], [2, 10])
    assert len(space.add_index(1, k.KeyDef([k.KeyPart(1, T.UNSIGNED)], [k.KeyPart(0, T.UNSIGNED)]), False)) == 2


def test_detach_all_empties_a_space_and_attach_all_fills_it_again(k: ModuleType, node: Any) -> None:
    space = with_secondary(k, node, unique=True)
    for number in range(100):
        space.insert(pack([number, 1000 - number]))
    before, size = rows(space.index(1)), space.bsize
    contents = space.detach_all()
    assert (len(space), space.bsize) == (0, 0)
    assert rows(space.index(0)) == rows(space.index(1)) == []
    space.insert(pack([5, 5]))
    assert rows(space.index(1)) == packed([5, 5])
    space.attach_all(contents)
    assert (len(space), space.bsize) == (100, size)
    assert rows(space.index(1)) == before
    space.insert(pack([500, 5]))
    assert len(space.index(1)) == 101


def test_check_all_finds_a_tuple_that_does_not_fit(k: ModuleType, node: Any) -> None:
    space = node.add_space(SPACE)
    space.add_index(0, primary(k), True)
    space.insert(pack([1, "a"]))
    space.insert(pack([2, 5]))
    space.check_all(k.TupleFormat([(T.UNSIGNED, False), (T.SCALAR, False)]))
    with pytest.raises(k.FormatViolation) as caught:
        space.check_all(k.TupleFormat([(T.UNSIGNED, False), (T.STRING, False)]))
    assert (caught.value.field, caught.value.got) == (1, "unsigned")


def test_a_new_format_is_used_by_the_next_write(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    space.insert(pack([1, "a"]))
    space.set_format(k.TupleFormat([(T.UNSIGNED, False), (T.UNSIGNED, False)], 2))
    with pytest.raises(k.FormatViolation):
        space.insert(pack([2, "a"]))
    space.insert(pack([2, 5]))
    assert len(space) == 2


def test_spaces_are_found_by_id_and_leave_and_return(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    assert space.id == SPACE
    assert node.space(1) is None
    space.insert(pack([1, "a"]))
    assert node.remove_space(SPACE) is space
    assert node.space(SPACE) is None
    node.restore_space(space)
    assert node.space(SPACE) is space
    assert rows(node.space(SPACE).index(0)) == packed([1, "a"])


def test_a_new_space_is_neither_fast_nor_allowed(k: ModuleType) -> None:
    node = k.Memtx()
    space = node.add_space(600, local=True, temporary=True)
    assert (space.fast, space.local, space.temporary) == (False, True, True)
    assert (len(space), space.bsize) == (0, 0)


def test_bytes_used_follows_the_tuples(k: ModuleType) -> None:
    node = memtx(k)
    space = node.space(SPACE)
    before = node.bytes_used
    for number in range(1000):
        space.insert(pack([number, "x" * 100]))
    assert node.bytes_used - before > 100 * 1000
