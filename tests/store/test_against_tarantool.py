"""The same statements on the dictionary of a real Tarantool 2.6.0 and on ours: accepted or refused with the same code,
and the schema version counted alike. Where 3.x, whose rules ours are, judges otherwise than 2.6.0, `DIFFERENT` says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.store.dictionary import Dictionary
from tests.support.tarantool import EXECUTABLE, run_lua

from headwater.errors import BoxError, Er
from headwater.kernels import DuplicateKey, FormatViolation, KeyViolation
from headwater.store import system
from headwater.store.bootstrap_tables import V2_3_1
from headwater.wire.msgpack import pack

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(EXECUTABLE is None, reason="tarantool is not installed"),
]

S, I, U, P, F = system.SPACE, system.INDEX, system.USER, system.PRIV, system.FUNC
Q, D, A, T = system.SEQUENCE, system.SEQUENCE_DATA, system.SPACE_SEQUENCE, system.TRUNCATE
N = {"unique": True}


class Step(NamedTuple):
    operation: str
    """insert, replace, delete, or su (the user to be from now on)."""
    space: int = 0
    fields: tuple[object, ...] = ()
    ours: Er | None = None
    """What 3.x answers, where that is another thing than what 2.6.0 does."""
    why: str = ""


def ins(space: int, *fields: object) -> Step:
    return Step("insert", space, fields)


def rep(space: int, *fields: object) -> Step:
    return Step("replace", space, fields)


def rm(space: int, *key: object) -> Step:
    return Step("delete", space, key)


def su(name: str) -> Step:
    return Step("su", 0, (name,))


def space(
    number: int, name: str, owner: int = 1, format: object = (), count: int = 0, **options: object
) -> tuple[object, ...]:
    return (number, owner, name, "memtx", count, options, list(format))  # type: ignore[call-overload]


def function(number: int, name: str, **changes: object) -> tuple[object, ...]:
    fields: dict[str, object] = {
        "id": number, "owner": 1, "name": name, "setuid": 0, "language": "LUA", "body": "", "routine_type": "function",
        "params": [], "returns": "any", "aggregate": "none", "data": "none", "deterministic": False, "sandboxed": False,
        "null": True, "exports": ["LUA"], "opts": {}, "comment": "", "created": "", "altered": "",
    }  # fmt: skip
    return tuple((fields | changes).values())


def sequence(
    number: int, name: str, step: int = 1, low: int = 1, high: int = 100, start: int = 1
) -> tuple[object, ...]:
    return (number, 1, name, step, low, high, start, 0, False)


LATER = "3.x has a code of its own for faults of a format, and one for faults of a part"

FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "s", "type": "string"}]
SPACES = [
    ins(S, *space(512, "t")),
    ins(S, *space(513, "t")),
    ins(S, *space(512, "u")),
    ins(S, *space(0, "z")),
    ins(S, *space(2147483648, "z")),
    ins(S, *space(514, "")),
    ins(S, 514, 1, "z", "nothing", 0, {}, []),
    ins(S, *space(514, "z", count=1, format=FORMAT)),
    ins(S, *space(514, "z", nothing=1)),
    ins(S, *space(514, "z", group_id=2)),
    ins(S, *space(514, "z", group_id=1, is_sync=True)),
    ins(S, *space(514, "z", view=True)),
    ins(S, *space(514, "z", format=[{"type": "string"}]))._replace(ours=Er.WRONG_SPACE_FORMAT, why=LATER),
    ins(S, *space(514, "z", format=[{"name": "a", "type": "x"}]))._replace(ours=Er.WRONG_SPACE_FORMAT, why=LATER),
    ins(S, *space(514, "z", format=[{"name": "a", "type": "unsigned", "collation": 1}]))._replace(
        ours=Er.WRONG_SPACE_FORMAT, why=LATER
    ),
    ins(S, *space(514, "z", format=[{"name": "a", "type": "string", "collation": 999}])),
    ins(S, *space(514, "z", format=[{"name": "a"}, {"name": "a"}])),
    ins(S, *space(514, "z", format=[{"name": "a", "is_nullable": True, "nullable_action": "abort"}]))._replace(
        ours=Er.WRONG_SPACE_FORMAT, why=LATER
    ),
    ins(S, *space(514, "z", format=[1]))._replace(ours=Er.WRONG_SPACE_FORMAT, why=LATER),
    rep(S, *space(512, "t", format=FORMAT)),
    rep(S, *space(512, "t2", format=FORMAT)),
    rep(S, *space(512, "t")),
    rep(S, 512, 1, "t", "blackhole", 0, {}, [])._replace(ours=Er.UNSUPPORTED, why="an engine that we refuse by name"),
    rep(S, *space(512, "t", group_id=1)),
    rm(S, 513),
    rm(S, 280),
    ins(S, *space(515, "local", group_id=1)),
    ins(S, *space(516, "temp", temporary=True)),
    rm(S, 516),
]
INDEXES = [
    ins(I, 512, 1, "i1", "tree", N, [[0, "unsigned"]]),
    ins(I, 999, 0, "pk", "tree", N, [[0, "unsigned"]]),
    ins(I, 512, 0, "pk", "tree", {"unique": False}, [[0, "unsigned"]]),
    ins(I, 512, 0, "pk", "tree", N, []),
    ins(I, 512, 0, "pk", "tree", N, [[0]]),
    ins(I, 512, 0, "pk", "tree", N, [[0, "x"]]),
    ins(I, 512, 0, "pk", "tree", N, [[0, "any"]]),
    ins(I, 512, 0, "pk", "tree", N, [[0, "unsigned"], [0, "string"]]),
    ins(I, 512, 0, "pk", "x", N, [[0, "unsigned"]]),
    ins(I, 512, 0, "pk", "tree", {"x": 1}, [[0, "unsigned"]]),
    ins(I, 512, 0, "pk", "tree", {"page_size": 0}, [[0, "unsigned"]]),
    ins(I, 512, 0, "pk", "tree", N, [{"field": 0, "type": "unsigned", "is_nullable": True}]),
    ins(I, 512, 0, "pk", "tree", N, [{"field": 0, "type": "unsigned", "collation": 1}])._replace(
        ours=Er.WRONG_INDEX_PARTS, why=LATER
    ),
    ins(I, 512, 0, "pk", "tree", N, [{"field": 0, "type": "string", "collation": 999}])._replace(
        ours=Er.WRONG_INDEX_PARTS, why=LATER
    ),
    ins(I, 512, 0, "pk", "tree", N, [{"field": 0, "type": "string", "x": 999}])._replace(
        ours=Er.WRONG_INDEX_PARTS, why=LATER
    ),
    ins(I, 512, 0, "pk", "tree", N, [[0, "unsigned"]]),
    ins(I, 512, 0, "pk", "tree", N, [[0, "unsigned"]]),
    ins(512, 1, "a", 1),
    ins(512, 2, "b", 0),
    ins(512, 3, "c", 1),
    ins(512, 3, "d", 1),
    ins(I, 512, 1, "odd", "tree", N, [[2, "unsigned"]]),
    ins(I, 512, 1, "s", "tree", N, [[1, "unsigned"]]),
    ins(I, 512, 1, "s", "tree", N, [[0, "string"]]),
    ins(I, 512, 1, "s", "tree", N, [[9, "unsigned"]]),
    ins(I, 512, 200, "s", "tree", N, [[1, "string"]]),
    ins(I, 512, 1, "s", "hash", {"unique": False}, [[1, "string"]]),
    ins(I, 512, 1, "s", "hash", N, [{"field": 1, "type": "string", "is_nullable": True}]),
    ins(I, 512, 1, "pk", "tree", N, [[1, "string"]]),
    ins(I, 512, 1, "s", "tree", N, [[1, "string"]]),
    ins(I, 512, 2, "n", "tree", {"unique": False}, [{"field": 9, "type": "unsigned", "is_nullable": True}]),
    rep(I, 512, 1, "s2", "tree", N, [[1, "string"]]),
    rep(I, 512, 1, "s2", "tree", N, [[1, "scalar"]]),
    rep(I, 512, 1, "s2", "tree", N, [[1, "unsigned"]]),
    rep(I, 512, 1, "s2", "hash", N, [[1, "string"]]),
    rep(S, *space(512, "t", format=FORMAT)),
    rep(S, *space(512, "t", format=[{"name": "id", "type": "string"}])),
    rep(S, *space(512, "t", count=7)),
    rep(S, *space(512, "t", format=[*FORMAT, {"name": "a"}, {"name": "b", "type": "any"}])),
    rep(S, *space(512, "t", format=[*FORMAT, {"name": "a"}, {"name": "b", "is_nullable": True}])),
    rm(I, 512, 0),
    rm(S, 512),
    rm(I, 280, 0),
    rm(I, 512, 2),
    rm(I, 512, 1),
    rep(I, 512, 0, "pk", "tree", N, [[1, "string"]]),
    rep(I, 512, 0, "pk", "tree", N, [[2, "unsigned"]]),
    rep(T, 512, 1),
    rep(T, 280, 1),
    rep(T, 999, 1),
    rm(I, 512, 0),
    rm(S, 512),
    rm(T, 512),
    rm(S, 512),
]
SEQUENCES = [
    ins(S, *space(520, "q")),
    ins(I, 520, 0, "pk", "tree", N, [[0, "unsigned"], [1, "string"]]),
    ins(Q, *sequence(1, "s", step=0)),
    ins(Q, *sequence(1, "s", low=5, high=4)),
    ins(Q, *sequence(1, "s", start=0)),
    ins(Q, *sequence(1, "s")),
    ins(Q, *sequence(2, "s")),
    rep(Q, *sequence(1, "s", high=50)),
    ins(A, 520, 1, False, 1, ""),
    ins(A, 520, 9, False, 0, ""),
    ins(A, 999, 1, False, 0, ""),
    ins(A, 520, 1, False, 0, ""),
    rep(A, 520, 1, False, 0, ""),
    ins(520, None, "a"),
    ins(520, 49, "a"),
    ins(520, None, "a"),
    ins(520, None, "a"),
    rep(D, 1, 10),
    ins(520, None, "a"),
    rep(D, 9, 10),
    rm(I, 520, 0),
    rm(Q, 1),
    rm(A, 520),
    rm(Q, 1),
    rm(D, 1),
    rm(Q, 1),
    rm(I, 520, 0),
    rm(S, 520),
]
USERS = [
    ins(U, 32, 1, "ann", "user", {}),
    ins(U, 33, 1, "ann", "user", {}),
    ins(U, 33, 1, "role", "role", {"chap-sha1": "x"}),
    ins(U, 33, 1, "x", "thing", {}),
    ins(U, 33, 1, "x", "user", {"chap-sha1": 1})._replace(ours=Er.INVALID_AUTH_DATA, why="since 2.11 by the method"),
    rep(U, 0, 1, "guest", "user", {"chap-sha1": "JHDAwG3uQv0WGLuZAFrcouydHhk="}),
    ins(U, 33, 1, "a", "role", {}),
    ins(U, 34, 1, "b", "role", {}),
    ins(P, 1, 33, "role", 34, 4),
    ins(P, 1, 34, "role", 33, 4),
    ins(P, 1, 32, "role", 33, 4),
    ins(P, 1, 32, "thing", 1, 4),
    ins(P, 1, 99, "universe", 0, 4),
    ins(P, 1, 32, "space", 999, 1),
    ins(P, 1, 32, "function", 999, 4),
    ins(P, 1, 32, "sequence", 999, 1),
    ins(P, 1, 32, "role", 999, 4),
    ins(P, 1, 32, "user", 2, 4),
    ins(P, 1, 32, "universe", 0, 0),
    rep(P, 1, 1, "universe", 0, 1),
    rm(P, 1, "universe", 0),
    rm(U, 1),
    rm(U, 31),
    rm(U, 33),
    ins(S, *space(530, "hers", owner=32)),
    rm(U, 32),
    ins(P, 1, 32, "universe", 0, 24),
    ins(P, 1, 32, "role", 2, 4),
    *(ins(P, 1, 32, "space", space_id, 2) for space_id in (S, I, P, T)),
    ins(S, *space(531, "other")),
    ins(I, 531, 0, "pk", "tree", N, [[0, "unsigned"]]),
    su("ann"),
    ins(S, *space(532, "x", owner=32)),
    ins(I, 530, 0, "pk", "tree", N, [[0, "unsigned"]]),
    ins(I, 531, 1, "s", "tree", N, [[0, "unsigned"]]),
    rm(I, 531, 0),
    ins(P, 32, 0, "space", 531, 1),
    rep(T, 531, 1),
    su("admin"),
    ins(P, 1, 32, "space", "", 32 | 64 | 128),
    su("ann"),
    ins(S, *space(532, "x", owner=32)),
    rm(S, 532),
    rm(I, 531, 0),
    su("admin"),
    rm(P, 32, "space", ""),
    *(rm(P, 32, "space", space_id) for space_id in (S, I, P, T)),
    rm(P, 32, "role", 33),
    rm(P, 32, "role", 2),
    rm(P, 32, "universe", 0),
    rm(I, 530, 0),
    rm(S, 530),
    rm(S, 531),
    rm(U, 32),
    rm(P, 33, "role", 34),
    rm(U, 33),
    rm(U, 34),
]
FUNCTIONS = [
    ins(F, *function(100, "f")),
    ins(F, *function(101, "f")),
    ins(F, *function(32001, "g")),
    ins(F, *function(101, "g", language="JS")),
    ins(F, *function(101, "g", routine_type="x")),
    ins(F, *function(101, "g", returns="x")),
    ins(F, *function(101, "g", exports=["x"])),
    ins(F, *function(101, "g", params=["x"])),
    ins(F, *function(101, "g", sandboxed=True)),
    rep(F, *function(100, "f", created="now")),
    rep(F, *function(100, "f", comment="x")),
    ins(P, 1, 0, "function", 100, 4),
    rm(F, 100),
    rm(P, 0, "function", 100),
    rm(F, 100),
]

SCRIPT = """
local msgpack = require('msgpack')
box.cfg{log_level = 1, wal_mode = 'none'}
local answers = {{0, '', box.internal.schema_version()}}
for _, step in ipairs(argument) do
    local bytes = step[3]:gsub('..', function(x) return string.char(tonumber(x, 16)) end)
    local operation, space, data = step[1], step[2], msgpack.decode(bytes)
    local ok, err = pcall(function()
        if operation == 'su' then
            box.session.su(data[1])
        elseif operation == 'delete' then
            box.internal.delete(space, 0, data)
        else
            box.internal[operation](space, data)
        end
    end)
    table.insert(answers, {ok and 0 or err.code or -1, ok and '' or tostring(err), box.internal.schema_version()})
end
answer(answers)
"""


def ours(node: Dictionary, step: Step) -> tuple[int, str]:
    if step.operation == "su":
        name = str(step.fields[0])
        node.user = None if name == "admin" else node.schema.users.by_name(name)
        return 0, ""
    try:
        if node.user is not None:
            node.schema.check_write(node.user, node.schema.space(step.space))
        getattr(node, step.operation)(step.space, *step.fields)
    except BoxError as error:
        return error.code, error.message
    except DuplicateKey:
        return int(Er.TUPLE_FOUND), "duplicate key"
    except FormatViolation as error:
        codes = {"type": Er.FIELD_TYPE, "missing": Er.FIELD_MISSING, "count": Er.EXACT_FIELD_COUNT}
        return int(codes[error.kind]), str(error)
    except KeyViolation as error:
        return int(Er.EXACT_MATCH), str(error)
    node.written()
    return 0, ""


@pytest.mark.parametrize(
    "steps",
    [SPACES, [ins(S, *space(512, "t")), *INDEXES], SEQUENCES, USERS, FUNCTIONS],
    ids=["spaces", "indexes", "sequences", "users", "functions"],
)
def test_every_statement_is_judged_alike(steps: list[Step], tmp_path: Path) -> None:
    argument = [[step.operation, step.space, pack(list(step.fields)).hex()] for step in steps]
    theirs: list[Any] = run_lua(SCRIPT, cwd=tmp_path, argument=argument)
    node = Dictionary(V2_3_1)
    wrong: list[str] = []
    their_version, our_version = theirs[0][2], node.memtx.schema_version
    for step, (code, text, version) in zip(steps, theirs[1:], strict=True):
        got, message = ours(node, step)
        expected = int(step.ours) if step.ours is not None else code
        if got != expected:
            wrong.append(f"{step.operation} {step.space} {step.fields}: {code} {text}; ours {got} {message}")
        if got == 0 == code and node.memtx.schema_version - our_version != version - their_version:
            wrong.append(f"{step.operation} {step.space} {step.fields}: schema version counted otherwise")
        their_version, our_version = version, node.memtx.schema_version
    assert not wrong, "\n".join(wrong)
