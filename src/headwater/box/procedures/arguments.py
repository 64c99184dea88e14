"""Arguments of built-in procedures, judged as Lua would (src/lua/utils.lua).

Clients send Lua tables as arrays and maps: an array has the keys 1, 2, …, and a map without pairs, as much as an empty
array, is an empty table. A nil in a table is the same as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from headwater.errors import BoxError, Er, er

Table = Mapping[Any, Any]


def illegal(words: str) -> BoxError:
    return er(Er.ILLEGAL_PARAMS, words)


def lua_type(value: object) -> str:
    """What Lua's type() says of it, 64-bit integers being numbers (utils.lua, param_type)."""
    match value:
        case None:
            return "nil"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple() | dict():
            return "table"
        case Decimal() | bytes():
            return "cdata"
    return "cdata"


def lua_text(value: object) -> str:
    """What Lua's tostring() makes of a value that an error names."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.14g}"
        case list() | tuple() | dict():
            return "table"
    return str(value)


def check_param(value: object, name: str, type: str) -> None:
    if lua_type(value) != type:
        raise illegal(f"{name} should be a {type}")


def text_param(value: object, name: str) -> str:
    check_param(value, name, "string")
    assert isinstance(value, str)
    return value


def number_param(value: object, name: str) -> int:
    check_param(value, name, "number")
    assert isinstance(value, int | float)
    return int(value)


def check_options(options: object, template: Mapping[str, str]) -> dict[str, Any]:
    """The table of options without what is nil; every key known, every value of one of the types that `template` names
    for it (utils.lua, check_param_table)."""
    if options is None:
        return {}
    if not is_table(options):
        raise illegal("options should be a table")
    given = {key: value for key, value in pairs(options) if value is not None}
    for key, value in given.items():
        types = template.get(key) if isinstance(key, str) else None
        if types is None:
            raise illegal(f"unexpected option '{lua_text(key)}'")
        if types != "any" and lua_type(value) not in types.split(", "):
            of = "one of types:" if "," in types else "of type"
            raise illegal(f"options parameter '{key}' should be {of} {types}")
    return given


def is_table(value: object) -> bool:
    return isinstance(value, list | tuple | dict)


def pairs(table: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a Lua table."""
    if isinstance(table, Mapping):
        yield from table.items()
    else:
        yield from enumerate(table, 1)


def items(table: Any) -> list[Any]:
    """The values at 1, 2, … up to the first that is missing (Lua's ipairs)."""
    if not isinstance(table, Mapping):
        return list(table)
    found: list[Any] = []
    while (value := table.get(len(found) + 1)) is not None:
        found.append(value)
    return found


def is_empty(table: object) -> bool:
    return isinstance(table, Sequence | Mapping) and not table


def with_defaults(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {**defaults, **options}


def without_nil(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if value is not None}


def keyed(key: object) -> list[Any] | tuple[Any, ...]:
    """A key as an array: nil is the empty one, a scalar is one part (schema.lua, keify)."""
    if key is None:
        return []
    if isinstance(key, list | tuple):
        return key
    if isinstance(key, Mapping):
        return items(key)
    return [key]
