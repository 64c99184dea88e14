"""Spaces made, altered, renamed and dropped by rows of `_space`."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary

from headwater.errors import BoxError, Er, er
from headwater.store import system
from headwater.store.context import Journal, Source

SPACE, INDEX = system.SPACE, system.INDEX


def refusal(call: object, *args: object, **options: object) -> tuple[int, str]:
    with pytest.raises(BoxError) as caught:
        call(*args, **options)  # type: ignore[operator]
    return caught.value.code, caught.value.message


def row(
    space_id: int = 512,
    name: str = "t",
    engine: str = "memtx",
    count: int = 0,
    options: dict[str, object] | None = None,
    format: list[object] | None = None,
) -> list[object]:
    return [space_id, 1, name, engine, count, options or {}, format or []]


def test_a_row_makes_a_space_that_is_found_by_id_and_name(node: Dictionary) -> None:
    version = node.memtx.schema_version
    space = node.create_space(512, "t", [{"name": "id", "type": "unsigned"}])
    assert node.schema.space(512) is space
    assert node.schema.space("t") is space
    assert space.field_number("id") == 0
    assert space.field_number("nothing") is None
    assert node.memtx.schema_version == version + 1


def test_a_space_that_is_not_there_is_named_in_the_error(node: Dictionary) -> None:
    assert refusal(node.schema.space, 777) == (Er.NO_SUCH_SPACE, "Space '777' does not exist")
    assert refusal(node.schema.space, "x") == (Er.NO_SUCH_SPACE, "Space 'x' does not exist")


FIELD = {"name": "a", "type": "unsigned"}


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        (row(0), Er.CREATE_SPACE, "Failed to create space 't': space id 0 is reserved"),
        (row(2147483647), Er.CREATE_SPACE, "Failed to create space 't': space id is too big"),
        (row(name="x" * 65001), Er.CREATE_SPACE, f"Failed to create space '{'x' * 64}': space name is too long"),
        (row(name=""), Er.IDENTIFIER, "Invalid identifier '' (expected printable symbols only or it is too long)"),
        (
            row(name="a\x01"),
            Er.IDENTIFIER,
            "Invalid identifier 'a\x01' (expected printable symbols only or it is too long)",
        ),
        (row(engine="nothing"), Er.NO_SUCH_ENGINE, "Space engine 'nothing' does not exist"),
        (row(engine="vinyl"), Er.UNSUPPORTED, "Headwater does not support the engine 'vinyl' of space 't'"),
        (row(engine="blackhole"), Er.UNSUPPORTED, "Headwater does not support the engine 'blackhole' of space 't'"),
        (row(engine="service"), Er.UNSUPPORTED, "Headwater does not support the engine 'service' of space 't'"),
        (
            row(count=1, format=[FIELD, {"name": "b"}]),
            Er.CREATE_SPACE,
            "Failed to create space 't': exact_field_count must be either 0 or >= formatted field count",
        ),
        (row(options={"nothing": 1}), Er.WRONG_SPACE_OPTIONS, "Wrong space options: unexpected option 'nothing'"),
        (row(options={"is_sync": 1}), Er.WRONG_SPACE_OPTIONS, "Wrong space options: 'is_sync' must be boolean"),
        (row(options={"type": "x"}), Er.WRONG_SPACE_OPTIONS, "Wrong space options: unknown space type"),
        (
            row(options={"type": "normal", "temporary": True}),
            Er.WRONG_SPACE_OPTIONS,
            "Wrong space options: only one of 'type' or 'temporary' may be specified",
        ),
        (row(options={"group_id": 2}), Er.NO_SUCH_GROUP, "Replication group '2' does not exist"),
        (
            row(options={"group_id": 1, "is_sync": True}),
            Er.CREATE_SPACE,
            "Failed to create space 't': local space can't be synchronous",
        ),
        (row(options={"view": True}), Er.VIEW_MISSING_SQL, er(Er.VIEW_MISSING_SQL).message),
        (row(options={"view": True, "sql": "x"}), Er.UNSUPPORTED, "Headwater does not support SQL views"),
        (row(options={"constraint": {"c": 1}}), Er.UNSUPPORTED, "Headwater does not support constraints"),
        (row(options={"foreign_key": {"c": {}}}), Er.UNSUPPORTED, "Headwater does not support foreign keys"),
        (row(options={"upgrade": {"x": 1}}), Er.UNSUPPORTED, "Headwater does not support space upgrade"),
        (row(format=[1]), Er.WRONG_SPACE_FORMAT, "Wrong space format field 1: expected a map"),
        (
            row(format=[FIELD, {1: 2}]),
            Er.WRONG_SPACE_FORMAT,
            "Wrong space format field 2: expected a map with string keys",
        ),
        (row(format=[{"type": "string"}]), Er.WRONG_SPACE_FORMAT, "Wrong space format field 1: field name is missing"),
        (
            row(format=[{"name": "a", "type": "x"}]),
            Er.WRONG_SPACE_FORMAT,
            "Wrong space format field 1: unknown field type",
        ),
        (
            row(format=[{"name": "a", "is_nullable": True, "nullable_action": "abort"}]),
            Er.WRONG_SPACE_FORMAT,
            "Wrong space format field 1: conflicting nullability and nullable action properties",
        ),
        (
            row(format=[{"name": "a", "type": "unsigned", "collation": 1}]),
            Er.WRONG_SPACE_FORMAT,
            "Wrong space format field 1: collation is reasonable only for 'string', 'scalar', and 'any' fields",
        ),
        (
            row(format=[{"name": "a", "type": "string", "collation": 999}]),
            Er.WRONG_COLLATION_OPTIONS,
            "Wrong collation options: collation was not found by ID",
        ),
        (
            row(format=[{"name": "a", "type": "decimal32"}]),
            Er.WRONG_SPACE_FORMAT,
            "Wrong space format field 1: scale is not specified",
        ),
        (
            row(format=[{"name": "a", "type": "decimal32", "scale": 2}]),
            Er.UNSUPPORTED,
            "Headwater does not support the field type 'decimal32'",
        ),
        (
            row(format=[{"name": "a", "type": "unsigned", "scale": 2}]),
            Er.WRONG_SPACE_FORMAT,
            "Wrong space format field 1: scale makes sense only for fixed-point decimals",
        ),
        (row(format=[FIELD, FIELD]), Er.SPACE_FIELD_IS_DUPLICATE, "Space field 'a' is duplicate"),
        (
            row(format=[{"name": "a", "default_func": 3}]),
            Er.UNSUPPORTED,
            "Headwater does not support functions that make default values",
        ),
        (row(format=[{"name": "a", "constraint": {"c": 1}}]), Er.UNSUPPORTED, "Headwater does not support constraints"),
        (
            row(format=[{"name": "a", "foreign_key": {"c": {}}}]),
            Er.UNSUPPORTED,
            "Headwater does not support foreign keys",
        ),
        (
            row(format=[{"name": "a", "compression": "zstd"}]),
            Er.UNSUPPORTED,
            "Headwater does not support compressed fields",
        ),
        (row(format=[{"name": "a", "layout": "x"}]), Er.UNSUPPORTED, "memtx does not support 'layout' option"),
        (
            row(format=[{"name": "a", "type": "unsigned", "default": "x"}]),
            Er.DEFAULT_VALUE_TYPE,
            "Type of the default value does not match tuple field 1 (a) type: expected unsigned, got string",
        ),
    ],
)
@pytest.mark.parametrize("source", [Source.CLIENT, Source.XLOG, Source.PEER])
def test_a_bad_row_is_refused_by_name_wherever_it_comes_from(
    node: Dictionary, fields: list[object], code: Er, text: str, source: Source
) -> None:
    before = node.rows(SPACE)
    version = node.memtx.schema_version
    assert refusal(node.insert, SPACE, *fields, source=source) == (code, text)
    assert node.rows(SPACE) == before
    assert node.memtx.schema_version == version
    assert node.memtx.space(512) is None


@pytest.mark.parametrize(
    "option", [{"compression": "none"}, {"compression": {"type": "none"}}, {"anything": 1}, {"type": "str"}]
)
def test_options_of_fields_that_change_nothing_are_taken(node: Dictionary, option: dict[str, object]) -> None:
    node.create_space(format=[{"name": "a", **option}])


def test_a_space_is_renamed_and_the_old_name_is_free(node: Dictionary) -> None:
    space = node.create_space()
    node.replace(SPACE, *row(name="u"))
    assert node.schema.space("u") is space
    assert node.schema.find_space("t") is None
    node.create_space(513, "t")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (row(engine="sysview"), "can not change space engine"),
        (row(options={"group_id": 1}), "replication group is immutable"),
        (row(options={"type": "temporary"}), "temporariness cannot change"),
    ],
)
def test_what_a_space_is_stays(node: Dictionary, fields: list[object], text: str) -> None:
    node.create_space()
    assert refusal(node.replace, SPACE, *fields) == (Er.ALTER_SPACE, f"Can't modify space 't': {text}")


def test_data_temporariness_changes_only_without_data(node: Dictionary) -> None:
    space = node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    node.replace(SPACE, *row(options={"temporary": True}))
    assert space.kernel is not None
    assert space.kernel.temporary
    node.insert(512, 1)
    text = "Can't modify space 't': can not change data-temporariness on a non-empty space"
    assert refusal(node.replace, SPACE, *row()) == (Er.ALTER_SPACE, text)


def test_a_space_is_dropped_only_when_nothing_speaks_of_it(node: Dictionary) -> None:
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    assert refusal(node.delete, SPACE, 512) == (Er.DROP_SPACE, "Can't drop space 't': the space has indexes")
    node.replace(system.TRUNCATE, 512, 1)
    node.grant(0, "space", 512, 1)
    node.delete(INDEX, 512, 0)
    assert refusal(node.delete, SPACE, 512) == (Er.DROP_SPACE, "Can't drop space 't': the space has grants")
    node.delete(system.PRIV, 0, "space", 512)
    assert refusal(node.delete, SPACE, 512) == (Er.DROP_SPACE, "Can't drop space 't': the space has truncate record")
    node.delete(system.TRUNCATE, 512)
    node.delete(SPACE, 512)
    assert node.schema.find_space(512) is None
    assert node.memtx.space(512) is None


def test_a_system_space_is_dropped_by_an_upgrade_and_by_nobody_else(node: Dictionary) -> None:
    node.delete(INDEX, system.RECOVERY_POINT, 0, source=Source.PEER)
    text = "Can't drop space '_recovery_point': the space is a system space"
    assert refusal(node.delete, SPACE, system.RECOVERY_POINT) == (Er.DROP_SPACE, text)
    node.delete(SPACE, system.RECOVERY_POINT, source=Source.PEER)
    assert node.schema.find_space("_recovery_point") is None


def test_a_failed_journal_takes_creation_and_drop_back(node: Dictionary) -> None:
    mark = node.mark
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    node.insert(512, 1)
    node.failed(mark)
    assert node.schema.find_space("t") is None
    assert node.memtx.space(512) is None
    assert node.rows(SPACE, key=[512], it=0) == []

    space = node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    node.insert(512, 1)
    node.written()
    mark = node.mark
    node.delete(INDEX, 512, 0)
    node.delete(SPACE, 512)
    node.failed(mark)
    assert node.schema.space("t") is space
    assert node.rows(512) == [[1]]


def test_definitions_of_temporary_spaces_are_not_journaled(node: Dictionary) -> None:
    node.insert(SPACE, *row(1 << 30, options={"type": "temporary"}))
    node.create_index(1 << 30, 0, [[0, "unsigned"]])
    node.delete(INDEX, 1 << 30, 0)
    node.delete(SPACE, 1 << 30)
    assert node.journals[-4:] == [Journal.NOWHERE] * 4
    node.create_space(512, "d", temporary=True)
    assert node.journals[-1] is Journal.GLOBAL
    assert refusal(node.grant, 0, "space", node.create_space(513, "x", type="temporary").id, 1) == (
        Er.UNSUPPORTED,
        "temporary space does not support privileges",
    )


def test_on_a_read_only_instance_only_temporary_spaces_are_made(node: Dictionary) -> None:
    def check_writable() -> None:
        raise er(Er.READONLY)

    from headwater.store.context import Context
    from headwater.wire.msgpack import pack

    ctx = Context(node.schema.users.admin, check_writable=check_writable)
    space = node.schema.space(SPACE)
    with pytest.raises(BoxError) as caught:
        node.schema.replaced(space, None, pack(row()), ctx)
    assert caught.value.code == Er.READONLY
    assert node.schema.replaced(space, None, pack(row(options={"type": "temporary"})), ctx) is Journal.NOWHERE


def test_field_defaults_fill_nil_and_missing_fields(node: Dictionary) -> None:
    space = node.create_space(
        format=[
            {"name": "id", "type": "unsigned"},
            {"name": "a", "type": "string", "default": "x"},
            {"name": "b", "type": "unsigned", "is_nullable": True},
            {"name": "c", "type": "double", "default": 1.5},
        ]
    )
    node.create_index(512, 0, [[0, "unsigned"]])
    assert node.insert(512, 1) == [1, "x", None, 1.5]
    assert node.insert(512, 2, None, 7, None, "more") == [2, "x", 7, 1.5, "more"]
    assert node.insert(512, 3, "y", None, 2.5) == [3, "y", None, 2.5]
    assert space.kernel is not None
    assert not space.kernel.fast
