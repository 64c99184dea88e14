"""Enough Lua to read the fixtures of the connectors' suites: literals, names, calls, `local`, `if`, `return`.

It is no interpreter: what it does not know is an UnsupportedError, which the suite sees as an error of the console.
Functions that a fixture defines are left out; those that matter exist natively in procedures.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

TOKEN = re.compile(
    r"(?P<space>\s+|--\[\[.*?\]\]|--[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?:ULL|LL)?)"
    r"|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|(?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}\[\];:,.])",
    re.DOTALL,
)
BLOCKS = {"function", "if", "do"}
BINARY = {"or": 1, "and": 2, "==": 3, "~=": 3, "..": 4, "+": 5, "-": 5, "*": 6, "/": 6}


class UnsupportedError(Exception):
    """Lua beyond what fixtures need."""


class CallError(Exception):
    """The server refused a call."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """`box.…`: something that lives in the server."""

    text: str


@dataclass(frozen=True, slots=True)
class Function:
    """An anonymous function of a fixture, as its tokens."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Module:
    name: str


class Returned(Exception):  # noqa: N818
    """`return`: not an error, the way out of nested blocks."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__("return")
        self.values = values


Call = Callable[[str, list[Any]], list[Any]]
"""Calls a procedure of the server: its name, its arguments, its results."""

MODULES: dict[str, dict[str, Callable[..., Any]]] = {
    "decimal": {"new": lambda text: Decimal(str(text))},
    "uuid": {"fromstr": lambda text: UUID(text)},
    "json": {},
    "fiber": {},
    "datetime": {},
    "socket": {},
    "compat": {},
}


def tokens(text: str) -> list[Token]:
    out, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise UnsupportedError(f"unexpected {text[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup != "space":
            out.append(Token(str(match.lastgroup), match.group()))
    return out


def unquoted(text: str) -> str:
    raw = re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), text[1:-1])
    raw = re.sub(r"\\(\d{1,3})", lambda m: chr(int(m[1])), raw)
    raw = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), raw)
    return raw.encode("latin-1").decode() if all(ord(c) < 256 for c in raw) and "\\x" in text else raw


class Reader:
    """Runs one text. Names that it sets live as long as `names`, which the console keeps."""

    def __init__(self, text: str | list[Token], call: Call, names: dict[str, Any]) -> None:
        self.tokens = tokens(text) if isinstance(text, str) else text
        self.at = 0
        self.call = call
        self.names = names

    # ---- tokens

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> Token:
        if self.at >= len(self.tokens) or (wanted is not None and self.peek() != wanted):
            raise UnsupportedError(f"expected {wanted}, found {self.peek()!r}")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, wanted: str) -> bool:
        if self.peek() == wanted:
            self.at += 1
            return True
        return False

    def skip_block(self) -> None:
        """From after the word that opens a block to after its `end`."""
        depth = 1
        while depth:
            text = self.take().text
            if text in BLOCKS:
                depth += 1
            elif text == "end":
                depth -= 1

    # ---- statements

    def run(self) -> list[Any]:
        """An expression, as the console tries first, or statements with their `return`."""
        if Shape(self.tokens).is_expression():
            return self.expressions()
        try:
            while self.at < len(self.tokens):
                self.statement()
        except Returned as returned:
            return returned.values
        return []

    def statement(self) -> None:
        word = self.peek()
        if word == ";":
            self.take()
        elif word == "return":
            self.take()
            raise Returned([] if self.peek() in ("", "end") else self.expressions())
        elif word == "do":
            self.take()
            self.block()
        elif word == "if":
            self.condition()
        elif word == "function" or (word == "local" and self.peek(1) == "function"):
            self.at += 2 if word == "local" else 1
            self.skip_block()
        elif word == "local":
            self.take()
            self.assignment()
        elif self.tokens[self.at].kind == "name" and self.peek(1) in ("=", ","):
            self.assignment()
        else:
            self.expression()

    def block(self, *ends: str) -> None:
        while self.peek() not in ("end", *ends):
            self.statement()
        if not ends:
            self.take("end")

    def condition(self) -> None:
        self.take("if")
        chosen = truth(self.expression())
        self.take("then")
        if chosen:
            self.block("else", "elseif")
            if self.peek() != "end":
                self.skip_block()
            else:
                self.take("end")
            return
        depth = 1
        while True:
            text = self.take().text
            depth += (text in BLOCKS) - (text == "end")
            if depth == 0:
                return
            if depth == 1 and text == "else":
                self.block()
                return
            if depth == 1 and text == "elseif":
                raise UnsupportedError("elseif")

    def assignment(self) -> None:
        names = [self.take().text]
        while self.accept(","):
            names.append(self.take().text)
        values = self.expressions() if self.accept("=") else []
        for n, name in enumerate(names):
            self.names[name] = values[n] if n < len(values) else None

    # ---- expressions

    def expressions(self) -> list[Any]:
        """Values of a list; the last one may give several."""
        out = [self.expression(several=True)]
        while self.accept(","):
            out[-1] = first(out[-1])
            out.append(self.expression(several=True))
        last = out.pop()
        return out + (last.values if isinstance(last, Several) else [last])

    def expression(self, level: int = 0, *, several: bool = False) -> Any:
        value = self.unary()
        while (operator := self.peek()) in BINARY and BINARY[operator] > level:
            self.take()
            value = binary(operator, first(value), first(self.expression(BINARY[operator])))
        return value if several else first(value)

    def unary(self) -> Any:
        if self.accept("-"):
            return -first(self.unary())
        if self.accept("not"):
            return not truth(first(self.unary()))
        return self.suffixed(self.primary())

    def primary(self) -> Any:
        token = self.take()
        match token.kind, token.text:
            case "number", text:
                digits = text.rstrip("UL")
                return float(digits) if re.search(r"[.eE]", digits) else int(digits)
            case "text", text:
                return unquoted(text)
            case _, "{":
                return self.table()
            case _, "(":
                value = self.expression()
                self.take(")")
                return value
            case _, "true" | "false":
                return token.text == "true"
            case _, "nil":
                return None
            case _, "function":
                start = self.at
                self.skip_block()
                return Function(start, self.at)
            case "name", "box":
                return Path("box")
            case "name", name if name in self.names:
                return self.names[name]
            case "name", name:
                return Path(name)
        raise UnsupportedError(f"unexpected {token.text!r}")

    def suffixed(self, value: Any) -> Any:
        while True:
            sign = self.peek()
            if sign == "." or sign == "[":
                value = member(first(value), self.key())
            elif sign == ":":
                self.take()
                method = self.take().text
                value = self.method(first(value), method, self.arguments())
            elif sign == "(" or sign == "{" or (self.at < len(self.tokens) and self.tokens[self.at].kind == "text"):
                value = self.invoke(first(value), self.arguments())
            else:
                return value

    def key(self) -> Any:
        if self.accept("."):
            return self.take().text
        self.take("[")
        key = self.expression()
        self.take("]")
        return key

    def arguments(self) -> list[Any]:
        if self.accept("("):
            values = [] if self.peek() == ")" else self.expressions()
            self.take(")")
            return values
        return [self.primary()]

    def table(self) -> Any:
        pairs = dict(self.fields())
        return list(pairs.values()) if list(pairs) == list(range(1, len(pairs) + 1)) else pairs

    def fields(self) -> Iterator[tuple[Any, Any]]:
        n = 0
        while not self.accept("}"):
            if self.accept("["):
                key = self.expression()
                self.take("]")
                self.take("=")
            elif self.tokens[self.at].kind == "name" and self.peek(1) == "=":
                key = self.take().text
                self.take("=")
            else:
                key = n = n + 1
            yield key, self.expression()
            if not self.accept(","):
                self.accept(";")

    # ---- calls

    def invoke(self, function: Any, arguments: list[Any]) -> Any:
        match function:
            case Path("require"):
                return Module(arguments[0])
            case Path("pcall"):
                return self.protected(arguments)
            case Path("rawset"):
                return Several([])
            case Path(text):
                return Several(self.call(text, arguments))
            case _ if callable(function):
                return function(*arguments)
        raise UnsupportedError(f"a call of {function!r}")

    def method(self, value: Any, name: str, arguments: list[Any]) -> Any:
        if isinstance(value, dict) and "name" in value and "engine" in value:
            value = Path(f"box.space.{value['name']}")
        if not isinstance(value, Path):
            raise UnsupportedError(f"the method {name} of {type(value).__name__}")
        return Several(self.call(f"{value.text}:{name}", arguments))

    def protected(self, arguments: list[Any]) -> Several:
        function, *rest = arguments
        back = self.at
        try:
            if isinstance(function, Function):
                self.at = function.start
                self.take("(")
                self.take(")")
                self.block()
                return Several([True])
            result = self.invoke(function, rest)
            return Several([True, *(result.values if isinstance(result, Several) else [result])])
        except Returned as returned:
            return Several([True, *returned.values])
        except CallError as error:
            return Several([False, str(error)])
        finally:
            self.at = back


class Shape(Reader):
    """Reads without calling: only to tell an expression from statements."""

    def __init__(self, read: list[Token]) -> None:
        super().__init__(read, lambda name, arguments: [], {})

    def is_expression(self) -> bool:
        try:
            self.expressions()
        except (UnsupportedError, TypeError, AttributeError):
            return False
        return self.at == len(self.tokens)

    def invoke(self, function: Any, arguments: list[Any]) -> Any:
        return Path("called")

    def method(self, value: Any, name: str, arguments: list[Any]) -> Any:
        return Path("called")


@dataclass(frozen=True, slots=True)
class Several:
    """The results of a call."""

    values: list[Any]


def first(value: Any) -> Any:
    return (value.values[0] if value.values else None) if isinstance(value, Several) else value


def truth(value: Any) -> bool:
    if isinstance(value, Path):
        return False
    return value is not None and value is not False


def binary(operator: str, left: Any, right: Any) -> Any:
    match operator:
        case "and":
            return right if truth(left) else left
        case "or":
            return left if truth(left) else right
        case "==":
            return left == right
        case "~=":
            return left != right
        case "..":
            return f"{left}{right}"
        case "+" | "-" | "*" | "/":
            return {"+": left + right, "-": left - right, "*": left * right}.get(operator)
    raise UnsupportedError(operator)


def member(value: Any, key: Any) -> Any:
    match value:
        case Path(text):
            return Path(f"{text}.{key}")
        case Module(name) if key in MODULES.get(name, {}):
            return MODULES[name][key]
        case dict():
            return value.get(key)
        case list() if isinstance(key, int):
            return value[key - 1] if 0 < key <= len(value) else None
    raise UnsupportedError(f"the member {key} of {type(value).__name__}")
