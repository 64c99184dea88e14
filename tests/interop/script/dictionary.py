"""DDL by rows of the system spaces, calls of built-in procedures, users and privileges."""

from __future__ import annotations

from collections.abc import Iterator

from tests.interop.script.calls import Call, call
from tests.interop.script.schema import LOOSE, UNIQUE, WORDS, named


def _ddl() -> Iterator[Call]:
    space = 700
    yield call("ddl space", "insert", space=280, tuple=[space, 1, "made", "memtx", 0, {}, []])
    yield call("ddl space twice", "insert", space=280, tuple=[space, 1, "made", "memtx", 0, {}, []])
    yield call("ddl same name", "insert", space=280, tuple=[701, 1, "made", "memtx", 0, {}, []])
    yield call("ddl no index yet", "insert", space=space, tuple=[1])
    yield call("ddl select no index", "select", space=space)
    yield call("ddl unknown engine", "insert", space=280, tuple=[702, 1, "x", "none", 0, {}, []])
    yield call("ddl empty name", "insert", space=280, tuple=[702, 1, "", "memtx", 0, {}, []])
    yield call(
        "ddl bad format", "insert", space=280, tuple=[702, 1, "x", "memtx", 0, {}, [{"name": "a", "type": "nope"}]]
    )
    yield call(
        "ddl two equal names", "insert", space=280, tuple=[702, 1, "x", "memtx", 0, {}, named(a="any") + named(a="any")]
    )
    yield call("ddl unknown option", "insert", space=280, tuple=[702, 1, "x", "memtx", 0, {"nope": 1}, []])
    yield call("ddl unknown owner", "insert", space=280, tuple=[702, 99, "x", "memtx", 0, {}, []])
    yield call("ddl short row", "insert", space=280, tuple=[702, 1, "x"])
    yield call("ddl secondary first", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[1, "string"]]])
    yield call("ddl non-unique primary", "insert", space=288, tuple=[space, 0, "p", "tree", LOOSE, [[0, "unsigned"]]])
    yield call("ddl unknown index type", "insert", space=288, tuple=[space, 0, "p", "btree", UNIQUE, [[0, "unsigned"]]])
    yield call("ddl unknown part type", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "nope"]]])
    yield call("ddl no parts", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, []])
    yield call(
        "ddl part twice", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "unsigned"], [0, "unsigned"]]]
    )
    yield call(
        "ddl nullable primary",
        "insert",
        space=288,
        tuple=[space, 0, "p", "tree", UNIQUE, [{"field": 0, "type": "unsigned", "is_nullable": True}]],
    )
    yield call("ddl array part", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "array"]]])
    yield call("ddl non-unique hash", "insert", space=288, tuple=[space, 0, "p", "hash", LOOSE, [[0, "unsigned"]]])
    yield call("ddl index of no space", "insert", space=288, tuple=[999, 0, "p", "tree", UNIQUE, [[0, "unsigned"]]])
    yield call("ddl primary", "insert", space=288, tuple=[space, 0, "p", "tree", UNIQUE, [[0, "unsigned"]]])
    for n in range(3):
        yield call(f"ddl row {n}", "insert", space=space, tuple=[n, "same", n if n else "text"])
    yield call(
        "ddl index over wrong type", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[2, "unsigned"]]]
    )
    yield call(
        "ddl unique index over equal", "insert", space=288, tuple=[space, 1, "s", "tree", UNIQUE, [[1, "string"]]]
    )
    yield call(
        "ddl index over missing field", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[5, "unsigned"]]]
    )
    yield call("ddl secondary", "insert", space=288, tuple=[space, 1, "s", "tree", LOOSE, [[1, "string"]]])
    yield call("ddl same index name", "insert", space=288, tuple=[space, 2, "s", "tree", LOOSE, [[1, "string"]]])
    yield call("ddl secondary used", "select", space=space, index=1, key=["same"], iterator="EQ")
    yield call("ddl format that does not fit", "update", space=280, key=[space], ops=[["=", 6, named(a="string")]])
    yield call(
        "ddl format that fits", "update", space=280, key=[space], ops=[["=", 6, named(a="unsigned", b="string")]]
    )
    yield call("ddl format refuses", "insert", space=space, tuple=[9, 9])
    yield call(
        "ddl index contradicts format", "insert", space=288, tuple=[space, 3, "t", "tree", LOOSE, [[1, "unsigned"]]]
    )
    yield call("ddl rename", "update", space=280, key=[space], ops=[["=", 2, "renamed"]])
    yield call("ddl field count that does not fit", "update", space=280, key=[space], ops=[["=", 4, 2]])
    yield call("ddl change id", "update", space=280, key=[space], ops=[["=", 0, 709]])
    yield call("ddl change engine", "update", space=280, key=[space], ops=[["=", 3, "vinyl"]])
    yield call("ddl drop primary before secondary", "delete", space=288, key=[space, 0])
    yield call("ddl drop space before index", "delete", space=280, key=[space])
    yield call("ddl truncate", "replace", space=330, tuple=[space, 1])
    yield call("ddl truncated", "select", space=space)
    yield call("ddl drop secondary", "delete", space=288, key=[space, 1])
    yield call("ddl drop primary", "delete", space=288, key=[space, 0])
    yield call("ddl drop truncate", "delete", space=330, key=[space])
    yield call("ddl drop space", "delete", space=280, key=[space])
    yield call("ddl space is gone", "select", space=space)
    yield call("ddl local space", "insert", space=280, tuple=[703, 1, "local", "memtx", 0, {"group_id": 1}, []])
    yield call(
        "ddl temporary space", "insert", space=280, tuple=[704, 1, "temporary", "memtx", 0, {"temporary": True}, []]
    )
    for number in (703, 704):
        yield call(
            f"ddl index of {number}", "insert", space=288, tuple=[number, 0, "p", "tree", UNIQUE, [[0, "unsigned"]]]
        )
        yield call(f"ddl row of {number}", "insert", space=number, tuple=[1])
    yield call("ddl truncate system space", "replace", space=330, tuple=[280, 1])
    yield call("ddl drop system space", "delete", space=280, key=[280])


def _calls() -> Iterator[Call]:
    yield call("call unknown", "call", function="no_such_function", arguments=[])
    yield call("call16 unknown", "call16", function="no_such_function", arguments=[1])
    yield call("call unknown path", "call", function="box.no_such.thing", arguments=[])
    yield call("call len", "call", function="box.space.words:len", arguments=[])
    yield call("call count", "call", function="box.space.words.index.by_name:count", arguments=[["two"]])
    yield call("call select", "call", function="box.space.words:select", arguments=[[1]])
    yield call("call get", "call", function="box.space.words:get", arguments=[2])
    yield call("call get none", "call", function="box.space.words:get", arguments=[12345])
    yield call("call insert", "call", function="box.space.words:insert", arguments=[[80, "eighty"]])
    yield call("call insert duplicate", "call", function="box.space.words:insert", arguments=[[80, "eighty"]])
    yield call("call replace", "call", function="box.space.words:replace", arguments=[[80, "EIGHTY"]])
    yield call("call update", "call", function="box.space.words:update", arguments=[80, [["=", 2, "by call"]]])
    yield call("call delete", "call", function="box.space.words:delete", arguments=[80])
    yield call("call16 select", "call16", function="box.space.words:select", arguments=[[1]])
    yield call("call16 len", "call16", function="box.space.words:len", arguments=[])


def _users() -> Iterator[Call]:
    yield call(
        "user row", "insert", space=304, tuple=[40, 1, "ann", "user", {"chap-sha1": "FOZVZ6vbUTXQz9mnCzAywXmknuc="}]
    )
    yield call("user gets role public", "insert", space=312, tuple=[1, 40, "role", 2, 4])
    yield call("user password", "auth", user="ann", password="secret")
    yield call("user wrong password", "auth", user="ann", password="wrong")
    yield call("user unknown", "auth", user="nobody", password="x")
    yield call(
        "user may not select",
        "as",
        user="ann",
        password="secret",
        operation="select",
        arguments={"space": WORDS, "key": [1]},
    )
    yield call("user may read", "insert", space=312, tuple=[1, 40, "space", WORDS, 1])
    yield call(
        "user needs usage",
        "as",
        user="ann",
        password="secret",
        operation="select",
        arguments={"space": WORDS, "key": [1], "iterator": "EQ"},
    )
    yield call("user gets session and usage", "insert", space=312, tuple=[1, 40, "universe", 0, 24])
    yield call(
        "user selects",
        "as",
        user="ann",
        password="secret",
        operation="select",
        arguments={"space": WORDS, "key": [1], "iterator": "EQ"},
    )
    yield call(
        "user may not write",
        "as",
        user="ann",
        password="secret",
        operation="insert",
        arguments={"space": WORDS, "tuple": [90, "x"]},
    )
    yield call(
        "user may not delete",
        "as",
        user="ann",
        password="secret",
        operation="delete",
        arguments={"space": WORDS, "key": [1]},
    )
    yield call(
        "user may not upsert",
        "as",
        user="ann",
        password="secret",
        operation="upsert",
        arguments={"space": WORDS, "tuple": [1, "a"], "ops": []},
    )
    yield call(
        "user may not ddl",
        "as",
        user="ann",
        password="secret",
        operation="insert",
        arguments={"space": 280, "tuple": [720, 40, "x", "memtx", 0, {}, []]},
    )
    yield call(
        "user may not call",
        "as",
        user="ann",
        password="secret",
        operation="call",
        arguments={"function": "box.info", "arguments": []},
    )
    yield call("user drop in use", "delete", space=304, key=[40])
    yield call("user privileges", "select", space=312, key=[40], iterator="EQ")
    yield call("user unknown grantee", "insert", space=312, tuple=[1, 77, "universe", 0, 24])
    yield call("user unknown object", "insert", space=312, tuple=[1, 40, "space", 9999, 1])
    yield call("user unknown object type", "insert", space=312, tuple=[1, 40, "planet", 1, 1])
    yield call("user same name", "insert", space=304, tuple=[41, 1, "ann", "user", {}])
    yield call("user bad type", "insert", space=304, tuple=[41, 1, "bob", "cat", {}])
    yield call("user drop guest", "delete", space=304, key=[0])


PARTS = (_ddl, _calls, _users)
