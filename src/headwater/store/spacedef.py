"""A row of `_space`, checked (alter.cc space_def_new_from_tuple, space_def.c, field_def.c).

What Headwater does not do is refused by name here and in indexdef.py, for clients, recovery and peers alike:
a constraint that is kept and not enforced would be worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, cast

from headwater.errors import BoxError, Er, er
from headwater.kernels import mp_array_fields
from headwater.store import options as opt
from headwater.store.definitions import FieldDef, SpaceDef
from headwater.store.fields import FIXED_DECIMALS, type_by_name
from headwater.store.identifier import check_identifier, is_too_long, shown, too_long
from headwater.store.rowview import Row, map_slices
from headwater.store.system import VINYL_DEFERRED_DELETE
from headwater.typing import FieldType, SpaceId, UserId
from headwater.wire.msgpack import unpack

SPACE_ID_MAX = 2147483646
"""schema_def.c, BOX_SPACE_MAX."""
ENGINE_NAME_MAX = 16
GROUP_DEFAULT, GROUP_LOCAL = 0, 1
ACTIONS = ("none", "rollback", "abort", "fail", "ignore", "replace", "default")
"""field_def.c, on_conflict_action_strs."""
SPACE_TYPES = ("normal", "data-temporary", "temporary")
ENGINES = frozenset({"memtx", "sysview", "service", "blackhole"})
FOREIGN_ENGINES = frozenset({"vinyl", "memcs", "quiver"})
"""Engines of other builds that exist, and that Headwater refuses by name."""

KnowsCollation = Callable[[int], bool]
"""Is there a collation with this id?"""


def unsupported(what: str) -> BoxError:
    """`Headwater does not support …`."""
    return er(Er.UNSUPPORTED, "Headwater", what)


def _temporary(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise opt.BadOption("'temporary' must be boolean")
    return value


def _type(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise opt.BadOption("'type' must be a string")
    if value.lower() not in SPACE_TYPES:
        raise opt.BadOption("unknown space type")
    return value.lower()


_SPACE_OPTIONS: opt.Table = {
    "type": _type,
    "group_id": opt.uint32,
    "temporary": _temporary,
    "view": opt.boolean,
    "is_sync": opt.boolean,
    "defer_deletes": opt.boolean,
    "sql": opt.string,
    "constraint": opt.ignored,
    "foreign_key": opt.ignored,
    "upgrade": opt.ignored,
    "checks": opt.ignored,
}
_FIELD_OPTIONS: opt.Table = {
    "type": lambda name, value: _field_type(value),
    "scale": opt.int64,
    "name": opt.string,
    "is_nullable": opt.boolean,
    "nullable_action": opt.enum(*ACTIONS),
    "collation": opt.uint32,
    "compression": opt.ignored,
    "default": opt.ignored,
    "default_func": opt.uint32,
    "layout": opt.string,
    "constraint": opt.ignored,
    "foreign_key": opt.ignored,
}


def _field_type(value: object) -> FieldType | str | None:
    """The type, the name of one that we do not keep, or None for one that nobody knows."""
    if not isinstance(value, str):
        raise opt.BadOption("'type' must be enum")
    return value.lower() if value.lower() in FIXED_DECIMALS else type_by_name(value)


def read_space_def(row: Row, code: Er, knows_collation: KnowsCollation) -> SpaceDef:
    """The definition in a row of `_space`. `code` is CREATE_SPACE or ALTER_SPACE."""
    name = row.string(2)
    if is_too_long(name):
        raise too_long(code, name, "space")
    check_identifier(name)
    space_id = _read_id(row, code, name)
    owner = row.u32(1)
    field_count = row.u32(4)
    engine = _read_engine(row, code, name)
    row.map(5)
    row.array(6)
    fields = read_format(row.raw(6))
    if field_count and field_count < len(fields):
        raise er(code, name, "exact_field_count must be either 0 or >= formatted field count")
    for field in fields:
        if field.collation is not None and not knows_collation(field.collation):
            raise er(Er.WRONG_COLLATION_OPTIONS, "collation was not found by ID")
    options = _read_options(row.map(5))
    definition = SpaceDef(SpaceId(space_id), UserId(owner), name, engine, field_count, options, fields)
    _check_options(definition, code)
    _check_engine(definition)
    return definition


def _read_id(row: Row, code: Er, name: str) -> int:
    space_id = row.u32(0)
    if space_id > SPACE_ID_MAX:
        raise er(code, name, "space id is too big")
    if space_id == 0:
        raise er(code, name, "space id 0 is reserved")
    return space_id


def _read_engine(row: Row, code: Er, name: str) -> str:
    engine = row.string(3)
    if len(engine.encode("utf-8", "surrogateescape")) > ENGINE_NAME_MAX:
        raise er(code, name, "space engine name is too long")
    check_identifier(engine)
    return engine


def _read_options(options: Mapping[object, object]) -> Mapping[str, Any]:
    try:
        read = opt.decode(_SPACE_OPTIONS, options)
        if "type" in read and "temporary" in read:
            raise opt.BadOption("only one of 'type' or 'temporary' may be specified")
    except opt.BadOption as error:
        raise er(Er.WRONG_SPACE_OPTIONS, str(error)) from None
    return read


def _check_options(definition: SpaceDef, code: Er) -> None:
    options = definition.options
    group = options.get("group_id", GROUP_DEFAULT)
    if group not in (GROUP_DEFAULT, GROUP_LOCAL):
        raise er(Er.NO_SUCH_GROUP, str(group))
    if options.get("view") and options.get("sql") is None:
        raise er(Er.VIEW_MISSING_SQL)
    if definition.is_sync and group == GROUP_LOCAL:
        raise er(code, definition.name, "local space can't be synchronous")
    if options.get("view"):
        raise unsupported("SQL views")
    for name, what in (("constraint", "constraints"), ("foreign_key", "foreign keys"), ("upgrade", "space upgrade")):
        if options.get(name):
            raise unsupported(what)


def _check_engine(definition: SpaceDef) -> None:
    """Engines are looked up last (engine_find), and `layout` belongs to none that we have."""
    engine, space_id = definition.engine, definition.id
    if engine in FOREIGN_ENGINES:
        raise unsupported(f"the engine '{engine}' of space '{definition.name}'")
    if engine not in ENGINES:
        raise er(Er.NO_SUCH_ENGINE, shown(engine))
    if engine == "blackhole" and space_id != VINYL_DEFERRED_DELETE:
        raise unsupported(f"the engine 'blackhole' of space '{definition.name}'")
    if any(field.raw.get("layout") for field in definition.format):
        raise er(Er.UNSUPPORTED, "memtx", "'layout' option")


# ---- format ---------------------------------------------------------------------------------------


def read_format(data: bytes) -> list[FieldDef]:
    """All fields of a `_space.format`, an array of maps (field_def_array_decode)."""
    ends = mp_array_fields(data)
    return [_read_field(data[begin:end], number) for number, (begin, end) in enumerate(pairwise(ends))]


def _bad_field(number: int, what: str) -> BoxError:
    return er(Er.WRONG_SPACE_FORMAT, number + 1, what)


def _read_field(data: bytes, number: int) -> FieldDef:
    field = unpack(data)
    if not isinstance(field, Mapping):
        raise _bad_field(number, "expected a map")
    raw = cast("Mapping[object, object]", field)
    if not all(isinstance(key, str) for key in raw):
        raise _bad_field(number, "expected a map with string keys")
    try:
        read = opt.decode(_FIELD_OPTIONS, raw, skip_unknown=True)
    except opt.BadOption as error:
        raise _bad_field(number, str(error)) from None
    default = map_slices(data)["default"] if "default" in raw else None
    definition = _build_field(read, cast("Mapping[str, Any]", raw), default, number)
    _refuse_field_options(read)
    return definition


def _build_field(read: Mapping[str, object], raw: Mapping[str, Any], default: bytes | None, number: int) -> FieldDef:
    """In the order of field_def_decode, so that the first of several faults is told as 3.x tells it."""
    name = read.get("name")
    if name is None:
        raise _bad_field(number, "field name is missing")
    assert isinstance(name, str)
    if is_too_long(name):
        raise _bad_field(number, "field name is too long")
    check_identifier(name)
    kind = read.get("type", FieldType.ANY)
    if kind is None:
        raise _bad_field(number, "unknown field type")
    nullable = bool(read.get("is_nullable", False))
    action = read.get("nullable_action", "none" if nullable else "default")
    if action is None:
        raise _bad_field(number, "unknown nullable action")
    if nullable != (action == "none"):
        raise _bad_field(number, "conflicting nullability and nullable action properties")
    collation = cast("int | None", read.get("collation") or None)
    if collation is not None and kind not in (FieldType.STRING, FieldType.SCALAR, FieldType.ANY):
        raise _bad_field(number, "collation is reasonable only for 'string', 'scalar', and 'any' fields")
    if not isinstance(kind, FieldType):
        if "scale" not in read:
            raise _bad_field(number, "scale is not specified")
        raise unsupported(f"the field type '{kind}'")
    if "scale" in read:
        raise _bad_field(number, "scale makes sense only for fixed-point decimals")
    return FieldDef(name, kind, nullable, collation, raw, str(action), default)


def _refuse_field_options(read: Mapping[str, object]) -> None:
    if read.get("default_func"):
        raise unsupported("functions that make default values")
    if read.get("constraint"):
        raise unsupported("constraints")
    if read.get("foreign_key"):
        raise unsupported("foreign keys")
    compression = read.get("compression")
    if isinstance(compression, Mapping):
        compression = compression.get("type", "none")
    if compression is not None and (not isinstance(compression, str) or compression.lower() != "none"):
        raise unsupported("compressed fields")
