"""Options of reads as Lua takes them: iterator names, limit, offset, after (lua/utils.lua of 3.x)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.box.procedures.arguments import illegal, is_table, lua_text, lua_type
from headwater.box.procedures.context import NO_LIMIT
from headwater.errors import Er, er
from headwater.typing import IteratorType
from headwater.wire.msgpack import pack

_ITERATORS = {type.name: type.value for type in IteratorType} | {
    "FORWARD_INCLUSIVE": IteratorType.GE.value,
    "FORWARD_EXCLUSIVE": IteratorType.GT.value,
    "REVERSE_INCLUSIVE": IteratorType.LE.value,
    "REVERSE_EXCLUSIVE": IteratorType.LT.value,
}


def iterator_of(options: Any, *, all_keys: bool) -> int:
    """check_iterator_type: a name in any case or a number, alone or as `iterator` of a table. Without one every tuple
    if the key is empty, else those that are equal."""
    given = options.get("iterator") if isinstance(options, dict) else None if is_table(options) else options
    if given is None:
        return IteratorType.ALL if all_keys else IteratorType.EQ
    match lua_type(given):
        case "number":
            return int(given)
        case "string" if given.upper() in _ITERATORS:
            return _ITERATORS[given.upper()]
    raise er(Er.ITERATOR_TYPE, lua_text(given))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of select (check_select_opts)."""

    iterator: int
    offset: int
    limit: int
    after_position: bytes | None
    after_tuple: bytes | None
    fetch_position: bool

    @classmethod
    def of(cls, options: Any, *, all_keys: bool) -> ReadOptions:
        table = options if isinstance(options, dict) else {}
        after: Any = table.get("after")
        if after is not None and not isinstance(after, str | bytes) and not is_table(after):
            raise er(Er.ITERATOR_POSITION)
        return cls(
            iterator_of(options, all_keys=all_keys),
            _count(table, "offset", 0),
            _count(table, "limit", NO_LIMIT),
            _position(after) if isinstance(after, str | bytes) else None,
            pack(list(after)) if is_table(after) and not isinstance(after, dict) else None,
            bool(table.get("fetch_pos")),
        )


def _position(after: str | bytes) -> bytes:
    return after if isinstance(after, bytes) else after.encode("utf-8", "surrogateescape")


def _count(table: dict[str, Any], name: str, default: int) -> int:
    value = table.get(name)
    if value is None:
        return default
    if lua_type(value) != "number" or value < 0:
        raise illegal(f"options parameter '{name}' should be a non-negative number")
    return min(int(value), NO_LIMIT)
