"""The rows of a new data directory, made from `bootstrap_tables` (box.cc bootstrap_master, lua/upgrade.lua).

They equal what a real Tarantool of the same schema version starts with, row by row, so that every release that takes
that version as its own takes ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from headwater.store import system
from headwater.store.bootstrap_tables import (
    EMPTY_PASSWORD,
    FUNCTION_TIMES,
    KINDS,
    LATER_FIELDS,
    LOCALES,
    LUA_BODY,
    SPACES,
    SQL_BUILTINS,
    STRENGTHS,
    SUPER,
    USERS,
    V2_3_1,
    V2_11_5,
    V3_8_0,
    VERSIONS,
    VFUNC_FIELDS,
    SystemSpace,
    Version,
)
from headwater.typing import SpaceId
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack

ADMIN, PUBLIC, REPLICATION = 1, 2, 3
EVERYTHING = 0xFFFFFFFF

Row = tuple[SpaceId, list[object]]


def bootstrap_rows(version: Version) -> list[tuple[SpaceId, bytes]]:
    """Space and tuple of every row, in the order of a snapshot: by space, then by primary key."""
    return [(space_id, pack(fields)) for space_id, fields in bootstrap_values(version)]


def bootstrap_values(version: Version) -> Iterator[Row]:
    """The same rows as values."""
    if version not in VERSIONS:
        raise ValueError(f"no rows for schema version {version}")
    if version == V2_3_1:
        yield system.SCHEMA, ["max_id", system.SYSTEM_ID_MAX]
    yield system.SCHEMA, ["version", *version]
    yield from ((system.COLLATION, row) for row in _collations())
    yield from ((system.SPACE, row) for row in _spaces(version))
    yield from ((system.INDEX, row) for row in _indexes(version))
    yield from ((system.FUNC, row) for row in _functions(version))
    yield from ((system.USER, row) for row in _users(version))
    yield from ((system.PRIV, row) for row in _privileges(version))


def bootstrap_control_rows(version: Version) -> list[tuple[int, bytes]]:
    """Type and body of the rows about election and queue behind them. Schema versions before 2.6.2 have none, and
    their peers would stop at one."""
    if version < (2, 6, 2):
        return []
    promote: dict[int, object] = {Key.REPLICA_ID: 0, Key.LSN: 0}
    if version >= V3_8_0:
        promote[Key.TERM] = 1
    promote[Key.VCLOCK] = {}
    return [(Type.RAFT, pack({0: 1})), (Type.RAFT_PROMOTE, pack(promote))]


def master_rows(
    version: Version,
    instance_uuid: UUID,
    replicaset_uuid: UUID,
    *,
    instance_name: str = "",
    replicaset_name: str = "",
    cluster_name: str = "",
) -> list[tuple[SpaceId, bytes]]:
    """What the first master of a set adds: itself, the set, and the names that its options give."""
    member: list[object] = [1, str(instance_uuid)]
    if instance_name:
        member.append(instance_name)
    key = "replicaset_uuid" if version >= (3, 0, 0) else "cluster"
    rows: list[Row] = [(system.CLUSTER, member), (system.SCHEMA, [key, str(replicaset_uuid)])]
    for name_key, name in (("cluster_name", cluster_name), ("replicaset_name", replicaset_name)):
        if name:
            rows.append((system.SCHEMA, [name_key, name]))
    return [(space_id, pack(fields)) for space_id, fields in rows]


# ---- the tables, row by row -----------------------------------------------------------------------


def _collations() -> Iterator[list[object]]:
    yield [0, "none", ADMIN, "BINARY", "", {}]
    yield [1, "unicode", ADMIN, "ICU", "", {"strength": "tertiary"}]
    yield [2, "unicode_ci", ADMIN, "ICU", "", {"strength": "primary"}]
    yield [3, "binary", ADMIN, "BINARY", "", {}]
    collation_id = 4
    for entry in LOCALES.split():
        name, _, locale = entry.partition("=")
        for number, strength in enumerate(STRENGTHS, 1):
            yield [
                collation_id,
                f"unicode_{name}_s{number}",
                ADMIN,
                "ICU",
                locale or name,
                {"strength": strength},
            ]
            collation_id += 1


def _present(version: Version) -> Iterator[tuple[SpaceId, SystemSpace, bool]]:
    """Id, space, and whether it is the view on that space, by id."""
    found: list[tuple[SpaceId, SystemSpace, bool]] = []
    for space in SPACES:
        if version >= space.since:
            found.append((space.id, space, False))
        if space.view is not None and version >= space.view_since:
            found.append((space.view, space, True))
    return iter(sorted(found, key=lambda entry: entry[0]))


def _spaces(version: Version) -> Iterator[list[object]]:
    for space_id, space, is_view in _present(version):
        name = f"_v{space.name[1:]}" if is_view else space.name
        engine = "sysview" if is_view else space.engine
        fields = _format(space, version)
        if is_view and space.id == system.FUNC:
            fields = fields[: VFUNC_FIELDS.get(version)]
        options = {} if is_view else dict(space.options)
        yield [space_id, ADMIN, name, engine, space.field_count, options, fields]


def _format(space: SystemSpace, version: Version) -> list[dict[str, object]]:
    fields = space.fields.split()
    for since, more in LATER_FIELDS.get(space.id, ()):
        if version >= since:
            fields += more.split()
    return [_field(field) for field in fields]


def _field(text: str) -> dict[str, object]:
    name, _, kind = text.partition(":")
    type_name = KINDS[kind.removesuffix("?")]
    if name.startswith("~"):
        field: dict[str, object] = {"type": type_name, "name": name[1:]}
    else:
        field = {"name": name, "type": type_name}
    if kind.endswith("?"):
        field["is_nullable"] = True
    return field


def _indexes(version: Version) -> Iterator[list[object]]:
    for space_id, space, _ in _present(version):
        for index in filter(None, space.indexes.split("|")):
            number, name, parts = index.split()
            index_type = "hash" if name.endswith("#") else "tree"
            unique = not name.endswith("*")
            yield [space_id, int(number), name.rstrip("*#"), index_type, {"unique": unique}, _parts(parts, space.maps)]


def _parts(text: str, maps: bool) -> list[object]:
    parts: list[object] = []
    for part in text.split(","):
        field, _, kind = part.partition(":")
        if maps:
            parts.append({"field": int(field), "type": KINDS[kind]})
        else:
            parts.append([int(field), KINDS[kind]])
    return parts


def _functions(version: Version) -> Iterator[list[object]]:
    yield _function(version, 1, "box.schema.user.info", "LUA", "", [], ["LUA"])
    if version == V2_3_1:
        for number, name in enumerate(SQL_BUILTINS.split(), 2):
            yield _function(version, number, name, "SQL_BUILTIN", "", [], [])
    yield _function(version, 65, "LUA", "LUA", LUA_BODY, ["string"], ["LUA", "SQL"])
    if version == V2_3_1:
        yield _function(version, 66, "GREATEST", "SQL_BUILTIN", "", [], [])
        yield _function(version, 67, "LEAST", "SQL_BUILTIN", "", [], [])


def _function(
    version: Version, number: int, name: str, language: str, body: str, params: list[str], exports: list[str]
) -> list[object]:
    """Functions ran as their owner until 2.6.2."""
    setuid = 1 if version == V2_3_1 else 0
    time = FUNCTION_TIMES[version]
    head = [number, ADMIN, name, setuid, language, body, "function", params, "any", "none", "none"]
    row: list[object] = [*head, False, False, True, exports, {}, "", time, time]
    return [*row, []] if version >= V3_8_0 else row


def _users(version: Version) -> Iterator[list[object]]:
    for number, name, kind in (*USERS, SUPER):
        auth = {"chap-sha1": EMPTY_PASSWORD} if name == "guest" else {}
        row: list[object] = [number, ADMIN, name, kind, auth]
        yield [*row, [], 0] if version >= V2_11_5 else row


def _privileges(version: Version) -> Iterator[list[object]]:
    """Guest is public and may log in; admin and super may all; replication reads all and registers."""
    yield [ADMIN, 0, "role", PUBLIC, 4]
    yield [ADMIN, 0, "universe", 0, 24]
    yield [ADMIN, ADMIN, "universe", 0, EVERYTHING]
    for object_type, object_id, bits in sorted(_public(version)):
        yield [ADMIN, PUBLIC, object_type, object_id, bits]
    yield [ADMIN, REPLICATION, "space", system.CLUSTER, 2]
    if version >= V3_8_0:
        yield [ADMIN, REPLICATION, "space", system.GC_CONSUMERS, 2]
    yield [ADMIN, REPLICATION, "universe", 0, 1]
    yield [ADMIN, 31, "universe", 0, EVERYTHING]


def _public(version: Version) -> Iterator[tuple[str, int, int]]:
    """Everybody may call the functions there are, look through the views and truncate what is his."""
    if version == V2_3_1:
        yield from (("function", number, 4) for number in range(1, 68))
        yield "space", system.COLLATION, 2
    else:
        yield "function", 1, 4
        yield "function", 65, 1
        yield "space", system.SESSION_SETTINGS, 3
    for space_id, _, is_view in _present(version):
        if is_view:
            yield "space", space_id, 1
    yield "space", system.TRUNCATE, 2
