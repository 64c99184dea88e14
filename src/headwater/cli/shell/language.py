r"""What a line of the prompt asks for.

t.select 1                   tuples of the space t with the key 1; without a key all
t.by_name.select "a" limit=5 by another index; options limit, offset, iterator
t.insert 1, "a"              also replace, delete, get; a tuple may be a list or a map of field names
t.update 1 name="b" n+=1     also upsert
t.count, t.len, t.truncate   any method of a space
box.info, f(1, "a"), f 1 "a" call a procedure
\spaces, \d t, \help, \q     about the database, and about the prompt
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from headwater.cli.shell.literals import Assignment, ParseError, Reader

READS = ("select", "get")
WRITES = ("insert", "replace", "update", "upsert", "delete")
METHODS = ("count", "len", "min", "max", "random", "bsize", "format", "truncate", "drop", "rename", "alter")
"""Done by CALL of `box.space.NAME:METHOD`."""
SPACE_ONLY = ("create_index", "auto_increment", "put")
META = {"help": "what can be typed", "spaces": "the spaces", "d": "one space: fields and indexes", "q": "leave"}

_SIGNS = {"=": "=", "+=": "+", "-=": "-", "&=": "&", "|=": "|", "^=": "^"}
_HEAD = re.compile(r"\s*([^\s({\[\"']+(?:\[[^\]]*\][^\s({\[\"']*)*)\s*")


@dataclass(frozen=True, slots=True)
class Read:
    """select or get."""

    space: str
    index: str | None
    key: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    single: bool = False
    """get: at most one tuple."""


@dataclass(frozen=True, slots=True)
class Write:
    """A change of one tuple."""

    kind: str
    space: str
    index: str | None
    key: list[Any] | dict[str, Any]
    """The key, or for insert, replace and upsert the tuple."""
    operations: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Call:
    """CALL of a procedure."""

    name: str
    args: list[Any]


@dataclass(frozen=True, slots=True)
class Meta:
    """A command to the prompt itself."""

    name: str
    argument: str = ""


Command = Read | Write | Call | Meta


def parse(line: str) -> Command | None:
    """None for an empty line or a comment. ParseError says what is wrong."""
    line = line.strip().rstrip(";").rstrip()
    if not line or line.startswith(("#", "--")):
        return None
    if line.startswith("\\"):
        return _meta(line[1:])
    if line in ("help", "quit", "exit"):
        return Meta("help" if line == "help" else "q")
    head = _HEAD.match(line)
    if head is None:
        raise ParseError("a line begins with the name of a space and what to do, or of a procedure; try \\help")
    return _command(head[1], _arguments(line[head.end() :]))


def _meta(text: str) -> Meta:
    name, _, argument = text.partition(" ")
    if name not in META:
        raise ParseError(f"\\{name} is not known; try \\help")
    return Meta(name, argument.strip())


def _arguments(text: str) -> list[Any]:
    """Bare, or in one pair of brackets as in a program."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return Reader(text).arguments()


def _command(name: str, args: list[Any]) -> Command:
    path, _, verb = name.rpartition(".")
    if not path or name.startswith("box.") or ":" in name:
        return Call(name, _values(name, args))
    space, _, index = path.partition(".")
    if verb in READS:
        return _read(verb, space, index or None, args)
    if verb in WRITES:
        return _write(verb, space, index or None, args)
    if verb in METHODS or (verb in SPACE_ONLY and not index):
        target = f"box.space.{space}.index.{index}" if index else f"box.space.{space}"
        return Call(f"{target}:{verb}", _values(name, args))
    return Call(name, _values(name, args))


def _values(name: str, args: list[Any]) -> list[Any]:
    """Assignments at the end are one map, as Lua programs give options."""
    plain = [arg for arg in args if not isinstance(arg, Assignment)]
    named = {arg.name: arg.value for arg in args if isinstance(arg, Assignment)}
    if any(arg.sign != "=" for arg in args if isinstance(arg, Assignment)):
        raise ParseError(f"{name}: only '=' names an option")
    return [*plain, named] if named else plain


def _split(args: list[Any]) -> tuple[list[Any], list[Assignment]]:
    plain = [arg for arg in args if not isinstance(arg, Assignment)]
    return plain, [arg for arg in args if isinstance(arg, Assignment)]


def _key(plain: list[Any]) -> list[Any]:
    return plain[0] if len(plain) == 1 and isinstance(plain[0], list) else plain


def _read(verb: str, space: str, index: str | None, args: list[Any]) -> Read:
    plain, named = _split(args)
    options = {one.name: one.value for one in named}
    if unknown := set(options) - {"limit", "offset", "iterator", "index"}:
        raise ParseError(f"{verb} has no option '{min(unknown)}'; it has limit, offset, iterator, index")
    for name in ("limit", "offset"):
        if name in options and not isinstance(options[name], int):
            raise ParseError(f"{name} is a whole number")
    index = options.pop("index", index)
    return Read(space, index, _key(plain), options, single=verb == "get")


def _write(verb: str, space: str, index: str | None, args: list[Any]) -> Write:
    plain, named = _split(args)
    if verb in ("insert", "replace"):
        return Write(verb, space, None, _tuple(verb, plain, named))
    if verb == "delete":
        if named:
            raise ParseError("delete takes a key")
        return Write(verb, space, index, _key(plain))
    operations = [[_SIGNS[one.sign], one.name, one.value] for one in named]
    if plain and isinstance(plain[-1], list) and plain[-1] and all(isinstance(op, list) for op in plain[-1]):
        operations += plain.pop()
    if not operations:
        raise ParseError(f"{verb} needs operations: field=value, field+=number, or a list of lists")
    key = _tuple(verb, plain, []) if verb == "upsert" else _key(plain)
    return Write(verb, space, index, key, operations)


def _tuple(verb: str, plain: list[Any], named: list[Assignment]) -> list[Any] | dict[str, Any]:
    """Values in their order, one list of them, one map, or `field=value` pairs."""
    if named:
        if plain or any(one.sign != "=" for one in named):
            raise ParseError(f"{verb} takes either values in their order or field=value pairs")
        return {one.name: one.value for one in named}
    if len(plain) == 1 and isinstance(plain[0], list | dict):
        return plain[0]
    if not plain:
        raise ParseError(f"{verb} takes a tuple")
    return plain
