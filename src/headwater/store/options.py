"""Maps of options in the rows of system spaces, checked by a table (opt_def.c).

A table says for every name how its value is read. A value of a wrong type and a name that is not in the table are
`BadOption`; the caller words that into the error of its space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
UINT32_MAX = (1 << 32) - 1

Reader = Callable[[str, object], object]
"""Takes the name and the value, gives what is kept, or raises BadOption."""
Table = Mapping[str, Reader]


class BadOption(Exception):  # noqa: N818
    """What is wrong with one option, in the words of opt_def.c."""


def _mismatch(name: str, expected: str) -> BadOption:
    return BadOption(f"'{name}' must be {expected}")


def boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(name, "boolean")
    return value


def is_int(value: object) -> bool:
    """True is an int to Python, never to MessagePack."""
    return isinstance(value, int) and not isinstance(value, bool)


def uint32(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UINT32_MAX:
        raise _mismatch(name, "unsigned")
    return value


def int64(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not INT64_MIN <= value <= INT64_MAX:
        raise _mismatch(name, "integer")
    return value


def number(name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _mismatch(name, "float")
    return float(value)


def string(name: str, value: object) -> str | None:
    """An empty string is as good as none (OPT_STRPTR)."""
    if not isinstance(value, str):
        raise _mismatch(name, "string")
    return value or None


def enum(*members: str) -> Reader:
    """One of `members`, in any case; another string is None, for the caller to refuse in its own words."""

    def read(name: str, value: object) -> str | None:
        if not isinstance(value, str):
            raise _mismatch(name, "enum")
        return value.lower() if value.lower() in members else None

    return read


def ignored(name: str, value: object) -> object:
    """Options of old releases: any value (OPT_LEGACY)."""
    return value


def decode(table: Table, options: Mapping[object, object], *, skip_unknown: bool = False) -> dict[str, object]:
    """The options of a map, each read by its table (opts_decode)."""
    out: dict[str, object] = {}
    for key, value in options.items():
        if not isinstance(key, str):
            raise BadOption("key must be a string")
        reader = table.get(key)
        if reader is not None:
            out[key] = reader(key, value)
        elif not skip_unknown:
            raise BadOption(f"unexpected option '{key}'")
    return out
