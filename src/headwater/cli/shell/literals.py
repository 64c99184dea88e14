"""Values as one types them: `1`, `-2.5`, `"text"`, `word`, `[1, 2]`, `{a: 1}`, `true`, `nil`, `uuid("…")`,
`decimal("1.5")`, `datetime("2026-01-31T12:00:00")`, `bytes("00ff")`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any
from uuid import UUID

from headwater.errors import HeadwaterError


class ParseError(HeadwaterError, ValueError):
    """A line that means nothing; the text says where and why."""


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)(?![\w.]))
      | (?P<assign>[-+&|^]?=)
      | (?P<mark>[\[\]{}(),:])
      | (?P<word>[^\s\[\]{}(),:="']+?(?=[-+&|^]?=|[\s\[\]{}(),:="']|$))
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}

_WORDS: Mapping[str, object] = MappingProxyType({"true": True, "false": False, "nil": None, "null": None})
_MAKERS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        "uuid": UUID,
        "decimal": Decimal,
        "datetime": datetime.fromisoformat,
        "bytes": bytes.fromhex,
    }
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """string, number, assign (`=`, `+=`, …), mark, word."""
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name = value`, `name += value`."""

    name: str
    sign: str
    value: Any


def tokenize(text: str) -> list[Token]:
    tokens = []
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ParseError(f"'{text[at:].strip()[:20]}': a value was expected here")
        tokens.append(Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup), found.end()))
        at = found.end()
    return tokens


class Reader:
    """Walks over the tokens of the arguments of a line."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._at = 0

    def arguments(self) -> list[Any]:
        """Values and assignments up to the end, with or without commas."""
        found: list[Any] = []
        while self._at < len(self._tokens):
            found.append(self._argument())
            self._skip(",")
        return found

    def _argument(self) -> Any:
        token, after = self._peek(0), self._peek(1)
        if token is not None and token.kind == "word" and after is not None and after.kind == "assign":
            self._at += 2
            return Assignment(token.text, after.text, self.value())
        return self.value()

    def value(self) -> Any:
        token = self._next("a value")
        match token.kind:
            case "string":
                return _unquoted(token.text)
            case "number":
                return _number(token.text)
            case "word":
                return self._word(token.text)
            case "mark" if token.text == "[":
                return self._sequence("]")
            case "mark" if token.text == "{":
                return self._map()
        raise ParseError(f"'{token.text}': a value was expected here")

    def _word(self, word: str) -> Any:
        after = self._peek(0)
        if word in _MAKERS and after is not None and after.text == "(":
            self._at += 1
            inside = self._sequence(")")
            return _made(word, inside)
        return _WORDS.get(word, word)

    def _sequence(self, end: str) -> list[Any]:
        found: list[Any] = []
        while not self._skip(end):
            found.append(self.value())
            if not self._skip(",") and not self._is(end):
                raise ParseError(f"'{end}' or ',' is missing")
        return found

    def _map(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while not self._skip("}"):
            key = self.value()
            if isinstance(key, list | dict):
                raise ParseError("a key of a map is a plain value")
            sign = self._next("':'")
            if sign.text not in (":", "="):
                raise ParseError(f"'{sign.text}': ':' was expected here")
            found[key] = self.value()
            if not self._skip(",") and not self._is("}"):
                raise ParseError("'}' or ',' is missing")
        return found

    def _peek(self, ahead: int) -> Token | None:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else None

    def _next(self, what: str) -> Token:
        token = self._peek(0)
        if token is None:
            raise ParseError(f"{what} is missing at the end")
        self._at += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._peek(0)
        return token is not None and token.kind == "mark" and token.text == text

    def _skip(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False


def _unquoted(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if code[0] in "ux" and len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, text[1:-1])


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _made(word: str, inside: list[Any]) -> object:
    try:
        (text,) = inside
        return _MAKERS[word](str(text))
    except (ValueError, TypeError, InvalidOperation):
        raise ParseError(f"{word}(…): one text that can be read as {word} was expected") from None
