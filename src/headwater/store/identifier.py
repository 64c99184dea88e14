"""What may be a name (identifier.c, node_name.c)."""

from __future__ import annotations

import re
import unicodedata

from headwater.errors import BoxError, Er, er
from headwater.store.fields import BOX_INVALID_NAME_MAX, BOX_NAME_MAX

NODE_NAME_LEN_MAX = 63
"""Longest name of an instance, replica set or cluster (node_name.h)."""

_UNPRINTABLE = frozenset({"Cn", "Zl", "Cc", "Zp", "Cs"})
"""Unassigned, line separator, control, paragraph separator; surrogates stand for bytes that are not UTF-8."""
_NODE_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")


def check_identifier(name: str) -> None:
    """Names are printable, not empty and UTF-8 (identifier_check)."""
    bad = any(char == "\ufffd" or unicodedata.category(char) in _UNPRINTABLE for char in name)
    if not name or bad:
        raise er(Er.IDENTIFIER, shown(name))


def is_too_long(name: str) -> bool:
    return len(name.encode("utf-8", "surrogateescape")) > BOX_NAME_MAX


def cut(name: str) -> str:
    """So much of a name that is too long as an error shows (tt_cstr with BOX_INVALID_NAME_MAX)."""
    return name.encode("utf-8", "surrogateescape")[:BOX_INVALID_NAME_MAX].decode("utf-8", "replace")


def shown(name: str) -> str:
    """A name that may hold bytes which are not UTF-8, as text for an error."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_node_name(name: str) -> bool:
    """Names of instances, replica sets and clusters: `[a-z][a-z0-9_-]*`, at most 63 (node_name_is_valid_n)."""
    return len(name) <= NODE_NAME_LEN_MAX and _NODE_NAME.match(name) is not None


def too_long(code: Er, name: str, what: str) -> BoxError:
    """The error for a name of more than 65,000 bytes: `Failed to create space '…': space name is too long`."""
    return er(code, cut(name), f"{what} name is too long")
