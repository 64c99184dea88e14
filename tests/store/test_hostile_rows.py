"""Rows that nobody should send: each is taken or refused with an error that has a code, and a refused one leaves the
dictionary as it was."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.dictionary import Dictionary
from tests.store.test_access import function
from tests.store.test_sequences import row as sequence_row

from headwater.errors import BoxError
from headwater.kernels import DuplicateKey, FormatViolation, KeyViolation
from headwater.store import system
from headwater.store.context import Source

REFUSALS = (BoxError, DuplicateKey, FormatViolation, KeyViolation)
HASHED = {"chap-sha1": "JHDAwG3uQv0WGLuZAFrcouydHhk="}
UUID = "11111111-0000-4000-8000-000000000000"
FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "s", "type": "string", "is_nullable": True, "collation": 3}]
PARTS = [{"field": 1, "type": "string", "is_nullable": True, "collation": 3, "sort_order": "asc"}]

GOOD: list[tuple[int, list[object]]] = [
    (system.SPACE, [600, 1, "new", "memtx", 0, {"group_id": 1, "is_sync": False}, FORMAT]),
    (system.SPACE, [512, 1, "t", "memtx", 0, {"type": "normal"}, FORMAT]),
    (system.INDEX, [512, 1, "i1", "tree", {"unique": False, "hint": True}, PARTS]),
    (system.INDEX, [512, 0, "i0", "hash", {"unique": True}, [[0, "unsigned"]]]),
    (system.USER, [40, 1, "bob", "user", HASHED, [], 0]),
    (system.PRIV, [1, 32, "space", 512, 3]),
    (system.FUNC, function(100, "f")),
    (system.COLLATION, [300, "c", 1, "ICU", "de", {"strength": "primary", "case_level": "on"}]),
    (system.SEQUENCE, sequence_row(5, "s5")),
    (system.SEQUENCE_DATA, [1, 7]),
    (system.SPACE_SEQUENCE, [512, 1, False, 0, ""]),
    (system.CLUSTER, [2, UUID, "two"]),
    (system.SCHEMA, ["replicaset_name", "set"]),
    (system.SCHEMA, ["bootstrap_leader_uuid", UUID, 1, 1]),
    (system.TRUNCATE, [512, 1]),
]

WORDS = st.sampled_from(
    [
        "",
        "a",
        "name",
        "type",
        "string",
        "unsigned",
        "field",
        "path",
        "[*]",
        "memtx",
        "vinyl",
        "user",
        "role",
        "é\x00",
        "x" * 70,
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, 31, 32, 255, 512, 2**31, 2**32, 2**63, 2**64 - 1, -1, -(2**63)]),
    st.floats(),
    WORDS,
    st.binary(max_size=3),
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9, max_value=9),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(WORDS, st.integers(0, 3)), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def hostile_rows(draw: st.DrawFn) -> tuple[int, list[object]]:
    """A good row in which something was changed, cut off or put in, maybe deep inside."""
    space_id, row = draw(st.sampled_from(GOOD))
    changed = list(row)
    for _ in range(draw(st.integers(1, 2))):
        spoil(draw, changed)
    return space_id, changed


def spoil(draw: st.DrawFn, values: list[object]) -> None:
    where = draw(st.integers(0, len(values)))
    if where == len(values):
        values.append(draw(VALUES))
    elif isinstance(values[where], (list, dict)) and values[where] and draw(st.booleans()):
        values[where] = deeper(draw, values[where])
    elif draw(st.integers(0, 9)) == 0:
        del values[where:]
    else:
        values[where] = draw(VALUES)


def deeper(draw: st.DrawFn, value: object) -> object:
    if isinstance(value, dict):
        keys: list[object] = list(value)
        inside = [value[key] for key in keys]
        spoil(draw, inside)
        keys += [draw(WORDS)] * (len(inside) - len(keys))
        return dict(zip(keys, inside, strict=False))
    copy = list(value)  # type: ignore[call-overload]
    spoil(draw, copy)
    return copy


def picture(node: Dictionary) -> object:
    """All that a refused row must leave alone."""
    schema = node.schema
    return (
        {
            space.id: (space.definition, dict(space.indexes), len(space), space.sequence)
            for space in schema.spaces.values()
        },
        {user.id: (user.definition, dict(user.effective)) for user in schema.users},
        list(schema.functions),
        {number: sequence.definition for number, sequence in schema.sequences.items()},
        list(schema.cluster),
        node.memtx.undo_end,
    )


@pytest.fixture(scope="module")
def node() -> Dictionary:
    made = Dictionary()
    made.create_space(512, "t", FORMAT)
    made.create_index(512, 0, [[0, "unsigned"]])
    made.insert(512, 1, "a")
    made.create_user(32, "ann")
    made.insert(system.SEQUENCE, *sequence_row(1, "s"))
    made.written()
    return made


@pytest.mark.parametrize("source", [Source.CLIENT, Source.XLOG, Source.PEER])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hostile_rows())
def test_every_row_is_taken_or_refused_by_name(
    node: Dictionary, source: Source, case: tuple[int, list[object]]
) -> None:
    space_id, row = case
    before, mark = picture(node), node.mark
    try:
        node.replace(space_id, *row, source=source)
    except REFUSALS:
        assert picture(node) == before
    else:
        node.failed(mark)
        assert picture(node) == before


def test_the_good_rows_are_good() -> None:
    for space_id, row in GOOD:
        made = Dictionary()
        made.create_space(512, "t", FORMAT)
        made.create_index(512, 0, [[0, "unsigned"]])
        made.create_user(32, "ann")
        made.insert(system.SEQUENCE, *sequence_row(1, "s"))
        made.replace(space_id, *row)
