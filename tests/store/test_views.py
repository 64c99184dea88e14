"""What users see of the dictionary through its views."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_access import function
from tests.store.test_sequences import row as sequence_row
from tests.store.test_spaces import refusal

from headwater.errors import Er
from headwater.store import system
from headwater.store.settings import DEFAULTS
from headwater.store.users import User
from headwater.typing import IteratorType
from headwater.wire.msgpack import pack


@pytest.fixture
def ann(node: Dictionary) -> User:
    user = node.create_user(32, "ann")
    node.grant(32, "role", 2, 4)
    node.grant(32, "universe", 0, 24)
    for number in range(3):
        node.create_space(512 + number, f"t{number}", owner=32 if number == 2 else 1)
        node.create_index(512 + number, 0, [[0, "unsigned"]])
    return user


def ids(node: Dictionary, space_id: int, **options: object) -> list[object]:
    return [fields[0] for fields in node.rows(space_id, **options)]  # type: ignore[arg-type,index]


def test_admin_sees_all(node: Dictionary, ann: User) -> None:
    for view in (281, 286, 289, 297, 305, 313, 341, 277):
        assert node.rows(view) == node.rows(view - 1)


def test_a_user_sees_spaces_that_he_owns_or_may_use(node: Dictionary, ann: User) -> None:
    node.grant(32, "space", 513, 1)
    node.user = ann
    public = {system.TRUNCATE, 380} | {277, 281, 286, 289, 297, 305, 313, 341}
    assert set(ids(node, system.VSPACE)) == public | {513, 514}
    assert {512} & set(ids(node, system.VINDEX)) == set()
    assert ids(node, system.VSPACE, index_id=2, key=["t1"], it=IteratorType.EQ) == [513]
    assert ids(node, system.VSPACE, index_id=2, key=["t0"], it=IteratorType.EQ) == []
    reader = node.schema.space(system.VSPACE).reader(0, ann)
    assert reader.get(pack([512])) is None
    assert reader.get(pack([514])) is not None
    assert reader.count(IteratorType.ALL, pack([])) == len(reader) == len(public) + 2


def test_offset_limit_and_after_count_what_is_seen(node: Dictionary, ann: User) -> None:
    node.grant(32, "space", 513, 1)
    reader = node.schema.space(system.VSPACE).reader(0, ann)
    everything = reader.select(IteratorType.ALL, pack([]))
    assert reader.select(IteratorType.ALL, pack([]), 2, 3) == everything[2:5]
    assert reader.select(IteratorType.ALL, pack([]), 0, 2, everything[1]) == everything[2:4]
    assert reader.select(IteratorType.LE, pack([]), 0, 2) == everything[::-1][:2]
    assert reader.select(IteratorType.ALL, pack([]), 0, 0) == []


def test_a_privilege_on_all_spaces_or_on_the_universe_shows_them(node: Dictionary, ann: User) -> None:
    node.user = ann
    assert 512 not in ids(node, system.VSPACE)
    node.user = None
    node.grant(32, "space", "", 2)
    node.user = ann
    assert ids(node, system.VSPACE) == ids(node, system.SPACE)
    node.user = None
    node.delete(system.PRIV, 32, "space", "")
    node.replace(system.PRIV, 1, 32, "universe", 0, 24 | 8192)
    node.user = ann
    assert ids(node, system.VSPACE) == ids(node, system.SPACE)


def test_users_see_themselves_their_roles_and_public(node: Dictionary, ann: User) -> None:
    node.create_user(33, "readers", type="role")
    node.create_user(34, "staff", type="role")
    node.grant(34, "role", 33, 4)
    node.grant(32, "role", 34, 4)
    node.create_user(35, "child", owner=32)
    node.create_user(36, "stranger")
    node.user = ann
    assert ids(node, system.VUSER) == [2, 32, 33, 34, 35]


def test_privileges_are_seen_by_who_gave_and_who_has_them(node: Dictionary, ann: User) -> None:
    node.user = ann
    assert node.rows(system.VPRIV) == [[1, 32, "role", 2, 4], [1, 32, "universe", 0, 24]]


def test_functions_and_sequences_are_seen_by_who_may_use_them(node: Dictionary, ann: User) -> None:
    node.insert(system.FUNC, *function(100, "f"))
    node.insert(system.FUNC, *function(101, "g", owner=32))
    node.insert(system.SEQUENCE, *sequence_row(1, "s"))
    node.insert(system.SEQUENCE, *sequence_row(2, "mine", owner=32))
    node.user = ann
    assert ids(node, system.VFUNC) == [1, 65, 101]
    assert ids(node, system.VSEQUENCE) == [2]
    node.user = None
    node.grant(32, "function", 100, 4)
    node.grant(32, "sequence", 1, 2)
    node.user = ann
    assert ids(node, system.VFUNC) == [1, 65, 100, 101]
    assert ids(node, system.VSEQUENCE) == [1, 2]


def test_everybody_sees_collations(node: Dictionary, ann: User) -> None:
    node.user = ann
    assert len(node.rows(system.VCOLLATION)) == 277


def test_views_are_read_only_and_have_the_indexes_of_their_spaces(node: Dictionary) -> None:
    view = node.schema.space("_vspace")
    assert refusal(view.writable, "insert") == (Er.VIEW_IS_RO, "View '_vspace' is read-only")
    assert refusal(view.reader, 7, node.schema.users.admin) == (
        Er.NO_SUCH_INDEX_ID,
        "No index #7 is defined in space '_vspace'",
    )


def test_a_view_of_an_unknown_space_gets_no_index(node: Dictionary) -> None:
    node.insert(system.SPACE, 600, 1, "v", "sysview", 0, {}, [])
    text = "Can't create or modify index 'i0' in space 'v': unknown space for system view"
    assert refusal(node.create_index, 600, 0, [[0, "unsigned"]]) == (Er.MODIFY_INDEX, text)


def test_settings_of_a_session_are_shown_and_not_written(node: Dictionary) -> None:
    assert node.rows(system.SESSION_SETTINGS) == [list(pair) for pair in sorted(DEFAULTS.items())]
    assert node.rows(system.SESSION_SETTINGS, key=["sql_seq_scan"], it=IteratorType.EQ) == [["sql_seq_scan", False]]
    space = node.schema.space("_session_settings")
    assert refusal(space.writable, "update") == (
        Er.UNSUPPORTED,
        "_session_settings space does not support update()",
    )
