"""How each connector says the calls of the script, and what it hears.

An answer is ("ok", value), ("error", code, message) when the server refused, or ("refused", type, text) when the
connector itself did: that must not depend on the server either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from tests.interop.script import Call
from tests.support import iproto
from tests.support.tarantool import run_lua

Answer = tuple[Any, ...]
Address = tuple[str, int]

ITERATORS = {"EQ": 0, "REQ": 1, "ALL": 2, "LT": 3, "LE": 4, "GE": 5, "GT": 6}


class Driver(Protocol):
    name: str

    def can(self, call: Call) -> bool: ...

    def run(self, address: Address, calls: Sequence[Call]) -> list[Answer]: ...


def _speaks(driver: str, call: Call) -> bool:
    return not call.only or driver in call.only


# ---- raw frames


class Raw:
    """Every call as one frame."""

    name = "raw"

    def can(self, call: Call) -> bool:
        return _speaks(self.name, call)

    def run(self, address: Address, calls: Sequence[Call]) -> list[Answer]:
        with iproto.Connection(*address) as connection:
            return [self._one(address, connection, call.operation, call.arguments) for call in calls]

    def _one(self, address: Address, connection: iproto.Connection, operation: str, a: dict[str, Any]) -> Answer:
        if operation in ("as", "auth"):
            with iproto.Connection(*address) as other:
                reply = other.auth(a["user"], a["password"])
                if operation == "auth" or reply.failed:
                    return reply.answer()
                return self._one(address, other, a["operation"], a["arguments"])
        type_, body = self.request(operation, a)
        return connection.ask(type_, body).answer()

    @staticmethod
    def request(operation: str, a: dict[str, Any]) -> tuple[int, dict[int, Any]]:
        space = {iproto.SPACE_ID: a.get("space", 0)}
        index = {iproto.INDEX_ID: a["index"]} if a.get("index") else {}
        match operation:
            case "ping":
                return iproto.PING, {}
            case "select":
                iterator = a.get("iterator", "ALL")
                return iproto.SELECT, {
                    **space,
                    iproto.INDEX_ID: a.get("index", 0),
                    iproto.ITERATOR: ITERATORS.get(iterator, iterator),
                    iproto.OFFSET: a.get("offset", 0),
                    iproto.LIMIT: a.get("limit", 0xFFFFFFFF),
                    iproto.KEY: a.get("key", []),
                }
            case "insert":
                return iproto.INSERT, {**space, iproto.TUPLE: a["tuple"]}
            case "replace":
                return iproto.REPLACE, {**space, iproto.TUPLE: a["tuple"]}
            case "delete":
                return iproto.DELETE, {**space, **index, iproto.KEY: a["key"]}
            case "update":
                base = {iproto.INDEX_BASE: a["base"]} if a.get("base") else {}
                return iproto.UPDATE, {**space, **index, **base, iproto.KEY: a["key"], iproto.TUPLE: a["ops"]}
            case "upsert":
                return iproto.UPSERT, {**space, iproto.TUPLE: a["tuple"], iproto.OPS: a["ops"]}
            case "call" | "call16":
                type_ = iproto.CALL if operation == "call" else iproto.CALL_16
                return type_, {iproto.FUNCTION_NAME: a["function"], iproto.TUPLE: a["arguments"]}
        raise ValueError(f"unknown operation {operation}")


# ---- tarantool-python


class TarantoolPython:
    """The connector `tarantool` of PyPI."""

    name = "tarantool-python"

    def can(self, call: Call) -> bool:
        return _speaks(self.name, call)

    def run(self, address: Address, calls: Sequence[Call]) -> list[Answer]:
        import tarantool

        connection = tarantool.Connection(*address, reconnect_max_attempts=0)
        try:
            return [self._safely(address, connection, call.operation, call.arguments) for call in calls]
        finally:
            connection.close()

    def _safely(self, address: Address, connection: Any, operation: str, a: dict[str, Any]) -> Answer:
        import tarantool

        try:
            return "ok", self._one(address, connection, operation, a)
        except tarantool.error.DatabaseError as error:
            if len(error.args) == 2:
                return "error", error.args[0], error.args[1]
            return "refused", type(error).__name__, str(error)
        except (ValueError, TypeError, OverflowError, UnicodeError) as error:
            return "refused", type(error).__name__, str(error)

    def _one(self, address: Address, connection: Any, operation: str, a: dict[str, Any]) -> Any:
        import tarantool

        index = {"index": a["index"]} if a.get("index") else {}
        match operation:
            case "auth" | "as":
                other = tarantool.Connection(*address, user=a["user"], password=a["password"], reconnect_max_attempts=0)
                try:
                    return None if operation == "auth" else self._one(address, other, a["operation"], a["arguments"])
                finally:
                    other.close()
            case "ping":
                return connection.ping() > 0
            case "select":
                iterator = ITERATORS[a.get("iterator", "ALL")]
                return list(
                    connection.select(
                        a["space"],
                        a.get("key", []),
                        iterator=iterator,
                        offset=a.get("offset", 0),
                        limit=a.get("limit", 0xFFFFFFFF),
                        **index,
                    ).data
                )
            case "insert" | "replace":
                return list(getattr(connection, operation)(a["space"], a["tuple"]).data)
            case "delete":
                return list(connection.delete(a["space"], a["key"], **index).data)
            case "update":
                return list(connection.update(a["space"], a["key"], a["ops"], **index).data)
            case "upsert":
                return list(connection.upsert(a["space"], a["tuple"], a["ops"]).data)
            case "call":
                return list(connection.call(a["function"], a["arguments"]).data)
            case "call16":
                return list(connection.call_16(a["function"], a["arguments"]).data)
        raise ValueError(f"unknown operation {operation}")


# ---- asynctnt


class Asynctnt:
    """The connector `asynctnt` of PyPI."""

    name = "asynctnt"

    def can(self, call: Call) -> bool:
        return _speaks(self.name, call)

    def run(self, address: Address, calls: Sequence[Call]) -> list[Answer]:
        return asyncio.run(self._run(address, calls))

    async def _run(self, address: Address, calls: Iterable[Call]) -> list[Answer]:
        import asynctnt

        connection = asynctnt.Connection(host=address[0], port=address[1], reconnect_timeout=0)
        await connection.connect()
        try:
            return [await self._safely(address, connection, call.operation, call.arguments) for call in calls]
        finally:
            await connection.disconnect()

    async def _safely(self, address: Address, connection: Any, operation: str, a: dict[str, Any]) -> Answer:
        import asynctnt

        try:
            return "ok", await self._one(address, connection, operation, a)
        except asynctnt.exceptions.TarantoolDatabaseError as error:
            return "error", error.code, error.message
        except (
            asynctnt.exceptions.TarantoolError,
            ValueError,
            TypeError,
            OverflowError,
            KeyError,
            IndexError,
        ) as error:
            return "refused", type(error).__name__, str(error)

    async def _one(self, address: Address, connection: Any, operation: str, a: dict[str, Any]) -> Any:
        import asynctnt

        if operation in ("auth", "as"):
            other = asynctnt.Connection(
                host=address[0], port=address[1], username=a["user"], password=a["password"], reconnect_timeout=0
            )
            await other.connect()
            try:
                return None if operation == "auth" else await self._one(address, other, a["operation"], a["arguments"])
            finally:
                await other.disconnect()
        response = await self._send(connection, operation, a)
        body = response.body
        return None if body is None else [self._plain(row) for row in body]

    @staticmethod
    def _plain(row: Any) -> Any:
        import asynctnt

        return list(row) if isinstance(row, asynctnt.TarantoolTuple) else row

    @staticmethod
    def _send(connection: Any, operation: str, a: dict[str, Any]) -> Any:
        index = {"index": a["index"]} if a.get("index") else {}
        match operation:
            case "ping":
                return connection.ping()
            case "select":
                iterator = ITERATORS[a.get("iterator", "ALL")]
                return connection.select(
                    a["space"],
                    a.get("key", []),
                    iterator=iterator,
                    offset=a.get("offset", 0),
                    limit=a.get("limit", 0x7FFFFFFF),
                    **index,
                )
            case "insert" | "replace":
                return getattr(connection, operation)(a["space"], a["tuple"])
            case "delete":
                return connection.delete(a["space"], a["key"], **index)
            case "update":
                return connection.update(a["space"], a["key"], a["ops"], **index)
            case "upsert":
                return connection.upsert(a["space"], a["tuple"], a["ops"])
            case "call" | "call16":
                return getattr(connection, operation)(a["function"], a["arguments"])
        raise ValueError(f"unknown operation {operation}")


# ---- net.box of Tarantool 2.6.0


def _lua(value: Any) -> str:
    """A literal that net.box encodes as the MessagePack which the other drivers send."""
    match value:
        case None:
            return "box.NULL"
        case bool():
            return "true" if value else "false"
        case int() if abs(value) < 2**53:
            return str(value)
        case int():
            return f"{value}ULL" if value >= 0 else f"(-{-(value + 1)}LL - 1)"
        case float():
            return f"ffi.cast('double', {value!r})"
        case Decimal():
            return f"decimal.new('{value}')"
        case UUID():
            return f"uuid.fromstr('{value}')"
        case str():
            return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
        case list() | tuple():
            return "{" + ", ".join(map(_lua, value)) + "}"
        case dict():
            inside = ", ".join(f"[{_lua(key)}] = {_lua(item)}" for key, item in value.items())
            return "setmetatable({" + inside + "}, {__serialize = 'map'})"
    raise TypeError(f"no Lua for {type(value).__name__}")


def _has_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_bytes, value.values())) or any(map(_has_bytes, value))
    if isinstance(value, list | tuple):
        return any(map(_has_bytes, value))
    return isinstance(value, bytes)


class NetBox:
    """`net.box` of the installed Tarantool."""

    name = "net.box"

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def can(self, call: Call) -> bool:
        return _speaks(self.name, call) and call.operation != "call16" and not _has_bytes(call.arguments)

    def run(self, address: Address, calls: Sequence[Call]) -> list[Answer]:
        lines = [f"one(function(c) return {self._code(call.operation, call.arguments, address)} end)" for call in calls]
        chunks = ["do\n" + "\n".join(lines[n : n + 50]) + "\nend" for n in range(0, len(lines), 50)]
        answers = run_lua(PRELUDE % address + "\n".join(chunks) + "\nanswer(out)", cwd=self.directory, timeout=120)
        return [("ok", item[1] if len(item) > 1 else None) if item[0] else self._error(item) for item in answers]

    @staticmethod
    def _error(item: list[Any]) -> Answer:
        _, code, message, kind = item
        return ("error", code, message) if kind == "remote" else ("refused", kind, message)

    def _code(self, operation: str, a: dict[str, Any], address: Address) -> str:
        space = f"c.space[{a.get('space')}]"
        index = f"{space}.index[{a.get('index', 0)}]"
        match operation:
            case "auth" | "as":
                inner = "true" if operation == "auth" else self._code(a["operation"], a["arguments"], address)
                return f"as({_lua(a['user'])}, {_lua(a['password'])}, function(c) return {inner} end)"
            case "ping":
                return "c:ping()"
            case "select":
                iterator, limit = ITERATORS[a.get("iterator", "ALL")], a.get("limit", 0xFFFFFFFF)
                options = f"{{iterator = {iterator}, offset = {a.get('offset', 0)}, limit = {limit}}}"
                return f"{index}:select({_lua(a.get('key', []))}, {options})"
            case "insert" | "replace":
                return f"{space}:{operation}({_lua(a['tuple'])})"
            case "delete":
                return f"{index}:delete({_lua(a['key'])})"
            case "update":
                return f"{index}:update({_lua(a['key'])}, {_lua(a['ops'])})"
            case "upsert":
                return f"{space}:upsert({_lua(a['tuple'])}, {_lua(a['ops'])})"
            case "call":
                return f"c:call({_lua(a['function'])}, {_lua(a['arguments'])})"
        raise ValueError(f"unknown operation {operation}")


PRELUDE = """
local net, decimal, uuid, ffi = require('net.box'), require('decimal'), require('uuid'), require('ffi')
local host, port = '%s', %d
local out = {}
local main = net.connect(host, port)
local function as(user, password, call)
    local c = net.connect(host, port, {user = user, password = password})
    if c.error ~= nil then error(box.error.new({code = 0, reason = 'connect: ' .. tostring(c.error)})) end
    local ok, value = pcall(call, c)
    c:close()
    if not ok then error(value, 0) end
    return value
end
local function one(call)
    local ok, value = pcall(call, main)
    if ok then table.insert(out, {true, value})
    elseif type(value) == 'cdata' and value.code ~= nil and value.code ~= 0 then
        table.insert(out, {false, value.code, value.message, 'remote'})
    else
        local text = tostring(value):gsub('^.-%%.lua:%%d+: ', ''):gsub('script:%%d+: ', '')
        table.insert(out, {false, 0, text, 'local'})
    end
end
"""


def all_drivers(directory: Path) -> list[Driver]:
    return [Raw(), TarantoolPython(), Asynctnt(), NetBox(directory)]
