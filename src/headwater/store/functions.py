"""Rows of `_func` (func_def.c, alter.cc func_def_new_from_tuple).

Functions written in Lua or C are kept, so that privileges on them work and replicas have them; they are refused when
they are called. What runs here are procedures written in Python, which a row of `_func` may name, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import BoxError, Er, er
from headwater.store import options as opt
from headwater.store.fields import FIXED_DECIMALS, type_by_name
from headwater.store.identifier import check_identifier, is_too_long, shown, too_long
from headwater.store.privileges import Access
from headwater.store.rowview import Row
from headwater.store.spacedef import unsupported
from headwater.typing import UserId

FUNCTION_ID_MAX = 32000
"""BOX_FUNCTION_MAX."""
LANGUAGES = ("LUA", "C", "SQL", "SQL_BUILTIN", "SQL_EXPR")
ID, OWNER, NAME, SETUID, LANGUAGE, BODY, ROUTINE_TYPE, PARAM_LIST, RETURNS, AGGREGATE, SQL_DATA_ACCESS = range(11)
IS_DETERMINISTIC, IS_SANDBOXED, IS_NULL_CALL, EXPORTS, OPTS, COMMENT, CREATED, LAST_ALTERED, TRIGGER = range(11, 20)
_OPTIONS: opt.Table = {"is_multikey": opt.boolean, "takes_raw_args": opt.boolean}


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """What of a row of `_func` two definitions must agree in to be the same (func_def_cmp)."""

    id: int
    owner: UserId
    name: str
    setuid: bool = False
    language: str = "LUA"
    body: str = ""
    comment: str = ""
    param_count: int = 0
    returns: str = "any"
    aggregate: str = "none"
    is_deterministic: bool = False
    is_sandboxed: bool = False
    exports: frozenset[str] = frozenset({"lua"})
    options: tuple[tuple[str, object], ...] = ()


class Function:
    """A function that `_func` knows."""

    __slots__ = ("access", "definition")

    def __init__(self, definition: FunctionDef) -> None:
        self.definition = definition
        self.access = Access()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def owner(self) -> int:
        return self.definition.owner

    @property
    def is_persistent(self) -> bool:
        """Is its body in `_func`, or is it no Lua function at all (func_access_check)?"""
        return self.definition.language != "LUA" or bool(self.definition.body)


def _bad(name: str, what: str) -> BoxError:
    return er(Er.CREATE_FUNCTION, shown(name), what)


def read_function(row: Row, *, checked: bool) -> FunctionDef:
    """The definition in a row. `checked` is false for rows of recovery and of peers, which may bring SQL_BUILTIN."""
    name = row.string(NAME)
    if is_too_long(name):
        raise too_long(Er.CREATE_FUNCTION, name, "function")
    check_identifier(name)
    language = _read_language(row, name, checked=checked)
    whole = len(row) > BODY
    if whole:
        _check_routine(row, name)
    function_id, owner = row.u32(ID), row.u32(OWNER)
    if function_id > FUNCTION_ID_MAX:
        raise _bad(name, "function id is too big")
    if len(row) > TRIGGER:
        _check_triggers(row.array(TRIGGER), name)
    setuid = bool(row.u32(SETUID)) if len(row) > SETUID else False
    if not whole:
        return FunctionDef(function_id, UserId(owner), name, setuid, language)
    return _read_whole(row, FunctionDef(function_id, UserId(owner), name, setuid, language))


def _read_language(row: Row, name: str, *, checked: bool) -> str:
    if len(row) <= LANGUAGE:
        return "LUA"
    written = row.string(LANGUAGE)
    language = written.upper()
    if language not in LANGUAGES or language == "SQL" or (language == "SQL_BUILTIN" and checked):
        raise er(Er.FUNCTION_LANGUAGE, shown(written), shown(name))
    return language


def _check_routine(row: Row, name: str) -> None:
    row.string(BODY)
    row.string(COMMENT)
    if row.string(ROUTINE_TYPE).lower() != "function":
        raise _bad(name, "unsupported routine_type value")
    if row.string(SQL_DATA_ACCESS).lower() != "none":
        raise _bad(name, "unsupported sql_data_access value")
    if not row.boolean(IS_NULL_CALL):
        raise _bad(name, "unsupported is_null_call value")


def _check_triggers(triggers: Sequence[object], name: str) -> None:
    if not all(isinstance(trigger, str) for trigger in triggers):
        raise _bad(name, "trigger name must be a string")
    if triggers:
        raise unsupported("persistent triggers")


def _is_type(name: str) -> bool:
    return type_by_name(name) is not None or name.lower() in FIXED_DECIMALS


def _read_whole(row: Row, short: FunctionDef) -> FunctionDef:
    """Fields that came with 2.2.1."""
    name = short.name
    deterministic, sandboxed = row.boolean(IS_DETERMINISTIC), row.boolean(IS_SANDBOXED)
    returns = row.string(RETURNS).lower()
    if not _is_type(returns):
        raise _bad(name, "invalid returns value")
    row.array(EXPORTS)
    exports = _read_exports(Row(row.raw(EXPORTS)), name)
    aggregate = row.string(AGGREGATE).lower()
    if aggregate not in ("none", "group"):
        raise _bad(name, "invalid aggregate value")
    if aggregate == "group" and "lua" in exports:
        raise _bad(name, "aggregate function can only be accessed in SQL")
    params = row.array(PARAM_LIST)
    _check_params(params, name)
    if aggregate == "group" and not params:
        raise _bad(name, "aggregate function must have at least one argument")
    body = row.string(BODY)
    _check_body(short.language, body, sandboxed, name)
    return FunctionDef(
        short.id,
        short.owner,
        name,
        short.setuid,
        short.language,
        body,
        row.string(COMMENT),
        len(params),
        returns,
        aggregate,
        deterministic,
        sandboxed,
        exports,
        _read_options(row),
    )


def _read_exports(exports: Row, name: str) -> frozenset[str]:
    read: set[str] = set()
    for number, kind in enumerate(exports.types()):
        if kind != "string":
            raise er(Er.FIELD_TYPE, str(EXPORTS + 1), "string", kind)
        export = exports.string(number).lower()
        if export not in ("lua", "sql"):
            raise _bad(name, "invalid exports value")
        read.add(export)
    return frozenset(read)


def _check_params(params: Sequence[object], name: str) -> None:
    for param in params:
        if not isinstance(param, str):
            raise _bad(name, "parameter type must be a string")
        if not _is_type(param):
            raise _bad(name, "invalid argument type")


def _check_body(language: str, body: str, sandboxed: bool, name: str) -> None:
    """func_def_check."""
    if language == "C" and (body or sandboxed):
        raise _bad(name, "body and is_sandboxed options are not compatible with C language")
    if language == "LUA" and sandboxed and not body:
        raise _bad(
            name,
            "is_sandboxed option may be set only for a persistent Lua function (one with a non-empty body)",
        )


def _read_options(row: Row) -> tuple[tuple[str, object], ...]:
    try:
        read = opt.decode(_OPTIONS, row.map(OPTS))
    except opt.BadOption as error:
        raise er(Er.WRONG_FUNCTION_OPTIONS, str(error)) from None
    return tuple(sorted((key, value) for key, value in read.items() if value))
