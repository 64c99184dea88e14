"""Options of the format `tarantool`, parsed once.

Spark hands them over as strings, with names in which case does not count. The prefix `tarantool.` is taken off, as
cartridge-spark's users write it. Every reader and writer makes a frozen dataclass of what it needs and then calls
`check`, so that a misspelt name is refused rather than ignored.
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headwater.pipeline.errors import OptionError
from headwater.vclock import VClock, VClockError

PREFIX = "tarantool."
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_SECONDS_SINCE = re.compile(r"-?\d+(\.\d*)?")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SUGGEST = 0.75
"""So alike must an unknown name be to a known one to be taken for a slip. Others may be Spark's own."""
_BARE_KEY = re.compile(r"([{,]\s*)(\d+)(\s*:)")


class Secret:
    """A password, or where it is to be found. It is looked up where it is needed, so that neither plans nor logs nor
    pickles hold more than the name of a variable or file, unless the user wrote the value itself."""

    __slots__ = ("_kind", "_text")

    def __init__(self, kind: str, text: str) -> None:
        """`kind` is value, env or file."""
        self._kind = kind
        self._text = text

    def reveal(self) -> str:
        """OptionError if the variable or the file is not there."""
        if self._kind == "env":
            found = os.environ.get(self._text)
            if found is None:
                raise OptionError(
                    f"The environment variable '{self._text}', which should hold a secret, is not set here."
                )
            return found
        if self._kind == "file":
            try:
                return Path(self._text).read_text(encoding="utf-8").rstrip("\r\n")
            except OSError as error:
                raise OptionError(f"The file with a secret cannot be read: {error}.") from None
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)" if self._kind == "value" else f"Secret({self._kind} {self._text})"

    def __reduce__(self) -> tuple[type[Secret], tuple[str, str]]:
        return Secret, (self._kind, self._text)


class Options:
    """Options by name, each asked for by the one who understands it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        for name, value in given.items():
            plain = name[len(PREFIX) :] if name.lower().startswith(PREFIX) else name
            self._given[plain.lower()] = str(value)
            self._spelt[plain.lower()] = plain

    # ---- kinds of values

    def text(self, name: str, default: str | None = None) -> str | None:
        """As written; an empty value counts as given."""
        self._asked[name.lower()] = name
        return self._given.get(name.lower(), default)

    def has(self, name: str) -> bool:
        return self.text(name) is not None

    def needed(self, name: str, what: str) -> str:
        value = self.text(name)
        if value is None or not value.strip():
            raise OptionError(f"The option '{name}' is missing: it says {what}.")
        return value

    def names(self, name: str) -> tuple[str, ...] | None:
        """Several words, as a list in JSON or parted by commas; None if the option is not given."""
        value = self.text(name)
        if value is None:
            return None
        if value.lstrip().startswith("["):
            found = _json(name, value)
            if not isinstance(found, list) or not all(isinstance(item, str | int) for item in found):
                raise _bad(name, value, 'a list like ["a", "b"] or a, b')
            return tuple(str(item) for item in found)
        return tuple(word.strip() for word in value.split(",") if word.strip())

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of several words, whatever their case; the word as it is in `choices`."""
        value = (self.text(name) or default).strip()
        for word in choices:
            if word.lower() == value.lower():
                return word
        raise _bad(name, value, "one of " + ", ".join(choices))

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word not in _TRUE + _FALSE:
            raise _bad(name, value, "true or false")
        return word in _TRUE

    def integer(self, name: str, default: int, low: int = 0, high: int = (1 << 63) - 1) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not re.fullmatch(r"-?\d+", value.strip()) or not low <= int(value) <= high:
            raise _bad(name, value, f"a whole number from {low} to {high}")
        return int(value)

    def size(self, name: str, default: int, low: int = 1) -> int:
        """Bytes: `1024`, `1k`, `64m`, `1.5g`; the units are powers of 1024."""
        value = self.text(name)
        if value is None:
            return default
        found = _SIZE.fullmatch(value.strip())
        size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else -1
        if size < low:
            raise _bad(name, value, f"a size like 64m, at least {low} bytes")
        return size

    def span(self, name: str, default: float) -> float:
        """Seconds: `5`, `500ms`, `10s`, `2m`, `1h`."""
        value = self.text(name)
        if value is None:
            return default
        found = _SPAN.fullmatch(value.strip())
        if found is None:
            raise _bad(name, value, "a time like 500ms, 10s or 2m")
        return float(found[1]) * _SECONDS[found[2]]

    def vclock(self, name: str) -> VClock | None:
        """`{"1": 100, "2": 7}`, or as the heads of files have it: `{1: 100, 2: 7}`."""
        value = self.text(name)
        return None if value is None else parse_vclock(name, value)

    def moment(self, name: str) -> float | None:
        """Seconds since 1970 out of a number of seconds or a time of ISO 8601; without zone it is UTC."""
        value = self.text(name)
        return None if value is None else parse_moment(name, value)

    def secret(self, name: str) -> Secret | None:
        """The value itself, `<name>Env` or `<name>File`; at most one of them."""
        kinds = (("value", name), ("env", name + "Env"), ("file", name + "File"))
        found = [(kind, option, text) for kind, option in kinds if (text := self.text(option)) is not None]
        if len(found) > 1:
            raise OptionError(f"The options '{found[0][1]}' and '{found[1][1]}' say the same thing; keep one of them.")
        return Secret(found[0][0], found[0][2]) if found else None

    def json(self, name: str) -> object | None:
        value = self.text(name)
        return None if value is None else _json(name, value)

    # ---- the whole

    def check(self) -> None:
        """OptionError for a name that nobody asked for and that is very like one that somebody did."""
        for name in self._given:
            if name in self._asked:
                continue
            alike = difflib.get_close_matches(name, self._asked, 1, _SUGGEST)
            if alike:
                raise OptionError(f"There is no option '{self._spelt[name]}' here. Is '{self._asked[alike[0]]}' meant?")

    def __iter__(self) -> Iterator[str]:
        return iter(self._spelt.values())


def parse_vclock(name: str, value: str) -> VClock:
    """OptionError names the option."""
    words = 'a vclock like {"1": 100, "2": 7}'
    try:
        found = json.loads(_BARE_KEY.sub(r'\1"\2"\3', value))
        if not isinstance(found, dict) or not all(type(lsn) is int for lsn in found.values()):
            raise _bad(name, value, words)
        return VClock({int(replica_id): lsn for replica_id, lsn in found.items()})
    except (ValueError, VClockError) as error:
        raise _bad(name, value, f"{words} ({error})") from None


def parse_moment(name: str, value: str) -> float:
    text = value.strip()
    if _SECONDS_SINCE.fullmatch(text):
        return float(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise _bad(name, value, "a time like 2026-01-31T12:00:00Z, or seconds since 1970") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).timestamp()


def _json(name: str, value: str) -> object:
    try:
        found: object = json.loads(value)
    except ValueError as error:
        raise _bad(name, value, f"JSON ({error})") from None
    return found


def _bad(name: str, value: str, wanted: str) -> OptionError:
    return OptionError(f"The option '{name}' is '{value}'; it should be {wanted}.")
