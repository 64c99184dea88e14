"""The ordinary path: what each request does, answers, refuses, and leaves for the journal."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.txn.node import INDEX, NOW, PRIV, SEQUENCE, SPACE, SPACE_SEQUENCE, TRUNCATE, Node, body_of

from headwater.errors import AccessDenied, BoxError, Er, IllegalParams
from headwater.store.context import Source
from headwater.txn.base import kernel_of
from headwater.typing import IteratorType
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row


@pytest.fixture
def full(node: Node) -> Node:
    for number in range(1, 6):
        node.insert("t", number, f"n{number}", number * 10)
    node.rows()
    return node


def refused(code: Er, call: Any, *args: Any, **parts: Any) -> BoxError:
    with pytest.raises(BoxError) as caught:
        call(*args, **parts)
    assert caught.value.code == code, caught.value.message
    return caught.value


# ---- what the journal gets ---------------------------------------------------------------------------


def test_insert_and_replace_are_written_as_they_are(node: Node) -> None:
    assert node.insert("t", 1, "a", 1) == [1, "a", 1]
    assert node.replace("t", 1, "b", 2) == [1, "b", 2]
    rows = node.rows()
    assert [(row.type, body_of(row)) for row in rows] == [
        (Type.INSERT, {0x10: 512, 0x21: [1, "a", 1]}),
        (Type.REPLACE, {0x10: 512, 0x21: [1, "b", 2]}),
    ]
    assert [row.lsn for row in rows] == [rows[0].lsn, rows[0].lsn + 1]
    assert all(row.is_commit and row.replica_id == 1 and row.timestamp == NOW for row in rows)


def test_update_is_written_as_operations_on_the_primary_key(full: Node) -> None:
    assert full.update("t", ["n3"], [["+", 2, 5]], index_id=1) == [[3, "n3", 35]]
    (row,) = full.rows()
    assert row.type == Type.UPDATE
    assert list(body_of(row).items()) == [(0x10, 512), (0x20, [3]), (0x21, [["+", 2, 5]])]


def test_update_counts_fields_from_the_base_it_names(full: Node) -> None:
    assert full.update("t", [3], [["=", 3, 7]], index_base=1) == [[3, "n3", 7]]
    assert list(body_of(full.rows()[0]).items()) == [(0x10, 512), (0x15, 1), (0x20, [3]), (0x21, [["=", 3, 7]])]


def test_what_finds_nothing_is_written_all_the_same(full: Node) -> None:
    assert full.update("t", ["nobody"], [["=", 2, 5]], index_id=1) == []
    assert full.delete("t", ["nobody"], index_id=1) == []
    assert [body_of(row) for row in full.rows()] == [
        {0x10: 512, 0x11: 1, 0x20: ["nobody"], 0x21: [["=", 2, 5]]},
        {0x10: 512, 0x11: 1, 0x20: ["nobody"]},
    ]


def test_delete_by_a_secondary_key_is_written_with_the_primary_key(full: Node) -> None:
    assert full.delete("t", ["n2"], index_id=1) == [[2, "n2", 20]]
    assert [body_of(row) for row in full.rows()] == [{0x10: 512, 0x20: [2]}]


def test_upsert_inserts_or_updates_and_answers_nothing(full: Node) -> None:
    assert full.upsert("t", [9, "n9", 1], [["+", 2, 1]]) == []
    assert full.upsert("t", [9, "n9", 1], [["+", 2, 1]], index_base=0) == []
    assert full.select("t", [9]) == [[9, "n9", 2]]
    assert [list(body_of(row)) for row in full.rows()] == [[0x10, 0x28, 0x21]] * 2


def test_upsert_that_would_move_the_tuple_changes_nothing_and_is_written(full: Node) -> None:
    assert full.upsert("t", [5, "x", 1], [["+", 0, 1]]) == []
    assert full.select("t", [5]) == [[5, "n5", 50]]
    assert len(full.rows()) == 1


def test_local_and_temporary_spaces(node: Node) -> None:
    node.make_space(600, "here", group_id=1)
    node.make_index(600, 0, "pk", [[0, "unsigned"]])
    node.make_space(601, "gone", temporary=True)
    node.make_index(601, 0, "pk", [[0, "unsigned"]])
    node.rows()
    node.insert("here", 1)
    node.insert("gone", 1)
    (row,) = node.rows()
    assert (row.group_id, row.replica_id, body_of(row)[0x10]) == (1, 0, 600)


def test_a_transaction_of_several_rows_has_one_number(full: Node) -> None:
    full.make_space(600, "here", group_id=1)
    full.make_index(600, 0, "pk", [[0, "unsigned"]])
    full.rows()
    txn = full.begin()
    full.insert("here", 1, txn=txn)
    full.insert("t", 7, "n7", 7, txn=txn)
    full.insert("t", 8, "n8", 8, txn=txn)
    full.statements.commit(txn)
    rows = full.rows()
    assert [row.is_commit for row in rows] == [False, False, True]
    assert {row.tsn for row in rows} == {rows[1].lsn}, "the first row that is not local gives the number"


# ---- errors, in 3.x's words --------------------------------------------------------------------------


def test_duplicate_key_names_index_space_and_both_tuples(full: Node) -> None:
    error = refused(Er.TUPLE_FOUND, full.insert, "t", 3, "new", 1.5)
    assert error.message == (
        'Duplicate key exists in unique index "pk" in space "t" with old tuple - [3, "n3", 30] '
        'and new tuple - [3, "new", 1.5]'
    )
    assert error.fields["old_tuple"] == pack([3, "n3", 30])
    error = refused(Er.TUPLE_FOUND, full.replace, "t", 3, "n4", 1)
    assert '"name"' in error.message
    error = refused(Er.TUPLE_FOUND, full.update, "t", [3], [["=", 1, "n4"]])
    assert full.rows() == []
    assert full.select("t", [3]) == [[3, "n3", 30]]


def test_primary_key_cannot_be_updated(full: Node) -> None:
    refused(Er.CANT_UPDATE_PRIMARY_KEY, full.update, "t", [3], [["=", 0, 77]])
    refused(Er.TUPLE_FOUND, full.update, "t", [3], [["=", 0, 4]])
    refused(Er.FIELD_TYPE, full.update, "t", [3], [["=", 0, "x"]])


def test_keys_are_checked_by_the_index(full: Node) -> None:
    error = refused(Er.EXACT_MATCH, full.delete, "t", [])
    assert error.fields["index"] == "pk"
    assert error.fields["key"] == pack([])
    refused(Er.KEY_PART_TYPE, full.delete, "t", ["x"])
    refused(Er.MORE_THAN_ONE_TUPLE, full.update, "t", [1], [], index_id=2)
    refused(Er.KEY_PART_COUNT, full.select, "t", [1, 2])
    refused(Er.NO_SUCH_INDEX_ID, full.select, "t", [1], index_id=9)
    refused(Er.NO_SUCH_INDEX_NAME, full.select, "t", [1], index_name="none")
    refused(Er.NO_SUCH_SPACE, full.select, "nowhere", [1])
    refused(Er.NO_SUCH_SPACE, full.select, 999, [1])
    with pytest.raises(IllegalParams, match="Invalid iterator type"):
        full.select(999, [1], iterator=99)


def test_iterators_of_other_kinds_of_index_are_refused(full: Node) -> None:
    full.make_space(600, "h")
    full.make_index(600, 0, "pk", [[0, "unsigned"], [1, "unsigned"]], type="hash")
    error = refused(Er.UNSUPPORTED_INDEX_FEATURE, full.select, "t", [1], iterator=IteratorType.OVERLAPS)
    assert error.message == "Index 'pk' (TREE) of space 't' (memtx) does not support requested iterator type"
    refused(Er.UNSUPPORTED_INDEX_FEATURE, full.select, "h", [1, 2], iterator=IteratorType.GE)
    error = refused(Er.PARTIAL_KEY, full.select, "h", [1], iterator=IteratorType.EQ)
    assert "HASH" in error.message
    full.insert("h", 1, 2)
    full.insert("h", 1, 3)
    assert full.select("h", [1, 2]) == [[1, 2]]
    assert len(full.select("h", [], iterator=IteratorType.GT)) == 2
    refused(Er.UNSUPPORTED_INDEX_FEATURE, full.select, "h", [], fetch_position=True)


def test_format_errors_name_the_field(node: Node) -> None:
    error = refused(Er.FIELD_TYPE, node.insert, "t", 1, 2, 3)
    assert (
        error.message
        == "Tuple field 2 (name) type does not match one required by operation: expected string, got unsigned"
    )
    assert error.fields["space"] == "t"
    refused(Er.FIELD_MISSING, node.replace, "t", 1, "x")


def test_a_space_without_indexes_takes_nothing(node: Node) -> None:
    node.make_space(600, "bare", [{"name": "id", "type": "unsigned"}])
    refused(Er.NO_SUCH_INDEX_ID, node.insert, "bare", 1)
    refused(Er.FIELD_TYPE, node.insert, "bare", "x")
    refused(Er.NO_SUCH_INDEX_ID, node.select, "bare")
    refused(Er.NO_SUCH_INDEX_ID, node.upsert, "bare", [1], [])


def test_too_large_a_tuple_is_refused(node: Node) -> None:
    node.options.assign({"memtx_max_tuple_size": 100})
    refused(Er.MEMTX_MAX_TUPLE_SIZE, node.insert, "t", 1, "x" * 100, 1)


def test_a_full_store_takes_no_more_but_lets_go(full: Node) -> None:
    full.options.assign({"memtx_memory": full.memtx.bytes_used + 10})
    error = refused(Er.MEMORY_ISSUE, full.insert, "t", 9, "x" * 50, 1)
    assert error.type_name == "OutOfMemory"
    refused(Er.MEMORY_ISSUE, full.update, "t", [1], [["=", 1, "y" * 50]])
    refused(Er.MEMORY_ISSUE, full.upsert, "t", [9, "x" * 50, 1], [])
    full.delete("t", [1])
    full.statements.apply([Row(Type.INSERT, 2, 0, 1, body=b"\x82\x10\xcd\x02\x00\x21" + pack([9, "x" * 50, 1]))])


def test_views_are_read_only_and_show_what_the_user_may_see(full: Node) -> None:
    refused(Er.VIEW_IS_RO, full.replace, 281, 1)
    user = full.make_user(40, "joe")
    full.user = user
    assert [row[2] for row in full.select("_vspace", [512])] == []
    refused(Er.ACCESS_DENIED, full.select, "t", [1])


# ---- privileges, read-only nodes ------------------------------------------------------------------------


def test_privileges_are_asked_before_anything_else_of_the_space(full: Node) -> None:
    full.user = full.make_user(40, "joe", t=1)
    assert full.select("t", [1])
    with pytest.raises(AccessDenied) as caught:
        full.insert("t", "not even a number")
    assert caught.value.message == "Write access to space 't' is denied for user 'joe'"


def test_a_read_only_node_says_why(full: Node) -> None:
    full.make_space(600, "here", group_id=1)
    full.make_index(600, 0, "pk", [[0, "unsigned"]])
    full.make_space(601, "gone", temporary=True)
    full.make_index(601, 0, "pk", [[0, "unsigned"]])
    full.read_only.update(by_config=True)
    error = refused(Er.READONLY, full.insert, "t", 1)
    assert error.message == "Can't modify data on a read-only instance - box.cfg.read_only is true"
    assert error.fields["reason"] == "config"
    full.insert("here", 1)
    full.insert("gone", 1)
    refused(Er.READONLY, full.make_space, 602, "more")
    refused(Er.READONLY, full.insert, PRIV, 1, 0, "universe", 0, 1)
    full.make_space(603, "temp", type="temporary")
    full.read_only.update(by_config=False, is_orphan=True)
    assert refused(Er.READONLY, full.insert, "t", 1).message.endswith("it is an orphan")
    full.read_only.update(is_orphan=False)
    full.insert("t", 7, "n7", 1)


# ---- SELECT --------------------------------------------------------------------------------------------


def test_pages(full: Node) -> None:
    seen: list[Any] = []
    position: bytes | None = None
    while True:
        answer = full.answer(
            Type.SELECT, space_name="t", index_id=2, key=[], iterator=IteratorType.ALL, limit=2, fetch_position=True,
            after_position=position,
        )  # fmt: skip
        if answer.position is None:
            break
        seen += [unpack(found) for found in answer.tuples]
        position = answer.position
    assert [row[0] for row in seen] == [1, 2, 3, 4, 5]
    assert position is not None
    assert unpack(base64.b64decode(position + b"==")) == [50, 5], "parts of the index, then of the primary key"


def test_a_page_after_a_tuple(full: Node) -> None:
    found = full.select("t", after_tuple=[3, "n3", 30], limit=1)
    assert found == [[4, "n4", 40]]
    found = full.select("t", [5], after_tuple=[4, "whatever", 0], iterator=IteratorType.LE)
    assert [row[0] for row in found] == [3, 2, 1]


@pytest.mark.parametrize("position", [b"garbage", b"kQ", b"kqFhAQ", b"kaFh", b"3/8"])
def test_a_position_that_is_none_is_refused(full: Node, position: bytes) -> None:
    refused(Er.ITERATOR_POSITION, full.select, "t", after_position=position)


def test_a_position_outside_of_the_search_is_refused(full: Node) -> None:
    at_three = base64.b64encode(pack([3])).rstrip(b"=")
    refused(Er.ITERATOR_POSITION, full.select, "t", [4], iterator=IteratorType.GE, after_position=at_three)
    refused(Er.ITERATOR_POSITION, full.select, "t", [4], after_position=at_three)
    refused(Er.ITERATOR_POSITION, full.select, "t", after_tuple=["x"])
    assert full.select("t", [3], after_position=at_three) == []
    assert full.select("t", [3], iterator=IteratorType.GE, after_position=b"")[0][0] == 3


# ---- sequences, triggers -----------------------------------------------------------------------------------


def test_a_sequence_fills_in_the_key_and_the_row_tells_the_number(node: Node) -> None:
    node.make_space(600, "auto")
    node.make_index(600, 0, "pk", [[0, "unsigned"]])
    node.insert(SEQUENCE, 1, 1, "auto_seq", 1, 1, 2**63 - 1, 1, 0, False)
    node.insert(SPACE_SEQUENCE, 600, 1, True, 0, "")
    node.rows()
    assert node.insert("auto", None, "a") == [1, "a"]
    assert node.insert("auto", 10, "b") == [10, "b"]
    assert node.insert("auto", None, "c") == [11, "c"]
    assert [body_of(row)[0x21][0] for row in node.rows()] == [1, 10, 11]


def test_before_replace_may_change_what_is_written(full: Node) -> None:
    space = full.schema.space("t")

    def upper(space: Any, old: bytes | None, new: bytes | None, ctx: Any) -> bytes | None:
        if new is None:
            return old
        id, name, rank = unpack(new)
        return None if name == "drop me" else new if name.isupper() else pack([id, name.upper(), rank])

    space.before_replace.append(upper)
    space.set_fast()
    assert full.insert("t", 7, "n7", 7) == [7, "N7", 7]
    assert full.update("t", [1], [["=", 1, "drop me"]]) == [[1, "n1", 10]]
    assert full.delete("t", [2]) == []
    assert full.upsert("t", [8, "n8", 8], []) == [[8, "N8", 8]], "it was made a REPLACE"
    assert full.insert("t", 9, "OK", 9) == [9, "OK", 9]
    assert [(row.type, body_of(row)) for row in full.rows()] == [
        (Type.REPLACE, {0x10: 512, 0x21: [7, "N7", 7]}),
        (Type.DELETE, {0x10: 512, 0x20: [1]}),
        (Type.NOP, {}),
        (Type.REPLACE, {0x10: 512, 0x21: [8, "N8", 8]}),
        (Type.INSERT, {0x10: 512, 0x21: [9, "OK", 9]}),
    ]


def test_on_replace_sees_both_tuples_and_can_refuse(full: Node) -> None:
    seen: list[tuple[bytes | None, bytes | None]] = []

    def watch(space: Any, old: bytes | None, new: bytes | None, ctx: Any) -> None:
        if new is not None and unpack(new)[2] > 100:
            raise BoxError(Er.PROC_LUA, "too much")
        seen.append((old, new))

    full.schema.space("t").on_replace.append(watch)
    full.replace("t", 1, "n1", 11)
    full.delete("t", [2])
    full.delete("t", [2])
    refused(Er.PROC_LUA, full.replace, "t", 3, "n3", 101)
    assert full.select("t", [3]) == [[3, "n3", 30]]
    assert [(old and unpack(old)[0], new and unpack(new)[2]) for old, new in seen] == [(1, 11), (2, None)]
    assert len(full.rows()) == 3


def test_truncation_of_a_local_space_is_written_as_a_local_row(full: Node) -> None:
    full.make_space(600, "here", group_id=1)
    full.make_index(600, 0, "pk", [[0, "unsigned"]])
    full.insert("here", 1)
    full.rows()
    full.upsert(TRUNCATE, [600, 1], [["+", 1, 1]])
    full.upsert(TRUNCATE, [512, 1], [["+", 1, 1]])
    assert [row.group_id for row in full.rows()] == [1, 0]
    assert full.select("here") == full.select("t") == []


def test_definitions_of_temporary_spaces_are_not_written(node: Node) -> None:
    node.make_space(2**30, "temp", type="temporary")
    node.make_index(2**30, 0, "pk", [[0, "unsigned"]])
    assert node.rows() == []
    node.insert("temp", 1)
    assert node.rows() == []


# ---- transactions -------------------------------------------------------------------------------------------


def test_statements_in_a_transaction(full: Node) -> None:
    txn = full.begin()
    full.insert("t", 7, "n7", 7, txn=txn)
    assert full.select("t", [7]) == []
    assert full.select("t", [7], txn=txn) == [[7, "n7", 7]]
    refused(Er.TUPLE_FOUND, full.insert, "t", 8, "n7", 1, txn=txn)
    assert full.ask(Type.UPDATE, txn, space_name="t", key=[7], tuple=[["+", 2, 1]]) == [[7, "n7", 8]]
    assert full.ask(Type.DELETE, txn, space_name="t", index_id=1, key=["n1"]) == [[1, "n1", 10]]
    full.ask(Type.UPSERT, txn, space_name="t", tuple=[2, "", 0], ops=[["-", 2, 5]])
    full.statements.commit(txn)
    assert full.select("t", [7]) == [[7, "n7", 8]]
    assert full.select("t", [2]) == [[2, "n2", 15]]
    assert [row.type for row in full.rows()] == [Type.INSERT, Type.UPDATE, Type.DELETE, Type.UPSERT]


def test_a_range_is_deleted_as_a_row_of_a_newer_server_says(full: Node) -> None:
    full.statements.apply([Row(Type.DELETE_RANGE, 2, 0, 1, body=_range([2], [4]))])
    assert [row[0] for row in full.select("t")] == [1, 4, 5]
    (row,) = full.rows()
    assert (row.type, row.replica_id, row.lsn) == (Type.DELETE_RANGE, 2, 1)
    assert unpack(row.body) == {0x10: 512, 0x37: [2], 0x38: [4]}


def _range(begin: list[int], end: list[int]) -> bytes:
    return b"\x83\x10\xcd\x02\x00\x37" + pack(begin) + b"\x38" + pack(end)


def test_a_schema_change_dooms_who_reads_the_space(full: Node) -> None:
    txn, other = full.begin(), full.begin()
    full.select("t", [1], txn=txn)
    full.select("_space", [512], txn=other)
    full.make_index(512, 3, "more", [[0, "unsigned"]])
    refused(Er.TRANSACTION_CONFLICT, full.select, "t", [1], txn=txn)
    full.statements.commit(other)
    assert kernel_of(full.schema.space("t")).fast


def test_schema_is_not_changed_in_an_interactive_transaction(full: Node) -> None:
    txn = full.begin()
    refused(Er.UNSUPPORTED, full.insert, SPACE, 600, 1, "x", "memtx", 0, {}, [], txn=txn)
    refused(Er.TRANSACTION_YIELD, full.statements.commit, txn)
    assert full.schema.find_space("x") is None


def test_several_changes_of_the_schema_in_one_direct_transaction(full: Node) -> None:
    txn = full.statements.begin(interactive=False)
    full.insert(SPACE, 600, 1, "x", "memtx", 0, {}, [], txn=txn)
    refused(Er.NO_SUCH_SPACE, full.insert, INDEX, 700, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]], txn=txn)
    full.insert(INDEX, 600, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]], txn=txn)
    full.insert("x", 1, txn=txn)
    full.statements.commit(txn)
    assert full.select("x") == [[1]]
    assert len({row.tsn for row in full.rows()}) == 1
    txn = full.statements.begin(interactive=False)
    full.insert(SPACE, 601, 1, "y", "memtx", 0, {}, [], txn=txn)
    full.statements.rollback(txn)
    assert full.schema.find_space("y") is None
    assert full.rows() == []


def test_time_runs_from_begin(full: Node) -> None:
    txn = full.begin(timeout=1.5)
    (timer,) = full.tasks.timers
    assert timer.delay == 1.5
    full.insert("t", 7, "n7", 7, txn=txn)
    timer.call()
    refused(Er.TRANSACTION_TIMEOUT, full.select, "t", [1], txn=txn)
    refused(Er.TRANSACTION_TIMEOUT, full.statements.commit, txn)
    txn = full.begin(timeout=1)
    full.statements.rollback(txn)
    assert full.tasks.timers[-1].cancelled
    full.begin()
    assert len(full.tasks.timers) == 2, "nobody waits a hundred years"


def test_local_rows_alone_cannot_be_synchronous(full: Node) -> None:
    full.make_space(600, "here", group_id=1)
    full.make_index(600, 0, "pk", [[0, "unsigned"]])
    full.rows()
    txn = full.begin()
    txn.is_sync = True
    full.insert("here", 1, txn=txn)
    with pytest.raises(IllegalParams, match="fully local"):
        full.statements.commit(txn)
    assert full.rows() == []
    txn = full.begin()
    txn.is_sync = True
    full.insert("t", 7, "n7", 7, txn=txn)
    full.statements.commit(txn)
    assert len(full.rows()) == 1


def test_levels_of_begin(full: Node) -> None:
    full.options.assign({"txn_isolation": "read-committed"})
    assert full.begin().isolation == 1
    assert full.begin(3).isolation == 3
    refused(Er.UNSUPPORTED, full.begin, 4)
    with pytest.raises(IllegalParams, match="unknown isolation level"):
        full.begin(5)
    with pytest.raises(IllegalParams, match="timeout must be a number greater than 0"):
        full.begin(timeout=-1)


# ---- rows from elsewhere --------------------------------------------------------------------------------------


def test_a_transaction_of_a_peer_keeps_its_numbers(full: Node) -> None:
    body = b"\x82\x10\xcd\x02\x00\x21"
    rows = [
        Row(Type.INSERT, 3, 0, 101, 5.0, tsn=101, body=body + pack([7, "n7", 7])),
        Row(Type.NOP, 3, 0, 102, 5.0, tsn=101),
        Row(Type.REPLACE, 3, 0, 103, 5.0, tsn=101, flags=1, body=body + pack([1, "one", 1])),
    ]
    full.statements.apply(rows)
    written = full.rows()
    assert [(row.replica_id, row.lsn, row.tsn, row.is_commit) for row in written] == [
        (3, 101, 101, False),
        (3, 102, 101, False),
        (3, 103, 101, True),
    ]
    assert full.memtx.vclock[3] == 103
    bad = Row(Type.INSERT, 3, 0, 104, tsn=104, body=body + pack([7, "again", 7]))
    refused(Er.TUPLE_FOUND, full.statements.apply, [Row(Type.DELETE, 3, 0, 104, body=_key(1)), bad])
    assert full.select("t", [1]) == [[1, "one", 1]]
    assert full.rows() == []


def _key(id: int) -> bytes:
    return b"\x82\x10\xcd\x02\x00\x20" + pack([id])


def test_recovery_writes_nothing(full: Node) -> None:
    row = Row(Type.UPSERT, 1, 0, 900, body=b"\x83\x10\xcd\x02\x00\x28\x90\x21" + pack([9, "n9", 9]))
    full.statements.recover([row], Source.XLOG)
    assert full.select("t", [9]) == [[9, "n9", 9]]
    assert full.rows() == []
    refused(Er.UNKNOWN_REQUEST_TYPE, full.statements.recover, [Row(Type.CALL, body=b"\x80")], Source.XLOG)


def test_columns_are_kept_as_a_row_but_not_taken_from_a_client(full: Node) -> None:
    body = b"\x82\x10\xcd\x02\x00\x36\xd4\x08\x01"
    refused(Er.UNSUPPORTED, full.answer, Type.INSERT_ARROW, space_name="t", arrow=b"\x01")
    full.statements.apply([Row(Type.INSERT_ARROW, 2, 0, 1, body=body)])
    (row,) = full.rows()
    assert row.body == body
