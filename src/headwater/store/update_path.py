"""Paths inside a tuple, as update operations name them: `name`, `[2].a["b"][1]` (lib/json/json.c, json_lexer)."""

from __future__ import annotations

import unicodedata
from enum import Enum
from typing import NamedTuple


class TokenKind(Enum):
    NUM = "num"
    STR = "str"
    ANY = "any"
    END = "end"


class Token(NamedTuple):
    kind: TokenKind
    num: int = 0
    """Counted from 0."""
    key: bytes = b""


class PathError(Exception):
    """`position` counts symbols from 1."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


END = Token(TokenKind.END)
INDEX_BASE = 1
"""Numbers in a path count from 1 whatever the request's index base is (TUPLE_INDEX_BASE)."""


class Lexer:
    """Reads a path token by token. `offset` counts bytes, `symbols` the characters before it."""

    __slots__ = ("offset", "src", "symbols")

    def __init__(self, src: bytes) -> None:
        self.src = src
        self.offset = 0
        self.symbols = 0

    @property
    def is_eof(self) -> bool:
        return self.offset == len(self.src)

    def next_token(self) -> Token:
        """The next token, END at the end; PathError for what is no path."""
        if self.is_eof:
            return END
        start = self.offset
        symbol = self._symbol()
        if symbol == "[":
            return self._bracket()
        if symbol == ".":
            if self.is_eof:
                raise PathError(self.symbols + 1)
            return self._identifier()
        if start != 0:
            raise PathError(self.symbols)
        self.offset = start
        self.symbols -= 1
        return self._identifier()

    def _bracket(self) -> Token:
        if self.is_eof:
            raise PathError(self.symbols)
        code = self.src[self.offset]
        if code in b"\"'":
            token = self._string(code)
        elif code == ord("*"):
            self._skip(1)
            token = Token(TokenKind.ANY)
        else:
            token = self._integer()
        if self.src[self.offset : self.offset + 1] != b"]":
            raise PathError(self.symbols + 1)
        self._skip(1)
        return token

    def _string(self, quote: int) -> Token:
        self._skip(1)
        start = self.offset
        while self._symbol() != chr(quote):
            pass
        key = self.src[start : self.offset - 1]
        if not key:
            raise PathError(self.symbols)
        return Token(TokenKind.STR, key=key)

    def _integer(self) -> Token:
        end = self.offset
        while end < len(self.src) and 0x30 <= self.src[end] <= 0x39:
            end += 1
        digits = self.src[self.offset : end].lstrip(b"0")
        if not digits:
            raise PathError(self.symbols + 1)
        self._skip(end - self.offset)
        # No array is longer than nine digits can say; more of them must not become a costly number.
        value = int(digits) if len(digits) < 10 else 10**9
        return Token(TokenKind.NUM, num=value - INDEX_BASE)

    def _identifier(self) -> Token:
        start = self.offset
        symbol = self._symbol()
        if not symbol.isalpha() and symbol != "_":
            raise PathError(self.symbols)
        while not self.is_eof:
            last = self.offset
            if not _continues_identifier(self._symbol()):
                self.offset = last
                self.symbols -= 1
                break
        return Token(TokenKind.STR, key=self.src[start : self.offset])

    def _skip(self, count: int) -> None:
        self.offset += count
        self.symbols += count

    def _symbol(self) -> str:
        """One character of UTF-8."""
        if self.is_eof:
            raise PathError(self.symbols + 1)
        first = self.src[self.offset]
        size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        try:
            symbol = self.src[self.offset : self.offset + size].decode()
        except UnicodeDecodeError:
            raise PathError(self.symbols + 1) from None
        self.offset += size
        self.symbols += 1
        return symbol


def _continues_identifier(symbol: str) -> bool:
    """ICU's u_isUAlphabetic, u_isdigit or an underscore. Python does not know the property Alphabetic; what it lacks
    beside letters are the signs that are written with a letter and stand for a sound."""
    if symbol.isalpha() or symbol == "_" or symbol.isdecimal():
        return True
    category = unicodedata.category(symbol)
    return category in ("Nl", "Mc") or (category == "Mn" and not unicodedata.combining(symbol))
