"""A row of `_index`, checked (alter.cc index_def_new_from_tuple, index_def.c, key_def.c, memtx_space.c).

Parts come in two shapes, both with field numbers from 0: arrays `[field, type]` (1.6.6 and later) and maps (1.7.6 and
later). What of them Headwater does not do is refused by name after everything that 3.x itself would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from headwater.errors import BoxError, Er, er
from headwater.store import options as opt
from headwater.store.definitions import FieldDef, IndexDef, PartDef, SpaceDef
from headwater.store.fields import FIXED_DECIMALS, type_by_name, type_name
from headwater.store.identifier import check_identifier, cut, is_too_long
from headwater.store.rowview import Row
from headwater.store.spacedef import ACTIONS, KnowsCollation, unsupported
from headwater.typing import FieldType, IndexId, SpaceId

INDEX_ID_MAX = 127
"""Index ids are smaller than BOX_INDEX_MAX = 128 (schema_def.h)."""
PART_MAX = 255
"""BOX_INDEX_PART_MAX."""
FIELD_MAX = 32767
"""BOX_INDEX_FIELD_MAX."""
INDEX_TYPES = ("hash", "tree", "bitset", "rtree")
Blame = Callable[[str], BoxError]
"""Makes `Can't create or modify index …: <what>`."""
_TYPES_OF_FIELDS = ("unsigned", "unsigned", "string", "string", "map", "array")
_FOREIGN_OPTIONS = (("covers", "covering index"), ("layout", "'layout' option"), ("aggregates", "'aggregates' option"))
"""Options of other engines."""
_UNINDEXED = (FieldType.ANY, FieldType.INTERVAL, FieldType.ARRAY, FieldType.MAP)


def _hint(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise opt.BadOption("'hint' must be boolean")
    return value


def _array(name: str, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise opt.BadOption(f"'{name}' must be array")
    return value


def _layout(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        raise opt.BadOption("'layout' must be string")
    return value or None


_INDEX_OPTIONS: opt.Table = {
    "unique": opt.boolean,
    "dimension": opt.int64,
    "distance": opt.enum("euclid", "manhattan"),
    "range_size": opt.int64,
    "page_size": opt.int64,
    "run_count_per_level": opt.int64,
    "run_size_ratio": opt.number,
    "bloom_fpr": opt.number,
    "lsn": opt.int64,
    "func": opt.uint32,
    "sql": opt.ignored,
    "hint": _hint,
    "covers": _array,
    "layout": _layout,
    "aggregates": _array,
}
DEFAULTS: Mapping[str, object] = {
    "unique": True,
    "dimension": 2,
    "distance": "euclid",
    "range_size": 0,
    "page_size": 8192,
    "run_count_per_level": 2,
    "run_size_ratio": 3.5,
    "bloom_fpr": 0.05,
    "lsn": 0,
    "func": 0,
}
"""index_def.c, index_opts_default. `hint` depends on the type."""
_PART_OPTIONS: opt.Table = {
    "type": lambda name, value: _part_type(value),
    "scale": opt.int64,
    "field": opt.uint32,
    "collation": opt.uint32,
    "is_nullable": opt.boolean,
    "nullable_action": opt.enum(*ACTIONS),
    "sort_order": opt.enum("asc", "desc", "undef"),
    "path": opt.string,
    "exclude_null": opt.boolean,
}


def _part_type(value: object) -> FieldType | str | None:
    if not isinstance(value, str):
        raise opt.BadOption("'type' must be enum")
    return value.lower() if value.lower() in FIXED_DECIMALS else type_by_name(value)


def read_index_def(row: Row, space: SpaceDef, knows_collation: KnowsCollation, *, recovering: bool) -> IndexDef:
    """The definition in a row of `_index`, as far as it can be judged without the tuples of the space."""
    _check_row(row)
    space_id, index_id = row.u32(0), row.u32(1)
    name, kind = row.string(2), row.string(3).lower()
    options = _read_options(row.map(4), index_id)
    if is_too_long(name):
        raise er(Er.MODIFY_INDEX, cut(name), space.name, "index name is too long")
    check_identifier(name)

    def bad(what: str) -> BoxError:
        return er(Er.MODIFY_INDEX, name, space.name, what)

    raw_parts = row.array(5)
    if not raw_parts:
        raise bad("part count must be positive")
    if len(raw_parts) > PART_MAX:
        raise bad("too many key parts")
    wishes = _read_parts(raw_parts, space.format)
    parts = [wish.part for wish in wishes]
    _check_collations(parts, wishes, knows_collation, ordered=kind == "tree")
    unique = bool(options["unique"])
    definition = IndexDef(SpaceId(space_id), IndexId(index_id), name, kind, unique, tuple(parts), options)
    _check_limits(definition, wishes, bad)
    if space.engine == "memtx":
        _check_memtx(definition, space, bad, recovering=recovering)
    _refuse(wishes, options)
    return definition


def _check_row(row: Row) -> None:
    """Six fields of the right kinds (index_def_check_tuple)."""
    types = row.types()
    if tuple(types) != _TYPES_OF_FIELDS:
        expected = (
            "space id (unsigned), index id (unsigned), name (string), type (string), options (map), parts (array)"
        )
        raise er(Er.WRONG_INDEX_RECORD, ", ".join(types), expected)


def _read_options(options: Mapping[object, object], index_id: int) -> Mapping[str, Any]:
    """Options with their defaults filled in, checked as index_opts_validate does."""
    try:
        read = opt.decode(_INDEX_OPTIONS, options)
    except opt.BadOption as error:
        raise er(Er.WRONG_INDEX_OPTIONS, str(error)) from None
    full = {**DEFAULTS, **read}
    if full["distance"] is None:
        raise er(Er.WRONG_INDEX_OPTIONS, "distance must be either 'euclid' or 'manhattan'")
    _check_vinyl_options(full)
    if full.get("covers") and index_id == 0:
        raise er(Er.WRONG_INDEX_OPTIONS, "covers is allowed only for secondary index")
    return full


def _check_vinyl_options(full: Mapping[str, Any]) -> None:
    """They are checked, and mean nothing, for memtx too."""
    if full["page_size"] <= 0 or (full["range_size"] > 0 and full["page_size"] > full["range_size"]):
        raise er(Er.WRONG_INDEX_OPTIONS, "page_size must be greater than 0 and less than or equal to range_size")
    if full["run_count_per_level"] <= 0:
        raise er(Er.WRONG_INDEX_OPTIONS, "run_count_per_level must be greater than 0")
    if full["run_size_ratio"] <= 1:
        raise er(Er.WRONG_INDEX_OPTIONS, "run_size_ratio must be greater than 1")
    if full["bloom_fpr"] <= 0 or full["bloom_fpr"] > 1:
        raise er(Er.WRONG_INDEX_OPTIONS, "bloom_fpr must be greater than 0 and less than or equal to 1")


# ---- parts ----------------------------------------------------------------------------------------


class _Wish:
    """A part as written: the part, and what it asks for that we refuse."""

    __slots__ = ("part", "path", "sort_order", "type")

    def __init__(self, part: PartDef, type: FieldType | str, sort_order: str = "undef", path: str | None = None):
        self.part = part
        self.type = type
        self.sort_order = sort_order
        self.path = path


def _bad_part(number: int, what: str) -> BoxError:
    return er(Er.WRONG_INDEX_PARTS, number + 1, what)


def read_parts(parts: Sequence[object], format: Sequence[FieldDef]) -> list[PartDef]:
    """Parts of a key in either shape (key_def_decode_parts)."""
    return [wish.part for wish in _read_parts(parts, format)]


def _read_parts(parts: Sequence[object], format: Sequence[FieldDef]) -> list[_Wish]:
    """The shape of the first part is asked of all."""
    if isinstance(parts[0], list):
        return [_read_old_part(part, number, format) for number, part in enumerate(parts)]
    return [_read_part(part, number) for number, part in enumerate(parts)]


def _read_old_part(part: object, number: int, format: Sequence[FieldDef]) -> _Wish:
    """`[field, type]` (key_def_decode_parts_166)."""
    if not isinstance(part, list):
        raise _bad_part(number, "expected an array")
    if not part:
        raise _bad_part(number, "expected a non-empty array")
    if len(part) < 2:
        raise _bad_part(number, "field type is missing")
    field, name = part[0], part[1]
    if not opt.is_int(field) or field < 0:
        raise _bad_part(number, "field id must be an integer")
    if not isinstance(name, str):
        raise _bad_part(number, "field type must be a string")
    field &= opt.UINT32_MAX
    kind = type_by_name(name)
    if name.lower() in FIXED_DECIMALS:
        raise _bad_part(number, "scale is not specified")
    if kind is None:
        raise _bad_part(number, "unknown field type")
    # 3.x looks up the field's nullability and then keys by nullable_action, which stays `default` in this shape.
    return _Wish(PartDef(field, kind), kind)


def _read_part(part: object, number: int) -> _Wish:
    """A map (key_def_decode_parts)."""
    if not isinstance(part, Mapping):
        raise _bad_part(number, "expected a map")
    if not all(isinstance(key, str) for key in part):
        raise _bad_part(number, "expected a map with string keys")
    try:
        read = opt.decode(_PART_OPTIONS, cast("Mapping[object, object]", part))
    except opt.BadOption as error:
        raise _bad_part(number, str(error)) from None
    nullable = bool(read.get("is_nullable", False))
    action = read.get("nullable_action", "none" if nullable else "default")
    kind = cast("FieldType | str | None", read.get("type"))
    collation = cast("int | None", read.get("collation") or None)
    if kind is None:
        raise _bad_part(number, "unknown field type")
    if collation is not None and kind not in (FieldType.STRING, FieldType.SCALAR):
        raise _bad_part(number, "collation is only reasonable for 'string' and 'scalar' parts")
    if nullable != (action == "none"):
        raise _bad_part(number, "conflicting nullability and nullable action properties")
    sort_order = read.get("sort_order", "undef")
    if sort_order is None:
        raise _bad_part(number, "unknown sort order")
    if isinstance(kind, FieldType) and "scale" in read:
        raise _bad_part(number, "scale makes sense only for fixed-point decimals")
    if not isinstance(kind, FieldType) and "scale" not in read:
        raise _bad_part(number, "scale is not specified")
    kept = kind if isinstance(kind, FieldType) else FieldType.DECIMAL
    exclude_null = bool(read.get("exclude_null", False))
    definition = PartDef(cast(int, read.get("field", 0)), kept, nullable, exclude_null, collation, str(action))
    return _Wish(definition, kind, str(sort_order), cast("str | None", read.get("path")))


def _check_collations(
    parts: Sequence[PartDef], wishes: Sequence[_Wish], knows_collation: KnowsCollation, *, ordered: bool
) -> None:
    """key_def_new."""
    for number, part in enumerate(parts):
        if part.collation is not None and not knows_collation(part.collation):
            raise _bad_part(number, "collation not found by id")
        if not ordered and wishes[number].sort_order != "undef":
            raise _bad_part(number, "unordered indexes do not support sort_order")


# ---- the whole ------------------------------------------------------------------------------------


def _check_limits(index: IndexDef, wishes: Sequence[_Wish], bad: Blame) -> None:
    """index_def_check."""
    if index.id > INDEX_ID_MAX:
        raise bad("index id too big")
    if index.id == 0 and not index.unique:
        raise bad("primary key must be unique")
    if index.id == 0 and index.options["func"]:
        raise bad("primary key can not use a function")
    seen: set[tuple[int, str | None]] = set()
    for wish in wishes:
        if wish.part.field > FIELD_MAX:
            raise bad("field no is too big")
        place = (wish.part.field, wish.path)
        if place in seen:
            raise bad("same key part is indexed twice")
        seen.add(place)


def _check_memtx(index: IndexDef, space: SpaceDef, bad: Blame, *, recovering: bool) -> None:
    """memtx_space_check_index_def. A wrong `hint` is let pass during recovery, as there."""
    if any(part.nullable for part in index.parts):
        if index.id == 0:
            raise er(Er.NULLABLE_PRIMARY, space.name)
        if index.type in INDEX_TYPES and index.type != "tree":
            raise er(Er.UNSUPPORTED, index.type.upper(), "nullable parts")
    if index.type not in INDEX_TYPES:
        raise er(Er.INDEX_TYPE, index.name, space.name)
    if index.type in ("rtree", "bitset"):
        raise unsupported(f"{index.type.upper()} indexes")
    if index.type == "hash":
        if not index.unique:
            raise bad("HASH index must be unique")
        if index.options["func"]:
            raise bad("HASH index can not use a function")
        if index.options.get("hint") and not recovering:
            raise bad("hint is only reasonable with memtx tree index")
    for part in index.parts:
        if part.type in _UNINDEXED:
            raise bad(f"field type '{type_name(part.type)}' is not supported")
    for name, what in _FOREIGN_OPTIONS:
        if index.options.get(name):
            raise er(Er.UNSUPPORTED, "memtx", what)


def _refuse(wishes: Sequence[_Wish], options: Mapping[str, Any]) -> None:
    """What 3.x does and Headwater does not."""
    if options["func"]:
        raise unsupported("functional indexes")
    for wish in wishes:
        if wish.path is not None:
            raise unsupported("multikey indexes" if "[*]" in wish.path else "indexes by JSON path")
        if wish.sort_order == "desc":
            raise unsupported("descending key parts")
        if not isinstance(wish.type, FieldType):
            raise unsupported(f"the field type '{wish.type}'")
