"""Rows of `_func`, of `_truncate`, and of spaces that ask for what Headwater does not do."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_access import function
from tests.store.test_spaces import refusal

from headwater.errors import Er
from headwater.store import system
from headwater.store.context import Journal, Source

FUNC = system.FUNC
NAMES = [
    "id", "owner", "name", "setuid", "language", "body", "routine_type", "param_list", "returns", "aggregate",
    "sql_data_access", "is_deterministic", "is_sandboxed", "is_null_call", "exports", "opts", "comment", "created",
    "last_altered", "trigger",
]  # fmt: skip


def changed(**fields: object) -> list[object]:
    row = function(100, "f")
    for name, value in fields.items():
        row[NAMES.index(name)] = value
    return row


CREATE = "Failed to create function 'f': "


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"id": 32001}, Er.CREATE_FUNCTION, CREATE + "function id is too big"),
        ({"language": "JS"}, Er.FUNCTION_LANGUAGE, "Unsupported language 'JS' specified for function 'f'"),
        ({"language": "SQL_BUILTIN"}, Er.FUNCTION_LANGUAGE, None),
        ({"routine_type": "x"}, Er.CREATE_FUNCTION, CREATE + "unsupported routine_type value"),
        ({"sql_data_access": "x"}, Er.CREATE_FUNCTION, CREATE + "unsupported sql_data_access value"),
        ({"is_null_call": False}, Er.CREATE_FUNCTION, CREATE + "unsupported is_null_call value"),
        ({"returns": "x"}, Er.CREATE_FUNCTION, CREATE + "invalid returns value"),
        ({"exports": ["C"]}, Er.CREATE_FUNCTION, CREATE + "invalid exports value"),
        ({"aggregate": "x"}, Er.CREATE_FUNCTION, CREATE + "invalid aggregate value"),
        ({"aggregate": "group"}, Er.CREATE_FUNCTION, CREATE + "aggregate function can only be accessed in SQL"),
        ({"param_list": [1]}, Er.CREATE_FUNCTION, CREATE + "parameter type must be a string"),
        ({"param_list": ["x"]}, Er.CREATE_FUNCTION, CREATE + "invalid argument type"),
        ({"opts": {"x": 1}}, Er.WRONG_FUNCTION_OPTIONS, "Wrong function options: unexpected option 'x'"),
        (
            {"is_sandboxed": True},
            Er.CREATE_FUNCTION,
            CREATE + "is_sandboxed option may be set only for a persistent Lua function (one with a non-empty body)",
        ),
        (
            {"language": "C", "body": "x"},
            Er.CREATE_FUNCTION,
            CREATE + "body and is_sandboxed options are not compatible with C language",
        ),
        ({"trigger": [1]}, Er.CREATE_FUNCTION, CREATE + "trigger name must be a string"),
        ({"trigger": ["a"]}, Er.UNSUPPORTED, "Headwater does not support persistent triggers"),
    ],
)
def test_a_bad_function_is_refused(node: Dictionary, fields: dict[str, object], code: Er, text: str | None) -> None:
    got, message = refusal(node.insert, FUNC, *changed(**fields))
    assert got == code
    assert text is None or message == text
    assert node.schema.function("f") is None


def test_functions_of_old_releases_come_from_files_and_peers(node: Dictionary) -> None:
    node.insert(FUNC, *changed(language="SQL_BUILTIN"), source=Source.XLOG)


def test_functions_are_not_altered_and_not_dropped_while_granted(node: Dictionary) -> None:
    node.insert(FUNC, *function(100, "f"))
    node.replace(FUNC, *changed(created="later"))
    assert refusal(node.replace, FUNC, *changed(body="x")) == (Er.UNSUPPORTED, "function does not support alter")
    node.grant(0, "function", 100, 4)
    assert refusal(node.delete, FUNC, 100) == (Er.DROP_FUNCTION, "Can't drop function 100: function has grants")
    node.delete(system.PRIV, 0, "function", 100)
    node.written()
    mark = node.mark
    node.delete(FUNC, 100)
    assert node.schema.function("f") is None
    node.failed(mark)
    assert node.schema.function("f") is not None


# ---- truncation -----------------------------------------------------------------------------------


def filled(node: Dictionary, space_id: int, **options: object) -> None:
    node.create_space(space_id, f"t{space_id}", **options)
    node.create_index(space_id, 0, [[0, "unsigned"]])
    node.create_index(space_id, 1, [[1, "string"]])
    node.insert(space_id, 1, "a")


def test_truncation_empties_a_space_and_is_taken_back(node: Dictionary) -> None:
    filled(node, 512)
    node.written()
    mark = node.mark
    node.replace(system.TRUNCATE, 512, 1)
    assert node.rows(512) == []
    node.insert(512, 2, "b")
    node.failed(mark)
    assert node.rows(512, 1) == [[1, "a"]]
    assert node.rows(system.TRUNCATE) == []


@pytest.mark.parametrize(
    ("options", "journal"),
    [
        ({}, Journal.GLOBAL),
        ({"group_id": 1}, Journal.LOCAL),
        ({"type": "data-temporary"}, Journal.LOCAL),
        ({"type": "temporary"}, Journal.NOWHERE),
    ],
)
def test_truncation_is_replicated_where_the_tuples_are(
    node: Dictionary, options: dict[str, object], journal: Journal
) -> None:
    filled(node, 512, **options)
    node.replace(system.TRUNCATE, 512, 1)
    assert node.journals[-1] is journal
    assert node.rows(512) == []


def test_system_spaces_are_not_truncated_and_snapshots_truncate_nothing(node: Dictionary) -> None:
    text = "Can't truncate a system space, space '_space'"
    assert refusal(node.insert, system.TRUNCATE, 280, 1) == (Er.TRUNCATE_SYSTEM_SPACE, text)
    filled(node, 512)
    node.insert(system.TRUNCATE, 512, 1, source=Source.SNAPSHOT)
    assert len(node.rows(512)) == 1


# ---- what is not done -----------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Source.CLIENT, Source.SNAPSHOT, Source.XLOG, Source.PEER])
@pytest.mark.parametrize(
    ("space_id", "fields", "what"),
    [
        (system.TRIGGER, ["t", 512, {}], "SQL triggers"),
        (system.FK_CONSTRAINT, ["f", 512, 513, False, "simple", "x", "x", [], []], "foreign keys"),
        (system.CK_CONSTRAINT, [512, "c", False, "SQL", "x", True], "check constraints"),
        (system.FUNC_INDEX, [512, 1, 1], "functional indexes"),
    ],
)
def test_constraints_and_triggers_are_refused_from_everybody(
    node: Dictionary, space_id: int, fields: list[object], what: str, source: Source
) -> None:
    node.create_space()
    node.memtx.undo_enabled = True
    assert refusal(node.insert, space_id, *fields, source=source) == (
        Er.UNSUPPORTED,
        f"Headwater does not support {what}",
    )


# ---- the compiled path ----------------------------------------------------------------------------


def test_the_compiled_path_serves_plain_spaces_only(node: Dictionary) -> None:
    def fast(space_id: int) -> bool:
        kernel = node.schema.space(space_id).kernel
        assert kernel is not None
        return kernel.fast

    filled(node, 512)
    filled(node, 513, is_sync=True)
    filled(node, 514, temporary=True)
    filled(node, 515, group_id=1)
    assert [fast(number) for number in range(512, 516)] == [True, False, True, True]
    assert not any(fast(space.id) for space in node.schema.spaces.values() if space.is_system and space.kernel)
    space = node.schema.space(512)
    space.hold_fast()
    space.hold_fast()
    space.release_fast()
    assert not fast(512)
    space.release_fast()
    assert fast(512)
    node.delete(system.INDEX, 512, 1)
    node.delete(system.INDEX, 512, 0)
    assert not fast(512)
