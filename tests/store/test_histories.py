"""Histories of statements, journals that fail in the middle of them, and the one rule for all: the dictionary is what
the rows of its spaces say, so that a node that loads these rows comes to the same one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.dictionary import Dictionary
from tests.store.test_hostile_rows import REFUSALS
from tests.store.test_sequences import row as sequence_row

from headwater.store import system
from headwater.wire.msgpack import pack

SPACES = (512, 513)
TYPES = ("unsigned", "string", "scalar", "integer")
FORMATS: list[list[object]] = [
    [],
    [{"name": "a", "type": "unsigned"}],
    [{"name": "a"}, {"name": "b", "type": "string"}],
    [{"name": "a", "type": "scalar"}, {"name": "b", "is_nullable": True}, {"name": "c", "is_nullable": True}],
]

Step = tuple[str, tuple[object, ...]]

space_ids = st.sampled_from(SPACES)
fields = st.integers(0, 2)
parts = st.lists(
    st.tuples(fields, st.sampled_from(TYPES)).map(list), min_size=1, max_size=2, unique_by=lambda part: part[0]
)
values = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b"]), st.none())
steps = st.one_of(
    st.tuples(st.just("space"), st.tuples(space_ids, st.sampled_from(["t", "u"]), st.sampled_from(FORMATS))),
    st.tuples(st.just("drop space"), st.tuples(space_ids)),
    st.tuples(st.just("index"), st.tuples(space_ids, fields, parts, st.booleans(), st.sampled_from(["tree", "hash"]))),
    st.tuples(st.just("drop index"), st.tuples(space_ids, fields)),
    st.tuples(st.just("put"), st.tuples(space_ids, st.lists(values, min_size=1, max_size=3))),
    st.tuples(st.just("remove"), st.tuples(space_ids, st.lists(values, min_size=1, max_size=2))),
    st.tuples(st.just("truncate"), st.tuples(space_ids)),
    st.tuples(st.just("user"), st.tuples(st.integers(32, 34), st.sampled_from(["user", "role"]))),
    st.tuples(st.just("drop user"), st.tuples(st.integers(32, 34))),
    st.tuples(st.just("grant"), st.tuples(st.integers(32, 34), space_ids, st.integers(1, 3))),
    st.tuples(st.just("grant role"), st.tuples(st.integers(32, 34), st.integers(32, 34))),
    st.tuples(st.just("revoke"), st.tuples(st.integers(32, 34), space_ids)),
    st.tuples(st.just("revoke role"), st.tuples(st.integers(32, 34), st.integers(32, 34))),
    st.tuples(st.just("sequence"), st.tuples(st.integers(1, 5))),
    st.tuples(st.just("drop sequence"), st.tuples()),
    st.tuples(st.just("attach"), st.tuples(space_ids, fields)),
    st.tuples(st.just("detach"), st.tuples(space_ids)),
    st.tuples(st.just("written"), st.tuples()),
    st.tuples(st.just("failed"), st.tuples(st.integers(0, 5))),
)


def do(node: Dictionary, marks: list[int], step: Step) -> None:
    what, args = step
    match what, args:
        case "space", (space_id, name, format):
            node.replace(system.SPACE, space_id, 1, name, "memtx", 0, {}, format)
        case "drop space", (space_id,):
            node.delete(system.SPACE, space_id)
        case "index", (space_id, index_id, index_parts, unique, kind):
            node.replace(system.INDEX, space_id, index_id, f"i{index_id}", kind, {"unique": unique}, index_parts)
        case "drop index", (space_id, index_id):
            node.delete(system.INDEX, space_id, index_id)
        case "put", (space_id, tuple_fields):
            node.replace(space_id, *tuple_fields)  # type: ignore[arg-type,misc]
        case "remove", (space_id, key):
            node.delete(space_id, *key)  # type: ignore[arg-type,misc]
        case "truncate", (space_id,):
            node.replace(system.TRUNCATE, space_id, 1)
        case "user", (user_id, kind):
            node.replace(system.USER, user_id, 1, f"n{user_id}", kind, {}, [], 0)
        case "drop user", (user_id,):
            node.delete(system.USER, user_id)
        case "grant", (user_id, space_id, bits):
            node.replace(system.PRIV, 1, user_id, "space", space_id, bits)
        case "grant role", (user_id, role_id):
            node.replace(system.PRIV, 1, user_id, "role", role_id, 4)
        case "revoke", (user_id, space_id):
            node.delete(system.PRIV, user_id, "space", space_id)
        case "revoke role", (user_id, role_id):
            node.delete(system.PRIV, user_id, "role", role_id)
        case "sequence", (step_size,):
            node.replace(system.SEQUENCE, *sequence_row(step=step_size))
        case "drop sequence", ():
            node.delete(system.SEQUENCE, 1)
        case "attach", (space_id, field):
            node.insert(system.SPACE_SEQUENCE, space_id, 1, False, field, "")
        case "detach", (space_id,):
            node.delete(system.SPACE_SEQUENCE, space_id)
        case "written", ():
            node.written()
            marks.clear()
        case "failed", (back,):
            assert isinstance(back, int)
            for _ in range(back + 1):
                mark = marks.pop() if marks else None
                if mark is not None:
                    node.failed(mark)


def picture(node: Dictionary) -> object:
    """The dictionary, and what every index holds."""
    schema = node.schema
    return (
        {
            space.id: (
                space.definition,
                dict(space.indexes),
                space.format,
                space.sequence.definition if space.sequence else None,
                space.kernel.fast if space.kernel else None,
                {index_id: node.rows(space.id, index_id) for index_id in space.indexes},
            )
            for space in schema.spaces.values()
        },
        {user.id: (user.definition, user.users, user.roles, user.effective) for user in schema.users},
        {number: sequence.definition for number, sequence in schema.sequences.items()},
        {
            (space.id, user.id): schema.access.space_bits(user, space)
            for space in schema.spaces.values()
            for user in schema.users
        },
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(steps, max_size=25))
def test_the_dictionary_is_what_its_rows_say(history: list[Step]) -> None:
    node = Dictionary()
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    marks: list[int] = []
    for step in history:
        mark = node.mark
        try:
            do(node, marks, step)
        except (*REFUSALS, LookupError, ValueError):
            assert node.mark == mark
        else:
            if step[0] not in ("written", "failed"):
                marks.append(mark)
    views = {space.id for space in node.schema.spaces.values() if space.kernel is None}
    rows = [
        (space_id, pack(fields))
        for space_id in sorted(node.schema.spaces)
        if space_id not in views and 0 in node.schema.spaces[space_id].indexes
        for fields in node.rows(space_id)
    ]
    assert picture(Dictionary(rows=rows)) == picture(node)
