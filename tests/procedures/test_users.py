"""Users, roles, privileges, functions, over CALL."""

from __future__ import annotations

from typing import Any

import pytest
from tests.procedures.node import CallNode

from headwater.box.procedures.grants import parse_privileges, privilege_names
from headwater.errors import AccessDenied, BoxError, Er
from headwater.store.users import User

USER, PRIV, FUNC = 304, 312, 296


def user(node: CallNode, name: str, *grants: tuple[Any, ...]) -> User:
    node.call("box.schema.user.create", name, {"password": "secret"})
    for grant in grants:
        node.call("box.schema.user.grant", name, *grant)
    return node.schema.users.by_name(name)


# ---- privileges as text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "bits"),
    [
        ("read", 1),
        ("read,write", 3),
        ("Read, Write and", 0),
        ("  write;READ ", 3),
        ("executeread", 5),
        ("read,read", 1),
        ("create,drop,alter,session,usage", 248),
        ("reference", 0),
        ("", 0),
        ("grant,metagrant", 24576),
        (3, 3),
        (None, 0),
        ([], 0),
    ],
)
def test_words_of_privileges(words: object, bits: int) -> None:
    assert parse_privileges(words) == bits


def test_names_of_privileges() -> None:
    assert privilege_names(1 | 2 | 4 | 128 | 256) == "read,write,execute,alter,reference"
    assert privilege_names(0) == ""


# ---- users --------------------------------------------------------------------------------------------


def test_a_new_user_has_the_privileges_that_tarantool_gives(node: CallNode) -> None:
    assert node.call("box.schema.user.create", "alice", {"password": "secret"}) == []
    row = node.select(USER, [32])[0]
    assert row[:4] == [32, 1, "alice", "user"]
    assert row[4] == {"chap-sha1": "FOZVZ6vbUTXQz9mnCzAywXmknuc="}
    assert row[5] == []
    assert row[6] > 1_700_000_000
    assert sorted(grant[2:] for grant in node.select(PRIV, [32])) == [
        ["role", 2, 4],
        ["universe", 0, 24],
        ["user", 32, 128],
    ]
    assert node.value("box.schema.user.info", "alice") == [
        ["execute", "role", "public"],
        ["session,usage", "universe", ""],
        ["alter", "user", "alice"],
    ]


def test_names_that_are_taken_or_free(node: CallNode) -> None:
    user(node, "alice")
    assert node.fails("box.schema.user.create", "alice").message == "User 'alice' already exists"
    assert node.call("box.schema.user.create", "alice", {"if_not_exists": True}) == []
    assert node.fails("box.schema.user.create", "public").message == "User 'public' already exists"
    assert node.value("box.schema.user.exists", "alice") is True
    assert node.value("box.schema.user.exists", "public") is False
    assert node.value("box.schema.user.exists", "bob") is False
    assert node.fails("box.schema.user.drop", "bob").message == "User 'bob' is not found"
    assert node.call("box.schema.user.drop", "bob", {"if_exists": True}) == []


def test_a_failed_create_leaves_nothing(node: CallNode) -> None:
    creator = user(node, "creator", ("create", "user"), ("read,write", "space", "_user"))
    node.rows()
    error = node.fails("box.schema.user.create", "alice", user=creator)
    assert isinstance(error, AccessDenied)
    assert node.value("box.schema.user.exists", "alice") is False
    assert node.rows() == []


def test_passwords(node: CallNode) -> None:
    alice = user(node, "alice", ("execute", "universe"))
    assert node.value("box.schema.user.password", "secret") == "FOZVZ6vbUTXQz9mnCzAywXmknuc="
    node.call("box.schema.user.passwd", "mine", user=alice)
    assert node.select(USER, [32])[0][4] == {"chap-sha1": node.value("box.schema.user.password", "mine")}
    node.call("box.schema.user.passwd", "alice", "hers")
    assert node.select(USER, [32])[0][4] == {"chap-sha1": node.value("box.schema.user.password", "hers")}
    assert node.fails("box.schema.user.passwd").message == "Usage: box.schema.user.passwd([user,] password)"
    assert node.fails("box.schema.user.passwd", "bob", "x").message == "User 'bob' is not found"
    other = user(node, "bob", ("execute", "universe"))
    words = "User 'alice' is not found"
    assert node.fails("box.schema.user.passwd", "alice", "stolen", user=other).message == words


def test_dropping_a_user_takes_what_he_owns(shop: CallNode) -> None:
    alice = user(shop, "alice", ("execute,create,read,write", "universe"))
    shop.call("box.schema.space.create", "hers", user=alice)
    shop.call("box.space.hers:create_index", "pk", {"sequence": True}, user=alice)
    shop.call("box.schema.func.create", "f", user=alice)
    shop.call("box.schema.sequence.create", "s", user=alice)
    shop.call("box.schema.user.drop", "alice")
    assert shop.select(USER, [32]) == []
    assert shop.select(PRIV, [32]) == []
    assert shop.select(280, [513]) == []
    assert shop.select(284) == []
    assert shop.value("box.schema.func.exists", "f") is False


@pytest.mark.parametrize("name", ["guest", "admin"])
def test_users_of_the_system_stay(node: CallNode, name: str) -> None:
    words = f"Failed to drop user or role '{name}': the user or the role is a system"
    assert node.fails("box.schema.user.drop", name).message == words


def test_nobody_drops_himself(node: CallNode) -> None:
    alice = user(node, "alice", ("super",))
    words = "Failed to drop user or role 'alice': the user is active in the current session"
    assert node.fails("box.schema.user.drop", "alice", user=alice).message == words


# ---- grants -------------------------------------------------------------------------------------------


def test_grants_add_up_and_revokes_take_away(shop: CallNode) -> None:
    user(shop, "alice")
    shop.call("box.schema.user.grant", "alice", "read", "space", "t")
    shop.call("box.schema.user.grant", "alice", "write", "space", "t")
    assert shop.select(PRIV, [32, "space", 512]) == [[1, 32, "space", 512, 3]]
    shop.call("box.schema.user.revoke", "alice", "read", "space", "t")
    assert shop.select(PRIV, [32, "space", 512]) == [[1, 32, "space", 512, 2]]
    shop.call("box.schema.user.revoke", "alice", "read,write", "space", "t")
    assert shop.select(PRIV, [32, "space", 512]) == []


@pytest.mark.parametrize(
    ("args", "row"),
    [
        (["read", "universe"], ["universe", 0, 25]),
        (["read", "space"], ["space", "", 1]),
        (["execute", "role", "replication"], ["role", 3, 4]),
        (["replication"], ["role", 3, 4]),
        (["execute", "lua_call", "shop.buy"], ["lua_call", "shop.buy", 4]),
        (["execute", "lua_call"], ["lua_call", "", 4]),
        (["execute", "lua_eval"], ["lua_eval", 0, 4]),
        (["create", "user"], ["user", "", 32]),
        (["execute", "function", "box.schema.user.info"], ["function", 1, 4]),
    ],
)
def test_what_can_be_granted(shop: CallNode, args: list[Any], row: list[Any]) -> None:
    user(shop, "alice")
    shop.call("box.schema.user.grant", "alice", *args)
    assert [1, 32, *row] in shop.select(PRIV, [32])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["read", "galaxy", "x"], "Unknown object type 'galaxy'"),
        (["execute", "space", "t"], "Unsupported space privilege 'execute'"),
        (["fly", "space", "t"], "Unsupported space privilege 'fly'"),
        (["read", "space", "nope"], "Space 'nope' does not exist"),
        (["execute", "function", "nope"], "Function 'nope' does not exist"),
        (["read", "sequence", "nope"], "Sequence 'nope' does not exist"),
        (["nope"], "Role 'nope' is not found"),
        (["alter", "user", "nope"], "User 'nope' is not found"),
        (["read", "space", True], "wrong object name type"),
        (["read", "space", "t", {"grantor": "nope"}], "User 'nope' is not found"),
    ],
)
def test_what_cannot_be_granted(shop: CallNode, args: list[Any], words: str) -> None:
    user(shop, "alice")
    assert shop.fails("box.schema.user.grant", "alice", *args).message == words


def test_granting_again_and_revoking_nothing(shop: CallNode) -> None:
    user(shop, "alice", ("read", "space", "t"), ("replication",))
    grant, revoke = "box.schema.user.grant", "box.schema.user.revoke"
    words = "User 'alice' already has read access on space 't'"
    assert shop.fails(grant, "alice", "read", "space", "t").message == words
    assert shop.fails(grant, "alice", "replication").message == "User 'alice' already has role 'replication'"
    assert shop.fails(grant, "alice", "usage", "universe").message.endswith("already has usage access on universe")
    assert shop.call(grant, "alice", "read", "space", "t", {"if_not_exists": True}) == []
    words = "User 'alice' does not have write access on space 't'"
    assert shop.fails(revoke, "alice", "write", "space", "t").message == words
    assert shop.fails(revoke, "alice", "super").message == "User 'alice' does not have role 'super'"
    assert shop.call(revoke, "alice", "write", "space", "t", {"if_exists": True}) == []
    assert shop.fails(grant, "bob", "read", "space", "t").message == "User 'bob' is not found"


def test_enable_and_disable(node: CallNode) -> None:
    user(node, "alice")
    node.call("box.schema.user.disable", "alice")
    assert ["universe", 0, 24] not in [row[2:] for row in node.select(PRIV, [32])]
    node.call("box.schema.user.disable", "alice")
    node.call("box.schema.user.enable", "alice")
    assert ["universe", 0, 24] in [row[2:] for row in node.select(PRIV, [32])]


def test_roles(shop: CallNode) -> None:
    alice = user(shop, "alice", ("execute", "universe"))
    shop.call("box.schema.role.create", "reader")
    assert shop.fails("box.schema.role.create", "reader").message == "Role 'reader' already exists"
    assert shop.call("box.schema.role.create", "reader", {"if_not_exists": True}) == []
    shop.call("box.schema.role.grant", "reader", "read", "space", "t")
    assert isinstance(shop.fails("box.space.t:select", user=alice), AccessDenied)
    shop.call("box.schema.user.grant", "alice", "reader")
    assert len(shop.value("box.space.t:select", user=alice)) == 3
    assert shop.value("box.schema.role.info", "reader") == [["read", "space", "t"]]
    assert shop.value("box.schema.role.exists", "reader") is True
    shop.call("box.schema.role.revoke", "reader", "read", "space", "t")
    assert isinstance(shop.fails("box.space.t:select", user=alice), AccessDenied)
    words = "Incorrect grant arguments: system privilege can not be granted to role"
    assert shop.fails("box.schema.role.grant", "reader", "session", "universe").message == words
    shop.call("box.schema.role.drop", "reader")
    assert shop.value("box.schema.role.exists", "reader") is False
    assert shop.fails("box.schema.role.info", "reader").message == "Role 'reader' is not found"
    assert shop.fails("box.schema.role.drop", "super").code == Er.DROP_USER


# ---- functions ----------------------------------------------------------------------------------------


def test_a_row_of_func_in_the_shape_of_its_schema(node: CallNode) -> None:
    assert node.call("box.schema.func.create", "f", {"comment": "mine", "is_deterministic": True}) == []
    row = node.select(FUNC, [66])[0]
    assert row[:9] == [66, 1, "f", 0, "LUA", "", "function", [], "any"]
    assert len(row) == 20
    assert node.fails("box.schema.func.create", "f").message == "Function 'f' already exists"
    assert node.call("box.schema.func.create", "f", {"if_not_exists": True}) == []
    assert node.value("box.schema.func.exists", "f") is True
    node.call("box.schema.func.drop", "f")
    assert node.fails("box.schema.func.drop", "f").message == "Function 'f' does not exist"
    assert node.call("box.schema.func.drop", "f", {"if_exists": True}) == []


def test_a_body_of_lua_is_kept_and_not_run(node: CallNode) -> None:
    node.call("box.schema.func.create", "f", {"body": "function() return 1 end"})
    error: BoxError = node.fails("f")
    assert error.code == Er.UNSUPPORTED
    assert "functions written in LUA" in error.message
