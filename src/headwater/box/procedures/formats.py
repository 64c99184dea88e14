"""Formats of spaces and parts of indexes as people write them, made into what `_space` and `_index` hold.

Fields are counted from 1 outside and from 0 inside, names are looked up, short forms are filled out: tuple_format.lua
(normalize_format) and schema.lua (update_index_parts, format_field_resolve) of 3.x, with their error texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.box.procedures.arguments import illegal, is_table, items, lua_text, lua_type, pairs

Format = Sequence[Mapping[str, Any]]
FindCollation = Callable[[str], int | None]


def normalize_format(format: Any, find_collation: FindCollation) -> list[dict[str, Any]]:
    return [_field(number, given, find_collation) for number, given in enumerate(items(format), 1)]


def _field(number: int, given: Any, find_collation: FindCollation) -> dict[str, Any]:
    field: dict[str, Any] = {}
    if not is_table(given):
        field["name"] = given
    else:
        named = given if isinstance(given, Mapping) else {}
        for key, value in pairs(given):
            if value is not None:
                _take_option(field, named, number, key, value, find_collation)
    if not isinstance(field.get("name"), str):
        raise illegal(f"format[{number}]: name (string) is expected")
    if not isinstance(field.setdefault("type", "any"), str):
        raise illegal(f"format[{number}]: type must be a string")
    return field


def _take_option(
    field: dict[str, Any], named: Mapping[Any, Any], number: int, key: Any, value: Any, find_collation: FindCollation
) -> None:
    has_name, has_type = named.get("name") is not None, named.get("type") is not None
    if key == 1:
        field["type" if has_name and not has_type else "name"] = value
    elif key == 2 and not has_type and not has_name:
        field["type"] = value
    elif key == "collation":
        found = find_collation(value) if isinstance(value, str) else None
        if found is None:
            raise illegal(f"format[{number}]: collation was not found by name '{lua_text(value)}'")
        field["collation"] = found
    else:
        field[key] = value


def normalize_parts(format: Format, parts: Any, find_collation: FindCollation) -> list[dict[str, Any]]:
    """The parts of an index: `{{field = 0, type = 'unsigned', …}, …}`."""
    if not is_table(parts):
        raise illegal("options.parts parameter should be a table")
    given = items(parts)
    if not given:
        raise illegal("options.parts must have at least one part")
    if lua_type(given[0]) == "number" and (len(given) < 2 or isinstance(given[1], str)):
        given = _pairs_of_old(given) if len(given) > 2 else [parts]
    elif isinstance(parts, Mapping) and len(parts) != len(given):
        raise illegal("options.parts: unexpected option(s)")
    return [_part(number, part, format, find_collation) for number, part in enumerate(given, 1)]


def _pairs_of_old(flat: list[Any]) -> list[dict[str, Any]]:
    """`{1, 'unsigned', 2, 'string'}` (update_index_parts_1_6_0)."""
    wrong = illegal("options.parts: expected field_no (number), type (string) pairs")
    if len(flat) % 2:
        raise wrong
    result = []
    for field, type in zip(flat[::2], flat[1::2], strict=True):
        if lua_type(field) != "number":
            raise wrong
        if field == 0:
            raise illegal("invalid index parts: field_no must be one-based")
        if not isinstance(type, str):
            raise wrong
        result.append({"field": field, "type": type})
    return result


def _part(number: int, given: Any, format: Format, find_collation: FindCollation) -> dict[str, Any]:
    where = f"options.parts[{number}]"
    part = _named_options(where, given, find_collation)
    field: Any = part.get("field")
    if lua_type(field) not in ("number", "string"):
        raise illegal(f"{where}: field (name or number) is expected")
    part["field"], path = resolve_field(format, field, where)
    if path:
        part["path"] = path
    of_format = format[part["field"]] if part["field"] < len(format) else {}
    _inherit(where, part, of_format)
    _check_no_more(where, given)
    return part


def _named_options(where: str, given: Any, find_collation: FindCollation) -> dict[str, Any]:
    if not is_table(given):
        return {"field": given}
    part: dict[str, Any] = {}
    for key, value in pairs(given):
        if value is None:
            continue
        if key in (1, "field"):
            part["field"] = value
        elif key in (2, "type"):
            part["type"] = value
        elif key == "collation":
            part["collation"] = _collation(where, value, find_collation)
        elif key == "exclude_null" and not isinstance(value, bool):
            raise illegal(f"{where}: type (boolean) is expected")
        elif isinstance(key, str):
            part[key] = value
    return part


def _collation(where: str, name: Any, find_collation: FindCollation) -> int:
    found = None
    if isinstance(name, str):
        found = find_collation(name)
        if found is None:
            found = find_collation(name.lower())
    if found is None:
        raise illegal(f"{where}: collation was not found by name '{lua_text(name)}'")
    return found


def _inherit(where: str, part: dict[str, Any], of_format: Mapping[str, Any]) -> None:
    """What the part does not say, the format says."""
    if "type" not in part:
        part["type"] = of_format.get("type") or "scalar"
    elif not isinstance(part["type"], str):
        raise illegal(f"{where}: type (string) is expected")
    for name in ("scale", "collation"):
        if name not in part and of_format.get(name) is not None:
            part[name] = of_format[name]
    if "is_nullable" not in part:
        if of_format.get("is_nullable"):
            part["is_nullable"] = True
    elif not isinstance(part["is_nullable"], bool):
        raise illegal(f"{where}: type (boolean) is expected")
    if part.get("exclude_null") and not part.get("is_nullable"):
        if "is_nullable" in part:
            raise illegal(f"{where}: exclude_null=true and is_nullable=false are incompatible")
        part["is_nullable"] = True
    if "action" not in part and of_format.get("action") is not None:
        part["action"] = of_format["action"]


def _check_no_more(where: str, given: Any) -> None:
    """Nothing behind field and type."""
    if not is_table(given):
        return
    by_key = dict(pairs(given))
    first_illegal = 3 - ("field" in by_key) - ("type" in by_key)
    if by_key.get(first_illegal) is not None:
        raise illegal(f"{where}: unexpected option {lua_text(by_key[first_illegal])}")


_NUMBER_STEP = re.compile(r"\[(\d+)\]")
_QUOTED_STEP = re.compile(r"""\[(?:"([^\]]+)"|'([^\]]+)')\]""")
_NAME_STEP = re.compile(r"[^.\[]+")


def resolve_field(format: Format, path: float | str, what: str) -> tuple[int, str | None]:
    """The number of a field, counted from 0, and the path behind it (format_field_resolve)."""
    if not isinstance(path, str):
        return _zero_based(int(path), what), None
    number = _by_name(format, path)
    if number is not None:
        return number, None
    if step := _NUMBER_STEP.match(path):
        return _zero_based(int(step[1]), what), path[step.end() :]
    for pattern in (_QUOTED_STEP, _NAME_STEP):
        step = pattern.match(path)
        if step is None:
            continue
        name = next((group for group in step.groups() if group), None) if step.groups() else step[0]
        number = _by_name(format, name or "")
        if number is not None:
            return number, path[step.end() :]
    raise illegal(f"{what}: field was not found by name '{path}'")


def _by_name(format: Format, name: str) -> int | None:
    return next((number for number, field in enumerate(format) if field.get("name") == name), None)


def _zero_based(number: int, what: str) -> int:
    if number <= 0:
        raise illegal(f"{what}: field (number) must be one-based")
    return number - 1


_ALIASES = {"num": "unsigned", "uint": "unsigned", "str": "string", "int": "integer", "*": "any"}


def plain_types(parts: list[dict[str, Any]]) -> None:
    """Old names of types become those of today (schema.lua, field_type_aliases)."""
    for part in parts:
        part["type"] = _ALIASES.get(part["type"].lower(), part["type"].lower())


def simplified(parts: list[dict[str, Any]]) -> list[Any]:
    """`{{0, 'unsigned'}, …}` if that says it all (try_simplify_index_parts)."""
    if any(set(part) - {"field", "type"} for part in parts):
        return list(parts)
    return [[part["field"], part["type"]] for part in parts]


def part_field(part: Any) -> int:
    return int(part["field"]) if isinstance(part, Mapping) else int(part[0])


def part_type(part: Any) -> str:
    return str(part["type"] if isinstance(part, Mapping) else part[1])
