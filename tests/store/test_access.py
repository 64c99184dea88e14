"""Users, roles and privileges by rows of `_user` and `_priv`, and what they allow."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_spaces import refusal

from headwater.errors import AccessDenied, Er
from headwater.store import system
from headwater.store.context import Source
from headwater.store.privileges import ALL, ObjectType, Priv, PrivKey, priv_name
from headwater.store.space import Space
from headwater.store.users import NO_TOKEN, User
from headwater.typing import IteratorType
from headwater.wire.msgpack import pack

USER, PRIV, SPACE, INDEX = system.USER, system.PRIV, system.SPACE, system.INDEX
R, W, X, S, U, C, D, A = (int(bit) for bit in list(Priv)[:8])
GRANT, METAGRANT = int(Priv.GRANT), int(Priv.METAGRANT)


def denied(access: str, kind: str, name: str, user: str) -> str:
    return f"{access} access to {kind} '{name}' is denied for user '{user}'"


@pytest.fixture
def ann(node: Dictionary) -> User:
    """User 32 with the privileges of every new user."""
    user = node.create_user(32, "ann")
    node.grant(32, "role", 2, X)
    node.grant(32, "universe", 0, S | U)
    return user


def packet(kind: int, body: dict[int, object]) -> bytes:
    inner = pack({0x00: kind, 0x01: 1}) + pack(body)
    return b"\xce" + len(inner).to_bytes(4, "big") + inner


def bits(node: Dictionary, space_id: int, user: User) -> int:
    """What the compiled path does for him: it stops before a request that he may not make."""
    select = packet(1, {0x10: space_id, 0x11: 0, 0x12: 1, 0x13: 0, 0x14: 2, 0x20: []})
    delete = packet(5, {0x10: space_id, 0x11: 0, 0x20: [999]})
    served = [node.memtx.run(data, 0, len(data), user.token, False)[2] for data in (select, delete)]
    return R * served[0] + W * served[1]


@pytest.fixture
def space(node: Dictionary) -> Space:
    made = node.create_space(512)
    node.create_index(512, 0, [[0, "unsigned"]])
    return made


# ---- users ----------------------------------------------------------------------------------------


def test_users_and_roles_share_tokens_and_names(node: Dictionary) -> None:
    ann = node.create_user(32, "ann")
    assert node.schema.users.by_name("ann") is ann
    assert ann.token == 5
    node.create_user(33, "readers", type="role")
    assert refusal(node.schema.users.by_name, "readers") == (Er.NO_SUCH_USER, "User 'readers' is not found")
    node.delete(USER, 32)
    assert ann.token == NO_TOKEN
    assert node.create_user(34, "bob").token == 5


def test_the_thirty_third_user_is_refused(node: Dictionary) -> None:
    for number in range(27):
        node.create_user(100 + number, f"u{number}")
    text = "A limit on the total number of users has been reached: 32"
    assert refusal(node.create_user, 200, "last") == (Er.USER_MAX, text)
    assert node.rows(USER, key=[200], it=IteratorType.EQ) == []


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ([32, 1, "a", "x", {}, [], 0], Er.CREATE_USER, "Failed to create user 'a': unknown user type"),
        (
            [32, 1, "x" * 65001, "user", {}, [], 0],
            Er.CREATE_USER,
            f"Failed to create user '{'x' * 64}': user name is too long",
        ),
        (
            [32, 1, "", "user", {}, [], 0],
            Er.IDENTIFIER,
            "Invalid identifier '' (expected printable symbols only or it is too long)",
        ),
        (
            [32, 1, "r", "role", {"chap-sha1": "vhvewKp0tNyweZQ+cFKAlsyphfg="}, [], 0],
            Er.CREATE_ROLE,
            "Failed to create role 'r': authentication data can not be set for a role",
        ),
        (
            [32, 1, "a", "user", {"chap-sha1": 1}, [], 0],
            Er.INVALID_AUTH_DATA,
            "Invalid 'chap-sha1' data: scramble must be string",
        ),
        (
            [32, 1, "a", "user", {"chap-sha1": "x"}, [], 0],
            Er.INVALID_AUTH_DATA,
            "Invalid 'chap-sha1' data: invalid scramble size",
        ),
    ],
)
def test_a_bad_user_is_refused(node: Dictionary, fields: list[object], code: Er, text: str) -> None:
    assert refusal(node.insert, USER, *fields) == (code, text)


def test_guest_has_no_password(node: Dictionary) -> None:
    hashed = {"chap-sha1": "JHDAwG3uQv0WGLuZAFrcouydHhk="}
    assert refusal(node.replace, USER, 0, 1, "guest", "user", hashed, [], 0) == (
        Er.GUEST_USER_PASSWORD,
        "Setting password for guest user has no effect",
    )
    node.replace(USER, 0, 1, "guest", "user", {}, [], 0)
    assert node.schema.users.guest.definition.auth is None


def test_a_password_is_set_and_taken_back_with_its_row(node: Dictionary, ann: User) -> None:
    mark = node.mark
    node.replace(USER, 32, 1, "ann", "user", {"chap-sha1": "JHDAwG3uQv0WGLuZAFrcouydHhk="}, [], 0)
    assert ann.definition.auth is not None
    assert len(ann.definition.auth) == 20
    node.failed(mark)
    assert ann.definition.auth is None


def test_system_users_and_users_with_objects_stay(node: Dictionary, ann: User) -> None:
    text = "Failed to drop user or role '{}': {}"
    assert refusal(node.delete, USER, 1) == (Er.DROP_USER, text.format("admin", "the user or the role is a system"))
    assert refusal(node.delete, USER, 31) == (Er.DROP_USER, text.format("super", "the user or the role is a system"))
    assert refusal(node.delete, USER, 32) == (Er.DROP_USER, text.format("ann", "the user has objects"))
    node.delete(PRIV, 32, "role", 2)
    node.delete(PRIV, 32, "universe", 0)
    node.create_space(512, owner=32)
    assert refusal(node.delete, USER, 32) == (Er.DROP_USER, text.format("ann", "the user has objects"))
    node.delete(SPACE, 512)
    node.delete(USER, 32)


def test_a_role_that_somebody_has_stays(node: Dictionary, ann: User) -> None:
    node.create_user(33, "readers", type="role")
    node.grant(32, "role", 33, X)
    text = "Failed to drop user or role 'readers': the user has objects"
    assert refusal(node.delete, USER, 33) == (Er.DROP_USER, text)


def test_failed_journals_bring_users_back_with_their_privileges(node: Dictionary) -> None:
    bob = node.create_user(40, "bob")
    node.written()
    mark = node.mark
    node.delete(USER, 40)
    eve = node.create_user(41, "eve")
    assert eve.token == 5
    node.failed(mark)
    assert eve.is_dropped
    assert node.schema.users.by_name("bob") is bob
    assert node.schema.users.by_token(5) is bob


# ---- privileges -----------------------------------------------------------------------------------


def test_names_of_privileges() -> None:
    assert [priv_name(bit) for bit in (R, W | U, X, S, U, C, D, A, GRANT, METAGRANT, 1 << 20, 0)] == [
        "Read", "Write", "Execute", "Session", "Usage", "Create", "Drop", "Alter", "Grant", "Metagrant", "Any", "Any",
    ]  # fmt: skip


def test_a_privilege_on_a_space_counts_for_that_space_and_reaches_the_kernel(
    node: Dictionary, ann: User, space: Space
) -> None:
    other = node.create_space(513, "other")
    node.create_index(513, 0, [[0, "unsigned"]])
    check = node.schema.access.check_space
    assert refusal(check, ann, space, R) == (Er.ACCESS_DENIED, denied("Read", "space", "t", "ann"))
    assert refusal(check, ann, space, W) == (Er.ACCESS_DENIED, denied("Write", "space", "t", "ann"))
    node.grant(32, "space", 512, R)
    check(ann, space, R)
    assert refusal(check, ann, space, W)[0] == Er.ACCESS_DENIED
    assert (bits(node, 512, ann), bits(node, 513, ann)) == (R, 0)
    node.grant(32, "space", "", R | W)
    check(ann, other, W)
    assert (bits(node, 512, ann), bits(node, 513, ann)) == (R | W, R | W)
    node.delete(PRIV, 32, "space", "")
    assert (bits(node, 512, ann), bits(node, 513, ann)) == (R, 0)
    node.delete(PRIV, 32, "space", 512)
    assert bits(node, 512, ann) == 0


def test_privileges_on_the_universe_reach_every_space_also_new_ones(node: Dictionary, ann: User) -> None:
    node.replace(PRIV, 1, 32, "universe", 0, R | S | U)
    space = node.create_space(512)
    node.create_index(512, 0, [[0, "unsigned"]])
    assert bits(node, 512, ann) == R
    node.schema.access.check_space(ann, space, R)


def test_without_usage_nothing_is_allowed(node: Dictionary, ann: User) -> None:
    space = node.create_space(512, owner=32)
    node.create_index(512, 0, [[0, "unsigned"]])
    node.schema.access.check_space(ann, space, R | W)
    assert bits(node, 512, ann) == R | W
    node.delete(PRIV, 32, "universe", 0)
    text = denied("Usage", "universe", "", "ann")
    assert refusal(node.schema.access.check_space, ann, space, R) == (Er.ACCESS_DENIED, text)
    assert refusal(node.schema.access.check_session, ann) == (
        Er.ACCESS_DENIED,
        denied("Session", "universe", "", "ann"),
    )
    assert bits(node, 512, ann) == 0


def test_an_error_of_access_carries_its_parts(node: Dictionary, ann: User) -> None:
    with pytest.raises(AccessDenied) as caught:
        node.schema.access.check_space(ann, node.create_space(), R)
    assert caught.value.fields == {
        "object_type": "space", "object_name": "t", "access_type": "Read", "user": "ann",
    }  # fmt: skip


def test_admin_may_everything_and_super_too(node: Dictionary, ann: User, space: Space) -> None:
    node.schema.access.check_universe(node.schema.users.admin, ALL)
    assert bits(node, 512, node.schema.users.admin) == R | W
    node.grant(32, "role", 31, X)
    node.schema.access.check_space(ann, space, W)
    assert bits(node, 512, ann) == R | W
    node.delete(PRIV, 32, "role", 31)
    assert bits(node, 512, ann) == 0


def test_roles_pass_privileges_on_through_other_roles(node: Dictionary, ann: User, space: Space) -> None:
    node.create_user(33, "readers", type="role")
    node.create_user(34, "staff", type="role")
    node.grant(32, "role", 34, X)
    node.grant(34, "role", 33, X)
    assert bits(node, 512, ann) == 0
    node.grant(33, "space", 512, R)
    assert bits(node, 512, ann) == R
    node.grant(34, "space", 512, W)
    assert bits(node, 512, ann) == R | W
    node.delete(PRIV, 34, "role", 33)
    assert bits(node, 512, ann) == W
    node.delete(PRIV, 34, "space", 512)
    assert bits(node, 512, ann) == 0


def test_a_loop_of_roles_is_refused(node: Dictionary) -> None:
    for number, name in ((33, "a"), (34, "b"), (35, "c")):
        node.create_user(number, name, type="role")
    node.grant(33, "role", 34, X)
    node.grant(34, "role", 35, X)
    text = "Granting role '{}' to role '{}' would create a loop"
    assert refusal(node.grant, 35, "role", 33, X) == (Er.ROLE_LOOP, text.format("a", "c"))
    assert refusal(node.grant, 33, "role", 33, X) == (Er.ROLE_LOOP, text.format("a", "a"))
    node.grant(35, "role", 2, X)


def test_failed_journals_take_grants_and_revokes_back(node: Dictionary, ann: User, space: Space) -> None:
    node.create_user(33, "readers", type="role")
    node.grant(33, "space", 512, R)
    node.grant(32, "role", 33, X)
    node.written()
    mark = node.mark
    node.grant(33, "space", 512, R | W)
    node.delete(PRIV, 32, "role", 33)
    node.grant(32, "space", 512, W)
    assert bits(node, 512, ann) == W
    node.failed(mark)
    assert bits(node, 512, ann) == R
    assert node.schema.users.granted(32, PrivKey(ObjectType.SPACE, 512)) == 0


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ([1, 32, "thing", 0, R], Er.UNKNOWN_SCHEMA_OBJECT, "Unknown object type 'thing'"),
        ([99, 32, "universe", 0, R], Er.NO_SUCH_USER, "User '99' is not found"),
        ([1, 99, "universe", 0, R], Er.NO_SUCH_USER, "User '99' is not found"),
        ([1, 32, "space", 999, R], Er.NO_SUCH_SPACE, "Space '999' does not exist"),
        ([1, 32, "function", 999, X], Er.NO_SUCH_FUNCTION, "Function '999' does not exist"),
        ([1, 32, "sequence", 999, R], Er.NO_SUCH_SEQUENCE, "Sequence '999' does not exist"),
        ([1, 32, "role", 999, X], Er.NO_SUCH_ROLE, "Role '999' is not found"),
        ([1, 32, "role", 0, X], Er.NO_SUCH_ROLE, "Role 'guest' is not found"),
        ([1, 32, "user", 2, X], Er.NO_SUCH_USER, "User 'public' is not found"),
        ([1, 32, "universe", 0, 0], Er.GRANT, "Incorrect grant arguments: the grant tuple has no privileges"),
        ([1, 1, "universe", 0, R], Er.GRANT, "Incorrect grant arguments: can't revoke universe from the admin user"),
    ],
)
def test_a_bad_grant_is_refused(node: Dictionary, ann: User, fields: list[object], code: Er, text: str) -> None:
    before = node.rows(PRIV)
    assert refusal(node.replace, PRIV, *fields) == (code, text)
    assert node.rows(PRIV) == before


def test_the_universe_is_not_revoked_from_admin(node: Dictionary) -> None:
    text = "Incorrect grant arguments: can't revoke universe from the admin user"
    assert refusal(node.delete, PRIV, 1, "universe", 0) == (Er.GRANT, text)


# ---- who may grant and define ---------------------------------------------------------------------


def test_owners_grant_what_is_theirs_to_others(node: Dictionary, ann: User) -> None:
    node.create_space(512, owner=32)
    node.create_space(513, "other")
    node.user = ann
    node.grant(0, "space", 512, R, grantor=32)
    text = denied("Grant", "space", "other", "ann")
    assert refusal(node.grant, 0, "space", 513, R, grantor=32) == (Er.ACCESS_DENIED, text)
    node.grant(0, "role", 2, X, grantor=32)
    assert refusal(node.grant, 0, "role", 3, X, grantor=32)[0] == Er.ACCESS_DENIED


def test_who_may_grant_may_not_grant_himself_nor_hand_that_on(node: Dictionary, ann: User) -> None:
    node.create_space(512)
    node.grant(32, "space", 512, GRANT)
    node.user = ann
    node.grant(0, "space", 512, R, grantor=32)
    text = denied("Metagrant", "space", "t", "ann")
    assert refusal(node.grant, 0, "space", 512, GRANT, grantor=32) == (Er.ACCESS_DENIED, text)
    text = "Incorrect grant arguments: only object owner or admin can grant oneself"
    assert refusal(node.grant, 32, "space", 512, R, grantor=32) == (Er.GRANT, text)


def test_definitions_need_create_drop_and_alter(node: Dictionary, ann: User) -> None:
    node.create_space(512)
    node.create_index(512, 0, [[0, "unsigned"]])
    node.user = ann
    text = denied("Create", "space", "mine", "ann")
    assert refusal(node.create_space, 513, "mine", owner=32) == (Er.ACCESS_DENIED, text)
    assert refusal(node.delete, INDEX, 512, 0) == (Er.ACCESS_DENIED, denied("Drop", "space", "t", "ann"))
    assert refusal(node.create_index, 512, 1, [[0, "unsigned"]])[1] == denied("Create", "space", "t", "ann")
    assert refusal(node.replace, SPACE, 512, 1, "t", "memtx", 0, {}, [])[1] == denied("Alter", "space", "t", "ann")
    assert refusal(node.create_user, 40, "x", owner=32)[1] == denied("Create", "user", "x", "ann")
    node.user = None
    node.grant(32, "space", "", C)
    node.user = ann
    node.create_space(513, "mine", owner=32)
    node.create_index(513, 0, [[0, "unsigned"]])
    node.delete(INDEX, 513, 0)
    node.delete(SPACE, 513)


def test_truncate_needs_write_on_the_space(node: Dictionary, ann: User) -> None:
    node.create_space(512)
    node.create_index(512, 0, [[0, "unsigned"]])
    node.insert(512, 1)
    node.user = ann
    assert refusal(node.replace, system.TRUNCATE, 512, 1)[1] == denied("Write", "space", "t", "ann")
    node.user = None
    node.grant(32, "space", 512, W)
    node.user = ann
    node.replace(system.TRUNCATE, 512, 1)
    assert len(node.schema.space(512)) == 0


def test_a_dropped_user_is_told_so(node: Dictionary) -> None:
    bob = node.create_user(40, "bob")
    space = node.create_space(512, owner=40)
    node.replace(SPACE, 512, 1, "t", "memtx", 0, {}, [])
    node.delete(USER, 40)
    node.create_user(41, "eve")
    node.grant(41, "universe", 0, ALL)
    assert refusal(node.schema.access.check_space, bob, space, R) == (Er.NO_SUCH_USER, "User '40' is not found")
    assert refusal(node.schema.access.check_universe, bob, R) == (Er.NO_SUCH_USER, "User '40' is not found")


# ---- functions, calls, eval -----------------------------------------------------------------------


def function(number: int, name: str, owner: int = 1, language: str = "LUA", body: str = "") -> list[object]:
    head = [number, owner, name, 0, language, body, "function", [], "any", "none", "none"]
    return [*head, False, False, True, ["LUA"], {}, "", "", "", []]


def test_a_function_may_be_called_by_who_may_execute_it(node: Dictionary, ann: User) -> None:
    node.insert(system.FUNC, *function(100, "f"))
    node.insert(system.FUNC, *function(101, "g", body="function() end"))
    access = node.schema.access
    f, g = node.schema.function("f"), node.schema.function("g")
    assert f is not None
    assert g is not None
    text = denied("Execute", "function", "f", "ann")
    assert refusal(access.check_function, ann, f, persistent=f.is_persistent) == (Er.ACCESS_DENIED, text)
    node.grant(32, "function", 100, X)
    access.check_function(ann, f, persistent=False)
    node.grant(32, "lua_call", "g", X)
    access.check_call(ann, "g")
    assert refusal(access.check_function, ann, g, persistent=True)[0] == Er.ACCESS_DENIED
    node.grant(32, "function", "", X)
    access.check_function(ann, g, persistent=True)


def test_functions_without_a_row_are_granted_by_name_or_all_at_once(node: Dictionary, ann: User) -> None:
    access = node.schema.access
    assert refusal(access.check_call, ann, "h")[1] == denied("Execute", "function", "h", "ann")
    node.grant(32, "lua_call", "h", X)
    access.check_call(ann, "h")
    assert refusal(access.check_call, ann, "i")[0] == Er.ACCESS_DENIED
    node.grant(32, "lua_call", "", X)
    access.check_call(ann, "i")
    assert refusal(access.check_call, ann, "box.cfg", builtin=True)[0] == Er.ACCESS_DENIED
    node.delete(PRIV, 32, "lua_call", "")
    node.delete(PRIV, 32, "lua_call", "h")
    assert refusal(access.check_call, ann, "h")[0] == Er.ACCESS_DENIED


def test_eval_has_a_privilege_of_its_own(node: Dictionary, ann: User) -> None:
    text = denied("Execute", "universe", "", "ann")
    assert refusal(node.schema.access.check_eval, ann) == (Er.ACCESS_DENIED, text)
    node.grant(32, "lua_eval", "", X)
    node.schema.access.check_eval(ann)


def test_rows_of_peers_and_files_are_admins(node: Dictionary) -> None:
    ctx = node.schema.context(source=Source.PEER)
    assert ctx.user is node.schema.users.admin
