"""What a value of an option must fulfil, in 3.x's words (box.cc, the box_check_* functions)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from headwater.options.formula import FormulaError, evaluate
from headwater.options.setting import Check
from headwater.typing import VCLOCK_MAX
from headwater.uri import Uri, UriError, parse_uri

LOG_LEVELS = {
    "fatal": 0,
    "syserror": 1,
    "error": 2,
    "crit": 3,
    "warn": 4,
    "info": 5,
    "verbose": 6,
    "debug": 7,
}
"""Names of log levels (log.lua, log_level_keys)."""

ISOLATION_LEVELS = ("default", "read-committed", "read-confirmed", "best-effort", "linearizable")
"""In the order of enum txn_isolation_level (txn.h)."""

SCHEMA_VERSIONS = ("2.3.1", "2.11.5", "3.8.0")

CONFLICT_POLICIES = ("stop", "skip", "last_write_wins")

_QUOTA_MAX = 0xFFFFFFFF * 1024
"""small/quota.h: QUOTA_MAX is QUOTA_UNIT_SIZE * UINT32_MAX."""


def positive(words: str) -> Check:
    return lambda value: words if value is not None and value <= 0 else None


def not_negative(words: str) -> Check:
    return lambda value: words if value is not None and value < 0 else None


def between(low: float, high: float, words: str) -> Check:
    return lambda value: words if value is not None and not low <= value <= high else None


def one_of(words: str, *choices: str) -> Check:
    return lambda value: None if value in choices else words


def named_back(*choices: str) -> Check:
    """Some options only repeat the wrong value (wal_mode, auth_type)."""
    return lambda value: None if value in choices else str(value)


def quota(value: int) -> str | None:
    """box_check_memory_quota"""
    return None if 0 <= value <= _QUOTA_MAX else f"must be >= 0 and <= {_QUOTA_MAX}, but it is {value}"


def granularity(value: int) -> str | None:
    """box_check_small_alloc_options"""
    if 4 <= value <= 1024 * 16 and value & (value - 1) == 0:
        return None
    return "must be greater than or equal to 4, less than or equal to 1024 * 16 and exponent of two"


def uuid_text(value: str | None) -> str | None:
    """box_check_uuid. Only the dashed form is one."""
    if value is None:
        return None
    try:
        parsed = uuid.UUID(value)
    except ValueError:
        return value
    if str(parsed) != value.lower():
        return value
    return "nil UUID is reserved" if parsed.int == 0 else None


def node_name(value: str | None) -> str | None:
    """box_check_node_name with node_name.c, node_name_is_valid_n; upper case was lowered before."""
    if value is None:
        return None
    plain = value.isascii() and value.replace("-", "").replace("_", "").isalnum()
    return None if plain and value[0].isalpha() and len(value) <= 63 else "expected a valid name"


def isolation(value: str | int) -> str | None:
    """box_check_txn_isolation"""
    name = isolation_name(value)
    if name is None:
        return "must be one of box.txn_isolation_level (keys or values)"
    if name in ("default", "linearizable"):
        return f"cannot set default transaction isolation to '{name}'"
    return None


def isolation_name(value: str | int) -> str | None:
    """Levels are written as numbers, `best-effort` or `BEST_EFFORT`."""
    if isinstance(value, str):
        name = value.lower().replace("_", "-") if value.isupper() else value
        return name if name in ISOLATION_LEVELS else None
    return ISOLATION_LEVELS[value] if 0 <= value < len(ISOLATION_LEVELS) else None


def read_only(value: bool | str) -> str | None:
    """box_check_ro_cfg"""
    if isinstance(value, bool) or value == "unless_bootstrap":
        return None
    return "the value must be a boolean or the string 'unless_bootstrap'"


def conflict_policy(value: str) -> str | None:
    """A ready policy, or where a function is to be found."""
    module, colon, function = value.partition(":")
    if value in CONFLICT_POLICIES or (module and colon and function.isidentifier()):
        return None
    return "must be one of " + ", ".join(CONFLICT_POLICIES) + ", or module:function"


def log_level(value: str | int) -> str | None:
    """log.lua, log_check_level"""
    if isinstance(value, str) and value not in LOG_LEVELS:
        return "expected " + ",".join(LOG_LEVELS)
    return None


def log_modules(value: Mapping[Any, Any] | None) -> str | None:
    """log.lua, log_check_modules"""
    for name, level in (value or {}).items():
        if not isinstance(name, str):
            return "module name should be of type string"
        if isinstance(level, bool) or not isinstance(level, str | int):
            return f"{name} should be one of types number, string"
        if wrong := log_level(level):
            return f"{name}: {wrong}"
    return None


def uris(value: object) -> str | None:
    """box_check_uri_set"""
    try:
        for uri in each_uri(value):
            parse_uri(uri)
    except UriError as error:
        return str(error)
    return None


def each_uri(value: object) -> list[str]:
    """The URIs of `listen` and `replication`: one, a list, or text with commas. A number is a port.

    UriError for what cannot be one. Maps `{uri: …, params: …}` are taken without parameters but `transport: plain`.
    """
    match value:
        case None:
            return []
        case bool() | float():
            raise UriError("should be one of types string, number, table")
        case int():
            return [str(value)]
        case str():
            return [part for part in value.replace(",", " ").split() if part]
        case Mapping():
            return _uris_of_map(value)
        case list() | tuple():
            return [uri for item in value for uri in each_uri(item)]
    raise UriError("should be one of types string, number, table")


def _uris_of_map(value: Mapping[Any, Any]) -> list[str]:
    if "uri" not in value:
        return [uri for key in sorted(value) for uri in each_uri(value[key])]
    params = value.get("params") or {}
    if any(name != "transport" or given != "plain" for name, given in params.items()):
        raise UriError(f"bad URI '{value['uri']}': no transport but 'plain' is supported")
    return each_uri(value["uri"])


def addresses(value: object) -> list[Uri]:
    """`listen` as parsed URIs."""
    return [parse_uri(uri) for uri in each_uri(value)]


def synchro_quorum(value: str | float) -> str | None:
    """box_check_replication_synchro_quorum"""
    if not isinstance(value, str):
        if 0 < int(value) < VCLOCK_MAX:
            return None
        return "the value must be greater than zero and less than maximal number of replicas"
    return _first_wrong(value, [(n, 0) for n in range(1, VCLOCK_MAX)])


def linearizable_quorum(value: str | float) -> str | None:
    """box_check_replication_linearizable_quorum"""
    if not isinstance(value, str):
        return synchro_quorum(value)
    return _first_wrong(value, [(n, q) for n in range(1, VCLOCK_MAX) for q in range(1, n + 1)])


def _first_wrong(formula: str, cases: list[tuple[int, int]]) -> str | None:
    for n, q in cases:
        try:
            value = evaluate(formula, N=n, Q=q) if q else evaluate(formula, N=n)
        except FormulaError as error:
            return str(error)
        if not 0 < value < VCLOCK_MAX:
            of = f", synchro quorum {q}" if q else ""
            return (
                f"the formula is evaluated to the quorum {value} for replica number {n}{of}, "
                f"which is out of range [1;{VCLOCK_MAX - 1}]"
            )
    return None
