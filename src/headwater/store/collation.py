"""Collations: rows of `_collation`, and the order of strings that they stand for (coll.c, coll_id_def.c, alter.cc).

A collation of ICU needs PyICU, the extra `icu`. Without it the rows are kept all the same, and the first index or
format that asks for the order is refused by name. The kernel asks for a sort key: bytes whose order is the order of
the strings, which is what ICU itself promises of its sort keys.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import BoxError, Er, er
from headwater.store import options as opt
from headwater.store.identifier import check_identifier, is_too_long
from headwater.store.rowview import Row
from headwater.typing import UserId

LOCALE_LEN_MAX = 30
"""coll_def.h, COLL_LOCALE_LEN_MAX."""
NONE = 0
"""Id of the collation `none`: bytewise, and never dropped."""

SortKey = Callable[[bytes], bytes]

_ON_OFF = ("on", "off")
_OPTIONS: opt.Table = {
    "french_collation": opt.enum(*_ON_OFF),
    "alternate_handling": opt.enum("non_ignorable", "shifted"),
    "case_first": opt.enum("off", "upper_first", "lower_first"),
    "case_level": opt.enum(*_ON_OFF),
    "normalization_mode": opt.enum(*_ON_OFF),
    "strength": opt.enum("primary", "secondary", "tertiary", "quaternary", "identical"),
    "numeric_collation": opt.enum(*_ON_OFF),
}
_EXPECTED = {
    "french_collation": "ON | OFF",
    "alternate_handling": "NON_IGNORABLE | SHIFTED",
    "case_first": "OFF | UPPER_FIRST | LOWER_FIRST",
    "case_level": "ON | OFF",
    "normalization_mode": "ON | OFF",
    "strength": "PRIMARY | SECONDARY | TERTIARY | QUATERNARY | IDENTICAL",
    "numeric_collation": "ON | OFF",
}


@dataclass(frozen=True, slots=True)
class Collation:
    """A row of `_collation`."""

    id: int
    name: str
    owner: UserId
    type: str
    """'icu' or 'binary'."""
    locale: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Collations with the same fingerprint order alike (coll_def_snfingerprint)."""
        return (self.type, self.locale, *sorted(self.options.items())) if self.type == "icu" else (self.type,)


def read_collation(row: Row) -> Collation:
    """coll_id_def_new_from_tuple."""

    def bad(what: str) -> BoxError:
        return er(Er.CANT_CREATE_COLLATION, what)

    collation_id, name = row.u32(0), row.string(1)
    if is_too_long(name):
        raise bad("collation name is too long")
    check_identifier(name)
    owner, kind, locale = row.u32(2), row.string(3).lower(), row.string(4)
    if kind not in ("icu", "binary"):
        raise bad("unknown collation type")
    if len(locale.encode("utf-8", "surrogateescape")) > LOCALE_LEN_MAX:
        raise bad("collation locale is too long")
    if locale:
        check_identifier(locale)
    options: dict[str, str] = {}
    try:
        read = opt.decode(_OPTIONS, row.map(5))
    except opt.BadOption as error:
        raise er(Er.WRONG_COLLATION_OPTIONS, str(error)) from None
    for option in _OPTIONS:
        if option in read and read[option] is None:
            raise bad(f"ICU wrong {option} option setting, expected {_EXPECTED[option]}")
        if option in read:
            options[option] = str(read[option])
    return Collation(collation_id, name, UserId(owner), kind, locale, options)


class Collations:
    """All collations of a node by id and name, and their sort keys (coll_id_cache.c)."""

    def __init__(self) -> None:
        self._by_id: dict[int, Collation] = {}
        self._by_name: dict[str, Collation] = {}
        self._sort_keys: dict[tuple[object, ...], SortKey] = {}

    def __contains__(self, collation_id: int) -> bool:
        return collation_id in self._by_id

    def by_id(self, collation_id: int) -> Collation | None:
        return self._by_id.get(collation_id)

    def by_name(self, name: str) -> Collation | None:
        return self._by_name.get(name)

    def add(self, collation: Collation) -> None:
        self._by_id[collation.id] = collation
        self._by_name[collation.name] = collation

    def remove(self, collation: Collation) -> None:
        del self._by_id[collation.id]
        del self._by_name[collation.name]

    def sort_key(self, collation: int | None) -> SortKey | None:
        """None stands for bytewise order: no collation, `none`, `binary`. The same function for the same order."""
        known = None if collation is None else self._by_id.get(collation)
        if known is None or known.type == "binary":
            return None
        key = self._sort_keys.get(known.fingerprint)
        if key is None:
            key = self._sort_keys[known.fingerprint] = icu_sort_key(known)
        return key


def icu_sort_key(collation: Collation) -> SortKey:
    """The order of a collation by ICU (coll_icu_init_cmp)."""
    try:
        icu: Any = importlib.import_module("icu")
    except ImportError:
        raise er(
            Er.UNSUPPORTED, "Headwater without PyICU (the extra 'icu')", f"the collation '{collation.name}'"
        ) from None
    try:
        collator = icu.Collator.createInstance(icu.Locale(collation.locale))
        for option, value in collation.options.items():
            attribute = getattr(icu.UCollAttribute, option.upper())
            collator.setAttribute(attribute, getattr(icu.UCollAttributeValue, value.upper()))
    except icu.ICUError as error:
        raise er(Er.CANT_CREATE_COLLATION, str(error)) from None
    get: Callable[[str], bytes] = collator.getSortKey

    def sort_key(data: bytes) -> bytes:
        return get(data.decode("utf-8", "replace"))

    return sort_key
